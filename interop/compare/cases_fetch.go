//go:build interop

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

func fetchCases() []testCase {
	return []testCase{
		{"FETCH-01-oversize", fetch01},
		{"FETCH-03-bounds", fetch03},
		{"FETCH-03-log-start", fetch03start},
		{"FETCH-06-recreated", fetch06},
		{"FETCH-07-zstd", fetch07},
		{"FETCH-09-long-poll", fetch09},
		{"FETCH-09-deleted-while-waiting", fetch09delete},
		{"Fetch-unknown", fetchUnknown},
		{"Fetch-epochs", fetchEpochs},
		{"Fetch-versions", fetchVersions},
		{"Fetch-odd-fields", fetchOdd},
	}
}

func fetch01(s *session) {
	id := s.create("over", 2)
	s.put("over", 0, raw.NewBatch(1000, strings.Repeat("x", 900<<10)).MustEncode(), raw.NewBatch(1000, "small").MustEncode())
	s.put("over", 1, raw.NewBatch(1000, "one").MustEncode(), raw.NewBatch(1000, strings.Repeat("y", 900<<10)).MustEncode())
	for _, v := range []int16{4, 12, 13} {
		for _, c := range []struct {
			label      string
			max, pmax  int32
			partitions []fetchAsk
		}{
			{"all limits 1", 1, 1, []fetchAsk{{0, 0, 1}, {1, 0, 1}}},
			{"other order", 1, 1, []fetchAsk{{1, 0, 1}, {0, 0, 1}}},
			{"first partition at its end", 1, 1, []fetchAsk{{0, 2, 1}, {1, 0, 1}}},
			{"partition limit 200", 50 << 20, 200, []fetchAsk{{1, 0, 200}, {0, 0, 200}}},
			{"response limit 100", 100, 1 << 20, []fetchAsk{{1, 0, 1 << 20}, {0, 0, 1 << 20}}},
			{"response limit 0", 0, 1 << 20, []fetchAsk{{1, 0, 1 << 20}, {0, 0, 1 << 20}}},
			{"negative limits", -1, -1, []fetchAsk{{1, 0, -1}, {0, 0, -1}}},
		} {
			req := fetch(v, s.topic("over"), id, c.partitions...)
			req.MaxBytes = c.max
			r := s.do(req).(*kmsg.FetchResponse)
			for _, t := range r.Topics {
				for _, p := range t.Partitions {
					s.note("v%d %s: partition %d %s hw %d, %d bytes", v, c.label, p.Partition, errName(p.ErrorCode), p.HighWatermark, len(p.RecordBatches))
				}
			}
		}
	}
}

func fetch03(s *session) {
	s.create("bounds", 1)
	for range 20 {
		s.put("bounds", 0, raw.NewBatch(1000, "x").MustEncode())
	}
	for _, o := range []int64{-2, -1, 0, 10, 19, 20, 21, 1 << 40} {
		s.ask(fmt.Sprintf("at %d", o), fetch(12, s.topic("bounds"), [16]byte{}, fetchAsk{0, o, 80}))
	}
	start := time.Now()
	req := fetch(12, s.topic("bounds"), [16]byte{}, fetchAsk{0, 20, 0})
	req.MaxWaitMillis = 400
	s.do(req)
	s.note("at the end, max wait 400 ms: waited between 0.35 and 1.5 s: %t", within(start, 350, 1500))
	start = time.Now()
	req = fetch(12, s.topic("bounds"), [16]byte{}, fetchAsk{0, 21, 0})
	req.MaxWaitMillis = 3000
	s.do(req)
	s.note("out of range, max wait 3 s: answered at once: %t", within(start, 0, 500))
}

func within(start time.Time, lo, hi int64) bool {
	d := time.Since(start).Milliseconds()
	return d >= lo && d <= hi
}

