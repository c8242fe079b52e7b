package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

var (
	errTooLarge = errors.New("frame size out of bounds")
	errIdle     = errors.New("idle for too long")
	errStalled  = errors.New("stalled within a frame")
	errQuit     = errors.New("reading was stopped")
	errEarly    = errors.New("request before authentication")
)

const (
	readAhead      = 16 << 10 // one read takes in many small requests
	readAheadLarge = 4 << 10  // behind a large frame, so that little of the next is copied
	largeFrame     = 32 << 10
	trustedFrame   = 1 << 20 // up to it a frame's memory is taken at once
	lonelyFrame    = 1 << 20 // above it a control frame takes the whole budget
)

// reader holds bytes read and not yet consumed. An idle connection has no buffer: on
// TCP it is taken when the socket has bytes, and given back when they are used up.
type reader struct {
	buf    *wire.Buffer
	r, w   int
	small  bool      // the last frame was large: read less ahead
	within bool      // inside a frame: a stall, not idleness
	since  time.Time // last progress
	armed  time.Time // the deadline that is set

	// The state of one non-blocking read, so that its closure is made once.
	try func(fd uintptr) bool
	dst []byte
	n   int
	err error
}

func (in *reader) release() {
	if in.buf != nil {
		in.buf.Release()
		in.buf = nil
	}
	in.r, in.w = 0, 0
}

// readCall reads one frame: sizes first, then the budget, then memory.
func (c *conn) readCall() (*call, error) {
	in := &c.in
	in.within = false
	if err := c.fill(wire.LengthBytes); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(in.buf.B[in.r:])))
	if limit := c.frameLimit(); size < wire.FixedHeaderBytes || size > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, size, limit)
	}
	in.within = true
	if err := c.fill(wire.LengthBytes + wire.FixedHeaderBytes); err != nil {
		return nil, err
	}
	head, err := wire.ParseFixed(in.buf.B[in.r+wire.LengthBytes : in.w])
	if err != nil {
		return nil, err
	}
	entry, err := c.lookup(head)
	if err != nil {
		return nil, err
	}
	k := &call{c: c, entry: entry}
	if limit := c.srv.cfg.ControlFrameBytes; head.Key != wire.KeyProduce && size > limit {
		return nil, fmt.Errorf("%w: %d bytes for key %d, at most %d", errTooLarge, size, head.Key, limit)
	}
	if err := c.claimFrame(k, head, size); err != nil {
		return nil, err
	}
	in.r += wire.LengthBytes
	if err := c.readFrame(k, int(size)); err != nil {
		k.releaseFrame()
		return nil, err
	}
	if err := c.describe(k, head); err != nil {
		k.releaseFrame()
		return nil, err
	}
	return k, nil
}

// frameLimit is small until the peer has said who it is.
func (c *conn) frameLimit() int64 {
	if c.l.cfg.Authenticate && c.info.principal.Load() == nil {
		return min(c.srv.cfg.PreAuthFrameBytes, c.srv.cfg.MaxFrameBytes)
	}
	return c.srv.cfg.MaxFrameBytes
}

// lookup finds who serves the request. nil without an error is ApiVersions at a
// version that is not served; any other such request closes the connection, for
// no answer could be read (PROTO-03).
func (c *conn) lookup(h wire.Header) (*Entry, error) {
	e := c.srv.table.find(h.Key)
	if e == nil {
		return nil, fmt.Errorf("%w: key %d", wire.ErrUnsupported, h.Key)
	}
	if c.l.cfg.Authenticate && c.info.principal.Load() == nil && !beforeAuth(h.Key) {
		return nil, fmt.Errorf("%w: key %d", errEarly, h.Key)
	}
	if h.Version >= e.min && h.Version <= e.max {
		return e, nil
	}
	if h.Key == wire.KeyApiVersions {
		return nil, nil
	}
	return nil, fmt.Errorf("%w: key %d version %d", wire.ErrUnsupported, h.Key, h.Version)
}

// beforeAuth: SaslHandshake, ApiVersions and SaslAuthenticate.
func beforeAuth(key int16) bool {
	return key == 17 || key == wire.KeyApiVersions || key == 36
}

// claimFrame takes the frame's share of the budget: its size, times what decoding
// may make of it. Unknown tags, a map for three bytes, are not in that factor, since
// honest frames have none: what bounds them is that large frames of other keys than
// Produce have a limit of their own and are decoded one at a time.
func (c *conn) claimFrame(k *call, h wire.Header, size int64) error {
	cost := size
	if k.entry != nil {
		cost *= k.entry.cost
	}
	b := c.srv.budget
	if h.Key != wire.KeyProduce && size > lonelyFrame {
		cost = max(cost, b.cap)
	}
	if b.cap > 0 {
		cost = min(cost, b.cap)
	}
	control := h.Key != wire.KeyProduce && (c.l.cfg.InterBroker || size <= controlFrame)
	if !b.take(&k.claim, cost, control, c.quit) {
		return errQuit
	}
	return nil
}

