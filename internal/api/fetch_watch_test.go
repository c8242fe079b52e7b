package api

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// lists has a request ask for partitions by number, from these offsets on.
func lists(l *led, req *kmsg.FetchRequest, offsets map[int32]int64) *kmsg.FetchRequest {
	topic := kmsg.NewFetchRequestTopic()
	topic.TopicID = l.state().Topic
	for _, n := range slices.Sorted(maps.Keys(offsets)) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.LastFetchedEpoch = n, offsets[n], 1<<20, -1
		wire.SetClaim(&p, offsets[n])
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

// consumes is a fetch of a consumer within a session.
func consumes(l *led, session, epoch int32, offsets map[int32]int64) *kmsg.FetchRequest {
	req := l.asks(session, epoch)
	req.ReplicaState.ID = -1
	return lists(l, req, offsets)
}

// round carries a request out, and tells what it looked at, and what it told.
func round(l *led, req *kmsg.FetchRequest) (id int32, looked []int32, told map[int32]state) {
	l.t.Helper()
	f := l.begun(req)
	if f.replica = req.ReplicaState.ID; f.replica < 0 {
		f.isolation, f.claims = 0, false
	}
	f.readAll()
	for _, it := range f.items {
		looked = append(looked, it.partition)
	}
	told = map[int32]state{}
	for _, it := range f.session.finish(f.items) {
		told[it.partition] = state{it.read.HW, it.read.LogStart, it.code}
	}
	f.release()
	return f.session.id, looked, told
}

// A request of a session looks at what it lists and at what has changed, however many
// partitions the session has; and what its client believes is always what a full fetch
// would tell.
func TestSessionLooksAtWhatHasChanged(t *testing.T) {
	const many = 12
	for seed := range uint64(20) {
		l, r := newLedOf(t, many), rand.New(rand.NewPCG(seed, 7))
		offsets := map[int32]int64{}
		for n := range int32(many) {
			offsets[n] = 0
		}
		id, _, believed := round(l, consumes(l, 0, 0, offsets))
		if _, looked, _ := round(l, consumes(l, id, 1, nil)); len(looked) != many {
			t.Fatalf("the first request looks at %v", looked)
		}
		open := map[int32]bool{} // with data that the client has not read yet
		for epoch := int32(2); epoch < 60; epoch++ {
			changed := maps.Clone(open)
			for range r.IntN(3) {
				n := r.Int32N(many)
				p := l.partition(n)
				switch hw, end := p.HighWatermark(), p.Log().End(); r.IntN(3) {
				case 0:
					l.putTo(n, "x")
				case 1:
					if err := p.FollowerAt(time.Now(), -1, isr.Claim{Node: 2, BrokerEpoch: 1, Fetched: end, Counted: end}); err != nil {
						t.Fatal(err)
					}
				default:
					if err := p.Log().DeleteBefore(min(hw, offsets[n])); err != nil {
						t.Fatal(err)
					}
				}
				changed[n] = true
			}
			asks := map[int32]int64{}
			if r.IntN(2) == 0 { // the client has read everything that it was given
				for n := range open {
					asks[n], changed[n] = believed[n].hw, true
				}
				maps.Copy(offsets, asks)
			}
			_, looked, told := round(l, consumes(l, id, epoch, asks))
			for _, n := range looked {
				if !changed[n] {
					t.Fatalf("seed %d epoch %d: partition %d is looked at, and only %v have changed", seed, epoch, n, changed)
				}
			}
			maps.Copy(believed, told)
			_, _, full := round(l, consumes(l, 0, closeSession, offsets))
			if !maps.Equal(believed, full) {
				t.Fatalf("seed %d epoch %d: the client believes %v, and there is %v", seed, epoch, believed, full)
			}
			clear(open)
			for n, s := range full {
				if open[n] = offsets[n] < s.hw; !open[n] {
					delete(open, n)
				} else if _, named := told[n]; !named {
					t.Fatalf("seed %d epoch %d: partition %d has data, and is left out", seed, epoch, n)
				}
			}
		}
	}
}

// rested is a session of all partitions in which everything is at rest; its next
// epoch is 3.
func rested(t *testing.T, l *led, many int32) (id int32) {
	t.Helper()
	offsets := map[int32]int64{}
	for n := range many {
		offsets[n] = 0
	}
	id, _, _ = round(l, consumes(l, 0, 0, offsets))
	round(l, consumes(l, id, 1, nil))
	if _, looked, _ := round(l, consumes(l, id, 2, nil)); len(looked) > 0 {
		t.Fatalf("%v are not at rest", looked)
	}
	return id
}

// What changes between the look and the answer is looked at by the next request.
func TestSessionMissesNoChange(t *testing.T) {
	l := newLedOf(t, 2)
	id := rested(t, l, 2)
	l.putTo(0, "x") // which ends the watch
	f := l.begun(lists(l, l.asks(id, 3), map[int32]int64{0: 1}))
	f.readAll()
	l.putTo(0, "x")
	f.session.finish(f.items)
	f.release()
	if _, looked, _ := round(l, l.asks(id, 4)); len(looked) != 1 || looked[0] != 0 {
		t.Errorf("%v are looked at", looked)
	}
}

// While a request of a session waits, what was at rest as it began wakes it.
func TestSessionWakesForWhatWasAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedOf(t, 3)
		id := rested(t, l, 3)
		epoch, read := int32(3), map[int32]int64(nil)
		for _, n := range []int32{1, 2, 1, 0} {
			req := consumes(l, id, epoch, read)
			req.MaxWaitMillis = 10_000
			go func() {
				time.Sleep(time.Second)
				l.putTo(n, "x")
				end := l.partition(n).Log().End()
				if err := l.partition(n).FollowerAt(time.Now(), -1, isr.Claim{Node: 2, BrokerEpoch: 1, Fetched: end, Counted: end}); err != nil {
					t.Error(err)
				}
			}()
			start := time.Now()
			out := l.served(req)
			if took := time.Since(start); took != time.Second {
				t.Errorf("answered after %v", took)
			}
			if len(out.Topics) != 1 || len(out.Topics[0].Partitions) != 1 || out.Topics[0].Partitions[0].Partition != n {
				t.Fatalf("%+v", out.Topics)
			}
			epoch, read = epoch+1, map[int32]int64{n: out.Topics[0].Partitions[0].HighWatermark}
		}
	})
}

