package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// maxWishes bounds the directories that are remembered for partitions to come.
const maxWishes = 1 << 16

// settleWait is how long Move waits for the metadata to name the directory of
// a log that has just moved.
const settleWait = 2 * time.Second

// mover moves logs between the directories (doc.go, "Moves"). Its workers take
// one move each and work on it until it is done or has to wait.
type mover struct {
	m *Manager

	admin sync.Mutex // one change of what moves at a time; taken before Manager.mu

	mu       sync.Mutex
	cond     sync.Cond
	all      map[kafka.TopicPartition]*move
	queue    []*move
	settling map[*Log]bool // moved, with a mark that is to go
	rate     int64         // bytes a second for all moves; 0 none at all
	paid     time.Time     // until when the bytes so far take the rate up
	changed  chan struct{} // closed with the next change of the rate, and replaced
}

// move is a log on its way to another directory of this broker.
type move struct {
	m      *Manager
	tp     kafka.TopicPartition
	future *Log
	ctx    context.Context // ends when the move is called off
	cancel context.CancelFunc
	ready  bool // the future's end was compared with the log, in this process

	// Under mover.mu.
	state moveState
}

type moveState int8

const (
	moveWaits  moveState = iota // for the next tick
	moveQueued                  // for a worker
	moveWorks
	moveStuck // until somebody asks again, or the next start
)

func newMover(m *Manager) *mover {
	v := &mover{m: m, changed: make(chan struct{}), all: map[kafka.TopicPartition]*move{}, settling: map[*Log]bool{}}
	v.cond.L, v.rate = &v.mu, math.MaxInt64
	return v
}

// SetMoveRate bounds the bytes a second that all moves together may copy. What
// was charged at another rate is forgiven.
func (m *Manager) SetMoveRate(bytesPerSecond int64) {
	v := m.mover
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.rate == bytesPerSecond {
		return
	}
	v.rate, v.paid = bytesPerSecond, time.Time{}
	close(v.changed)
	v.changed = make(chan struct{})
}

// Move has a partition's log move to the directory of that path, in the
// background; what is appended meanwhile moves along. A log that is there
// already stays, and a move of it under way is called off. Without a log the
// directory is remembered for when it is made, and the answer is
// REPLICA_NOT_AVAILABLE. Other errors: INVALID_TOPIC_EXCEPTION (the name of the
// future directory would be too long), LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR,
// INVALID_REPLICA_ASSIGNMENT (cordoned).
func (m *Manager) Move(tp kafka.TopicPartition, path string) error {
	d, err := m.moveTarget(tp, path)
	if err != nil {
		return err
	}
	v := m.mover
	v.admin.Lock()
	defer v.admin.Unlock()
	src, ok := m.Get(tp)
	if ok && src.failed() != nil {
		return src.failed()
	}
	if mv := v.get(tp); mv != nil {
		if mv.future.d == d {
			v.enqueue(mv) // also one that was stuck
			return nil
		}
		if err := v.callOff(tp); err != nil {
			return err
		}
		if src, ok = m.Get(tp); ok && src.failed() != nil { // it may have been done just then
			return src.failed()
		}
	}
	if !ok {
		m.wish(tp, d)
		return fmt.Errorf("%s: no such log here: %w", tp, kerr.ReplicaNotAvailable)
	}
	if src.d == d {
		return nil
	}
	for _, other := range m.dirs {
		if err := other.offline(); err != nil {
			// It may hold this partition's future, or what an earlier move left.
			return fmt.Errorf("%s: no move begins while log directory %s is offline: %w", tp, other.path, kerr.KafkaStorageError)
		}
	}
	if err := v.awaitSettled(src); err != nil {
		return err
	}
	f, err := m.newFuture(src, d)
	if err != nil {
		return err
	}
	src.logs.Info("log begins to move", "tp", tp, "from", src.d.path, "to", d.path)
	v.add(f)
	return nil
}

// moveTarget finds the directory of a path and checks that it can be moved to.
func (m *Manager) moveTarget(tp kafka.TopicPartition, path string) (*logDir, error) {
	const idLen = 32
	if len(tp.Topic) > maxNameLen || len(tp.String())+len(".")+idLen+len(futureDirSuffix) > maxNameLen {
		return nil, fmt.Errorf("the topic's name is too long to move: %w", kerr.InvalidTopicException)
	}
	for _, d := range m.dirs {
		if absolute(d.path) != path {
			continue
		}
		if err := d.offline(); err != nil {
			return nil, fmt.Errorf("log directory %s is offline: %w: %w", path, err, kerr.KafkaStorageError)
		}
		if d.cordoned.Load() {
			return nil, fmt.Errorf("log directory %s is cordoned: %w", path, kerr.InvalidReplicaAssignment)
		}
		return d, nil
	}
	return nil, fmt.Errorf("%s is not among log.dirs: %w", path, kerr.LogDirNotFound)
}

