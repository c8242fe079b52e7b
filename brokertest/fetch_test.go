package brokertest_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/batch"
)

// Where Apache Kafka cuts a batch to fill the limit exactly, this answers with
// whole batches: a client drops the cut one anyway.
func TestFETCH01BatchLargerThanTheLimits(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	id := p.create("big", 3)
	big, small := records(strings.Repeat("x", 900_000)), records("y")
	p.write("big", bytes.Clone(big), bytes.Clone(small))
	p.write("big", bytes.Clone(small), bytes.Clone(small))
	for version := int16(4); version <= 18; version++ {
		for _, c := range []struct {
			what  string
			parts []at
			max   int32
			want  []int // bytes by partition of the request
		}{
			{"all limits 1", []at{{0, 0, 1}, {1, 0, 1}}, 1, []int{len(big), 0}},
			{"all limits 0", []at{{0, 0, 0}, {1, 0, 0}}, 0, []int{len(big), 0}},
			{"the other order", []at{{1, 0, 1}, {0, 0, 1}}, 1, []int{len(small), 0}},
			{"the first is empty", []at{{2, 0, 1}, {0, 0, 1}}, 1, []int{0, len(big)}},
			{"the first is at its end", []at{{0, 2, 1}, {1, 0, 1}}, 1, []int{0, len(small)}},
			{"partition limit of two batches", []at{{1, 0, 2 * int32(len(small))}, {0, 0, 200}}, 1 << 20, []int{2 * len(small), 0}},
			{"answer limit of one batch and a half", []at{{1, 0, 1000}, {0, 0, 1000}}, int32(len(small)) * 3 / 2, []int{len(small), 0}},
			{"a large batch comes second", []at{{1, 0, 1000}, {0, 0, 1 << 20}}, 10_000, []int{2 * len(small), 0}},
		} {
			req := fetchOf(version, "big", id, c.parts...)
			req.MaxBytes = c.max
			for i := range c.parts {
				req.Topics[0].Partitions[i].PartitionMaxBytes = c.parts[i].max // 0 as well
			}
			for i, got := range p.fetch(req) {
				if len(got.RecordBatches) != c.want[i] {
					t.Errorf("v%d, %s: partition %d returned %d bytes, want %d", version, c.what, got.Partition, len(got.RecordBatches), c.want[i])
				}
				batches(t, got.RecordBatches)
			}
		}
	}
}

// One answer stays within its limit and one batch, and the broker's own limit
// counts too; in a session the partitions take turns, so that none starves.
func TestFETCH02ManyPartitions(t *testing.T) {
	const partitions, size = 60, 50_000
	p := dial(t, brokertest.Start(t, brokertest.Set("fetch.max.bytes", "400000")))
	id := p.create("many", partitions)
	all := make([][]byte, partitions)
	for i := range all {
		all[i] = records(strings.Repeat("x", size))
	}
	whole := len(all[0])
	p.write("many", all...)
	var parts []at
	for i := range int32(partitions) {
		parts = append(parts, at{i, 0, 10 << 20})
	}
	req := fetchOf(13, "many", id, parts...)
	req.SessionEpoch = 0
	seen := map[int32]int64{}
	for round := 0; len(seen) < partitions; round++ {
		if round > partitions {
			t.Fatalf("after %d answers only %d of %d partitions had a turn", round, len(seen), partitions)
		}
		resp := ask[*kmsg.FetchResponse](p, req)
		wantCode(t, "fetch", resp.ErrorCode, nil)
		got, total := partitionsOf(resp), 0
		req = fetchOf(13, "many", id)
		req.SessionID, req.SessionEpoch = resp.SessionID, int32(round+1)
		for _, g := range got {
			total += len(g.RecordBatches)
			if len(g.RecordBatches) > 0 {
				seen[g.Partition]++
			}
		}
		if total > 400_000+whole || total < 400_000-whole {
			t.Errorf("answer %d has %d bytes, the limit is 400000", round, total)
		}
	}
}