func fetch03start(s *session) {
	s.create("start", 1)
	for range 20 {
		s.put("start", 0, raw.NewBatch(1000, "x").MustEncode())
	}
	del := kmsg.NewPtrDeleteRecordsRequest()
	del.Version, del.TimeoutMillis = 2, 5000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = s.topic("start")
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = 10
	t.Partitions = append(t.Partitions, p)
	del.Topics = append(del.Topics, t)
	s.ask("to 10", del)
	for _, o := range []int64{9, 10, 20, 21} {
		s.ask(fmt.Sprintf("at %d", o), fetch(12, s.topic("start"), [16]byte{}, fetchAsk{0, o, 80}))
	}
	s.ask("earliest", listOffsets(7, s.topic("start"), offsetAsk{0, -2, -1}))
}

func (s *session) deleteTopic(base string) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 10000
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(s.topic(base))
	req.Topics = append(req.Topics, t)
	if r := s.do(req).(*kmsg.DeleteTopicsResponse); r.Topics[0].ErrorCode != 0 {
		s.fail("delete %s: %s", base, errName(r.Topics[0].ErrorCode))
	}
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		m := s.do(metadata(9, false, s.topic(base))).(*kmsg.MetadataResponse)
		l := s.do(listOffsets(4, s.topic(base), offsetAsk{0, -1, -1})).(*kmsg.ListOffsetsResponse)
		if m.Topics[0].ErrorCode == 3 && l.Topics[0].Partitions[0].ErrorCode == 3 {
			return
		}
		if time.Now().After(deadline) {
			s.fail("topic %s is still there", base)
		}
	}
}

func fetch06(s *session) {
	old := s.create("again", 1)
	s.put("again", 0, raw.NewBatch(1000, "old").MustEncode())
	open := fetch(13, "", old, fetchAsk{0, 0, 0})
	open.SessionEpoch = 0
	r, ok := s.ask("open a session", open).(*kmsg.FetchResponse)
	if !ok {
		s.fail("no session")
	}
	s.deleteTopic("again")
	next := fetch(13, "", [16]byte{})
	next.Topics = nil
	next.SessionID, next.SessionEpoch = r.SessionID, 1
	s.ask("session after the deletion", next)
	id := s.create("again", 1)
	s.put("again", 0, raw.NewBatch(1000, "new").MustEncode())
	for e := int32(2); e <= 3; e++ {
		next.SessionEpoch = e
		s.ask("session after the creation", next)
	}
	next.SessionEpoch = 4
	next.Topics = []kmsg.FetchRequestTopic{fetchTopic("", id, fetchAsk{0, 0, 0})}
	s.ask("session, new id added", next)
	s.ask("old id, no session", fetch(13, "", old, fetchAsk{0, 0, 0}))
	both := fetch(13, "", old, fetchAsk{0, 0, 0})
	both.Topics = append(both.Topics, fetchTopic("", id, fetchAsk{0, 0, 0}))
	s.ask("old and new id", both)
	mix := fetch(12, s.topic("again"), [16]byte{}, fetchAsk{0, 0, 0})
	mix.SessionID, mix.SessionEpoch = r.SessionID, 5
	s.ask("names in a session of ids", mix)
	named := fetch(12, s.topic("again"), [16]byte{}, fetchAsk{0, 0, 0})
	named.SessionEpoch = 0
	r2, ok := s.ask("open a session of names", named).(*kmsg.FetchResponse)
	if !ok {
		s.fail("no session")
	}
	ids := fetch(13, "", id, fetchAsk{0, 0, 0})
	ids.SessionID, ids.SessionEpoch = r2.SessionID, 1
	s.ask("ids in a session of names", ids)
}

func fetch07(s *session) {
	s.create("fz", 1, "compression.type", "zstd")
	s.create("fzp", 2)
	s.put("fz", 0, raw.NewBatch(1000, "z").MustEncode())
	z := raw.NewBatch(1000, "zz")
	z.Codec = raw.Zstd
	s.put("fzp", 0, z.MustEncode())
	s.put("fzp", 1, raw.NewBatch(1000, "plain").MustEncode())
	for _, v := range []int16{4, 9, 10} {
		s.recompressed = true
		s.ask("topic codec zstd", fetch(v, s.topic("fz"), [16]byte{}, fetchAsk{0, 0, 0}))
		s.recompressed = false
		s.ask("producer's zstd, and plain", fetch(v, s.topic("fzp"), [16]byte{}, fetchAsk{0, 0, 0}, fetchAsk{1, 0, 0}))
	}
}

