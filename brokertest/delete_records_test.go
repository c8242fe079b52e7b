package brokertest_test

import (
	"cmp"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/batch"
)

// upTo is a DeleteRecords request; offsets are those of partitions 0, 1 ...
func upTo(version int16, topic string, offsets ...int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = version, 20_000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	for n, offset := range offsets {
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = int32(n), offset
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func (p *peer) deleteRecords(req *kmsg.DeleteRecordsRequest) []kmsg.DeleteRecordsResponseTopicPartition {
	p.t.Helper()
	resp := ask[*kmsg.DeleteRecordsResponse](p, req)
	if len(resp.Topics) != 1 {
		p.t.Fatalf("delete records was answered with %d topics", len(resp.Topics))
	}
	return resp.Topics[0].Partitions
}

// NOT_LEADER_OR_FOLLOWER is tested in internal/replica: one broker leads all.
func TestADM12DeleteRecords(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("del", 1)
	for range 10 {
		p.write("del", records("x"))
	}
	for n, c := range []struct {
		what   string
		offset int64
		want   *kerr.Error
		start  int64 // afterwards
	}{
		{"below 0", -2, kerr.OffsetOutOfRange, 0},
		{"at the log start", 0, nil, 0},
		{"in the middle", 4, nil, 4},
		{"below the log start", 2, nil, 4},
		{"above the high watermark", 11, kerr.OffsetOutOfRange, 4},
		{"at the high watermark", 10, nil, 10},
	} {
		got := p.deleteRecords(upTo(int16(n%3), "del", c.offset))[0]
		wantCode(t, c.what, got.ErrorCode, c.want)
		low := c.start
		if c.want != nil {
			low = -1
		}
		if start := p.list("del", 0, -2).Offset; got.LowWatermark != low || start != c.start {
			t.Errorf("%s: low watermark %d and earliest offset %d, want %d and %d", c.what, got.LowWatermark, start, low, c.start)
		}
	}
	out := p.fetch(fetchOf(12, "del", [16]byte{}, at{0, 9, 0}))[0]
	wantCode(t, "fetch below the log start", out.ErrorCode, kerr.OffsetOutOfRange)

	p.write("del", records("y", "z"))
	if got := p.deleteRecords(upTo(2, "del", -1))[0]; got.ErrorCode != 0 || got.LowWatermark != 12 {
		t.Errorf("all that is there: %s, low watermark %d", name(got.ErrorCode), got.LowWatermark)
	}
	if got := p.write("del", records("next"))[0].BaseOffset; got != 12 {
		t.Errorf("the next record is at %d, want 12", got)
	}
}

func TestADM12CleanupPolicy(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for policy, want := range map[string]*kerr.Error{"compact": kerr.PolicyViolation, "delete": nil, "compact,delete": nil} {
		topic := strings.ReplaceAll(policy, ",", "-")
		p.create(topic, 1, "cleanup.policy="+policy)
		var b batch.Builder
		b.Reset(batch.Options{})
		b.Append(recordTime, []byte("key"), []byte("value"))
		p.write(topic, build(&b))
		got := p.deleteRecords(upTo(2, topic, 1))[0]
		wantCode(t, policy, got.ErrorCode, want)
		wantCode(t, policy+", below 0", p.deleteRecords(upTo(2, topic, -2))[0].ErrorCode, cmp.Or(want, kerr.OffsetOutOfRange))
	}
}

func TestADM12UnknownAndInternal(t *testing.T) {
	_, p := withGroups(t)
	p.create("known", 2)
	p.write("known", records("a"), records("b"))
	wantCode(t, "unknown topic", p.deleteRecords(upTo(2, "ghost", -1))[0].ErrorCode, kerr.UnknownTopicOrPartition)
	if _, there := p.topic("ghost"); there {
		t.Error("deleting records made a topic")
	}
	got := p.deleteRecords(upTo(2, "known", 1, 1, 1))
	if len(got) != 3 {
		t.Fatalf("%d answers, want 3", len(got))
	}
	wantCode(t, "partition 0", got[0].ErrorCode, nil)
	wantCode(t, "partition 1", got[1].ErrorCode, nil)
	wantCode(t, "unknown partition", got[2].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "internal topic", p.deleteRecords(upTo(2, "__consumer_offsets", -1))[0].ErrorCode, kerr.InvalidTopicException)
}

// A partition that is named twice, in one topic or in two, is answered once,
// and the last offset counts, as in Apache Kafka.
func TestADM12PROTO10Twice(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("twice", 2)
	p.write("twice", records("a", "b", "c"), records("d"))
	req := upTo(2, "twice", 3)
	req.Topics = append(req.Topics, upTo(2, "twice", 2, 1).Topics...)
	got := p.deleteRecords(req)
	if len(got) != 2 || got[0].LowWatermark != 2 || got[1].LowWatermark != 1 {
		t.Errorf("answered %+v, want the low watermarks 2 and 1", got)
	}
}

func TestADM12SegmentsGo(t *testing.T) {
	b := brokertest.Start(t, brokertest.Set("log.segment.bytes", "1048576"))
	p := dial(t, b)
	p.create("long", 1, "file.delete.delay.ms=0")
	for range 50 {
		p.write("long", records(strings.Repeat("x", 100_000)))
	}
	logs := func() int {
		names, err := filepath.Glob(filepath.Join(b.LogDir("long-0"), "*.log"))
		must(t, err)
		return len(names)
	}
	if n := logs(); n < 4 {
		t.Fatalf("%d segments", n)
	}
	if got := p.deleteRecords(upTo(2, "long", 50))[0]; got.LowWatermark != 50 {
		t.Errorf("low watermark %d: %s", got.LowWatermark, name(got.ErrorCode))
	}
	if n := logs(); n != 1 {
		t.Errorf("%d segments are left, want the active one", n)
	}
}
