package plan

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Member is a replica that a leader wants in the ISR. BrokerEpoch is the one
// that its last Fetch carried (KIP-903).
type Member struct {
	Node        kafka.NodeID
	BrokerEpoch int64
}

// ISRChange is a leader's proposal of another ISR.
type ISRChange struct {
	Partition         meta.PartitionID
	Leader            kafka.NodeID
	LeaderBrokerEpoch int64
	LeaderEpoch       kafka.LeaderEpoch
	ISR               []Member // the leader among them
}

// ChangeISR plans a leader's change of its ISR, and completes a reassignment
// that is over with it. It compares the partition's revision, the leader's
// incarnation and the registration of every member that comes in (safety 9).
// Refusals: UNKNOWN_TOPIC_ID, FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER,
// INVALID_REQUEST, INELIGIBLE_REPLICA.
func ChangeISR(img *meta.Image, r ISRChange) (Change, error) {
	t, p, ok := img.Partition(r.Partition)
	if !ok {
		return Change{}, refuse(kerr.UnknownTopicID, "no partition %s", r.Partition)
	}
	if p.LeaderEpoch > r.LeaderEpoch {
		return Change{}, refuse(kerr.FencedLeaderEpoch, "leader epoch of %s is %d, not %d", r.Partition, p.LeaderEpoch, r.LeaderEpoch)
	}
	if p.LeaderEpoch < r.LeaderEpoch {
		return Change{}, ErrStale
	}
	if p.Leader != r.Leader || p.LeaderBrokerEpoch != r.LeaderBrokerEpoch {
		return Change{}, refuse(kerr.NotLeaderForPartition, "leader of %s is broker %d of epoch %d", r.Partition, p.Leader, p.LeaderBrokerEpoch)
	}
	next := p.Clone()
	next.ISR = nil
	var joined []kv.Cmp
	for _, m := range r.ISR {
		member, cmps, err := admit(img, p, m)
		if err != nil {
			return Change{}, err
		}
		if _, twice := next.InSync(m.Node); twice {
			return Change{}, refuse(kerr.InvalidRequest, "broker %d stands twice in the new ISR of %s", m.Node, r.Partition)
		}
		next.ISR = append(next.ISR, member)
		joined = append(joined, cmps...)
	}
	if _, ok := next.InSync(p.Leader); !ok {
		return Change{}, refuse(kerr.InvalidRequest, "the new ISR of %s is without its leader %d", r.Partition, p.Leader)
	}
	s := newSettling(img, t, p)
	s.next = next
	s.complete() // with those who went it is over, or too few replicas would be left for min.insync.replicas
	joined = append(joined, s.more...)
	next.Eligible = remainEligible(p, next, s.eligible, MinInsync(img, t, next))
	own, ok := img.Broker(p.Leader)
	if !ok || own.Epoch != r.LeaderBrokerEpoch {
		return Change{}, ErrStale
	}
	cmps := assumed(img, t, p, next)
	// A leader that is leaving, or lost another directory, still leads: its
	// incarnation is what matters here, not its registration's last change.
	cmps[1] = kv.CreatedAt(img.Keys().Broker(own.ID), own.Epoch)
	return Change{Next: next, If: append(cmps, joined...)}, nil
}

// admit gives a member of the next ISR. One that is in already stays as it is,
// with the directory that joined.
func admit(img *meta.Image, p *meta.Partition, m Member) (meta.Replica, []kv.Cmp, error) {
	if was, ok := p.InSync(m.Node); ok {
		return was, nil, nil
	}
	r, ok := p.Replica(m.Node)
	if !ok {
		return r, nil, refuse(kerr.InvalidRequest, "broker %d is no replica of %s", m.Node, p.ID())
	}
	b, ok := img.Broker(m.Node)
	switch {
	case !ok || b.Epoch != m.BrokerEpoch:
		return r, nil, refuse(kerr.IneligibleReplica, "broker %d is not registered with epoch %d", m.Node, m.BrokerEpoch)
	case b.Leaving:
		return r, nil, refuse(kerr.IneligibleReplica, "broker %d is shutting down", m.Node)
	case !b.Serves(r.Dir):
		return r, nil, refuse(kerr.IneligibleReplica, "directory %s of broker %d is not online", r.Dir, m.Node)
	}
	return r, []kv.Cmp{kv.ModIs(img.Keys().Broker(b.ID), b.ModRev)}, nil
}

// Assignment names the directory that holds a broker's replica.
type Assignment struct {
	Partition meta.PartitionID
	Dir       kafka.DirID
	// HasLog says that the directory holds the log that was reported lost: the
	// member that stayed in the ISR for it can lead again.
	HasLog bool
}

// AssignDirs plans that node holds replicas in certain directories (KIP-858,
// safety 3). Partitions that are gone, that node does not hold, or that say so
// already are left out. A member of the ISR that joined with another directory
// keeps it: it has to leave the ISR first. Refusal: STALE_BROKER_EPOCH.
func AssignDirs(img *meta.Image, node kafka.NodeID, brokerEpoch int64, as []Assignment) ([]Batch, error) {
	b, err := registered(img, node, brokerEpoch)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, a := range as {
		t, p, ok := img.Partition(a.Partition)
		if !ok {
			continue
		}
		next := p.Clone()
		named := func(rs []meta.Replica, always bool) {
			for n, r := range rs {
				if r.Node == node && (always || r.Dir == kafka.DirUnassigned || a.HasLog && r.Dir == kafka.DirLost) {
					rs[n].Dir = a.Dir
				}
			}
		}
		named(next.Replicas, true)
		named(next.ISR, false)
		named(next.Eligible, false)
		if slices.Equal(next.Replicas, p.Replicas) && slices.Equal(next.ISR, p.ISR) && slices.Equal(next.Eligible, p.Eligible) {
			continue
		}
		if len(eligible(img, t, p)) == 0 {
			next.Eligible = nil
		}
		changes = append(changes, Change{Next: next, If: assumed(img, t, p, next)})
	}
	own := kv.CreatedAt(img.Keys().Broker(b.ID), b.Epoch)
	return Batches(img.Keys(), []kv.Cmp{own}, changes), nil
}

