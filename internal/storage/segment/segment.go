package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// writebackBytes is how much may be written before the system is asked to
// begin writing it out (dirty pages are bounded by us).
const writebackBytes = 8 << 20

// Segment is a data file and its indexes. One goroutine at a time may change
// it (Append, Seal, Cut, Recover, Rename, Remove); any number may read, flush
// and sync meanwhile.
type Segment struct {
	base  int64
	data  file
	off   index
	time  index
	txn   index
	files *Files

	size   atomic.Int64 // published bytes
	next   atomic.Int64 // offset after the last published batch
	sealed atomic.Bool

	// Largest timestamp and the last offset of the first batch that has it;
	// tsKnown says that they were looked up.
	maxTs, maxTsOffset atomic.Int64
	tsKnown            atomic.Bool
	tsMu               sync.Mutex // looking them up

	rebuildMu sync.Mutex

	// Under the writer's serialization.
	sinceIndex int64 // bytes since the last offset index entry
	torn       bool  // bytes behind size are to be cut before the next write

	pinMu     sync.Mutex
	pin       *handle // keeps the file open while bytes are not synced
	synced    int64   // bytes known durable
	marks     int     // calls of MarkDirty
	writeback int64   // bytes whose writing was begun
	trim      bool    // the file is longer than size for good (dead tail), cut on Close
}

func newSegment(files *Files, dir *Dir, base int64) *Segment {
	s := &Segment{base: base, files: files}
	s.data.files, s.data.dir, s.data.base, s.data.name = files, dir, base, Name(base, LogSuffix)
	s.off.init(files, dir, base, IndexSuffix, offsetEntry)
	s.time.init(files, dir, base, TimeIndexSuffix, timeEntry)
	s.txn.init(files, dir, base, TxnIndexSuffix, txnEntry)
	s.next.Store(base)
	s.maxTs.Store(-1)
	s.maxTsOffset.Store(-1)
	return s
}

// Create makes the segment that starts at base. With spare not nil that open
// file, spareName in the directory, is renamed to become it; it may then take
// the name from an older segment that was Detached. The directory is not synced.
func Create(files *Files, dir *Dir, base int64, spare vfs.File, spareName string) (*Segment, error) {
	s := newSegment(files, dir, base)
	path := dir.Join(s.data.name)
	f := spare
	var err error
	if f != nil {
		err = files.fs.Rename(dir.Join(spareName), path)
	} else {
		f, err = files.fs.Create(path)
	}
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	s.off.reset()
	s.time.reset()
	s.txn.reset()
	s.tsKnown.Store(true)
	s.data.adopt(f).release()
	return s, nil
}

// Detach prepares for a new segment to take the name of the data file: the
// indexes get suffix, the data file stays open for readers until Remove.
func (s *Segment) Detach(suffix string) error {
	h, err := s.data.acquire()
	if err != nil {
		return err
	}
	s.keepOpen(h)
	for _, x := range [...]*index{&s.off, &s.time, &s.txn} {
		if err := x.rename(suffix); err != nil {
			return err
		}
	}
	s.data.mu.Lock()
	s.data.gone = true
	s.data.mu.Unlock()
	return nil
}

// HasDeadTail reports whether the file is longer than what is published.
func (s *Segment) HasDeadTail() bool {
	s.pinMu.Lock()
	defer s.pinMu.Unlock()
	return s.trim
}

// Open returns the segment at base whose data file has size bytes, all of them
// taken as good; next is the offset after them. It does no I/O.
func Open(files *Files, dir *Dir, base, size, next int64) *Segment {
	s := newSegment(files, dir, base)
	s.size.Store(size)
	s.next.Store(next)
	s.synced, s.writeback = size, size
	s.sealed.Store(true)
	return s
}

// Base is the offset that the segment starts at.
func (s *Segment) Base() int64 { return s.base }

// Next is the offset after the last published batch.
func (s *Segment) Next() int64 { return s.next.Load() }

// Size is the number of published bytes.
func (s *Segment) Size() int64 { return s.size.Load() }

// Fits reports whether an offset can stand in the segment's indexes.
func (s *Segment) Fits(offset int64) bool {
	return offset >= s.base && offset-s.base <= math.MaxInt32
}

// IndexFull reports whether an index has reached maxBytes.
func (s *Segment) IndexFull(maxBytes int32) bool {
	return s.off.n.Load() >= int64(maxBytes)/offsetEntry || s.time.n.Load() >= int64(maxBytes)/timeEntry-1
}

