package segment

import (
	"errors"
	"io"
	"math"
	"sync"

	"github.com/barnabas-mq/barnabas/internal/batch"
)

// windowBytes is read at once while headers are walked.
const windowBytes = 4096

var windows = sync.Pool{New: func() any { return new([windowBytes]byte) }}

// walk calls fn with the header of each batch from pos on, below limit, until
// fn returns false. b holds the header alone; size is the batch's.
func (h *handle) walk(pos, limit int64, fn func(b batch.Batch, pos, size int64) bool) error {
	w := windows.Get().(*[windowBytes]byte)
	defer windows.Put(w)
	var from, have int64 // the window holds [from, from+have)
	for pos < limit {
		if limit-pos < batch.HeaderSize {
			return h.damage(pos, "the file ends within a batch's header")
		}
		if pos < from || pos+batch.HeaderSize > from+have {
			n, err := h.f.ReadAt(w[:min(windowBytes, limit-pos)], pos)
			if n < batch.HeaderSize {
				if err == nil || errors.Is(err, io.EOF) {
					return h.damage(pos, "the file is shorter than was written")
				}
				return err
			}
			from, have = pos, int64(n)
		}
		b := batch.Batch(w[pos-from : pos-from+batch.HeaderSize])
		size := sizeOf(b)
		switch {
		case b.Magic() != 2:
			return h.damage(pos, "not a record batch of format 2")
		case size < batch.HeaderSize || size > limit-pos:
			return h.damage(pos, "a batch's length cannot be")
		}
		if !fn(b, pos, size) {
			return nil
		}
		pos += size
	}
	return nil
}

func (h *handle) damage(pos int64, why string) error {
	return &Damage{File: h.owner.path(), Pos: pos, Why: why}
}

// sizeOf is the size of the batch that a header announces.
func sizeOf(b batch.Batch) int64 { return int64(be32(b[8:12])) + 12 }

// Find returns the position of the batch that holds offset, or of the first
// one behind it; the published size when there is none.
func (s *Segment) Find(offset int64) (pos int64, err error) {
	size := s.size.Load()
	if offset <= s.base {
		return 0, nil
	}
	if offset >= s.next.Load() {
		return size, nil
	}
	h, err := s.data.acquire()
	if err != nil {
		return 0, err
	}
	defer h.release()
	start, first, err := s.lookup(offset, size)
	if err != nil {
		return 0, err
	}
	for range 2 {
		pos, right := size, true
		err = h.walk(start, size, func(b batch.Batch, p, _ int64) bool {
			if p == start && start > 0 && b.LastOffset() != first {
				right = false // the index points at something else
				return false
			}
			if b.LastOffset() >= offset {
				pos = p
				return false
			}
			return true
		})
		if err == nil && right {
			return pos, nil
		}
		if start == 0 || !s.sealed.Load() {
			break
		}
		// A wrong index entry looks like damage: build the index again and ask it.
		if rerr := s.Rebuild(); rerr != nil {
			return 0, rerr
		}
		if start, first, err = s.lookup(offset, size); err != nil {
			return 0, err
		}
	}
	if err == nil {
		err = s.off.damaged("an entry points at no such batch")
	}
	return 0, err
}

// Back returns an offset from which on n entries, at least one, of the offset index
// lie below offset end; the base when there are fewer, and left is how many are wanting.
func (s *Segment) Back(end int64, n int) (offset int64, left int, err error) {
	b, have, err := s.offsets()
	if err != nil {
		return 0, 0, err
	}
	rel := int32(max(min(end-s.base, math.MaxInt32), 0))
	i := search(have, func(i int64) bool { return be32(b[i*offsetEntry:]) < rel })
	if i < int64(n) {
		return s.base, n - int(i), nil
	}
	return s.base + int64(be32(b[(i-int64(n))*offsetEntry:])), 0, nil
}

