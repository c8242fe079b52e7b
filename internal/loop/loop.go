// Package loop runs work by key: many keys on a few goroutines, and never two
// runs of one key at once. A key holds no queue of its own; its owner keeps what
// is to be done, and wakes the key when there is something:
//
//	k := e.Key(func() { for _, x := range s.takeAll() { s.handle(x) } })
//	s.put(x); k.Wake()
//
// So everything that came while a run was under way is seen by the next run
// together. Keys that are woken wait in one line, each at most once in it: a busy
// key cannot starve another.
package loop

import (
	"context"
	"sync"
)

// Executor runs keys. Its methods may be called from any goroutine.
type Executor struct {
	workers int

	mu          sync.Mutex
	some        sync.Cond
	first, last *Key // the line
	here        int  // runs on goroutines of callers
	ended       bool
}

// New makes an executor of so many workers; Run starts them.
func New(workers int) *Executor {
	e := &Executor{workers: max(workers, 1)}
	e.some.L = &e.mu
	return e
}

// Key is one serial strand of work.
type Key struct {
	e   *Executor
	run func()

	// Under e.mu.
	next    *Key // in the line
	queued  bool // in the line
	running bool
	again   bool // woken while running
}

// Key makes a key whose work is run.
func (e *Executor) Key(run func()) *Key { return &Key{e: e, run: run} }

// Wake has the key run after this call, once however often it is called before
// that run begins. It never blocks. After the end of Run it does nothing.
func (k *Key) Wake() {
	k.e.mu.Lock()
	defer k.e.mu.Unlock()
	switch {
	case k.running:
		k.again = true
	case !k.queued:
		k.e.push(k)
		k.e.some.Signal()
	}
}

// Here is Wake for a caller that will wait for what the run does: an idle key
// runs at once, on the caller's goroutine, which spares it a change of
// goroutines. The caller may get to do others' work too: what one run takes.
func (k *Key) Here() {
	e := k.e
	e.mu.Lock()
	switch {
	case e.ended || k.queued:
		e.mu.Unlock()
		return
	case k.running:
		k.again = true
		e.mu.Unlock()
		return
	}
	k.running, k.again = true, false
	e.here++
	e.mu.Unlock()

	k.run()

	e.mu.Lock()
	defer e.mu.Unlock()
	k.running = false
	if k.again {
		e.push(k)
		e.some.Signal()
	}
	if e.here--; e.here == 0 && e.ended {
		e.some.Broadcast()
	}
}

// push puts k in the line; e.mu is held.
func (e *Executor) push(k *Key) {
	if e.ended {
		return
	}
	k.queued = true
	if e.last == nil {
		e.first = k
	} else {
		e.last.next = k
	}
	e.last = k
}

// take waits for the first of the line; nil at the end.
func (e *Executor) take() *Key {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.first == nil {
		if e.ended {
			return nil
		}
		e.some.Wait()
	}
	k := e.first
	if e.first, k.next = k.next, nil; e.first == nil {
		e.last = nil
	}
	k.queued, k.running, k.again = false, true, false
	return k
}

// ran puts k in the line again if it was woken meanwhile. Its worker goes to
// the line next, so nobody is called.
func (e *Executor) ran(k *Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k.running = false
	if k.again {
		e.push(k)
	}
}

// Run works until ctx ends, then lets the runs under way finish. Keys that still
// wait in the line are not run.
func (e *Executor) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ended, e.first, e.last = true, nil, nil
		e.some.Broadcast()
	})
	defer stop()
	var wg sync.WaitGroup
	for range e.workers {
		wg.Go(e.work)
	}
	wg.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.here > 0 {
		e.some.Wait()
	}
	return nil
}

func (e *Executor) work() {
	for {
		k := e.take()
		if k == nil {
			return
		}
		k.run()
		e.ran(k)
	}
}
