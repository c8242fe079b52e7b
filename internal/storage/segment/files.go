package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// ErrGone means that the segment was deleted: a reader that held an old list
// of segments looks again.
var ErrGone = errors.New("segment deleted")

// Files bounds what all the segments of a process keep: open data files, and
// index blocks in memory. Both are opened on demand and let go by a clock
// (second chance) when the bound is reached. Files with unsynced bytes stay
// open: a descriptor that is opened again may have missed a write error.
//
// All methods may be called concurrently.
type Files struct {
	fs       vfs.FS
	maxOpen  int
	maxBytes int64

	mu      sync.Mutex
	handles []*handle
	hand    int
	blocks  []*block
	bhand   int
	bytes   int64 // of blocks
}

// NewFiles returns bounds over fsys: maxOpen data files kept open (those in
// use at a moment come on top), maxIndexBytes of index blocks in memory.
func NewFiles(fsys vfs.FS, maxOpen int, maxIndexBytes int64) *Files {
	return &Files{fs: fsys, maxOpen: max(maxOpen, 1), maxBytes: maxIndexBytes}
}

// FS is the file system under the files.
func (c *Files) FS() vfs.FS { return c.fs }

// Open counts the data files that are open now.
func (c *Files) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.handles)
}

// handle is an open data file. The cache holds one reference, each reader and
// the unsynced state of a segment one more.
type handle struct {
	f     vfs.File
	refs  atomic.Int32
	used  atomic.Bool
	owner *file
	slot  int // in Files.handles, under Files.mu; -1 when the cache let go
}

func (h *handle) tryRef() bool {
	for {
		r := h.refs.Load()
		if r == 0 {
			return false
		}
		if h.refs.CompareAndSwap(r, r+1) {
			return true
		}
	}
}

func (h *handle) release() {
	switch r := h.refs.Add(-1); {
	case r == 0:
		_ = h.f.Close() // nothing unsynced is ever closed here
	case r < 0:
		panic("segment: a file was released more often than it was taken")
	}
}

// file is a data file that is opened on demand.
type file struct {
	files *Files
	dir   *Dir
	h     atomic.Pointer[handle]

	base int64

	mu   sync.Mutex // opening, renaming
	name string
	gone bool
}

// path names the file in errors. An open file does not always know: it may
// have been renamed since.
func (f *file) path() string { return f.dir.Join(Name(f.base, LogSuffix)) }

// acquire returns the open file with a reference taken.
func (f *file) acquire() (*handle, error) {
	if h := f.h.Load(); h != nil && h.tryRef() {
		if !h.used.Load() {
			h.used.Store(true)
		}
		return h, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.h.Load(); h != nil && h.tryRef() {
		return h, nil
	}
	if f.gone {
		return nil, ErrGone
	}
	path := f.dir.Join(f.name)
	vf, err := f.files.fs.OpenReadWrite(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", ErrGone, err)
		}
		return nil, err
	}
	return f.adoptLocked(vf), nil
}

// adopt makes an open file the one that acquire returns, and takes a reference.
func (f *file) adopt(vf vfs.File) *handle {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.adoptLocked(vf)
}

func (f *file) adoptLocked(vf vfs.File) *handle {
	h := &handle{f: vf, owner: f}
	h.refs.Store(2)
	f.h.Store(h)
	f.files.add(h)
	return h
}

func (f *file) detached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gone
}

// drop lets go of the cached open file; readers that hold it keep it.
func (f *file) drop() {
	if h := f.h.Load(); h != nil {
		f.files.remove(h)
	}
}

func (c *Files) add(h *handle) {
	c.mu.Lock()
	var closing []*handle
	for n := len(c.handles); n > 0 && len(c.handles) >= c.maxOpen; n-- {
		c.hand = (c.hand + 1) % len(c.handles)
		v := c.handles[c.hand]
		if v.used.Swap(false) || !v.refs.CompareAndSwap(1, 0) {
			continue
		}
		c.unlist(v)
		closing = append(closing, v)
		if len(c.handles) == 0 {
			break
		}
	}
	h.slot = len(c.handles)
	c.handles = append(c.handles, h)
	c.mu.Unlock()
	for _, v := range closing {
		_ = v.f.Close()
	}
}

// unlist takes h out of the list, under c.mu.
func (c *Files) unlist(h *handle) {
	last := len(c.handles) - 1
	c.handles[h.slot] = c.handles[last]
	c.handles[h.slot].slot = h.slot
	c.handles[last] = nil
	c.handles = c.handles[:last]
	h.slot = -1
	h.owner.h.CompareAndSwap(h, nil)
}

func (c *Files) remove(h *handle) {
	c.mu.Lock()
	if h.slot < 0 {
		c.mu.Unlock()
		return
	}
	c.unlist(h)
	c.mu.Unlock()
	h.release()
}

// block is the content of an index in memory. Entries are added behind the
// published count, so that readers need no lock.
type block struct {
	b     []byte
	used  atomic.Bool
	dirty atomic.Bool // holds entries that are not in the file: never evicted
	owner *index
	slot  int // in Files.blocks, under Files.mu; -1 when let go
}

func (c *Files) addBlock(k *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.slot = len(c.blocks)
	c.blocks = append(c.blocks, k)
	c.bytes += int64(cap(k.b))
	for n := 2 * len(c.blocks); n > 0 && c.bytes > c.maxBytes && len(c.blocks) > 1; n-- {
		c.bhand = (c.bhand + 1) % len(c.blocks)
		v := c.blocks[c.bhand]
		if v == k || v.dirty.Load() || v.used.Swap(false) {
			continue
		}
		// A block that an appender holds at this moment is skipped: it may be
		// about to become dirty.
		if !v.owner.mu.TryLock() {
			continue
		}
		if !v.dirty.Load() {
			v.owner.blk.CompareAndSwap(v, nil)
			c.unlistBlock(v)
		}
		v.owner.mu.Unlock()
	}
}

func (c *Files) unlistBlock(k *block) {
	if k.slot < 0 {
		return
	}
	last := len(c.blocks) - 1
	c.blocks[k.slot] = c.blocks[last]
	c.blocks[k.slot].slot = k.slot
	c.blocks[last] = nil
	c.blocks = c.blocks[:last]
	c.bytes -= int64(cap(k.b))
	k.slot = -1
}

func (c *Files) removeBlock(k *block) {
	c.mu.Lock()
	c.unlistBlock(k)
	c.mu.Unlock()
}
