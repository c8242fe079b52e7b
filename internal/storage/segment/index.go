package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Sizes of index entries in bytes.
const (
	offsetEntry = 8  // int32 relative offset, int32 position
	timeEntry   = 12 // int64 timestamp, int32 relative offset
	txnEntry    = 34 // int16 version, int64 producer id, first, last, last stable offset
)

// errIndex marks an index that cannot be right; it is built again.
var errIndex = errors.New("index damaged")

// index is a file of entries of one size. Its content is read into a block in
// memory when it is first needed; entries are added in memory and written by
// flush. Lookups take no lock once the block is there: they load the count,
// then the block, and bytes below a published count do not change.
type index struct {
	files  *Files
	dir    *Dir
	suffix string
	base   int64
	size   int // of an entry

	n   atomic.Int64 // entries published; -1: not known before the file was looked at
	blk atomic.Pointer[block]

	mu       sync.Mutex
	gone     string // suffix added by a rename, "" while in use
	written  int64  // leading entries that the file holds
	fileSize int64  // bytes in the file; -1: there is none, or not known
	synced   bool   // what was written is durable
}

func (x *index) init(files *Files, dir *Dir, base int64, suffix string, size int) {
	x.files, x.dir, x.base, x.suffix, x.size = files, dir, base, suffix, size
	x.fileSize, x.synced = -1, true
	x.n.Store(-1)
}

// reset starts the index again without entries. The file keeps its old content
// until the next flush.
func (x *index) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.n.Store(0)
	x.swap(&block{owner: x, slot: -1})
	x.written, x.fileSize, x.synced = 0, -1, false
}

func (x *index) path() string { return x.dir.Join(Name(x.base, x.suffix) + x.gone) }

// swap puts k in place of the block, under x.mu.
func (x *index) swap(k *block) {
	if old := x.blk.Swap(k); old != nil {
		x.files.removeBlock(old)
	}
	if cap(k.b) > 0 {
		x.files.addBlock(k)
	}
}

