package storage

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// owner is what a partition is to its log: it appends under a mutex, and the
// log's place is taken by another under it.
type owner struct {
	mu    sync.Mutex
	log   *Log
	moved chan struct{}
}

func own(l *Log) *owner {
	o := &owner{log: l, moved: make(chan struct{}, 100)}
	l.SetHooks(Hooks{Swap: func(to *Log, do func() error) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		err := do()
		if err == nil {
			o.log = to
			o.moved <- struct{}{}
		}
		return err
	}})
	return o
}

func (o *owner) append(t *testing.T, recs ...rec) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.log.Append(testAt, makeBatch(t, plainOptions(), recs...), 0, FromClient); err != nil {
		t.Error(err)
	}
}

// A log moves to and fro while it is written, checkpointed and cut at its
// start; the workers of Run do it.
func TestMoveUnderLoad(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/a", "/b"), true)
	cfg := testConfig()
	cfg.SegmentBytes, cfg.FileDeleteDelay = 20_000, 0
	o := own(b.log(cfg))
	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			o.append(t, rec{ts: testAt.UnixMilli(), value: fmt.Sprint(n, strings.Repeat(" ", 500))})
			if n%50 == 0 {
				o.mu.Lock()
				o.log.SetHighWatermark(o.log.FlushedEnd())
				l, to := o.log, o.log.HighWatermark()/2
				o.mu.Unlock()
				if err := l.DeleteBefore(to); err != nil && !l.closed.Load() {
					t.Error(err)
				}
			}
		}
	})
	for i := range 6 {
		to := []string{"/b", "/a"}[i%2]
		if err := b.m.Move(testTP, to); err != nil {
			t.Fatal(err)
		}
		<-o.moved
		l, ok := b.m.Get(testTP)
		if !ok || l.d.path != to {
			t.Fatalf("log in %s, not %s", l.d.path, to)
		}
		if err := b.m.Checkpoint(t.Context()); err != nil && !strings.Contains(err.Error(), "closed") {
			t.Error(err)
		}
		l.Settled()
	}
	cancel()
	writer.Wait()
	l := o.log
	got := readAll(t, l, l.Start(), l.End())
	for i, v := range got {
		if at := l.Start() + int64(i); !strings.HasPrefix(v, fmt.Sprintf("%d:%d ", at, at)) {
			t.Fatalf("offset %d reads %.30q", at, v)
		}
	}
	if int64(len(got)) != l.End()-l.Start() || l.End() == 0 {
		t.Errorf("%d records in [%d, %d)", len(got), l.Start(), l.End())
	}
	b.close()
}

// Who still has the log from before a move is told the open transaction, or a
// read_committed reader would be shown what is not decided.
func TestMoveKeepsTransactions(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/a", "/b"), false)
	l := b.log(testConfig())
	o := own(l)
	raw := makeBatch(t, batch.Options{Transactional: true, Producer: &batch.Producer{ID: 1}}, values(3, "open")...)
	if _, err := l.Append(testAt, raw, 0, FromClient); err != nil {
		t.Fatal(err)
	}
	to := "/b"
	if l.d.path == to {
		to = "/a"
	}
	if err := b.m.Move(testTP, to); err != nil {
		t.Fatal(err)
	}
	if err := b.m.mover.get(testTP).work(t.Context()); err != nil || o.log == l {
		t.Fatalf("move: %v", err)
	}
	for what, x := range map[string]*Log{"old": l, "new": o.log} {
		if first := x.FirstUnstable(3); first != 0 || len(x.Producers()) != 1 {
			t.Errorf("%s log: first unstable %d, producers %v", what, first, x.Producers())
		}
	}
	if again, err := o.log.Append(testAt, raw, 0, FromClient); err != nil || !again.Duplicate {
		t.Errorf("sent again: %+v %v", again, err)
	}
	end := batch.AppendMarker(nil, batch.Marker{ProducerID: 1}, testAt.UnixMilli())
	if _, err := o.log.Append(testAt, end, 0, FromCoordinator); err != nil {
		t.Fatal(err)
	}
	for what, x := range map[string]*Log{"old": l, "new": o.log} {
		if got := x.Aborted(0, 4); len(got) != 1 || got[0] != (AbortedTxn{ProducerID: 1}) {
			t.Errorf("%s log: aborted %v", what, got)
		}
	}
	b.crash()
}

