package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// each runs a test on every file system, in an empty directory of it.
func each(t *testing.T, test func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("real", func(t *testing.T) { test(t, vfs.Real, t.TempDir()) })
	t.Run("mem", func(t *testing.T) {
		m := vfs.NewMem()
		must(t, m.MkdirAll("/data"))
		test(t, m, "/data")
	})
	t.Run("wrapped", func(t *testing.T) {
		m := vfs.NewMem()
		must(t, m.MkdirAll("data"))
		var trace vfs.Trace
		test(t, trace.Wrap(m), "data")
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustBe(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

func put(t testing.TB, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	n, err := f.WriteAt([]byte(content), 0)
	must(t, err)
	if n != len(content) {
		t.Fatalf("wrote %d of %d bytes", n, len(content))
	}
	must(t, f.Close())
}

func get(t testing.TB, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 1<<20)
	must(t, err)
	return string(b)
}

func TestCreateNeverOverwrites(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "a")
		put(t, fsys, name, "first")
		_, err := fsys.Create(name)
		mustBe(t, err, fs.ErrExist)
		if got := get(t, fsys, name); got != "first" {
			t.Fatalf("content %q", got)
		}
		_, err = fsys.Create(filepath.Join(dir, "none", "a"))
		mustBe(t, err, fs.ErrNotExist)
	})
}

func TestReadWrite(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "a")
		f, err := fsys.Create(name)
		must(t, err)
		if f.Name() != name {
			t.Fatalf("name %q", f.Name())
		}
		_, err = f.WriteAt([]byte("tail"), 6)
		must(t, err)
		_, err = f.WriteAt([]byte("he"), 0)
		must(t, err)
		must(t, f.Sync())
		size, err := f.Size()
		must(t, err)
		if size != 10 {
			t.Fatalf("size %d", size)
		}
		b := make([]byte, 10)
		_, err = f.ReadAt(b, 0)
		must(t, err)
		if want := "he\x00\x00\x00\x00tail"; string(b) != want {
			t.Fatalf("%q, want %q", b, want)
		}
		n, err := f.ReadAt(b, 8)
		if n != 2 || err != io.EOF {
			t.Fatalf("read across the end: %d, %v", n, err)
		}
		n, err = f.ReadAt(b, 100)
		if n != 0 || err != io.EOF {
			t.Fatalf("read beyond the end: %d, %v", n, err)
		}
		_, err = f.ReadAt(b, -1)
		if err == nil {
			t.Fatal("read at a negative offset")
		}
		f.StartWriteback(0, 10)
		f.Forget(0, 10)
		f.Reserve(1 << 16)
		f.Reserve(0)
		must(t, f.Close())
	})
}

func TestTruncate(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "a")
		put(t, fsys, name, "0123456789")
		f, err := fsys.OpenReadWrite(name)
		must(t, err)
		must(t, f.Truncate(3))
		must(t, f.Truncate(6))
		if got := get(t, fsys, name); got != "012\x00\x00\x00" {
			t.Fatalf("%q: bytes that were cut are back", got)
		}
		_, err = f.WriteAt([]byte("xy"), 4)
		must(t, err)
		must(t, f.Close())
		if got := get(t, fsys, name); got != "012\x00xy" {
			t.Fatalf("%q", got)
		}
		r, err := fsys.Open(name)
		must(t, err)
		defer r.Close()
		if r.Truncate(0) == nil {
			t.Fatal("truncated a file open for reading")
		}
		if _, err := r.WriteAt([]byte("z"), 0); err == nil {
			t.Fatal("wrote to a file open for reading")
		}
	})
}

func TestClosedFile(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		put(t, fsys, filepath.Join(dir, "a"), "x")
		f, err := fsys.OpenReadWrite(filepath.Join(dir, "a"))
		must(t, err)
		must(t, f.Close())
		mustBe(t, f.Close(), fs.ErrClosed)
		mustBe(t, f.Sync(), fs.ErrClosed)
		mustBe(t, f.Truncate(0), fs.ErrClosed)
		_, err = f.ReadAt(make([]byte, 1), 0)
		mustBe(t, err, fs.ErrClosed)
		_, err = f.WriteAt([]byte("y"), 0)
		mustBe(t, err, fs.ErrClosed)
		_, err = f.Size()
		if err == nil {
			t.Fatal("size of a closed file")
		}
	})
}

func TestMissing(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "none")
		_, err := fsys.Open(name)
		mustBe(t, err, fs.ErrNotExist)
		_, err = fsys.OpenReadWrite(name)
		mustBe(t, err, fs.ErrNotExist)
		_, err = fsys.Stat(name)
		mustBe(t, err, fs.ErrNotExist)
		_, err = fsys.List(name)
		mustBe(t, err, fs.ErrNotExist)
		mustBe(t, fsys.Remove(name), fs.ErrNotExist)
		mustBe(t, fsys.Rename(name, filepath.Join(dir, "b")), fs.ErrNotExist)
		mustBe(t, fsys.SyncDir(name), fs.ErrNotExist)
		_, err = fsys.Usage(name)
		mustBe(t, err, fs.ErrNotExist)
		must(t, fsys.RemoveAll(name))
		must(t, fsys.RemoveAll(filepath.Join(name, "deeper")))
		ok, err := vfs.Exists(fsys, name)
		must(t, err)
		if ok {
			t.Fatal("it exists")
		}
	})
}

