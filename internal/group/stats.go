package group

import (
	"maps"
	"slices"
	"time"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// What ListGroups calls the types and states that are asked for by name.
const (
	typeClassic      = "classic"
	stateEmpty       = "Empty"
	stateStable      = "Stable"
	protocolConsumer = "consumer"
)

// observe goes through all groups: it is for whoever collects metrics, and not
// often.
func (s *step) observe(to coord.Token) {
	all := make([]Stats, 0, len(s.groups))
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		all = append(all, s.stats(s.groups[id]))
	}
	s.reply(to, all)
}

func (s *step) stats(g *Group) Stats {
	st := Stats{
		Group: g.id, Type: typeClassic, State: stateEmpty, Rebalances: g.rebalances, Commits: g.commits,
		Offsets: make([]StatsOffset, 0, g.offsets.count()),
	}
	if g.members != nil {
		st.Type, st.State, st.Members = g.members.typ(), g.members.state(), g.members.size()
	}
	for _, at := range s.committed.byTopic(g.offsets.places(false)) {
		t := s.committed.at(at)
		v, _ := g.offsets.get(t, partitionOf(at))
		st.Offsets = append(st.Offsets, StatsOffset{
			TopicPartition: kafka.TopicPartition{Topic: t.name, Partition: partitionOf(at)},
			Offset:         v.Offset, At: time.UnixMilli(v.CommitMs),
		})
	}
	return st
}
