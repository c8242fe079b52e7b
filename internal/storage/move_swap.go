package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// movedName is the mark of a log that moves, or moved: it names the directory
// that it comes from. Where two directories hold a partition's log, the one
// with the mark is the newer.
const movedName = "barnabas.moved"

// keptName is the mark of a log whose move failed at the rename: whatever the
// other directory shows after the next start, this one is the log.
const keptName = "barnabas.kept"

// errRename: whether the new name is there is not known.
var errRename = errors.New("the future log could not be renamed")

type movedFile struct {
	From string `json:"from"` // directory.id
}

// errHeld: nothing of a log that moved counts as flushed while neither its old
// name is gone nor the metadata names its new directory: a start that found
// the old one alone would take it for the whole log.
var errHeld = fmt.Errorf("the log's old directory is not gone yet: %w", kerr.KafkaStorageError)

// origin is what a log that moved here remembers of where it was, until its
// old name is gone and the metadata names its directory.
type origin struct {
	from kafka.DirID
	old  *Log // nil after a start

	gone     atomic.Bool   // the old name, durably
	settled  chan struct{} // closed once the metadata names the new directory
	settling sync.Once
}

func newOrigin(from kafka.DirID, old *Log) *origin {
	return &origin{from: from, old: old, settled: make(chan struct{})}
}

func (o *origin) isSettled() bool {
	select {
	case <-o.settled:
		return true
	default:
		return false
	}
}

// MovedFrom is the directory that the log was in before it moved here, while
// the metadata may still name that; ok is false otherwise.
func (l *Log) MovedFrom() (kafka.DirID, bool) {
	if o := l.origin.Load(); o != nil && !l.future.Load() {
		return o.from, true
	}
	return kafka.DirID{}, false
}

// Settled tells that the metadata names the log's directory.
func (l *Log) Settled() {
	if o := l.origin.Load(); o != nil {
		o.settling.Do(func() { close(o.settled) })
		l.m.kick()
	}
}

// Failed is the error that took the log's directory offline, or nil.
func (l *Log) Failed() error { return l.d.offline() }

// swap puts the future log in the place of src, when they are equal. The caller
// serializes it with appends to src.
//
// The rename is what counts after a kill; after a power loss either name may be
// there, and both have everything that was told as flushed.
func (mv *move) swap(src *Log) error {
	f, m := mv.future, mv.m
	if err := errors.Join(src.failed(), f.failed()); err != nil {
		return err
	}
	if _, err := mv.copy(src, moveChunk, true); err != nil {
		return err
	}
	if err := mv.copyEpochs(src); err != nil {
		return err
	}
	if src.relaxed.Load() {
		if err := f.mark(); err != nil {
			return f.writeFailed(err)
		}
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if src.cutting || src.cutFuture < f.End() || f.End() != src.End() || f.Start() != src.Start() || f.FlushedEnd() < src.FlushedEnd() ||
		f.epochs.Latest() != src.epochs.Latest() {
		return errBehind
	}
	relaxed := src.relaxed.Load()
	if relaxed && !f.unsyncedNow || src.doubtful.Load() {
		return errBehind
	}
	st := &f.sync
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.running || st.queued {
		return errBehind // it would write files under the old name
	}
	path := f.d.join(mv.tp.String())
	if err := m.fs.Rename(f.Path(), path); err != nil {
		return errors.Join(errRename, f.writeFailed(err))
	}
	f.dir.Set(path)
	f.epochs.Moved(path)
	f.origin.Store(newOrigin(src.d.id, src))
	f.future.Store(false)
	f.cfg.Store(src.cfg.Load())
	f.relaxed.Store(relaxed)
	f.doubtful.Store(false)
	f.hooks.Store(src.hooks.Load())
	f.setMark(src.HighWatermark())
	// What only the new directory has is not safe before its name is: the next
	// flush tells it.
	f.flushed.Store(src.FlushedEnd())
	// The live state knows more than the copy: batches from before the log
	// start, and guards of transactions that are being verified.
	f.prods, src.prods = src.prods, producers.New(m.cfg.ProducerExpiration)
	f.noteUndecided()
	f.rolled = true   // asks for the sync that completes the move
	src.next.Store(f) // for who asks about transactions and still has the old one
	src.closed.Store(true)
	src.mirror = nil
	m.exchange(src, f)
	m.mover.watch(f)
	f.logs.Info("log moved", "tp", mv.tp, "from", src.d.path, "to", f.d.path, "end", f.End())
	return nil
}

// exchange lists f as the partition's log, and src no more.
func (m *Manager) exchange(src, f *Log) {
	m.mu.Lock()
	m.logs[f.tp] = f
	m.mu.Unlock()
	src.d.mu.Lock()
	delete(src.d.logs, f.tp)
	src.d.noteRemoved(f.tp)
	src.d.mu.Unlock()
	f.d.mu.Lock()
	delete(f.d.futures, f.tp)
	f.d.logs[f.tp] = f
	f.d.remark()
	f.d.mu.Unlock()
	m.metrics.logs.Inc() // and down again when the old one goes
}

// leave completes a move, before anything of the log counts as flushed in its
// new place: the new name is made durable, then the old one goes, for good.
func (o *origin) leave(l *Log) error {
	if o.gone.Load() {
		return nil
	}
	if err := l.m.fs.SyncDir(l.d.path); err != nil {
		return fmt.Errorf("sync directory %s: %w", l.d.path, err)
	}
	if o.old != nil && o.old.d.offline() == nil {
		if err := l.m.renameAway(o.old, deleteDirSuffix); err == nil {
			o.gone.Store(true)
			l.m.kick()
			return nil
		}
	}
	if o.isSettled() {
		return nil
	}
	return errHeld
}

// watch has the mark of a log that moved removed once it is settled.
func (v *mover) watch(l *Log) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.settling[l] = true
}

