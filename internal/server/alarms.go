package server

import (
	"math/bits"
	"sync"
	"time"
)

// alarms end the waits of calls that sleep. Those that end at one time share a timer
// and a goroutine: an idle process is woken for all of them at once, and each
// waking of its own costs more than an answer that says nothing.
type alarms struct {
	born time.Time

	mu sync.Mutex
	at map[time.Duration]*alarm // by the time since born
}

type alarm struct {
	at    time.Duration
	timer *time.Timer
	calls []*call // alarms.mu guards it, and alarm and place of its calls
}

// atOnce is how many calls one goroutine ends: a crowd that waits in step does not
// wait for one core.
const atOnce = 64

func newAlarms(born time.Time) *alarms {
	return &alarms{born: born, at: make(map[time.Duration]*alarm)}
}

// grid stretches a wait that begins at now by less than a 64th, to where others of
// its length end too.
func grid(now, wait time.Duration) (end time.Duration) {
	step := time.Duration(1) << max(bits.Len64(uint64(wait/64))-1, 0)
	return (now + wait + step - 1) &^ (step - 1)
}

func (a *alarms) set(k *call) {
	now := time.Since(a.born)
	end := grid(now, max(k.wait, 0))
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.at[end]
	if m == nil {
		m = &alarm{at: end}
		a.at[end] = m
		m.timer = time.AfterFunc(end-now, func() { a.ring(m) })
	}
	k.alarm, k.place = m, len(m.calls)
	m.calls = append(m.calls, k)
}

// drop forgets a call that is answered before its time.
func (a *alarms) drop(k *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := k.alarm
	if m == nil {
		return
	}
	last := len(m.calls) - 1
	m.calls[k.place] = m.calls[last]
	m.calls[k.place].place = k.place
	m.calls[last], m.calls, k.alarm = nil, m.calls[:last], nil
	if last == 0 {
		m.timer.Stop()
		delete(a.at, m.at)
	}
}

// ring ends the waits of an alarm.
func (a *alarms) ring(m *alarm) {
	a.mu.Lock()
	calls := m.calls
	m.calls = nil
	for _, k := range calls {
		k.alarm = nil
	}
	if a.at[m.at] == m {
		delete(a.at, m.at)
	}
	a.mu.Unlock()
	for len(calls) > atOnce {
		go expire(calls[:atOnce])
		calls = calls[atOnce:]
	}
	expire(calls)
}

func expire(calls []*call) {
	growForHandling()
	for _, k := range calls {
		k.over.Store(true)
		if k.wake() {
			k.resumeShort()
		}
	}
}
