package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/producers"
)

const (
	moveChunk      = 1 << 20     // bytes copied at once
	moveSyncBytes  = 64 << 20    // bytes of a future log between two syncs
	moveTries      = 50          // attempts to swap before producers get a pause
	moveStallLimit = time.Second // how long producers may wait for the other device
)

var (
	// errWait: the move cannot go on now, and tries again with the next tick.
	errWait = errors.New("the move waits")
	// errBehind: the future log is not yet where the log is.
	errBehind = errors.New("the future log is behind")
)

// work copies until the future log has caught up, and swaps it in.
func (mv *move) work(ctx context.Context) error {
	until, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(mv.ctx, cancel)
	defer stop()
	src, ok := mv.m.Get(mv.tp)
	if !ok || src.failed() != nil || src.hooks.Load() == nil {
		return errWait // its directory is offline, or nobody uses it yet
	}
	if !mv.ready {
		if err := mv.align(src); err != nil {
			return err
		}
		mv.ready = true
	}
	unsynced := 0
	for {
		n, err := mv.copy(src, moveChunk, false)
		if err != nil {
			return err
		}
		if unsynced += n; unsynced >= moveSyncBytes {
			if err := mv.future.checkpoint(until); err != nil {
				return err
			}
			if err := mv.future.d.writeRecoveryPoints(); err != nil {
				return err
			}
			unsynced = 0
		}
		if err := mv.m.mover.pay(until, n); err != nil {
			return err
		}
		if mv.future.End() == src.End() || n < moveChunk/4 && n > 0 {
			break
		}
	}
	if err := mv.complete(until, src); err != nil {
		return err
	}
	// The log is here from now on. What is left is its first sync: it makes the
	// new name durable and takes the old one away.
	err := mv.future.Sync(ctx)
	if h := mv.future.hooks.Load(); mv.future.d.offline() != nil && h != nil && h.Failed != nil {
		h.Failed(mv.future.d.offline()) // it may have failed before it was ours
	}
	if err != nil && ctx.Err() == nil {
		mv.future.logs.Warn("log moved, and its old directory is not gone yet", "tp", mv.tp, "err", err)
	}
	return nil
}

// complete holds acknowledgements back to what both logs have on disk, until
// the future log is equal and takes the place.
func (mv *move) complete(ctx context.Context, src *Log) error {
	src.mirrorTo(mv.future)
	err := errBehind
	for range moveTries {
		if err = ctx.Err(); err != nil {
			break
		}
		if err = mv.catchUp(ctx, src); err != nil {
			break
		}
		src.mirrored()
		h := src.hooks.Load()
		if h != nil && h.Swap != nil {
			err = h.Swap(mv.future, func() error { return mv.swap(src) })
		} else {
			err = mv.swap(src)
		}
		if !errors.Is(err, errBehind) {
			break
		}
	}
	if errors.Is(err, errRename) {
		// Nothing more is acknowledged before it is known which log counts.
		if kerr := src.keep(); kerr != nil {
			src.d.fail(kerr)
		}
	}
	if err != nil {
		src.mirrorTo(nil)
		src.mirrored()
	}
	return err
}

// catchUp copies what there is and syncs it, with everything that recovery
// would need: log start and epochs too.
func (mv *move) catchUp(ctx context.Context, src *Log) error {
	f := mv.future
	for {
		n, err := mv.copy(src, moveChunk, false)
		if err != nil {
			return err
		}
		if f.End() == src.End() || n > 0 && n < moveChunk/4 {
			break // under a load of acks=1 it is never quite the end
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	f.SetHighWatermark(min(src.HighWatermark(), f.End()))
	if start := src.Start(); start > f.Start() && start <= f.End() {
		if err := f.DeleteBefore(start); err != nil {
			return err
		}
	}
	if err := mv.copyEpochs(src); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, moveStallLimit)
	defer cancel()
	return f.Sync(wait)
}

// copyEpochs gives the future log the epochs that have no batch yet.
func (mv *move) copyEpochs(src *Log) error {
	f := mv.future
	for _, e := range src.epochs.Entries() {
		if e.Epoch > f.epochs.Latest() && e.Start <= f.End() {
			if _, err := f.epochs.Assign(e.Epoch, e.Start); err != nil {
				return err
			}
		}
	}
	return nil
}

// copy appends the next bytes of src to the future log. With quiet no sync is
// asked for.
func (mv *move) copy(src *Log, most int, quiet bool) (int, error) {
	f := mv.future
	if err := mv.follow(src); err != nil {
		return 0, err
	}
	from, start := f.End(), src.Start()
	r, err := src.Read(max(from, start), src.End(), most, true)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return 0, errBehind // cut, at either end, just now: the next call follows
	}
	if err != nil {
		return 0, err
	}
	defer r.Release()
	buf := make([]byte, r.SizeBytes)
	at := 0
	for _, s := range r.Slices {
		if err := s.ReadAt(buf[at:at+s.Len()], 0); err != nil {
			return 0, src.readFailed(err)
		}
		at += s.Len()
	}
	if from < start && (len(buf) == 0 || batch.Batch(buf).BaseOffset() > from) {
		return 0, mv.restart(src) // retention was faster
	}
	if len(buf) == 0 {
		return 0, nil
	}
	if err := mv.append(buf, quiet); err != nil {
		return 0, err
	}
	f.SetHighWatermark(min(src.HighWatermark(), f.End()))
	return len(buf), nil
}

