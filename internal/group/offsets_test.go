package group

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

// The compact form holds what a map would.
func TestOffsetsArePacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o offsets
		var ts topics
		names := []*topic{ts.of("a"), ts.of("b")}
		model := map[uint64]offset{}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			tp := rapid.SampledFrom(names).Draw(t, "topic")
			p := rapid.Int32Range(0, 60).Draw(t, "partition")
			at := place(tp, p)
			_, had := model[at]
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				if o.remove(at) != had {
					t.Fatal("removed what was not there")
				}
				delete(model, at)
				continue
			}
			v := offset{
				Offset: rapid.Int64().Draw(t, "offset"), LeaderEpoch: rapid.Int32().Draw(t, "epoch"), CommitMs: rapid.Int64().Draw(t, "ms"),
				Metadata: rapid.SampledFrom([]string{"", "", "m"}).Draw(t, "metadata"),
				ExpireMs: rapid.SampledFrom([]int64{-1, -1, 5}).Draw(t, "expire"),
				TopicID:  kafka.TopicID{rapid.ByteRange(0, 2).Draw(t, "id")},
			}
			if o.put(tp, p, &v) == had {
				t.Fatal("added what was there")
			}
			model[at] = v
		}
		if !slices.Equal(o.places(true), slices.Sorted(maps.Keys(model))) || o.count() != len(model) || o.empty() != (len(model) == 0) {
			t.Fatal(o.places(true), model)
		}
		more := 0
		for at, v := range model {
			got, ok := o.get(ts.at(at), partitionOf(at))
			if !ok || got != v || !o.has(at) {
				t.Fatal(got, v)
			}
			if v.Metadata != "" || v.ExpireMs != -1 || !v.TopicID.IsZero() && v.TopicID != ts.at(at).id {
				more++
			}
		}
		if len(o.more) != more {
			t.Fatalf("%d have more, not %d", len(o.more), more)
		}
	})
}

func TestTopicNumbersAreUsedAgain(t *testing.T) {
	var ts topics
	g := &Group{id: "g"}
	for i := range 100 {
		a, b := ts.of("a"), ts.of(strconv.Itoa(i))
		a.groups[g]++
		b.groups[g]++
		if ts.at(place(a, 3)) != a || ts.at(place(b, 1<<31-1)) != b || partitionOf(place(b, -1)) != -1 {
			t.Fatal("lost")
		}
		ts.leave(b, g)
	}
	if len(ts.byNumber) != 2 || len(ts.byName) != 1 {
		t.Fatal(len(ts.byNumber), len(ts.byName))
	}
}

// wallMoved is t with another wall clock and the same monotonic reading, as
// after the clock was set.
func wallMoved(t time.Time, by time.Duration) time.Time {
	moved := t.Add(by)
	*(*int64)(unsafe.Add(unsafe.Pointer(&moved), 8)) -= int64(by) // ext: the monotonic reading
	return moved
}

// A clock that was set by more than an hour stops expiry for one interval
// (safety 26).
func TestClockJump(t *testing.T) {
	start := time.Now()
	if d := jump(start, wallMoved(start.Add(time.Minute), 2*time.Hour)); d != 2*time.Hour {
		t.Fatalf("a jump by two hours reads as %v", d)
	}
	for _, c := range []struct {
		by     time.Duration
		pauses bool
	}{{0, false}, {59 * time.Minute, false}, {2 * time.Hour, true}, {-2 * time.Hour, true}, {87600 * time.Hour, true}} {
		cfg := testConfig()
		m := New(cfg, metatest.New().Img)
		m.Loaded(start)
		out := m.Step(start, 1, &CommitOffsets{Group: "g", Generation: -1, RetentionMs: -1, Partitions: []CommitPartition{{Topic: "t", Offset: 1, LeaderEpoch: -1}}})
		timer := out.Timers[0]
		if d := timer.At.Sub(start); d < cfg.OffsetsRetention || d > cfg.OffsetsRetention+cfg.OffsetsRetentionCheck {
			t.Fatalf("looks in %v", d)
		}
		now := wallMoved(timer.At, c.by)
		out = m.Fire(now, timer.Key)
		if paused := len(out.Effects) == 1; paused != c.pauses {
			t.Fatalf("a jump by %v: effects %v", c.by, out.Effects)
		}
		if !c.pauses {
			continue
		}
		if e := out.Effects[0].(ClockJumped); e.By != c.by || len(out.Records) > 0 {
			t.Fatalf("a jump by %v: %v, %d records", c.by, e, len(out.Records))
		}
		again := out.Timers[0]
		if d := again.At.Sub(now); d < cfg.OffsetsRetentionCheck || d > 2*cfg.OffsetsRetentionCheck+time.Second {
			t.Fatalf("looks again in %v", d)
		}
		// The clock stays where it was set to, and is what counts now.
		out = m.Fire(again.At, again.Key)
		if expired := len(out.Records) == 1; len(out.Effects) > 0 || expired != (c.by > 0) {
			t.Fatalf("a jump by %v: %v, %d records after the pause", c.by, out.Effects, len(out.Records))
		}
	}
}

