package api

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/replica"
)

// state is a partition as the broker has it, or as a client believes it is.
type state struct {
	hw, start int64
	code      int16
}

// brokerSide answers a request out of a table of states, through the sessions.
func brokerSide(t *testing.T, c *sessionCache, now time.Time, req *kmsg.FetchRequest, states map[int32]*state) (id int32, told map[int32]state, code int16) {
	t.Helper()
	use, err := c.begin(now, req, nil, false)
	if err != nil {
		return 0, nil, codeOf(err)
	}
	var items []*fetchItem
	for _, p := range use.partitions {
		it := &fetchItem{fetchPartition: p}
		s := states[p.partition]
		it.code = s.code
		it.read = replica.ReadResult{HW: s.hw, LogStart: s.start}
		if s.code != 0 {
			it.read = replica.ReadResult{HW: -1, LogStart: -1}
		} else if p.offset < s.hw {
			it.read.SizeBytes = int(s.hw - p.offset)
		}
		items = append(items, it)
	}
	told = map[int32]state{}
	for _, it := range use.finish(items) {
		if _, twice := told[it.partition]; twice {
			t.Errorf("partition %d is told twice", it.partition)
		}
		told[it.partition] = state{it.read.HW, it.read.LogStart, it.code}
	}
	return use.id, told, 0
}

func codeOf(err error) int16 {
	if ke, ok := err.(*kerr.Error); ok {
		return ke.Code
	}
	return -1
}

func sessionRequest(id, epoch int32, asks map[int32]int64, forget []int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.SessionID, req.SessionEpoch = 12, id, epoch
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "t"
	for n, offset := range asks {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = n, offset, 1000
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	f := kmsg.NewFetchRequestForgottenTopic()
	f.Topic, f.Partitions = "t", forget
	req.ForgottenTopics = append(req.ForgottenTopics, f)
	return req
}

// What a client that applies incremental answers believes is, after each, what
// a full fetch would have told it.
func TestIncrementalEqualsFull(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newSessionCache(10)
		states := map[int32]*state{}
		for n := range int32(8) {
			states[n] = &state{hw: r.Int64N(5)}
		}
		offsets := map[int32]int64{0: 0, 1: 0}
		now := time.UnixMilli(0)
		id, believed, _ := brokerSide(t, c, now, sessionRequest(0, 0, offsets, nil), states)
		if id == 0 {
			t.Fatal("no session")
		}
		for epoch := int32(1); epoch < 60; epoch++ {
			for range r.IntN(4) {
				s := states[r.Int32N(8)]
				switch r.IntN(4) {
				case 0:
					s.code = []int16{0, 0, kerr.NotLeaderForPartition.Code, kerr.OffsetOutOfRange.Code}[r.IntN(4)]
				case 1:
					s.start += r.Int64N(2)
				default:
					s.hw += r.Int64N(3)
				}
			}
			changes := map[int32]int64{}
			var forget []int32
			for range r.IntN(3) {
				n := r.Int32N(8)
				if r.IntN(3) == 0 && len(offsets) > 1 {
					if _, asked := changes[n]; !asked {
						forget = append(forget, n)
						delete(offsets, n)
						delete(believed, n)
					}
					continue
				}
				if len(forget) == 0 {
					changes[n] = r.Int64N(states[n].hw + 1)
					offsets[n] = changes[n]
				}
			}
			got, told, code := brokerSide(t, c, now, sessionRequest(id, epoch, changes, forget), states)
			if code != 0 || got != id {
				t.Fatalf("seed %d epoch %d: session %d, code %d", seed, epoch, got, code)
			}
			for n, s := range told {
				believed[n] = s
			}
			_, full, _ := brokerSide(t, c, now, sessionRequest(0, closeSession, offsets, nil), states)
			for n, s := range full {
				if b, ok := believed[n]; !ok || b != s {
					t.Fatalf("seed %d epoch %d: partition %d is %+v, the client believes %+v", seed, epoch, n, s, b)
				}
				if _, named := told[n]; !named && (s.code != 0 || offsets[n] < s.hw) {
					t.Fatalf("seed %d epoch %d: partition %d has %+v to tell, and was left out", seed, epoch, n, s)
				}
			}
			if len(believed) != len(full) {
				t.Fatalf("seed %d epoch %d: the client knows %d partitions, a full fetch has %d", seed, epoch, len(believed), len(full))
			}
		}
	}
}

func TestSessionSlots(t *testing.T) {
	c := newSessionCache(2)
	states := map[int32]*state{0: {}}
	open := func(now time.Time) int32 {
		id, _, _ := brokerSide(t, c, now, sessionRequest(0, openSession, map[int32]int64{0: 0}, nil), states)
		return id
	}
	began := time.UnixMilli(0)
	first, second := open(began), open(began)
	if first == 0 || second == 0 || first == second {
		t.Fatalf("sessions %d and %d", first, second)
	}
	if id := open(began.Add(time.Minute)); id != 0 {
		t.Errorf("a third session of two: %d", id)
	}
	if _, _, code := brokerSide(t, c, began.Add(90*time.Second), sessionRequest(first, 1, nil, nil), states); code != 0 {
		t.Fatalf("code %d", code)
	}
	third := open(began.Add(2*time.Minute + time.Second)) // in the place of the one that was idle
	if third == 0 {
		t.Fatal("an idle session kept its place")
	}
	for id, want := range map[int32]int16{first: 0, second: kerr.FetchSessionIDNotFound.Code, third: 0} {
		epoch := int32(1)
		if id == first {
			epoch = 2
		}
		if _, _, code := brokerSide(t, c, began.Add(2*time.Minute), sessionRequest(id, epoch, nil, nil), states); code != want {
			t.Errorf("session %d: %d, want %d", id, code, want)
		}
	}
	if n := c.count(); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

func TestSessionEpochWraps(t *testing.T) {
	if got := nextEpoch(math.MaxInt32); got != 1 {
		t.Errorf("after the largest epoch comes %d: 0 would be a full fetch", got)
	}
}

// A session's request is one of a stranger: whatever it holds, the cache stays
// within its slots and its own lists.
func FuzzFetchSession(f *testing.F) {
	req := sessionRequest(0, 0, map[int32]int64{0: 1, 1: 2}, []int32{1})
	f.Add(req.AppendTo(nil), req.AppendTo(nil))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		c := newSessionCache(3)
		for _, body := range [][]byte{a, b, a} {
			req := kmsg.NewPtrFetchRequest()
			req.Version = 13
			if req.ReadFrom(body) != nil {
				return
			}
			use, err := c.begin(time.UnixMilli(0), req, nil, false)
			if err != nil {
				continue
			}
			var items []*fetchItem
			seen := map[string]bool{}
			for _, p := range use.partitions {
				key := fmt.Sprint(p.key())
				if seen[key] {
					t.Fatalf("%s is read twice", key)
				}
				seen[key] = true
				items = append(items, &fetchItem{fetchPartition: p, read: replica.ReadResult{SizeBytes: int(p.partition & 1)}})
			}
			if told := use.finish(items); len(told) > len(items) {
				t.Fatalf("%d told of %d", len(told), len(items))
			}
			if s := c.byID[use.id]; use.id != 0 && (s == nil || len(s.look) != len(s.known)) {
				t.Fatalf("session %d: %+v", use.id, s)
			}
		}
		if c.count() > 3 {
			t.Fatalf("%d sessions in 3 slots", c.count())
		}
	})
}
