package fetcher

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// firstBackoff is the delay after a first failure; it doubles up to the
// configured one.
const firstBackoff = 20 * time.Millisecond

// key of a partition in requests and answers.
type key struct {
	topic     kafka.TopicID
	partition int32
}

// followed is a partition that is fetched.
type followed struct {
	p     *replica.Partition
	key   key
	asked replica.Following // as the session has it
	in    bool              // it is in the session
	// It was refused, or is throttled, and stays out of the session until then.
	until time.Time
	delay time.Duration
}

// worker fetches from one leader.
type worker struct {
	cfg    *Config
	leader kafka.NodeID
	log    *slog.Logger
	wakes  *replica.Waiter // flushed ends and roles

	// What Entered hands over.
	mu      sync.Mutex
	entered []*replica.Partition
	dropped []*replica.Partition
	changed chan struct{} // signal: there is something in them

	// The goroutine's own.
	parts     map[key]*followed
	look      map[*followed]bool // to be listed, or to be taken out
	unflushed map[*followed]bool // have what they cannot claim yet
	throttled map[*followed]bool // by their topics' settings
	forgotten []key              // in the session, and not to be any more
	conn      *wire.Client
	session   session
	delay     time.Duration // after the last failure of the whole
	quiet     bool          // the last answer brought no records
}

// session is an incremental fetch session as its client sees it.
type session struct {
	id, epoch   int32
	brokerEpoch int64
}

func newWorker(cfg *Config, leader kafka.NodeID) *worker {
	return &worker{
		cfg: cfg, leader: leader, log: cfg.Logger.With("leader", leader), wakes: replica.NewWaiter(),
		changed: make(chan struct{}, 1),
		parts:   make(map[key]*followed), look: make(map[*followed]bool), unflushed: make(map[*followed]bool), throttled: make(map[*followed]bool),
	}
}

// take has a partition fetched, or looked at again.
func (w *worker) take(p *replica.Partition) { w.tell(&w.entered, p) }

// drop has it not fetched any more.
func (w *worker) drop(p *replica.Partition) { w.tell(&w.dropped, p) }

func (w *worker) tell(list *[]*replica.Partition, p *replica.Partition) {
	w.mu.Lock()
	*list = append(*list, p)
	w.mu.Unlock()
	w.signal()
}

func (w *worker) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// receive takes over what Entered said. The signal goes first: what is said
// after it signals again.
func (w *worker) receive() {
	select {
	case <-w.changed:
	default:
	}
	w.mu.Lock()
	entered, dropped := w.entered, w.dropped
	w.entered, w.dropped = nil, nil
	w.mu.Unlock()
	for _, p := range dropped {
		k := keyOf(p)
		if f := w.parts[k]; f != nil && f.p == p {
			w.forget(f)
		}
	}
	for _, p := range entered {
		w.adopt(p)
	}
}

func keyOf(p *replica.Partition) key { return key{p.TopicID(), p.TopicPartition().Partition} }

// adopt takes a partition in, unless it has changed its role since it was told:
// then that is told as well.
func (w *worker) adopt(p *replica.Partition) {
	at, follows := p.Following()
	k := keyOf(p)
	f := w.parts[k]
	if !follows || at.Leader != w.leader {
		if f != nil && f.p == p {
			w.forget(f)
		}
		return
	}
	if f != nil && f.p != p {
		w.forget(f)
		f = nil
	}
	if f == nil {
		f = &followed{p: p, key: k}
		w.parts[k] = f
		p.AddWaiter(w.wakes)
	}
	f.until, f.delay = time.Time{}, 0
	w.look[f] = true
}

func (w *worker) forget(f *followed) {
	f.p.RemoveWaiter(w.wakes)
	delete(w.parts, f.key)
	delete(w.look, f)
	delete(w.unflushed, f)
	delete(w.throttled, f)
	if f.in {
		w.forgotten = append(w.forgotten, f.key)
	}
}

func (w *worker) run(ctx context.Context) {
	defer func() {
		w.hangUp()
		for _, f := range w.parts {
			f.p.RemoveWaiter(w.wakes)
		}
	}()
	for ctx.Err() == nil {
		w.receive()
		w.claims()
		later := w.untilNext(time.Now())
		switch {
		case len(w.parts) == 0:
			w.hangUp()
			w.sleep(ctx, later)
			continue
		case w.cfg.Epoch() == 0:
			w.sleep(ctx, later)
			continue
		case w.resting():
			if len(w.unflushed) == 0 {
				w.sleep(ctx, later)
				continue
			}
			if later < 0 || later > syncPatience {
				later = syncPatience
			}
			if w.sleep(ctx, later) {
				continue
			}
		}
		wait := w.cfg.Wait
		if len(w.unflushed) > 0 {
			wait = 0 // what is flushed meanwhile is to be claimed
		} else if later >= 0 {
			wait = min(wait, later)
		}
		if err := w.round(ctx, wait); err != nil {
			w.failed(ctx, err)
		} else {
			w.delay = 0
		}
	}
}

