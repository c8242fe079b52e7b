package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// syncsPerDevice bounds the syncs that run at once on a device: enough for the
// file system to put them into one journal commit, few enough to leave the
// device to others.
const syncsPerDevice = 8

// syncState is where a log stands with its flusher. A log has at most one sync
// under way; what is written meanwhile is covered by the next one.
type syncState struct {
	mu      sync.Mutex
	queued  bool // in the flusher's queue
	running bool
	again   bool // asked for while running
	back    bool // asked for writeback only
	asked   uint64
	done    uint64 // every request up to this one is answered
	err     error  // of the last sync that failed for want of space
	waiters []chan struct{}
}

// syncDue reports whether an append asks for a sync. l.mu is held.
func (l *Log) syncDue() bool {
	c := l.cfg.Load()
	return c.Durable || l.rolled || c.FlushMessages > 0 && l.unflushed >= c.FlushMessages ||
		!l.relaxed.Load() && !l.future.Load() // the first one sets the mark
}

// writebackDue reports work for the flusher that is not a sync. l.mu is held.
func (l *Log) writebackDue() bool {
	return l.active().WritebackDue() || l.wantSpare(l.cfg.Load()) || len(l.snaps) > 0
}

// requestSync asks the flusher to make durable what is written by now. It
// never blocks.
func (l *Log) requestSync() uint64 { return l.request(false) }

func (l *Log) requestWriteback() { l.request(true) }

func (l *Log) request(writebackOnly bool) (ticket uint64) {
	st := &l.sync
	st.mu.Lock()
	if writebackOnly {
		st.back = true
	} else {
		st.asked++
	}
	ticket = st.asked
	push := false
	switch {
	case st.running:
		st.again = true
	case !st.queued:
		st.queued, push = true, true
	}
	st.mu.Unlock()
	if push {
		l.d.flusher.push(l)
	}
	return ticket
}

