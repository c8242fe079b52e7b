package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Retention of everything, deleted records, checkpoints and readers beside a
// writer with tiny segments, and in the midst of it power losses: readers get
// what was written or OFFSET_OUT_OF_RANGE, what was told as deleted stays
// deleted, what was flushed and not deleted is there, and the producer's last
// batches are known.
func TestRetainConcurrent(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { retainRace(t, seed) })
	}
}

func retainRace(t *testing.T, seed uint64) {
	fsys := vfs.NewMem()
	conf := managerConfig("/d")
	conf.MaxOpenFiles, conf.MaxIndexBytes = 3, 256
	conf.Defaults.SegmentBytes, conf.Defaults.IndexIntervalBytes, conf.Defaults.FileDeleteDelay = 1200, 100, 0
	conf.Defaults.RetentionMs = -1
	b := openBox(t, fsys, conf, true)
	l := b.log(conf.Defaults)
	var hw, deleted atomic.Int64
	l.SetHooks(Hooks{Flushed: func(end int64) {
		hw.Store(end)
		l.SetHighWatermark(end)
	}})
	done := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(f func(rng *rand.Rand)) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, rand.Uint64()))
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
	for range 2 {
		loop(func(rng *rand.Rand) { concurrentRead(t, l, hw.Load(), rng) })
	}
	loop(func(rng *rand.Rand) {
		c := conf.Defaults
		if rng.IntN(2) == 0 {
			c.RetentionBytes = rng.Int64N(6000)
		}
		l.SetConfig(c)
		b.m.Retain(time.Now())
		b.m.dirs[0].deleteDue(time.Now())
	})
	loop(func(rng *rand.Rand) {
		to := hw.Load() - rng.Int64N(100)
		if to <= 0 {
			return
		}
		if err := l.DeleteBefore(to); err != nil && !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("delete records: %v", err)
		} else if err == nil {
			deleted.Store(max(deleted.Load(), to))
		}
	})
	loop(func(*rand.Rand) {
		if err := b.m.Checkpoint(context.Background()); err != nil {
			t.Errorf("checkpoint: %v", err)
		}
	})
	rng := rand.New(rand.NewPCG(seed, 9))
	seq := int32(0)
	for i := range 600 {
		end := l.End()
		o := batch.Options{Producer: &batch.Producer{ID: 7, Sequence: seq}}
		raw := makeBatch(t, o, rec{ts: end, value: fmt.Sprint(end)}, rec{ts: end, value: fmt.Sprint(end + 1)})
		seq += 2
		if _, err := l.Append(testAt, raw, 0, FromClient); err != nil {
			t.Fatal(err)
		}
		if i%60 == 59 {
			gone, flushed := deleted.Load(), hw.Load()
			afterPowerLoss(t, fsys.CrashClone(rng, vfs.PowerLoss), conf, gone, flushed)
		}
	}
	close(done)
	wg.Wait()
	b.close()
}

// afterPowerLoss opens what a power loss left, where records below gone had
// been deleted and all below flushed were durable.
func afterPowerLoss(t *testing.T, fsys *vfs.Mem, conf ManagerConfig, gone, flushed int64) {
	b := openBox(t, fsys, conf, false)
	l := b.log(conf.Defaults)
	if l.Start() < gone || l.End() < flushed {
		t.Errorf("log [%d, %d) after a power loss; deleted below %d, flushed below %d", l.Start(), l.End(), gone, flushed)
	}
	for i, r := range readAll(t, l, l.Start(), l.End()) {
		if off := l.Start() + int64(i); r != fmt.Sprintf("%d:%d", off, off) {
			t.Fatalf("offset %d holds %q", off, r)
		}
	}
	if flushed > 0 {
		if ps := l.Producers(); len(ps) != 1 || int64(ps[0].LastSeq()) != l.End()-1 {
			t.Errorf("producers %+v, end %d", ps, l.End())
		}
	}
	b.crash()
}
