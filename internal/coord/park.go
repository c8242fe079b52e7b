package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// outgoing is a reply or an effect that is not out yet.
type outgoing struct {
	call   *call
	body   any
	effect Effect
}

// deliver lets replies and effects out. Each is forgotten first: nobody is
// answered again by whoever cleans up after an effect that panics.
func (s *shard) deliver(out []outgoing) {
	for i, o := range out {
		out[i] = outgoing{}
		if o.call != nil {
			o.call.done <- answer{body: o.body}
			continue
		}
		s.r.cfg.Effect(s.id, o.effect)
	}
}

// parking holds what waits for the high watermark, in the order of the
// offsets. It is guarded by its shard's mutex.
type parking struct {
	lots      []lot
	releasing bool       // a goroutine waits for the first lot, or lets some out
	passed    []lot      // those that it lets out
	spare     []outgoing // for the next run
}

// lot is what one append, or a run without one, brought.
type lot struct {
	offset int64 // the high watermark has to get here
	out    []outgoing
	until  time.Time // who waits is told to try again then; zero: never
}

// expire tells all who wait in lots that are due to try again.
func (p *parking) expire(now time.Time) {
	for i := range p.lots {
		l := &p.lots[i]
		if l.until.IsZero() || l.until.After(now) {
			return // a later one is due later
		}
		for j, o := range l.out {
			if o.call != nil {
				o.call.fail(fmt.Errorf("%w: not committed in time", kerr.CoordinatorNotAvailable))
				l.out[j].call, l.out[j].body = nil, nil
			}
		}
		l.out = slices.DeleteFunc(l.out, func(o outgoing) bool { return o.effect == nil })
		l.until = time.Time{}
	}
}

func (p *parking) fail(err error) {
	for _, l := range p.lots {
		for _, o := range l.out {
			o.call.fail(err)
		}
	}
	p.lots = nil
}

// park holds the run's replies back until all that was written is committed. It
// is false where that is so already and nothing is on its way out before them.
func (s *shard) park(l *live, committed bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live != l {
		return true // dropped meanwhile: the run fails them
	}
	if committed && !s.parked.releasing {
		return false
	}
	x := lot{offset: l.written, out: l.out}
	if t := s.r.cfg.CommitTimeout; t > 0 {
		x.until = l.now.Add(t)
	}
	s.parked.lots = append(s.parked.lots, x)
	l.out, s.parked.spare = s.parked.spare, nil
	if !s.parked.releasing {
		s.parked.releasing = true
		s.r.wg.Go(func() { s.release(l) })
	}
	return true
}

// release lets lots out as the high watermark passes them. One goroutine does
// it while there are any.
func (s *shard) release(l *live) {
	for {
		next, ctx, more := s.nextLot(l)
		if !more {
			return
		}
		offset := next.offset
		err := s.await(ctx, l, next)
		if errors.Is(err, context.DeadlineExceeded) {
			s.expire(l)
			continue
		}
		// The mark moves only while enough replicas are in sync. That they became
		// fewer behind it changes nothing of what is committed (safety 8).
		if err != nil && !errors.Is(err, kerr.NotEnoughReplicasAfterAppend) {
			if !errors.Is(err, context.Canceled) {
				s.failed(l.term, err)
			}
			s.released()
			return
		}
		for _, x := range s.passed(max(offset, l.mark())) {
			s.deliver(x.out)
		}
	}
}

// await waits until a lot is committed, or due.
func (s *shard) await(ctx context.Context, l *live, x lot) error {
	if !x.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, x.until)
		defer cancel()
	}
	return l.part.AwaitCommitted(ctx, l.term.epoch, x.offset)
}

func (s *shard) expire(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == l {
		s.parked.expire(time.Now())
	}
}

// nextLot is what the release waits for next; without one it is over.
func (s *shard) nextLot(l *live) (next lot, ctx context.Context, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.parked.passed); n > 0 {
		s.parked.spare = s.parked.passed[n-1].out[:0]
		clear(s.parked.passed)
		s.parked.passed = s.parked.passed[:0]
	}
	if s.live != l || len(s.parked.lots) == 0 {
		s.parked.releasing = false
		s.quiet.Broadcast()
		return lot{}, nil, false
	}
	return s.parked.lots[0], s.ctx, true
}

func (s *shard) released() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked.releasing = false
	s.quiet.Broadcast()
}

// passed takes the lots up to an offset. A term that ended has none.
func (s *shard) passed(offset int64) []lot {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, n := &s.parked, 0
	for n < len(p.lots) && p.lots[n].offset <= offset {
		n++
	}
	p.passed = append(p.passed, p.lots[:n]...)
	p.lots = slices.Delete(p.lots, 0, n)
	return p.passed
}
