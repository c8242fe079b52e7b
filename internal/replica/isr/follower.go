package isr

import (
	"slices"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Candidate is an assigned replica that is not in the ISR, as the metadata
// image shows it.
type Candidate struct {
	Node kafka.NodeID
	// BrokerEpoch is that of its registration; 0 without one.
	BrokerEpoch int64
	// May: it is registered, does not shut down, and serves the directory that
	// holds the replica (KIP-841, KIP-858).
	May bool
	// Eligible: it can be elected with what it has (KIP-966).
	Eligible bool
}

// Claim is what a follower's Fetch says of its log. Only a fetch that was
// answered without a divergence, at an offset within the leader's log, is one
// (safety 9).
type Claim struct {
	Node        kafka.NodeID
	BrokerEpoch int64 // -1 where the follower does not say it
	// Fetched is the offset that it reads at: its written end.
	Fetched int64
	// Counted is the offset that it can be counted on for. -1: it says nothing, and
	// has nothing flushed.
	Counted int64
	// LogStart is where its log starts, for good.
	LogStart int64
	// Knows the leader epoch: the fetch named it.
	Knows bool
}

// Follower is what a leader knows, in its present term, of a replica.
type Follower struct {
	Node        kafka.NodeID
	BrokerEpoch int64 // of its last claim
	Fetched     int64 // -1: unknown
	// Position is the offset that it can be counted on for; -1: unknown.
	Position int64
	// LogStart is where its log starts; -1: unknown.
	LogStart int64
	// CaughtUp is the last time at which the leader is known to have had nothing
	// that the follower has not got since; zero: never in this term.
	CaughtUp time.Time
	// Heard: it knows of this term. Until then it may take itself for the leader.
	Heard bool

	// What the leader had at a time that no claim has reached yet: the claim that
	// does shows that the follower was caught up then. One such mark at a time,
	// so that a disk that is always one flush behind still counts as keeping up.
	mark   int64
	marked time.Time
}

// Unknown is a follower that has not fetched in the term that begins at now.
// One in the ISR has the time that it may lag from now on.
func Unknown(node kafka.NodeID, inSync bool, now time.Time) Follower {
	f := Follower{Node: node, BrokerEpoch: -1, Fetched: -1, Position: -1, LogStart: -1}
	if inSync {
		f.CaughtUp = now
	}
	return f
}

// Fetch takes over a claim that came at now, when the leader's log ended at end.
// A claim of an earlier incarnation of the broker
// is none, and one of a later incarnation says nothing about the time before.
func (f Follower) Fetch(c Claim, end int64, now time.Time) Follower {
	switch {
	case c.BrokerEpoch < f.BrokerEpoch:
		return f
	case c.BrokerEpoch > f.BrokerEpoch && f.BrokerEpoch >= 0:
		caught := f.CaughtUp // it is the leader's patience, not a promise
		f = Unknown(f.Node, false, now)
		f.CaughtUp = caught
	}
	f.BrokerEpoch, f.Fetched, f.LogStart = c.BrokerEpoch, c.Fetched, c.LogStart
	f.Position, f.Heard = min(c.Counted, c.Fetched), f.Heard || c.Knows
	switch {
	case f.Position >= end:
		f.CaughtUp, f.marked = now, time.Time{}
	case f.marked.IsZero():
		f.mark, f.marked = end, now
	case f.Position >= f.mark:
		f.CaughtUp = f.marked
		f.mark, f.marked = end, now
	}
	return f
}

// KeepsUp reports that the follower has all that the leader has, or had it no
// longer than lag ago.
func (f Follower) KeepsUp(end int64, now time.Time, lag time.Duration) bool {
	return f.Position >= end || !f.CaughtUp.IsZero() && now.Sub(f.CaughtUp) <= lag
}

// Reached reports that the follower may come into the ISR: it has what is
// committed, and what the term began with. Below the start of the term the high
// watermark may still be behind what the last leader committed (KAFKA-7128).
func (f Follower) Reached(hw, epochStart int64) bool { return f.Position >= max(hw, epochStart) }

// Term is what a leader goes by: the view, the offset at which its term began,
// its own log end and position, its followers, and the patience it has with
// them.
type Term struct {
	View
	Self       kafka.NodeID
	EpochStart int64
	End        int64
	Position   int64 // of its own log
	HW         int64
	Followers  []Follower
	Lag        time.Duration // replica.lag.time.max.ms
	// Session is for how long a broker that hears nothing of this term may still
	// serve clients in an earlier one (safety 31, 33).
	Session time.Duration
}

// Mark returns the high watermark. It waits for those who are about to come
// into the ISR: under load they would never reach a mark that runs ahead of
// them.
func (t *Term) Mark(now time.Time) int64 {
	positions := append(make([]Position, 0, len(t.Followers)+1), Position{t.Self, t.Position})
	for _, f := range t.Followers {
		positions = append(positions, Position{f.Node, f.Position})
	}
	hw := HighWatermark(t.View, t.HW, positions)
	for _, f := range t.Followers {
		if hw > f.Position && !t.member(f.Node) && t.may(f) && f.KeepsUp(t.End, now, t.Lag) {
			hw = max(t.HW, f.Position)
		}
	}
	return hw
}

func (t *Term) member(n kafka.NodeID) bool {
	return slices.Contains(t.Committed, n) || slices.Contains(t.Proposed, n)
}

// may: the image allows that incarnation of the follower in.
func (t *Term) may(f Follower) bool {
	if slices.Contains(t.Removed, f.Node) {
		return false
	}
	i := slices.IndexFunc(t.Candidates, func(c Candidate) bool { return c.Node == f.Node })
	return i >= 0 && t.Candidates[i].May && t.Candidates[i].BrokerEpoch == f.BrokerEpoch
}

// Change returns the ISR that the leader should propose, or nil for the one
// that there is: with those who have caught up, without those who have not for
// longer than Lag, and without those who are to go and know that another leads.
// While a proposal is on its way there is no other. The leader stands first, the
// others in the order of the followers.
func (t *Term) Change(now time.Time) []kafka.NodeID {
	if t.Proposed != nil || !slices.Contains(t.Committed, t.Self) {
		return nil
	}
	next := []kafka.NodeID{t.Self}
	changed := false
	for _, f := range t.Followers {
		in := slices.Contains(t.Committed, f.Node)
		stays := in && f.KeepsUp(t.End, now, t.patience(f)) && !(f.Heard && slices.Contains(t.Removed, f.Node))
		comes := !in && t.may(f) && f.Reached(t.HW, t.EpochStart)
		if stays || comes {
			next = append(next, f.Node)
		}
		changed = changed || in != (stays || comes)
	}
	for _, f := range t.Followers {
		if f.Heard && len(next) > t.Least && slices.Contains(next, f.Node) && slices.Contains(t.Leaving, f.Node) {
			next = slices.DeleteFunc(next, func(n kafka.NodeID) bool { return n == f.Node })
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return next
}

// patience with a follower that lags. One that does not know of this term may
// have led an earlier one, and takes itself for the leader until its session is
// over: out of the ISR it would not hold back a mark that it does not see.
func (t *Term) patience(f Follower) time.Duration {
	if !f.Heard {
		return max(t.Lag, t.Session)
	}
	return t.Lag
}
