package group

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

func (s *step) fetchOffsets(to coord.Token, c *FetchOffsets) {
	out := &OffsetsFetched{}
	s.reply(to, out)
	g := s.lookup(c.Group)
	if g != nil && g.members != nil {
		if out.Code = codeOf(g.members.checkFetch(c)); out.Code != 0 {
			return
		}
	}
	if c.Topics == nil {
		if g != nil {
			out.Topics = s.fetchAll(g, c.RequireStable)
		}
		return
	}
	out.Topics = make([]FetchedTopic, len(c.Topics))
	for i := range c.Topics {
		asked := &c.Topics[i]
		found := make([]FetchedOffset, len(asked.Partitions))
		t := s.committed.byName[asked.Name]
		for j, p := range asked.Partitions {
			found[j] = noOffset(p)
			if g != nil && t != nil {
				found[j] = g.offsets.fetch(t, p, asked.ID, c.RequireStable)
			}
		}
		out.Topics[i] = FetchedTopic{asked.Name, found}
	}
}

// fetchAll gives every committed offset, by topic and partition.
func (s *step) fetchAll(g *Group, stable bool) (all []FetchedTopic) {
	for _, at := range s.committed.byTopic(g.offsets.places(false)) {
		t := s.committed.at(at)
		if n := len(all); n == 0 || all[n-1].Name != t.name {
			all = append(all, FetchedTopic{Name: t.name})
		}
		last := &all[len(all)-1]
		last.Partitions = append(last.Partitions, g.offsets.fetch(t, partitionOf(at), kafka.TopicID{}, stable))
	}
	return all
}

func noOffset(partition int32) FetchedOffset {
	return FetchedOffset{Partition: partition, Offset: -1, LeaderEpoch: -1}
}

// fetch gives the committed offset of a partition. That of an earlier topic of
// the name is none (id zero: any will do). An open transaction may yet
// replace it, which whoever asks for stable offsets is not to see (KIP-447).
func (o *offsets) fetch(t *topic, partition int32, id kafka.TopicID, stable bool) FetchedOffset {
	f := noOffset(partition)
	if stable && o.open[place(t, partition)] != nil {
		f.Code = kerr.UnstableOffsetCommit.Code
		return f
	}
	v, ok := o.get(t, partition)
	if ok && (v.TopicID.IsZero() || id.IsZero() || v.TopicID == id) {
		f.Offset, f.LeaderEpoch, f.Metadata = v.Offset, v.LeaderEpoch, v.Metadata
	}
	return f
}
