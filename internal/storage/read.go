package storage

import (
	"errors"
	"fmt"
	"sort"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
)

// Slice references bytes of a file that never change (safety 12).
type Slice = segment.Slice

// ReadResult of Log.Read.
type ReadResult struct {
	Slices    []Slice // zero or one per segment; in order
	SizeBytes int
}

// Release releases every slice.
func (r ReadResult) Release() {
	for _, s := range r.Slices {
		s.Release()
	}
}

// find is the index of the segment that holds offset: the last whose base is
// at or below it.
func find(segs []*segment.Segment, offset int64) int {
	return max(sort.Search(len(segs), func(i int) bool { return segs[i].Base() > offset })-1, 0)
}

// Read returns references to the bytes from the batch that holds offset, at most maxBytes of whole batches that end at or below
// maxOffset (exclusive: high watermark, LSO or log end); with minOne the first batch is returned whole even when larger. Takes no
// mutex. The caller calls Release on each slice. kerr.OffsetOutOfRange outside [Start, End].
func (l *Log) Read(offset, maxOffset int64, maxBytes int, minOne bool) (ReadResult, error) {
	for {
		segs := l.segs.Load()
		res, err := l.read(*segs, offset, maxOffset, maxBytes, minOne)
		if err == nil || !errors.Is(err, segment.ErrGone) || segs == l.segs.Load() {
			return res, l.readFailed(err)
		}
		// A segment of the old list was deleted meanwhile: look again.
	}
}

func (l *Log) read(segs []*segment.Segment, offset, maxOffset int64, maxBytes int, minOne bool) (res ReadResult, err error) {
	end := l.End()
	if start := l.Start(); offset < start || offset > end {
		return res, fmt.Errorf("%s: offset %d is outside [%d, %d]: %w", l.tp, offset, start, end, kerr.OffsetOutOfRange)
	}
	if err := l.failed(); err != nil {
		return res, err
	}
	maxOffset = min(maxOffset, end)
	if offset >= maxOffset || maxBytes <= 0 && !minOne {
		return res, nil
	}
	defer func() {
		if err != nil {
			res.Release()
			res = ReadResult{}
		}
	}()
	for i := find(segs, offset); i < len(segs) && segs[i].Base() < maxOffset; i++ {
		s := segs[i]
		pos, err := s.Find(offset)
		if err != nil {
			return res, err
		}
		room := int64(maxBytes - res.SizeBytes)
		to, err := s.Whole(pos, room, maxOffset, minOne && res.SizeBytes == 0)
		if err != nil {
			return res, err
		}
		if to > pos {
			sl, err := s.Acquire(pos, to-pos)
			if err != nil {
				return res, err
			}
			res.Slices = append(res.Slices, sl)
			res.SizeBytes += sl.Len()
		}
		if to < s.Size() || res.SizeBytes >= maxBytes {
			break
		}
	}
	return res, nil
}

// readFailed gives an error of a read its meaning.
func (l *Log) readFailed(err error) error {
	var ke *kerr.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ke):
		return err
	case isDeviceError(err):
		l.d.fail(err)
	}
	return fmt.Errorf("%s: %w: %w", l.tp, err, kerr.KafkaStorageError)
}

// AbortedTxn for read_committed fetches.
type AbortedTxn struct{ ProducerID, FirstOffset int64 }

// BatchTime is the timestamp of the first record of the batch that holds
// offset, or of the first batch behind it; -1 when there is none. It reads an
// index entry and headers, no records.
func (l *Log) BatchTime(offset int64) (tsMs int64, err error) {
	for {
		segs := l.segs.Load()
		ts, err := batchTime(*segs, offset)
		if err == nil || !errors.Is(err, segment.ErrGone) || segs == l.segs.Load() {
			return ts, l.readFailed(err)
		}
	}
}

func batchTime(segs []*segment.Segment, offset int64) (tsMs int64, err error) {
	for i := find(segs, offset); i < len(segs); i++ {
		pos, err := segs[i].Find(offset)
		if err != nil {
			return -1, err
		}
		found := false
		err = segs[i].Walk(pos, func(b batch.Batch, _, _ int64) bool {
			tsMs, found = b.BaseTimestamp(), true
			return false
		})
		if err != nil || found {
			return tsMs, err
		}
	}
	return -1, nil
}