// Loss is a replica that a broker no longer has, or not in the directory that
// joined the ISR, or not whole.
type Loss struct {
	Partition meta.PartitionID
	// Doubtful: the log is there, and may lack records that it was counted on for.
	Doubtful bool
	// LogMissing: the directory named is there, and the log is not in it.
	LogMissing bool
	// Anew: the log does not come back, for none of the broker's directories is
	// offline. A replica that nobody counts on is made anew, and follows.
	Anew bool
}

// Resign plans that node leaves ISR and eligible leaders of what it lost; it
// does so before it registers, and while nobody is registered as node (safety
// 3): of a registration that is still there a leader would let the replica in
// again, and it may be another broker's of that number. A sole member stays, without a
// leader: electable when its directory returns with the log, else only by an
// unclean election. What is lost for good, and neither in the ISR nor eligible,
// has no directory any more, like a replica that was never there.
//
// A doubtful log (safety 11) leaves as well, but for one that is the last: nobody
// has more than it. Where it is the sole member, and others are eligible, they
// are the ISR, since they have everything that was committed.
func Resign(img *meta.Image, node kafka.NodeID, losses []Loss) []Batch {
	var changes []Change
	for _, l := range losses {
		t, p, ok := img.Partition(l.Partition)
		if !ok {
			continue
		}
		if c, ok := resign(img, t, p, node, l); ok {
			changes = append(changes, c)
		}
	}
	return Batches(img.Keys(), []kv.Cmp{kv.Absent(img.Keys().Broker(node))}, changes)
}

// Waiver is a replica whose log is lost for good.
type Waiver struct {
	Partition meta.PartitionID
	Dir       kafka.DirID // that the state names
}

// GiveUp plans that node has no copy any more, and is not eligible, where its log
// is lost for good and the ISR goes on without it: the replica is made anew, and
// follows. It is for a sole member of an ISR that came back without its log
// (Resign leaves that) once another leads. States that name another directory by
// now are left out. Refusal: STALE_BROKER_EPOCH.
func GiveUp(img *meta.Image, node kafka.NodeID, brokerEpoch int64, lost []Waiver) ([]Batch, error) {
	b, err := registered(img, node, brokerEpoch)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, l := range lost {
		t, p, ok := img.Partition(l.Partition)
		if !ok {
			continue
		}
		r, has := p.Replica(node)
		if _, counts := p.InSync(node); !has || counts || r.Dir != l.Dir || r.Dir == kafka.DirUnassigned {
			continue
		}
		next := p.Clone()
		next.Eligible = without(eligible(img, t, p), node)
		unname(next.Replicas, node)
		changes = append(changes, Change{Next: next, If: assumed(img, t, p, next)})
	}
	own := kv.CreatedAt(img.Keys().Broker(b.ID), b.Epoch)
	return Batches(img.Keys(), []kv.Cmp{own}, changes), nil
}

func resign(img *meta.Image, t *meta.Topic, p *meta.Partition, node kafka.NodeID, l Loss) (Change, bool) {
	was := p.Clone()
	was.Eligible = without(eligible(img, t, p), node)
	_, counts := p.InSync(node)
	switch sole := counts && len(p.ISR) == 1; {
	case !sole:
		was.ISR = without(p.ISR, node)
	case l.Doubtful && len(was.Eligible) == 0:
		return Change{}, false
	case l.Doubtful:
		was.ISR, was.Eligible = was.Eligible, nil
	case l.LogMissing:
		was.ISR[0].Dir = kafka.DirLost
	}
	next := was
	if c, ok := Settle(img, t, was, Online); ok {
		next = c.Next
		// A replica that lost its log has nothing to be eligible for.
		next.Eligible = without(next.Eligible, node)
	} else if p.Leader == node {
		next = was.Clone()
		next.Leader, next.LeaderBrokerEpoch, next.LastKnownLeader = kafka.NoNode, 0, node
		next.LeaderEpoch++
	}
	if len(next.ISR) >= MinInsync(img, t, next) {
		next.Eligible = nil
	}
	if _, counts := next.InSync(node); l.Anew && !counts {
		next = next.Clone()
		unname(next.Replicas, node)
	}
	if next.Leader == p.Leader && slices.Equal(next.ISR, p.ISR) && slices.Equal(next.Eligible, p.Eligible) && slices.Equal(next.Replicas, p.Replicas) {
		return Change{}, false
	}
	return Change{Next: next, If: assumed(img, t, p, next)}, true
}

// unname says that a node has no copy: it makes one.
func unname(rs []meta.Replica, node kafka.NodeID) {
	for n := range rs {
		if rs[n].Node == node {
			rs[n].Dir = kafka.DirUnassigned
		}
	}
}
