package storage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/checkpoint"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// logDir is one of the log directories.
type logDir struct {
	m       *Manager
	path    string
	logger  *slog.Logger
	id      kafka.DirID
	files   *segment.Files
	flusher *flusher // of the device
	lock    io.Closer

	clean      bool  // the last stop was clean
	cleanEpoch int64 // broker epoch in the clean mark, -1 unknown
	format     formatFile
	cluster    string // that meta.properties names

	bad      atomic.Pointer[error] // set once: offline until the process restarts
	full     atomic.Bool           // below the low-water mark
	cordoned atomic.Bool           // takes no new logs (KIP-1066)
	unstored atomic.Bool           // opened, but the checkpoints could not be written: no appends before
	making   atomic.Int64          // logs that are being made here
	written  atomic.Int64          // bytes since free space was last looked at
	// unmarked: a high watermark, or the set of logs, may be another than was stored.
	unmarked atomic.Bool

	// ckptMu serializes the writes of each of the directory's files. Values are
	// read under it, so that a file never gets older ones than it has.
	ckptMu sync.Mutex
	stored map[string][sha256.Size]byte // content of each file, when it is known

	mu      sync.Mutex
	logs    map[kafka.TopicPartition]*Log
	futures map[kafka.TopicPartition]*Log // on their way here
	retry   []*Log
	deleted []deletion
	// removed holds partitions that the checkpoints may still name although
	// their directories are gone, each with the number of its removal: see
	// forgetRemoved.
	removed  map[kafka.TopicPartition]uint64
	removals uint64

	// What the checkpoints held at the start.
	points, starts, marks map[kafka.TopicPartition]int64
}

// deletion is something to be removed once due.
type deletion struct {
	due  time.Time
	seg  *segment.Segment
	path string // a whole directory
}

func (d *logDir) join(name string) string { return filepath.Join(d.path, name) }

// offline is the error that took the directory offline, or nil.
func (d *logDir) offline() error {
	if e := d.bad.Load(); e != nil {
		return *e
	}
	return nil
}

// fail takes the directory offline for good (R7): the page cache no longer
// tells what is on disk. Every log's Failed hook is called, in a goroutine of
// its own since the caller may hold a log's lock.
func (d *logDir) fail(err error) {
	if !d.bad.CompareAndSwap(nil, &err) {
		return
	}
	d.logger.Error("log directory is offline until the broker restarts", "dir", d.path, "err", err)
	d.m.metrics.offlineDirs.Inc()
	d.m.tasks.Go(func() {
		for _, l := range d.list() {
			if h := l.hooks.Load(); h != nil && h.Failed != nil {
				h.Failed(err)
			}
			l.wakeWaiters()
		}
		d.m.dirFailed(d, err)
	})
}

// list returns the directory's logs.
func (d *logDir) list() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]*Log, 0, len(d.logs))
	for _, l := range d.logs {
		out = append(out, l)
	}
	return out
}

// wrote counts appended bytes, so that free space is looked at often enough.
func (d *logDir) wrote(n int64) {
	if low := d.m.cfg.LowWaterBytes; low > 0 && d.written.Add(n) > low/4 {
		d.written.Store(0)
		d.m.kick()
	}
}

// ranOut notes a write that failed for want of space.
func (d *logDir) ranOut() { d.m.kick() }

// checkSpace compares free space with the low-water mark.
func (d *logDir) checkSpace() {
	low := d.m.cfg.LowWaterBytes
	if low <= 0 || d.offline() != nil {
		return
	}
	u, err := d.m.fs.Usage(d.path)
	if err != nil {
		d.logger.Warn("free space is not known", "dir", d.path, "err", err)
		return
	}
	full := u.FreeBytes < uint64(low)
	if d.full.Swap(full) == full {
		return
	}
	if full {
		d.m.metrics.fullDirs.Inc()
		d.logger.Warn("log directory is almost full: writes are refused, reads go on", "dir", d.path, "free", u.FreeBytes, "low_water", low)
	} else {
		d.m.metrics.fullDirs.Dec()
		d.logger.Info("log directory has room again", "dir", d.path, "free", u.FreeBytes)
	}
}

// retryLater asks for another sync of a log at the next tick.
func (d *logDir) retryLater(l *Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retry = append(d.retry, l)
}

func (d *logDir) takeRetries() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.retry
	d.retry = nil
	return out
}

// deleteLater removes a renamed segment's files after file.delete.delay.ms.
func (d *logDir) deleteLater(l *Log, s *segment.Segment) {
	d.schedule(deletion{due: d.m.now().Add(l.cfg.Load().FileDeleteDelay), seg: s})
}

func (d *logDir) schedule(x deletion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deleted = append(d.deleted, x)
}

