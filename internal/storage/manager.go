package storage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// ManagerConfig of New. Zero values of the numbers mean the defaults named.
type ManagerConfig struct {
	Dirs               []string
	RecoveryThreads    int           // per directory; 2
	CheckpointInterval time.Duration // of recovery points; 1 min
	StartsInterval     time.Duration // of log start offsets; 1 min
	MarksInterval      time.Duration // of high watermarks; 5 s
	FlushInterval      time.Duration // of looks for flush.ms; 1 s, and no more
	RetentionInterval  time.Duration // 5 min
	LowWaterBytes      int64         // writes refused below (safety 14); 0 never
	Defaults           Config        // of logs that are opened before their topic's configuration is known
	ClusterID          string        // "" accepts any, and makes a new one for empty directories
	NodeID             kafka.NodeID
	BootID             string        // changes whenever the page cache is lost; "": nobody knows, any start may follow a power loss
	ProducerExpiration time.Duration // 1 day
	MaxOpenFiles       int           // data files kept open; 4096. Half as many may be ready for segments to come
	MaxIndexBytes      int64         // index blocks kept in memory; 64 MiB
	StrayDelay         time.Duration // after which a -stray directory is deleted; 7 days
	Cordoned           []string      // of Dirs: they take no new logs; "*" for all
	MoveWorkers        int           // logs that move between directories at once; as many as there are directories
	// ConfigFor gives a log that is found on disk its configuration, when the
	// topic is known already; nil, or ok false, means Defaults.
	ConfigFor func(tp kafka.TopicPartition, id kafka.TopicID) (cfg Config, ok bool)
	// DirFailed is told that a directory went offline, and whether another is left.
	DirFailed func(id kafka.DirID, err error, left int)
}

func (c *ManagerConfig) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.CheckpointInterval, time.Minute)
	def(&c.StartsInterval, time.Minute)
	def(&c.MarksInterval, 5*time.Second)
	def(&c.FlushInterval, tick)
	c.FlushInterval = min(c.FlushInterval, tick)
	def(&c.RetentionInterval, 5*time.Minute)
	def(&c.StrayDelay, 7*24*time.Hour)
	if c.RecoveryThreads <= 0 {
		c.RecoveryThreads = 2
	}
	if c.MaxOpenFiles <= 0 {
		c.MaxOpenFiles = 4096
	}
	if c.MoveWorkers <= 0 {
		c.MoveWorkers = len(c.Dirs)
	}
	if c.MaxIndexBytes <= 0 {
		c.MaxIndexBytes = 64 << 20
	}
	if c.Defaults.SegmentBytes == 0 {
		c.Defaults = DefaultConfig()
	}
}

// Progress counts what Open does, for the log line and /readyz.
type Progress struct {
	Logs   atomic.Int64 // to be opened
	Opened atomic.Int64
	Bytes  atomic.Int64 // checked by recovery
}

// Manager owns the log directories. New, Open, Run and Close are called once,
// in that order; everything else may be called concurrently between Open and
// Close.
type Manager struct {
	cfg      ManagerConfig
	fs       vfs.FS
	logger   *slog.Logger
	metrics  *metrics
	files    *segment.Files
	spares   atomic.Int64 // open files of segments to come
	progress Progress
	recovery atomic.Int64 // threads
	expiry   atomic.Int64 // of producers, a time.Duration
	timed    atomic.Bool  // a log has or had flush.ms
	dirs     []*logDir
	flushers map[uint64]*flusher
	tasks    tasks
	wake     chan struct{}
	claimed  bool
	mover    *mover

	pickMu sync.Mutex                       // one choice of a directory at a time
	wished map[kafka.TopicPartition]*logDir // where logs are to be made

	mu   sync.RWMutex
	logs map[kafka.TopicPartition]*Log
}

