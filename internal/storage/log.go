package storage

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/epochs"
	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
)

// Config is what a log needs of its topic's configuration; it can be replaced while the log is open (Log.SetConfig).
type Config struct {
	SegmentBytes       int32         // segment.bytes
	SegmentMs          time.Duration // segment.ms
	SegmentJitter      time.Duration // segment.jitter.ms
	IndexBytes         int32         // segment.index.bytes
	IndexIntervalBytes int32         // index.interval.bytes
	RetentionBytes     int64         // -1 none
	RetentionMs        time.Duration // -1 none
	FileDeleteDelay    time.Duration // file.delete.delay.ms
	Delete, Compact    bool          // cleanup.policy
	LogAppendTime      bool          // message.timestamp.type
	Durable            bool          // barnabas.durable.acks: every append asks for a sync, and Counted is the flushed end
	Preallocate        bool          // preallocate
	FlushMessages      int64         // flush.messages; 0 or below: never
	FlushMs            time.Duration // flush.ms; 0 or below: never
}

// DefaultConfig is Apache Kafka's, with durable acks.
func DefaultConfig() Config {
	return Config{
		SegmentBytes: 1 << 30, SegmentMs: 7 * 24 * time.Hour, IndexBytes: 10 << 20, IndexIntervalBytes: 4096,
		RetentionBytes: -1, RetentionMs: 7 * 24 * time.Hour, FileDeleteDelay: time.Minute, Delete: true, Durable: true,
	}
}

// Log is one partition's log. Append, AppendAsFollower, AssignEpoch, Truncate
// and Reset are serialized by the caller (replica.Partition); everything else
// may be called at any time, and reads never wait for writes.
type Log struct {
	m     *Manager
	d     *logDir
	tp    kafka.TopicPartition
	id    kafka.TopicID
	dir   *segment.Dir
	logs  *slog.Logger
	cfg   atomic.Pointer[Config]
	hooks atomic.Pointer[Hooks]

	segs      atomic.Pointer[[]*segment.Segment] // by base offset, never empty; replaced whole, under mu
	start     atomic.Int64
	asked     atomic.Int64 // a log start that is being stored, and not told yet; under maint
	end       atomic.Int64
	flushed   atomic.Int64
	flushedMs atomic.Int64 // when the last flush began
	hw        atomic.Int64
	point     atomic.Int64 // recovery point as stored, or about to be: lowered before the file, raised after
	closed    atomic.Bool
	future    atomic.Bool // it is on its way here and nobody's log yet
	origin    atomic.Pointer[origin]
	next      atomic.Pointer[Log] // what took its place, once it moved
	undecided atomic.Bool         // producer state holds transactions that are open or ended above the high watermark
	relaxed   atomic.Bool         // the written end counts: set by the flusher once the mark is on disk, cleared by tighten
	doubtful  atomic.Bool         // see Doubtful

	epochs *epochs.Cache

	// maint serializes what changes files other than by appending: truncation,
	// retention, checkpoints. It is taken before mu.
	maint sync.Mutex

	mu        sync.Mutex // never held across a sync or the deletion of a file
	prods     *producers.State
	pending   []producers.Batch  // of the append under way; its memory is used again
	cutting   bool               // a truncation runs: appends are refused
	unsynced  []*segment.Segment // sealed, with bytes that no sync has covered yet
	newFiles  bool               // the directory has entries that were not synced
	cutLow    int64              // lowest truncation since the running sync began
	rolledMs  int64              // when the active segment was made
	firstMs   int64              // largest timestamp of its first batch; -1 none yet
	jitter    time.Duration
	snaps     []snapshot // producer snapshots to be written
	snapped   bool       // a snapshot was taken since the log was opened
	spare     spare
	rolled    bool  // since the last flush: asks for one, durable acks or not
	reached   int64 // offset that syncs have covered: the flushed end, but for the mirror
	mirror    *Log  // future log that has to have it too before it counts as flushed
	cutFuture int64 // lowest truncation that the future log did not follow yet
	unflushed int64 // records since the last sync, for flush.messages

	// The mark of unsyncedName: whether it is there, and of this boot. Whoever
	// opens, flushes, moves or closes the log looks, one after the other.
	unsyncedMark, unsyncedNow bool

	sync syncState
}

// snapshot is producer state to be written to a file, off the append lock.
// Whoever takes snapshots out of Log.snaps holds Log.maint until they are
// written, so that a truncation finds them there or on disk.
type snapshot struct {
	offset int64
	data   []byte
}

