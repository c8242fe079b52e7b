package coord

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

// timersAtOnce and fireFor bound the timers of one run: commands get their turn
// between.
const (
	timersAtOnce = 1000
	fireFor      = 10 * time.Millisecond
)

// frozen is how long no timer fires after the partition could not be written, or
// this process did not run. Members get that long to be heard.
const frozen = 10 * time.Second

// drain runs the events through the machine. An error means that its state ran
// ahead of the log.
func (s *shard) drain(l *live, events []event) (err error) {
	taken := 0
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		if err != nil {
			for _, e := range events[taken:] {
				e.call.fail(kerr.NotCoordinator)
			}
		}
	}()
	l.now, l.admitted = time.Now(), l.part.Admit()
	if l.admitted == nil && l.now.Before(l.closed) {
		l.admitted = fmt.Errorf("%w: the last append found no room", kerr.KafkaStorageError)
	}
	if !l.leads() {
		return kerr.NotLeaderForPartition
	}
	s.r.cfg.Metrics.events.Add(float64(len(events)))
	l.writer.reset(l.now)
	if err := s.tell(l); err != nil {
		return err
	}
	for taken < len(events) {
		e := events[taken]
		taken++
		if e.call != nil && !e.call.claim() {
			continue // its caller has left
		}
		if err := s.step(l, e); err != nil {
			return err
		}
	}
	if err := s.fire(l); err != nil {
		return err
	}
	return s.flush(l)
}

func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }

// tell lets the machine begin, once it may write (safety 24), and gives it at
// one go what Broadcast could not, while it was loading or could not write.
func (s *shard) tell(l *live) error {
	if l.admitted != nil {
		l.thaw = l.now.Add(frozen)
		return nil
	}
	if !l.behind {
		return nil
	}
	l.behind = false
	if l.fresh {
		l.fresh = false
		if err := s.take(l, l.machine.Loaded(l.now)); err != nil {
			return err
		}
	}
	if s.r.cfg.Begin == nil {
		return nil
	}
	return s.take(l, l.machine.Step(l.now, 0, s.r.cfg.Begin()))
}

// step hands one command to the machine, if it may be written for.
func (s *shard) step(l *live, e event) error {
	_, reads := e.cmd.(Query)
	switch {
	case e.call == nil && l.admitted != nil:
		l.behind = true
		return nil
	case l.admitted != nil && !reads:
		e.call.fail(fmt.Errorf("%w: %w", kerr.CoordinatorNotAvailable, l.admitted))
		return nil
	case e.call != nil:
		l.tokens++
		l.asked = asked{l.tokens, e.call}
	}
	err := s.take(l, l.machine.Step(l.now, l.asked.token, e.cmd))
	if l.asked.call != nil {
		l.calls[l.asked.token] = l.asked.call
		if p, ok := e.cmd.(Parker); ok {
			p.Parked()
		}
	}
	l.asked = asked{}
	return err
}

// fire lets timers that are due reach the machine.
func (s *shard) fire(l *live) error {
	if slept := s.r.sleep.until(l.now); slept.After(l.thaw) {
		l.thaw = slept
	}
	if l.now.Before(l.thaw) {
		l.timers.arm(l.now, l.thaw)
		return nil
	}
	l.timers.round++
	began := l.now
	for n := range timersAtOnce {
		key, due := l.timers.next(l.now)
		if !due {
			break
		}
		if n == 0 {
			began = time.Now()
		}
		if err := s.take(l, l.machine.Fire(l.now, key)); err != nil {
			return err
		}
		if time.Since(began) > fireFor {
			break
		}
	}
	if l.timers.due(l.now) {
		s.key.Wake()
	} else {
		l.timers.armFirst(l.now)
	}
	return nil
}

// take collects what a call of the machine asked for. What was collected before
// is written first if both together are more than a batch: the log takes no more
// at once than a segment holds.
func (s *shard) take(l *live, out Out) error {
	if !l.writer.fits(out.Records) {
		if err := s.flush(l); err != nil {
			return err
		}
	}
	l.writer.add(out.Records, out.Txn)
	for _, t := range out.Timers {
		l.timers.set(t)
	}
	for _, r := range out.Replies {
		if c := l.waits(r.To); c != nil {
			l.out = append(l.out, outgoing{call: c, body: r.Body})
		}
	}
	for _, e := range out.Effects {
		l.out = append(l.out, outgoing{effect: e})
	}
	return nil
}

// waits takes out who waits under a token; nil: nobody, or not any more.
func (l *live) waits(to Token) (c *call) {
	if to == l.asked.token {
		c, l.asked.call = l.asked.call, nil
		return c
	}
	c = l.calls[to]
	delete(l.calls, to)
	return c
}

// flush writes what the run has brought, and lets its replies out or parks them.
func (s *shard) flush(l *live) error {
	if err := s.append(l); err != nil {
		return err
	}
	if len(l.out) > 0 && !s.park(l, l.mark() >= l.written) {
		s.deliver(l.out)
		l.out = l.out[:0]
	}
	return nil
}

// append writes the run's records: at once, but for a step that is larger than
// what goes into one append. In a later term none is written: what was decided on
// a state from before it would come into the state that is loaded for it.
func (s *shard) append(l *live) error {
	appends, records, err := l.writer.finish()
	if err != nil || records == 0 {
		return err
	}
	for _, buf := range appends {
		o := replica.AppendOpts{Acks: -1, Origin: storage.FromCoordinator, AllowZstd: true, Term: &l.term.epoch}
		res, err := l.part.Append(l.now, buf, o)
		if err != nil {
			return err
		}
		l.written = res.Last + 1
		s.r.cfg.Metrics.appends.Inc()
	}
	l.writer.reset(l.now)
	s.r.cfg.Metrics.records.Add(float64(records))
	return nil
}

func (l *live) leads() bool {
	epoch, leads := l.part.Leading()
	return leads && epoch == l.term.epoch
}

// mark is the high watermark, as far as it is known to be one of the machine's
// term; else -1. It is read before the term is looked at: in a later term,
// another leader's records may have lifted it (safety 5).
func (l *live) mark() int64 {
	hw := l.part.HighWatermark()
	if !l.leads() {
		return -1
	}
	return hw
}
