package server

import (
	"io"
	"os"
	"syscall"
	"time"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// sendFile sends n bytes of a file from an explicit offset, so that the file's own
// position is of no matter and one descriptor serves any number of connections. It
// goes through RawConn: the wrappers of package io fall back to copying without a
// word (golang/go#66988).
func (c *conn) sendFile(file uintptr, off int64, n int) (sent int, err error) {
	if err := c.out.arm(c); err != nil {
		return 0, err
	}
	var failed error
	err = c.raw.Write(func(fd uintptr) bool {
		for sent < n {
			m, err := syscall.Sendfile(int(fd), int(file), &off, n-sent)
			c.srv.met.sendfileCalls.Inc()
			if m > 0 {
				sent += m
			}
			switch {
			case err == syscall.EINTR:
			case err == syscall.EAGAIN:
				// The deadline counts from the last progress.
				failed = c.out.arm(c)
				return failed != nil
			case err != nil:
				failed = os.NewSyscallError("sendfile", err)
				return true
			case m == 0:
				failed = shortFile(n - sent)
				return true
			}
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return sent, err
}

// flushMore writes what is gathered and tells the kernel that a file follows, so
// that the header does not leave in a packet of its own.
func (w *writer) flushMore(c *conn) error {
	if len(w.vec) == 0 {
		return nil
	}
	last := w.vec[len(w.vec)-1]
	w.vec = w.vec[:len(w.vec)-1]
	if err := w.flush(c); err != nil {
		return err
	}
	if err := w.arm(c); err != nil {
		return err
	}
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		for len(last) > 0 {
			n, err := syscall.SendmsgN(int(fd), last, nil, nil, syscall.MSG_MORE|syscall.MSG_NOSIGNAL)
			switch {
			case err == syscall.EINTR:
			case err == syscall.EAGAIN:
				failed = w.arm(c)
				return failed != nil
			case err != nil:
				failed = os.NewSyscallError("sendmsg", err)
				return true
			default:
				w.sent += int64(n)
				last = last[n:]
			}
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return err
}

// tryWrite writes what the socket takes at once, by no deadline. An error is left to
// whoever writes the rest.
func (w *writer) tryWrite(c *conn, b []byte) (sent int) {
	if !w.armed.IsZero() { // it may have passed, and would fail the write
		w.armed = time.Time{}
		if c.nc.SetWriteDeadline(w.armed) != nil {
			return 0
		}
	}
	_ = c.raw.Write(func(fd uintptr) bool {
		n, err := syscall.Write(int(fd), b)
		if err == nil {
			sent = n
		}
		return true
	})
	return sent
}

// rawSupported: TCP connections are read and written through their descriptor.
const rawSupported = true

// tryRead reads once; false means that the socket has nothing and must be waited for.
func (c *conn) tryRead(fd uintptr) bool {
	in := &c.in
	dst := in.dst
	if dst == nil {
		if in.buf == nil {
			in.buf = wire.GetBuffer(c.aheadBytes())
		}
		dst = in.buf.B[in.w:]
	}
	for {
		n, err := syscall.Read(int(fd), dst)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			if in.dst == nil && in.w == 0 {
				in.release()
			}
			if err := c.arm(); err != nil {
				in.err = err
				return true
			}
			return false
		case err != nil:
			in.err = os.NewSyscallError("read", err)
		case n == 0:
			in.err = io.EOF
		}
		in.n = max(n, 0)
		return true
	}
}
