package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrClosed is what calls on a closed Client fail with; it wraps the reason where there is one.
var ErrClosed = errors.New("connection closed")

// ClientOptions of NewClient. Zero fields take the default named beside them.
type ClientOptions struct {
	ClientID string // empty: null
	MaxFrame int    // bytes of an answer: 128 MiB
}

// Client is one pipelined connection to a broker: requests go out in the order of
// Send, answers come back in the same order. It negotiates nothing and retries
// nothing: the version is what the request has set.
//
// All methods may be called from any goroutine. One goroutine reads, from NewClient
// until Close has returned.
type Client struct {
	nc       net.Conn
	clientID *string
	maxFrame int

	turn chan struct{} // held while a frame is written: a channel, so that a context can end the wait
	gone chan struct{} // closed with the reader

	mu          sync.Mutex
	correlation int32
	waiting     []*Call // oldest first
	err         error   // why the connection is of no use any more
	spare       spare
}

// Call is a request whose answer may still come.
type Call struct {
	correlation int32
	resp        kmsg.Response // nil: no answer will come (Produce with acks=0)
	done        chan struct{}
	err         error
	c           *Client
	frame       *Buffer // that the answer lies in
}

// Dial connects over TCP.
func Dial(ctx context.Context, address string, o ClientOptions) (*Client, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return NewClient(nc, o), nil
}

// NewClient takes over an open connection: TCP, TLS, or one end of a pipe.
func NewClient(nc net.Conn, o ClientOptions) *Client {
	c := &Client{nc: nc, maxFrame: o.MaxFrame, turn: make(chan struct{}, 1), gone: make(chan struct{})}
	if c.maxFrame == 0 {
		c.maxFrame = 128 << 20
	}
	if o.ClientID != "" {
		c.clientID = &o.ClientID
	}
	go c.read()
	return c
}

// Do sends a request and waits for its answer; nil for Produce with acks=0.
func (c *Client) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	call, err := c.Send(ctx, req)
	if err != nil {
		return nil, err
	}
	return call.Wait(ctx)
}

// Send writes a request without waiting for the answer. A write that ctx cuts short
// ends the connection, for the peer could not find the next frame.
func (c *Client) Send(ctx context.Context, req kmsg.Request) (*Call, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.gone:
		return nil, c.failure()
	}
	defer func() { <-c.turn }()

	call := &Call{c: c, done: make(chan struct{}), resp: req.ResponseKind()}
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		call.resp = nil
		close(call.done)
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.failure()
	}
	call.correlation = c.correlation
	c.correlation++
	if call.resp != nil {
		call.resp.SetVersion(req.GetVersion())
		c.waiting = append(c.waiting, call)
	}
	c.mu.Unlock()

	buf := GetBuffer(0)
	defer buf.Release()
	buf.B = AppendRequest(buf.B, req, call.correlation, c.clientID)
	if err := c.write(ctx, buf.B); err != nil {
		c.fail(err)
		return nil, err
	}
	return call, nil
}

func (c *Client) write(ctx context.Context, b []byte) error {
	if ctx.Done() == nil {
		_, err := c.nc.Write(b)
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.nc.Close() })
	_, err := c.nc.Write(b)
	if !stop() && err != nil {
		return ctx.Err()
	}
	return err
}

// Done is closed once Wait does not block.
func (k *Call) Done() <-chan struct{} { return k.done }

// Wait blocks until the answer came, the connection ended or ctx ends; then the answer
// is dropped when it comes. Answers of the protocol that carry error codes are answers.
func (k *Call) Wait(ctx context.Context) (kmsg.Response, error) {
	select {
	case <-k.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if k.err != nil {
		return nil, k.err
	}
	return k.resp, nil
}

// Release gives back the memory that the answer of Wait lies in: neither the answer nor
// any bytes of it may be used from then on. It is for whoever gets large answers one
// after the other: new memory for each has to be cleared, faulted in and collected, which
// costs more than what is done with it. Without Release the collector takes it.
func (k *Call) Release() {
	if k.frame == nil {
		return
	}
	frame := k.frame
	k.frame, k.resp = nil, nil
	if cap(frame.B) <= 1<<maxClass {
		frame.Release()
		return
	}
	k.c.mu.Lock()
	k.c.spare.keep(frame)
	k.c.mu.Unlock()
}

// spare is the memory of one answer that is too large for the pools. It is given up when
// there is no need of it for a while.
type spare struct {
	frame *Buffer
	small int // answers since the last one that needed it
}

// patience is for so many answers; a follower with nothing to fetch gets some two a second.
const patience = 64

// get returns a buffer of length n with any content.
func (s *spare) get(n int) *Buffer {
	if n <= 1<<maxClass {
		if s.small++; s.small >= patience {
			s.frame = nil
		}
		return GetBuffer(n)
	}
	frame := s.frame
	s.frame, s.small = nil, 0
	if frame == nil || cap(frame.B) < n {
		return &Buffer{B: make([]byte, n, n+n/8)}
	}
	frame.B = frame.B[:n]
	return frame
}

func (s *spare) keep(frame *Buffer) {
	if s.frame == nil || cap(s.frame.B) < cap(frame.B) {
		s.frame = frame
	}
}

// Close ends the connection and what waits on it, and returns when the reader is gone.
func (c *Client) Close() error {
	c.fail(nil)
	<-c.gone
	return nil
}

func (c *Client) read() {
	defer close(c.gone)
	r := bufio.NewReaderSize(c.nc, 16<<10)
	for {
		frame, err := c.readFrame(r)
		if err != nil {
			c.fail(err)
			return
		}
		c.mu.Lock()
		var call *Call
		if len(c.waiting) > 0 {
			call = c.waiting[0]
			c.waiting[0] = nil
			c.waiting = c.waiting[1:]
		}
		c.mu.Unlock()
		if call == nil {
			c.fail(fmt.Errorf("%w answer: nothing was asked", ErrMalformed))
			return
		}
		call.frame = frame
		got, err := parseAnswer(frame.B, call.resp)
		if got != call.correlation && err == nil {
			err = fmt.Errorf("%w answer: correlation %d where %d was due", ErrMalformed, got, call.correlation)
		}
		call.err = err
		close(call.done)
		if err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *Client) readFrame(r io.Reader) (*Buffer, error) {
	n, err := readLength(r, c.maxFrame)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	frame := c.spare.get(n)
	c.mu.Unlock()
	return frame, readBody(r, frame.B)
}

// parseAnswer reads the answer, or the version 0 one with which brokers refuse an
// ApiVersions version that they do not know (KIP-511).
func parseAnswer(frame []byte, resp kmsg.Response) (int32, error) {
	if resp.Key() == KeyApiVersions && resp.GetVersion() > 0 && len(frame) >= 6 && frame[4] == 0 && frame[5] == 35 {
		resp.SetVersion(0)
	}
	return ParseResponse(frame, resp)
}

// fail makes the connection useless, for a reason or because it is closed.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = ErrClosed
		if err != nil {
			c.err = fmt.Errorf("%w: %w", ErrClosed, err)
		}
	}
	lost := c.waiting
	c.waiting = nil
	reason := c.err
	c.mu.Unlock()
	_ = c.nc.Close()
	for _, k := range lost {
		k.err = reason
		close(k.done)
	}
}

func (c *Client) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