// Append writes whole batches behind the last one, and publishes them. The
// bytes are written by one call. interval is index.interval.bytes.
//
// After an error nothing was published; the next Append first cuts what a
// short write left.
func (s *Segment) Append(buf []byte, interval int32) error {
	size := s.size.Load()
	h, err := s.data.acquire()
	if err != nil {
		return err
	}
	defer s.keepOpen(h) // after publishing, or a sync under way would let go
	if s.torn {
		if err := h.f.Truncate(size); err != nil {
			return fmt.Errorf("cut a torn write: %w", err)
		}
		s.torn = false
	}
	if size+int64(len(buf)) > math.MaxInt32 {
		return fmt.Errorf("%s: segment would pass 2 GiB", h.owner.path())
	}
	if n, err := h.f.WriteAt(buf, size); err != nil {
		s.torn = true
		if terr := h.f.Truncate(size); terr == nil {
			s.torn = false
		}
		return fmt.Errorf("append %d bytes at %d (%d written): %w", len(buf), size, n, err)
	}
	pos, next := size, s.next.Load()
	for rest := buf; len(rest) > 0; {
		var b batch.Batch
		if b, rest, err = batch.Next(rest); err != nil {
			s.torn = true
			return err
		}
		// The indexes are sparse: an entry that cannot be added, because an
		// index that was let go cannot be read again, is only missed.
		_ = s.note(b, pos, int64(len(b)), interval)
		pos += int64(len(b))
		next = b.NextOffset()
	}
	s.next.Store(next)
	s.size.Store(pos)
	return nil
}

// note adds what the indexes need of a batch of n bytes at pos.
func (s *Segment) note(b batch.Batch, pos, n int64, interval int32) error {
	last := b.LastOffset()
	if ts := b.MaxTimestamp(); ts > s.maxTs.Load() {
		s.maxTs.Store(ts)
		s.maxTsOffset.Store(last)
	}
	if s.sinceIndex > int64(interval) {
		var e [offsetEntry]byte
		binary.BigEndian.PutUint32(e[0:], uint32(last-s.base))
		binary.BigEndian.PutUint32(e[4:], uint32(pos))
		if err := s.off.add(e[:]); err != nil {
			return err
		}
		if err := s.noteTime(); err != nil {
			return err
		}
		s.sinceIndex = 0
	}
	s.sinceIndex += n
	return nil
}

// NoteTime is what a clean stop does to the last segment: see Seal. Appends may go on after it.
func (s *Segment) NoteTime() error {
	if !s.tsKnown.Load() {
		return nil // nothing was written since it was opened
	}
	return s.noteTime()
}

// noteTime adds the largest timestamp to the time index when it is larger than
// the last one there.
func (s *Segment) noteTime() error {
	ts, off := s.maxTs.Load(), s.maxTsOffset.Load()
	if ts < 0 {
		return nil
	}
	b, n, err := s.time.load()
	if err != nil {
		return err
	}
	if n > 0 && be64(b[(n-1)*timeEntry:]) >= ts {
		return nil
	}
	var e [timeEntry]byte
	binary.BigEndian.PutUint64(e[0:], uint64(ts))
	binary.BigEndian.PutUint32(e[8:], uint32(off-s.base))
	return s.time.add(e[:])
}

// keepOpen pins the open file, with the reference that the caller holds, until
// a sync has covered what is published.
func (s *Segment) keepOpen(h *handle) {
	s.pinMu.Lock()
	defer s.pinMu.Unlock()
	if s.pin == nil {
		s.pin = h
		return
	}
	h.release()
}

// Seal ends the segment: the largest timestamp becomes the last entry of the
// time index, as Apache Kafka expects of a segment that is not the last.
func (s *Segment) Seal() error {
	s.sealed.Store(true)
	return s.noteTime()
}

// Idle lets go of the open file when nothing is unsynced; it is opened again
// when it is needed.
func (s *Segment) Idle() {
	s.pinMu.Lock()
	pinned := s.pin != nil
	s.pinMu.Unlock()
	if !pinned {
		s.data.drop()
	}
}

// Unseal makes an opened segment the one that is appended to.
func (s *Segment) Unseal() { s.sealed.Store(false) }

// Dirty counts the published bytes that are not known durable.
func (s *Segment) Dirty() int64 {
	s.pinMu.Lock()
	defer s.pinMu.Unlock()
	return s.size.Load() - s.synced
}

// MarkDirty makes the next Sync sync, whatever was written.
func (s *Segment) MarkDirty() {
	s.pinMu.Lock()
	defer s.pinMu.Unlock()
	s.synced = -1
	s.marks++
}

