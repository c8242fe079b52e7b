package group

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// The figures are what the library gives that Apache Kafka 4.4.0 computes
// them with (hash4j 0.22.0), fed as KIP-1101 says.
func TestTopicHash(t *testing.T) {
	id := kafka.TopicID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	other := kafka.TopicID{}
	binary.BigEndian.PutUint64(other[:8], ^uint64(4)) // -5
	binary.BigEndian.PutUint64(other[8:], 7)
	many := make([][]string, 300)
	for i := range many {
		many[i] = []string{"rack-" + string(rune('0'+i%3))}
	}
	foo := topicHash("foo", id, [][]string{{"b", "a"}, {"b", "c"}})
	bar := topicHash("bar.é", other, [][]string{nil})
	big := topicHash("big", id, many)
	for _, c := range []struct {
		what string
		got  uint64
		want int64
	}{{"foo", foo, -28332018123086868}, {"bar", bar, -3011916208924708146}, {"big", big, -73645671225772868}} {
		if int64(c.got) != c.want {
			t.Errorf("%s: %d, want %d", c.what, int64(c.got), c.want)
		}
	}
	var all []byte
	for _, h := range []uint64{bar, big, foo} {
		all = binary.LittleEndian.AppendUint64(all, h)
	}
	if got := int64(xxh3.Hash(all)); got != -6245187521058160426 {
		t.Errorf("group: %d", got)
	}
}

// What a group has that sets nothing itself may change while the machine lives.
func TestDefaultsChange(t *testing.T) {
	r := newRig(t)
	s := &step{Machine: r.m}
	before := s.settings("g")
	r.m.Step(r.now, 0, &NewImage{Image: r.w.Img})
	if got := s.settings("g"); got != before {
		t.Errorf("an image without other defaults changes %+v to %+v", before, got)
	}
	next := before
	next.AssignmentInterval += time.Second
	r.m.Step(r.now, 0, &NewImage{Image: r.w.Img, Defaults: &next})
	if got := s.settings("g"); got != next {
		t.Errorf("%+v, want %+v", got, next)
	}
}
