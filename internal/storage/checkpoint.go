package storage

import (
	"context"
	"errors"
)

// checkpoint raises the log's recovery point to its flushed end, once what
// recovery needs below it is on disk: data, indexes, epochs, producer state.
// It writes nothing for a log that did not change. The caller then stores the
// points of the whole directory.
func (l *Log) checkpoint(ctx context.Context) error {
	if err := l.failed(); err != nil {
		return err
	}
	if l.point.Load() == l.End() && l.FlushedEnd() == l.End() && !l.epochs.Dirty() {
		return nil
	}
	l.mu.Lock()
	l.snapshotLocked(l.End())
	l.mu.Unlock()
	if err := l.Sync(ctx); err != nil {
		return err
	}
	l.maint.Lock()
	defer l.maint.Unlock()
	flushed := l.FlushedEnd()
	if err := l.checkpointFiles(); err != nil {
		return l.writeFailed(err)
	}
	l.point.Store(max(l.point.Load(), min(flushed, l.End())))
	return nil
}

// checkpointFiles makes indexes, epochs and the directory durable. l.maint is
// held. Empty indexes get their files too: one that is missing was lost.
func (l *Log) checkpointFiles() error {
	l.mu.Lock()
	changed := l.newFiles
	l.mu.Unlock()
	for _, s := range *l.segs.Load() {
		created, err := s.FlushIndexes(true)
		if err != nil {
			return err
		}
		changed = changed || created
	}
	if err := l.epochs.Sync(); err != nil {
		return err
	}
	saved, err := l.pruneSnapshots()
	if err != nil || !changed && !saved {
		return err
	}
	return l.m.fs.SyncDir(l.dir.Path())
}

// checkpoint checkpoints every log of the directory, and stores the files.
func (d *logDir) checkpoint(ctx context.Context) error {
	if err := d.checkpointLogs(ctx); err != nil {
		return err
	}
	return errors.Join(d.writeLogStarts(), d.writeHighWatermarks())
}

// checkpointLogs checkpoints every log, and stores the recovery points.
func (d *logDir) checkpointLogs(ctx context.Context) error {
	if err := d.offline(); err != nil {
		return err
	}
	var errs []error
	for _, l := range d.list() {
		if err := l.checkpoint(ctx); err != nil && !l.closed.Load() {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	store := d.writeRecoveryPoints
	if d.anyRemoved() { // else their names would stay in memory for as long as the process
		store = d.forgetAllRemoved
	}
	errs = append([]error{store()}, errs...)
	return few(errs)
}

// closeFiles brings the files of a log into the state that a clean stop
// promises, Apache Kafka's: no dead tails, indexes complete, a snapshot at the
// end, everything durable. Nothing appends any more.
func (l *Log) closeFiles() error {
	l.maint.Lock()
	defer l.maint.Unlock()
	if err := l.d.offline(); err != nil {
		return err
	}
	segs := *l.segs.Load()
	last := len(segs) - 1
	for i, s := range segs {
		if s.HasDeadTail() { // the indexes first: see segment.CutDead
			if _, err := s.FlushIndexes(true); err != nil {
				return err
			}
		}
		if err := s.TrimDead(); err != nil {
			return err
		}
		if i == last {
			if err := s.NoteTime(); err != nil {
				return err
			}
		}
		if err := s.Sync(); err != nil {
			return err
		}
		if l.cfg.Load().Preallocate {
			s.Reserve(0)
		}
	}
	if f := l.takeSpare(); f != nil {
		_ = f.Close()
		if err := l.m.fs.Remove(l.dir.Join(spareName)); err != nil {
			return err
		}
	}
	l.snapshotLocked(l.End())
	if err := l.checkpointFiles(); err != nil {
		return err
	}
	l.flushed.Store(l.End())
	l.reached = l.End()
	l.point.Store(l.End())
	if l.doubtful.Load() { // nobody has heard of it
		return nil
	}
	return l.unmark()
}

func (l *Log) release() {
	l.mu.Lock()
	if f := l.takeSpare(); f != nil {
		_ = f.Close()
	}
	l.mu.Unlock()
	if segs := l.segs.Load(); segs != nil { // else it could not be opened
		for _, s := range *segs {
			s.Release()
		}
	}
}
