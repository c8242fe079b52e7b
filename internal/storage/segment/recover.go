package segment

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
)

// scanBytes is read at once by Recover.
const scanBytes = 1 << 20

// Recovered says what Recover found.
type Recovered struct {
	From int64  // index entries from this offset on were made again
	Next int64  // offset after the last good batch
	Size int64  // bytes kept
	Cut  int64  // bytes cut from the file's end
	Why  string // what was wrong with the first byte cut, "" when nothing was
}

// RecoverOpts of Recover.
type RecoverOpts struct {
	// From is the offset below which everything is durable and indexed; the
	// scan begins at the batch that holds it.
	From int64
	// Limit is the base of the next segment: what lies at or above it was
	// truncated away (a dead tail). math.MaxInt64 for the last one.
	Limit int64
	// EpochBefore is the leader epoch of the last batch below an offset, at most
	// From, or -1. A batch of a lower epoch ends the log.
	EpochBefore func(offset int64) int32
	// Interval is index.interval.bytes.
	Interval int32
	// Each is called with every good batch, whole; it keeps nothing of it.
	Each func(b batch.Batch) error
}

// Recover reads the file from a position that is known good, checks length,
// format, checksum, offsets and leader epochs of every batch, cuts the file at
// the first that is wrong, and builds the indexes again from there. It must
// run before anyone reads the segment, and it needs Sync and FlushIndexes after.
//
// A batch of an older format than 2 is an error, and nothing is cut then.
func (s *Segment) Recover(o RecoverOpts) (Recovered, error) {
	h, err := s.data.acquire()
	if err != nil {
		return Recovered{}, err
	}
	defer s.keepOpen(h)
	fileSize, err := h.f.Size()
	if err != nil {
		return Recovered{}, err
	}
	s.size.Store(min(fileSize, math.MaxInt32))
	if s.next.Load() < o.Limit && o.Limit != math.MaxInt64 {
		s.next.Store(o.Limit)
	}
	pos, err := s.trusted(o.From)
	if err != nil {
		return Recovered{}, err
	}
	r := &scan{s: s, h: h, o: o, pos: pos, next: s.next.Load()}
	r.epoch = o.EpochBefore(r.next)
	from := r.next
	if err := r.run(fileSize); err != nil {
		return Recovered{}, err
	}
	s.size.Store(r.pos)
	s.next.Store(r.next)
	s.tsKnown.Store(true)
	if r.pos < fileSize {
		if err := h.f.Truncate(r.pos); err != nil {
			return Recovered{}, fmt.Errorf("cut %s at %d: %w", h.owner.path(), r.pos, err)
		}
	}
	s.MarkDirty()
	return Recovered{From: from, Next: r.next, Size: r.pos, Cut: fileSize - r.pos, Why: r.why}, nil
}

// trusted prepares the indexes for a scan that begins at offset from, and
// returns its position. Indexes that are damaged mean the start of the file.
func (s *Segment) trusted(from int64) (int64, error) {
	if from > s.base {
		pos, next, err := s.endAt(from, s.size.Load())
		var damage *Damage
		if errors.As(err, &damage) {
			err = nil // the scan meets it at pos, and says what it is
		}
		if err == nil {
			s.next.Store(next)
			err = s.cutIndexes(pos, next)
		}
		if err == nil {
			err = s.loadTimestamps(pos)
		}
		if err == nil {
			_, err = s.tail(pos) // counts the bytes since the last index entry
		}
		if err == nil {
			return pos, nil
		}
		if !errors.As(err, &damage) && !errors.Is(err, errIndex) {
			return 0, err
		}
	}
	for _, x := range [...]*index{&s.off, &s.time, &s.txn} {
		x.reset()
	}
	s.maxTs.Store(-1)
	s.maxTsOffset.Store(-1)
	s.sinceIndex = 0
	s.next.Store(s.base)
	return 0, nil
}

type scan struct {
	s     *Segment
	h     *handle
	o     RecoverOpts
	epoch int32
	pos   int64 // good up to here
	next  int64
	why   string
}

func (r *scan) run(fileSize int64) error {
	buf := make([]byte, min(scanBytes, max(fileSize-r.pos, 1)))
	var have int // bytes of buf from r.pos on
	for r.why == "" && r.pos < fileSize {
		n, err := r.h.f.ReadAt(buf[have:min(int64(len(buf)), fileSize-r.pos)], r.pos+int64(have))
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s at %d: %w", r.h.owner.path(), r.pos, err)
		}
		have += n
		used, need, err := r.take(buf[:have], fileSize)
		if err != nil {
			return err
		}
		have = copy(buf, buf[used:have])
		if r.why != "" || need == 0 && n == 0 {
			break
		}
		if need > len(buf) {
			grown := make([]byte, need)
			copy(grown, buf[:have])
			buf = grown
		}
	}
	return nil
}