// New returns a Manager over fsys. It does no I/O. A nil registerer leaves the
// metrics unregistered.
func New(cfg ManagerConfig, fsys vfs.FS, logger *slog.Logger, reg prometheus.Registerer) *Manager {
	cfg.setDefaults()
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	m := &Manager{cfg: cfg, fs: fsys, logger: logger, logs: map[kafka.TopicPartition]*Log{}, flushers: map[uint64]*flusher{}, wake: make(chan struct{}, 1)}
	m.recovery.Store(int64(cfg.RecoveryThreads))
	m.expiry.Store(int64(cfg.ProducerExpiration))
	m.mover, m.wished = newMover(m), map[kafka.TopicPartition]*logDir{}
	m.files = segment.NewFiles(fsys, cfg.MaxOpenFiles, cfg.MaxIndexBytes)
	m.metrics = newMetrics(reg, func() float64 { return float64(m.files.Open()) })
	if reg != nil {
		reg.MustRegister(newLogCollector(m))
	}
	for _, path := range cfg.Dirs {
		m.dirs = append(m.dirs, &logDir{m: m, path: filepath.Clean(path), logger: logger, files: m.files, logs: map[kafka.TopicPartition]*Log{},
			futures: map[kafka.TopicPartition]*Log{}, removed: map[kafka.TopicPartition]uint64{}, stored: map[string][sha256.Size]byte{}})
	}
	m.SetCordoned(cfg.Cordoned)
	return m
}

// SetRecoveryThreads changes how many logs of a directory Open opens at once.
func (m *Manager) SetRecoveryThreads(n int) { m.recovery.Store(int64(max(n, 1))) }

// SetProducerExpiration changes when producers are forgotten that are not heard of.
func (m *Manager) SetProducerExpiration(d time.Duration) {
	m.expiry.Store(int64(d))
	for _, l := range m.Logs() {
		l.mu.Lock()
		if l.prods != nil {
			l.prods.SetExpiration(d)
		}
		l.mu.Unlock()
	}
}

// Progress tells how far Open is.
func (m *Manager) Progress() *Progress { return &m.progress }

// DirStatus describes a log directory.
type DirStatus struct {
	ID         kafka.DirID
	Path       string
	Clean      bool  // the stop before this start was in order
	CleanEpoch int64 // the broker epoch of that stop, -1 unknown
	Offline    error // nil while it works
	Full       bool  // below the low-water mark
	Partitions int
	Usage      vfs.Usage
}

// Dirs describes the log directories, in the order of the configuration.
func (m *Manager) Dirs() []DirStatus {
	out := make([]DirStatus, len(m.dirs))
	for i, d := range m.dirs {
		d.mu.Lock()
		n := len(d.logs)
		d.mu.Unlock()
		u, _ := m.fs.Usage(d.path)
		out[i] = DirStatus{ID: d.id, Path: d.path, Clean: d.clean, CleanEpoch: d.cleanEpoch, Offline: d.offline(), Full: d.full.Load(), Partitions: n, Usage: u}
	}
	return out
}

// Format is what the directories remember of the metadata that was applied:
// the cluster's id ("" before the first SetRevision), and the highest revision.
func (m *Manager) Format() (metadataCluster string, revision int64) {
	for _, d := range m.dirs {
		if d.format.Revision >= revision && d.offline() == nil {
			metadataCluster, revision = d.format.Cluster, d.format.Revision
		}
	}
	return metadataCluster, revision
}

// SetRevision makes durable that metadata of a cluster was applied up to
// revision. The caller refuses to start when Format tells another cluster, or
// a higher revision than the metadata has (safety 15).
func (m *Manager) SetRevision(metadataCluster string, revision int64) error {
	var errs []error
	for _, d := range m.dirs {
		if d.offline() != nil {
			continue
		}
		d.ckptMu.Lock()
		if d.format.Cluster != metadataCluster || d.format.Revision < revision {
			d.format.Cluster, d.format.Revision = metadataCluster, revision
			errs = append(errs, d.saveFormat())
		}
		d.ckptMu.Unlock()
	}
	return errors.Join(errs...)
}

// Get returns an open log.
func (m *Manager) Get(tp kafka.TopicPartition) (*Log, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	l, ok := m.logs[tp]
	return l, ok
}

