package storage

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A flush that finds no descriptor is tried again: nothing was lost, and the
// directory stays online.
func TestFlushWithoutDescriptors(t *testing.T) {
	var none atomic.Bool
	fsys := vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
		if none.Load() && strings.HasSuffix(op.Name, "leader-epoch-checkpoint.tmp") {
			return vfs.ErrTooManyFiles
		}
		return nil
	})
	b := openBox(t, fsys, managerConfig("/d"), true)
	cfg := testConfig()
	cfg.Durable = true
	l := b.log(cfg)
	flushed := make(chan int64, 10)
	l.SetHooks(Hooks{Flushed: func(end int64) { flushed <- end }})
	none.Store(true)
	if err := l.AssignEpoch(3, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(testAt, makeBatch(t, plainOptions(), values(2, "v")...), 3, FromClient); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.Sync(ctx); err == nil {
		t.Error("a sync without descriptors succeeded")
	}
	if end := l.FlushedEnd(); end != 0 {
		t.Errorf("flushed end %d without a flush", end)
	}
	none.Store(false)
	select {
	case end := <-flushed:
		if end != 2 {
			t.Errorf("flushed end %d, want 2", end)
		}
	case <-ctx.Done():
		t.Error("the flush was not tried again")
	}
	if err := b.m.Dirs()[0].Offline; err != nil {
		t.Errorf("the directory went offline: %v", err)
	}
}
