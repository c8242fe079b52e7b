package vfs_test

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func TestTraceOfReplaceFile(t *testing.T) {
	m := vfs.NewMem()
	must(t, m.MkdirAll("/data/t-0"))
	trace := vfs.Trace{Base: "/data"}
	fsys := trace.Wrap(m)
	must(t, vfs.ReplaceFile(fsys, "/data/t-0/c", []byte("0\n0\n")))
	trace.Printf("# again, and a directory that is not there")
	must(t, vfs.ReplaceFile(fsys, "/data/t-0/c", []byte("0\n")))
	if vfs.ReplaceFile(fsys, "/data/t-1/c", nil) == nil {
		t.Fatal("no error")
	}
	want := `remove t-0/c.tmp error: file does not exist
create t-0/c.tmp
write t-0/c.tmp off=0 n=4
sync t-0/c.tmp
rename t-0/c.tmp -> t-0/c
sync-dir t-0
# again, and a directory that is not there
remove t-0/c.tmp error: file does not exist
create t-0/c.tmp
write t-0/c.tmp off=0 n=2
sync t-0/c.tmp
rename t-0/c.tmp -> t-0/c
sync-dir t-0
remove t-1/c.tmp error: file does not exist
create t-1/c.tmp error: file does not exist
`
	if got := trace.Take(); got != want {
		t.Fatalf("trace:\n%s", got)
	}
	if got := trace.Take(); got != "" {
		t.Fatalf("taken twice: %q", got)
	}
}

func TestTraceFilter(t *testing.T) {
	trace := vfs.Trace{Filter: func(op vfs.Op) bool { return op.Kind == vfs.OpRead || op.Kind == vfs.OpTruncate }}
	fsys := trace.Wrap(vfs.NewMem())
	f := mustCreate(t, fsys, "a")
	write(t, f, 0, "abc")
	must(t, f.Truncate(2))
	_, err := f.ReadAt(make([]byte, 4), 1)
	if err != io.EOF {
		t.Fatal(err)
	}
	if got := trace.Take(); got != "truncate a size=2\nread a off=1 n=1 error: EOF\n" {
		t.Fatalf("%q", got)
	}
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	var fail vfs.Kind
	m := vfs.NewMem()
	fsys := vfs.Faulty(m, func(op vfs.Op) error {
		if op.Kind == fail {
			return boom
		}
		return nil
	})
	f := mustCreate(t, fsys, "/a")
	fail = vfs.OpWrite
	n, err := f.WriteAt([]byte("x"), 0)
	mustBe(t, err, boom)
	if n != 0 || get(t, m, "/a") != "" {
		t.Fatal("a failed write wrote")
	}
	fail = vfs.OpSync
	mustBe(t, f.Sync(), boom)
	fail = vfs.OpCreate
	_, err = fsys.Create("/b")
	mustBe(t, err, boom)
	if ok, _ := vfs.Exists(m, "/b"); ok {
		t.Fatal("a failed create made a file")
	}
	fail = vfs.OpRename
	mustBe(t, fsys.Rename("/a", "/c"), boom)
	fail = vfs.OpClose
	mustBe(t, f.Close(), boom)
	fail = ""
	mustBe(t, f.Close(), fs.ErrClosed) // the failed close has closed
}

func TestShortWrite(t *testing.T) {
	m := vfs.NewMem()
	fsys := vfs.Faulty(m, func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && op.N > 2 {
			return &vfs.ShortWrite{N: 2, Err: vfs.ErrNoSpace}
		}
		return nil
	})
	f := mustCreate(t, fsys, "/a")
	n, err := f.WriteAt([]byte("abcdef"), 0)
	mustBe(t, err, vfs.ErrNoSpace)
	if n != 2 || get(t, m, "/a") != "ab" {
		t.Fatalf("%d, %q", n, get(t, m, "/a"))
	}
	write(t, f, 2, "cd")
}

// A slow sync must not hold back other files.
func TestDelayHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
			if op.Kind == vfs.OpSync {
				time.Sleep(time.Second)
			}
			return nil
		})
		f, g := mustCreate(t, fsys, "/a"), mustCreate(t, fsys, "/b")
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { _ = f.Sync() })
		synctest.Wait()
		write(t, g, 0, "x")
		if d := time.Since(start); d != 0 {
			t.Fatalf("a write waited %v for another file's sync", d)
		}
		wg.Wait()
		if d := time.Since(start); d != time.Second {
			t.Fatalf("the sync took %v", d)
		}
	})
}

// A hook can clone the file system before each change: every crash point.
func TestCloneAtEveryPoint(t *testing.T) {
	m := vfs.NewMem()
	must(t, vfs.ReplaceFile(m, "/c", []byte("old")))
	points := 0
	fsys := vfs.Faulty(m, func(op vfs.Op) error {
		if op.Kind.Changes() {
			for seed := range uint64(50) {
				got := get(t, m.CrashClone(rng(seed), vfs.PowerLoss), "/c")
				if got != "old" && got != "new" {
					t.Errorf("before %v, seed %d: %q", op, seed, got)
				}
			}
			points++
		}
		return nil
	})
	must(t, vfs.ReplaceFile(fsys, "/c", []byte("new")))
	if points != 6 {
		t.Fatalf("%d points", points)
	}
	if got := get(t, m.CrashClone(rng(1), vfs.CrashOptions{}), "/c"); got != "new" {
		t.Fatalf("after ReplaceFile: %q", got)
	}
}
