package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/epochs"
	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// opening is the state of opening one log.
type opening struct {
	l     *Log
	point int64 // what lies below is durable and indexed
	start int64 // stored log start
	hw    int64
	clean bool

	segs    []*segment.Segment
	reindex int64 // transaction index entries from here on are to be made again
	changed bool  // files were changed
	named   bool  // a new log's files have durable names
	found   bool  // segments were there
}

// open reads a log's directory. After a clean stop nothing but the tail of the
// last segment is looked at; else everything above the recovery point is
// checked, and the log is cut at the first thing that is wrong.
func (o *opening) open(ctx context.Context) error {
	l := o.l
	if err := o.list(); err != nil {
		return err
	}
	if err := o.loadEpochs(); err != nil {
		return err
	}
	o.reindex = math.MaxInt64
	last := o.segs[len(o.segs)-1]
	trusted := o.clean
	if o.clean {
		if err := last.LoadTail(); err != nil {
			var d *segment.Damage
			if !errors.As(err, &d) {
				return err
			}
			l.logs.Warn("log is damaged although it was closed in order; checking it", "tp", l.tp, "err", err)
			trusted, o.point = false, last.Base()
		} else if o.point < last.Next() && o.found {
			trusted = false // another stop than the marked one wrote it
		}
	}
	if !trusted {
		if err := o.recover(ctx); err != nil {
			return err
		}
	}
	last = o.segs[len(o.segs)-1]
	end := last.Next()
	if o.found && end < o.point {
		l.logs.Error("log ends below its recovery point: its files were changed or lost", "tp", l.tp, "end", end, "recovery_point", o.point)
	}
	l.publish(o.segs)
	l.end.Store(end)
	l.flushed.Store(end)
	l.reached = end
	l.start.Store(min(max(o.start, o.segs[0].Base()), end))
	l.setMark(min(max(o.hw, l.Start()), end))
	l.point.Store(end)
	l.epochs.TruncateFromEnd(end)
	l.epochs.TruncateFromStart(l.Start()) // the file may be older than the stored start
	if err := o.loadProducers(end); err != nil {
		return err
	}
	if o.changed {
		l.snapshotLocked(end) // the recovery point is there: replay need not go back further
		err := l.checkpointFiles()
		if errors.Is(err, vfs.ErrNoSpace) {
			// Reads are served from a full disk. The next checkpoint tries again,
			// and until then recovery would do all this once more.
			l.logs.Warn("log is open, and its checkpoint waits for room", "tp", l.tp, "err", err)
			l.point.Store(min(o.point, end))
		} else if err != nil {
			return err
		}
		o.named = err == nil && !o.found
	}
	return o.prepareActive(last)
}

// prepareActive makes the last segment the one that is appended to.
func (o *opening) prepareActive(last *segment.Segment) error {
	last.Unseal()
	l := o.l
	l.firstMs = -1
	l.jitter = newJitter(l.cfg.Load())
	l.rolledMs = l.m.now().UnixMilli()
	if last.Size() > 0 {
		ms, err := last.FirstTimestamp()
		if err != nil {
			return err
		}
		l.firstMs = ms
	}
	last.Idle()
	return nil
}

