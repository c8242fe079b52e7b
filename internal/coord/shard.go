package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/loop"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

type state int8

const (
	stateIdle    state = iota // this broker does not lead
	stateLoading              // it does, and the machine is being made
	stateActive
)

// shard is one partition of the internal topic with its machine.
//
// mu guards the queue and the state; it is held for moments only. machine, calls,
// timers and log position belong to whoever runs the shard: the one run of its
// key. Elections, drops and loads meet it by the term: what a run finds under
// another term than its own, it throws away.
type shard struct {
	id  int32
	r   *Runtime
	key *loop.Key
	log *slog.Logger

	mu       sync.Mutex
	quiet    sync.Cond // at the end of a run, and of a release
	state    state
	term     term
	queue    []event
	spare    []event         // the queue's other half, reused
	draining bool            // a run has the events that were taken from the queue
	runs     uint64          // that have ended
	ctx      context.Context // of the term
	cancel   context.CancelFunc
	backOff  time.Duration
	closed   time.Time // nothing is written before
	since    time.Time // active
	parked   parking
	live     *live // while active
}

// term is one attempt to be coordinator: a leader epoch, and a count of the
// loads in it.
type term struct {
	epoch kafka.LeaderEpoch
	load  int
}

// live is what a machine has while it runs. It belongs to the run of the key.
type live struct {
	term    term
	part    Partition
	machine Machine
	calls   map[Token]*call // of commands that the machine did not answer at once
	tokens  Token
	timers  timers
	writer  writer
	fresh   bool      // Loaded has not been called
	behind  bool      // the command of Begin is due
	thaw    time.Time // before it, no timer reaches the machine
	closed  time.Time // before it, nothing is written
	// written is the offset behind everything that the machine's state holds:
	// the end of the load, then of the last append.
	written int64

	// Of the run under way.
	now      time.Time
	admitted error // why the partition cannot be written, or nil
	asked    asked
	out      []outgoing
}

// asked is the command that the machine is being handed.
type asked struct {
	token Token
	call  *call
}

// event is a command in the queue. call is nil where nobody waits.
type event struct {
	cmd  Command
	call *call
}

// call is somebody who waits for a reply.
type call struct {
	done    chan answer // holds one
	claimed atomic.Bool
}

// claim decides, once, whether the command reaches the machine or its caller
// has left before: the first to claim has it.
func (c *call) claim() bool { return c.claimed.CompareAndSwap(false, true) }

type answer struct {
	body any
	err  error
}

func newShard(r *Runtime, id int32) *shard {
	s := &shard{id: id, r: r, log: r.cfg.Log.With("shard", id)}
	s.quiet.L = &s.mu
	s.key = r.exec.Key(s.work)
	return s
}

func (s *shard) active() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == stateActive
}

func (s *shard) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal()
}

// refusal is why no command is taken, or nil; s.mu is held.
func (s *shard) refusal() error {
	switch s.state {
	case stateActive:
		return nil
	case stateLoading:
		return kerr.CoordinatorLoadInProgress
	}
	return kerr.NotCoordinator
}

// post puts an event in the queue; the key is to be woken for it.
func (s *shard) post(e event) error {
	s.mu.Lock()
	if err := s.refusal(); err != nil {
		s.mu.Unlock()
		return err
	}
	if len(s.queue) >= s.r.cfg.MaxQueued && e.call != nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: %d commands wait", kerr.CoordinatorNotAvailable, s.r.cfg.MaxQueued)
	}
	s.queue = append(s.queue, e)
	s.mu.Unlock()
	return nil
}

func (s *shard) do(ctx context.Context, cmd Command) (any, error) {
	c := s.r.calls.Get().(*call)
	c.claimed.Store(false)
	if err := s.post(event{cmd: cmd, call: c}); err != nil {
		s.r.calls.Put(c)
		return nil, err
	}
	s.key.Here()
	select { // first without a look at ctx, which may cost its owner something
	case a := <-c.done:
		s.r.calls.Put(c)
		return a.body, a.err
	default:
	}
	select {
	case a := <-c.done:
		s.r.calls.Put(c)
		return a.body, a.err
	case <-ctx.Done():
	}
	s.abandon(c)
	return nil, ctx.Err() // c is not used again: a late answer may still fall into it
}

