package storage

import (
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func loose() Config {
	c := testConfig()
	c.Durable = false
	return c
}

// What is written while a log is being marked, or made durable again, is not
// counted on before a sync: that one began before it.
func TestCountedWhileItChanges(t *testing.T) {
	for _, c := range []struct {
		what, file string
		to         bool // durable
		kind       vfs.Kind
	}{
		{"the mark is written", unsyncedName, false, vfs.OpRename},
		{"the log is synced, to be durable", ".log", true, vfs.OpSync},
	} {
		var during func()
		fsys := vfs.Wrap(vfs.NewMem(), vfs.Hooks{Before: func(op vfs.Op) error {
			if during != nil && op.Kind == c.kind && strings.Contains(op.Name, c.file) {
				do := during
				during = nil
				do()
			}
			return nil
		}})
		b := openBox(t, fsys, managerConfig("/d"), false)
		l := b.log(loose())
		b.append(l, values(1, "a")...)
		if c.to {
			l.d.flusher.drain()
			b.append(l, values(1, "b")...)
			if got := l.Counted(); got != 2 {
				t.Fatalf("%s: %d counted before, of 2", c.what, got)
			}
		}
		seen := false
		during = func() {
			seen = true
			before := l.End()
			b.append(l, values(1, "meanwhile")...)
			if got := l.Counted(); got > before {
				t.Errorf("%s: %d counted, and nothing synced from %d on", c.what, got, before)
			}
		}
		if c.to {
			l.SetConfig(testConfig())
		}
		l.d.flusher.drain()
		if !seen || l.Counted() != l.End() || l.Relaxed() == c.to {
			t.Errorf("%s: seen %t, %d counted of %d, relaxed %t", c.what, seen, l.Counted(), l.End(), l.Relaxed())
		}
	}
}

// A log is doubtful after the system went down under it, or may have; not where
// the process alone died, or all was synced, or it was stopped in order.
func TestDoubtful(t *testing.T) {
	for _, c := range []struct {
		what       string
		cfg        Config
		was, is    string // boot ids
		stop, want bool
	}{
		{"another boot", loose(), "one", "two", false, true},
		{"the same boot", loose(), "one", "one", false, false},
		{"unknown boots", loose(), "", "", false, true},
		{"another boot after an orderly stop", loose(), "one", "two", true, false},
		{"another boot of a durable log", testConfig(), "one", "two", false, false},
	} {
		mem := vfs.NewMem()
		cfg := managerConfig("/d")
		cfg.BootID = c.was
		b := openBox(t, mem, cfg, false)
		l := b.log(c.cfg)
		b.append(l, values(1, "a")...)
		l.d.flusher.drain()
		if c.stop {
			b.close()
		}
		cfg.BootID = c.is
		b = openBox(t, mem.CrashClone(nil, vfs.ProcessKill), cfg, false)
		l = b.log(c.cfg)
		if got := l.Doubtful(); got != c.want {
			t.Errorf("%s: doubtful %t", c.what, got)
		}
		b.append(l, values(1, "b")...)
		l.d.flusher.drain()
		if got := l.Doubtful(); got != c.want {
			t.Errorf("%s: doubtful %t after a sync, and nobody vouched", c.what, got)
		}
		b.m.Vouch()
		b.append(l, values(1, "c")...)
		l.d.flusher.drain()
		if l.Doubtful() || l.Counted() != 3 || l.Relaxed() == c.cfg.Durable {
			t.Errorf("%s: doubtful %t, %d counted, relaxed %t once somebody vouched", c.what, l.Doubtful(), l.Counted(), l.Relaxed())
		}
	}
}

// A full disk delays the mark: until it is there, syncs are what counts.
func TestMarkOnAFullDisk(t *testing.T) {
	var full error
	fsys := vfs.Wrap(vfs.NewMem(), vfs.Hooks{Before: func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.Contains(op.Name, unsyncedName) {
			return full
		}
		return nil
	}})
	b := openBox(t, fsys, managerConfig("/d"), false)
	l := b.log(loose())
	full = vfs.ErrNoSpace
	b.append(l, values(1, "a")...)
	l.d.flusher.drain()
	if l.Relaxed() || l.Failed() != nil {
		t.Errorf("relaxed %t, %v", l.Relaxed(), l.Failed())
	}
	full = nil
	l.requestSync()
	l.d.flusher.drain()
	if !l.Relaxed() || l.Counted() != 1 {
		t.Errorf("relaxed %t, %d counted", l.Relaxed(), l.Counted())
	}
}