// load returns the entries, reading the file when they are not in memory.
func (x *index) load() (b []byte, n int64, err error) {
	if n = x.n.Load(); n >= 0 {
		if k := x.blk.Load(); k != nil {
			if !k.used.Load() {
				k.used.Store(true)
			}
			if int64(len(k.b)) >= n*int64(x.size) {
				return k.b, n, nil
			}
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	k, err := x.loadLocked()
	if err != nil {
		return nil, 0, err
	}
	return k.b, x.n.Load(), nil
}

func (x *index) loadLocked() (*block, error) {
	if k := x.blk.Load(); k != nil && x.n.Load() >= 0 {
		return k, nil
	}
	n, want := x.n.Load(), int64(0)
	f, err := x.files.fs.Open(x.path())
	switch {
	case errors.Is(err, fs.ErrNotExist) && x.gone != "":
		return nil, fmt.Errorf("%s: %w: %w", x.path(), ErrGone, err)
	case errors.Is(err, fs.ErrNotExist):
		if n > 0 || (n < 0 && x.suffix != TxnIndexSuffix) {
			return nil, fmt.Errorf("%s: %w: %w", x.path(), errIndex, err)
		}
		x.fileSize = -1
	case err != nil:
		return nil, err
	default:
		defer f.Close()
		if x.fileSize, err = f.Size(); err != nil {
			return nil, err
		}
		if n < 0 {
			if x.fileSize%int64(x.size) != 0 {
				return nil, fmt.Errorf("%s: %w: %d bytes are no multiple of %d", x.path(), errIndex, x.fileSize, x.size)
			}
			n = x.fileSize / int64(x.size)
		}
		if want = n * int64(x.size); want > x.fileSize {
			return nil, fmt.Errorf("%s: %w: %d bytes where %d were written", x.path(), errIndex, x.fileSize, want)
		}
	}
	k := &block{owner: x, slot: -1, b: make([]byte, want)}
	if want > 0 {
		if m, err := f.ReadAt(k.b, 0); int64(m) < want {
			return nil, fmt.Errorf("%s: %w", x.path(), err)
		}
		if x.good(k.b, max(n, 0)) < n {
			return nil, x.damaged("entries do not rise")
		}
	}
	x.written = max(n, 0)
	x.swap(k)
	x.n.Store(max(n, 0))
	return k, nil
}

// add appends an entry; the caller serializes additions.
func (x *index) add(entry []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	k, err := x.loadLocked()
	if err != nil {
		return err
	}
	n := x.n.Load()
	end := (n + 1) * int64(x.size)
	if end > int64(len(k.b)) {
		// Room is taken in full length, so that readers index it without bounds that move.
		room := make([]byte, max(end*2, 32*int64(x.size)))
		copy(room, k.b[:n*int64(x.size)])
		k = &block{owner: x, slot: -1, b: room}
		k.dirty.Store(true)
		x.swap(k)
	}
	k.dirty.Store(true)
	copy(k.b[n*int64(x.size):end], entry)
	x.n.Store(n + 1)
	return nil
}

// cut keeps the first n entries. The caller serializes it with add.
func (x *index) cut(n int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n >= x.n.Load() {
		return
	}
	// A block of its own: a reader may still hold the longer one, and entries
	// that are added again must not change under it.
	if old := x.blk.Load(); old != nil {
		k := &block{owner: x, slot: -1, b: append([]byte(nil), old.b[:n*int64(x.size)]...)}
		k.dirty.Store(true)
		x.n.Store(n)
		x.swap(k)
	} else {
		x.n.Store(n)
	}
	x.written = min(x.written, n)
	x.synced = false
}

// flush writes what was added and cuts what is too long. With create, an empty
// index gets a file too. It reports whether a file was created: the directory
// is then to be synced.
func (x *index) flush(create bool) (created bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.n.Load()
	if n < 0 || x.gone != "" {
		return false, nil // never looked at: the file is as it was
	}
	want := n * int64(x.size)
	if x.written == n && x.synced && (x.fileSize == want || (x.fileSize < 0 && n == 0 && !create)) {
		return false, nil
	}
	f, err := x.files.fs.OpenReadWrite(x.path())
	if errors.Is(err, fs.ErrNotExist) {
		if n == 0 && !create {
			x.synced = true
			return false, nil
		}
		created = true
		x.written = 0
		f, err = x.files.fs.Create(x.path())
	}
	if err != nil {
		return false, err
	}
	if !created || n > 0 { // a new file without entries is a name, which the directory's sync keeps
		if err = x.writeTo(f, n, want); err != nil {
			_ = f.Close()
			return false, fmt.Errorf("%s: %w", x.path(), err)
		}
	}
	if err = f.Close(); err != nil {
		return false, err
	}
	x.written, x.fileSize, x.synced = n, want, true
	if k := x.blk.Load(); k != nil {
		k.dirty.Store(false)
	}
	return created, nil
}

func (x *index) writeTo(f vfs.File, n, want int64) error {
	k := x.blk.Load()
	if x.written < n {
		if k == nil {
			return fmt.Errorf("%w: entries lost before they were written", errIndex)
		}
		from := x.written * int64(x.size)
		if _, err := f.WriteAt(k.b[from:want], from); err != nil {
			return err
		}
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size > want {
		if err := f.Truncate(want); err != nil {
			return err
		}
	}
	return f.Sync()
}

// rename moves the file to a name with suffix added.
func (x *index) rename(suffix string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.path()
	err := x.files.fs.Rename(old, x.dir.Join(Name(x.base, x.suffix)+suffix))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	x.gone = suffix
	return nil
}

func (x *index) remove() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forgetLocked()
	if err := x.files.fs.Remove(x.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// forget lets go of the memory.
func (x *index) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forgetLocked()
}

func (x *index) forgetLocked() {
	if old := x.blk.Swap(nil); old != nil {
		x.files.removeBlock(old)
	}
}

func be32(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }
func be64(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

// search returns the number of leading entries for which below is true.
func search(n int64, below func(i int64) bool) int64 {
	lo, hi := int64(0), n
	for lo < hi {
		if mid := int64(uint64(lo+hi) >> 1); below(mid) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (x *index) damaged(why string) error {
	return fmt.Errorf("%s: %w: %s", x.path(), errIndex, why)
}

// replace takes over the entries of an index that was built again.
func (x *index) replace(by *index) {
	by.mu.Lock()
	k, n := by.blk.Load(), by.n.Load()
	own := &block{owner: x, slot: -1, b: k.b}
	own.dirty.Store(true)
	by.files.removeBlock(k)
	by.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.n.Store(min(n, max(x.n.Load(), 0))) // a reader between the two stores sees few entries, never wrong ones
	x.swap(own)
	x.n.Store(n)
	x.written, x.fileSize, x.synced = 0, -1, false
}

// good counts the leading entries that rise, as zeroes and foreign bytes do not.
func (x *index) good(b []byte, n int64) int64 {
	var key, rel int64 = -1, -1
	for i := range n {
		e := b[i*int64(x.size):]
		var k, r int64
		switch x.suffix {
		case IndexSuffix:
			// The first batch of a file is never in its index.
			if k, r = int64(be32(e[4:])), int64(be32(e)); k == 0 {
				return i
			}
		case TimeIndexSuffix:
			k, r = be64(e), int64(be32(e[8:]))
		case TxnIndexSuffix:
			a := parseTxn(e)
			k, r = a.Last, a.Last-x.base
			if e[0] != 0 || e[1] != 0 || a.First >= a.Last || a.LastStable > a.Last+1 {
				return i
			}
		}
		if k <= key || r <= rel {
			return i
		}
		key, rel = k, r
	}
	return n
}

// last reads the last entry of a file that is not in memory; nil without one.
func (x *index) last() ([]byte, error) {
	f, err := x.files.fs.Open(x.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size < int64(x.size) {
		return nil, err
	}
	e := make([]byte, x.size)
	_, err = f.ReadAt(e, (size/int64(x.size)-1)*int64(x.size))
	return e, err
}

// salvage loads what of the file can be right, for recovery: entries at the
// end that were not synced before a crash may be anything.
func (x *index) salvage() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	f, err := x.files.fs.Open(x.path())
	if errors.Is(err, fs.ErrNotExist) {
		if x.suffix == TxnIndexSuffix {
			x.n.Store(0)
			x.swap(&block{owner: x, slot: -1})
			return nil
		}
		return x.damaged("it is missing")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if x.fileSize, err = f.Size(); err != nil {
		return err
	}
	n := x.fileSize / int64(x.size)
	b := make([]byte, n*int64(x.size))
	if m, err := f.ReadAt(b, 0); m < len(b) {
		return fmt.Errorf("%s: %w", x.path(), err)
	}
	n = x.good(b, n)
	k := &block{owner: x, slot: -1, b: b[:n*int64(x.size)]}
	k.dirty.Store(true)
	x.written, x.synced = n, false
	x.swap(k)
	x.n.Store(n)
	return nil
}
