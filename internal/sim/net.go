package sim

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// network is wires between hosts, each known by its name. What is sent arrives
// after a delay and in order; a cut holds it until it is mended, as TCP's
// retransmission does, or the connection is reset by one of its ends. One mutex
// for all: nothing waits under it.
type network struct {
	mu      sync.Mutex
	rng     *rand.Rand
	slowest time.Duration
	hosts   map[string]*host // by name
	changed chan struct{}    // closed, and replaced, when what is reachable changes
}

// host is one end of wires.
type host struct {
	name     string
	listener *listener          // nil: connections are refused
	off      bool               // no power: nothing is answered
	paused   time.Time          // not zero: nothing that came since is taken, nor anything sent since
	from     map[string]bool    // what these send does not arrive
	ends     map[*endpoint]bool // open ones
}

func newNetwork(rng *rand.Rand, slowest time.Duration) *network {
	return &network{rng: rng, slowest: slowest, hosts: map[string]*host{}, changed: make(chan struct{})}
}

// host makes a host or returns it. n.mu is held.
func (n *network) host(name string) *host {
	h := n.hosts[name]
	if h == nil {
		h = &host{name: name, from: map[string]bool{}, ends: map[*endpoint]bool{}}
		n.hosts[name] = h
	}
	return h
}

// change alters what is reachable.
func (n *network) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
	close(n.changed)
	n.changed = make(chan struct{})
}

// cut stops, or lets pass again, what one host sends to another.
func (n *network) cut(from, to string, on bool) {
	n.change(func() {
		if on {
			n.host(to).from[from] = true
		} else {
			delete(n.host(to).from, from)
		}
	})
}

// heal mends every cut.
func (n *network) heal() {
	n.change(func() {
		for _, h := range n.hosts {
			clear(h.from)
		}
	})
}

// pause stops a host as SIGSTOP stops its process: the system beneath takes
// bytes and connections, and nobody reads them.
func (n *network) pause(name string, on bool) {
	n.change(func() {
		h := n.host(name)
		h.paused = time.Time{}
		if on {
			h.paused = time.Now()
		}
	})
}

// reset ends what is open between two hosts, at both ends.
func (n *network) reset(a, b string) {
	n.change(func() {
		for e := range n.host(a).ends {
			if e.peer.host.name == b {
				e.fail(syscall.ECONNRESET)
				e.peer.fail(syscall.ECONNRESET)
			}
		}
	})
}

// die ends all that a process holds. Its peers hear of it, as far as the wires
// allow, unless the power went.
func (n *network) die(name string, powerless bool) {
	n.change(func() {
		h := n.host(name)
		h.paused = time.Time{}
		if h.listener != nil {
			h.listener.closeLocked()
		}
		h.off = powerless
		for e := range h.ends {
			e.fail(net.ErrClosed)
			if !powerless {
				e.out.push(packet{at: n.arrival(), err: syscall.ECONNRESET})
			}
		}
	})
}

// boot gives a host power again: its peers' old connections are answered by resets.
func (n *network) boot(name string) {
	n.change(func() {
		h := n.host(name)
		if !h.off {
			return
		}
		h.off = false
		for _, other := range n.hosts {
			for e := range other.ends {
				if e.peer.host == h && e.peer.broken != nil {
					e.fail(syscall.ECONNRESET)
				}
			}
		}
	})
}

// arrival is when something sent now arrives. n.mu is held.
func (n *network) arrival() time.Time {
	d := n.slowest
	if n.rng.IntN(10) > 0 {
		d /= 10
	}
	return time.Now().Add(time.Duration(1 + n.rng.Int64N(int64(d))))
}

// listen opens a host's one port.
func (n *network) listen(name string) (net.Listener, error) {
	var l *listener
	n.change(func() {
		if h := n.host(name); h.listener == nil {
			l = &listener{n: n, h: h, closed: make(chan struct{}), came: make(chan struct{}, 1)}
			h.listener = l
		}
	})
	if l == nil {
		return nil, &net.OpError{Op: "listen", Net: "sim", Err: syscall.EADDRINUSE}
	}
	return l, nil
}

// dial connects one host to another.
func (n *network) dial(ctx context.Context, from, to string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) { return nil, &net.OpError{Op: "dial", Net: "sim", Err: err} }
	n.mu.Lock()
	there := n.arrival()
	n.mu.Unlock()
	for {
		if err := sleep(ctx, time.Until(there)); err != nil {
			return fail(err)
		}
		n.mu.Lock()
		a, b, changed := n.host(from), n.host(to), n.changed
		if !b.off && !b.from[from] && !a.from[to] && a.paused.IsZero() {
			defer n.mu.Unlock()
			if b.listener == nil {
				return fail(syscall.ECONNREFUSED)
			}
			return b.listener.connect(a), nil
		}
		n.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fail(ctx.Err())
		}
	}
}

// listener is a host's port.
type listener struct {
	n      *network
	h      *host
	closed chan struct{}
	came   chan struct{} // signal: something is in the queue
	queue  []*endpoint   // under n.mu
	done   bool          // under n.mu
}