// settle removes the mark of a move that is over: the old name is gone, and the
// metadata names the new directory.
func (v *mover) settle(l *Log) {
	o := l.origin.Load()
	if o == nil || !o.gone.Load() || !o.isSettled() {
		return
	}
	l.maint.Lock()
	defer l.maint.Unlock()
	err := v.m.fs.Remove(l.dir.Join(movedName))
	if err == nil {
		err = v.m.fs.SyncDir(l.dir.Path())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.logs.Warn("mark of a move not removed", "tp", l.tp, "err", err)
		if isDeviceError(err) {
			l.d.fail(err)
		}
		return
	}
	l.origin.Store(nil)
	v.mu.Lock()
	delete(v.settling, l)
	v.mu.Unlock()
}

// awaitSettled lets an earlier move of the log come to its end.
func (v *mover) awaitSettled(l *Log) error {
	o := l.origin.Load()
	if o == nil {
		return nil
	}
	t := time.NewTimer(settleWait)
	defer t.Stop()
	select {
	case <-o.settled:
		v.settle(l)
	case <-t.C:
	}
	if l.origin.Load() != nil {
		return fmt.Errorf("%s: its last move is not over yet: %w", l.tp, kerr.KafkaStorageError)
	}
	return nil
}

// newFuture makes the log that src is copied to, in directory d.
func (m *Manager) newFuture(src *Log, d *logDir) (*Log, error) {
	name, err := awayName(src.tp, futureDirSuffix)
	if err != nil {
		return nil, err
	}
	if err := src.unkeep(); err != nil {
		return nil, src.writeFailed(err)
	}
	src.mu.Lock()
	src.cutFuture = math.MaxInt64
	src.mu.Unlock()
	base, state, err := src.moveBase()
	if err != nil {
		return nil, err
	}
	f := d.newLog(src.tp, src.id, d.join(name), src.futureConfig())
	f.future.Store(true)
	err = d.forgetRemoved(src.tp)
	if err == nil {
		err = m.fs.MkdirAll(f.Path())
	}
	if err == nil {
		err = m.fs.SyncDir(d.path)
	}
	if err == nil {
		err = saveMoved(f, base, state)
	}
	if err == nil {
		err = writeMoved(f, src.d.id)
	}
	if err == nil {
		err = writeTopicID(m.fs, f.dir, src.id) // last: without it nothing is there
	}
	if err == nil {
		o := opening{l: f, clean: true, start: base, hw: base, point: base}
		err = o.open(context.Background())
	}
	if err != nil {
		_ = m.fs.RemoveAll(f.Path())
		return nil, f.writeFailed(err)
	}
	d.mu.Lock()
	d.futures[f.tp] = f
	d.remark()
	d.mu.Unlock()
	return f, nil
}

// keep makes durable that this log is the partition's, whatever was renamed.
func (l *Log) keep() error {
	l.maint.Lock()
	defer l.maint.Unlock()
	if err := vfs.ReplaceFile(l.m.fs, l.dir.Join(keptName), nil); err != nil {
		return l.writeFailed(err)
	}
	return nil
}

// unkeep makes room for another move, once what the last one left is gone.
func (l *Log) unkeep() error {
	err := l.m.fs.Remove(l.dir.Join(keptName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.m.fs.SyncDir(l.dir.Path())
}

// futureConfig is the configuration of a future log: the log's own, but for
// syncs, which the move asks for.
func (l *Log) futureConfig() Config {
	c := *l.cfg.Load()
	c.Durable, c.FlushMessages, c.FlushMs = false, 0, 0
	return c
}

// discard removes a future log.
func (m *Manager) discard(f *Log) error {
	f.mu.Lock()
	was := f.closed.Swap(true)
	f.mu.Unlock()
	if was || f.d.offline() != nil {
		return nil
	}
	return m.renameAway(f, deleteDirSuffix)
}

func writeMoved(l *Log, from kafka.DirID) error {
	b, err := json.Marshal(movedFile{From: from.String()})
	if err != nil {
		return err
	}
	return vfs.ReplaceFile(l.m.fs, l.dir.Join(movedName), append(b, '\n'))
}

// readMoved reads the mark in a partition's directory; ok is false when there is none.
func readMoved(fsys vfs.FS, path string) (from kafka.DirID, ok bool, err error) {
	b, err := vfs.ReadFile(fsys, path, maxMetaBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return from, false, nil
	}
	if err != nil {
		return from, false, err
	}
	var v movedFile
	if err := json.Unmarshal(b, &v); err != nil {
		return from, false, fmt.Errorf("%s: %w", path, err)
	}
	from, err = kafka.ParseUUID(v.From)
	if err != nil {
		return from, false, fmt.Errorf("%s: %w", path, err)
	}
	return from, true, nil
}

// parseFutureDir parses topic-0.<32 hexadecimal digits>-future.
func parseFutureDir(name string) (kafka.TopicPartition, bool) {
	rest, ok := strings.CutSuffix(name, futureDirSuffix)
	i := strings.LastIndexByte(rest, '.')
	if !ok || i < 0 || len(rest)-i-1 != 32 {
		return kafka.TopicPartition{}, false
	}
	tp, _, ok := parsePartitionDir(rest[:i])
	return tp, ok
}
