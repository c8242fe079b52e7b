package server

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A handler that waits holds a goroutine, its stack and a timer, and another
// goroutine reads. Where thousands of requests wait, most of them for nothing,
// that is most of what they cost: Sleep is for those.

// The states of a call that may sleep.
const (
	callRuns   int32 = iota // its handler does, or again
	callWoken               // so it does, and has a reason to run once more
	callSleeps              // no goroutine is at it
	callDone                // again was called for the last time
)

// Sleep lets the handler return while the answer is to come. The request holds its
// turn meanwhile, its frame is released, and it takes no goroutine. again runs when
// Wake was called since, when wait has passed, or when ctx has ended: never twice
// at once, and the last time when it returns true, when over says that the wait has
// passed, or when ctx has ended. Then the response that the handler was given is
// sent, or what again said in its place. again must not wait for anybody; a handler that
// returns an error does not sleep, and one that calls Next does not either.
//
// Waits of one length end together, late by less than a 64th: see grid.
func (r *Request) Sleep(wait time.Duration, again func(over bool) (done bool)) {
	r.call.wait, r.call.again = wait, again
}

// Wake has again run, in a goroutine of the server's. Any goroutine may call it at
// any time, also before Sleep and after the answer; it does not block.
func (r *Request) Wake() {
	if k := r.call; k.wake() {
		go k.resume()
	}
}

// Hasten ends the wait of a request that sleeps, or is about to, when another has
// passed from now on. Only again may call it.
func (r *Request) Hasten(wait time.Duration) {
	k := r.call
	k.c.srv.alarms.drop(k)
	k.wait = wait
	k.c.srv.alarms.set(k)
}

// wake notes a reason to run again; true: nobody runs, and the caller must see to it.
func (k *call) wake() bool {
	for {
		switch k.state.Load() {
		case callRuns:
			if k.state.CompareAndSwap(callRuns, callWoken) {
				return false
			}
		case callSleeps:
			if k.state.CompareAndSwap(callSleeps, callRuns) {
				return true
			}
		default:
			return false
		}
	}
}

// sleep is for a handler that has returned; true means that the call is no more its
// goroutine's, which must not touch it.
func (c *conn) sleep(k *call, resp kmsg.Response) (left bool, err error) {
	k.resp = resp
	k.releaseFrame()
	c.srv.wg.Add(1) // the call's
	c.mu.Lock()
	c.sleeper = k
	c.mu.Unlock()
	c.srv.alarms.set(k)
	if c.ctx.Err() != nil { // hurry may have been before
		k.wake()
	}
	if k.state.CompareAndSwap(callRuns, callSleeps) {
		return true, nil
	}
	done, err := c.goOn(k)
	if !done {
		return true, nil
	}
	c.srv.wg.Done()
	return false, err
}

// goOn runs again until the call is answered, or sleeps once more.
func (c *conn) goOn(k *call) (done bool, err error) {
	for {
		k.state.Store(callRuns)
		over, ended := k.over.Load(), c.ctx.Err() != nil
		done, err = c.runAgain(k, over)
		if done || over || ended {
			break
		}
		if k.state.CompareAndSwap(callRuns, callSleeps) {
			return false, nil
		}
	}
	k.state.Store(callDone)
	c.srv.alarms.drop(k)
	c.mu.Lock()
	c.sleeper = nil
	c.mu.Unlock()
	return true, err
}

func (c *conn) runAgain(k *call, over bool) (done bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			done, err = true, c.panicked(k, p)
		}
	}()
	return k.again(over), nil
}

// panicked reports what a handler panicked with.
func (c *conn) panicked(k *call, p any) error {
	c.srv.met.fault(faultPanic)
	c.srv.logs.panicked.Error(c.srv.log, "handler panicked, connection closed",
		"api", kmsg.NameForKey(k.Key), "version", k.Version, "remote", c.info.Remote, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return errPanic
}

// hurry has a call that sleeps see that its context has ended.
func (c *conn) hurry() {
	c.mu.Lock()
	k := c.sleeper
	c.mu.Unlock()
	if k != nil {
		k.Wake()
	}
}

// resume goes on with a call that slept, and with whatever of its connection
// is left to do after it.
func (k *call) resume() {
	growForHandling()
	c := k.c
	done, err := c.goOn(k)
	if !done {
		return
	}
	c.complete(k, k.resp, err)
	c.pass()
}

// resumeShort is resume for a goroutine that has other calls to see to: it is not
// held up by a peer, nor by what the connection does next.
func (k *call) resumeShort() {
	c := k.c
	if c.raw == nil {
		go k.resume()
		return
	}
	done, err := c.goOn(k)
	if !done {
		return
	}
	c.encode(k, k.resp, err)
	if c.tryAnswer(k) {
		c.finish(k)
		c.pass()
		return
	}
	go func() {
		c.finish(k)
		c.pass()
	}()
}

// pass hands the turn of a call that slept on, and its place in the server's
// wait group with it.
func (c *conn) pass() {
	if n, read := c.takeNext(); n != nil || read {
		go c.work(n)
		return
	}
	c.srv.wg.Done()
}

// tryAnswer writes the answer of a call whose turn it is, as far as the socket takes
// it at once; finish sends the rest. True when all is written.
func (c *conn) tryAnswer(k *call) bool {
	c.mu.Lock()
	mine := c.head == k && !c.writing && !c.isDead
	c.writing = c.writing || mine
	c.mu.Unlock()
	if !mine {
		return false
	}
	all := false
	if k.answer != nil && !k.scattered && !k.hangUp && len(k.answer.B) <= copySmall {
		k.sent = c.out.tryWrite(c, k.answer.B)
		c.srv.met.bytesOut.Add(float64(k.sent))
		all = k.sent == len(k.answer.B)
	}
	c.mu.Lock()
	c.writing = false
	c.mu.Unlock()
	return all
}
