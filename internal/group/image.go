package group

import (
	"encoding/binary"
	"maps"
	"slices"
	"unicode/utf16"

	"github.com/zeebo/xxh3"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// newImage takes another image of the metadata. Groups that read a topic which
// changed compare their topics at the next heartbeat of any member, as in Apache Kafka.
func (s *step) newImage(c *NewImage) {
	if c.Image.Revision() < s.image.Revision() {
		return // the machine began with a newer one
	}
	old, d := s.image, c.Delta
	s.image = c.Image
	if c.Defaults != nil {
		s.cfg.ConsumerDefaults = *c.Defaults
	}
	if d == nil {
		s.checkTopics(old)
		all := meta.Diff(old, c.Image)
		d = &all
	} else {
		for _, t := range d.Deleted {
			s.topicDeleted(t.Name, t.ID)
		}
	}
	if len(d.Created) > 0 {
		s.topics.created = c.Image.Revision()
	}
	last := ""
	for _, p := range d.Partitions {
		if p.Topic.Name != last && moved(p) {
			last = p.Topic.Name
			s.topicChanged(last)
		}
	}
}

// moved says whether a change of a partition is one that assignments heed:
// leaders and ISRs come and go.
func moved(p meta.PartitionChange) bool {
	return p.Old == nil || p.New == nil || !slices.EqualFunc(p.Old.Replicas, p.New.Replicas, func(a, b meta.Replica) bool { return a.Node == b.Node })
}

func (s *step) topicChanged(name string) {
	for _, group := range s.topics.changed(name) {
		if c := s.consumerIn(group); c != nil {
			c.fresh = false
		}
	}
}

// metadataHash sums up the topics that a group reads as KIP-1101 has it: the
// number is Apache Kafka's own, so that a group that moves from one to the
// other is not rebalanced.
func (s *step) metadataHash(c *consumer) int64 {
	var all []byte
	for _, t := range s.topicsOf(c) {
		known := s.topics.names[t.Name]
		if !known.hashed {
			known.hash, known.hashed = topicHash(t.Name, t.ID, s.racks(t)), true
		}
		all = binary.LittleEndian.AppendUint64(all, known.hash)
	}
	if all == nil {
		return 0
	}
	return int64(xxh3.Hash(all))
}

// topicsOf are the topics that a group reads and that exist, by name. Members may
// name any number of others.
func (s *step) topicsOf(c *consumer) (out []*meta.Topic) {
	if len(c.topics) > s.image.TopicCount() {
		for t := range s.image.Topics() {
			if _, reads := c.topics[t.Name]; reads {
				out = append(out, t)
			}
		}
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(c.topics)) {
		if t, ok := s.image.Topic(name); ok {
			out = append(out, t)
		}
	}
	return out
}

// topicHash sums up everything about a topic that an assignor may look at.
func topicHash(name string, id kafka.TopicID, racks [][]string) uint64 {
	b := []byte{0} // version
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(id[:8]))
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(id[8:]))
	b, _ = appendText(b, name)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(racks)))
	for i, in := range racks {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
		for _, r := range slices.Sorted(slices.Values(in)) {
			at, units := len(b), 0
			b, units = appendText(append(b, 0, 0, 0, 0), r)
			binary.LittleEndian.PutUint32(b[at:], uint32(units))
		}
	}
	return xxh3.Hash(b)
}

// appendText adds a string as the hash streams of Apache Kafka's library do: its
// UTF-16 units, then their number.
func appendText(b []byte, s string) (out []byte, units int) {
	all := utf16.Encode([]rune(s))
	for _, u := range all {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(len(all))), len(all)
}

// racks are those of each partition's replicas, where they are known.
func (s *step) racks(t *meta.Topic) [][]string {
	out := make([][]string, len(t.Partitions))
	for i, p := range t.Partitions {
		for _, r := range p.Replicas {
			if b, ok := s.image.Broker(r.Node); ok && b.Rack != "" {
				out[i] = append(out[i], b.Rack)
			}
		}
	}
	return out
}
