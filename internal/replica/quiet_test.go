package replica

import (
	"context"
	"errors"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A fetch session does not look at a partition that is quiet until it is told: so
// whatever changes what was read of one must wake those who watch.
func TestQuietPartitionsTellEveryChange(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, q *quietOne){
		"an append": func(t *testing.T, q *quietOne) { put(t, q.p, records("c"), 1) },
		"a mark": func(t *testing.T, q *quietOne) {
			if err := q.p.FollowerAt(testAt, 0, isr.Claim{Node: 2, BrokerEpoch: 9, Fetched: 2, Counted: 2}); err != nil {
				t.Fatal(err)
			}
		},
		"deleted records": func(t *testing.T, q *quietOne) {
			if err := q.p.Log().DeleteBefore(1); err != nil {
				t.Fatal(err)
			}
		},
		"a term":          func(t *testing.T, q *quietOne) { lead(t, q.p, 1, pair) },
		"another leader":  func(t *testing.T, q *quietOne) { follow(t, q.p, 1) },
		"its end":         func(_ *testing.T, q *quietOne) { q.p.close() },
		"a bad directory": func(_ *testing.T, q *quietOne) { q.p.fail(errors.New("bad")) },
		"another directory": func(t *testing.T, q *quietOne) {
			moved := make(chan struct{})
			q.p.moved = func(*Partition) { close(moved) }
			if err := q.logs.Move(testTP, "/b"); err != nil {
				t.Fatal(err)
			}
			<-moved
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuietOne(t)
			q.rests()
			change(t, q)
			if q.p.Unchanged(&q.read) {
				t.Error("nothing has changed: the test does not do what it says")
			}
			if q.woken == 0 {
				t.Error("nobody is told")
			}
		})
	}
}

// quietOne is a partition that leads, of which a follower has read everything; its mark
// is 1, for that follower has said no more yet.
type quietOne struct {
	t     *testing.T
	logs  *storage.Manager
	p     *Partition
	req   ReadReq
	read  ReadResult
	woken int
	w     *Waiter
}

func newQuietOne(t *testing.T) *quietOne {
	t.Helper()
	q := &quietOne{t: t, req: ReadReq{Offset: 2, Epoch: -1, LastEpoch: 0, Max: 1 << 20, Isolation: ReadLogEnd}}
	q.logs, _ = logsOn(t, vfs.NewMem(), "/a", "/b")
	cfg := storage.DefaultConfig()
	cfg.Durable = false
	log, err := q.logs.Create(testTP, kafka.TopicID{1}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	relax(t, log)
	q.p = newPartition(testTP, self, log, testRules())
	if err := q.p.enter(term{leader: true, of: self, view: pair, others: []kafka.NodeID{2}}); err != nil {
		t.Fatal(err)
	}
	put(t, q.p, records("a", "b"), 1)
	if err := q.p.FollowerAt(testAt, 0, isr.Claim{Node: 2, BrokerEpoch: 9, Fetched: 1, Counted: 1}); err != nil {
		t.Fatal(err)
	}
	if err := log.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	q.w = NewOnce(func() { q.woken++ })
	return q
}

// rests reads until nothing has changed since it was watched.
func (q *quietOne) rests() {
	q.t.Helper()
	for {
		q.p.RemoveWaiter(q.w)
		q.woken = 0
		q.p.AddWaiter(q.w)
		var err error
		if q.read, err = q.p.Read(testAt, q.req); err != nil {
			q.t.Fatal(err)
		}
		if q.p.Unchanged(&q.read) {
			break
		}
	}
	if !q.p.Quiet(q.req, &q.read) {
		q.t.Fatalf("it is not quiet: %+v", q.read)
	}
}

// What is left to read, and what a follower has, is looked at by every fetch.
func TestQuiet(t *testing.T) {
	q := newQuietOne(t)
	for name, c := range map[string]struct {
		offset int64
		max    int
		i      Isolation
		want   bool
	}{
		"all read":           {2, 1 << 20, ReadLogEnd, true},
		"committed read":     {1, 1 << 20, ReadUncommitted, true},
		"stable read":        {1, 1 << 20, ReadCommitted, true},
		"some given":         {0, 1 << 20, ReadLogEnd, false},
		"some kept back":     {0, 0, ReadLogEnd, false},
		"above what is told": {2, 1 << 20, ReadUncommitted, true},
	} {
		req := ReadReq{Offset: c.offset, Epoch: -1, LastEpoch: -1, Max: c.max, Isolation: c.i}
		res, err := q.p.Read(testAt, req)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.p.Quiet(req, &res); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		res.Release()
	}
	follow(t, q.p, 1)
	req := q.req
	req.LastEpoch, req.Follower = -1, true
	q.p.inSync.Store(true)
	q.p.role.Store(&role{epoch: 1, of: 2})
	res, err := q.p.Read(testAt, req)
	if err != nil {
		t.Fatal(err)
	}
	if q.p.Quiet(req, &res) {
		t.Error("a follower's is quiet, and appends to it wake nobody")
	}
	res.Release()
}

// A waiter of one wake-up is off the partition with it, whether there are few or many.
func TestWatchersOfOneWakeUp(t *testing.T) {
	for _, others := range []int{0, 3, 3 * manyWatchers} {
		var set watchers
		for range others {
			set.add(NewWaiter())
		}
		woken := 0
		w := NewOnce(func() { woken++ })
		set.add(w)
		set.wake()
		set.wake()
		if woken != 1 {
			t.Errorf("beside %d: woken %d times", others, woken)
		}
		set.add(w)
		set.wake()
		if woken != 2 {
			t.Errorf("beside %d: added again, and woken %d times", others, woken)
		}
		if n := len(set.few) + len(set.many); n != others {
			t.Errorf("%d left of %d", n, others)
		}
	}
}
