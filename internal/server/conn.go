package server

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// Reasons of a context's end, for context.Cause in handlers.
var (
	// ErrHungUp ends the context of a connection whose peer left.
	ErrHungUp = errors.New("the peer closed the connection")
	// ErrStopping ends the contexts of a server that stops.
	ErrStopping = errors.New("the server is stopping")

	errPanic = errors.New("a handler panicked")
)

// conn is one connection. doc.go draws the way of a request through it.
type conn struct {
	srv    *Server
	l      *listener
	nc     net.Conn
	raw    syscall.RawConn // nil unless a bare TCP connection
	info   Conn
	ctx    context.Context
	cancel context.CancelCauseFunc
	hctx   handlerCtx // ctx, for handlers

	in  reader // owned by whichever goroutine reads
	out writer // owned by whichever goroutine writes

	lastClient string // the reader's: client ids seldom change

	lastActive atomic.Int64  // nanoseconds since srv.born, of the last frame or answer
	quit       chan struct{} // closed: read no more frames
	dead       chan struct{} // closed with the socket
	room       chan struct{} // signal: pending was taken
	slotFree   chan struct{} // signal: a slot became free

	mu         sync.Mutex
	pending    *call // one frame ahead; only while running
	running    bool  // someone holds the turn
	reading    bool  // someone reads, or nobody ever will again
	writing    bool
	closing    bool // no more frames come; close when all is answered
	doomed     bool // nothing further is started, pending included
	isDead     bool
	quitted    bool
	head, tail *call // slots, oldest first
	slots      int
	sleeper    *call // holds the turn without a goroutine (Request.Sleep)
	mutedUntil time.Time
}

// call is a request on its way. Before it is in a slot it belongs to the reader;
// afterwards to its handler, except finished and after, which conn.mu guards.
type call struct {
	Request
	c     *conn
	entry *Entry // nil: an ApiVersions version that is not served (answered by the server itself)
	body  []byte
	frame *wire.Buffer
	claim claim

	passed    bool // the turn went on
	silent    bool
	hangUp    bool
	scattered bool
	throttle  time.Duration
	parts     []wire.Part
	done      func()
	answer    *wire.Buffer
	sent      int // bytes of answer that are written already

	finished bool
	after    *call

	// Of a call that sleeps.
	state atomic.Int32
	over  atomic.Bool // its wait has passed
	wait  time.Duration
	again func(over bool) bool
	resp  kmsg.Response
	alarm *alarm
	place int // in alarm
}

// readOn reads frames until one may run at once: nobody reads then, until the handler
// is done, hands the turn on, or waits (handlerCtx). nil: no frame will follow.
func (c *conn) readOn() *call {
	for {
		if !c.awaitRoom() {
			c.readEnded(nil)
			return nil
		}
		k, err := c.readCall()
		if err != nil {
			c.readEnded(err)
			return nil
		}
		switch c.admit(k) {
		case runNow:
			return k
		case dropped:
			k.releaseFrame()
			c.readEnded(nil)
			return nil
		case parked:
		}
	}
}

// handlerCtx is the context that handlers see. A handler that waits asks for Done, and
// that is when someone must read on and watch for a hang-up: requests that never wait
// cost no second goroutine.
type handlerCtx struct {
	context.Context
	c *conn
}

func (h *handlerCtx) Done() <-chan struct{} {
	h.c.watch()
	return h.Context.Done()
}

// watch starts a reader unless there is one. While a request runs its goroutine is in
// the server's wait group, so another may be added.
func (c *conn) watch() {
	c.mu.Lock()
	start := c.running && !c.reading && !c.closing
	if start {
		c.reading = true
		c.srv.wg.Add(1)
	}
	c.mu.Unlock()
	if start {
		go c.work(nil)
	}
}

// awaitRoom waits until no frame is parked ahead of the turn.
func (c *conn) awaitRoom() bool {
	for {
		c.mu.Lock()
		free, gone := c.pending == nil, c.quitted
		c.mu.Unlock()
		if gone {
			return false
		}
		if free {
			return true
		}
		select {
		case <-c.room:
		case <-c.quit:
		}
	}
}

type admission int

const (
	runNow admission = iota
	parked
	dropped
)

func (c *conn) admit(k *call) admission {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.doomed || c.isDead:
		return dropped
	case !c.running:
		c.running, c.reading = true, false
		return runNow
	default:
		c.pending = k
		return parked
	}
}

// runLoop handles k and what is parked behind it, while it holds the turn. True means
// that reading falls to the caller.
func (c *conn) runLoop(k *call) (read bool) {
	for k != nil {
		if !c.takeSlot(k) {
			k.releaseFrame()
		} else if left := c.handle(k); left {
			return c.readNext()
		} else if k.passed {
			return false
		}
		k, read = c.takeNext()
	}
	return read
}

// takeSlot waits for a free slot and for the end of a throttle, and puts k last in
// the order of answers. False when the connection died first.
func (c *conn) takeSlot(k *call) bool {
	c.mu.Lock()
	for {
		if c.isDead || c.doomed {
			c.mu.Unlock()
			return false
		}
		wait := time.Duration(0)
		if !c.mutedUntil.IsZero() {
			if wait = time.Until(c.mutedUntil); wait <= 0 {
				c.mutedUntil = time.Time{}
			}
		}
		if wait <= 0 && c.slots < c.srv.cfg.SlotsPerConnection {
			break
		}
		c.mu.Unlock()
		c.holdTurn(wait)
		c.mu.Lock()
	}
	if c.tail == nil {
		c.head = k
	} else {
		c.tail.after = k
	}
	c.tail = k
	c.slots++
	c.mu.Unlock()
	return true
}

