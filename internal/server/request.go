package server

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// Conn is what a handler may know of its connection. Handlers of one connection may
// overlap (Request.Next): SoftwareName and SoftwareVersion are written by the
// ApiVersions handler alone, which holds the turn.
type Conn struct {
	ID                            uint64
	Listener                      string // listener name
	Remote, Local                 net.Addr
	SoftwareName, SoftwareVersion string // of ApiVersions

	principal atomic.Pointer[string] // nil until known
	closed    atomic.Pointer[func()]
}

// OnClose has f called when the connection has ended, in place of what was set
// before. f must not block; of a connection that ended meanwhile nothing is told.
func (c *Conn) OnClose(f func()) { c.closed.Store(&f) }

// Authenticated sets who speaks from now on, and lifts the limits that hold
// before (size of frames, keys that may be asked for).
func (c *Conn) Authenticated(principal string) { c.principal.Store(&principal) }

// Request is one request in flight.
type Request struct {
	Conn        *Conn
	Key         int16
	Version     int16
	Correlation int32
	ClientID    string
	Principal   string    // "User:ANONYMOUS" on a listener without authentication
	At          time.Time // arrival

	call *call
}

// Next lets the connection's next request start, and releases the frame and its
// budget: the handler must not touch bytes of the request after it. Strings of the
// request stay valid. A second call does nothing. It costs a goroutine: call it where a
// wait follows, and merely return where none does.
func (r *Request) Next() { r.call.next() }

// Release lets go of the frame and its budget, and the request holds its turn: for a
// handler that waits for other clients, which the budget must not keep out. Bytes of
// the request must not be touched after it; strings stay valid. Another goroutine
// may call it that the handler waits for. A second call does nothing.
func (r *Request) Release() { r.call.releaseFrame() }

// NoAnswer: nothing will be written for this request (acks=0).
func (r *Request) NoAnswer() { r.call.silent = true }

// Disconnect closes the connection instead of answering (acks=0 with an error).
// Answers to earlier requests still go out.
func (r *Request) Disconnect() { r.call.silent, r.call.hangUp = true, true }

// Scatter answers with parts instead of encoding the kmsg response: the body after
// the response header. done is called once, after the bytes went out or will never
// go; it may be nil.
func (r *Request) Scatter(parts []wire.Part, done func()) {
	r.call.parts, r.call.done, r.call.scattered = parts, done, true
}

// Throttle holds the connection's next request back for d after the answer (KIP-219).
func (r *Request) Throttle(d time.Duration) { r.call.throttle = max(r.call.throttle, d) }
