package vfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"
)

// memFile is an open file of a Mem.
type memFile struct {
	m      *Mem
	n      *memNode
	name   string
	write  bool
	closed bool // guarded by m.mu
}

var errReadOnly = errors.New("file is open for reading only")

// use locks the file system and checks that the handle allows the operation.
// The caller unlocks, error or not.
func (f *memFile) use(op string, write bool) error {
	f.m.mu.Lock()
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	if write && !f.write {
		return pathError(op, f.name, errReadOnly)
	}
	return nil
}

func (f *memFile) Name() string        { return f.name }
func (f *memFile) Fd() (uintptr, bool) { return 0, false }

func (f *memFile) StartWriteback(off, n int64) {}
func (f *memFile) Forget(off, n int64)         {}
func (f *memFile) Reserve(int64)               {}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	defer f.m.mu.Unlock()
	if err := f.use("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, fs.ErrInvalid)
	}
	if off >= int64(len(f.n.data)) {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	defer f.m.mu.Unlock()
	if err := f.use("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("write", f.name, fs.ErrInvalid)
	}
	fit := f.m.fit(f.n, off+int64(len(p)))
	q := p[:max(min(fit-off, int64(len(p))), 0)]
	if len(q) > 0 {
		f.n.put(f.m, memWrite{off: off, data: slices.Clone(q)})
	}
	if len(q) < len(p) {
		return len(q), pathError("write", f.name, ErrNoSpace)
	}
	return len(p), nil
}

func (f *memFile) Truncate(size int64) error {
	defer f.m.mu.Unlock()
	if err := f.use("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return pathError("truncate", f.name, fs.ErrInvalid)
	}
	if f.m.fit(f.n, size) < size {
		return pathError("truncate", f.name, ErrNoSpace)
	}
	if size != int64(len(f.n.data)) {
		f.n.put(f.m, memWrite{off: size})
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	defer f.m.mu.Unlock()
	if err := f.use("stat", false); err != nil {
		return 0, err
	}
	return int64(len(f.n.data)), nil
}

func (f *memFile) Sync() error {
	defer f.m.mu.Unlock()
	if err := f.use("sync", false); err != nil {
		return err
	}
	f.n.sync()
	return nil
}

func (f *memFile) Close() error {
	defer f.m.mu.Unlock()
	if err := f.use("close", false); err != nil {
		return err
	}
	f.closed = true
	f.n.handles--
	f.m.release(f.n)
	return nil
}

// fit returns the largest size up to want that n can have within the capacity;
// the size that it has is always allowed.
func (m *Mem) fit(n *memNode, want int64) int64 {
	have := int64(len(n.data))
	if m.capacity < 0 || want <= have {
		return want
	}
	return min(want, have+max(m.capacity-m.used, 0))
}

// put applies a write to what readers see and notes it as pending.
func (n *memNode) put(m *Mem, w memWrite) {
	if n.dataShared {
		n.data, n.dataShared = slices.Clone(n.data), false
	}
	before := len(n.data)
	n.data = w.apply(n.data)
	m.used += int64(len(n.data) - before)
	n.pending = append(n.pending, w)
	n.modTime = time.Now()
}

// sync makes the pending writes durable.
func (n *memNode) sync() {
	if len(n.pending) == 0 {
		return
	}
	if n.syncedShared {
		n.synced, n.syncedShared = slices.Clone(n.synced), false
	}
	for _, w := range n.pending {
		n.synced = w.apply(n.synced)
	}
	n.pending = nil
}

func (w memWrite) apply(b []byte) []byte {
	if w.data == nil {
		if w.off <= int64(len(b)) {
			return b[:w.off]
		}
		return growTo(b, w.off)
	}
	if end := w.off + int64(len(w.data)); end > int64(len(b)) {
		b = growTo(b, end)
	}
	copy(b[w.off:], w.data)
	return b
}

// growTo extends b with zeros; what a truncation left in the array is cleared.
func growTo(b []byte, size int64) []byte {
	old := len(b)
	b = slices.Grow(b, int(size)-old)[:size]
	clear(b[old:])
	return b
}