// list finds the segments, and removes what a stop in the middle of something
// left behind.
func (o *opening) list() error {
	l := o.l
	fsys, dir := l.m.fs, l.dir.Path()
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	var bases []int64
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, segment.DeletedSuffix), strings.HasSuffix(name, segment.SpareSuffix),
			strings.HasSuffix(name, segment.CleanedSuffix), strings.HasSuffix(name, ".tmp"):
			if err := fsys.Remove(l.dir.Join(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case name == unsyncedName:
			if err := l.loadUnsynced(); err != nil {
				return err
			}
		case strings.HasSuffix(name, segment.SwapSuffix):
			return fmt.Errorf("%s: a cleaning was interrupted; start Apache Kafka on the directory once and stop it in order", l.dir.Join(name))
		default:
			if base, suffix, ok := segment.ParseName(name); ok && suffix == segment.LogSuffix {
				bases = append(bases, base)
			}
		}
	}
	slices.Sort(bases)
	if bases, err = o.finishDeletion(bases); err != nil {
		return err
	}
	if err := o.removeOrphans(names, bases); err != nil {
		return err
	}
	o.found = len(bases) > 0
	if !o.found {
		s, err := segment.Create(l.d.files, l.dir, max(o.start, 0), nil, "")
		if err != nil {
			return err
		}
		l.reserve(s)
		o.segs, o.changed = []*segment.Segment{s}, true
		return nil
	}
	for i, base := range bases {
		fi, err := fsys.Stat(l.dir.Join(segment.Name(base, segment.LogSuffix)))
		if err != nil {
			return err
		}
		next := base
		if i+1 < len(bases) {
			next = bases[i+1]
		}
		o.segs = append(o.segs, segment.Open(l.d.files, l.dir, base, fi.Size(), next))
	}
	return nil
}

// finishDeletion removes the segments below the stored log start when their
// deletion had begun: any of them may be gone, and what is left is no history
// to recover from. The snapshot at the log's new first segment says that it
// had; without it none is gone.
func (o *opening) finishDeletion(bases []int64) ([]int64, error) {
	l := o.l
	n := 0
	for n+1 < len(bases) && bases[n+1] <= o.start {
		n++
	}
	if n == 0 {
		return bases, nil
	}
	dir := l.dir.Path()
	if _, err := producers.Load(l.m.fs, dir, bases[n]); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrCorrupt) {
			return bases, nil
		}
		return nil, err
	}
	for _, base := range bases[:n] {
		if err := l.m.fs.Remove(l.dir.Join(segment.Name(base, segment.LogSuffix))); err != nil {
			return nil, err
		}
	}
	l.logs.Info("segments below the log start deleted", "tp", l.tp, "count", n, "start", o.start)
	o.changed = true
	return bases[n:], l.m.fs.SyncDir(dir)
}

// removeOrphans removes indexes without a data file: a truncation or deletion
// was interrupted.
func (o *opening) removeOrphans(names []string, bases []int64) error {
	for _, name := range names {
		base, suffix, ok := segment.ParseName(name)
		if !ok || suffix != segment.IndexSuffix && suffix != segment.TimeIndexSuffix && suffix != segment.TxnIndexSuffix {
			continue
		}
		if _, found := slices.BinarySearch(bases, base); found {
			continue
		}
		if err := o.l.m.fs.Remove(o.l.dir.Join(name)); err != nil {
			return err
		}
		o.changed = true
	}
	return nil
}

// loadEpochs loads the epoch file. Above the recovery point the batches tell,
// never the file.
func (o *opening) loadEpochs() error {
	c := o.l.epochs
	err := c.Load()
	if err != nil && !errors.Is(err, vfs.ErrCorrupt) {
		return err
	}
	_, some := c.LatestEntry()
	if err == nil && (some || !o.found) {
		if !o.clean {
			c.TruncateFromEnd(o.point)
		}
		return nil
	}
	if err != nil {
		o.l.logs.Warn("leader epochs are read from the batches", "tp", o.l.tp, "err", err)
	}
	for i, s := range o.segs {
		if i == len(o.segs)-1 || s.Base() >= o.point && !o.clean {
			break // the last one's end is not known yet: see epochsOf
		}
		if err := o.epochsOf(s, 0); err != nil {
			return nil // recovery will name what is wrong
		}
	}
	if o.clean || o.point > o.segs[len(o.segs)-1].Base() {
		_ = o.epochsOf(o.segs[len(o.segs)-1], 0)
	}
	if !o.clean {
		c.TruncateFromEnd(o.point)
	}
	return nil
}

func (o *opening) epochsOf(s *segment.Segment, pos int64) error {
	return s.Walk(pos, func(b batch.Batch, _, _ int64) bool {
		o.noteEpoch(b)
		return true
	})
}

func (o *opening) noteEpoch(b batch.Batch) {
	if e := kafka.LeaderEpoch(b.LeaderEpoch()); e > o.l.epochs.Latest() {
		_, _ = o.l.epochs.Assign(e, b.BaseOffset())
	}
}