// lookup is the last index entry at or below offset: its position, and the
// last offset of the batch there. Without one, position 0.
func (s *Segment) lookup(offset, size int64) (pos, last int64, err error) {
	b, n, err := s.offsets()
	if err != nil {
		return 0, 0, err
	}
	rel := int32(min(offset-s.base, math.MaxInt32))
	i := search(n, func(i int64) bool { return be32(b[i*offsetEntry:]) <= rel })
	for ; i > 0; i-- {
		e := b[(i-1)*offsetEntry:]
		if p := int64(be32(e[4:])); p < size {
			return p, s.base + int64(be32(e)), nil
		}
	}
	return 0, s.base, nil
}

// offsets loads the offset index, building it again when a sealed segment's is damaged.
func (s *Segment) offsets() ([]byte, int64, error) { return s.entries(&s.off) }
func (s *Segment) times() ([]byte, int64, error)   { return s.entries(&s.time) }

func (s *Segment) entries(x *index) ([]byte, int64, error) {
	b, n, err := x.load()
	if err != nil && errors.Is(err, errIndex) && s.sealed.Load() {
		if err = s.Rebuild(); err == nil {
			b, n, err = x.load()
		}
	}
	return b, n, err
}

// Whole returns the largest end of whole batches from pos on that is at most
// pos + maxBytes, and of batches below maxOffset only. With minOne the first
// batch counts whatever its size.
func (s *Segment) Whole(pos int64, maxBytes int64, maxOffset int64, minOne bool) (end int64, err error) {
	// Append raises next before size, Cut lowers size before next: with the same
	// next before and after, nothing above it lies below size.
	next := s.next.Load()
	size := s.size.Load()
	if next <= maxOffset && size-pos <= maxBytes && next == s.next.Load() {
		return size, nil
	}
	// Jump close to the end by the index, then walk.
	b, n, err := s.offsets()
	if err != nil {
		return 0, err
	}
	limit := min(size, pos+max(maxBytes, 0))
	rel := int32(max(min(maxOffset-s.base, math.MaxInt32), 0))
	i := search(n, func(i int64) bool {
		e := b[i*offsetEntry:]
		return be32(e) < rel && int64(be32(e[4:])) <= limit
	})
	start := pos
	if i > 0 {
		start = max(pos, int64(be32(b[(i-1)*offsetEntry+4:])))
	}
	h, err := s.data.acquire()
	if err != nil {
		return 0, err
	}
	defer h.release()
	end = start
	err = h.walk(start, size, func(b batch.Batch, p, n int64) bool {
		if b.NextOffset() > maxOffset || (p+n > limit && (!minOne || p > pos)) {
			return false
		}
		end = p + n
		return end < limit
	})
	return end, err
}

// ReadBatch reads the whole batch at pos, which is valid until the next use of buf.
func (s *Segment) ReadBatch(pos int64, buf []byte) (batch.Batch, error) {
	h, err := s.data.acquire()
	if err != nil {
		return nil, err
	}
	defer h.release()
	var size int64
	if err := h.walk(pos, s.size.Load(), func(_ batch.Batch, _, n int64) bool {
		size = n
		return false
	}); err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, h.damage(pos, "no batch there")
	}
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	if _, err := h.f.ReadAt(buf, pos); err != nil {
		return nil, err
	}
	b := batch.Batch(buf)
	if !b.CRCValid() {
		return nil, h.damage(pos, "checksum of a batch is wrong")
	}
	return b, nil
}

// Walk calls fn with the header alone of each published batch from pos on.
func (s *Segment) Walk(pos int64, fn func(b batch.Batch, pos, size int64) bool) error {
	h, err := s.data.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	return h.walk(pos, s.size.Load(), fn)
}

// Acquire returns the bytes [pos, pos+n) as a Slice; they must be published.
func (s *Segment) Acquire(pos, n int64) (Slice, error) {
	h, err := s.data.acquire()
	if err != nil {
		return Slice{}, err
	}
	return Slice{h: h, off: pos, n: int(n)}, nil
}

// BaseAt is the base offset of the batch at pos.
func (s *Segment) BaseAt(pos int64) (base int64, err error) {
	base = s.next.Load()
	err = s.Walk(pos, func(b batch.Batch, _, _ int64) bool {
		base = b.BaseOffset()
		return false
	})
	return base, err
}