// claims looks for what was flushed since: it is to be claimed.
func (w *worker) claims() {
	for f := range w.unflushed {
		at, _ := f.p.Following()
		if at.Counted != f.asked.Counted {
			w.look[f] = true
		}
		if at.Counted >= at.Offset {
			delete(w.unflushed, f)
		}
	}
}

// untilNext is the time until a partition that is kept out is due again; -1: none is.
func (w *worker) untilNext(now time.Time) time.Duration {
	next := time.Duration(-1)
	for f := range w.look {
		if f.until.IsZero() {
			continue
		}
		left := max(f.until.Sub(now), 0)
		if left == 0 {
			f.until = time.Time{}
		} else if next < 0 || left < next {
			next = left
		}
	}
	return next
}

// resting: there is nothing to ask until a sync ends, a role changes or a delay
// is over.
func (w *worker) resting() bool {
	if len(w.forgotten) > 0 {
		return false
	}
	for f := range w.look {
		if f.until.IsZero() {
			return false
		}
	}
	if len(w.unflushed) > 0 {
		return w.quiet
	}
	for _, f := range w.parts {
		if f.in {
			return false
		}
	}
	return true
}

// syncPatience is how long the end of a sync is waited for before the leader is
// asked again: others of its partitions may have records, and this disk may hang.
const syncPatience = 20 * time.Millisecond

// sleep waits for news, at most for a time; below 0 without bound. It reports
// whether there are any.
func (w *worker) sleep(ctx context.Context, most time.Duration) bool {
	var over <-chan time.Time
	if most >= 0 {
		t := time.NewTimer(most)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-ctx.Done():
	case <-w.changed:
	case <-w.wakes.C:
	case <-over:
		return false
	}
	return true
}

// errNews: a role changed while a fetch waited at the leader. The connection is
// given up: a fetch cannot be taken back, and a new leader is not to wait.
var errNews = errors.New("roles have changed")

// newsPatience is how long an answer is waited for that is due, once roles changed.
const newsPatience = 500 * time.Millisecond

// round is one fetch and what it brings about.
func (w *worker) round(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout+wait)
	defer cancel()
	if w.conn == nil {
		conn, err := w.cfg.Dial(ctx, w.leader)
		if err != nil {
			return err
		}
		w.conn = conn
	}
	call, err := w.conn.Send(ctx, w.request(wait))
	if err != nil {
		return err
	}
	select {
	case <-call.Done():
	case <-ctx.Done():
	case <-w.changed:
		if wait > 0 {
			return errNews
		}
		// The answer is due; a leader whose machine is lost gives none.
		due := time.NewTimer(newsPatience)
		defer due.Stop()
		select {
		case <-call.Done():
		case <-ctx.Done():
		case <-due.C:
			return errNews
		}
	}
	answer, err := call.Wait(ctx)
	if err != nil {
		return err
	}
	defer call.Release() // logs keep nothing of what is appended
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	w.session.id = resp.SessionID
	if w.session.epoch = next(w.session.epoch); resp.SessionID == 0 {
		w.session.epoch = 0 // there is none, or none any more
	}
	w.quiet = true
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			if f := w.parts[key{t.TopicID, t.Partitions[j].Partition}]; f != nil && f.in {
				w.answered(f, &t.Partitions[j])
			}
		}
	}
	return nil
}

// next is the epoch after e; 0 would open another session.
func next(e int32) int32 { return max(e+1, 1) }

// failed gives the connection up, and tries again after a while.
func (w *worker) failed(ctx context.Context, err error) {
	w.hangUp()
	if errors.Is(err, errNews) || ctx.Err() != nil {
		return
	}
	if w.delay == 0 {
		w.log.Info("cannot fetch from a leader, trying again", "err", err)
	}
	w.delay = w.longer(w.delay)
	t := time.NewTimer(w.delay/2 + rand.N(w.delay/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-w.changed:
	case <-t.C:
	}
}

func (w *worker) longer(d time.Duration) time.Duration {
	return min(max(2*d, firstBackoff), max(w.cfg.Backoff, firstBackoff))
}

// hangUp ends the connection. The session at the leader is ended by the next
// full fetch, which names it.
func (w *worker) hangUp() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
	w.outOfSession()
}

func (w *worker) outOfSession() {
	w.session.epoch, w.forgotten, w.quiet = 0, nil, false
	for _, f := range w.parts {
		f.in = false
		w.look[f] = true
	}
}
