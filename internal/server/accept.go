package server

import (
	"context"
	"errors"
	"net"
	"time"
)

// accept takes connections until ctx ends. Errors of accept(2) are waited out, as
// they are nearly always a lack of descriptors, with a pause that grows, so that a
// full table does not spin a core (DISK-02); a listener that is closed under us is
// an error.
func (s *Server) accept(ctx, base context.Context, l *listener) error {
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := time.Duration(0)
	for {
		if !s.limits.await(ctx, l.cfg.InterBroker) {
			return nil
		}
		nc, err := l.ln.Accept()
		if err == nil {
			pause = 0
			if !s.limits.room(ctx, l.cfg.InterBroker) { // there may be less since this was waited for
				_ = nc.Close()
				return nil
			}
			s.open(base, l, nc)
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		pause = min(max(2*pause, shortest), longest)
		s.met.fault(faultAccept)
		s.logs.accept.Error(s.log, "cannot accept connections", "listener", l.cfg.Name, "err", err, "retry", pause)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// open starts a connection.
func (s *Server) open(base context.Context, l *listener, nc net.Conn) {
	if !s.limits.add(nc.RemoteAddr()) {
		s.met.fault(faultRefused)
		s.logs.refused.Warn(s.log, "connection refused, too many from its address", "remote", nc.RemoteAddr(), "listener", l.cfg.Name)
		_ = nc.Close()
		return
	}
	c := &conn{
		srv: s, l: l, nc: nc,
		quit: make(chan struct{}), dead: make(chan struct{}),
		room: make(chan struct{}, 1), slotFree: make(chan struct{}, 1),
	}
	c.info.ID, c.info.Listener = s.ids.Add(1), l.cfg.Name
	c.info.Remote, c.info.Local = nc.RemoteAddr(), nc.LocalAddr()
	if tcp, ok := nc.(*net.TCPConn); ok {
		s.tune(tcp)
		if raw, err := tcp.SyscallConn(); err == nil && rawSupported {
			c.raw = raw
		}
	}
	c.ctx, c.cancel = context.WithCancelCause(base)
	c.hctx = handlerCtx{Context: c.ctx, c: c}
	c.reading = true
	c.touch(time.Now())

	s.mu.Lock()
	s.conns[c] = struct{}{}
	stopping := s.stopping
	s.mu.Unlock()
	s.met.accepted.WithLabelValues(l.cfg.Name).Inc()
	s.met.connections.WithLabelValues(l.cfg.Name).Inc()
	if stopping {
		c.kill(nil)
		return
	}
	s.wg.Add(1)
	go c.begin()
}

// begin asks who the peer is, where the connection knows, and starts to read.
func (c *conn) begin() {
	if named := c.l.cfg.Principal; named != nil {
		p, err := c.greet(named)
		if err != nil {
			c.srv.met.fault(faultEarly)
			c.srv.logs.garbage.Warn(c.srv.log, "connection closed", "remote", c.info.Remote, "listener", c.l.cfg.Name, "err", err)
			c.kill(nil)
			c.srv.wg.Done()
			return
		}
		if p != "" {
			c.info.Authenticated(p)
		}
	}
	c.work(nil)
}

// greet bounds the peer's naming (a TLS handshake) like a stall within a frame.
func (c *conn) greet(named func(context.Context, net.Conn) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.srv.cfg.SlowReader)
	defer cancel()
	return named(ctx, c.nc)
}

func (s *Server) tune(tcp *net.TCPConn) {
	// Keep-alive and TCP_NODELAY are package net's defaults.
	if n := s.cfg.SendBufferBytes; n > 0 {
		_ = tcp.SetWriteBuffer(n)
	}
	if n := s.cfg.ReceiveBufferBytes; n > 0 {
		_ = tcp.SetReadBuffer(n)
	}
}
