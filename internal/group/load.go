package group

import (
	"maps"
	"slices"
	"time"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// Loaded sets the timers of what the log held. It writes nothing: the shard
// may not be writable yet.
func (m *Machine) Loaded(now time.Time) (out coord.Out) {
	s := &step{Machine: m, now: now, out: &out}
	m.clock.seen = now
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		switch members := g.members.(type) {
		case *classic:
			s.loadedClassic(g, members)
		case *consumer:
			s.loadedConsumer(g, members)
		}
		s.loadedOffsets(g)
	}
	s.checkTopics(m.image)
	s.settle()
	return out
}

// loadedOffsets has a group looked at when its first offset can expire, but no
// sooner than one interval from now: a clock that is wrong when a machine
// starts may be set right by then.
func (s *step) loadedOffsets(g *Group) {
	first := g.offsets.firstMs
	if g.members != nil && first != 0 {
		if since := g.members.emptySinceMs(); since >= 0 {
			first = min(first, plus(since, s.cfg.OffsetsRetention.Milliseconds()))
		}
	}
	if first != 0 || deserted(g) {
		s.lookAt(g, max(first, s.now.UnixMilli()+s.cfg.OffsetsRetentionCheck.Milliseconds()))
	}
}

// checkTopics finds topics that were deleted while nobody said so: before the
// load, or between the old image and the machine's.
func (s *step) checkTopics(old *meta.Image) {
	for _, name := range slices.Sorted(maps.Keys(s.committed.byName)) {
		if id := s.committed.byName[name].id; !id.IsZero() {
			if _, gone := s.image.Tombstone(id); gone {
				s.topicDeleted(name, id)
			}
		}
		if was, ok := old.Topic(name); ok {
			if _, still := s.image.TopicByID(was.ID); !still {
				s.topicDeleted(name, was.ID)
			}
		}
	}
}