// deleteDue removes what is due.
func (d *logDir) deleteDue(now time.Time) {
	if d.offline() != nil {
		return
	}
	d.mu.Lock()
	var due []deletion
	kept := d.deleted[:0]
	for _, x := range d.deleted {
		if x.due.After(now) {
			kept = append(kept, x)
		} else {
			due = append(due, x)
		}
	}
	clear(d.deleted[len(kept):])
	d.deleted = kept
	d.mu.Unlock()
	for _, x := range due {
		var err error
		if x.seg != nil {
			err = x.seg.Remove()
			d.m.metrics.deletedFiles.Inc()
		} else {
			err = d.m.fs.RemoveAll(x.path)
		}
		if err != nil {
			d.logger.Warn("deleted files not removed", "dir", d.path, "err", err)
			if isDeviceError(err) {
				d.fail(err)
			}
		}
	}
}

// noteRemoved remembers that a partition's log went. d.mu is held.
func (d *logDir) noteRemoved(tp kafka.TopicPartition) {
	d.removals++
	d.removed[tp] = d.removals
	d.remark()
}

// forgetRemoved takes a partition out of the checkpoints before a new log of
// its name is written to: with the recovery point of the one before, recovery
// would trust what it must check.
func (d *logDir) forgetRemoved(tp kafka.TopicPartition) error {
	d.mu.Lock()
	_, found := d.removed[tp]
	d.mu.Unlock()
	if !found {
		return nil
	}
	return d.forgetAllRemoved()
}

func (d *logDir) anyRemoved() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.removed) > 0
}

// forgetAllRemoved takes all that went out of the checkpoints.
func (d *logDir) forgetAllRemoved() error {
	d.mu.Lock()
	before := d.removals
	d.mu.Unlock()
	if err := d.storeAll(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.removed, func(_ kafka.TopicPartition, n uint64) bool { return n <= before })
	return nil
}

// writeRecoveryPoints stores the recovery points of all logs.
func (d *logDir) writeRecoveryPoints() error {
	return d.writeCheckpoint(checkpoint.RecoveryPoint, func(l *Log) (int64, bool) { return l.point.Load(), true })
}

// writeLogStarts stores the log starts; like Apache Kafka, of those logs only
// that begin above their first segment, which tells for the others.
func (d *logDir) writeLogStarts() error {
	return d.writeCheckpoint(checkpoint.LogStart, func(l *Log) (int64, bool) {
		start := l.startToStore()
		return start, start > (*l.segs.Load())[0].Base()
	})
}

// writeHighWatermarks stores the high watermarks. It is called every few
// seconds: where none has moved, no log is looked at.
func (d *logDir) writeHighWatermarks() error {
	if err := d.offline(); err != nil {
		return err
	}
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	changed := d.unmarked.Swap(false) // before they are read: what moves from here on sets it again
	if _, known := d.stored[checkpoint.HighWatermark]; known && !changed {
		return nil
	}
	err := d.store(checkpoint.HighWatermark, d.values(func(l *Log) (int64, bool) { return l.HighWatermark(), true }))
	if err != nil {
		d.unmarked.Store(true)
	}
	return err
}

// remark has the high watermarks stored anew. It costs a load where they will be.
func (d *logDir) remark() {
	if !d.unmarked.Load() {
		d.unmarked.Store(true)
	}
}

// logValue is what a checkpoint holds of a log.
type logValue struct {
	l     *Log
	value int64
}

// values gives those of the logs that have one.
func (d *logDir) values(value func(*Log) (int64, bool)) []logValue {
	logs := append(d.list(), d.listFutures()...)
	out := make([]logValue, 0, len(logs))
	for _, l := range logs {
		if v, ok := value(l); ok {
			out = append(out, logValue{l, v})
		}
	}
	return out
}

func (d *logDir) writeCheckpoint(name string, value func(*Log) (int64, bool)) error {
	if err := d.offline(); err != nil {
		return err
	}
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	return d.store(name, d.values(value))
}

// store writes a checkpoint, if it would be another; ckptMu is held.
func (d *logDir) store(name string, values []logValue) error {
	out := make(map[kafka.TopicPartition]int64, len(values))
	for _, v := range values {
		out[v.l.tp] = v.value
	}
	data := checkpoint.Format(out)
	sum := sha256.Sum256(data)
	if old, ok := d.stored[name]; ok && old == sum {
		return nil
	}
	delete(d.stored, name)
	err := vfs.ReplaceFile(d.m.fs, d.join(name), data)
	switch {
	case err == nil:
		d.stored[name] = sum
		return nil
	case errors.Is(err, vfs.ErrNoSpace):
		d.ranOut()
	case isDeviceError(err):
		d.fail(err)
	}
	return fmt.Errorf("write checkpoint %s: %w", d.join(name), err)
}