// recover checks what lies above the recovery point.
func (o *opening) recover(ctx context.Context) error {
	l := o.l
	o.changed = true
	point := max(o.point, o.segs[0].Base())
	if err := o.cutDeadTails(point); err != nil {
		return err
	}
	for i := find(o.segs, point); i < len(o.segs); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := o.segs[i]
		limit := int64(math.MaxInt64)
		if i+1 < len(o.segs) {
			limit = o.segs[i+1].Base()
		}
		from := max(point, s.Base())
		r, err := s.Recover(segment.RecoverOpts{
			From: from, Limit: limit, Interval: l.cfg.Load().IndexIntervalBytes,
			EpochBefore: func(offset int64) int32 { return int32(l.epochs.EpochAt(offset - 1)) },
			Each: func(b batch.Batch) error {
				o.noteEpoch(b)
				l.m.progress.Bytes.Add(int64(len(b)))
				return nil
			},
		})
		if err != nil {
			return err
		}
		o.reindex = min(o.reindex, r.From)
		hole := limit != math.MaxInt64 && limit-r.Next <= math.MaxInt32 && r.Next < limit
		if r.Cut > 0 {
			l.m.metrics.cutBytes.Add(float64(r.Cut))
			l.logs.Warn("log cut at the first bytes that are not a batch", "tp", l.tp, "file", segment.Name(s.Base(), segment.LogSuffix),
				"pos", r.Size, "offset", r.Next, "bytes", r.Cut, "why", r.Why)
		}
		if hole {
			if err := o.dropAbove(i, r.Next); err != nil {
				return err
			}
		}
		if i+1 < len(o.segs) {
			if err := s.Seal(); err != nil {
				return err
			}
		}
		if err := s.Sync(); err != nil {
			l.d.fail(err)
			return err
		}
	}
	return nil
}

// dropAbove removes the segments above the i-th, which ends at offset next and
// not where the following one begins: what was written there was never
// acknowledged, or the segment before would be whole.
func (o *opening) dropAbove(i int, next int64) error {
	l := o.l
	for j := len(o.segs) - 1; j > i; j-- {
		s := o.segs[j]
		l.logs.Warn("segment dropped: the log ends before it", "tp", l.tp, "file", segment.Name(s.Base(), segment.LogSuffix),
			"end", next, "bytes", s.Size())
		l.m.metrics.cutBytes.Add(float64(s.Size()))
		if err := l.renameAway(s); err != nil {
			return err
		}
		l.d.deleteLater(l, s)
	}
	o.segs = o.segs[:i+1]
	return l.m.fs.SyncDir(l.dir.Path())
}

// cutDeadTails cuts every file below the recovery point at the next one's base
// (safety 12). Those above are cut by Recover.
func (o *opening) cutDeadTails(point int64) error {
	for i := 0; i+1 < len(o.segs) && o.segs[i+1].Base() <= point; i++ {
		s := o.segs[i]
		cut, err := s.CutDead(o.segs[i+1].Base())
		if err != nil {
			// Damage below the recovery point is not ours to cut: readers will name it.
			var d *segment.Damage
			if errors.As(err, &d) {
				o.l.logs.Error("segment is damaged", "tp", o.l.tp, "err", err)
				continue
			}
			return err
		}
		// A start before this one may have cut it, and died before the sync.
		s.MarkDirty()
		if err := s.Sync(); err != nil {
			o.l.d.fail(err)
			return err
		}
		if cut > 0 {
			o.l.logs.Info("dead tail of an earlier truncation cut", "tp", o.l.tp, "file", segment.Name(s.Base(), segment.LogSuffix), "bytes", cut)
		}
	}
	return nil
}