// Logs returns all open logs, by name.
func (m *Manager) Logs() []*Log {
	m.mu.RLock()
	out := make([]*Log, 0, len(m.logs))
	for _, l := range m.logs {
		out = append(out, l)
	}
	m.mu.RUnlock()
	slices.SortFunc(out, func(a, b *Log) int {
		if a.tp.Topic != b.tp.Topic {
			if a.tp.Topic < b.tp.Topic {
				return -1
			}
			return 1
		}
		return int(a.tp.Partition) - int(b.tp.Partition)
	})
	return out
}

// Delete closes a partition's log and renames its directory away; its files
// are removed after file.delete.delay.ms. The directory of another topic id
// than the given one stays, and is an INCONSISTENT_TOPIC_ID.
func (m *Manager) Delete(tp kafka.TopicPartition, id kafka.TopicID) error {
	return m.moveAway(tp, id, deleteDirSuffix)
}

// Stray renames the directory of a partition that the metadata does not know;
// it is kept for a while (safety 15).
func (m *Manager) Stray(tp kafka.TopicPartition) error {
	return m.moveAway(tp, kafka.TopicID{}, strayDirSuffix)
}

func (m *Manager) moveAway(tp kafka.TopicPartition, id kafka.TopicID, suffix string) error {
	m.mover.admin.Lock()
	defer m.mover.admin.Unlock()
	if err := m.mover.callOff(tp); err != nil {
		m.logger.Warn("copy of a log is not removed", "tp", tp, "err", err)
	}
	m.mu.RLock()
	l, ok := m.logs[tp]
	m.mu.RUnlock()
	if !ok {
		return fmt.Errorf("%s: no such log: %w", tp, kerr.UnknownTopicOrPartition)
	}
	if !id.IsZero() && !l.id.IsZero() && l.id != id {
		return errWrongTopic(l.Path(), l.id, id)
	}
	if err := l.d.offline(); err != nil {
		return l.failed()
	}
	l.mu.Lock()
	was := l.closed.Swap(true)
	l.mu.Unlock()
	if was {
		return nil
	}
	return m.renameAway(l, suffix)
}

// renameAway ends a log that is closed: its directory gets a name that says
// what will become of it.
func (m *Manager) renameAway(l *Log, suffix string) error {
	name, err := awayName(l.tp, suffix)
	if err != nil {
		return err
	}
	// A flush under way would write its files under the old name, where another
	// topic's log may be next.
	l.awaitFlush()
	l.maint.Lock()
	defer l.maint.Unlock()
	path := l.d.join(name)
	if err := m.fs.Rename(l.Path(), path); err != nil {
		m.mu.RLock()
		if m.logs[l.tp] == l {
			l.closed.Store(false)
		}
		m.mu.RUnlock()
		return l.writeFailed(err)
	}
	l.dir.Set(path)
	l.epochs.Moved(path)
	m.forget(l)
	l.wakeWaiters()
	l.release()
	if err := m.fs.SyncDir(l.d.path); err != nil {
		l.d.fail(err)
		return l.failed()
	}
	delay := l.cfg.Load().FileDeleteDelay
	if suffix == strayDirSuffix {
		delay = m.cfg.StrayDelay
	}
	l.d.schedule(deletion{due: m.now().Add(delay), path: path})
	l.logs.Info("log directory renamed", "tp", l.tp, "to", name)
	return nil
}

// forget takes a log out of the lists.
func (m *Manager) forget(l *Log) {
	m.mu.Lock()
	if m.logs[l.tp] == l {
		delete(m.logs, l.tp)
	}
	m.mu.Unlock()
	l.d.mu.Lock()
	if l.d.logs[l.tp] == l {
		delete(l.d.logs, l.tp)
	}
	if l.d.futures[l.tp] == l {
		delete(l.d.futures, l.tp)
	}
	l.d.noteRemoved(l.tp)
	l.d.mu.Unlock()
	if !l.future.Load() {
		m.metrics.logs.Dec()
	}
}

// dirFailed tells the owner; it runs in a goroutine of its own.
func (m *Manager) dirFailed(d *logDir, err error) {
	if m.cfg.DirFailed == nil {
		return
	}
	left := 0
	for _, o := range m.dirs {
		if o.offline() == nil {
			left++
		}
	}
	m.cfg.DirFailed(d.id, err, left)
}

// kick makes Run look at free space soon.
func (m *Manager) kick() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
