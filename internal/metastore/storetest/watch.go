package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

func testWatchFromNow(f *fixture) {
	f.do(put("p/a", "before"))
	w := f.watch("p/", 0)
	r := f.do(put("p/a", "1"), put("q", "1"))
	f.do(put("q", "2"))
	r3 := f.do(del("p/a"))
	c := f.next(w)
	f.equal("first", line(show(c.Events), c.Rev), fmt.Sprintf("[p/a=1@%d] %d", r, r))
	f.equal("version", c.Events[0].KV.Version, 2)
	c = f.next(w)
	f.equal("second", line(show(c.Events), c.Rev), fmt.Sprintf("[-p/a@%d] %d", r3, r3))
	kv := c.Events[0].KV
	f.equal("a deletion carries key and revision only", line(len(kv.Value), kv.CreateRev, kv.Version, kv.Lease), "0 0 0 0")
}

func testWatchFromPast(f *fixture) {
	r1 := f.do(put("a", "1"))
	r2 := f.do(put("a", "2"), put("b", "1"))
	r3 := f.do(del("a"))
	w := f.watch("", r2)
	f.equal("history", show(f.until(w, r3)), []string{fmt.Sprintf("a=2@%d", r2), fmt.Sprintf("b=1@%d", r2), fmt.Sprintf("-a@%d", r3)})
	r4 := f.do(put("c", "1"))
	f.equal("then the present", show(f.until(w, r4)), []string{fmt.Sprintf("c=1@%d", r4)})
	w = f.watch("b", r1)
	f.equal("history of one key", show(f.until(w, r2)), []string{fmt.Sprintf("b=1@%d", r2)})
}

func testWatchFromFuture(f *fixture) {
	r := f.do(put("a", "1"))
	w := f.watch("a", r+2)
	f.do(put("a", "2"))
	f.do(put("a", "3"))
	f.equal("from there on", show(f.next(w).Events), []string{fmt.Sprintf("a=3@%d", r+2)})
}

// testWatchWholeRevisions: writers go on while watches catch up from the past;
// each watch sees every revision whole, in one Change, once and in order.
func testWatchWholeRevisions(f *fixture) {
	const width, revisions = 100, 60
	batch := func(i int) (ops []metastore.Op) {
		for k := range width {
			ops = append(ops, put(fmt.Sprintf("k%03d", k), strconv.Itoa(i)))
		}
		return ops
	}
	from := f.do(batch(0)...)
	done := make(chan int64, 1)
	go func() {
		var last int64
		for i := 1; i < revisions; i++ {
			r, err := f.store.Txn(f.ctx, metastore.Txn{Then: batch(i)})
			if err != nil {
				f.Error(err)
				break
			}
			last = r.Rev
		}
		done <- last
	}()
	var wg sync.WaitGroup
	for range 3 {
		w := f.watch("k", from)
		wg.Go(func() {
			for want := from; want < from+revisions; {
				c, ok := <-w.C()
				if !ok {
					f.Errorf("watch ended: %v", w.Err())
					return
				}
				for i, e := range c.Events {
					if rev := want + int64(i/width); e.KV.ModRev != rev || e.KV.Key != fmt.Sprintf("k%03d", i%width) {
						f.Errorf("event %d of a change: %s@%d, want revision %d", i, e.KV.Key, e.KV.ModRev, rev)
						return
					}
				}
				if len(c.Events)%width != 0 {
					f.Errorf("a change of %d events splits a revision", len(c.Events))
					return
				}
				want += int64(len(c.Events) / width)
				if len(c.Events) > 0 && c.Rev != want-1 {
					f.Errorf("change says revision %d, its last event %d", c.Rev, want-1)
					return
				}
			}
		})
	}
	f.equal("last revision", <-done, from+revisions-1)
	wg.Wait()
}

// testWatchAcrossCompaction: an open watch that is up to date does not mind a compaction.
func testWatchAcrossCompaction(f *fixture) {
	r1 := f.do(put("a", "1"))
	w := f.watch("a", r1)
	f.until(w, r1)
	r2 := f.do(put("a", "2"))
	f.until(w, r2)
	f.compact(r2)
	r3 := f.do(put("a", "3"))
	f.equal("after", show(f.until(w, r3)), []string{fmt.Sprintf("a=3@%d", r3)})
	f.equal("from the compacted revision itself", show(f.until(f.watch("a", r2), r3)), []string{fmt.Sprintf("a=2@%d", r2), fmt.Sprintf("a=3@%d", r3)})
}

