package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
)

// Kind is the kind of an operation on a file system.
type Kind string

// The kinds of operation, named as they are printed.
const (
	OpOpen      Kind = "open" // Open and OpenReadWrite
	OpCreate    Kind = "create"
	OpRead      Kind = "read"
	OpWrite     Kind = "write"
	OpTruncate  Kind = "truncate"
	OpSync      Kind = "sync"
	OpSize      Kind = "size"
	OpClose     Kind = "close"
	OpWriteback Kind = "writeback"
	OpForget    Kind = "forget"
	OpReserve   Kind = "reserve"
	OpRename    Kind = "rename"
	OpRemove    Kind = "remove"
	OpRemoveAll Kind = "remove-all"
	OpMkdirAll  Kind = "mkdir"
	OpList      Kind = "list"
	OpStat      Kind = "stat"
	OpSyncDir   Kind = "sync-dir"
	OpSyncAll   Kind = "sync-all"
	OpLock      Kind = "lock"
	OpUnlock    Kind = "unlock"
	OpUsage     Kind = "usage"
)

// Changes reports whether the kind alters or syncs what is stored. A crash
// test clones the file system around these.
func (k Kind) Changes() bool {
	switch k {
	case OpCreate, OpWrite, OpTruncate, OpSync, OpRename, OpRemove, OpRemoveAll, OpMkdirAll, OpSyncDir, OpSyncAll:
		return true
	}
	return false
}

// Op is one operation.
type Op struct {
	Kind    Kind
	Name    string
	NewName string // OpRename
	Off     int64  // OpRead, OpWrite, OpWriteback, OpForget; the size of OpTruncate and OpReserve
	N       int    // bytes
}

func (op Op) String() string {
	switch op.Kind {
	case OpRename:
		return fmt.Sprintf("%s %s -> %s", op.Kind, op.Name, op.NewName)
	case OpRead, OpWrite, OpWriteback, OpForget:
		return fmt.Sprintf("%s %s off=%d n=%d", op.Kind, op.Name, op.Off, op.N)
	case OpTruncate, OpReserve:
		return fmt.Sprintf("%s %s size=%d", op.Kind, op.Name, op.Off)
	}
	return fmt.Sprintf("%s %s", op.Kind, op.Name)
}

// ShortWrite is returned by the hook of Faulty to let a write do its first N
// bytes and then fail with Err. For other operations it is Err.
type ShortWrite struct {
	N   int
	Err error
}

func (e *ShortWrite) Error() string { return fmt.Sprintf("after %d bytes: %v", e.N, e.Err) }
func (e *ShortWrite) Unwrap() error { return e.Err }

// Hooks see the operations of a wrapped file system, in the goroutine that
// does them and with no lock held; several goroutines may call them at once.
// Either may be nil, and either may block: that is how a delay is injected.
type Hooks struct {
	// Before may refuse the operation with an error, which the caller then
	// gets and for which nothing is done (but see ShortWrite). Closing a file
	// or a lock and hints happen all the same.
	Before func(Op) error
	// After sees the outcome. N of a read or write is what was done.
	After func(Op, error)
}

// Wrap returns fsys with hooks around every operation.
func Wrap(fsys FS, h Hooks) FS { return &wrapFS{fsys: fsys, h: h} }

// Faulty returns fsys with a hook before every operation: an error from it
// fails the operation, undone; blocking in it delays the operation.
func Faulty(fsys FS, before func(Op) error) FS { return Wrap(fsys, Hooks{Before: before}) }

type wrapFS struct {
	fsys FS
	h    Hooks
}

// do runs an operation between the hooks.
func (w *wrapFS) do(op Op, f func() error) error {
	var err error
	if w.h.Before != nil {
		err = w.h.Before(op)
	}
	if err == nil {
		err = f()
	} else if op.Kind == OpClose || op.Kind == OpUnlock || op.Kind == OpWriteback || op.Kind == OpForget || op.Kind == OpReserve {
		_ = f()
	}
	if w.h.After != nil {
		w.h.After(op, err)
	}
	return err
}

func (w *wrapFS) open(op Op, f func() (File, error)) (File, error) {
	var out File
	err := w.do(op, func() error {
		file, err := f()
		if err == nil {
			out = &wrapFile{w: w, f: file}
		}
		return err
	})
	return out, err
}

func (w *wrapFS) Open(name string) (File, error) {
	return w.open(Op{Kind: OpOpen, Name: name}, func() (File, error) { return w.fsys.Open(name) })
}

func (w *wrapFS) OpenReadWrite(name string) (File, error) {
	return w.open(Op{Kind: OpOpen, Name: name}, func() (File, error) { return w.fsys.OpenReadWrite(name) })
}

func (w *wrapFS) Create(name string) (File, error) {
	return w.open(Op{Kind: OpCreate, Name: name}, func() (File, error) { return w.fsys.Create(name) })
}

func (w *wrapFS) Rename(oldName, newName string) error {
	return w.do(Op{Kind: OpRename, Name: oldName, NewName: newName}, func() error { return w.fsys.Rename(oldName, newName) })
}

func (w *wrapFS) Remove(name string) error {
	return w.do(Op{Kind: OpRemove, Name: name}, func() error { return w.fsys.Remove(name) })
}

func (w *wrapFS) RemoveAll(name string) error {
	return w.do(Op{Kind: OpRemoveAll, Name: name}, func() error { return w.fsys.RemoveAll(name) })
}

func (w *wrapFS) MkdirAll(name string) error {
	return w.do(Op{Kind: OpMkdirAll, Name: name}, func() error { return w.fsys.MkdirAll(name) })
}

func (w *wrapFS) SyncDir(dir string) error {
	return w.do(Op{Kind: OpSyncDir, Name: dir}, func() error { return w.fsys.SyncDir(dir) })
}

