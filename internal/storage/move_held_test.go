package storage

import (
	"math/rand/v2"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// The new directory was faster to sync than the old one: what the old one does
// not have yet must not count as flushed from the swap on, for the new name is
// not durable, and a start may find the old one alone.
func TestMoveToFasterDirectory(t *testing.T) {
	fs := vfs.NewMem()
	b := openBox(t, fs, managerConfig("/a", "/b"), false)
	l := b.log(testConfig())
	o := own(l)
	o.append(t, values(3, "synced")...)
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	to := "/a"
	if l.d.path == to {
		to = "/b"
	}
	if err := b.m.Move(testTP, to); err != nil {
		t.Fatal(err)
	}
	mv := b.m.mover.get(testTP)
	o.append(t, values(4, "in memory")...)
	for mv.future.End() < l.End() {
		if _, err := mv.copy(l, moveChunk, false); err != nil {
			t.Fatal(err)
		}
	}
	l.mirrorTo(mv.future)
	if err := mv.future.flush(); err != nil {
		t.Fatal(err)
	}
	if err := mv.swap(l); err != nil {
		t.Fatal(err)
	}
	told := mv.future.FlushedEnd()
	after := openBox(t, fs.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{}), managerConfig("/a", "/b"), false)
	found, ok := after.m.Get(testTP)
	if !ok {
		t.Fatal("no log after the power loss")
	}
	if found.End() < told {
		t.Errorf("the log ends at %d after a power loss, and %d was told as flushed", found.End(), told)
	}
	if err := mv.future.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := mv.future.FlushedEnd(); got != 7 {
		t.Errorf("flushed to %d after the first sync in the new place, want 7", got)
	}
}