// abandon keeps a call's command from the machine, or waits until the run that
// has it is through: the command aliases memory of the caller.
func (s *shard) abandon(c *call) {
	if c.claim() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := s.runs; s.draining && s.runs == n; {
		s.quiet.Wait()
	}
}

// elect begins a term, unless the shard is in it.
func (s *shard) elect(epoch kafka.LeaderEpoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateIdle && epoch <= s.term.epoch {
		return
	}
	s.dropLocked()
	s.term.epoch = epoch
	s.backOff = 0
	s.beginLoad(0)
}

// resign ends whatever the shard is in.
func (s *shard) resign() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateIdle {
		s.log.Info("coordinator stopped", "of", s.r.cfg.Name, "epoch", s.term.epoch)
	}
	s.dropLocked()
}

// dropLocked forgets the machine and fails everything that waits for it.
func (s *shard) dropLocked() {
	if s.cancel != nil {
		s.cancel()
		s.cancel = nil
	}
	s.state = stateIdle
	s.term.load++
	err := error(kerr.NotCoordinator)
	for _, e := range s.queue {
		e.call.fail(err)
	}
	clear(s.queue)
	s.queue = s.queue[:0]
	s.parked.fail(err)
	if s.live != nil {
		if !s.draining { // else the run finds its term over, and does it
			s.live.end(err)
		}
		s.live = nil
	}
}

// end silences the machine's timers, and answers all who wait for it.
func (l *live) end(err error) {
	l.timers.stop()
	l.asked.call.fail(err)
	l.asked.call = nil
	for _, c := range l.calls {
		c.fail(err)
	}
	clear(l.calls)
	for _, o := range l.out {
		o.call.fail(err)
	}
	l.out = nil
}

func (c *call) fail(err error) {
	if c != nil {
		c.done <- answer{err: err}
	}
}

// failed drops a machine whose state is not to be trusted any more, and loads
// it again after a while, if this broker still leads.
func (s *shard) failed(t term, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != t {
		return
	}
	if s.state == stateActive && time.Since(s.since) >= maxBackOff {
		s.backOff = 0 // this one came out of a quiet time
	}
	s.dropLocked()
	if termOver(cause) || s.r.ctx.Err() != nil {
		s.log.Info("coordinator stopped", "of", s.r.cfg.Name, "epoch", t.epoch, "err", cause)
		return // the metadata image will say who leads
	}
	s.backOff = min(max(s.backOff*2, minBackOff), maxBackOff)
	s.log.Error("coordinator dropped its state, and loads it again", "of", s.r.cfg.Name, "epoch", t.epoch, "in", s.backOff, "err", cause)
	s.r.cfg.Metrics.dropped.Inc()
	if errors.Is(cause, vfs.ErrNoSpace) {
		// The log can be read: it is what is written that waits.
		s.closed = time.Now().Add(s.backOff)
		s.beginLoad(0)
		return
	}
	s.beginLoad(s.backOff)
}

// termOver says that an error of a partition means that the term is over.
func termOver(err error) bool {
	return errors.Is(err, kerr.NotLeaderForPartition) || errors.Is(err, kerr.FencedLeaderEpoch) || errors.Is(err, kerr.UnknownLeaderEpoch)
}

// work is the run of the shard's key: all commands that wait, all timers that
// are due, one append.
func (s *shard) work() {
	s.mu.Lock()
	l := s.live
	if s.state != stateActive || l == nil {
		s.mu.Unlock()
		return
	}
	events := s.queue
	s.queue, s.spare = s.spare[:0], nil
	s.draining = true
	s.mu.Unlock()

	err := s.drain(l, events)

	clear(events)
	s.mu.Lock()
	s.spare = events[:0]
	s.draining = false
	s.runs++
	s.quiet.Broadcast()
	over := s.live != l
	s.mu.Unlock()
	switch {
	case over:
		l.end(kerr.NotCoordinator)
	case err != nil:
		s.failed(l.term, err)
	}
}
