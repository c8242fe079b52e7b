package plan

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Reassignment is the wish that a partition be held by other brokers, or in
// another order (KIP-455).
type Reassignment struct {
	Topic     string
	Partition int32
	Replicas  []kafka.NodeID // nil: the reassignment that is running ends where it began
	// FixedFactor refuses another number of replicas.
	FixedFactor bool
}

// Reassign plans the beginning of a reassignment, its replacement by another,
// or its end by nil replicas. The state names the target's replicas first, then
// those that go. What can be completed at once is, in the same transaction: not
// what takes a member out of the ISR (Outgoing). It
// compares the state's revision and the registrations of its leader and of
// every broker that comes in. ok is false when there is nothing to do.
// Refusals: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT,
// INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS.
func Reassign(img *meta.Image, r Reassignment) (c Change, ok bool, err error) {
	t, there := img.Topic(r.Topic)
	if !there {
		return Change{}, false, refuse(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", r.Topic)
	}
	if r.Partition < 0 || int(r.Partition) >= len(t.Partitions) {
		return Change{}, false, refuse(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", r.Topic, r.Partition)
	}
	p := t.Partitions[r.Partition]
	s := newSettling(img, t, p)
	if r.Replicas == nil {
		err = s.revert()
	} else {
		err = s.retarget(r)
	}
	if err != nil {
		return Change{}, false, err
	}
	c, ok = s.settle(Online)
	return c, ok, nil
}

// revert takes what a reassignment was adding out again. What is in the ISR by
// now goes as every member does that is removed: until then the state says that
// it is both added and removed. Where none of the others could go on from what
// was committed, that would lose records.
func (s *settling) revert() error {
	p := s.p
	if !p.Reassigning() {
		return refuse(kerr.NoReassignmentInProgress, "%s", kerr.NoReassignmentInProgress.Description)
	}
	adding := func(r meta.Replica) bool { return slices.Contains(p.Adding, r.Node) }
	rest := slices.DeleteFunc(slices.Clone(p.ISR), adding)
	alive := slices.ContainsFunc(p.ISR, s.there)
	if len(rest) == 0 || alive && !slices.ContainsFunc(rest, s.there) {
		return refuse(kerr.InvalidReplicaAssignment,
			"Unable to revert partition assignment for %s:%d because it would require an unclean leader election.", s.t.Name, p.Partition)
	}
	s.next.Replicas = slices.DeleteFunc(s.next.Replicas, adding)
	s.next.Adding, s.next.Removing = nil, nil
	for _, r := range p.Replicas {
		if _, in := p.InSync(r.Node); in && adding(r) {
			s.next.Replicas = append(s.next.Replicas, r)
			s.next.Adding = append(s.next.Adding, r.Node)
		}
	}
	slices.Sort(s.next.Adding)
	s.next.Removing = slices.Clone(s.next.Adding)
	return nil
}

// retarget sets another target. What is being added already and is not wanted
// any more is dropped at once, unless records may count on it: then it goes
// with the others. So the replicas that the partition had at first stay apart
// from those that are added, for as long as reassignments replace each other:
// a cancellation finds its way back, and min.insync.replicas is not bounded by
// replicas that hold nothing yet (safety 30).
func (s *settling) retarget(r Reassignment) error {
	p := s.p
	if err := s.checkTarget(r); err != nil {
		return err
	}
	var replicas []meta.Replica
	var adding, removing []kafka.NodeID
	for _, n := range r.Replicas {
		is, had := p.Replica(n)
		if !had {
			is = meta.Replica{Node: n}
			if b, ok := s.img.Broker(n); ok {
				s.more = append(s.more, kv.ModIs(s.img.Keys().Broker(n), b.ModRev))
			}
		}
		if !had || slices.Contains(p.Adding, n) {
			adding = append(adding, n)
		}
		replicas = append(replicas, is)
	}
	for _, was := range p.Replicas {
		_, in := p.InSync(was.Node)
		_, eligible := find(p.Eligible, was.Node)
		dropped := slices.Contains(p.Adding, was.Node) && !in && !eligible
		if !slices.Contains(r.Replicas, was.Node) && !dropped {
			removing = append(removing, was.Node)
		}
	}
	slices.Sort(adding)
	slices.Sort(removing)
	for _, n := range removing {
		is, _ := p.Replica(n)
		replicas = append(replicas, is)
	}
	s.next.Replicas, s.next.Adding, s.next.Removing = replicas, adding, removing
	return nil
}

func find(rs []meta.Replica, node kafka.NodeID) (meta.Replica, bool) {
	n := slices.IndexFunc(rs, func(r meta.Replica) bool { return r.Node == node })
	if n < 0 {
		return meta.Replica{}, false
	}
	return rs[n], true
}

// checkTarget refuses what cannot be. A broker that holds a replica already
// need not be there: its registration ends with its session, and it comes back.
func (s *settling) checkTarget(r Reassignment) error {
	if err := checkManual(s.img, r.Replicas, 0, s.p); err != nil {
		return err
	}
	if is := len(s.p.Target()); r.FixedFactor && is != len(r.Replicas) {
		return refuse(kerr.InvalidReplicationFactor, "The replication factor is changed from %d to %d", is, len(r.Replicas))
	}
	return nil
}

// complete ends a reassignment when all of its target is in the ISR, there and
// staying, and nobody else is (safety 30); one that was cancelled ends when
// nobody of those is in the ISR that it was adding.
func (s *settling) complete() {
	if !s.next.Reassigning() || slices.ContainsFunc(s.next.ISR, func(m meta.Replica) bool { return slices.Contains(s.next.Removing, m.Node) }) {
		return
	}
	target := s.next.Target()
	if !cancelled(s.next) {
		if !targetLeads(s.img, s.next) {
			return
		}
		for _, r := range target {
			b, _ := s.img.Broker(r.Node)
			s.more = append(s.more, kv.ModIs(s.img.Keys().Broker(r.Node), b.ModRev))
		}
	}
	s.next.Replicas, s.next.Adding, s.next.Removing = target, nil, nil
}

// cancelled says of a reassignment that it ends where it began.
func cancelled(p *meta.Partition) bool {
	return len(p.Adding) > 0 && slices.Equal(p.Adding, p.Removing)
}

// targetLeads says whether each of a reassignment's target could lead.
func targetLeads(img *meta.Image, p *meta.Partition) bool {
	return !slices.ContainsFunc(p.Target(), func(r meta.Replica) bool {
		m, in := p.InSync(r.Node)
		return !in || !canLead(img, m)
	})
}

// removable are the replicas that a reassignment takes out, in the ISR and beside
// it, when it is time: the target is in sync, or, after a cancellation, one of
// those that stay can lead.
func removable(img *meta.Image, p *meta.Partition) []kafka.NodeID {
	ready := targetLeads
	if cancelled(p) {
		ready = func(img *meta.Image, p *meta.Partition) bool {
			return slices.ContainsFunc(p.ISR, func(m meta.Replica) bool {
				return !slices.Contains(p.Removing, m.Node) && canLead(img, m)
			})
		}
	}
	if len(p.Removing) == 0 || !ready(img, p) {
		return nil
	}
	return p.Removing
}

// Outgoing are replicas that are not to stay in the ISR, nor to come back into it:
// those that a reassignment takes out, and members whose brokers are leaving,
// unless that would leave fewer than least in the ISR. Only their leader knows
// when they may go: one of them may have led, and not know yet that it does not.
// Whoever is not in the ISR has no say in the high watermark, so a former leader that goes unheard
// would tell its clients a mark that others have passed, and with a clean
// conscience: its session holds (safety 18, 35).
func Outgoing(img *meta.Image, t *meta.Topic, p *meta.Partition) (removed, leaving []kafka.NodeID, least int) {
	removed = removable(img, p)
	for _, m := range p.ISR {
		if b, ok := img.Broker(m.Node); ok && b.Leaving && !slices.Contains(removed, m.Node) {
			leaving = append(leaving, m.Node)
		}
	}
	return removed, leaving, MinInsync(img, t, p)
}