// Hooks of a log, called from the flusher with no lock held, in order. They may
// use the log, but not wait for its Sync: the sync under way ends after them.
type Hooks struct {
	// Flushed tells that everything below end is durable.
	Flushed func(end int64)
	// Started tells that the log begins at start from now on: records were deleted.
	// It is called by whoever deleted them.
	Started func(start int64)
	// Failed tells that the log directory went offline.
	Failed func(err error)
	// Swap has do put the log's future one, to, in its place: the owner calls
	// it while nothing is appended, and uses to from then on unless do failed.
	// It and Started alone of the hooks may be called by others than the flusher.
	Swap func(to *Log, do func() error) error
}

// SetHooks replaces the hooks. A directory that failed before is reported at once.
func (l *Log) SetHooks(h Hooks) {
	l.hooks.Store(&h)
	if err := l.d.offline(); err != nil && h.Failed != nil {
		h.Failed(err)
	}
}

// Partition is the partition's name.
func (l *Log) Partition() kafka.TopicPartition { return l.tp }

// TopicID is the id of the topic that the log belongs to.
func (l *Log) TopicID() kafka.TopicID { return l.id }

// Dir is the id of the log directory that holds the log.
func (l *Log) Dir() kafka.DirID { return l.d.id }

// Path is the directory of the log's files.
func (l *Log) Path() string { return l.dir.Path() }

// Start is the log start offset: the first one that can be read.
func (l *Log) Start() int64 { return l.start.Load() }

// End is the log end offset: the one that the next record gets.
func (l *Log) End() int64 { return l.end.Load() }

// FlushedEnd is the offset below which everything is on disk.
func (l *Log) FlushedEnd() int64 { return l.flushed.Load() }

// HighWatermark is what SetHighWatermark last told, at first the checkpoint's.
func (l *Log) HighWatermark() int64 { return l.hw.Load() }

// SetHighWatermark tells retention and the cleaner how far they may go, and
// the checkpoint what to remember.
func (l *Log) SetHighWatermark(hw int64) {
	l.setMark(hw)
	if l.undecided.Load() {
		l.mu.Lock()
		l.prods.AdvanceHighWatermark(hw)
		l.noteUndecided()
		l.mu.Unlock()
	}
}

// setMark is the one place where the high watermark is set.
func (l *Log) setMark(hw int64) {
	if l.hw.Swap(hw) != hw {
		l.d.remark()
	}
}

// Config is the present configuration.
func (l *Log) Config() Config { return *l.cfg.Load() }

// SetConfig replaces the configuration; it counts from the next append on.
// Durable acks begin at once, and with a sync.
func (l *Log) SetConfig(c Config) {
	l.cfg.Store(&c)
	if c.FlushMs > 0 && c.FlushMs < math.MaxInt64 { // the default is never
		l.m.timed.Store(true)
	}
	if c.Durable {
		l.tighten()
	}
}

// Size is the bytes of the data files, dead tails left out.
func (l *Log) Size() int64 {
	var n int64
	for _, s := range *l.segs.Load() {
		n += s.Size()
	}
	return n
}

// Segments counts the segments.
func (l *Log) Segments() int { return len(*l.segs.Load()) }

func (l *Log) active() *segment.Segment {
	segs := *l.segs.Load()
	return segs[len(segs)-1]
}

// failed is the error of a log that can no longer be used, or nil.
func (l *Log) failed() error {
	if err := l.d.offline(); err != nil {
		return fmt.Errorf("%s: log directory %s is offline: %w: %w", l.tp, l.d.path, err, kerr.KafkaStorageError)
	}
	if l.closed.Load() {
		return fmt.Errorf("%s: log is closed: %w", l.tp, kerr.KafkaStorageError)
	}
	return nil
}

// EpochEnd is OffsetForLeaderEpoch: the largest epoch <= e and its end offset; (-1, -1) when unknown.
func (l *Log) EpochEnd(e kafka.LeaderEpoch) (kafka.LeaderEpoch, int64) {
	return l.epochs.EndFor(e, l.End())
}

// EpochAt is the epoch of the record at offset, -1 when unknown.
func (l *Log) EpochAt(offset int64) kafka.LeaderEpoch { return l.epochs.EpochAt(offset) }

// LatestEpoch is the newest epoch, -1 when there is none.
func (l *Log) LatestEpoch() kafka.LeaderEpoch { return l.epochs.Latest() }

// AssignEpoch notes that epoch e begins at start: called on becoming leader.
func (l *Log) AssignEpoch(e kafka.LeaderEpoch, start int64) error {
	if err := l.failed(); err != nil {
		return err
	}
	added, err := l.epochs.Assign(e, start)
	if err != nil {
		return err
	}
	if added && l.Config().Durable {
		l.requestSync()
	}
	return nil
}
