package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Readers, times, retention, checkpoints and deletions run beside a writer
// that rolls and truncates; every byte read below the high watermark is what
// was written.
func TestConcurrent(t *testing.T) {
	cfg := managerConfig("/d")
	cfg.MaxOpenFiles, cfg.MaxIndexBytes = 3, 256
	b := openBox(t, vfs.NewMem(), cfg, true)
	conf := testConfig()
	conf.SegmentBytes, conf.IndexIntervalBytes, conf.FileDeleteDelay = 3000, 200, 0
	l := b.log(conf)
	var hw, limit atomic.Int64
	limit.Store(math.MaxInt64)
	l.SetHooks(Hooks{Flushed: func(end int64) {
		mark := min(end, limit.Load())
		if mark < hw.Load() {
			t.Errorf("flushed end went back: %d after %d", end, hw.Load())
		}
		hw.Store(mark)
		l.SetHighWatermark(mark)
	}})
	done := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(f func(rng *rand.Rand)) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for {
				select {
				case <-done:
					return
				default:
					f(rng)
				}
			}
		})
	}
	for range 3 {
		loop(func(rng *rand.Rand) { concurrentRead(t, l, hw.Load(), rng) })
	}
	loop(func(rng *rand.Rand) {
		_, _, _, err := l.OffsetForTime(rng.Int64N(3000), hw.Load())
		if err != nil {
			t.Errorf("time: %v", err)
		}
		l.Aborted(l.Start(), hw.Load())
		l.Size()
	})
	loop(func(rng *rand.Rand) {
		if err := b.m.Checkpoint(context.Background()); err != nil {
			t.Errorf("checkpoint: %v", err)
		}
		if to := hw.Load() - 100; to > 0 && rng.IntN(3) == 0 {
			if err := l.DeleteBefore(to); err != nil {
				t.Errorf("delete: %v", err)
			}
		}
		b.m.dirs[0].deleteDue(time.Now())
	})
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 1500 {
		end := l.End()
		var recs []rec
		for j := range 1 + rng.Int64N(3) {
			recs = append(recs, rec{ts: end + j, value: fmt.Sprintf("%d", end+j)})
		}
		if _, err := l.Append(testAt, makeBatch(t, plainOptions(), recs...), 0, FromClient); err != nil {
			t.Fatal(err)
		}
		if i%50 == 49 {
			// What comes now stays above the high watermark, and is cut again.
			limit.Store(l.End())
			for range 8 {
				b.append(l, rec{ts: 0, value: "to be cut"})
			}
			if i%100 == 49 {
				if err := l.Sync(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Truncate(limit.Load()); err != nil {
				t.Fatal(err)
			}
			limit.Store(math.MaxInt64)
		}
	}
	close(done)
	wg.Wait()
	if err := l.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.close()
}

// concurrentRead reads from a random place and checks what it finds: a record
// of timestamp n says n.
func concurrentRead(t *testing.T, l *Log, hw int64, rng *rand.Rand) {
	start := l.Start()
	if hw <= start {
		return
	}
	r, err := l.Read(start+rng.Int64N(hw-start), hw, 500+rng.IntN(4000), true)
	if errors.Is(err, kerr.OffsetOutOfRange) && l.Start() > start {
		return
	}
	if err != nil {
		t.Errorf("read: %v", err)
		return
	}
	defer r.Release()
	next := int64(-1)
	for _, s := range r.Slices {
		p := make([]byte, s.Len())
		if err := s.ReadAt(p, 0); err != nil {
			t.Errorf("slice: %v", err)
			return
		}
		for len(p) > 0 {
			b, rest, err := batch.Next(p)
			if err != nil || !b.CRCValid() {
				t.Errorf("batch: %v", err)
				return
			}
			if next >= 0 && b.BaseOffset() != next || b.LastOffset() >= hw {
				t.Errorf("batch at %d, want %d below %d", b.BaseOffset(), next, hw)
			}
			it := batch.Records(b, 0)
			for it.Next() {
				if v := string(it.Record().Value); v != fmt.Sprint(b.Offset(it.Record())) {
					t.Errorf("offset %d holds %q", b.Offset(it.Record()), v)
				}
			}
			it.Close()
			next, p = b.NextOffset(), rest
		}
	}
}

// One sync answers everything that was written before it began, the next one
// what came meanwhile; an idle device begins at once.
func TestGroupSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var syncs atomic.Int32
		const delay = 5 * time.Millisecond
		var slow atomic.Bool
		fsys := vfs.Wrap(vfs.NewMem(), vfs.Hooks{Before: func(op vfs.Op) error {
			if slow.Load() && op.Kind == vfs.OpSync {
				syncs.Add(1)
				time.Sleep(delay) // the bubble's clock: a slow disk
			}
			return nil
		}})
		b := openBox(t, fsys, managerConfig("/d"), true)
		l := b.log(testConfig())
		b.append(l, values(1, "v")...)
		if err := l.Sync(context.Background()); err != nil { // the epoch file, too
			t.Fatal(err)
		}
		slow.Store(true)
		began := time.Now()
		b.append(l, values(1, "first")...)
		synctest.Wait()
		for range 100 {
			b.append(l, values(1, "during")...)
		}
		if err := l.Sync(context.Background()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 2*delay || syncs.Load() != 2 {
			t.Errorf("%d syncs took %v, want 2 in %v", syncs.Load(), took, 2*delay)
		}
		if l.FlushedEnd() != l.End() {
			t.Errorf("flushed %d of %d", l.FlushedEnd(), l.End())
		}
		ctx, cancel := context.WithTimeout(context.Background(), delay/2)
		defer cancel()
		b.append(l, values(1, "v")...)
		if err := l.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sync with a deadline: %v", err)
		}
		slow.Store(false)
		b.close()
	})
}

// S4: a thousand logs with one durable record a second each, on a device whose
// syncs take 2 ms.
func TestManyLogsSlowSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		fsys := vfs.Wrap(vfs.NewMem(), vfs.Hooks{Before: func(op vfs.Op) error {
			if slow.Load() && op.Kind == vfs.OpSync {
				time.Sleep(2 * time.Millisecond)
			}
			return nil
		}})
		b := openBox(t, fsys, managerConfig("/d"), true)
		const n = 1000
		logs := make([]*Log, n)
		for i := range logs {
			tp := testTP
			tp.Partition = int32(i)
			l, err := b.m.Create(tp, testID, testConfig())
			if err != nil {
				t.Fatal(err)
			}
			b.append(l, values(1, "v")...)
			logs[i] = l
		}
		for _, l := range logs {
			if err := l.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		slow.Store(true)
		var late atomic.Int32
		var wg sync.WaitGroup
		for i, l := range logs {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				for range 3 {
					began := time.Now()
					b.append(l, values(1, "v")...)
					if err := l.Sync(context.Background()); err != nil {
						t.Error(err)
					}
					took := time.Since(began)
					if took > 50*time.Millisecond {
						late.Add(1)
					}
					time.Sleep(time.Second - took)
				}
			})
		}
		wg.Wait()
		slow.Store(false)
		if late.Load() > 3*n/100 {
			t.Errorf("%d of %d acks took more than 50 ms", late.Load(), 3*n)
		}
		b.close()
	})
}
