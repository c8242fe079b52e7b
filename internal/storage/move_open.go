package storage

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/epochs"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// endMoves completes, before any log is opened, the moves that were stopped
// between the new name and the end of the old one: of a partition that two
// directories hold, the one with the mark is the newer, and has all that the
// other has. It is not when the other was kept, or led later: a start without
// the new directory went on with the old log.
func (m *Manager) endMoves() error {
	if len(m.dirs) < 2 {
		return nil
	}
	holds := map[kafka.TopicPartition][]*logDir{}
	for _, d := range m.dirs {
		names, err := m.fs.List(d.path)
		if err != nil {
			continue // open will say so
		}
		for _, name := range names {
			if tp, _, ok := parsePartitionDir(name); ok {
				holds[tp] = append(holds[tp], d)
			}
		}
	}
	for tp, dirs := range holds {
		if len(dirs) != 2 {
			continue
		}
		for i, d := range dirs {
			other := dirs[1-i]
			from, ok, err := readMoved(m.fs, d.join(filepath.Join(tp.String(), movedName)))
			if err != nil || !ok || from != other.id {
				continue
			}
			kept, err := vfs.Exists(m.fs, other.join(filepath.Join(tp.String(), keptName)))
			if err != nil {
				return err
			}
			if kept || m.storedEpoch(other, tp) > m.storedEpoch(d, tp) {
				d, other = other, d
			}
			if err := m.endMove(tp, other, d); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// storedEpoch is the last leader epoch in the file of a log that is not open.
// It is durable before any record of the epoch counts as flushed.
func (m *Manager) storedEpoch(d *logDir, tp kafka.TopicPartition) kafka.LeaderEpoch {
	c := epochs.New(m.fs, d.join(tp.String()), d.logger)
	if err := c.Load(); err != nil {
		d.logger.Warn("leader epochs are not known", "tp", tp, "dir", d.path, "err", err)
		return kafka.NoEpoch
	}
	return c.Latest()
}

func (m *Manager) endMove(tp kafka.TopicPartition, old, now *logDir) error {
	name, err := awayName(tp, deleteDirSuffix)
	if err != nil {
		return err
	}
	if err := m.fs.SyncDir(now.path); err != nil {
		return now.openFailed(err)
	}
	if err := m.fs.Rename(old.join(tp.String()), old.join(name)); err != nil {
		return old.openFailed(err)
	}
	if err := m.fs.SyncDir(old.path); err != nil {
		return old.openFailed(err)
	}
	old.logger.Info("log moved before the stop; its old directory is deleted", "tp", tp, "from", old.path, "to", now.path)
	return nil
}

// openFailed takes the directory offline for an error of its device; any other
// ends the start.
func (d *logDir) openFailed(err error) error {
	if isDeviceError(err) {
		d.fail(err)
		return nil
	}
	return err
}

// loadOrigin reads the mark of a log that moved here, or moves.
func (l *Log) loadOrigin() error {
	from, ok, err := readMoved(l.m.fs, l.dir.Join(movedName))
	if err != nil || !ok {
		return err
	}
	l.origin.Store(newOrigin(from, nil))
	return nil
}

// resumeOrigin has the mark of a finished move removed in time. The old name is
// gone where its directory was seen by endMoves.
func (m *Manager) resumeOrigin(l *Log) {
	o := l.origin.Load()
	if o == nil {
		return
	}
	seen := true
	for _, d := range m.dirs {
		if d.id == o.from && d.offline() != nil {
			seen = false
		}
	}
	o.gone.Store(seen)
	m.mover.watch(l)
}

// openFuture opens a log that is on its way here. What cannot be opened is
// removed: it is a copy.
func (d *logDir) openFuture(ctx context.Context, name string, tp kafka.TopicPartition) error {
	f := d.newLog(tp, kafka.TopicID{}, d.join(name), d.m.cfg.Defaults)
	f.future.Store(true)
	id, err := readTopicID(d.m.fs, f.dir)
	if err == nil && !id.IsZero() {
		f.id = id
		if ask := d.m.cfg.ConfigFor; ask != nil {
			if cfg, ok := ask(tp, id); ok {
				f.SetConfig(cfg)
			}
		}
		cfg := f.futureConfig()
		f.SetConfig(cfg)
		o := opening{l: f, clean: d.clean, point: d.points[tp], start: d.starts[tp], hw: d.marks[tp]}
		err = o.open(ctx)
	}
	if err != nil && (isDeviceError(err) || ctx.Err() != nil || errors.Is(err, vfs.ErrNoSpace) || errors.Is(err, vfs.ErrTooManyFiles)) {
		return err
	}
	d.mu.Lock()
	_, twice := d.futures[tp]
	if err == nil && !id.IsZero() && !twice {
		d.futures[tp] = f
		d.remark()
		d.mu.Unlock()
		return nil
	}
	d.mu.Unlock()
	d.logger.Warn("copy of a log that was to move here is removed: it is not whole", "tp", tp, "dir", f.Path(), "err", err)
	return d.m.removeFuture(f)
}

// removeFuture removes a future log that nobody uses yet.
func (m *Manager) removeFuture(f *Log) error {
	d := f.d
	away, err := awayName(f.tp, deleteDirSuffix)
	if err == nil {
		err = m.fs.Rename(f.Path(), d.join(away))
	}
	if err == nil {
		err = m.fs.SyncDir(d.path)
	}
	d.mu.Lock()
	if d.futures[f.tp] == f {
		delete(d.futures, f.tp)
		d.remark()
	}
	d.mu.Unlock()
	f.closed.Store(true)
	f.release()
	d.schedule(deletion{due: m.now().Add(m.cfg.Defaults.FileDeleteDelay), path: d.join(away)})
	return err
}

// resumeMoves lets the moves go on that the last stop interrupted. A future log
// whose partition's log is nowhere, while every directory works, or is another
// topic's, is removed.
func (m *Manager) resumeMoves() error {
	whole := true
	for _, d := range m.dirs {
		whole = whole && d.offline() == nil
	}
	var errs []error
	for _, d := range m.dirs {
		if d.offline() != nil {
			continue
		}
		for _, f := range d.listFutures() {
			l, ok := m.Get(f.tp)
			if !ok && !whole {
				continue // its log may be in the directory that is offline
			}
			if !ok || l.id != f.id || l.d == d || m.mover.get(f.tp) != nil {
				d.logger.Info("copy of a log that was to move here is removed", "tp", f.tp, "dir", f.Path())
				errs = append(errs, m.removeFuture(f))
				continue
			}
			m.mover.add(f)
			// Before anything is appended: what the log lost by a crash and the
			// copy did not, must not stand beside other records of the offsets.
			mv := m.mover.get(f.tp)
			if err := mv.align(l); err != nil {
				d.logger.Warn("copy of a log that was to move here is removed", "tp", f.tp, "dir", f.Path(), "err", err)
				errs = append(errs, m.CancelMove(f.tp))
				continue
			}
			mv.ready = true
		}
		for _, l := range d.list() {
			m.resumeOrigin(l)
		}
	}
	return errors.Join(errs...)
}

// Futures are the logs that are on their way to another directory.
func (m *Manager) Futures() []*Log {
	var out []*Log
	for _, d := range m.dirs {
		out = append(out, d.listFutures()...)
	}
	return out
}

func (d *logDir) listFutures() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]*Log, 0, len(d.futures))
	for _, f := range d.futures {
		out = append(out, f)
	}
	return out
}

// CancelMove calls the move of a partition off, where there is one.
func (m *Manager) CancelMove(tp kafka.TopicPartition) error {
	m.mover.admin.Lock()
	defer m.mover.admin.Unlock()
	return m.mover.callOff(tp)
}

// dropOrphans removes futures of a partition whose log is about to be made.
func (m *Manager) dropOrphans(tp kafka.TopicPartition) error {
	var errs []error
	for _, f := range m.Futures() {
		if f.tp == tp && f.d.offline() == nil && m.mover.get(tp) == nil {
			errs = append(errs, m.removeFuture(f))
		}
	}
	return errors.Join(errs...)
}

// isFuture reports names of future logs.
func isFuture(name string) bool { return strings.HasSuffix(name, futureDirSuffix) }
