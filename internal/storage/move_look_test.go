package storage

import (
	"errors"
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// moving gives a log whose copy in another directory has what was there by now;
// writes is called before each write to a file.
func moving(t *testing.T, writes func(name string)) (b *box, o *owner, mv *move) {
	t.Helper()
	fsys := vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && writes != nil {
			writes(op.Name)
		}
		return nil
	})
	b = openBox(t, fsys, managerConfig("/a", "/b"), false)
	t.Cleanup(b.crash)
	l := b.log(testConfig())
	o = own(l)
	o.append(t, values(5, "v")...)
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.SetHighWatermark(5)
	to := "/a"
	if l.d.path == to {
		to = "/b"
	}
	if err := b.m.Move(testTP, to); err != nil {
		t.Fatal(err)
	}
	mv = b.m.mover.get(testTP)
	if _, err := mv.copy(l, moveChunk, false); err != nil {
		t.Fatal(err)
	}
	if err := mv.future.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, o, mv
}

// While a log is about to be replaced by its copy, nothing is told as flushed
// that is not on the disk in both (safety 16); and all is, once the copy is gone.
func TestMoveHoldsAcknowledgements(t *testing.T) {
	_, o, mv := moving(t, nil)
	l := o.log
	l.mirrorTo(mv.future)
	o.append(t, values(2, "w")...)
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.FlushedEnd(); got != 5 {
		t.Errorf("flushed to %d, and the copy has 5", got)
	}
	if _, err := mv.copy(l, moveChunk, false); err != nil {
		t.Fatal(err)
	}
	if err := mv.future.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.mirrored(); l.FlushedEnd() != 7 {
		t.Errorf("flushed to %d, and both have 7", l.FlushedEnd())
	}
	o.append(t, values(1, "x")...)
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.mirrorTo(nil)
	if l.mirrored(); l.FlushedEnd() != 8 {
		t.Errorf("flushed to %d without the copy, want 8", l.FlushedEnd())
	}
}

// The last look before the rename finds each way in which the copy is not the
// log: it does not take its place then.
func TestMoveLooksOnceMore(t *testing.T) {
	for what, change := range map[string]func(t *testing.T, o *owner, mv *move){
		"the copy is short": func(t *testing.T, o *owner, _ *move) {
			for range 4 {
				o.append(t, rec{ts: 1, value: strings.Repeat("v", moveChunk/3)})
			}
		},
		"the log start rose": func(t *testing.T, o *owner, _ *move) {
			if err := o.log.DeleteBefore(3); err != nil {
				t.Fatal(err)
			}
		},
		"more is told as flushed": func(t *testing.T, o *owner, _ *move) {
			o.append(t, values(1, "w")...)
			if err := o.log.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"a flush of the copy is on its way": func(_ *testing.T, _ *owner, mv *move) { mv.future.request(true) },
		"the copy has another epoch": func(t *testing.T, _ *owner, mv *move) {
			if _, err := mv.future.epochs.Assign(9, 5); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			b, o, mv := moving(t, nil)
			l := o.log
			change(t, o, mv)
			if err := mv.swap(l); !errors.Is(err, errBehind) && !errors.Is(err, errWait) {
				t.Errorf("%v, want that the move waits", err)
			}
			if now, _ := b.m.Get(testTP); now != l || l.closed.Load() {
				t.Error("the copy took the log's place")
			}
		})
	}
	// A cut that begins, or is over, while the last records are copied: it is seen
	// under the lock alone, where the log has grown to the same end again.
	for what, cut := range map[string]func(o *owner){
		"a cut began": func(o *owner) { o.log.cutting = true },
		"a cut is over": func(o *owner) {
			if err := o.log.Truncate(5); err != nil {
				t.Error(err)
			}
			o.append(t, values(2, "other")...)
		},
	} {
		t.Run(what, func(t *testing.T) {
			var copying func(name string)
			b, o, mv := moving(t, func(name string) {
				if copying != nil {
					copying(name)
				}
			})
			l := o.log
			o.append(t, values(2, "w")...)
			copying = func(name string) {
				if strings.HasPrefix(name, mv.future.Path()) {
					copying = nil
					cut(o)
				}
			}
			if err := mv.swap(l); !errors.Is(err, errBehind) || copying != nil {
				t.Errorf("%v, want that the move waits", err)
			}
			if now, _ := b.m.Get(testTP); now != l || l.closed.Load() {
				t.Error("the copy took the log's place")
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		b, o, mv := moving(t, nil)
		if err := o.log.AssignEpoch(kafka.LeaderEpoch(4), 5); err != nil {
			t.Fatal(err)
		}
		if err := mv.swap(o.log); err != nil {
			t.Fatal(err)
		}
		now, _ := b.m.Get(testTP)
		if now != mv.future || now.LatestEpoch() != 4 || now.End() != 5 {
			t.Errorf("log to %d of epoch %d", now.End(), now.LatestEpoch())
		}
	})
}