// A move that is called off, by going back or with the topic, leaves nothing
// behind; another target replaces the first.
func TestMoveCalledOff(t *testing.T) {
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/a", "/b", "/c"), false)
	l := b.log(testConfig())
	here := l.d.path
	var others []string
	for _, d := range []string{"/a", "/b", "/c"} {
		if d != here {
			others = append(others, d)
		}
	}
	b.append(l, values(5, "v")...)
	futures := func() (in []string) {
		for _, d := range []string{"/a", "/b", "/c"} {
			names, err := fsys.List(d)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range names {
				if tp, ok := parseFutureDir(n); ok && tp == testTP {
					in = append(in, d)
				}
			}
		}
		return in
	}
	move := func(to string, want ...string) {
		t.Helper()
		if err := b.m.Move(testTP, to); err != nil {
			t.Fatal(err)
		}
		if got := futures(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("moving to %s: futures in %v, want %v", to, got, want)
		}
	}
	move(others[0], others[0])
	move(others[0], others[0])
	for _, d := range b.m.Describe(nil) {
		for _, x := range d.Logs {
			if x.Future != (d.Path == others[0]) || x.Future && x.Lag != 5 {
				t.Errorf("%s: %+v", d.Path, x)
			}
		}
	}
	move(others[1], others[1])
	move(here)
	if err := b.m.Move(testTP, "/d"); !isErr(err, kerr.LogDirNotFound) {
		t.Errorf("to a directory that is not configured: %v", err)
	}
	b.m.SetCordoned([]string{others[0]})
	if err := b.m.Move(testTP, others[0]); !isErr(err, kerr.InvalidReplicaAssignment) {
		t.Errorf("to a cordoned directory: %v", err)
	}
	long := kafka.TopicPartition{Topic: strings.Repeat("n", 214)}
	if err := b.m.Move(long, others[1]); !isErr(err, kerr.InvalidTopicException) {
		t.Errorf("with a long name: %v", err)
	}
	move(others[1], others[1])
	if err := b.m.Delete(testTP, testID); err != nil {
		t.Fatal(err)
	}
	if got := futures(); len(got) > 0 {
		t.Errorf("the deleted log still moves to %v", got)
	}
	wished := kafka.TopicPartition{Topic: "w"}
	for _, dir := range []string{"/a", "/b", "/c"} {
		if err := b.m.Move(wished, dir); !isErr(err, kerr.ReplicaNotAvailable) && dir != others[0] {
			t.Errorf("of a log that is not there: %v", err)
		}
	}
	w, err := b.m.Create(wished, testID, testConfig())
	if err != nil || w.d.path != "/c" && others[0] != "/c" {
		t.Errorf("made in %s, wished in /c: %v", w.d.path, err)
	}
	b.close()
}

// The rate holds for all moves together, and another one counts at once.
func TestMoveRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(managerConfig("/a"), vfs.NewMem(), nil, nil)
		took := func(n int) time.Duration {
			at := time.Now()
			if err := m.mover.pay(t.Context(), n); err != nil {
				t.Error(err)
			}
			return time.Since(at).Round(time.Millisecond)
		}
		if d := took(1 << 30); d != 0 {
			t.Errorf("without a bound: %v", d)
		}
		m.SetMoveRate(1000)
		if d := took(3000); d != 3*time.Second {
			t.Errorf("3000 bytes at 1000 a second: %v", d)
		}
		m.SetMoveRate(0)
		time.AfterFunc(20*time.Second, func() { m.SetMoveRate(500) })
		if d := took(1000); d != 22*time.Second {
			t.Errorf("stopped for 20 seconds, then 500 a second: %v", d)
		}
		m.SetMoveRate(0)
		at := time.Now()
		var waiting sync.WaitGroup
		for range 3 { // as many as there are directories may wait
			waiting.Go(func() { took(1000) })
		}
		time.AfterFunc(3*time.Hour, func() { m.SetMoveRate(1000) })
		waiting.Wait()
		if d := time.Since(at).Round(time.Millisecond); d != 3*time.Hour+3*time.Second {
			t.Errorf("three moves that were stopped for 3 hours, then 1000 a second: %v", d)
		}
	})
}

// Every move that waits hears of another rate.
func TestMoveRateForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(managerConfig("/a"), vfs.NewMem(), nil, nil)
		m.SetMoveRate(1)
		at := time.Now()
		var waits sync.WaitGroup
		for range 3 {
			waits.Go(func() {
				if err := m.mover.pay(t.Context(), 1<<20); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		m.SetMoveRate(1 << 30)
		waits.Wait()
		if d := time.Since(at); d > time.Second {
			t.Errorf("moves went on %v after the rate was raised", d)
		}
	})
}
