// Package isr is the arithmetic of in-sync replicas: from the positions of a
// partition's replicas to its high watermark, and from the sizes of its ISR to
// the admission of a write. It is pure: values in, values out, no clock, no
// lock. The partition's leader calls it under the partition's mutex.
//
// A position is the offset a replica can be counted on for, which it says
// itself: its flushed end on a durable topic, its written end otherwise, once its
// log is marked as one that may lose what was not synced (safety 11). -1 means
// that nothing is known of the replica in this term.
package isr

import (
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// View is what a leader knows of its partition's membership.
type View struct {
	// Committed is the ISR that the metadata store holds.
	Committed []kafka.NodeID
	// Proposed is the ISR of a transaction that is on its way and may yet be
	// applied; nil without one. A proposal is never assumed (safety 7).
	Proposed []kafka.NodeID
	// Replicas counts the partition's assigned replicas, without those that a
	// reassignment is adding (safety 30).
	Replicas int
	// MinInSync is the topic's min.insync.replicas.
	MinInSync int
	// Candidates are the assigned replicas outside the committed ISR.
	Candidates []Candidate
	// Removed are replicas that a reassignment takes out, and Leaving members of
	// the committed ISR whose brokers shut down: they go once they know of this term,
	// the latter as long as more than Least are left. Who is removed does not come
	// back: two of them would take turns.
	Removed, Leaving []kafka.NodeID
	Least            int
}

// EffectiveMin is the smallest ISR with which a write with acks=all is taken:
// min.insync.replicas, but never more than there are replicas, or a topic with
// fewer replicas than the setting could not be written at all.
func (v View) EffectiveMin() int { return min(v.MinInSync, v.Replicas) }

// Enough reports whether the committed ISR is large enough for acks=all. A
// proposal never counts: it may fail.
func (v View) Enough() bool { return len(v.Committed) >= v.EffectiveMin() }

// Position is a replica's progress in the current term.
type Position struct {
	Node   kafka.NodeID
	Offset int64
}

// HighWatermark returns the partition's new high watermark, given the one it
// has. It is the least position over the maximal ISR: the union of the
// committed one and the proposed one. A member on its way out counts until its
// removal is known, and one on its way in counts from before its transaction
// is sent, so whichever of the two turns out to be the truth, every member of
// it holds what lies below the mark.
//
// The mark never goes back, and does not advance while the committed ISR is
// smaller than EffectiveMin: a record that too few replicas hold is not
// committed, whatever acks its producer asked for (KIP-966).
func HighWatermark(v View, current int64, positions []Position) int64 {
	if len(v.Committed) == 0 || !v.Enough() {
		return current
	}
	least := int64(-1)
	for i, members := range [2][]kafka.NodeID{v.Committed, v.Proposed} {
		for _, n := range members {
			at := offsetOf(positions, n)
			if least < 0 && i == 0 || at < least {
				least = at
			}
			if at < 0 {
				return current
			}
		}
	}
	return max(current, least)
}

func offsetOf(positions []Position, n kafka.NodeID) int64 {
	i := slices.IndexFunc(positions, func(p Position) bool { return p.Node == n })
	if i < 0 {
		return -1
	}
	return positions[i].Offset
}

// LowWatermark is the offset below which no replica has anything left that is
// alive or may lead when it returns: the least log start over this replica's own,
// those of the ISR, and those of candidates that are registered or eligible.
// -1: one of them has not told its own yet.
func LowWatermark(v View, own int64, followers []Follower) int64 {
	low := own
	for _, f := range followers {
		counts := func(c Candidate) bool { return c.Node == f.Node && (c.BrokerEpoch != 0 || c.Eligible) }
		if slices.Contains(v.Committed, f.Node) || slices.ContainsFunc(v.Candidates, counts) {
			low = min(low, f.LogStart)
		}
	}
	return low
}