// Sync blocks until everything written before the call is durable, or ctx ends, or the directory failed.
func (l *Log) Sync(ctx context.Context) error {
	if err := l.failed(); err != nil {
		return err
	}
	ticket := l.requestSync()
	if l.d.flusher.idle() {
		l.d.flusher.drain() // nobody runs the manager: do the work here
	}
	st := &l.sync
	for {
		st.mu.Lock()
		if st.done >= ticket {
			err := st.err
			st.mu.Unlock()
			return err
		}
		wake := make(chan struct{})
		st.waiters = append(st.waiters, wake)
		st.mu.Unlock()
		if err := l.failed(); err != nil {
			return err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := l.failed(); err != nil {
			return err
		}
	}
}

// serve is the flusher's work on a log: one sync.
func (l *Log) serve() {
	st := &l.sync
	st.mu.Lock()
	st.queued, st.running, st.again = false, true, false
	ticket, back, sync := st.asked, st.back, st.asked > st.done
	st.back = false
	st.mu.Unlock()

	var err error
	switch {
	case l.closed.Load(): // deleted or moved away: nothing is lost by leaving it alone
		err = l.failed()
	case sync:
		err = l.flush()
		l.housekeep()
	default:
		if back {
			l.active().StartWriteback()
		}
		l.housekeep()
	}

	st.mu.Lock()
	st.running = false
	if sync {
		st.done = max(st.done, ticket)
		st.err = err
	}
	again := st.again
	if again {
		st.queued = true
	}
	wake := st.waiters
	st.waiters = nil
	st.mu.Unlock()
	for _, w := range wake {
		close(w)
	}
	if again {
		l.d.flusher.push(l)
	}
}

// awaitFlush waits until no flush of the log runs. The log is closed, so none
// begins any more. l.maint is not held: a flush may need it to end.
func (l *Log) awaitFlush() {
	st := &l.sync
	for {
		st.mu.Lock()
		if !st.running {
			st.mu.Unlock()
			return
		}
		wake := make(chan struct{})
		st.waiters = append(st.waiters, wake)
		st.mu.Unlock()
		<-wake
	}
}

// flush makes durable everything written before it began: the sealed segments
// that are not, then the active one, the directory's new entries and the epoch
// file; then it raises the flushed end and tells it. One flush of a log runs
// at a time (serve, or the manager when nothing else runs).
func (l *Log) flush() error {
	if l.failed() != nil {
		return l.failed()
	}
	began := time.Now()
	l.flushedMs.Store(began.UnixMilli())
	l.mu.Lock()
	durable := l.cfg.Load().Durable
	if durable { // what was counted on until now lies below target
		l.tighten()
	}
	target := l.End()
	dirty := append([]*segment.Segment(nil), l.unsynced...)
	active := l.active()
	newFiles := l.newFiles
	l.newFiles = false
	l.cutLow = math.MaxInt64
	l.unflushed, l.rolled = 0, false
	l.mu.Unlock()

	err := l.syncFiles(dirty, active, newFiles)
	if err == nil {
		err = l.remark(durable)
	}
	if err != nil {
		return l.flushFailed(err, newFiles)
	}
	l.m.metrics.syncSeconds.Observe(time.Since(began).Seconds())

	l.mu.Lock()
	kept := l.unsynced[:0]
	for _, s := range l.unsynced {
		switch {
		case s.Dirty() > 0:
			kept = append(kept, s)
		case l.cfg.Load().Preallocate && s != l.active():
			s.Reserve(0) // under the lock: a truncation may make it the active one again
		}
	}
	clear(l.unsynced[len(kept):])
	l.unsynced = kept
	l.reached = max(l.reached, min(target, l.cutLow))
	target, raised := l.raiseFlushed()
	l.mu.Unlock()
	if h := l.hooks.Load(); raised && h != nil && h.Flushed != nil {
		h.Flushed(target)
	}
	return nil
}

func (l *Log) syncFiles(dirty []*segment.Segment, active *segment.Segment, newFiles bool) error {
	for _, s := range dirty {
		// A segment that was deleted meanwhile has nothing to lose.
		if err := s.Sync(); err != nil && !errors.Is(err, segment.ErrGone) {
			return err
		}
	}
	if err := active.Sync(); err != nil && !errors.Is(err, segment.ErrGone) {
		return err
	}
	if newFiles {
		if err := l.m.fs.SyncDir(l.dir.Path()); err != nil {
			return fmt.Errorf("sync directory %s: %w", l.dir.Path(), err)
		}
	}
	if l.epochs.Unsynced() {
		if err := l.epochs.Sync(); err != nil {
			return epochsError{err}
		}
	}
	if o := l.origin.Load(); o != nil && !l.future.Load() {
		return o.leave(l)
	}
	return nil
}

// epochsError tells a failed write of the epoch file, whose old content is
// still there, from a failed sync of data.
type epochsError struct{ error }

func (e epochsError) Unwrap() error { return e.error }

// markError tells the same of the mark of what is not synced.
type markError struct{ error }

func (e markError) Unwrap() error { return e.error }

// flushFailed ends a flush: for want of a descriptor, or of space for the epoch
// file or the mark, it is tried again later; after anything else the directory
// is offline.
func (l *Log) flushFailed(err error, newFiles bool) error {
	var ee epochsError
	var me markError
	full := (errors.As(err, &ee) || errors.As(err, &me)) && errors.Is(err, vfs.ErrNoSpace)
	if full || errors.Is(err, vfs.ErrTooManyFiles) || errors.Is(err, errHeld) {
		l.mu.Lock()
		l.newFiles = l.newFiles || newFiles
		l.mu.Unlock()
		if full {
			l.d.ranOut()
		}
		l.d.retryLater(l)
		return err
	}
	l.d.fail(err)
	return l.failed()
}

// flusher runs the syncs of one device. It starts at once when a worker is
// free; while syncs run, requests gather, and one sync answers all that came
// before it began.
type flusher struct {
	mu      sync.Mutex
	work    sync.Cond
	queue   []*Log
	head    int
	workers int // running
	stopped bool
}

func newFlusher() *flusher {
	f := new(flusher)
	f.work.L = &f.mu
	return f
}

func (f *flusher) push(l *Log) {
	f.mu.Lock()
	f.queue = append(f.queue, l)
	f.mu.Unlock()
	f.work.Signal()
}

func (f *flusher) pop() *Log {
	if f.head == len(f.queue) {
		return nil
	}
	l := f.queue[f.head]
	f.queue[f.head] = nil
	if f.head++; f.head == len(f.queue) {
		f.queue, f.head = f.queue[:0], 0
	}
	return l
}

// idle reports that no worker runs.
func (f *flusher) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.workers == 0
}

// drain serves what is queued in the caller's goroutine.
func (f *flusher) drain() {
	for {
		f.mu.Lock()
		l := f.pop()
		f.mu.Unlock()
		if l == nil {
			return
		}
		l.serve()
	}
}

// run serves until stop; several goroutines run it.
func (f *flusher) run() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workers++
	defer func() { f.workers-- }()
	for {
		l := f.pop()
		if l == nil {
			if f.stopped {
				return
			}
			f.work.Wait()
			continue
		}
		f.mu.Unlock()
		l.serve()
		f.mu.Lock()
	}
}

// start lets the workers run again after a stop.
func (f *flusher) start() {
	f.mu.Lock()
	f.stopped = false
	f.mu.Unlock()
}

// stop lets the workers end once the queue is empty.
func (f *flusher) stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.work.Broadcast()
}

// wakeWaiters ends the waits of Sync, which then find the log failed.
func (l *Log) wakeWaiters() {
	l.sync.mu.Lock()
	wake := l.sync.waiters
	l.sync.waiters = nil
	l.sync.mu.Unlock()
	for _, w := range wake {
		close(w)
	}
}
