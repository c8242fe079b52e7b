package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/checkpoint"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// tick is how often Run looks at free space, deferred deletions and syncs that
// are to be tried again.
const tick = time.Second

// Claim locks the directories and decides whether they are ours; empty ones are
// formatted. One that is refused is an error (RefusedError) and leaves all of
// them untouched. Afterwards ClusterID is known, if they are of a cluster.
func (m *Manager) Claim() error {
	if len(m.dirs) == 0 {
		return errors.New("no log directory is configured (log.dirs)")
	}
	if err := m.claim(); err != nil {
		m.unlock()
		return err
	}
	m.claimed = true
	return nil
}

// Open opens every log in the directories, which it claims when nobody did, and
// recovers what was not closed in order. A directory that cannot be read is
// offline.
func (m *Manager) Open(ctx context.Context) error {
	if !m.claimed {
		if err := m.Claim(); err != nil {
			return err
		}
	}
	if m.cfg.ClusterID == "" {
		if err := m.Join(NewUUID().String()); err != nil {
			m.unlock()
			return err
		}
	}
	if err := m.endMoves(); err != nil {
		m.unlock()
		return fmt.Errorf("end of a move between log directories: %w", err)
	}
	errs := make([]error, len(m.dirs))
	var wg sync.WaitGroup
	for i, d := range m.dirs {
		if errs[i] = d.offline(); errs[i] == nil {
			wg.Go(func() { errs[i] = d.open(ctx) })
		}
	}
	wg.Wait()
	left := 0
	for i, d := range m.dirs {
		if errs[i] != nil && d.offline() == nil {
			if ctx.Err() != nil || !isDeviceError(errs[i]) {
				m.unlock()
				return errs[i]
			}
			d.fail(errs[i])
		}
		if d.offline() == nil {
			left++
		}
	}
	if left == 0 {
		m.unlock()
		return fmt.Errorf("no log directory can be used: %w", errors.Join(errs...))
	}
	if err := m.resumeMoves(); err != nil {
		m.logger.Warn("copies of logs are not all removed", "err", err)
	}
	return nil
}

// claim inspects all directories before it touches one.
func (m *Manager) claim() error {
	fresh := make([]bool, len(m.dirs))
	var err error
	for i, d := range m.dirs {
		if fresh[i], err = d.inspect(); err != nil {
			return d.unusable(err)
		}
	}
	if err = m.agreeOnCluster(fresh); err != nil {
		return err
	}
	for i, d := range m.dirs {
		if fresh[i] {
			if err := mkdirDurable(m.fs, d.path); err != nil {
				return d.unusable(err)
			}
		}
		if d.lock, err = m.fs.Lock(d.join(lockName)); err != nil {
			if errors.Is(err, vfs.ErrLocked) {
				return d.refuse("is in use by another process: stop that one, or set log.dirs to another directory")
			}
			return d.unusable(err)
		}
	}
	seen := map[kafka.DirID]string{}
	for i, d := range m.dirs {
		if fresh[i] {
			if err := d.writeFormat(); err != nil {
				return fmt.Errorf("format log directory %s: %w", d.path, err)
			}
		}
		if other, ok := seen[d.id]; ok {
			return d.refuse("has the same directory.id as %s: one is a copy; take it out of log.dirs", other)
		}
		seen[d.id] = d.path
		u, err := m.fs.Usage(d.path)
		if err != nil {
			return fmt.Errorf("log directory %s: %w", d.path, err)
		}
		if m.flushers[u.Device] == nil {
			m.flushers[u.Device] = newFlusher()
		}
		d.flusher = m.flushers[u.Device]
	}
	return nil
}

// unusable says of an error of the system what it means for the directory.
func (d *logDir) unusable(err error) error {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(err, syscall.ENOTDIR):
		return d.refuse("is not a directory, or lies below a file: set log.dirs to a directory")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("log directory %s cannot be written by this user: set log.dirs to another, or give it to this user: %w", d.path, err)
	}
	return fmt.Errorf("log directory %s: %w", d.path, err)
}

// few joins errors, of many only the first ones: a directory's logs tend to
// fail together, for one reason.
func few(errs []error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	const most = 3
	if n := len(errs) - most; n > 0 {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", n))
	}
	return errors.Join(errs...)
}

// mkdirDurable makes a directory and those above it, and their names durable.
func mkdirDurable(fsys vfs.FS, path string) error {
	ok, err := vfs.Exists(fsys, path)
	if err != nil {
		return err
	}
	parent := filepath.Dir(path)
	if !ok && parent != path {
		if err := mkdirDurable(fsys, parent); err != nil {
			return err
		}
		if err := fsys.MkdirAll(path); err != nil {
			return err
		}
	}
	if ok {
		return nil
	}
	return fsys.SyncDir(parent)
}