// loadProducers loads the newest snapshot that serves, and replays from there.
func (o *opening) loadProducers(end int64) error {
	l := o.l
	if n, err := producers.DeleteAbove(l.m.fs, l.dir.Path(), end); err != nil {
		return err
	} else if n > 0 {
		// Before anything is appended: the log will grow past them with other records.
		if err := l.m.fs.SyncDir(l.dir.Path()); err != nil {
			return err
		}
	}
	var err error
	l.prods, err = l.replay(o.segs, min(end, o.reindex), end, o.reindex)
	if err == nil {
		// A copy's first snapshot came with it, and must not be written over.
		l.snapped = !l.prods.SnapshotDue() && (o.found || l.future.Load())
		l.prods.AdvanceHighWatermark(l.HighWatermark())
		l.noteUndecided()
	}
	return err
}

// producersAt is producer state as of end, from the newest snapshot at or
// below it and the batches that follow.
func (l *Log) producersAt(segs []*segment.Segment, end int64) (*producers.State, error) {
	return l.replay(segs, end, end, math.MaxInt64)
}

// replay builds producer state as of end: from the newest snapshot at or below
// offset most, and the batches from there on. Aborted transactions whose
// marker is at or above reindex are added to the transaction index.
func (l *Log) replay(segs []*segment.Segment, most, end, reindex int64) (*producers.State, error) {
	st := producers.New(time.Duration(l.m.expiry.Load()))
	loaded, err := l.loadSnapshot(most)
	if err != nil {
		return nil, err
	}
	for _, err := range loaded.Damaged {
		l.logs.Warn("producer snapshot is damaged and was removed; older state is replayed", "tp", l.tp, "err", err)
	}
	now := l.m.now()
	from := loaded.Offset
	if loaded.Found {
		st.Restore(loaded.Entries, from, now)
		if err := l.recall(st, segs, from); err != nil {
			return nil, err
		}
	} else {
		st.Reset(0)
	}
	if len(segs) == 0 || from >= end {
		st.AdvanceStart(end)
		return st, nil
	}
	for _, s := range segs[find(segs, from):] {
		if s.Base() >= end {
			break
		}
		if err := l.replaySegment(st, s, from, end, reindex); err != nil {
			return nil, err
		}
	}
	st.AdvanceStart(min(end, segs[0].Base()))
	return st, nil
}

func (l *Log) replaySegment(st *producers.State, s *segment.Segment, from, end, reindex int64) error {
	pos, err := s.Find(from)
	if err != nil {
		return err
	}
	var one [1]producers.Batch
	var inner error
	err = s.Walk(pos, func(b batch.Batch, p, _ int64) bool {
		if b.BaseOffset() >= end {
			return false
		}
		if b.LastOffset() < from {
			return true
		}
		if b.Control() && b.ProducerID() >= 0 {
			if b, inner = s.ReadBatch(p, nil); inner != nil {
				return false
			}
		}
		one[0] = producerBatch(b)
		var u *producers.Update
		if u, inner = st.Analyze(one[:], producers.Options{Origin: producers.FromReplication, Now: l.m.now()}); inner != nil {
			return false
		}
		for _, t := range u.Completed {
			if t.Aborted && t.LastOffset >= reindex {
				if inner = s.AddAborted(segment.Aborted{ProducerID: t.ProducerID, First: t.FirstOffset, Last: t.LastOffset, LastStable: t.LastStableOffset}); inner != nil {
					return false
				}
			}
		}
		st.Apply(u)
		return true
	})
	return errors.Join(err, inner)
}

// newLog makes the Log of a directory, not opened yet.
func (d *logDir) newLog(tp kafka.TopicPartition, id kafka.TopicID, path string, cfg Config) *Log {
	l := &Log{m: d.m, d: d, tp: tp, id: id, dir: segment.NewDir(path), logs: d.logger}
	l.SetConfig(cfg)
	l.cutLow, l.cutFuture = math.MaxInt64, math.MaxInt64
	l.epochs = epochs.New(d.m.fs, path, d.logger)
	return l
}

// errWrongTopic says that a directory belongs to another topic of the name.
func errWrongTopic(path string, have, want kafka.TopicID) error {
	return fmt.Errorf("%s belongs to topic id %s, not %s: %w", path, have, want, kerr.InconsistentTopicID)
}