func TestFETCH03Bounds(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	id := p.create("bounds", 1)
	for range 20 {
		p.write("bounds", records("x"))
	}
	for version := int16(4); version <= 18; version++ {
		for offset, want := range map[int64]*kerr.Error{
			-2: kerr.OffsetOutOfRange, -1: kerr.OffsetOutOfRange, 0: nil, 10: nil, 19: nil, 20: nil,
			21: kerr.OffsetOutOfRange, 1 << 40: kerr.OffsetOutOfRange,
		} {
			got := p.fetch(fetchOf(version, "bounds", id, at{0, offset, 80}))[0]
			what := fmt.Sprintf("v%d at %d", version, offset)
			wantCode(t, what, got.ErrorCode, want)
			hw, start := int64(20), int64(0)
			if want != nil {
				hw, start = -1, -1
			}
			if version < 5 {
				start = -1 // a later version's field
			}
			if got.HighWatermark != hw || got.LogStartOffset != start || got.LastStableOffset != hw {
				t.Errorf("%s: high watermark %d, lso %d, log start %d", what, got.HighWatermark, got.LastStableOffset, got.LogStartOffset)
			}
			if data := len(got.RecordBatches) > 0; data != (want == nil && offset < 20) {
				t.Errorf("%s: %d bytes", what, len(got.RecordBatches))
			}
		}
	}
	// Out of range is said at once, the end is waited at.
	req := fetchOf(12, "bounds", id, at{0, 21, 0})
	req.MaxWaitMillis = 60_000
	p.fetch(req)
	req = fetchOf(12, "bounds", id, at{0, 20, 0})
	req.MaxWaitMillis = 300
	began := time.Now()
	p.fetch(req)
	if waited := time.Since(began); waited < 300*time.Millisecond {
		t.Errorf("a fetch at the end was answered after %v, max wait is 300 ms", waited)
	}
}

// fetchSession is a session as a test drives it.
type fetchSession struct {
	p       *peer
	version int16
	topic   string
	topicID [16]byte
	id      int32
	epoch   int32
}

// next sends the session's next request, and forgets partitions.
func (s *fetchSession) next(forget []int32, parts ...at) *kmsg.FetchResponse {
	s.p.t.Helper()
	req := fetchOf(s.version, s.topic, s.topicID, parts...)
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	if forget != nil {
		f := kmsg.NewFetchRequestForgottenTopic()
		f.Topic, f.TopicID, f.Partitions = s.topic, s.topicID, forget
		req.ForgottenTopics = append(req.ForgottenTopics, f)
	}
	s.epoch++
	return ask[*kmsg.FetchResponse](s.p, req)
}