func (c *conn) holdTurn(muted time.Duration) {
	if muted <= 0 {
		select {
		case <-c.slotFree:
		case <-c.dead:
		}
		return
	}
	t := time.NewTimer(muted)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.dead:
	case <-c.ctx.Done(): // nobody left to throttle
		c.mu.Lock()
		c.mutedUntil = time.Time{}
		c.mu.Unlock()
	}
}

// takeNext gives the turn to the parked frame, or lays it down; read means that nobody
// reads, and the caller must.
func (c *conn) takeNext() (k *call, read bool) {
	c.mu.Lock()
	k, c.pending = c.pending, nil
	if k != nil && (c.doomed || c.isDead) {
		k.releaseFrame()
		k = nil
	}
	if k == nil {
		c.running = false
		read = !c.reading && !c.closing
		c.reading = c.reading || read
	}
	end := c.endedLocked()
	c.mu.Unlock()
	signal(c.room)
	if end {
		c.kill(nil)
	}
	return k, read
}

// endedLocked: everything was answered and nothing will follow.
func (c *conn) endedLocked() bool {
	return c.closing && !c.isDead && !c.running && !c.writing && c.head == nil
}

// next hands the turn on while the call goes on (Request.Next).
func (k *call) next() {
	if k.passed {
		return
	}
	k.passed = true
	k.releaseFrame()
	c := k.c
	if n, read := c.takeNext(); n != nil || read {
		c.srv.wg.Add(1)
		go c.work(n)
	}
}

func (k *call) releaseFrame() {
	if k.frame == nil {
		return
	}
	k.frame.Release()
	k.frame, k.body = nil, nil
	k.c.srv.budget.give(&k.claim)
}

// readNext takes up reading behind a call that was left asleep, unless someone reads.
func (c *conn) readNext() (read bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	read = !c.reading && !c.closing
	c.reading = c.reading || read
	return read
}

// handle runs the handler, encodes its answer and sends what can be sent. True when
// the call was left asleep: it may be answered by now, and belongs to others.
func (c *conn) handle(k *call) (left bool) {
	resp, err := c.invoke(k)
	if k.again != nil && err == nil && !k.passed {
		if left, err = c.sleep(k, resp); left {
			return true
		}
	}
	c.complete(k, resp, err)
	return false
}

// complete answers a call that is done.
func (c *conn) complete(k *call, resp kmsg.Response, err error) {
	c.encode(k, resp, err)
	if !k.passed {
		k.releaseFrame()
	}
	c.finish(k)
}

// finish marks the call's slot and writes from the oldest slot on, unless another
// goroutine is at it: that one will see the mark.
func (c *conn) finish(k *call) {
	c.mu.Lock()
	k.finished = true
	if k.hangUp {
		c.doomed = true
	}
	if k.throttle > 0 {
		c.mutedUntil = time.Now().Add(k.throttle)
	}
	if c.writing {
		c.mu.Unlock()
		return
	}
	c.writing = true
	if c.head == k && k.passed && k.after != nil && !k.after.finished {
		// One commit ends the wait of many: those behind are about to run, and their
		// answers go out with this one, in one system call.
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	for c.head != nil && c.head.finished {
		first, last := c.head, c.head
		n := 1
		for last.after != nil && last.after.finished {
			last = last.after
			n++
		}
		c.head = last.after
		if c.head == nil {
			c.tail = nil
		}
		last.after = nil
		live := !c.isDead
		c.mu.Unlock()
		c.send(first, live)
		c.mu.Lock()
		c.slots -= n
		signal(c.slotFree)
	}
	c.writing = false
	end := c.endedLocked()
	c.mu.Unlock()
	if end {
		c.kill(nil)
	}
}

// send writes a chain of finished calls and lets go of what they hold.
func (c *conn) send(first *call, live bool) {
	var err error
	if live {
		err = c.out.writeChain(c, first)
	}
	now := time.Now()
	for k := first; k != nil; k = k.after {
		if k.answer != nil {
			k.answer.Release()
			k.answer = nil
		}
		if k.done != nil {
			k.done()
			k.done = nil
		}
		c.srv.met.answered(k.entry, now.Sub(k.At))
		if k.hangUp && err == nil {
			err = net.ErrClosed
		}
	}
	c.touch(now)
	if err != nil && live {
		c.kill(err)
	}
}

// readEnded: no frame will follow. What runs is told to hurry, what is parked still
// runs, and the connection closes once all is answered.
func (c *conn) readEnded(err error) {
	c.in.release()
	c.mu.Lock()
	c.closing = true
	stopping := c.quitted
	end := c.endedLocked()
	c.mu.Unlock()
	if err != nil && !stopping {
		c.srv.reportRead(c, err)
		c.cancel(ErrHungUp)
		c.hurry()
	}
	if end {
		c.kill(nil)
	}
}

// stopReading makes the reader leave between two frames; requests go on.
func (c *conn) stopReading() {
	c.mu.Lock()
	already := c.quitted
	c.quitted = true
	c.mu.Unlock()
	if !already {
		close(c.quit)
		// Wakes a blocked read; the reader looks at quit after each deadline it sets.
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// kill closes the socket now. Handlers still running find their context ended and
// their answers are dropped.
func (c *conn) kill(err error) {
	c.mu.Lock()
	if c.isDead {
		c.mu.Unlock()
		return
	}
	c.isDead, c.doomed, c.closing = true, true, true
	c.mu.Unlock()
	if err != nil {
		c.srv.reportWrite(c, err)
	}
	c.cancel(ErrHungUp)
	c.hurry()
	close(c.dead)
	c.stopReading()
	_ = c.nc.Close()
	c.srv.forget(c)
}

func (c *conn) touch(now time.Time) { c.lastActive.Store(int64(now.Sub(c.srv.born))) }

func (c *conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running || c.head != nil
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