func (mv *move) append(buf []byte, quiet bool) error {
	f := mv.future
	if !quiet {
		_, err := f.AppendAsFollower(buf)
		return err
	}
	for rest := buf; len(rest) > 0; {
		b, after, err := batch.Next(rest)
		if err != nil || !b.CRCValid() {
			return fmt.Errorf("%s: batch is damaged: %w", mv.tp, kerr.CorruptMessage)
		}
		rest = after
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.appendLocked(time.Now(), buf, kafka.NoEpoch, FromReplication, Txn{})
	if err != nil {
		return f.writeFailed(err)
	}
	return nil
}

// follow cuts the future log where the log was cut since it was looked at last.
func (mv *move) follow(src *Log) error {
	src.mu.Lock()
	low := src.cutFuture
	cutting := src.cutting
	src.mu.Unlock()
	if cutting {
		return errWait
	}
	if low >= mv.future.End() {
		return nil
	}
	if err := mv.future.Truncate(low); err != nil {
		return err
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.cutFuture == low {
		src.cutFuture = math.MaxInt64
	}
	return nil
}

// align cuts a future log that another process left where it parts from the
// log, by leader epochs as followers do.
func (mv *move) align(src *Log) error {
	f := mv.future
	for f.End() > (*f.segs.Load())[0].Base() {
		e := f.LatestEpoch()
		have, end := src.EpochEnd(e)
		if e < 0 || have < 0 {
			return mv.restart(src)
		}
		to := min(f.End(), src.End(), end)
		if have < e {
			if known, ours := f.EpochEnd(have); known == have {
				to = min(to, ours)
			} else {
				return mv.restart(src)
			}
		}
		if to >= f.End() {
			break
		}
		if err := f.Truncate(to); err != nil {
			return err
		}
		if have == e {
			break
		}
	}
	if f.End() > src.End() {
		return mv.restart(src)
	}
	return nil
}

// restart lets the future log begin again where the log begins now.
func (mv *move) restart(src *Log) error {
	f := mv.future
	base, state, err := src.moveBase()
	if err != nil {
		return err
	}
	if err := saveMoved(f, base, state); err != nil {
		return f.writeFailed(err)
	}
	f.SetHighWatermark(base) // first: a snapshot above it would not be trusted
	return f.Reset(base)
}

// saveMoved gives a future log that begins at base what producers did before.
func saveMoved(f *Log, base int64, state []byte) error {
	if base == 0 || state == nil {
		return nil
	}
	if _, err := producers.Load(f.m.fs, f.dir.Path(), base); err == nil {
		return nil // the same: below the log start nothing changes
	}
	return producers.Save(f.m.fs, f.dir.Path(), base, state)
}

// moveBase is where a copy of the log begins, the base of the batch that holds
// the log start, and producer state as of there.
func (l *Log) moveBase() (base int64, state []byte, err error) {
	l.maint.Lock()
	defer l.maint.Unlock()
	l.saveSnapshots()
	segs := *l.segs.Load()
	start := l.Start()
	s := segs[find(segs, start)]
	base = start
	pos, err := s.Find(start)
	if err != nil {
		return 0, nil, l.readFailed(err)
	}
	if pos < s.Size() {
		at, err := s.BaseAt(pos)
		if err != nil {
			return 0, nil, l.readFailed(err)
		}
		base = min(base, at)
	}
	st, err := l.producersAt(segs, base)
	if err != nil {
		return 0, nil, l.readFailed(err)
	}
	if st.Len() == 0 {
		return base, nil, nil
	}
	return base, st.Snapshot(), nil
}

// mirrorTo makes the flushed end that is told the lesser of the log's own and
// f's; nil ends that.
func (l *Log) mirrorTo(f *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mirror = f
}

// mirrored tells what is flushed once the mirror has caught up, or is gone.
func (l *Log) mirrored() {
	l.mu.Lock()
	target, raised := l.raiseFlushed()
	l.mu.Unlock()
	if h := l.hooks.Load(); raised && h != nil && h.Flushed != nil {
		h.Flushed(target)
	}
}

// raiseFlushed takes over what was synced, as far as the mirror has it. l.mu is held.
func (l *Log) raiseFlushed() (target int64, raised bool) {
	target = l.reached
	if l.mirror != nil {
		target = min(target, l.mirror.FlushedEnd())
	}
	if raised = target > l.flushed.Load(); raised {
		l.flushed.Store(target)
	}
	return target, raised
}