// wantParts expects exactly these partitions, each as partition:bytes:error.
func wantParts(t *testing.T, what string, resp *kmsg.FetchResponse, want ...string) {
	t.Helper()
	wantCode(t, what, resp.ErrorCode, nil)
	var got []string
	for _, p := range partitionsOf(resp) {
		data := "empty"
		if len(p.RecordBatches) > 0 {
			data = "data"
		}
		if p.ErrorCode != 0 {
			data = name(p.ErrorCode)
		}
		got = append(got, fmt.Sprintf("%d:%s", p.Partition, data))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestFETCH05Sessions(t *testing.T) {
	for _, version := range []int16{7, 12, 13, 18} {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			p := dial(t, brokertest.Start(t))
			s := &fetchSession{p: p, version: version, topic: "sess", topicID: p.create("sess", 3)}
			p.write("sess", records("x"))

			resp := s.next(nil, at{0, 0, 0}, at{1, 0, 0}, at{2, 0, 0})
			wantParts(t, "open", resp, "0:data", "1:empty", "2:empty")
			if s.id = resp.SessionID; s.id == 0 {
				t.Fatal("no session")
			}
			wantParts(t, "nothing listed", s.next(nil), "0:data")
			wantParts(t, "0 moved to its end", s.next(nil, at{0, 1, 0}))
			wantParts(t, "nothing new", s.next(nil))
			wantParts(t, "1 is forgotten", s.next([]int32{1}))
			req := produceTo(9, -1, "sess", records("x"), records("y"))
			req.Topics[0].Partitions[0].Partition = 2
			p.produce(req) // to 2 and 1
			wantParts(t, "1 and 2 have data", s.next(nil), "2:data")
			wantParts(t, "2 to its end, unknown 8 added", s.next(nil, at{2, 1, 0}, at{8, 0, 0}), "8:UNKNOWN_TOPIC_OR_PARTITION")
			wantParts(t, "the error comes again", s.next(nil), "8:UNKNOWN_TOPIC_OR_PARTITION")

			for _, wrong := range []int32{s.epoch - 1, s.epoch + 1} {
				req := fetchOf(version, "sess", s.topicID)
				req.SessionID, req.SessionEpoch = s.id, wrong
				resp := ask[*kmsg.FetchResponse](p, req)
				wantCode(t, "wrong epoch", resp.ErrorCode, kerr.InvalidFetchSessionEpoch)
				if resp.SessionID != 0 {
					t.Errorf("an error names session %d", resp.SessionID)
				}
			}
			wantParts(t, "the session lives on", s.next(nil), "8:UNKNOWN_TOPIC_OR_PARTITION") // which is looked at since, and so comes first
			wantParts(t, "out of range", s.next(nil, at{0, 50, 0}), "8:UNKNOWN_TOPIC_OR_PARTITION", "0:OFFSET_OUT_OF_RANGE")

			last := s.epoch
			s.epoch = -1
			resp = s.next(nil, at{0, 0, 0})
			wantParts(t, "close", resp, "0:data")
			if resp.SessionID != 0 {
				t.Errorf("a closed session is named: %d", resp.SessionID)
			}
			s.epoch = last
			wantCode(t, "after the close", s.next(nil).ErrorCode, kerr.FetchSessionIDNotFound)
		})
	}
}

func TestFETCH05SessionErrors(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	s := &fetchSession{p: p, version: 12, topic: "serr", topicID: p.create("serr", 1)}
	s.id, s.epoch = 12345, 1
	wantCode(t, "unknown session", s.next(nil).ErrorCode, kerr.FetchSessionIDNotFound)
	s.id, s.epoch = 0, 1
	wantCode(t, "session 0, epoch 1", s.next(nil, at{}).ErrorCode, kerr.FetchSessionIDNotFound)
	s.epoch = -5
	wantCode(t, "session 0, epoch -5", s.next(nil, at{}).ErrorCode, kerr.FetchSessionIDNotFound)
	s.id, s.epoch = 12345, -1
	wantParts(t, "unknown session, epoch -1", s.next(nil, at{}), "0:empty")

	s.id, s.epoch = 0, 0
	first := s.next(nil, at{}).SessionID
	s.id, s.epoch = first, 0
	second := s.next(nil, at{}).SessionID
	if second == 0 || second == first {
		t.Fatalf("epoch 0 with session %d opened %d", first, second)
	}
	s.id, s.epoch = first, 1
	wantCode(t, "the first is gone", s.next(nil).ErrorCode, kerr.FetchSessionIDNotFound)

	s.p, s.id, s.epoch = dial(t, b), second, 1
	wantParts(t, "from another connection", s.next(nil))
	resp := s.next([]int32{0})
	wantParts(t, "the only partition forgotten", resp)
	if resp.SessionID != 0 {
		t.Errorf("a session without partitions is kept: %d", resp.SessionID)
	}
	wantCode(t, "it is gone", s.next(nil).ErrorCode, kerr.FetchSessionIDNotFound)
}

