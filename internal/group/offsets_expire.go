package group

import (
	"time"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// An offset expires (KIP-211) offsets.retention.minutes after its group became
// empty, where that is known; else after its commit. Topics that members read
// keep theirs. OffsetCommit v2-v4 may set the time itself. A group without
// members goes with its last offset. Moments are rounded up to multiples of
// offsets.retention.check.interval.ms, so that what expires together is
// written together.

// clock watches the wall clock, which ages are counted by (safety 26).
type clock struct {
	seen   time.Time // the last look at both of its readings
	paused time.Time // nothing expires before
}

// ClockJumped is an effect: the wall clock moved against the monotonic one, by
// more than an hour, and nothing expires for one interval. To be logged.
type ClockJumped struct{ By time.Duration }

func (c ClockJumped) String() string {
	return "the wall clock moved by " + c.By.String() + " against the monotonic one: no offset expires for one interval"
}

const clockTolerance = time.Hour

// clockPaused compares the clocks, and says whether expiry is paused.
func (s *step) clockPaused() bool {
	if by := jump(s.clock.seen, s.now); by.Abs() > clockTolerance {
		s.clock.paused = s.now.Add(s.cfg.OffsetsRetentionCheck)
		s.out.Effects = append(s.out.Effects, coord.Effect(ClockJumped{by}))
	}
	s.clock.seen = s.now
	return s.now.Before(s.clock.paused)
}

// jump is how far the wall clock moved against the monotonic one.
func jump(from, to time.Time) time.Duration {
	if from.IsZero() {
		return 0
	}
	return to.Round(0).Sub(from.Round(0)) - to.Sub(from)
}

// lookAt has a group looked at as soon as a wall time has passed, unless it is
// before that already.
func (s *step) lookAt(g *Group, ms int64) {
	const far = 365 * 24 * int64(time.Hour/time.Millisecond) // a time.Duration ends
	nowMs, every := s.now.UnixMilli(), max(s.cfg.OffsetsRetentionCheck.Milliseconds(), 1)
	ms = min(max(ms, nowMs), nowMs+far)
	if over := ms % every; over > 0 {
		ms += every - over
	}
	if g.offsets.alarmMs != 0 && g.offsets.alarmMs <= ms {
		return
	}
	g.offsets.alarmMs = ms
	s.timer(timerOffsets, g.id, "", s.now.Add(time.Duration(ms-nowMs)*time.Millisecond))
}

// review has a group looked at when the step is through: its membership
// changed, or offsets went.
func (s *step) review(id string) {
	if n := len(s.reviewed); n == 0 || s.reviewed[n-1] != id {
		s.reviewed = append(s.reviewed, id)
	}
}

// settle is the end of a step. Members that left, or read other topics, may
// let offsets expire that are old already.
func (s *step) settle() {
	for _, id := range s.reviewed {
		switch g := s.lookup(id); {
		case g == nil:
			s.cancel(timerOffsets, id, "")
		case g.offsets.count() > 0 || deserted(g):
			s.lookAt(g, s.now.UnixMilli()+1)
		}
	}
}

// deserted says that a group has neither members nor offsets.
func deserted(g *Group) bool {
	return g.offsets.empty() && g.members != nil && g.members.state() == stateEmpty
}

// offsetsDue looks at a group's offsets.
func (s *step) offsetsDue(id string) {
	g := s.lookup(id)
	if g == nil {
		return
	}
	g.offsets.alarmMs = 0
	if s.clockPaused() {
		s.lookAt(g, s.now.UnixMilli()+s.clock.paused.Sub(s.now).Milliseconds()+1)
		return
	}
	var more bool
	if g.offsets.firstMs, more = s.expire(g); more {
		g.offsets.alarmMs = s.now.UnixMilli()
		s.timer(timerOffsets, id, "", s.now)
		return
	}
	if deserted(g) {
		g.members.remove(s)
	}
	if g = s.lookup(id); g != nil && g.offsets.firstMs != 0 {
		s.lookAt(g, g.offsets.firstMs)
	}
}

// expire removes what has expired, and gives the wall time at which to look
// again, 0 for never: what members keep waits until they change. more says that
// the step has written enough, and something is left.
func (s *step) expire(g *Group) (nextMs int64, more bool) {
	nowMs, emptyMs := s.now.UnixMilli(), int64(-1)
	later := func(ms int64) {
		if nextMs == 0 || ms < nextMs {
			nextMs = ms
		}
	}
	if g.members != nil {
		emptyMs = g.members.emptySinceMs()
		// While a classic group rebalances, nobody knows what it will read.
		if st := g.members.state(); g.members.typ() == typeClassic && st != stateEmpty && st != stateStable {
			later(nowMs + 1)
			return nextMs, false
		}
	}
	var t *topic
	var kept bool
	for _, at := range s.committed.byTopic(g.offsets.places(false)) {
		if now := s.committed.at(at); now != t {
			t, kept = now, g.members != nil && g.members.subscribes(now.name)
		}
		v, _ := g.offsets.get(t, partitionOf(at))
		base := v.CommitMs
		if emptyMs >= 0 {
			base = emptyMs
		}
		switch first := s.expiry(&v, base); {
		case kept:
		case first > nowMs:
			later(first)
		case g.offsets.open[at] != nil: // until its transaction ends
			later(nowMs + 1)
		case s.enough():
			later(nowMs + 1)
			return nextMs, true
		default:
			s.removePlace(g, at)
		}
	}
	if len(g.offsets.open) > 0 {
		later(nowMs + 1)
	}
	return nextMs, false
}
