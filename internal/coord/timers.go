package coord

import (
	"container/heap"
	"time"
)

// timers are those of one machine: a heap by time, and one alarm for the first
// of them. It belongs to the run of the key.
type timers struct {
	heap  timerHeap
	byKey map[TimerKey]*timer
	alarm *time.Timer
	armed time.Time // what the alarm is set for; zero: not set
	wake  func()
	round int // of firing
}

type timer struct {
	Timer
	index int
	round int // in which it was set
}

func newTimers(wake func()) timers {
	return timers{byKey: map[TimerKey]*timer{}, wake: wake}
}

// set sets, replaces or cancels a timer.
func (t *timers) set(x Timer) {
	e := t.byKey[x.Key]
	switch {
	case e == nil && !x.At.IsZero():
		e = &timer{Timer: x, round: t.round}
		t.byKey[x.Key] = e
		heap.Push(&t.heap, e)
	case e != nil && x.At.IsZero():
		heap.Remove(&t.heap, e.index)
		delete(t.byKey, x.Key)
	case e != nil:
		e.At, e.round = x.At, t.round
		heap.Fix(&t.heap, e.index)
	}
}

// due says whether the first timer is due.
func (t *timers) due(now time.Time) bool { return len(t.heap) > 0 && !t.heap[0].At.After(now) }

// next takes the first timer if it is due, unless it was set in this round: a
// machine that sets a timer for now wants others to have their turn.
func (t *timers) next(now time.Time) (key TimerKey, due bool) {
	if !t.due(now) || t.heap[0].round == t.round {
		return key, false
	}
	e := heap.Pop(&t.heap).(*timer)
	delete(t.byKey, e.Key)
	return e.Key, true
}

// armFirst sets the alarm for the first timer.
func (t *timers) armFirst(now time.Time) {
	if len(t.heap) > 0 { // else an alarm that is set finds nothing
		t.arm(now, t.heap[0].At)
	}
}

// arm sets the alarm.
func (t *timers) arm(now, at time.Time) {
	if t.armed.After(now) && !t.armed.After(at) {
		return // it goes off before, and is set again then
	}
	d := max(at.Sub(now), 0)
	t.armed = now.Add(d) // has now's monotonic reading, whatever at has
	if t.alarm == nil {
		t.alarm = time.AfterFunc(d, t.wake)
		return
	}
	t.alarm.Reset(d)
}

// stop silences the alarm.
func (t *timers) stop() {
	if t.alarm != nil {
		t.alarm.Stop()
	}
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].At.Before(h[j].At) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	e := x.(*timer)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *timerHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
