// Package await lets goroutines wait for an offset to be reached: Apache Kafka's
// purgatory, for callers that may block. A waiter is the goroutine that asked; there
// is no other, no timer but its context's, and no sweep.
//
// Everything is bound to a term (safety 5): a wait names the term it was begun in, and
// the end of that term decides it, before another term's progress could. The verdict
// falls under the caller's lock, in Advance or Fail; the wake-ups that follow from it
// are handed back and run once that lock is released, so that nobody wakes up only to
// queue for it:
//
//	p.mu.Lock()
//	wake := p.acks.Advance(highWatermark)
//	p.mu.Unlock()
//	wake.Run()
//
// Offsets has a small lock of its own, so its methods may be called from any
// goroutine, with or without the caller's lock; nothing is called under it.
package await

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrTerm is the verdict on a wait for a term that is not the current one.
var ErrTerm = errors.New("another term")

// Offsets holds the waits on one position that only grows within a term. The zero
// value has no term: every wait fails with ErrTerm.
type Offsets struct {
	mu      sync.Mutex
	open    bool
	term    int32
	at      int64
	err     error     // verdict on waits for a term that is over
	waiting []*waiter // a heap by offset: the next to be reached first
}

type waiter struct {
	offset  int64
	index   int // in the heap; -1: decided
	verdict error
	woken   chan struct{} // closed behind the verdict
}

// Wakes are decided waits whose goroutines are still asleep. Run must be called
// exactly once, after the caller's lock is released; the zero value has none.
type Wakes struct{ list []*waiter }

// Run wakes them. It does not block.
func (w Wakes) Run() {
	for _, x := range w.list {
		close(x.woken)
	}
}

// Join appends another set, for callers that decide several things under one lock.
func (w *Wakes) Join(o Wakes) { w.list = append(w.list, o.list...) }

// Begin opens a term at a position. Waits for another term that nobody has failed
// fail with ErrTerm.
func (o *Offsets) Begin(term int32, at int64) Wakes {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.failAll(fmt.Errorf("%w: %d is over", ErrTerm, o.term))
	o.open, o.term, o.at, o.err = true, term, at, nil
	return w
}

// Advance raises the position of the open term; waits for offsets at or below it
// succeed. A lower position changes nothing.
func (o *Offsets) Advance(at int64) (w Wakes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open || at <= o.at {
		return w
	}
	o.at = at
	for len(o.waiting) > 0 && o.waiting[0].offset <= at {
		w.list = append(w.list, o.remove(0))
	}
	return w
}

// Fail ends a term: its waits, and those that come later, fail with err. Another
// term than the open one is over already, and nothing happens.
func (o *Offsets) Fail(term int32, err error) (w Wakes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open || term != o.term {
		return w
	}
	o.open, o.err = false, err
	return o.failAll(err)
}

// Wait blocks until the position of term is at offset or above: nil; or the term ends:
// Fail's error, or ErrTerm; or ctx ends: its error. A verdict that fell before the
// context's end is kept. Never call it holding a lock.
func (o *Offsets) Wait(ctx context.Context, term int32, offset int64) error {
	o.mu.Lock()
	if term != o.term || !o.open {
		err := o.err
		if err == nil || term != o.term {
			err = fmt.Errorf("%w: %d", ErrTerm, term)
		}
		o.mu.Unlock()
		return err
	}
	if offset <= o.at {
		o.mu.Unlock()
		return nil
	}
	w := &waiter{offset: offset, woken: make(chan struct{})}
	o.push(w)
	o.mu.Unlock()

	select {
	case <-w.woken:
	case <-ctx.Done():
		o.mu.Lock()
		if w.index >= 0 {
			o.remove(w.index)
			w.verdict = ctx.Err()
		}
		o.mu.Unlock()
	}
	return w.verdict
}

// Len is the number of waits that are undecided.
func (o *Offsets) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting)
}

func (o *Offsets) failAll(err error) (w Wakes) {
	w.list, o.waiting = o.waiting, nil
	for _, x := range w.list {
		x.index, x.verdict = -1, err
	}
	return w
}

// The heap is written out: container/heap would box every waiter's position.

func (o *Offsets) push(w *waiter) {
	w.index = len(o.waiting)
	o.waiting = append(o.waiting, w)
	o.up(w.index)
}

func (o *Offsets) remove(i int) *waiter {
	w, last := o.waiting[i], len(o.waiting)-1
	o.swap(i, last)
	o.waiting[last] = nil
	o.waiting = o.waiting[:last]
	if i < last {
		o.down(i)
		o.up(i)
	}
	w.index = -1
	return w
}

func (o *Offsets) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if o.waiting[parent].offset <= o.waiting[i].offset {
			return
		}
		o.swap(i, parent)
		i = parent
	}
}

func (o *Offsets) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(o.waiting); c++ {
			if o.waiting[c].offset < o.waiting[least].offset {
				least = c
			}
		}
		if least == i {
			return
		}
		o.swap(i, least)
		i = least
	}
}

func (o *Offsets) swap(i, j int) {
	o.waiting[i], o.waiting[j] = o.waiting[j], o.waiting[i]
	o.waiting[i].index, o.waiting[j].index = i, j
}