// A broker that is fenced tells consumers so of every partition, at rest or not: they
// are to look for another leader (safety 31).
func TestFencedSessionHearsOfAll(t *testing.T) {
	l := newLedOf(t, 3)
	id := rested(t, l, 3)
	valid := false
	l.a.Valid = func() bool { return valid }
	req := consumes(l, id, 3, nil)
	out := l.served(req)
	if len(out.Topics) != 1 || len(out.Topics[0].Partitions) != 3 {
		t.Errorf("fenced: %+v", out.Topics)
	}
	valid = true
	if _, _, told := round(l, consumes(l, id, 4, nil)); len(told) != 3 {
		t.Errorf("%v are told that it is over", told)
	}
}

// A session that is no more watches nothing: closed by its client, put out by another,
// or of a request that forgets everything.
func TestSessionEndsItsWatches(t *testing.T) {
	var l *led
	for name, end := range map[string]func(id int32){
		"closed":    func(id int32) { round(l, consumes(l, id, closeSession, map[int32]int64{0: 0})) },
		"evicted":   func(int32) { l.a.sessions.evict(time.Now().Add(time.Hour)).end() },
		"forgotten": func(id int32) { l.served(forgets(l, id, 3)) },
	} {
		l = newLedOf(t, 2)
		id := rested(t, l, 2)
		l.a.sessions.mu.Lock()
		s := l.a.sessions.byID[id]
		l.a.sessions.mu.Unlock()
		end(id)
		l.putTo(0, "x")
		l.putTo(1, "x")
		if s.news.any() || l.a.sessions.count() != 0 {
			t.Errorf("%s: it is told of changes, or there still: %d", name, l.a.sessions.count())
		}
	}
}

func forgets(l *led, id, epoch int32) *kmsg.FetchRequest {
	req := l.asks(id, epoch)
	req.ReplicaState.ID = -1
	f := kmsg.NewFetchRequestForgottenTopic()
	f.TopicID, f.Partitions = l.state().Topic, []int32{0, 1}
	req.ForgottenTopics = append(req.ForgottenTopics, f)
	return req
}

// A topic that goes while nothing of it is looked at is told of.
func TestSessionHearsOfATopicThatGoes(t *testing.T) {
	l := newLedOf(t, 2)
	id := rested(t, l, 2)
	x, err := plan.DeleteTopic(l.Img, l.state().Topic, 1000)
	if err != nil {
		t.Fatal(err)
	}
	gone := l.state().Topic
	l.Do(x)
	l.m.Drop(&l.Delta)
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.SessionID, req.SessionEpoch, req.MaxBytes = 17, id, 3, 1<<20
	req.ReplicaState.ID = -1
	out := l.served(req)
	if len(out.Topics) != 1 || out.Topics[0].TopicID != gone || len(out.Topics[0].Partitions) != 2 {
		t.Errorf("%+v", out.Topics)
	}
}

// One that goes while a request waits is told of at once, as what it had read then is.
func TestSessionHearsOfATopicThatGoesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedOf(t, 2)
		var img atomic.Pointer[meta.Image]
		img.Store(l.Img)
		l.a.Image = img.Load
		req := consumes(l, rested(t, l, 2), 3, nil)
		req.MaxWaitMillis = 10_000
		go func() {
			time.Sleep(time.Second)
			x, err := plan.DeleteTopic(l.Img, l.state().Topic, 1000)
			if err != nil {
				t.Error(err)
			}
			l.Do(x)
			img.Store(l.Img)
			l.m.Drop(&l.Delta)
		}()
		start := time.Now()
		out := l.served(req)
		if took := time.Since(start); took != time.Second {
			t.Errorf("answered after %v", took)
		}
		if len(out.Topics) != 1 || out.Topics[0].Partitions[0].ErrorCode == 0 {
			t.Errorf("%+v", out.Topics)
		}
	})
}

// The order in which partitions are read goes round: one that always has more than an
// answer holds does not keep the others from being read.
func TestSessionReadsInTurn(t *testing.T) {
	const many = 4
	l := newLedOf(t, many)
	offsets := map[int32]int64{}
	for n := range int32(many) {
		offsets[n] = 0
		for range 50 {
			l.putTo(n, "0123456789")
		}
	}
	req := lists(l, l.asks(0, 0), offsets)
	req.MaxBytes = 1 // one batch
	id, _, _ := round(l, req)
	got := map[int32]int{}
	for epoch := int32(1); epoch <= 4*many; epoch++ {
		req := l.asks(id, epoch)
		req.MaxBytes = 1
		f := l.begun(req)
		f.readAll()
		for _, it := range f.items {
			if it.read.SizeBytes > 0 {
				got[it.partition]++
			}
		}
		f.session.finish(f.items)
		f.release()
	}
	if fmt.Sprint(got) != "map[0:4 1:4 2:4 3:4]" {
		t.Errorf("read so often: %v", got)
	}
}
