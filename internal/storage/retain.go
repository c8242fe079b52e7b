package storage

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/storage/segment"
)

// DeleteBefore raises the log start (DeleteRecords, retention); durable on
// return (safety 17). Above the high watermark it is OFFSET_OUT_OF_RANGE.
func (l *Log) DeleteBefore(offset int64) error {
	if err := l.askStart(offset); err != nil {
		return err
	}
	// Also when it was there already: what is stored may be older.
	if err := l.d.writeLogStarts(); err != nil {
		return l.writeFailed(err)
	}
	l.raiseStart(offset)
	return l.dropBelowStart()
}

// askStart has the next checkpoint say that the log starts at offset. Only then
// is it told: a log start that a client has seen never goes back.
func (l *Log) askStart(offset int64) error {
	if err := l.failed(); err != nil {
		return err
	}
	l.maint.Lock()
	defer l.maint.Unlock()
	if hw := l.HighWatermark(); offset > hw {
		return fmt.Errorf("%s: log start %d would pass the high watermark %d: %w", l.tp, offset, hw, kerr.OffsetOutOfRange)
	}
	l.asked.Store(max(l.asked.Load(), offset))
	return nil
}

// startToStore is the log start for the checkpoint.
func (l *Log) startToStore() int64 { return max(l.Start(), l.asked.Load()) }

// raiseStart raises the log start to one that is stored.
func (l *Log) raiseStart(offset int64) {
	if h := l.hooks.Load(); l.raisedTo(offset) && h != nil && h.Started != nil {
		h.Started(offset)
	}
}

func (l *Log) raisedTo(offset int64) bool {
	l.maint.Lock()
	defer l.maint.Unlock()
	if offset <= l.Start() || offset > l.asked.Load() { // it was truncated meanwhile
		return false
	}
	l.start.Store(offset)
	l.mu.Lock()
	l.prods.AdvanceStart(offset)
	l.noteUndecided()
	l.mu.Unlock()
	l.epochs.TruncateFromStart(offset)
	return true
}

// holdsBelow reports whether segments lie below an offset.
func (l *Log) holdsBelow(offset int64) bool {
	segs := *l.segs.Load()
	return len(segs) > 1 && segs[1].Base() <= offset
}

// dropBelowStart removes the segments that lie below the log start.
func (l *Log) dropBelowStart() error {
	l.maint.Lock()
	defer l.maint.Unlock()
	if err := l.failed(); err != nil {
		return err
	}
	start := l.Start()
	segs := *l.segs.Load()
	n := 0
	for n < len(segs)-1 && segs[n+1].Base() <= start {
		n++
	}
	if n == 0 {
		return nil
	}
	if err := l.ensureSnapshot(segs[:n], segs[n].Base()); err != nil {
		return l.writeFailed(err)
	}
	// The names go first, for good: once the list begins at the log start, the
	// checkpoint of log starts does not name it, and files that a power loss
	// brought back would lower it.
	for _, s := range segs[:n] {
		if err := l.renameAway(s); err != nil {
			return l.writeFailed(err)
		}
	}
	if err := l.m.fs.SyncDir(l.dir.Path()); err != nil {
		l.d.fail(err)
		return l.failed()
	}
	l.mu.Lock()
	now := *l.segs.Load() // appends may have added to it
	l.publish(append([]*segment.Segment(nil), now[n:]...))
	kept := l.unsynced[:0]
	for _, s := range l.unsynced {
		if s.Base() >= now[n].Base() {
			kept = append(kept, s)
		}
	}
	clear(l.unsynced[len(kept):])
	l.unsynced = kept
	l.mu.Unlock()
	for _, s := range segs[:n] {
		l.d.deleteLater(l, s)
	}
	if _, err := l.pruneSnapshots(); err != nil {
		return l.writeFailed(err)
	}
	l.logs.Info("segments deleted", "tp", l.tp, "count", n, "start", start, "reason", "below the log start")
	return nil
}

// retainTo is the log start that retention by time and size asks for; it
// rolls the active segment first when that is expired as well.
func (l *Log) retainTo(now time.Time) int64 {
	start := l.Start()
	cfg := l.cfg.Load()
	if !cfg.Delete || l.failed() != nil {
		return start
	}
	segs := *l.segs.Load()
	bound := min(l.HighWatermark(), l.FlushedEnd(), l.End())
	if first := l.FirstUnstable(bound); first >= 0 {
		bound = min(bound, first)
	}
	surplus := int64(-1)
	if cfg.RetentionBytes >= 0 {
		surplus = l.Size() - cfg.RetentionBytes
	}
	n := 0
	for ; n < len(segs); n++ {
		s := segs[n]
		if s.Size() == 0 || s.Next() > bound || n == len(segs)-1 && s.Next() > l.End() {
			break
		}
		if size := s.Size(); surplus-size >= 0 && surplus >= 0 {
			surplus -= size
			continue
		}
		if !l.expired(s, now, cfg) {
			break
		}
	}
	switch {
	case n == 0:
		return start
	case n < len(segs):
		return max(start, segs[n].Base())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active() != segs[n-1] || l.End() != bound || l.cutting {
		return max(start, segs[n-1].Base()) // it was written to since it was looked at
	}
	if err := l.roll(now, l.End()); err != nil {
		return max(start, segs[n-1].Base())
	}
	return l.End()
}

func (l *Log) expired(s *segment.Segment, now time.Time, cfg *Config) bool {
	if cfg.RetentionMs < 0 {
		return false
	}
	ts, _, err := s.MaxTimestamp()
	if err != nil {
		return false
	}
	if ts < 0 { // no record has a time: the file's
		fi, err := l.m.fs.Stat(l.dir.Join(segment.Name(s.Base(), segment.LogSuffix)))
		if err != nil {
			return false
		}
		ts = fi.ModTime().UnixMilli()
	}
	return now.UnixMilli()-ts > cfg.RetentionMs.Milliseconds()
}
