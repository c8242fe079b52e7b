package segment

import (
	"github.com/barnabas-mq/barnabas/internal/batch"
)

// loadTimestamps finds the largest timestamp below position size.
func (s *Segment) loadTimestamps(size int64) error {
	s.tsMu.Lock()
	defer s.tsMu.Unlock()
	ts, off, err := s.maxBelow(s.next.Load(), size)
	if err != nil {
		return err
	}
	s.maxTs.Store(ts)
	s.maxTsOffset.Store(off)
	s.tsKnown.Store(true)
	return nil
}

// maxBelow is the largest timestamp of batches that end below offset end and
// position size, with the last offset of the first batch that has it; -1, -1
// without batches.
func (s *Segment) maxBelow(end, size int64) (ts, offset int64, err error) {
	ts, offset = -1, -1
	b, n, err := s.times()
	if err != nil {
		return 0, 0, err
	}
	var pos int64
	i := search(n, func(i int64) bool { return s.base+int64(be32(b[i*timeEntry+8:])) < end })
	if i > 0 {
		e := b[(i-1)*timeEntry:]
		ts, offset = be64(e), s.base+int64(be32(e[8:]))
		if pos, err = s.Find(offset); err != nil {
			return 0, 0, err
		}
	}
	h, err := s.data.acquire()
	if err != nil {
		return 0, 0, err
	}
	defer h.release()
	found := i == 0
	err = h.walk(pos, size, func(b batch.Batch, _, _ int64) bool {
		if b.LastOffset() >= end {
			return false
		}
		if i > 0 && b.LastOffset() == offset && b.MaxTimestamp() == ts {
			found = true
		}
		if m := b.MaxTimestamp(); m > ts {
			ts, offset = m, b.LastOffset()
		}
		return true
	})
	if err == nil && !found {
		// The time index names a batch that is not there.
		if !s.sealed.Load() {
			return 0, 0, s.time.damaged("an entry names no such batch")
		}
		if err = s.Rebuild(); err != nil {
			return 0, 0, err
		}
		return s.maxByHeaders(end, size)
	}
	return ts, offset, err
}

func (s *Segment) maxByHeaders(end, size int64) (ts, offset int64, err error) {
	ts, offset = -1, -1
	h, err := s.data.acquire()
	if err != nil {
		return 0, 0, err
	}
	defer h.release()
	err = h.walk(0, size, func(b batch.Batch, _, _ int64) bool {
		if b.LastOffset() >= end {
			return false
		}
		if m := b.MaxTimestamp(); m > ts {
			ts, offset = m, b.LastOffset()
		}
		return true
	})
	return ts, offset, err
}

// MaxTimestamp is the segment's largest timestamp in ms, and the last offset
// of the first batch that has it; -1, -1 of an empty segment.
func (s *Segment) MaxTimestamp() (ts, offset int64, err error) {
	if !s.tsKnown.Load() {
		if err := s.loadTimestamps(s.size.Load()); err != nil {
			return 0, 0, err
		}
	}
	return s.maxTs.Load(), s.maxTsOffset.Load(), nil
}

// MaxTimestampBelow is MaxTimestamp among the batches that end below offset end.
func (s *Segment) MaxTimestampBelow(end int64) (ts, offset int64, err error) {
	if end >= s.next.Load() {
		return s.MaxTimestamp()
	}
	return s.maxBelow(end, s.size.Load())
}

// FirstTimestamp is the largest timestamp of the first batch in ms, -1 of an
// empty segment: the time from which segment.ms counts.
func (s *Segment) FirstTimestamp() (ms int64, err error) {
	ms = -1
	err = s.Walk(0, func(b batch.Batch, _, _ int64) bool {
		ms = b.MaxTimestamp()
		return false
	})
	return ms, err
}

// SeekTime is a position at or before the first batch that has a record at or
// after ts.
func (s *Segment) SeekTime(ts int64) (pos int64, err error) {
	b, n, err := s.times()
	if err != nil {
		return 0, err
	}
	i := search(n, func(i int64) bool { return be64(b[i*timeEntry:]) < ts })
	if i == 0 {
		return 0, nil
	}
	return s.Find(s.base + int64(be32(b[(i-1)*timeEntry+8:])))
}