// take checks the batches in b, which lies at r.pos. It returns the bytes that
// it took, and how many the next batch needs.
func (r *scan) take(b []byte, fileSize int64) (used, need int, err error) {
	for {
		rest := b[used:]
		left := fileSize - r.pos
		switch {
		case left == 0:
			return used, 0, nil
		case left < batch.HeaderSize:
			r.why = "the file ends within a batch's header"
			return used, 0, nil
		case len(rest) < batch.HeaderSize:
			return used, batch.HeaderSize, nil
		}
		head := batch.Batch(rest[:batch.HeaderSize])
		size := sizeOf(head)
		if m := head.Magic(); (m == 0 || m == 1) && r.pos == 0 && size > 12 && size <= left && head.BaseOffset() >= r.s.base {
			return used, 0, fmt.Errorf("%s: message format %d is not supported; convert the topic with Apache Kafka 3.x first: %w",
				r.h.owner.path(), m, kerr.UnsupportedForMessageFormat)
		}
		if r.why = r.frame(head, size, left); r.why != "" {
			return used, 0, nil
		}
		if int64(len(rest)) < size {
			return used, int(size), nil
		}
		full := batch.Batch(rest[:size])
		if !full.CRCValid() {
			r.why = "checksum of a batch is wrong"
			return used, 0, nil
		}
		if err := r.o.Each(full); err != nil {
			return used, 0, err
		}
		if err := r.s.note(full, r.pos, size, r.o.Interval); err != nil {
			return used, 0, err
		}
		r.epoch = full.LeaderEpoch()
		r.next = full.NextOffset()
		r.pos += size
		used += int(size)
	}
}

// frame says what is wrong with a header, or "".
func (r *scan) frame(b batch.Batch, size, left int64) string {
	last, delta := b.LastOffset(), b.LastOffsetDelta()
	switch {
	case b.Magic() != 2:
		return "not a record batch of format 2"
	case size < batch.HeaderSize:
		return "a batch's length cannot be"
	case size > left:
		return "the file ends within a batch"
	case delta < 0 || b.BaseOffset() < r.s.base || !r.s.Fits(last):
		return "a batch's offsets do not belong to the segment"
	case b.BaseOffset() >= r.o.Limit || last >= r.o.Limit:
		return "the next segment begins at a lower offset"
	case b.BaseOffset() < r.next:
		return "offsets go back"
	case b.LeaderEpoch() < r.epoch:
		return "leader epoch goes back"
	}
	return ""
}

// CutDead cuts the file at limit, the base of the next segment, when it holds
// batches at or above it, and syncs it. It must run before anyone reads the
// segment. It returns how many bytes it cut. The indexes go first: were the
// file shorter already, nobody would look at them again.
func (s *Segment) CutDead(limit int64) (cut int64, err error) {
	size := s.size.Load()
	next := s.next.Load()
	if dead, err := s.reaches(limit); err != nil || !dead {
		return 0, err
	}
	s.next.Store(math.MaxInt64)
	pos, _, err := s.endAt(limit, size)
	again := errors.Is(err, errIndex)
	if again {
		s.off.reset()
		s.time.reset()
		pos, _, err = s.endBetween(0, 0, limit)
	}
	s.next.Store(next)
	if err != nil || pos == size {
		return 0, err
	}
	if again {
		s.size.Store(pos)
		err = s.Rebuild()
	}
	if err == nil {
		err = s.cutIndexes(pos, limit)
	}
	if err != nil {
		return 0, err
	}
	if _, err := s.FlushIndexes(false); err != nil {
		return 0, err
	}
	s.size.Store(pos)
	s.pinMu.Lock()
	s.trim = true
	s.pinMu.Unlock()
	if err := s.TrimDead(); err != nil {
		return 0, err
	}
	return size - pos, s.Sync()
}

// endAt is the position where the batches below offset limit end, and the
// offset there. What follows may be anything, for nobody synced it: a base
// offset, for one, is not covered by the batch's checksum. It is a Damage when
// the good batches end below limit.
func (s *Segment) endAt(limit, size int64) (end, next int64, err error) {
	if err := errors.Join(s.off.salvage(), s.time.salvage(), s.txn.salvage()); err != nil {
		return 0, s.base, err
	}
	start, last, err := s.lookup(limit-1, size)
	if err != nil {
		return 0, s.base, err
	}
	return s.endBetween(start, last, limit)
}

// endBetween is endAt, from the batch at start on whose last offset is last.
func (s *Segment) endBetween(start, last, limit int64) (end, next int64, err error) {
	for {
		end, next = start, s.base
		wrong, back := false, false
		err = s.Walk(start, func(b batch.Batch, p, n int64) bool {
			wrong = wrong || p == start && start > 0 && b.LastOffset() != last
			back = b.BaseOffset() < next || b.LastOffset() < b.BaseOffset()
			if wrong || back || b.NextOffset() > limit {
				return false
			}
			end, next = p+n, b.NextOffset()
			return true
		})
		if !wrong && start > 0 && end == start {
			wrong = true
		}
		if start > 0 && (wrong || err != nil && next != limit) {
			start = 0 // the index is not to be trusted
			continue
		}
		var d *Damage
		if back || errors.As(err, &d) {
			err = nil
			if next != limit {
				err = &Damage{File: s.data.path(), Pos: end, Why: "the good batches end below an offset that was durable"}
			}
		}
		return end, next, err
	}
}