// describe fills in the request: header, who and when.
func (c *conn) describe(k *call, h wire.Header) error {
	now := time.Now()
	c.touch(now)
	k.Request = Request{
		Conn: &c.info, Key: h.Key, Version: h.Version, Correlation: h.Correlation,
		Principal: c.principal(), At: now, call: k,
	}
	c.srv.met.bytesIn.Add(float64(len(k.frame.B) + wire.LengthBytes))
	if k.entry == nil {
		return nil // only the fixed part may be read
	}
	h, body, err := wire.ParseHeader(k.frame.B, h.Version >= k.entry.flexible)
	if err != nil {
		return err
	}
	k.body = body
	if string(h.ClientID) != c.lastClient {
		c.lastClient = string(h.ClientID)
	}
	k.ClientID = c.lastClient
	return nil
}

// readFrame takes what is buffered and reads the rest straight into the frame.
// Memory for a large frame is taken as its bytes come: a length alone is cheap to
// send.
func (c *conn) readFrame(k *call, size int) error {
	in := &c.in
	k.frame = wire.GetBuffer(min(size, trustedFrame))
	n := copy(k.frame.B, in.buf.B[in.r:in.w])
	in.r += n
	in.small = size >= largeFrame
	for n < size {
		if n == len(k.frame.B) {
			wider := wire.GetBuffer(min(size, 4*n))
			copy(wider.B, k.frame.B)
			k.frame.Release()
			k.frame = wider
		}
		m, err := c.readSome(k.frame.B[n:], false)
		if err != nil {
			return err
		}
		n += m
	}
	return nil
}

// fill reads until the buffer holds want bytes.
func (c *conn) fill(want int) error {
	in := &c.in
	for in.w-in.r < want {
		if in.r > 0 {
			if in.buf != nil {
				copy(in.buf.B, in.buf.B[in.r:in.w])
			}
			in.r, in.w = 0, in.w-in.r
		}
		if in.w == 0 {
			in.release()
		}
		n, err := c.readSome(nil, true)
		if err != nil {
			return err
		}
		in.w += n
	}
	return nil
}

// readSome reads at least one byte into dst, or behind what the buffer holds.
// Deadlines are set only when a read must wait, and only when they move by much.
func (c *conn) readSome(dst []byte, ahead bool) (int, error) {
	in := &c.in
	in.since = time.Time{}
	for {
		var n int
		var err error
		if c.raw != nil {
			n, err = c.readRaw(dst, ahead)
		} else {
			n, err = c.readPlain(dst, ahead)
		}
		if n > 0 {
			return n, nil
		}
		if err == nil {
			err = io.EOF
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if err = c.overdue(); err == nil {
				continue
			}
		}
		return 0, err
	}
}

// overdue judges a deadline that has passed: nil means that it is none of the reader's.
func (c *conn) overdue() error {
	in := &c.in
	in.armed = time.Time{}
	select {
	case <-c.quit:
		return errQuit
	default:
	}
	now := time.Now()
	if in.within || in.w > in.r {
		if !in.since.IsZero() && now.Sub(in.since) >= c.srv.cfg.SlowReader {
			return errStalled
		}
	} else if !now.Before(c.idleAt()) && !c.busy() {
		return errIdle
	}
	return c.arm() // an expired deadline would fail the next read before it begins
}

func (c *conn) idleAt() time.Time {
	return c.srv.born.Add(time.Duration(c.lastActive.Load()) + c.srv.cfg.MaxIdle)
}

// arm sets the read deadline before a wait: for the rest of a frame soon, for the
// next request after the idle time.
func (c *conn) arm() error {
	in := &c.in
	now := time.Now()
	if in.since.IsZero() {
		in.since = now
	}
	limit, want := c.srv.cfg.MaxIdle, c.idleAt()
	if in.within || in.w > in.r {
		limit = c.srv.cfg.SlowReader
		want = in.since.Add(limit)
	}
	if !want.After(now) {
		want = now.Add(limit)
	}
	if d := want.Sub(in.armed); in.armed.IsZero() || d < 0 || d > limit/8 {
		in.armed = want
		if err := c.nc.SetReadDeadline(want); err != nil {
			return err
		}
	}
	select {
	case <-c.quit: // its deadline may have been overwritten
		return errQuit
	default:
		return nil
	}
}

func (c *conn) aheadBytes() int {
	if c.in.small {
		return readAheadLarge
	}
	return readAhead
}

// readPlain is for any net.Conn: TLS, a pipe.
func (c *conn) readPlain(dst []byte, ahead bool) (int, error) {
	in := &c.in
	if err := c.arm(); err != nil {
		return 0, err
	}
	if ahead {
		if in.buf == nil {
			in.buf = wire.GetBuffer(readAheadLarge)
		}
		dst = in.buf.B[in.w:]
	}
	return c.nc.Read(dst)
}

// readRaw reads from a TCP socket without holding memory while it waits: the
// function is called again whenever the socket turns readable.
func (c *conn) readRaw(dst []byte, ahead bool) (int, error) {
	in := &c.in
	if in.try == nil {
		in.try = c.tryRead
	}
	in.dst, in.n, in.err = dst, 0, nil
	if ahead {
		in.dst = nil
	}
	err := c.raw.Read(in.try)
	in.dst = nil
	if err == nil {
		err = in.err
	}
	return in.n, err
}