func TestFETCH06RecreatedTopic(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	old := p.create("again", 1)
	p.write("again", records("old"))
	s := &fetchSession{p: p, version: 13, topic: "again", topicID: old}
	s.id = s.next(nil, at{}).SessionID
	p.remove("again")
	wantParts(t, "session after the deletion", s.next(nil), "0:UNKNOWN_TOPIC_OR_PARTITION")
	now := p.create("again", 1)
	p.write("again", records("new"))
	wantParts(t, "session after the creation", s.next(nil), "0:INCONSISTENT_TOPIC_ID")
	s.topicID = now
	resp := s.next(nil, at{})
	wantParts(t, "new id added", resp, "0:INCONSISTENT_TOPIC_ID", "0:data")
	if resp.Topics[0].TopicID != old || resp.Topics[1].TopicID != now {
		t.Error("the ids asked for are not echoed")
	}
	if got := values(t, batches(t, resp.Topics[1].Partitions[0].RecordBatches)); fmt.Sprint(got) != "[new]" {
		t.Errorf("the new id reads %q", got)
	}

	got := ask[*kmsg.FetchResponse](p, fetchOf(13, "", old, at{}))
	wantParts(t, "old id, no session", got, "0:UNKNOWN_TOPIC_ID")
	if got.Topics[0].TopicID != old {
		t.Error("the id asked for is not echoed")
	}
	s.version = 12
	wantCode(t, "names in a session of ids", s.next(nil, at{}).ErrorCode, kerr.FetchSessionTopicIDError)
	s.id, s.epoch = 0, 0
	s.id = s.next(nil, at{}).SessionID
	s.version = 13
	wantCode(t, "ids in a session of names", s.next(nil, at{}).ErrorCode, kerr.FetchSessionTopicIDError)
}

// The case wants UNSUPPORTED_COMPRESSION_TYPE below version 10. Apache Kafka
// 4 dropped that check, since no client that it still serves lacks the codec.
func TestFETCH07Zstd(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	id := p.create("zstd", 1, "compression.type=zstd")
	p.write("zstd", records("zzzz"))
	for version := int16(4); version <= 18; version++ {
		got := p.fetch(fetchOf(version, "zstd", id, at{}))[0]
		wantCode(t, fmt.Sprintf("v%d", version), got.ErrorCode, nil)
		if bs := batches(t, got.RecordBatches); len(bs) != 1 || bs[0].Codec() != batch.Zstd {
			t.Errorf("v%d: %d batches", version, len(bs))
		}
	}
}

