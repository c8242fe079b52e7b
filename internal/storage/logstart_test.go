package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A log start that was told as durable does not go back in a power loss, when
// it lies at the base of a segment, so that the checkpoint of log starts soon
// no longer names it: the segments below must be gone for good before that.
func TestLogStartAtSegmentBase(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			fsys := vfs.NewMem()
			b := openBox(t, fsys, managerConfig("/d"), false)
			cfg := testConfig()
			cfg.SegmentBytes = 400
			l := b.log(cfg)
			for l.Segments() < 2+int(seed%3) {
				b.append(l, values(1, "value")...)
			}
			if err := l.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
			l.SetHighWatermark(l.End())
			base := l.active().Base()
			if err := l.DeleteBefore(base); err != nil {
				t.Fatal(err)
			}
			if seed%2 == 0 {
				if err := b.m.Checkpoint(context.Background()); err != nil {
					t.Fatal(err)
				}
			} else if err := b.m.dirs[0].writeLogStarts(); err != nil { // for another log
				t.Fatal(err)
			}
			end := l.End()
			after := fsys.CrashClone(rand.New(rand.NewPCG(seed, 3)), vfs.PowerLoss)
			b.crash()
			b = openBox(t, after, managerConfig("/d"), false)
			l = b.log(cfg)
			if l.Start() != base || l.End() != end {
				t.Errorf("log [%d, %d) after a power loss, want [%d, %d): files %v", l.Start(), l.End(), base, end, list(after))
			}
			b.crash()
		})
	}
}

// A log start that could not be stored is stored by the next call that asks
// for it, and the segments below it go then: neither takes the start in memory
// for granted.
func TestLogStartAfterFailure(t *testing.T) {
	for _, how := range []string{"delete records", "retention"} {
		t.Run(how, func(t *testing.T) {
			mem := vfs.NewMem()
			full := false
			fsys := vfs.Wrap(mem, vfs.Hooks{Before: func(op vfs.Op) error {
				if full && op.Kind == vfs.OpWrite {
					return vfs.ErrNoSpace
				}
				return nil
			}})
			b := openBox(t, fsys, managerConfig("/d"), false)
			cfg := testConfig()
			cfg.SegmentBytes, cfg.RetentionMs = 400, time.Hour
			l := b.log(cfg)
			for l.Segments() < 4 {
				b.append(l, values(1, "value")...)
			}
			if err := l.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
			l.SetHighWatermark(l.End())
			want := l.active().Base() - 1
			raise := func() error { return l.DeleteBefore(want) }
			if how == "retention" {
				want++
				raise = func() error { b.m.Retain(testAt.Add(2 * time.Hour)); return nil }
				b.append(l, rec{ts: testAt.Add(2 * time.Hour).UnixMilli(), value: "stays"})
			}
			full = true
			if err := raise(); how != "retention" && !isErr(err, kerr.KafkaStorageError) {
				t.Fatalf("on a full disk: %v", err)
			}
			full = false
			if err := raise(); err != nil {
				t.Fatal(err)
			}
			if n := l.Segments(); n > 2 {
				t.Errorf("%d segments left", n)
			}
			after := mem.CrashClone(nil, vfs.CrashOptions{})
			b.crash()
			b = openBox(t, after, managerConfig("/d"), false)
			if got := b.log(cfg).Start(); got != want {
				t.Errorf("log start %d after a power loss, want %d", got, want)
			}
			b.crash()
		})
	}
}

// A deletion that was interrupted is finished by the next start, whichever of
// the segments below the log start are gone by then: what is left of them is
// no hole in the log.
func TestInterruptedDeletion(t *testing.T) {
	for gone := range 1 << 3 {
		t.Run(fmt.Sprintf("%03b", gone), func(t *testing.T) {
			fsys := vfs.NewMem()
			b := openBox(t, fsys, managerConfig("/d"), false)
			cfg := testConfig()
			cfg.SegmentBytes = 400
			l := b.log(cfg)
			for l.Segments() < 5 {
				b.append(l, values(1, "value")...)
			}
			if err := l.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
			l.SetHighWatermark(l.End())
			segs := *l.segs.Load()
			start, end := segs[3].Base(), l.End()
			if err := l.askStart(start); err != nil {
				t.Fatal(err)
			}
			if err := b.m.dirs[0].writeLogStarts(); err != nil {
				t.Fatal(err)
			}
			if err := l.ensureSnapshot(segs[:3], start); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if gone>>i&1 == 1 {
					if err := l.renameAway(segs[i]); err != nil {
						t.Fatal(err)
					}
				}
			}
			after := fsys.CrashClone(nil, vfs.ProcessKill)
			b.crash()
			for range 2 {
				b = openBox(t, after, managerConfig("/d"), false)
				l = b.log(cfg)
				if l.Start() != start || l.End() != end || l.Segments() != 2 {
					t.Errorf("log [%d, %d) in %d segments, want [%d, %d) in 2", l.Start(), l.End(), l.Segments(), start, end)
				}
				if got := readAll(t, l, start, end); len(got) != int(end-start) {
					t.Errorf("%d records, want %d", len(got), end-start)
				}
				b.crash()
			}
		})
	}
}

// A log start is told once it is stored: a kill in between would take it back
// from whoever has seen it (REC-04).
func TestLogStartIsToldWhenStored(t *testing.T) {
	var l *Log
	var told int64
	writes := 0
	fsys := vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
		if l != nil && strings.Contains(op.Name, "log-start-offset-checkpoint") {
			writes++
			if l.Start() != told {
				t.Errorf("the log start is %d before it is stored", l.Start())
			}
		}
		return nil
	})
	b := openBox(t, fsys, managerConfig("/d"), false)
	cfg := testConfig()
	cfg.SegmentBytes, cfg.RetentionBytes = 400, 800
	log := b.log(cfg)
	for log.Segments() < 5 {
		b.append(log, values(1, "value")...)
	}
	if err := log.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	log.SetHighWatermark(log.End())
	l = log
	b.m.Retain(testAt)
	l = nil
	if log.Start() == 0 || writes == 0 {
		t.Fatalf("log start %d after %d writes", log.Start(), writes)
	}
	// DeleteRecords keeps the same order.
	told, writes, l = log.Start(), 0, log
	if err := log.DeleteBefore(told + 1); err != nil || writes == 0 {
		t.Fatalf("%v after %d writes", err, writes)
	}
	l = nil
	b.crash()
}
