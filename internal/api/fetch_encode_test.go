package api

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// reads are reads of a log of two segments: nothing, a batch, a batch that is
// large, both of a segment, and all.
func reads(t *testing.T) [][]storage.Slice {
	t.Helper()
	m := storage.New(storage.ManagerConfig{Dirs: []string{"/data"}, ClusterID: "c"}, vfs.NewMem(), nil, nil)
	if err := m.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := storage.DefaultConfig()
	cfg.SegmentBytes = 80_000
	log, err := m.Create(kafka.TopicPartition{Topic: "t"}, kafka.TopicID{1}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{10, 70_000, 40_000} {
		var b batch.Builder
		b.Reset(batch.Options{})
		b.Append(1000, nil, bytes.Repeat([]byte{byte(size)}, size))
		buf, _, err := b.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(time.UnixMilli(1000), buf, 0, storage.FromClient); err != nil {
			t.Fatal(err)
		}
	}
	var out [][]storage.Slice
	for _, span := range [][2]int64{{0, 0}, {0, 1}, {1, 2}, {0, 2}, {0, 3}} {
		r, err := log.Read(span[0], span[1], 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Release)
		out = append(out, r.Slices)
	}
	if len(out[4]) != 2 {
		t.Fatalf("a read over two segments has %d slices", len(out[4]))
	}
	return out
}

// joined is what parts are on the wire.
func joined(t *testing.T, parts []wire.Part) []byte {
	t.Helper()
	var out []byte
	for _, p := range parts {
		if p.Mem != nil {
			out = append(out, p.Mem...)
			continue
		}
		b := make([]byte, p.File.Len())
		if err := p.File.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

// field is a choice for one field of a partition's answer.
type field struct {
	name string
	set  func(*kmsg.FetchResponseTopicPartition)
}

// The scattered answer is, byte for byte, what kmsg writes: at every version,
// with every combination of the fields that can be there or not.
func TestScatterEqualsKmsg(t *testing.T) {
	type aborted = kmsg.FetchResponseTopicPartitionAbortedTransaction
	choices := [][]field{
		{
			{"aborted=null", func(*kmsg.FetchResponseTopicPartition) {}},
			{"aborted=empty", func(p *kmsg.FetchResponseTopicPartition) { p.AbortedTransactions = []aborted{} }},
			{"aborted=2", func(p *kmsg.FetchResponseTopicPartition) {
				p.AbortedTransactions = []aborted{{ProducerID: 1 << 40, FirstOffset: 7}, {ProducerID: 3, FirstOffset: 8}}
			}},
		},
		{
			{"converging", func(*kmsg.FetchResponseTopicPartition) {}},
			{"diverging", func(p *kmsg.FetchResponseTopicPartition) {
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 4, 1<<33
			}},
			{"diverging at 0", func(p *kmsg.FetchResponseTopicPartition) { p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 0, 0 }},
		},
		{
			{"no leader", func(*kmsg.FetchResponseTopicPartition) {}},
			{"leader", func(p *kmsg.FetchResponseTopicPartition) {
				p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 2, 9
			}},
			{"leader 0", func(p *kmsg.FetchResponseTopicPartition) {
				p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 0, 0
			}},
		},
	}
	logged := reads(t)
	for version := int16(4); version <= 18; version++ {
		for brokers := range 3 {
			resp := kmsg.NewPtrFetchResponse()
			resp.Version, resp.ThrottleMillis, resp.SessionID, resp.ErrorCode = version, 12, 77, 3
			for i := range brokers {
				b := kmsg.NewFetchResponseBroker()
				b.NodeID, b.Host, b.Port = int32(i), "host", 9092
				if i > 0 {
					b.Rack = kmsg.StringPtr("rack")
				}
				resp.Brokers = append(resp.Brokers, b)
			}
			whole := kmsg.NewPtrFetchResponse()
			*whole = *resp
			s := newScatter(resp, len(choices[0])*len(choices[1]), 8)
			n := int32(0)
			for _, a := range choices[0] {
				for _, d := range choices[1] {
					topic := kmsg.NewFetchResponseTopic()
					topic.Topic, topic.TopicID = a.name+d.name, [16]byte{byte(n), 1}
					s.topic(topic.Topic, topic.TopicID, len(choices[2]))
					for _, l := range choices[2] {
						p := kmsg.NewFetchResponseTopicPartition()
						p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = n, int16(n), 1<<50, 1<<49, int64(n)
						p.RecordBatches = []byte{}
						for _, f := range []field{a, d, l} {
							f.set(&p)
						}
						slices := logged[int(n)%len(logged)]
						s.partition(&p, slices)
						for _, r := range slices {
							b := make([]byte, r.Len())
							if err := r.ReadAt(b, 0); err != nil {
								t.Fatal(err)
							}
							p.RecordBatches = append(p.RecordBatches, b...)
						}
						topic.Partitions = append(topic.Partitions, p)
						n++
					}
					s.noTags()
					whole.Topics = append(whole.Topics, topic)
				}
			}
			what := fmt.Sprintf("v%d with %d brokers", version, brokers)
			compare(t, what, joined(t, s.end()), whole)
		}
		empty := kmsg.NewPtrFetchResponse()
		empty.Version = version
		compare(t, fmt.Sprintf("v%d, nothing", version), joined(t, newScatter(empty, 0, 0).end()), empty)
	}
}

func compare(t *testing.T, what string, got []byte, want *kmsg.FetchResponse) {
	t.Helper()
	b := want.AppendTo(nil)
	if !bytes.Equal(got, b) {
		at := 0
		for at < min(len(got), len(b)) && got[at] == b[at] {
			at++
		}
		t.Errorf("%s: %d bytes, want %d; they part at %d", what, len(got), len(b), at)
	}
}