func fetch09(s *session) {
	s.create("poll", 1)
	other, err := raw.Dial(s.addr)
	if err != nil {
		s.fail("dial: %v", err)
	}
	defer other.Close()
	for _, acks := range []int16{1, -1} {
		end := s.do(listOffsets(4, s.topic("poll"), offsetAsk{0, -1, -1})).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset
		req := fetch(12, s.topic("poll"), [16]byte{}, fetchAsk{0, end, 0})
		req.MaxWaitMillis = 8000
		start := time.Now()
		if _, err := s.c().Send(req); err != nil {
			s.fail("send: %v", err)
		}
		time.Sleep(500 * time.Millisecond)
		if _, err := other.Do(produce(9, acks, s.topic("poll"), [16]byte{}, part{0, raw.NewBatch(1000, "x").MustEncode()})); err != nil {
			s.fail("produce: %v", err)
		}
		f, err := s.c().Read()
		if err != nil {
			s.fail("fetch: %v", err)
		}
		s.note("acks %d: woken between 0.45 and 2 s: %t", acks, within(start, 450, 2000))
		resp, err := raw.Decode(req, f)
		if err != nil {
			s.fail("fetch: %v", err)
		}
		s.out.WriteString("< " + s.dumpAnswer(resp))
	}
	many := fetch(12, s.topic("poll"), [16]byte{}, fetchAsk{0, 0, 0})
	many.MaxWaitMillis, many.MinBytes = 600, 1<<20
	start := time.Now()
	s.ask("min bytes not reached: what is there, at max wait", many)
	s.note("waited: %t", within(start, 550, 2000))
	many.MinBytes = 1
	start = time.Now()
	s.do(many)
	s.note("min bytes there: at once: %t", within(start, 0, 300))
	many.MinBytes, many.MaxWaitMillis = 1<<30, 600
	many.MaxBytes = 10
	start = time.Now()
	s.do(many)
	s.note("min bytes above max bytes: at once: %t", within(start, 0, 300))
	none := fetch(12, "", [16]byte{})
	none.Topics, none.MaxWaitMillis = nil, 600
	start = time.Now()
	s.ask("no partitions", none)
	s.note("at once: %t", within(start, 0, 300))
	bad := fetch(12, s.topic("poll"), [16]byte{}, fetchAsk{0, 2, 0}, fetchAsk{9, 0, 0})
	bad.MaxWaitMillis = 3000
	start = time.Now()
	s.ask("one partition has an error", bad)
	s.note("at once: %t", within(start, 0, 500))
}

func fetch09delete(s *session) {
	id := s.create("gone", 1)
	for _, v := range []int16{12, 13} {
		c, err := raw.Dial(s.addr)
		if err != nil {
			s.fail("dial: %v", err)
		}
		defer c.Close()
		req := fetch(v, s.topic("gone"), id, fetchAsk{0, 0, 0})
		req.MaxWaitMillis = 4000
		start := time.Now()
		if _, err := c.Send(req); err != nil {
			s.fail("send: %v", err)
		}
		time.Sleep(200 * time.Millisecond)
		if v == 13 {
			id = s.do(metadata(12, false, s.topic("gone"))).(*kmsg.MetadataResponse).Topics[0].TopicID
		}
		s.deleteTopic("gone")
		f, err := c.Read()
		if err != nil {
			s.fail("fetch: %v", err)
		}
		resp, err := raw.Decode(req, f)
		if err != nil {
			s.fail("decode: %v", err)
		}
		s.note("v%d: woken by the deletion before max wait: %t", v, within(start, 0, 3500))
		s.out.WriteString("< " + s.dumpAnswer(resp))
		s.create("gone", 1)
	}
}

