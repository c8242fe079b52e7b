//go:build interop

// Package raw speaks the Kafka protocol one frame at a time, so that a test
// decides every byte: versions, correlation, pipelining, damage. It is built
// on kmsg's schemas and on nothing of the broker, and stays a second opinion.
//
// A Conn belongs to one goroutine.
package raw

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Timeout bounds each read of an answer.
const Timeout = 15 * time.Second

// Conn is one connection. Answers are read in the order of the requests.
type Conn struct {
	c    net.Conn
	r    *bufio.Reader
	corr int32
	fmt  *kmsg.RequestFormatter
}

// Dial connects to addr.
func Dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &Conn{
		c:   c,
		r:   bufio.NewReader(c),
		fmt: kmsg.NewRequestFormatter(kmsg.FormatterClientID("interop")),
	}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Frame is one answer: its correlation id and the bytes behind it.
type Frame struct {
	Correlation int32
	Body        []byte // what follows the correlation id
}

// Send writes req at the version it carries and returns its correlation id.
func (c *Conn) Send(req kmsg.Request) (int32, error) {
	c.corr++
	return c.corr, c.Write(c.fmt.AppendRequest(nil, req, c.corr))
}

// SendBody writes a request of any key and version around an arbitrary body.
func (c *Conn) SendBody(key, version int16, flexible bool, body []byte) (int32, error) {
	c.corr++
	b := make([]byte, 4, 64+len(body))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(c.corr))
	b = binary.BigEndian.AppendUint16(b, 7)
	b = append(b, "interop"...)
	if flexible {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return c.corr, c.Write(b)
}

// Write puts bytes on the socket as they are.
func (c *Conn) Write(b []byte) error {
	_, err := c.c.Write(b)
	return err
}

// Read returns the next answer frame; io.EOF means that the peer closed.
func (c *Conn) Read() (Frame, error) { return c.ReadWithin(Timeout) }

// Waiting tells whether an answer begins to come within d.
func (c *Conn) Waiting(d time.Duration) (bool, error) {
	if err := c.c.SetReadDeadline(time.Now().Add(d)); err != nil {
		return false, err
	}
	_, err := c.r.Peek(1)
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return false, nil
	}
	return err == nil, err
}

// ReadWithin is Read with a deadline of its own.
func (c *Conn) ReadWithin(d time.Duration) (Frame, error) {
	if err := c.c.SetReadDeadline(time.Now().Add(d)); err != nil {
		return Frame{}, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return Frame{}, closed(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > 1<<28 {
		return Frame{}, fmt.Errorf("answer frame of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return Frame{}, closed(err)
	}
	return Frame{Correlation: int32(binary.BigEndian.Uint32(b)), Body: b[4:]}, nil
}

// closed maps every way in which a peer can hang up to io.EOF.
func closed(err error) error {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return err
	}
	return io.EOF
}

// Decode parses an answer to req out of a frame.
func Decode(req kmsg.Request, f Frame) (kmsg.Response, error) {
	resp := req.ResponseKind()
	body := f.Body
	if resp.IsFlexible() && resp.Key() != 18 {
		var err error
		if body, err = skipTags(body); err != nil {
			return nil, err
		}
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("key %d v%d: %w", req.Key(), req.GetVersion(), err)
	}
	return resp, nil
}

func skipTags(b []byte) ([]byte, error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > 1000 {
		return nil, errors.New("response header: bad tag count")
	}
	b = b[used:]
	for range n {
		_, u1 := binary.Uvarint(b)
		if u1 <= 0 {
			return nil, errors.New("response header: bad tag")
		}
		size, u2 := binary.Uvarint(b[u1:])
		if u2 <= 0 || uint64(len(b)-u1-u2) < size {
			return nil, errors.New("response header: bad tag size")
		}
		b = b[u1+u2+int(size):]
	}
	return b, nil
}

// Do sends req and reads its answer.
func (c *Conn) Do(req kmsg.Request) (kmsg.Response, error) {
	corr, err := c.Send(req)
	if err != nil {
		return nil, closed(err)
	}
	f, err := c.Read()
	if err != nil {
		return nil, err
	}
	if f.Correlation != corr {
		return nil, fmt.Errorf("correlation id %d, want %d", f.Correlation, corr)
	}
	return Decode(req, f)
}

// Once dials, does one request and hangs up.
func Once(addr string, req kmsg.Request) (kmsg.Response, error) {
	c, err := Dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(req)
}