// Sync makes every byte published before the call durable.
func (s *Segment) Sync() error {
	if s.data.detached() {
		return nil // it has no name any more: nothing of it survives anyway
	}
	s.pinMu.Lock()
	size, marks := s.size.Load(), s.marks
	if s.synced >= size && s.pin == nil {
		s.pinMu.Unlock()
		return nil
	}
	h := s.pin
	if h == nil || !h.tryRef() {
		s.pinMu.Unlock()
		var err error
		if h, err = s.data.acquire(); err != nil {
			return err
		}
	} else {
		s.pinMu.Unlock()
	}
	defer h.release()
	if err := h.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", h.owner.path(), err)
	}
	s.pinMu.Lock()
	defer s.pinMu.Unlock()
	if marks != s.marks {
		return nil // marked while the sync ran, which may not have seen all
	}
	s.synced = max(s.synced, min(size, s.size.Load()))
	s.writeback = max(s.writeback, s.synced)
	if s.pin != nil && s.synced >= s.size.Load() {
		s.pin.release()
		s.pin = nil
	}
	return nil
}

// WritebackDue reports whether enough was written to call StartWriteback.
func (s *Segment) WritebackDue() bool {
	s.pinMu.Lock()
	defer s.pinMu.Unlock()
	return s.size.Load()-s.writeback >= writebackBytes
}

// StartWriteback asks the system to begin writing what was published.
func (s *Segment) StartWriteback() {
	s.pinMu.Lock()
	from, to := s.writeback, s.size.Load()
	h := s.pin
	if h == nil || to-from < writebackBytes || !h.tryRef() {
		s.pinMu.Unlock()
		return
	}
	s.writeback = to
	s.pinMu.Unlock()
	h.f.StartWriteback(from, to-from)
	h.release()
}

// FlushIndexes writes the indexes and makes them durable. With create, the
// offset and time index get a file even when empty. It reports whether a file
// was created, so that the directory is to be synced.
func (s *Segment) FlushIndexes(create bool) (created bool, err error) {
	for _, x := range [...]*index{&s.off, &s.time, &s.txn} {
		c, err := x.flush(create && x != &s.txn)
		if err != nil {
			return created, err
		}
		created = created || c
	}
	return created, nil
}

// Reserve asks for room for a data file of n bytes; 0 gives back what was
// reserved and is not used. Nothing is appended meanwhile.
func (s *Segment) Reserve(n int64) {
	h, err := s.data.acquire()
	if err != nil {
		return
	}
	defer s.keepOpen(h)
	h.f.Reserve(n)
}

// TrimDead cuts the bytes behind the published end from the file: only before
// the file is opened to readers, or when the process stops.
func (s *Segment) TrimDead() error {
	s.pinMu.Lock()
	trim := s.trim
	s.pinMu.Unlock()
	if !trim {
		return nil
	}
	h, err := s.data.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	if err := h.f.Truncate(s.size.Load()); err != nil {
		return err
	}
	s.pinMu.Lock()
	s.trim = false
	s.pinMu.Unlock()
	s.MarkDirty()
	return nil
}

// Release lets go of the open file and of the index blocks, without writing.
func (s *Segment) Release() {
	s.pinMu.Lock()
	if s.pin != nil {
		s.pin.release()
		s.pin = nil
	}
	s.pinMu.Unlock()
	s.data.drop()
	s.off.forget()
	s.time.forget()
	s.txn.forget()
}

// Rename adds suffix to the names of the segment's files. Readers that have
// it open are not disturbed, and others open it under the new name.
func (s *Segment) Rename(suffix string) error {
	f := &s.data
	f.mu.Lock()
	err := s.files.fs.Rename(f.dir.Join(f.name), f.dir.Join(f.name+suffix))
	if err == nil {
		f.name += suffix
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	for _, x := range [...]*index{&s.off, &s.time, &s.txn} {
		if err := x.rename(suffix); err != nil {
			return err
		}
	}
	return nil
}

// Remove deletes the files. Readers that have the data file open keep it.
func (s *Segment) Remove() error {
	f := &s.data
	f.mu.Lock()
	var err error
	if !f.gone {
		err = s.files.fs.Remove(f.dir.Join(f.name))
	}
	f.gone = true
	f.mu.Unlock()
	s.Release()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, x := range [...]*index{&s.off, &s.time, &s.txn} {
		if xerr := x.remove(); err == nil {
			err = xerr
		}
	}
	return err
}