func testWatchCompacted(f *fixture) {
	r1 := f.do(put("a", "1"))
	r2 := f.do(put("a", "2"))
	f.compact(r2)
	w, err := f.store.Watch(f.ctx, "a", r1)
	if err == nil {
		err = f.ended(w)
	}
	f.want(err, metastore.ErrCompacted)
	// A listing and a watch after it are whole again.
	kvs, rev, err := metastore.ListAll(f.ctx, f.store, "", 10)
	f.want(err, nil)
	f.equal("keys", keysOf(kvs), []string{"a"})
	w = f.watch("a", rev+1)
	r3 := f.do(put("a", "3"))
	f.equal("next", show(f.next(w).Events), []string{fmt.Sprintf("a=3@%d", r3)})
}

func testWatchEnds(f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	w, err := f.store.Watch(ctx, "a", 0)
	f.want(err, nil)
	stays := f.watch("a", 0)
	cancel()
	f.want(f.ended(w), context.Canceled)
	r := f.do(put("a", "1"))
	f.equal("the other goes on", show(f.until(stays, r)), []string{fmt.Sprintf("a=1@%d", r)})
}

// testWatchProgress: changes of other keys move a watch's position when it is asked.
func testWatchProgress(f *fixture) {
	p, ok := f.store.(metastore.ProgressRequester)
	if !ok {
		f.Skip("store cannot be asked for progress")
	}
	w := f.watch("mine/", 0)
	r := f.do(put("other", "1"))
	again := time.NewTicker(100 * time.Millisecond) // a watch that is behind does not answer
	defer again.Stop()
	for {
		f.want(p.RequestProgress(f.ctx), nil)
		select {
		case <-again.C:
		case c, ok := <-w.C():
			if !ok {
				f.Fatalf("watch ended: %v", w.Err())
			}
			f.equal("events", len(c.Events), 0)
			if c.Rev >= r {
				return
			}
		case <-f.ctx.Done():
			f.Fatal("no progress")
		}
	}
}

// testFollowUnderLoad: a follower's copy equals the store, through writers,
// deletions, compactions and restarts of its watch.
func testFollowUnderLoad(f *fixture) {
	copied := map[string]string{}
	target, reached := int64(-1), make(chan struct{})
	var mu sync.Mutex
	fol := metastore.NewFollower(f.store, "f/", func(u metastore.Update) error {
		mu.Lock()
		defer mu.Unlock()
		if u.Resync {
			clear(copied)
			for _, kv := range u.KVs {
				copied[kv.Key] = string(kv.Value)
			}
		}
		for _, e := range u.Events {
			if e.Deleted {
				delete(copied, e.KV.Key)
			} else {
				copied[e.KV.Key] = string(e.KV.Value)
			}
		}
		if target >= 0 && u.Rev >= target {
			target = -1
			close(reached)
		}
		return nil
	}, nil)
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() { ended <- fol.Run(ctx) }()

	for i := range 300 {
		k := fmt.Sprintf("f/%d", i%37)
		if i%5 == 4 {
			f.do(del(k), put("elsewhere", "x"))
		} else {
			f.do(put(k, strconv.Itoa(i)))
		}
		if i%90 == 89 {
			fol.Restart()
			f.compact(f.rev())
		}
	}
	mu.Lock() // the follower cannot pass the last revision before it is named
	target = f.do(put("f/last", "1"))
	mu.Unlock()
	select {
	case <-reached:
	case <-f.ctx.Done():
		f.Fatalf("follower stays at %d", fol.Rev())
	}
	cancel()
	f.want(<-ended, context.Canceled)
	kvs, _, err := metastore.ListAll(f.ctx, f.store, "f/", 7)
	f.want(err, nil)
	want := map[string]string{}
	for _, kv := range kvs {
		want[kv.Key] = string(kv.Value)
	}
	if !maps.Equal(copied, want) {
		f.Fatalf("copy differs: %d keys of %d: %v", len(copied), len(want), slices.Sorted(maps.Keys(copied)))
	}
}
