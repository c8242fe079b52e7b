package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// errShort closes a connection whose answer promised more bytes than there were:
// the peer must not take the next answer for the rest of this one (safety 12).
var errShort = errors.New("answer shorter than promised")

const (
	// copyBytes is one step of a file sent through memory, and of progress.
	copyBytes = 128 << 10
	// copySmall: a file range below this is copied behind its header, one call for both.
	copySmall = 4 << 10
)

// writer gathers memory until a file must go out, or all is gathered.
type writer struct {
	vec   net.Buffers
	send  net.Buffers // what WriteTo consumes
	armed time.Time   // the write deadline that is set
	sent  int64
}

// writeChain writes finished calls in order: neighbours in one system call, files
// by sendfile where the socket allows it. It stops behind a call that hangs up.
func (w *writer) writeChain(c *conn, k *call) (err error) {
	w.vec, w.sent = w.vec[:0], 0
	for ; k != nil && err == nil; k = k.after {
		if k.answer != nil && k.sent < len(k.answer.B) {
			w.vec = append(w.vec, k.answer.B[k.sent:])
		}
		if k.scattered {
			err = w.scatter(c, k.parts)
		}
		if k.hangUp {
			break
		}
	}
	if err == nil {
		err = w.flush(c)
	}
	clear(w.vec[:cap(w.vec)])
	c.srv.met.bytesOut.Add(float64(w.sent))
	return err
}

func (w *writer) scatter(c *conn, parts []wire.Part) error {
	for _, p := range parts {
		if p.Mem != nil {
			w.vec = append(w.vec, p.Mem)
			continue
		}
		if p.File == nil || p.File.Len() == 0 {
			continue
		}
		if err := w.file(c, p.File); err != nil {
			return err
		}
	}
	return nil
}

// file sends what is gathered and then the range.
func (w *writer) file(c *conn, f wire.FileRange) error {
	size := f.Len()
	fd, off, n, ok := f.File()
	if c.raw != nil && ok && size >= copySmall {
		if n != size {
			return fmt.Errorf("%w: range of %d bytes where %d were promised", errShort, n, size)
		}
		if err := w.flushMore(c); err != nil {
			return err
		}
		sent, err := c.sendFile(fd, off, n)
		w.sent += int64(sent)
		c.srv.met.sendfileBytes.Add(float64(sent))
		return err
	}
	return w.copyFile(c, f, size)
}

// copyFile sends a range through a pooled buffer.
func (w *writer) copyFile(c *conn, f wire.FileRange, size int) error {
	buf := wire.GetBuffer(min(size, copyBytes))
	defer buf.Release()
	for off := 0; off < size; {
		b := buf.B[:min(size-off, len(buf.B))]
		if err := f.ReadAt(b, int64(off)); err != nil {
			return fmt.Errorf("%w: %w", errShort, err)
		}
		off += len(b)
		w.vec = append(w.vec, b)
		if err := w.flush(c); err != nil {
			return err
		}
		c.srv.met.copiedBytes.Add(float64(len(b)))
	}
	return nil
}

// flush writes what is gathered.
func (w *writer) flush(c *conn) error {
	for _, b := range w.vec {
		if len(b) > copyBytes {
			return w.flushLarge(c)
		}
	}
	if len(w.vec) == 0 {
		return nil
	}
	if err := w.arm(c); err != nil {
		return err
	}
	var n int64
	var err error
	if len(w.vec) == 1 {
		var m int
		m, err = c.nc.Write(w.vec[0])
		n = int64(m)
	} else {
		w.send = w.vec
		n, err = w.send.WriteTo(c.nc)
	}
	w.sent += n
	w.vec = w.vec[:0]
	return err
}

// flushLarge writes in steps, so that a slow but steady reader is not taken for a
// stuck one.
func (w *writer) flushLarge(c *conn) error {
	defer func() { w.vec = w.vec[:0] }()
	for _, b := range w.vec {
		for len(b) > 0 {
			if err := w.arm(c); err != nil {
				return err
			}
			n, err := c.nc.Write(b[:min(len(b), copyBytes)])
			w.sent += int64(n)
			if err != nil {
				return err
			}
			b = b[n:]
		}
	}
	return nil
}

// arm moves the write deadline when it has come closer than the slow-reader time:
// no progress for between 1 and 1.25 of it ends the write.
func (w *writer) arm(c *conn) error {
	now, limit := time.Now(), c.srv.cfg.SlowReader
	if w.armed.Sub(now) >= limit {
		return nil
	}
	w.armed = now.Add(limit + limit/4)
	return c.nc.SetWriteDeadline(w.armed)
}

// shortFile names an end of file within a promised range.
func shortFile(left int) error {
	return fmt.Errorf("%w: %d bytes left: %w", errShort, left, io.ErrUnexpectedEOF)
}