// Aborted returns the aborted transactions that overlap [from, to).
func (l *Log) Aborted(from, to int64) []AbortedTxn {
	for next := l.next.Load(); next != nil; next = l.next.Load() {
		l = next // it moved: the old files are about to go
	}
	segs := *l.segs.Load()
	var found []segment.Aborted
	for i := find(segs, from); i < len(segs); i++ {
		var done bool
		var err error
		found, done, err = segs[i].AbortedIn(from, to, found)
		if err != nil && !errors.Is(err, segment.ErrGone) {
			l.logs.Error("transaction index cannot be read", "tp", l.tp, "err", err)
		}
		if done {
			break
		}
	}
	if len(found) == 0 {
		return nil
	}
	out := make([]AbortedTxn, len(found))
	for i, a := range found {
		out[i] = AbortedTxn{ProducerID: a.ProducerID, FirstOffset: a.First}
	}
	return out
}

// OffsetForTime finds the first record at or after ts (ms): offset, its timestamp, its leader epoch; offset -1 when none. maxOffset bounds.
func (l *Log) OffsetForTime(tsMs, maxOffset int64) (offset, recTs int64, epoch kafka.LeaderEpoch, err error) {
	for {
		segs := l.segs.Load()
		offset, recTs, epoch, err = l.offsetForTime(*segs, tsMs, min(maxOffset, l.End()))
		if err == nil || !errors.Is(err, segment.ErrGone) || segs == l.segs.Load() {
			return offset, recTs, epoch, l.readFailed(err)
		}
	}
}

func (l *Log) offsetForTime(segs []*segment.Segment, tsMs, maxOffset int64) (int64, int64, kafka.LeaderEpoch, error) {
	start := l.Start()
	for _, s := range segs[find(segs, start):] {
		if s.Base() >= maxOffset {
			break
		}
		if ts, _, err := s.MaxTimestamp(); err != nil {
			return -1, -1, kafka.NoEpoch, err
		} else if ts < tsMs {
			continue
		}
		pos, err := s.SeekTime(tsMs)
		if err != nil {
			return -1, -1, kafka.NoEpoch, err
		}
		if off, ts, epoch, err := l.firstAt(s, pos, tsMs, start, maxOffset); err != nil || off >= 0 {
			return off, ts, epoch, err
		}
	}
	return -1, -1, kafka.NoEpoch, nil
}

// firstAt looks in one segment, from pos on, for the first record in [start,
// maxOffset) at or after tsMs.
func (l *Log) firstAt(s *segment.Segment, pos, tsMs, start, maxOffset int64) (int64, int64, kafka.LeaderEpoch, error) {
	for {
		at, next := int64(-1), int64(0)
		if err := s.Walk(pos, func(b batch.Batch, p, n int64) bool {
			if b.BaseOffset() >= maxOffset {
				return false
			}
			if b.LastOffset() >= start && b.MaxTimestamp() >= tsMs {
				at, next = p, p+n
				return false
			}
			return true
		}); err != nil || at < 0 {
			return -1, -1, kafka.NoEpoch, err
		}
		b, err := s.ReadBatch(at, nil)
		if err != nil {
			return -1, -1, kafka.NoEpoch, err
		}
		off, ts, err := recordAt(b, func(offset, ts int64) bool {
			return ts >= tsMs && offset >= start && offset < maxOffset
		})
		if err != nil {
			return -1, -1, kafka.NoEpoch, fmt.Errorf("%s: batch at offset %d: %w", l.tp, b.BaseOffset(), err)
		}
		if off >= 0 {
			return off, ts, kafka.LeaderEpoch(b.LeaderEpoch()), nil
		}
		pos = next
	}
}

// MaxTimestamp finds the first record that has the largest timestamp below
// maxOffset: offset, timestamp, leader epoch; offset -1 when there is none.
func (l *Log) MaxTimestamp(maxOffset int64) (offset, recTs int64, epoch kafka.LeaderEpoch, err error) {
	for {
		segs := l.segs.Load()
		offset, recTs, epoch, err = l.maxTimestamp(*segs, min(maxOffset, l.End()))
		if err == nil || !errors.Is(err, segment.ErrGone) || segs == l.segs.Load() {
			return offset, recTs, epoch, l.readFailed(err)
		}
	}
}

func (l *Log) maxTimestamp(segs []*segment.Segment, maxOffset int64) (int64, int64, kafka.LeaderEpoch, error) {
	start := l.Start()
	var in *segment.Segment
	best := int64(-1)
	for _, s := range segs[find(segs, start):] {
		if s.Base() >= maxOffset {
			break
		}
		ts, last, err := s.MaxTimestampBelow(maxOffset)
		if err != nil {
			return -1, -1, kafka.NoEpoch, err
		}
		if ts > best && last >= start {
			best, in = ts, s
		}
	}
	if in == nil {
		return -1, -1, kafka.NoEpoch, nil
	}
	pos, err := in.SeekTime(best)
	if err != nil {
		return -1, -1, kafka.NoEpoch, err
	}
	off, ts, epoch, err := l.firstAt(in, pos, best, start, maxOffset)
	return off, ts, epoch, err
}