// A topic that was deleted while nobody coordinated the group takes its
// offsets along.
func TestLoadedFindsDeletedTopics(t *testing.T) {
	w := metatest.New()
	w.Register(1, "")
	for _, name := range []string{"t", "u"} {
		if err := w.CreateTopic(name, 1); err != nil {
			t.Fatal(err)
		}
	}
	old := w.Img
	gone, _ := w.Img.Topic("t")
	stays, _ := w.Img.Topic("u")
	if err := w.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_000_000)
	load := func(m *Machine) {
		for i, p := range []CommitPartition{{Topic: "t", TopicID: gone.ID}, {Topic: "u", TopicID: stays.ID}, {Topic: "x"}} {
			b := &offsetRecord{Group: "g" + strconv.Itoa(i), Topic: p.Topic, Value: &offset{CommitMs: 1, ExpireMs: -1, TopicID: p.TopicID}}
			key, value := encode(b)
			if err := m.Apply(coord.Record{Key: key, Value: value}, coord.Meta{Producer: coord.NoProducer}); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(m *Machine, out coord.Out) {
		t.Helper()
		i := slices.IndexFunc(out.Timers, func(t coord.Timer) bool { return t.Key.Kind == timerTopics })
		if i < 0 || out.Timers[i].At != now || len(out.Records) > 0 {
			t.Fatalf("%v", out)
		}
		m.Fire(now, out.Timers[i].Key)
		if ids := slices.Sorted(maps.Keys(m.groups)); !slices.Equal(ids, []string{"g1", "g2"}) {
			t.Fatalf("%v are left", ids)
		}
	}
	m := New(testConfig(), w.Img)
	load(m)
	check(m, m.Loaded(now))

	m = New(testConfig(), old)
	load(m)
	if out := m.Loaded(now); len(out.Timers) != 3 {
		t.Fatalf("%v", out)
	}
	check(m, m.Step(now, 0, &NewImage{Image: w.Img}))
}

// A string that a record cannot hold is refused: written down, it would be a
// record that nobody can read, and no load would get past it.
func TestLongStringsAreRefused(t *testing.T) {
	long := strings.Repeat("x", maxString+1)
	m := New(testConfig(), metatest.New().Img)
	now := time.UnixMilli(1)
	refused := func(out coord.Out, code int16) {
		t.Helper()
		if len(out.Records) > 0 || len(m.groups) > 0 {
			t.Fatal("written down")
		}
		v := reflect.ValueOf(out.Replies[0].Body).Elem()
		if c, ok := out.Replies[0].Body.(*OffsetsCommitted); ok && c.Codes[0] == code || !ok && v.FieldByName("ErrorCode").Int() == int64(code) {
			return
		}
		t.Fatalf("%+v", v)
	}
	for _, c := range []CommitOffsets{{Group: long, Partitions: []CommitPartition{{Topic: "t"}}}, {Group: "g", Partitions: []CommitPartition{{Topic: long}}}} {
		c.Generation, c.RetentionMs = -1, -1
		refused(m.Step(now, 1, &c), kerr.InvalidCommitOffsetSize.Code)
	}
	for _, set := range []func(*kmsg.ConsumerGroupHeartbeatRequest){
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = long },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = long },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &long },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &long },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &long },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{long} },
	} {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, "g", "m", 1000
		req.SubscribedTopicNames, req.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		set(req)
		refused(m.Step(now, 1, &ConsumerHeartbeat{Req: req}), kerr.InvalidRequest.Code)
	}
	for _, set := range []func(*kmsg.JoinGroupRequest){
		func(r *kmsg.JoinGroupRequest) { r.Group = long },
		func(r *kmsg.JoinGroupRequest) { r.InstanceID = &long },
		func(r *kmsg.JoinGroupRequest) { r.ProtocolType = long },
		func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = long },
	} {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis = 9, "g", "consumer", 10000
		req.Protocols = protocols("range")
		set(req)
		refused(m.Step(now, 1, &JoinGroup{Req: req, NewMemberID: "m"}), kerr.InvalidRequest.Code)
	}
}

// BenchmarkCommit is one request with one partition.
func BenchmarkCommit(b *testing.B) {
	m := New(testConfig(), metatest.New().Img)
	now := time.Now()
	m.Loaded(now)
	c := &CommitOffsets{Group: "group-1", Generation: -1, RetentionMs: -1, Partitions: []CommitPartition{{Topic: "topic", TopicID: goldenID, LeaderEpoch: 3}}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Partitions[0].Partition, c.Partitions[0].Offset = int32(i%100), int64(i)
		m.Step(now, coord.Token(i+1), c)
	}
}

// manyOffsets are a million records of the log.
func manyOffsets(groups, topics int) (log []coord.Record) {
	const n = 1_000_000
	id := goldenID
	for i := range n {
		tp := i / groups % topics
		id[0] = byte(tp)
		key, value := encode(&offsetRecord{
			Group: fmt.Sprintf("group-with-a-name-%d", i%groups), Topic: fmt.Sprintf("topic-%d", tp), Partition: int32(i / groups / topics),
			Value: &offset{Offset: int64(i), LeaderEpoch: 1, CommitMs: 1_700_000_000_000 + int64(i), ExpireMs: -1, TopicID: id},
		})
		log = append(log, coord.Record{Key: key, Value: value})
	}
	return log
}

// BenchmarkLoadOffsets loads a million offsets, and reports the memory of one.
func BenchmarkLoadOffsets(b *testing.B) {
	for _, of := range []struct{ groups, topics int }{{1000, 10}, {10_000, 10}, {1_000_000, 100}, {1, 1000}} {
		b.Run(fmt.Sprintf("%d groups", of.groups), func(b *testing.B) {
			log := manyOffsets(of.groups, of.topics)
			img := metatest.New().Img
			var before, after runtime.MemStats
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&before)
				b.StartTimer()
				m := New(testConfig(), img)
				for i := range log {
					if err := m.Apply(log[i], coord.Meta{Offset: int64(i), Producer: coord.NoProducer}); err != nil {
						b.Fatal(err)
					}
				}
				m.Loaded(time.Now())
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&after)
				if len(m.groups) != of.groups {
					b.Fatal(len(m.groups))
				}
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "B/offset")
				b.StartTimer()
			}
		})
	}
}