func fetchUnknown(s *session) {
	id := s.create("there", 1)
	s.put("there", 0, raw.NewBatch(1000, "x").MustEncode())
	for _, v := range []int16{4, 11, 12} {
		s.ask("unknown topic", fetch(v, s.topic("nosuch"), [16]byte{}, fetchAsk{0, 0, 0}))
		s.ask("unknown partitions", fetch(v, s.topic("there"), [16]byte{}, fetchAsk{1, 0, 0}, fetchAsk{-1, 0, 0}, fetchAsk{0, 0, 0}))
		s.ask("invalid name", fetch(v, "bad name!", [16]byte{}, fetchAsk{0, 0, 0}))
	}
	for _, v := range []int16{13, 18} {
		s.ask("unknown id", fetch(v, "", [16]byte{9, 9, 9}, fetchAsk{0, 0, 0}, fetchAsk{1, 0, 0}))
		s.ask("zero id", fetch(v, "", [16]byte{}, fetchAsk{0, 0, 0}))
		s.ask("known id, unknown partition", fetch(v, "", id, fetchAsk{1, 0, 0}, fetchAsk{0, 0, 0}))
		both := fetch(v, "", [16]byte{9, 9, 9}, fetchAsk{0, 0, 0})
		both.Topics = append(both.Topics, fetchTopic("", id, fetchAsk{0, 0, 0}))
		s.ask("unknown id before known id", both)
	}
	sess := fetch(13, "", [16]byte{9, 9, 9}, fetchAsk{0, 0, 0})
	sess.SessionEpoch = 0
	sess.Topics = append(sess.Topics, fetchTopic("", id, fetchAsk{0, 0, 0}))
	if r, ok := s.ask("unknown id opens a session", sess).(*kmsg.FetchResponse); ok {
		next := fetch(13, "", [16]byte{})
		next.Topics, next.SessionID, next.SessionEpoch = nil, r.SessionID, 1
		s.ask("and again", next)
	}
}

func fetchEpochs(s *session) {
	s.create("fe", 1)
	s.put("fe", 0, raw.NewBatch(1000, "x").MustEncode())
	for _, c := range []struct {
		cur, last int32
		offset    int64
	}{{-1, -1, 0}, {0, -1, 0}, {1, -1, 0}, {-2, -1, 0}, {0, 0, 1}, {0, 0, 0}, {0, 1, 0}, {0, 5, 1}, {-1, 5, 1}, {0, 0, 2}, {1, 0, 9}} {
		req := fetch(12, s.topic("fe"), [16]byte{}, fetchAsk{0, c.offset, 0})
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = c.cur
		req.Topics[0].Partitions[0].LastFetchedEpoch = c.last
		s.ask(fmt.Sprintf("current epoch %d last fetched %d offset %d", c.cur, c.last, c.offset), req)
	}
}

func fetchVersions(s *session) {
	id := s.create("fv", 2)
	s.put("fv", 0, raw.NewBatch(1000, "a", "b", "c").MustEncode(), raw.NewBatch(1000, "d").MustEncode())
	for v := int16(4); v <= 18; v++ {
		s.ask("from the middle of a batch", fetch(v, s.topic("fv"), id, fetchAsk{0, 1, 0}, fetchAsk{1, 0, 0}))
	}
	rc := fetch(12, s.topic("fv"), id, fetchAsk{0, 1, 0})
	rc.IsolationLevel = 1
	s.ask("read committed", rc)
	rc.IsolationLevel = 5
	s.ask("isolation level 5", rc)
}

func fetchOdd(s *session) {
	id := s.create("odd", 1)
	s.put("odd", 0, raw.NewBatch(1000, "a").MustEncode())
	for _, rid := range []int32{-2, 0, 1, 77} {
		req := fetch(12, s.topic("odd"), id, fetchAsk{0, 0, 0})
		req.ReplicaID = rid
		s.ask(fmt.Sprintf("replica id %d", rid), req)
	}
	req := fetch(12, s.topic("odd"), id, fetchAsk{0, 0, 0})
	req.MinBytes, req.MaxWaitMillis = -1, -1
	s.ask("negative min bytes and wait", req)
	req = fetch(12, s.topic("odd"), id, fetchAsk{0, 0, 0})
	req.Topics[0].Partitions[0].LogStartOffset = 55
	s.ask("log start offset from a consumer", req)
	req = fetch(12, s.topic("odd"), id, fetchAsk{0, 0, 0})
	req.Rack = "nowhere"
	s.ask("rack", req)
}
