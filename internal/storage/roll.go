package storage

import (
	"errors"
	"io/fs"
	"time"

	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// spareName is the file that the next segment of a busy log will be made of.
const spareName = "next" + segment.SpareSuffix

// spare is made by the flusher, so that rolling under the append lock is one
// rename.
type spare struct {
	file   vfs.File
	wanted bool
}

// roll ends the active segment and begins one at base. Nothing is synced: the
// old segment is among the unsynced ones until a flush has covered it, and the
// flushed end does not pass base before. l.mu is held.
func (l *Log) roll(now time.Time, base int64) error {
	old := l.active()
	ready := l.takeSpare()
	next, err := segment.Create(l.d.files, l.dir, base, ready, spareName)
	if err != nil {
		if ready != nil {
			_ = ready.Close()
		}
		return err
	}
	if ready == nil {
		l.reserve(next)
	}
	_ = old.Seal() // a time index that cannot be read again misses its last entry
	l.snapshotLocked(base)
	l.unsynced = append(l.unsynced, old)
	l.newFiles = true
	l.publish(append(append([]*segment.Segment(nil), *l.segs.Load()...), next))
	l.rolledMs, l.firstMs, l.jitter = now.UnixMilli(), -1, newJitter(l.cfg.Load())
	l.rolled = true
	return nil
}

// reserve asks for the room of a new segment, where preallocate says so.
func (l *Log) reserve(s *segment.Segment) {
	if cfg := l.cfg.Load(); cfg.Preallocate {
		s.Reserve(int64(cfg.SegmentBytes))
	}
}

// takeSpare takes the next segment's file, where there is one. l.mu is held.
func (l *Log) takeSpare() vfs.File {
	f := l.spare.file
	if f != nil {
		l.spare = spare{}
		l.m.spares.Add(-1)
	}
	return f
}

// publish replaces the list of segments. l.mu is held, or the log is not open yet.
func (l *Log) publish(segs []*segment.Segment) { l.segs.Store(&segs) }

// snapshotLocked keeps producer state as of offset for the flusher to write.
func (l *Log) snapshotLocked(offset int64) {
	if l.prods.End() < offset {
		l.prods.AdvanceStart(offset) // a gap in the offsets; nothing lies in it
	}
	if offset > 0 && (l.prods.SnapshotDue() || !l.snapped) {
		l.snaps = append(l.snaps, snapshot{offset: l.prods.End(), data: l.prods.Snapshot()})
		l.snapped = true
	}
}

// wantSpare asks for the next segment's file once three quarters of the active
// one are full. l.mu is held; it reports whether the flusher is to be asked.
func (l *Log) wantSpare(cfg *Config) bool {
	if l.spare.file != nil || l.spare.wanted || l.active().Size() < int64(cfg.SegmentBytes)/4*3 {
		return false
	}
	l.spare.wanted = true
	return true
}

// housekeep does what appends left to the flusher: producer snapshots and the
// spare file. Errors do no harm to what is there: a snapshot that is missing
// makes recovery replay more, and without a spare the file is created later.
func (l *Log) housekeep() {
	l.mu.Lock()
	snaps := len(l.snaps)
	wanted := l.spare.wanted && l.spare.file == nil
	l.mu.Unlock()
	if l.failed() != nil {
		return
	}
	if snaps > 0 {
		l.maint.Lock()
		l.saveSnapshots()
		l.maint.Unlock()
	}
	if !wanted || l.m.spares.Load() >= max(int64(l.m.cfg.MaxOpenFiles)/2, 1) {
		return // spares are open files too, and must leave some to the rest of the process
	}
	path := l.dir.Join(spareName)
	if err := l.m.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	f, err := l.m.fs.Create(path)
	if cfg := l.cfg.Load(); err == nil && cfg.Preallocate {
		f.Reserve(int64(cfg.SegmentBytes))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.spare.file = f
		l.m.spares.Add(1)
	}
}

// saveSnapshots writes the snapshots that wait, and reports whether there were
// any. l.maint is held.
func (l *Log) saveSnapshots() bool {
	l.mu.Lock()
	snaps := l.snaps
	l.snaps = nil
	l.mu.Unlock()
	for _, s := range snaps {
		if err := producers.Save(l.m.fs, l.dir.Path(), s.offset, s.data); err != nil {
			l.logs.Warn("producer snapshot not written", "tp", l.tp, "offset", s.offset, "err", err)
		}
	}
	return len(snaps) > 0
}

// ensureSnapshot makes sure that producer state as of base, where the first
// segment of the log will begin, can be found: what lies before is about to go.
// l.maint is held.
func (l *Log) ensureSnapshot(segs []*segment.Segment, base int64) error {
	l.saveSnapshots()
	dir := l.dir.Path()
	if _, err := producers.Load(l.m.fs, dir, base); err != nil {
		st, err := l.producersAt(segs, base)
		if err != nil {
			return err
		}
		if err := producers.Save(l.m.fs, dir, base, st.Snapshot()); err != nil {
			return err
		}
	}
	return l.m.fs.SyncDir(dir)
}

// pruneSnapshots removes the snapshots that nothing needs: it keeps those at
// the base of a segment, the newest, and the newest at or below the first
// segment, from which replay of the whole log begins. It reports whether the
// directory changed. l.maint is held.
func (l *Log) pruneSnapshots() (changed bool, err error) {
	changed = l.saveSnapshots()
	dir := l.dir.Path()
	offsets, err := producers.List(l.m.fs, dir)
	if err != nil || len(offsets) < 2 {
		return changed, err
	}
	segs := *l.segs.Load()
	floor := offsets[0]
	for _, o := range offsets {
		if o <= segs[0].Base() {
			floor = o
		}
	}
	var doomed []int64
	for _, o := range offsets[:len(offsets)-1] {
		if o != floor && (o < floor || segs[find(segs, o)].Base() != o) {
			doomed = append(doomed, o)
		}
	}
	if len(doomed) == 0 {
		return changed, nil
	}
	// What stays must be there before anything goes.
	if err := l.m.fs.SyncDir(dir); err != nil {
		return changed, err
	}
	for _, o := range doomed {
		if err := producers.Delete(l.m.fs, dir, o); err != nil {
			return true, err
		}
	}
	return true, nil
}