func (m *Manager) unlock() {
	for _, d := range m.dirs {
		if d.lock != nil {
			_ = d.lock.Close()
			d.lock = nil
		}
	}
}

// open opens the directory's logs.
func (d *logDir) open(ctx context.Context) error {
	if err := d.readClean(); err != nil {
		return err
	}
	read := func(name string) (map[kafka.TopicPartition]int64, error) {
		out, err := checkpoint.Read(d.m.fs, d.join(name))
		if errors.Is(err, vfs.ErrCorrupt) {
			d.logger.Warn("checkpoint is damaged and not used", "dir", d.path, "err", err)
			return map[kafka.TopicPartition]int64{}, nil
		}
		return out, err
	}
	var err error
	if d.points, err = read(checkpoint.RecoveryPoint); err != nil {
		return err
	}
	if d.starts, err = read(checkpoint.LogStart); err != nil {
		return err
	}
	if d.marks, err = read(checkpoint.HighWatermark); err != nil {
		return err
	}
	if err := d.openLogs(ctx); err != nil {
		return err
	}
	// The points first: with the mark gone, they tell what has to be checked.
	// Partitions whose directories are gone leave the checkpoints here.
	if err := d.storeAll(); err != nil {
		if !errors.Is(err, vfs.ErrNoSpace) {
			return err
		}
		d.logger.Warn("log directory is full: it is read only until its checkpoints can be written", "dir", d.path, "err", err)
		d.unstored.Store(true)
		// Logs that a kill left half made are here, perhaps without a durable name, and
		// will be named in the metadata. This takes no room; else the checkpoints do it.
		if err := d.m.fs.SyncDir(d.path); err != nil {
			return err
		}
	}
	d.points, d.starts, d.marks = nil, nil, nil
	return d.removeClean()
}

// storeAll writes the three checkpoints.
func (d *logDir) storeAll() error {
	return errors.Join(d.writeRecoveryPoints(), d.writeLogStarts(), d.writeHighWatermarks())
}

func (d *logDir) openLogs(ctx context.Context) error {
	names, err := d.m.fs.List(d.path)
	if err != nil {
		return err
	}
	var found []kafka.TopicPartition
	for _, name := range names {
		path := d.join(name)
		switch {
		case strings.HasSuffix(name, deleteDirSuffix):
			d.schedule(deletion{due: d.m.now().Add(d.m.cfg.Defaults.FileDeleteDelay), path: path})
		case strings.HasSuffix(name, strayDirSuffix):
			d.schedule(deletion{due: d.m.now().Add(d.m.cfg.StrayDelay), path: path})
		case isFuture(name):
			if tp, ok := parseFutureDir(name); ok {
				if err := d.openFuture(ctx, name, tp); err != nil {
					return err
				}
			}
		default:
			if tp, _, ok := parsePartitionDir(name); ok {
				if fi, err := d.m.fs.Stat(path); err == nil && fi.IsDir() {
					found = append(found, tp)
				}
			}
		}
	}
	d.m.progress.Logs.Add(int64(len(found)))
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, len(found))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range min(int(d.m.recovery.Load()), len(found)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(found)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if errs[i] = d.openLog(ctx, found[i]); errs[i] != nil {
					cancel()
				}
				d.m.progress.Opened.Add(1)
			}
		})
	}
	wg.Wait()
	if err := few(errs); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func (d *logDir) openLog(ctx context.Context, tp kafka.TopicPartition) error {
	l := d.newLog(tp, kafka.TopicID{}, d.join(tp.String()), d.m.cfg.Defaults)
	id, err := readTopicID(d.m.fs, l.dir)
	if err != nil {
		return err
	}
	l.id = id
	if f := d.m.cfg.ConfigFor; f != nil {
		if cfg, ok := f(tp, id); ok {
			l.SetConfig(cfg)
		}
	}
	if err := l.loadOrigin(); err != nil {
		return err
	}
	o := opening{l: l, clean: d.clean, point: d.points[tp], start: d.starts[tp], hw: d.marks[tp]}
	if err := o.open(ctx); err != nil {
		return fmt.Errorf("open log %s: %w", l.Path(), err)
	}
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if other, ok := d.m.logs[tp]; ok {
		return fmt.Errorf("%s is in two log directories, %s and %s: move one of them away", tp, other.d.path, d.path)
	}
	d.m.logs[tp] = l
	d.mu.Lock()
	d.logs[tp] = l
	d.remark()
	d.mu.Unlock()
	d.m.metrics.logs.Inc()
	return nil
}