// connect makes a connection. n.mu is held.
func (l *listener) connect(a *host) *endpoint {
	up, down := newPipe(a, l.h), newPipe(l.h, a)
	ours := &endpoint{n: l.n, host: a, in: down, out: up, gone: make(chan struct{})}
	theirs := &endpoint{n: l.n, host: l.h, in: up, out: down, gone: make(chan struct{})}
	ours.peer, theirs.peer = theirs, ours
	a.ends[ours], l.h.ends[theirs] = true, true
	l.queue = append(l.queue, theirs)
	select {
	case l.came <- struct{}{}:
	default:
	}
	return ours
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.n.mu.Lock()
		changed := l.n.changed
		switch {
		case l.done:
			l.n.mu.Unlock()
			return nil, net.ErrClosed
		case len(l.queue) > 0 && l.h.paused.IsZero():
			e := l.queue[0]
			l.queue = l.queue[1:]
			l.n.mu.Unlock()
			return e, nil
		}
		l.n.mu.Unlock()
		select {
		case <-l.came:
		case <-changed:
		case <-l.closed:
		}
	}
}

func (l *listener) closeLocked() {
	if l.done {
		return
	}
	l.done = true
	close(l.closed)
	if l.h.listener == l {
		l.h.listener = nil
	}
	for _, e := range l.queue { // never accepted
		e.fail(net.ErrClosed)
		e.out.push(packet{at: l.n.arrival(), err: syscall.ECONNRESET})
	}
	l.queue = nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.n.change(l.closeLocked)
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return addrOf(l.h.name) }

type addrOf string

func (addrOf) Network() string  { return "sim" }
func (a addrOf) String() string { return string(a) }

// packet is what was sent at once: bytes, or how the stream ends.
type packet struct {
	sent, at time.Time
	data     []byte
	err      error
}

// pipe is one direction of a connection. The network's mutex guards it.
type pipe struct {
	from, to *host
	queue    []packet
	wake     chan struct{} // signal: for the reader
}

func newPipe(from, to *host) *pipe { return &pipe{from: from, to: to, wake: make(chan struct{}, 1)} }

func (p *pipe) push(k packet) {
	k.sent = time.Now()
	if n := len(p.queue); n > 0 && p.queue[n-1].at.After(k.at) {
		k.at = p.queue[n-1].at
	}
	p.queue = append(p.queue, k)
	p.signal()
}

func (p *pipe) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// held: the first packet does not come through, however long it has been due.
func (p *pipe) held() bool {
	at := p.queue[0]
	return p.to.from[p.from.name] || !p.to.paused.IsZero() ||
		!p.from.paused.IsZero() && at.sent.After(p.from.paused)
}

// endpoint is one end of a connection, a net.Conn.
type endpoint struct {
	n       *network
	host    *host
	peer    *endpoint
	in, out *pipe
	gone    chan struct{} // closed with broken

	// Under n.mu.
	broken error
	until  time.Time // of reads; zero: no deadline
}

// fail ends this end at once. n.mu is held.
func (e *endpoint) fail(err error) {
	if e.broken == nil {
		e.broken = err
		close(e.gone)
		delete(e.host.ends, e)
	}
}

// Read implements net.Conn.
func (e *endpoint) Read(b []byte) (int, error) {
	for {
		e.n.mu.Lock()
		now := time.Now()
		var due time.Time // of the next packet, or the deadline
		changed := e.n.changed
		switch {
		case e.broken != nil:
			e.n.mu.Unlock()
			return 0, e.broken
		case !e.until.IsZero() && !now.Before(e.until):
			e.n.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(e.in.queue) == 0 || e.in.held():
		case !e.in.queue[0].at.After(now):
			defer e.n.mu.Unlock()
			return e.take(b)
		default:
			due = e.in.queue[0].at
		}
		if due.IsZero() || !e.until.IsZero() && e.until.Before(due) {
			due = e.until
		}
		e.n.mu.Unlock()
		e.wait(due.Sub(now), !due.IsZero(), changed)
	}
}

// wait waits for news, or until something is due.
func (e *endpoint) wait(d time.Duration, due bool, changed <-chan struct{}) {
	var timer <-chan time.Time
	if due {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-e.in.wake:
	case <-changed:
	case <-timer:
	case <-e.gone:
	}
}

// take reads from the first packet. n.mu is held.
func (e *endpoint) take(b []byte) (int, error) {
	k := &e.in.queue[0]
	if k.err != nil {
		if errors.Is(k.err, syscall.ECONNRESET) {
			e.fail(k.err)
		}
		return 0, k.err
	}
	n := copy(b, k.data)
	if k.data = k.data[n:]; len(k.data) == 0 {
		e.in.queue = e.in.queue[1:]
	}
	return n, nil
}

// Write implements net.Conn; it never waits.
func (e *endpoint) Write(b []byte) (int, error) {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if e.broken != nil {
		return 0, e.broken
	}
	e.out.push(packet{at: e.n.arrival(), data: append([]byte(nil), b...)})
	return len(b), nil
}

// Close implements net.Conn: the peer reads what was sent, and then the end.
func (e *endpoint) Close() error {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if e.broken == nil {
		e.fail(net.ErrClosed)
		e.out.push(packet{at: e.n.arrival(), err: io.EOF})
	}
	return nil
}

// LocalAddr implements net.Conn.
func (e *endpoint) LocalAddr() net.Addr { return addrOf(e.host.name) }

// RemoteAddr implements net.Conn.
func (e *endpoint) RemoteAddr() net.Addr { return addrOf(e.peer.host.name) }

// SetDeadline implements net.Conn; writes never wait.
func (e *endpoint) SetDeadline(t time.Time) error { return e.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn; writes never wait.
func (e *endpoint) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (e *endpoint) SetReadDeadline(t time.Time) error {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if !t.IsZero() && (e.until.IsZero() || t.Before(e.until)) {
		e.in.signal()
	}
	e.until = t
	return nil
}