func TestRename(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		a, b, sub := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "sub")
		put(t, fsys, a, "A")
		put(t, fsys, b, "B")
		held, err := fsys.Open(b)
		must(t, err)
		defer held.Close()
		must(t, fsys.Rename(a, b))
		if got := get(t, fsys, b); got != "A" {
			t.Fatalf("renamed over: %q", got)
		}
		buf := make([]byte, 1)
		if _, err := held.ReadAt(buf, 0); err != nil || string(buf) != "B" {
			t.Fatalf("the replaced file, still open, reads %q, %v", buf, err)
		}
		must(t, fsys.MkdirAll(filepath.Join(sub, "x")))
		mustBe(t, fsys.Rename(b, sub), fs.ErrExist)
		must(t, fsys.Rename(b, filepath.Join(sub, "x", "c")))
		must(t, fsys.Rename(sub, filepath.Join(dir, "moved")))
		if got := get(t, fsys, filepath.Join(dir, "moved", "x", "c")); got != "A" {
			t.Fatalf("in the moved directory: %q", got)
		}
		if fsys.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "moved", "x", "y")) == nil {
			t.Fatal("a directory was moved below itself")
		}
		mustBe(t, fsys.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "moved")), fs.ErrExist)
		put(t, fsys, a, "again")
		must(t, fsys.Rename(a, a))
	})
}

func TestDirectories(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		deep := filepath.Join(dir, "x", "y")
		must(t, fsys.MkdirAll(deep))
		must(t, fsys.MkdirAll(deep))
		put(t, fsys, filepath.Join(deep, "f2"), "")
		put(t, fsys, filepath.Join(deep, "f10"), "abc")
		names, err := fsys.List(deep)
		must(t, err)
		if !slices.Equal(names, []string{"f10", "f2"}) {
			t.Fatalf("list %q", names)
		}
		fi, err := fsys.Stat(filepath.Join(deep, "f10"))
		must(t, err)
		if fi.Name() != "f10" || fi.Size() != 3 || fi.IsDir() || fi.ModTime().IsZero() {
			t.Fatalf("stat %v", fi)
		}
		fi, err = fsys.Stat(deep)
		must(t, err)
		if !fi.IsDir() || fi.Name() != "y" {
			t.Fatalf("stat of a directory %v", fi)
		}
		if fsys.Remove(deep) == nil {
			t.Fatal("removed a directory that has files")
		}
		if fsys.MkdirAll(filepath.Join(deep, "f2", "z")) == nil {
			t.Fatal("made a directory below a file")
		}
		if _, err := fsys.Open(deep); err == nil {
			t.Fatal("opened a directory as a file")
		}
		must(t, fsys.SyncDir(deep))
		must(t, fsys.RemoveAll(filepath.Join(dir, "x")))
		names, err = fsys.List(dir)
		must(t, err)
		if len(names) != 0 {
			t.Fatalf("left: %q", names)
		}
	})
}

func TestRemovedFileStaysReadable(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "a")
		put(t, fsys, name, "abc")
		f, err := fsys.OpenReadWrite(name)
		must(t, err)
		defer f.Close()
		must(t, fsys.Remove(name))
		_, err = f.WriteAt([]byte("d"), 3)
		must(t, err)
		b := make([]byte, 4)
		_, err = f.ReadAt(b, 0)
		must(t, err)
		if string(b) != "abcd" {
			t.Fatalf("%q", b)
		}
		put(t, fsys, name, "new")
		if got := get(t, fsys, name); got != "new" {
			t.Fatalf("%q", got)
		}
	})
}

func TestLock(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, ".lock")
		l, err := fsys.Lock(name)
		must(t, err)
		_, err = fsys.Lock(name)
		mustBe(t, err, vfs.ErrLocked)
		must(t, l.Close())
		mustBe(t, l.Close(), fs.ErrClosed)
		l, err = fsys.Lock(name)
		must(t, err)
		must(t, l.Close())
	})
}

func TestUsage(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		u, err := fsys.Usage(dir)
		must(t, err)
		put(t, fsys, filepath.Join(dir, "a"), "x")
		v, err := fsys.Usage(filepath.Join(dir, "a"))
		must(t, err)
		if u.TotalBytes == 0 || u.FreeBytes > u.TotalBytes || u.Device != v.Device {
			t.Fatalf("%+v, %+v", u, v)
		}
	})
}

func TestSyncAll(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		put(t, fsys, filepath.Join(dir, "a"), "x")
		if err := fsys.SyncAll(dir); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Fatal(err)
		}
	})
}

func TestReplaceFile(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "checkpoint")
		put(t, fsys, name+".tmp", "left by a crash")
		for _, content := range []string{"one", "two and longer", "3", ""} {
			must(t, vfs.ReplaceFile(fsys, name, []byte(content)))
			if got := get(t, fsys, name); got != content {
				t.Fatalf("%q, want %q", got, content)
			}
		}
		names, err := fsys.List(dir)
		must(t, err)
		if !slices.Equal(names, []string{"checkpoint"}) {
			t.Fatalf("left: %q", names)
		}
		_, err = vfs.ReadFile(fsys, name, -1)
		if err == nil {
			t.Fatal("read beyond the limit")
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		f, err := fsys.Create(filepath.Join(dir, "a"))
		must(t, err)
		defer f.Close()
		const workers, blocks, size = 8, 20, 100
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range blocks {
					off := int64((i*workers + w) * size)
					p := bytes.Repeat([]byte{byte('a' + w)}, size)
					if _, err := f.WriteAt(p, off); err != nil {
						t.Error(err)
					}
					q := make([]byte, size)
					if _, err := f.ReadAt(q, off); err != nil || !bytes.Equal(p, q) {
						t.Errorf("block at %d reads back differently, %v", off, err)
					}
					if err := f.Sync(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}