// wish remembers where the log of a partition is to be made.
func (m *Manager) wish(tp kafka.TopicPartition, d *logDir) {
	m.pickMu.Lock()
	defer m.pickMu.Unlock()
	if _, known := m.wished[tp]; known || len(m.wished) < maxWishes {
		m.wished[tp] = d
	}
}

func (v *mover) get(tp kafka.TopicPartition) *move {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.all[tp]
}

// add lists the move of an open future log.
func (v *mover) add(f *Log) {
	mv := &move{m: v.m, tp: f.tp, future: f}
	mv.ctx, mv.cancel = context.WithCancel(context.Background())
	v.mu.Lock()
	v.all[f.tp] = mv
	v.mu.Unlock()
	v.enqueue(mv)
}

// enqueue hands a move to the workers, unless it is with them already.
func (v *mover) enqueue(mv *move) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if mv.state == moveWaits || mv.state == moveStuck {
		mv.state = moveQueued
		v.queue = append(v.queue, mv)
		v.cond.Broadcast()
	}
}

// callOff ends a partition's move, and removes the future log; a move that was
// over is left as it is. v.admin is held.
func (v *mover) callOff(tp kafka.TopicPartition) error {
	v.mu.Lock()
	mv := v.all[tp]
	if mv == nil {
		v.mu.Unlock()
		return nil
	}
	mv.cancel()
	for mv.state == moveWorks {
		v.cond.Wait()
	}
	over := v.all[tp] != mv
	delete(v.all, tp)
	for i, q := range v.queue {
		if q == mv {
			v.queue = append(v.queue[:i], v.queue[i+1:]...)
			break
		}
	}
	v.mu.Unlock()
	if over {
		return nil
	}
	return v.m.discard(mv.future)
}

// run is a worker.
func (v *mover) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.cond.Broadcast()
	})
	defer stop()
	for {
		mv := v.take(ctx)
		if mv == nil {
			return
		}
		v.give(ctx, mv, mv.work(ctx))
	}
}

func (v *mover) take(ctx context.Context) *move {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.queue) == 0 && ctx.Err() == nil {
		v.cond.Wait()
	}
	if ctx.Err() != nil {
		return nil
	}
	mv := v.queue[0]
	v.queue = v.queue[1:]
	mv.state = moveWorks
	return mv
}

// give takes a move back from a worker.
func (v *mover) give(ctx context.Context, mv *move, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer v.cond.Broadcast()
	logs := mv.future.logs
	switch {
	case err == nil:
		mv.state = moveStuck
		delete(v.all, mv.tp)
	case ctx.Err() != nil || mv.ctx.Err() != nil || errors.Is(err, errWait) || errors.Is(err, errBehind):
		mv.state = moveWaits
	case mv.future.d.offline() != nil:
		// Its files are found again by the next start.
		mv.state = moveStuck
		delete(v.all, mv.tp)
		logs.Error("log does not move: the directory that it moves to is offline", "tp", mv.tp, "to", mv.future.d.path)
	case errors.Is(err, vfs.ErrNoSpace) || errors.Is(err, vfs.ErrTooManyFiles) || errors.Is(err, context.DeadlineExceeded):
		mv.state = moveWaits
		logs.Debug("log moves on later", "tp", mv.tp, "to", mv.future.d.path, "err", err)
	default:
		mv.state = moveStuck
		logs.Error("log does not move on, until it is asked to again", "tp", mv.tp, "to", mv.future.d.path, "err", err)
	}
}

// tick lets the moves that wait try again, and removes the marks of those that
// are over.
func (v *mover) tick() {
	v.mu.Lock()
	var again []*move
	for _, mv := range v.all {
		if mv.state == moveWaits {
			again = append(again, mv)
		}
	}
	settling := make([]*Log, 0, len(v.settling))
	for l := range v.settling {
		settling = append(settling, l)
	}
	v.mu.Unlock()
	for _, mv := range again {
		v.enqueue(mv)
	}
	for _, l := range settling {
		v.settle(l)
	}
}

// pay waits until n more bytes are within the rate.
func (v *mover) pay(ctx context.Context, n int) error {
	for {
		v.mu.Lock()
		rate, changed, now := v.rate, v.changed, time.Now()
		if v.paid.Before(now) {
			v.paid = now
		}
		if rate > 0 {
			owed := min(float64(n)/float64(rate), 3600)
			v.paid = v.paid.Add(time.Duration(owed * float64(time.Second)))
		}
		wait := v.paid.Sub(now)
		v.mu.Unlock()
		if rate > 0 && wait <= 0 {
			return ctx.Err()
		}
		t := time.NewTimer(wait)
		due := t.C
		if rate <= 0 {
			due = nil // until there is another rate
		}
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-due:
			return ctx.Err()
		case <-changed:
			t.Stop()
		}
	}
}