func (w *wrapFS) SyncAll(name string) error {
	return w.do(Op{Kind: OpSyncAll, Name: name}, func() error { return w.fsys.SyncAll(name) })
}

func (w *wrapFS) List(dir string) (names []string, err error) {
	err = w.do(Op{Kind: OpList, Name: dir}, func() error {
		names, err = w.fsys.List(dir)
		return err
	})
	return names, err
}

func (w *wrapFS) Stat(name string) (fi fs.FileInfo, err error) {
	err = w.do(Op{Kind: OpStat, Name: name}, func() error {
		fi, err = w.fsys.Stat(name)
		return err
	})
	return fi, err
}

func (w *wrapFS) Usage(name string) (u Usage, err error) {
	err = w.do(Op{Kind: OpUsage, Name: name}, func() error {
		u, err = w.fsys.Usage(name)
		return err
	})
	return u, err
}

func (w *wrapFS) Lock(name string) (io.Closer, error) {
	var out io.Closer
	err := w.do(Op{Kind: OpLock, Name: name}, func() error {
		c, err := w.fsys.Lock(name)
		if err == nil {
			out = &wrapLock{w: w, c: c, name: name}
		}
		return err
	})
	return out, err
}

type wrapLock struct {
	w    *wrapFS
	c    io.Closer
	name string
}

func (l *wrapLock) Close() error { return l.w.do(Op{Kind: OpUnlock, Name: l.name}, l.c.Close) }

type wrapFile struct {
	w *wrapFS
	f File
}

func (f *wrapFile) Name() string        { return f.f.Name() }
func (f *wrapFile) Fd() (uintptr, bool) { return f.f.Fd() }

// transfer runs a read or write between the hooks.
func (f *wrapFile) transfer(kind Kind, p []byte, off int64, do func(p []byte, off int64) (int, error)) (n int, err error) {
	op := Op{Kind: kind, Name: f.f.Name(), Off: off, N: len(p)}
	if f.w.h.Before != nil {
		err = f.w.h.Before(op)
	}
	var short *ShortWrite
	switch {
	case err == nil:
		n, err = do(p, off)
	case kind == OpWrite && errors.As(err, &short):
		n, err = do(p[:min(short.N, len(p))], off)
		if err == nil {
			err = short.Err
		}
	}
	if f.w.h.After != nil {
		op.N = n
		f.w.h.After(op, err)
	}
	return n, err
}

func (f *wrapFile) ReadAt(p []byte, off int64) (int, error) {
	return f.transfer(OpRead, p, off, f.f.ReadAt)
}

func (f *wrapFile) WriteAt(p []byte, off int64) (int, error) {
	return f.transfer(OpWrite, p, off, f.f.WriteAt)
}

func (f *wrapFile) Close() error { return f.w.do(Op{Kind: OpClose, Name: f.f.Name()}, f.f.Close) }
func (f *wrapFile) Sync() error  { return f.w.do(Op{Kind: OpSync, Name: f.f.Name()}, f.f.Sync) }

func (f *wrapFile) Truncate(size int64) error {
	return f.w.do(Op{Kind: OpTruncate, Name: f.f.Name(), Off: size}, func() error { return f.f.Truncate(size) })
}

func (f *wrapFile) Size() (size int64, err error) {
	err = f.w.do(Op{Kind: OpSize, Name: f.f.Name()}, func() error {
		size, err = f.f.Size()
		return err
	})
	return size, err
}

func (f *wrapFile) StartWriteback(off, n int64) {
	_ = f.w.do(Op{Kind: OpWriteback, Name: f.f.Name(), Off: off, N: int(n)}, func() error {
		f.f.StartWriteback(off, n)
		return nil
	})
}

func (f *wrapFile) Forget(off, n int64) {
	_ = f.w.do(Op{Kind: OpForget, Name: f.f.Name(), Off: off, N: int(n)}, func() error {
		f.f.Forget(off, n)
		return nil
	})
}

func (f *wrapFile) Reserve(n int64) {
	_ = f.w.do(Op{Kind: OpReserve, Name: f.f.Name(), Off: n}, func() error {
		f.f.Reserve(n)
		return nil
	})
}

// Trace records operations, one line each in the order in which they ended,
// for script tests: "create t-0/00000000000000000000.log". A failed one ends
// in "error: ...". The zero value records what Kind.Changes; all methods may be
// called from several goroutines.
type Trace struct {
	// Base is cut from the front of names, which are printed with slashes.
	Base string
	// Filter chooses the operations; nil stands for those that change anything.
	Filter func(Op) bool

	mu    sync.Mutex
	lines []string
}

// Wrap returns fsys with its operations recorded.
func (t *Trace) Wrap(fsys FS) FS { return Wrap(fsys, Hooks{After: t.record}) }

func (t *Trace) record(op Op, err error) {
	if t.Filter != nil && !t.Filter(op) || t.Filter == nil && !op.Kind.Changes() {
		return
	}
	op.Name, op.NewName = t.relative(op.Name), t.relative(op.NewName)
	line := op.String()
	if err != nil {
		line += " error: " + rootCause(err)
	}
	t.Printf("%s", line)
}

// rootCause leaves out the path, which the line has already.
func rootCause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func (t *Trace) relative(name string) string {
	if name == "" {
		return ""
	}
	if t.Base != "" {
		if rel, err := filepath.Rel(t.Base, name); err == nil {
			name = rel
		}
	}
	return filepath.ToSlash(name)
}

// Printf adds a line of the test's own, so that a script shows what caused the
// operations that follow.
func (t *Trace) Printf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// Take returns the lines recorded since the last call, each ended by a newline.
func (t *Trace) Take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	t.lines = nil
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
