package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
)

// Truncate cuts the log so that it ends at offset, or below it at the base of
// the batch that holds offset. No byte of a file changes: segments above the
// cut are renamed away, the one that holds it ends earlier from now on and
// keeps a dead tail, and a new segment begins at the cut (safety 12). The order
// of the file operations is listed in doc.go.
//
// Followers call it, serialized with appends.
func (l *Log) Truncate(offset int64) error {
	if offset >= l.End() {
		// No record goes, but an epoch may that began here and never had one: else
		// the leader would tell of the same divergence for ever.
		l.epochs.TruncateFromEnd(l.End())
		if l.Config().Durable {
			l.requestSync()
		}
		return nil
	}
	if offset <= (*l.segs.Load())[0].Base() {
		return l.Reset(offset)
	}
	return l.cut(func(segs []*segment.Segment) (keep int, end int64, err error) { return cutPoint(segs, offset) })
}

// cutPoint is what a truncation to offset keeps: how many segments, the last of
// them perhaps cut, and where the log ends then.
func cutPoint(segs []*segment.Segment, offset int64) (keep int, end int64, err error) {
	i := find(segs, offset)
	pos, err := segs[i].Find(offset)
	if err != nil {
		return 0, 0, err
	}
	if pos == 0 {
		return i, segs[i].Base(), nil
	}
	end, err = segs[i].BaseAt(pos)
	return i + 1, end, err
}

// Truncate truncates several logs, each serialized with its appends by the
// caller: the recovery points of a directory are lowered by one write for all.
func (m *Manager) Truncate(cuts map[*Log]int64) error {
	lowered := map[*logDir]bool{}
	for l, offset := range cuts {
		segs := *l.segs.Load()
		if offset >= l.End() || l.failed() != nil {
			continue
		}
		end := offset
		if offset > segs[0].Base() {
			var err error
			if _, end, err = cutPoint(segs, offset); err != nil {
				return l.writeFailed(err)
			}
		}
		l.maint.Lock()
		if end < l.point.Load() {
			l.point.Store(end)
			lowered[l.d] = true
		}
		l.maint.Unlock()
	}
	for d := range lowered {
		if err := d.writeRecoveryPoints(); err != nil {
			return fmt.Errorf("%w: %w", err, kerr.KafkaStorageError)
		}
	}
	var errs []error
	for l, offset := range cuts {
		errs = append(errs, l.Truncate(offset))
	}
	return errors.Join(errs...)
}

// Reset empties the log and lets it begin at offset: a follower whose leader
// no longer has what comes next (OFFSET_OUT_OF_RANGE).
func (l *Log) Reset(offset int64) error {
	return l.cut(func([]*segment.Segment) (int, int64, error) { return 0, offset, nil })
}

// cut does a truncation: where says how many segments stay, the last of them
// perhaps cut, and where the log ends then.
func (l *Log) cut(where func(segs []*segment.Segment) (keep int, end int64, err error)) error {
	l.maint.Lock()
	defer l.maint.Unlock()
	if err := l.failed(); err != nil {
		return err
	}
	l.mu.Lock()
	l.cutting = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.cutting = false
		l.mu.Unlock()
	}()
	segs := *l.segs.Load()
	start := l.startToStore()
	keep, end, err := where(segs)
	if err == nil {
		err = l.cutAt(segs, keep, end)
	}
	if err == nil && l.startToStore() < start {
		// The stored start must not hide what is written from here on.
		err = l.d.writeLogStarts()
	}
	if err != nil {
		return l.writeFailed(err)
	}
	l.requestSync()
	return nil
}

func (l *Log) cutAt(segs []*segment.Segment, keep int, end int64) error {
	if end < l.point.Load() {
		l.point.Store(end)
		if err := l.d.writeRecoveryPoints(); err != nil {
			return err
		}
	}
	if n, err := producers.DeleteAbove(l.m.fs, l.dir.Path(), end); err != nil {
		return err
	} else if n > 0 {
		if err := l.m.fs.SyncDir(l.dir.Path()); err != nil {
			return err
		}
	}
	next, err := l.cutSegment(segs[keep:], end)
	if err != nil {
		return err
	}
	var prods *producers.State
	err = l.replaceAbove(segs[keep:], end)
	if err == nil {
		prods, err = l.producersAt(segs[:keep], end)
	}
	if err == nil && keep > 0 {
		_, err = segs[keep-1].Cut(end)
		segs[keep-1].MarkDirty() // the dead tail included
	}
	if err != nil {
		// The files and what is in memory no longer agree: recovery is to sort it out.
		l.d.fail(err)
		return err
	}
	l.afterCut(append(append([]*segment.Segment(nil), segs[:keep]...), next), keep, end, prods)
	for _, s := range segs[keep:] {
		l.d.deleteLater(l, s)
	}
	l.logs.Info("log truncated", "tp", l.tp, "end", end)
	return nil
}

