package group

import (
	"slices"
	"sort"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Reconciliation: each member moves from what it has to its part of the target.
// It first gives up what is not its own any more, and stays at its epoch until it
// said so; then it gets what nobody else holds any longer, at the target's
// epoch; as long as somebody does, it waits for the rest. So a partition is never
// told to two members.
//
//	  ┌───────────────nothing to give up, nothing to wait for──────────────┐
//	  ▼                                                                    │
//	stable ──another target──▶ has something to give up? ──no──▶ does somebody hold the rest?
//	                              │ yes                ▲                   │ yes      ▲
//	                              ▼                    │                   ▼          │
//	                          unrevoked ──gave it up───┴──            unreleased ──heartbeat
//
// Who does not give up within its rebalance timeout is out.

// reconcile takes a member one step further. owned is what it says that it owns;
// nil: it does not say. changed says that it reads other topics now.
func (s *step) reconcile(c *consumer, m *consumerMember, changed bool, owned []topicPartitions) *consumerMember {
	if !changed && m.settledAt(c.made.Epoch) {
		return m
	}
	r := &reconciliation{step: s, consumer: c, m: m, owned: owned}
	next := r.next(changed)
	if next == m.cur || next.equal(m.cur) {
		return m
	}
	s.emit(&currentRecord{Group: c.group, Member: m.id, Value: next})
	m = c.members[m.id]
	if !m.classic() {
		if next.State == memberUnrevokedPartitions {
			s.expectRevocation(c, m)
		} else {
			s.cancelRevocation(c, m)
		}
	}
	return m
}

// reconciliation is one step of one member.
type reconciliation struct {
	*step
	*consumer
	m     *consumerMember
	owned []topicPartitions
}

func (r *reconciliation) next(changed bool) *current {
	cur := r.m.cur
	switch cur.State {
	case memberStable:
		if cur.Epoch != r.made.Epoch {
			return r.toTarget(cur.Epoch)
		}
		return r.withoutLeft() // it reads other topics
	case memberUnrevokedPartitions:
		if !r.owns(cur.PendingRevocation) {
			return r.toTarget(cur.Epoch)
		}
		if changed {
			return r.withoutLeft()
		}
		return cur
	case memberUnreleasedPartitions:
		return r.toTarget(cur.Epoch)
	}
	return r.toTarget(r.made.Epoch) // unknown: it said that it owns nothing
}

// owns says whether the member still has some of the partitions, as far as is known.
func (r *reconciliation) owns(list []topicPartitions) bool {
	if r.owned == nil {
		return true
	}
	return slices.ContainsFunc(r.owned, func(t topicPartitions) bool {
		return slices.ContainsFunc(t.Partitions, func(p int32) bool { return has(list, t.Topic, p) })
	})
}

// reads says whether the member reads a topic that exists.
func (r *reconciliation) reads(topic kafka.TopicID) bool {
	t, exists := r.step.image.TopicByID(topic)
	if !exists {
		return false
	}
	_, named := slices.BinarySearch(r.m.meta.Topics, t.Name)
	if re := r.resolved[r.m.meta.regex()]; re != nil && !named {
		_, named = slices.BinarySearch(re.Topics, t.Name)
	}
	return named
}

// toTarget gives up what is not in the target, or takes what is free of it.
// epoch is the member's as long as it has something to give up.
func (r *reconciliation) toTarget(epoch int32) *current {
	target, assigned := r.targets[r.m.id], r.m.cur.Assigned
	var keep, grown, revoke []topicPartitions
	waits := false
	for _, id := range unionOf(targetOf(target).Topics, assigned) {
		var want []int32
		if r.reads(id) {
			want = target[id]
		}
		t := r.split(id, want, partitionsOf(assigned, id))
		waits = waits || t.waits
		keep, grown, revoke = appendParts(keep, t.keep), appendParts(grown, t.grown), appendParts(revoke, t.revoke)
	}
	if len(revoke) > 0 && r.owns(revoke) {
		return &current{Epoch: epoch, PreviousEpoch: r.m.cur.Epoch, State: memberUnrevokedPartitions, Assigned: keep, PendingRevocation: revoke}
	}
	out := &current{Epoch: r.made.Epoch, PreviousEpoch: r.m.cur.Epoch, State: memberStable, Assigned: grown}
	if waits {
		out.State = memberUnreleasedPartitions
	}
	return out
}

// split is one topic of a step: what stays, that with what is added, and what goes.
type split struct {
	keep, grown, revoke topicPartitions
	waits               bool // somebody else has what is to be added
}

func (r *reconciliation) split(id kafka.TopicID, want []int32, has topicPartitions) (out split) {
	out.keep.Topic, out.grown.Topic, out.revoke.Topic = id, id, id
	for i, p := range has.Partitions {
		if _, stays := slices.BinarySearch(want, p); !stays {
			out.revoke = out.revoke.with(p, has.Epochs[i])
		}
	}
	for _, p := range want {
		if i, ok := slices.BinarySearch(has.Partitions, p); ok {
			out.keep, out.grown = out.keep.with(p, has.Epochs[i]), out.grown.with(p, has.Epochs[i])
		} else if r.held(id, p, r.m.id) {
			out.waits = true
		} else {
			out.grown = out.grown.with(p, r.made.Epoch)
		}
	}
	return out
}

// withoutLeft gives up the topics that the member reads no longer; the rest
// waits for the next target.
func (r *reconciliation) withoutLeft() *current {
	cur := r.m.cur
	var keep, gone []topicPartitions
	for _, t := range cur.Assigned {
		if r.reads(t.Topic) {
			keep = append(keep, t)
		} else {
			gone = append(gone, t)
		}
	}
	if len(gone) == 0 {
		return cur
	}
	revoke := gone
	if len(cur.PendingRevocation) > 0 {
		revoke = nil
		for _, id := range unionOf(cur.PendingRevocation, gone) {
			revoke = append(revoke, joined(partitionsOf(cur.PendingRevocation, id), partitionsOf(gone, id)))
		}
	}
	next := *cur
	next.Epoch, next.PreviousEpoch, next.Assigned = cur.Epoch, cur.Epoch, keep
	if r.owns(revoke) {
		next.State, next.PendingRevocation = memberUnrevokedPartitions, revoke
	}
	return &next
}

// uses is what a member may still use: what it has and what it is to give up.
func (m *consumerMember) uses() []topicPartitions {
	list := make([]topicPartitions, 0, len(m.cur.Assigned)+len(m.cur.PendingRevocation))
	for _, id := range unionOf(m.cur.Assigned, m.cur.PendingRevocation) {
		list = append(list, joined(partitionsOf(m.cur.PendingRevocation, id), partitionsOf(m.cur.Assigned, id)))
	}
	return list
}

// Lists of partitions, in order of topic id and partition.

func (t topicPartitions) equal(o topicPartitions) bool {
	return t.Topic == o.Topic && slices.Equal(t.Partitions, o.Partitions) && slices.Equal(t.Epochs, o.Epochs)
}

func (t topicPartitions) with(p, epoch int32) topicPartitions {
	t.Partitions, t.Epochs = append(t.Partitions, p), append(t.Epochs, epoch)
	return t
}

func (v *current) equal(o *current) bool {
	return v.Epoch == o.Epoch && v.PreviousEpoch == o.PreviousEpoch && v.State == o.State &&
		slices.EqualFunc(v.Assigned, o.Assigned, topicPartitions.equal) &&
		slices.EqualFunc(v.PendingRevocation, o.PendingRevocation, topicPartitions.equal)
}

func appendParts(list []topicPartitions, t topicPartitions) []topicPartitions {
	if len(t.Partitions) == 0 {
		return list
	}
	return append(list, t)
}

// joined is two parts of one topic in one; of two epochs the second counts.
func joined(a, b topicPartitions) topicPartitions {
	if len(a.Partitions) == 0 {
		return b
	}
	out := topicPartitions{Topic: a.Topic, Partitions: slices.Clone(b.Partitions), Epochs: slices.Clone(b.Epochs)}
	for i, p := range a.Partitions {
		if at, there := slices.BinarySearch(out.Partitions, p); !there {
			out.Partitions, out.Epochs = slices.Insert(out.Partitions, at, p), slices.Insert(out.Epochs, at, a.Epochs[i])
		}
	}
	return out
}

func partitionsOf(list []topicPartitions, id kafka.TopicID) topicPartitions {
	at, ok := sort.Find(len(list), func(i int) int { return compareIDs(id, list[i].Topic) })
	if !ok {
		return topicPartitions{Topic: id}
	}
	return list[at]
}

func has(list []topicPartitions, id kafka.TopicID, partition int32) bool {
	_, ok := slices.BinarySearch(partitionsOf(list, id).Partitions, partition)
	return ok
}

// within says whether all of a is in b, down to topics without partitions.
func within(a, b []topicPartitions) bool {
	return !slices.ContainsFunc(a, func(t topicPartitions) bool {
		in := partitionsOf(b, t.Topic).Partitions
		return len(in) == 0 || slices.ContainsFunc(t.Partitions, func(p int32) bool {
			_, ok := slices.BinarySearch(in, p)
			return !ok
		})
	})
}

func unionOf(a, b []topicPartitions) []kafka.TopicID {
	var ids []kafka.TopicID
	for _, t := range slices.Concat(a, b) {
		ids = append(ids, t.Topic)
	}
	slices.SortFunc(ids, compareIDs)
	return slices.Compact(ids)
}