// reaches reports whether the file holds a batch that ends above limit. It
// reads the last entry of the offset index only, not all of it.
func (s *Segment) reaches(limit int64) (bool, error) {
	size := s.size.Load()
	e, err := s.off.last()
	if err != nil {
		return false, err
	}
	var pos int64
	if e != nil {
		pos = int64(be32(e[4:]))
	}
	if pos >= size {
		return true, nil // the index says more than there is: look closer
	}
	reaches, first := false, true
	err = s.Walk(pos, func(b batch.Batch, _, _ int64) bool {
		if first && e != nil && b.LastOffset() != s.base+int64(be32(e)) {
			reaches = true
		}
		first = false
		reaches = reaches || b.NextOffset() > limit
		return true
	})
	var d *Damage
	if errors.As(err, &d) {
		return true, nil
	}
	return reaches, err
}

// LoadTail finds what Append needs of a segment that was closed in good order:
// the offset after its last batch and its largest timestamp. A damaged index
// is built again. Damage in the data file is an error.
func (s *Segment) LoadTail() error {
	s.sealed.Store(true)
	size := s.size.Load()
	next, err := s.tail(size)
	if err != nil {
		if rerr := s.Rebuild(); rerr != nil {
			return rerr
		}
		if next, err = s.tail(size); err != nil {
			return err
		}
	}
	s.next.Store(next)
	return s.loadTimestamps(size)
}

// tail walks from the last index entry to position end, where a batch ends. It
// returns the offset after that batch, and counts the bytes since the entry.
func (s *Segment) tail(end int64) (next int64, err error) {
	b, n, err := s.offsets()
	if err != nil {
		return 0, err
	}
	var pos, last int64
	if n > 0 {
		e := b[(n-1)*offsetEntry:]
		pos, last = int64(be32(e[4:])), s.base+int64(be32(e))
		if pos >= end {
			return 0, s.off.damaged("an entry lies behind the end of the file")
		}
	}
	h, err := s.data.acquire()
	if err != nil {
		return 0, err
	}
	defer h.release()
	next = s.base
	s.sinceIndex = 0
	wrong := false
	err = h.walk(pos, end, func(b batch.Batch, p, n int64) bool {
		wrong = wrong || p == pos && pos > 0 && b.LastOffset() != last
		next = b.NextOffset()
		s.sinceIndex += n
		return !wrong
	})
	if err == nil && wrong {
		err = s.off.damaged("an entry points at no such batch")
	}
	return next, err
}

// Rebuild makes the offset and time index again from the batches' headers. It
// is for a segment that is not appended to.
func (s *Segment) Rebuild() error {
	s.rebuildMu.Lock()
	defer s.rebuildMu.Unlock()
	h, err := s.data.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	t := newSegment(s.files, s.data.dir, s.base)
	t.off.reset()
	t.time.reset()
	// The interval of a file that is being built again is the default one.
	var noteErr error
	err = h.walk(0, s.size.Load(), func(b batch.Batch, p, n int64) bool {
		noteErr = t.note(b, p, n, 4096)
		return noteErr == nil
	})
	if err = errors.Join(err, noteErr); err != nil {
		return err
	}
	if err := t.noteTime(); err != nil {
		return err
	}
	s.off.replace(&t.off)
	s.time.replace(&t.time)
	return nil
}

// Cut lowers the published end to the base of the batch that holds offset, or
// that is the first behind it. The bytes stay in the file (a dead tail) until
// TrimDead. It returns the new end offset.
//
// Readers that run at the same time see the old end or the new.
func (s *Segment) Cut(offset int64) (end int64, err error) {
	pos, err := s.Find(offset)
	if err != nil {
		return 0, err
	}
	end = s.next.Load()
	if pos < s.size.Load() {
		if err := s.Walk(pos, func(b batch.Batch, _, _ int64) bool {
			end = b.BaseOffset()
			return false
		}); err != nil {
			return 0, err
		}
	}
	if err := s.cutIndexes(pos, end); err != nil {
		return 0, err
	}
	s.size.Store(pos) // first: see Whole
	s.next.Store(end)
	s.pinMu.Lock()
	s.trim = true
	s.pinMu.Unlock()
	return end, s.loadTimestamps(pos)
}

// cutIndexes drops what the indexes say of bytes from pos on.
func (s *Segment) cutIndexes(pos, offset int64) error {
	ob, on, err := s.offsets()
	if err != nil {
		return err
	}
	tb, tn, err := s.times()
	if err != nil {
		return err
	}
	xb, xn, err := s.txn.load()
	if err != nil {
		return err
	}
	s.off.cut(search(on, func(i int64) bool { return int64(be32(ob[i*offsetEntry+4:])) < pos }))
	s.time.cut(search(tn, func(i int64) bool { return s.base+int64(be32(tb[i*timeEntry+8:])) < offset }))
	s.txn.cut(search(xn, func(i int64) bool { return parseTxn(xb[i*txnEntry:]).Last < offset }))
	return nil
}
