package storage

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// The directories of a device share its syncs, and no more than a few run at
// once, however many logs ask (safety 41).
func TestSyncsOfADeviceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		var slow atomic.Bool
		fsys := vfs.Wrap(vfs.NewMem(), vfs.Hooks{Before: func(op vfs.Op) error {
			if slow.Load() && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, segment.LogSuffix) {
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Millisecond) // the bubble's clock: a slow disk
				running.Add(-1)
			}
			return nil
		}})
		b := openBox(t, fsys, managerConfig("/a", "/b"), true)
		synctest.Wait() // the workers are there: else the caller does the work
		var logs []*Log
		for n := range int32(40) {
			l, err := b.m.Create(kafka.TopicPartition{Topic: "t", Partition: n}, testID, testConfig())
			if err != nil {
				t.Fatal(err)
			}
			logs = append(logs, l)
		}
		slow.Store(true)
		for _, l := range logs {
			b.append(l, values(1, "v")...)
		}
		for _, l := range logs {
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		slow.Store(false)
		if n := most.Load(); n < 2 || n > 8 {
			t.Errorf("%d syncs at once", n)
		}
		b.close()
	})
}

// The system is asked to write what nobody syncs, so that what is dirty stays
// bounded with durable acks off as well (safety 41).
func TestDirtyPagesAreBounded(t *testing.T) {
	var begun atomic.Int64
	fsys := vfs.Wrap(vfs.NewMem(), vfs.Hooks{Before: func(op vfs.Op) error {
		if op.Kind == vfs.OpWriteback {
			begun.Add(int64(op.N))
		}
		return nil
	}})
	b := openBox(t, fsys, managerConfig("/d"), true)
	cfg := testConfig()
	cfg.Durable, cfg.SegmentBytes = false, 1<<30
	l := b.log(cfg)
	big := rec{ts: 1, value: string(make([]byte, 1<<20))}
	for range 40 {
		b.append(l, big)
	}
	b.close()
	if n := begun.Load(); n < 8<<20 {
		t.Errorf("writing of %d bytes was begun, of %d", n, l.Size())
	}
}