// poll is a long fetch under way.
func (p *peer) poll(version int16, topic string, id [16]byte, change func(*kmsg.FetchRequest), parts ...at) func() []fetched {
	p.t.Helper()
	req := fetchOf(version, topic, id, parts...)
	req.MaxWaitMillis = 60_000 // beyond a test's patience: only a wake-up answers
	if change != nil {
		change(req)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	call, err := p.c.Send(ctx, req)
	if err != nil {
		p.t.Fatal(err)
	}
	return func() []fetched {
		p.t.Helper()
		defer cancel()
		resp, err := call.Wait(ctx)
		if err != nil {
			p.t.Fatalf("long poll: %v", err)
		}
		return partitionsOf(resp.(*kmsg.FetchResponse))
	}
}

func TestFETCH09LongPoll(t *testing.T) {
	for _, durable := range []string{"true", "false"} {
		t.Run("durable="+durable, func(t *testing.T) {
			b := brokertest.Start(t, brokertest.Set("barnabas.durable.acks", durable))
			reader, writer := dial(t, b), dial(t, b)
			id := reader.create("poll", 1)
			for offset := int64(0); offset < 50; offset++ {
				acks := int16(offset%2)*2 - 1 // 1 and -1 in turn
				wait := reader.poll(12, "poll", id, nil, at{0, offset, 0})
				writer.produce(produceTo(9, acks, "poll", records("x")))
				got := wait()[0]
				if bs := batches(t, got.RecordBatches); len(bs) != 1 || got.HighWatermark != offset+1 {
					t.Fatalf("acks %d at %d: %d batches, high watermark %d", acks, offset, len(bs), got.HighWatermark)
				}
			}
			two := func(r *kmsg.FetchRequest) { r.MinBytes = int32(2 * len(records("x"))) }
			wait := reader.poll(12, "poll", id, two, at{0, 50, 0})
			writer.write("poll", records("x"))
			writer.write("poll", records("x"))
			if bs := batches(t, wait()[0].RecordBatches); len(bs) != 2 {
				t.Errorf("%d batches when the bytes of two were asked for", len(bs))
			}
		})
	}
}

func TestFETCH09MaxWait(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	id := p.create("poll", 1)
	p.write("poll", records("x"))
	p.write("poll", records("x"))
	for _, c := range []struct {
		what   string
		waits  bool
		min    int32
		parts  []at
		answer string
	}{
		{"min bytes not reached", true, 1 << 20, []at{{0, 0, 0}}, "0:data"},
		{"min bytes there", false, 10, []at{{0, 0, 0}}, "0:data"},
		{"min bytes above max bytes", false, 1 << 30, []at{{0, 0, 0}}, "0:data"},
		{"no partitions", false, 1, nil, ""},
		{"negative min bytes", false, -1, []at{{0, 2, 0}}, "0:empty"},
		// A client that keeps asking for what is not there would spin.
		{"one partition is unknown", true, 1, []at{{0, 2, 0}, {9, 0, 0}}, "0:empty 9:UNKNOWN_TOPIC_OR_PARTITION"},
	} {
		req := fetchOf(12, "poll", id, c.parts...)
		req.MinBytes, req.MaxWaitMillis = c.min, 300
		if c.what == "min bytes above max bytes" {
			req.MaxBytes = 100 // and there is more
		}
		if !c.waits {
			req.MaxWaitMillis = 60_000
		}
		began := time.Now()
		resp := ask[*kmsg.FetchResponse](p, req)
		if waited := time.Since(began); c.waits && waited < 300*time.Millisecond {
			t.Errorf("%s: answered after %v", c.what, waited)
		}
		wantParts(t, c.what, resp, strings.Fields(c.answer)...)
	}
}

// A topic that comes while another is waited at is nothing to the wait: neither
// where it ends in time nor where records end it.
func TestFETCH09MetadataChangesMeanwhile(t *testing.T) {
	b := brokertest.Start(t)
	p, other := dial(t, b), dial(t, b)
	id := p.create("poll", 1)
	for offset := range int64(4) {
		wait := p.poll(12, "poll", id, func(r *kmsg.FetchRequest) {
			if offset%2 == 0 {
				r.MaxWaitMillis = 300
			}
		}, at{0, offset / 2, 0})
		other.create(fmt.Sprintf("new-%d", offset), 1)
		if offset%2 == 1 {
			other.write("poll", records("x"))
		}
		got := wait()[0]
		wantCode(t, fmt.Sprintf("poll %d", offset), got.ErrorCode, nil)
		if bs := batches(t, got.RecordBatches); len(bs) != int(offset%2) {
			t.Errorf("poll %d: %d batches", offset, len(bs))
		}
	}
}

func TestFETCH09DeletedWhileWaiting(t *testing.T) {
	for _, version := range []int16{12, 13} {
		b := brokertest.Start(t)
		p, admin := dial(t, b), dial(t, b)
		id := p.create("gone", 1)
		wait := p.poll(version, "gone", id, nil, at{})
		admin.remove("gone")
		got := wait()[0]
		want := kerr.UnknownTopicOrPartition
		if version >= 13 && got.ErrorCode == kerr.UnknownTopicID.Code {
			want = kerr.UnknownTopicID // the request came after the deletion
		}
		wantCode(t, fmt.Sprintf("v%d", version), got.ErrorCode, want)
	}
}

// A stop does not wait for long polls; whoever polls hears of it.
func TestFETCH09Shutdown(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	id := p.create("stop", 1)
	req := fetchOf(12, "stop", id, at{})
	req.MaxWaitMillis = 60_000
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	call, err := p.c.Send(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	b.Stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if _, err := call.Wait(ctx); ctx.Err() != nil {
		t.Errorf("the long poll neither answered nor ended: %v", err)
	}
}