// cutName is the file that takes the place of a segment which is cut at its base.
const cutName = "cut" + segment.SpareSuffix

// cutSegment makes the segment at the cut, before those above are renamed
// away. In this order a crash leaves a hole behind the cut, and recovery drops
// what lies behind it. The other way round it would leave a file whose
// successor is gone: a dead tail of an earlier truncation would come back.
func (l *Log) cutSegment(doomed []*segment.Segment, end int64) (next *segment.Segment, err error) {
	if len(doomed) > 0 && doomed[0].Base() == end {
		return l.replace(doomed[0])
	}
	return segment.Create(l.d.files, l.dir, end, nil, "")
}

// replaceAbove renames the segments above the cut away, the highest first.
func (l *Log) replaceAbove(doomed []*segment.Segment, end int64) error {
	dir := l.dir.Path()
	if err := l.m.fs.SyncDir(dir); err != nil {
		return err
	}
	if len(doomed) > 0 && doomed[0].Base() == end {
		doomed = doomed[1:]
	}
	if len(doomed) == 0 {
		return nil
	}
	for _, s := range slices.Backward(doomed) {
		if err := l.renameAway(s); err != nil {
			return err
		}
	}
	return l.m.fs.SyncDir(dir)
}

// replace puts an empty segment in the place of s, by one rename.
func (l *Log) replace(s *segment.Segment) (*segment.Segment, error) {
	path := l.dir.Join(cutName)
	if err := l.m.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := l.m.fs.Create(path)
	if err != nil {
		return nil, err
	}
	if err := s.Detach(l.deletedSuffix(s.Base())); err != nil {
		_ = f.Close()
		l.d.fail(err)
		return nil, err
	}
	next, err := segment.Create(l.d.files, l.dir, s.Base(), f, cutName)
	if err != nil {
		_ = f.Close()
		l.d.fail(err)
	}
	return next, err
}

// afterCut publishes the shorter log.
func (l *Log) afterCut(segs []*segment.Segment, keep int, end int64, prods *producers.State) {
	l.epochs.TruncateFromEnd(end)
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.unsynced[:0]
	for _, s := range l.unsynced {
		if find(segs, s.Base()) < keep && s.Base() < end {
			kept = append(kept, s)
		}
	}
	clear(l.unsynced[len(kept):])
	l.unsynced = kept
	if keep > 0 && (len(kept) == 0 || kept[len(kept)-1] != segs[keep-1]) {
		l.unsynced = append(l.unsynced, segs[keep-1])
	}
	l.newFiles = true
	l.cutLow, l.cutFuture = min(l.cutLow, end), min(l.cutFuture, end)
	l.reached = min(l.reached, end)
	l.prods = prods
	l.prods.AdvanceHighWatermark(l.HighWatermark())
	l.snaps = slices.DeleteFunc(l.snaps, func(s snapshot) bool { return s.offset > end })
	l.noteUndecided()
	l.publish(segs)
	l.end.Store(end)
	l.flushed.Store(min(l.flushed.Load(), end))
	l.setMark(min(l.hw.Load(), end))
	l.start.Store(min(l.Start(), end))
	l.asked.Store(min(l.asked.Load(), end))
	if keep == 0 {
		l.start.Store(end)
		l.epochs.TruncateFromStart(end)
	}
	l.firstMs, l.rolledMs = -1, l.m.now().UnixMilli()
}

// renameAway gives the segment's files the suffix .deleted.
func (l *Log) renameAway(s *segment.Segment) error {
	if err := s.Rename(l.deletedSuffix(s.Base())); err != nil {
		return fmt.Errorf("%s: rename segment %d away: %w", l.tp, s.Base(), err)
	}
	return nil
}

// deletedSuffix is .deleted, made unique when files of the same base that were
// deleted before are still there.
func (l *Log) deletedSuffix(base int64) string {
	suffix := segment.DeletedSuffix
	for n := 1; ; n++ {
		_, logErr := l.m.fs.Stat(l.dir.Join(segment.Name(base, segment.LogSuffix) + suffix))
		_, indexErr := l.m.fs.Stat(l.dir.Join(segment.Name(base, segment.IndexSuffix) + suffix))
		if logErr != nil && indexErr != nil {
			return suffix
		}
		suffix = "." + strconv.Itoa(n) + segment.DeletedSuffix
	}
}