// Run flushes, checkpoints, retains and deletes until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	for _, f := range m.flushers {
		f.start()
		for range syncsPerDevice {
			workers.Go(f.run)
		}
	}
	var slow sync.WaitGroup
	slow.Go(func() { m.every(ctx, m.cfg.CheckpointInterval, m.checkpointAll) })
	slow.Go(func() { m.every(ctx, m.cfg.StartsInterval, m.storing((*logDir).writeLogStarts)) })
	slow.Go(func() { m.every(ctx, m.cfg.MarksInterval, m.storing((*logDir).writeHighWatermarks)) })
	slow.Go(func() { m.every(ctx, m.cfg.FlushInterval, func(context.Context) { m.flushByTime(m.now()) }) })
	slow.Go(func() { m.every(ctx, m.cfg.RetentionInterval, func(context.Context) { m.Retain(m.now()) }) })
	for range m.cfg.MoveWorkers {
		slow.Go(func() { m.mover.run(ctx) })
	}
	t := time.NewTicker(tick)
	defer t.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-t.C:
			m.tick()
		case <-m.wake:
			for _, d := range m.dirs {
				d.checkSpace()
			}
			m.mover.tick()
		}
	}
	slow.Wait()
	for _, f := range m.flushers {
		f.stop()
	}
	workers.Wait()
	m.tasks.Wait()
	return nil
}

func (m *Manager) every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			do(ctx)
		}
	}
}

func (m *Manager) tick() {
	now := m.now()
	for _, d := range m.dirs {
		d.checkSpace()
		d.deleteDue(now)
		if d.unstored.Load() && d.offline() == nil && d.storeAll() == nil {
			d.unstored.Store(false)
			d.logger.Info("log directory has room: it takes writes", "dir", d.path)
		}
		for _, l := range d.takeRetries() {
			l.requestSync()
		}
	}
	m.mover.tick()
}

// flushByTime asks for the syncs that flush.ms wants.
func (m *Manager) flushByTime(now time.Time) {
	if !m.timed.Load() {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, l := range m.logs {
		c := l.cfg.Load()
		if c.FlushMs > 0 && l.flushed.Load() < l.end.Load() && now.UnixMilli()-l.flushedMs.Load() >= c.FlushMs.Milliseconds() {
			l.flushedMs.Store(now.UnixMilli())
			l.requestSync()
		}
	}
}

// storing writes one checkpoint of every directory.
func (m *Manager) storing(write func(*logDir) error) func(context.Context) {
	return func(context.Context) {
		for _, d := range m.dirs {
			if err := write(d); err != nil && d.offline() == nil {
				m.logger.Warn("checkpoint is not complete", "dir", d.path, "err", err)
			}
		}
	}
}

func (m *Manager) checkpointAll(ctx context.Context) {
	for _, d := range m.dirs {
		if err := d.checkpointLogs(ctx); err != nil && d.offline() == nil && ctx.Err() == nil {
			m.logger.Warn("checkpoint is not complete", "dir", d.path, "err", err)
		}
	}
	m.expireProducers()
}

// expireProducers forgets producers not heard of for a day, some thousands a
// log and round.
func (m *Manager) expireProducers() {
	now := m.now()
	for _, l := range m.Logs() {
		l.mu.Lock()
		if l.prods.Len() > 0 {
			l.prods.Expire(now, 4096)
		}
		l.mu.Unlock()
	}
}

// Checkpoint makes everything durable that recovery would otherwise check, as
// Run does from time to time.
func (m *Manager) Checkpoint(ctx context.Context) error {
	var errs []error
	for _, d := range m.dirs {
		if d.offline() == nil {
			errs = append(errs, d.checkpoint(ctx))
		}
	}
	return errors.Join(errs...)
}

// Retain applies retention to every log, as Run does from time to time. New
// log starts are durable before a file goes.
func (m *Manager) Retain(now time.Time) {
	for _, d := range m.dirs {
		raised := map[*Log]int64{}
		for _, l := range d.list() {
			if start := l.retainTo(now); l.askStart(start) == nil && l.holdsBelow(start) {
				raised[l] = start
			}
		}
		if len(raised) == 0 {
			continue
		}
		err := d.writeLogStarts()
		for l, start := range raised {
			if err == nil {
				l.raiseStart(start)
				err = l.dropBelowStart()
			}
		}
		if err != nil {
			m.logger.Warn("retention is not complete", "dir", d.path, "err", err)
		}
	}
}
