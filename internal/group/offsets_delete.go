package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

func (s *step) deleteOffsets(to coord.Token, c *DeleteOffsets) {
	out := &OffsetsDeleted{}
	s.reply(to, out)
	g := s.lookup(c.Group)
	if out.Code = refuseDelete(g); out.Code != 0 {
		return
	}
	out.Codes = make([]int16, len(c.Partitions))
	for i, p := range c.Partitions {
		if g.members != nil && g.members.subscribes(p.Topic) {
			out.Codes[i] = kerr.GroupSubscribedToTopic.Code
			continue
		}
		if t := s.committed.byName[p.Topic]; t != nil && g.offsets.has(place(t, p.Partition)) {
			s.emit(&offsetRecord{Group: g.id, Topic: t.name, Partition: p.Partition})
		}
	}
	s.review(g.id)
}

// refuseDelete is the group's error code. Members of a protocol type whose
// subscriptions we do not know are in the way.
func refuseDelete(g *Group) int16 {
	switch {
	case g == nil:
		return kerr.GroupIDNotFound.Code
	case g.members != nil && g.members.typ() == typeClassic && g.members.protocolType() != protocolConsumer && g.members.state() != stateEmpty:
		return kerr.NonEmptyGroup.Code
	}
	return 0
}

// has says whether anything is committed or pending at a place.
func (o *offsets) has(at uint64) bool {
	if o.open[at] != nil {
		return true
	}
	if o.many != nil {
		_, ok := o.many[at]
		return ok
	}
	_, ok := o.find(at)
	return ok
}

// removeOffsets emits the tombstones of everything that a group has
// committed, and of what is pending.
func (s *step) removeOffsets(g *Group) {
	for _, at := range s.committed.byTopic(g.offsets.places(true)) {
		s.removePlace(g, at)
	}
	s.review(g.id)
}

func (s *step) removePlace(g *Group, at uint64) {
	s.emit(&offsetRecord{Group: g.id, Topic: s.committed.at(at).name, Partition: partitionOf(at)})
}

// goneTopic is a topic that was deleted.
type goneTopic struct {
	name string
	id   kafka.TopicID
}

// topicDeleted has a topic's offsets removed from every group. A timer does
// it, at once: timers, unlike news of the metadata, wait until the shard can be written.
func (s *step) topicDeleted(name string, id kafka.TopicID) {
	if s.committed.byName[name] == nil {
		return
	}
	s.gone = append(s.gone, goneTopic{name, id})
	s.timer(timerTopics, "", "", s.now)
}

// topicsDue removes the offsets of deleted topics. Those that name another id
// belong to a newer topic of the name.
func (s *step) topicsDue() {
	for ; len(s.gone) > 0; s.gone = s.gone[1:] {
		t := s.committed.byName[s.gone[0].name]
		if t == nil {
			continue
		}
		for _, g := range t.in() {
			done := s.removeTopic(g, t, s.gone[0].id)
			s.review(g.id)
			if !done {
				s.timer(timerTopics, "", "", s.now)
				return
			}
		}
	}
	s.gone = nil
}

// removeTopic is false where something is left, for the step has written enough.
func (s *step) removeTopic(g *Group, t *topic, id kafka.TopicID) (done bool) {
	for _, at := range g.offsets.places(true) {
		if topicNumber(at) != t.number || !s.isOf(g, t, at, id) {
			continue
		}
		if s.enough() {
			return false
		}
		s.removePlace(g, at)
	}
	return true
}

// isOf says whether an offset at a place, committed or pending, is one of the
// topic with an id, or names none.
func (s *step) isOf(g *Group, t *topic, at uint64, id kafka.TopicID) bool {
	is := func(v offset) bool { return v.TopicID.IsZero() || v.TopicID == id }
	if v, ok := g.offsets.get(t, partitionOf(at)); ok && is(v) {
		return true
	}
	open := g.offsets.open[at]
	return open != nil && slices.ContainsFunc(open.producers, func(producer int64) bool {
		return is(s.pending.by[producer][pendingAt{g, at}].offset)
	})
}
