package etcdstore

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// door is the one listener of a voter. Other voters come with HTTP/1, clients of
// the metadata with gRPC, and the first bytes tell them apart: so a voter has one
// address, as in controller.quorum.voters, where etcd itself wants two.
type door struct {
	listener       net.Listener
	tls            *tls.Config // nil: plain
	peers, clients *side
	http           *http.Server
	grpc           *grpc.Server
	failed         chan error // why nobody is let in any more
	done           chan struct{}
	running        sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	sorting map[net.Conn]struct{} // nobody knows yet who they are
}

const (
	// preface is how HTTP/2 begins.
	preface = "PRI * HTTP/2.0\r\n"
	// sortTimeout is the time that a connection has to say who it is.
	sortTimeout = 10 * time.Second
	// peerRequestTimeout is etcd's own, for reading a whole request of a voter.
	peerRequestTimeout = 5 * time.Minute
)

// openDoor takes the port; serve opens it.
func (c Config) openDoor(ctx context.Context) (*door, error) {
	at, err := bind(c.Member.Listen, c.self().Address)
	if err != nil {
		return nil, err
	}
	d := &door{failed: make(chan error, 1), done: make(chan struct{}), sorting: map[net.Conn]struct{}{}}
	if !c.Files.empty() {
		if d.tls, err = c.Files.info().ServerConfig(); err != nil {
			return nil, fmt.Errorf("metadata store: TLS: %w", err)
		}
		d.tls.NextProtos = []string{"h2", "http/1.1"}
	}
	if d.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", at); err != nil {
		return nil, fmt.Errorf("metadata store: %w", err)
	}
	d.peers, d.clients = d.side(), d.side()
	return d, nil
}

// serve lets voters in at once, and clients when the member is ready for them.
func (d *door) serve(e *embed.Etcd, opts ...grpc.ServerOption) {
	opts = append(opts,
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: embed.DefaultGRPCKeepAliveMinTime}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: embed.DefaultGRPCKeepAliveInterval, Timeout: embed.DefaultGRPCKeepAliveTimeout}))
	d.grpc = v3rpc.Server(e.Server, nil, nil, opts...)
	d.http = &http.Server{
		Handler:     etcdhttp.NewPeerHandler(e.GetLogger(), e.Server),
		ReadTimeout: peerRequestTimeout,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, 0), // what clients do wrong
	}
	d.running.Go(d.accept)
	d.running.Go(func() { _ = d.http.Serve(d.peers) })
	d.running.Go(func() {
		select {
		case <-e.Server.ReadyNotify():
			_ = d.grpc.Serve(d.clients)
		case <-d.done:
		}
	})
}

// accept goes on through errors that pass, as where files have run out.
func (d *door) accept() {
	pause := time.Duration(0)
	for {
		c, err := d.listener.Accept()
		switch {
		case err == nil:
			pause = 0
			if d.hold(c) {
				d.running.Go(func() { d.sort(c) })
			}
			continue
		case errors.Is(err, net.ErrClosed):
			d.failed <- fmt.Errorf("metadata store: listener: %w", err) // which nobody hears after close
			return
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-d.done:
			return
		case <-time.After(pause):
		}
	}
}

// hold keeps a connection in sight until it is known whose it is.
func (d *door) hold(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = c.Close()
		return false
	}
	d.sorting[c] = struct{}{}
	return true
}

// sort reads as far as it must to know who has come.
func (d *door) sort(raw net.Conn) {
	c := raw
	if d.tls != nil {
		c = tls.Server(raw, d.tls)
	}
	_ = c.SetDeadline(time.Now().Add(sortTimeout))
	r := bufio.NewReaderSize(c, len(preface))
	to := d.peers
	// The first byte that differs decides: nobody waits for more than was sent.
	n := 1
	for ; n <= len(preface); n++ {
		got, err := r.Peek(n)
		if err != nil {
			to = nil
			break
		}
		if got[n-1] != preface[n-1] {
			break
		}
	}
	if n > len(preface) {
		to = d.clients
	}
	d.mu.Lock()
	delete(d.sorting, raw)
	d.mu.Unlock()
	if to == nil {
		_ = c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	var conn net.Conn = peeked{c, r}
	if to == d.peers {
		// Messages to a voter go out on a connection that it opened, and are few
		// bytes: no write of them ever waits, so no deadline ends one whose other
		// end is gone. Without this they are stuck in it for as long again as the
		// voter was cut off, and two voters who see each other elect nobody.
		lostAfter(raw, rafthttp.ConnWriteTimeout)
		conn = impatient{conn}
	}
	select {
	case to.come <- conn:
	case <-d.done:
		_ = c.Close()
	}
}

// close ends all of it, and waits.
func (d *door) close() {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return
	}
	d.closed = true
	close(d.done)
	_ = d.listener.Close()
	for c := range d.sorting {
		_ = c.Close()
	}
	d.mu.Unlock()
	if d.grpc != nil {
		d.grpc.Stop()
		_ = d.http.Close()
	}
	d.running.Wait()
}

// side is the listener of those who come with one of the two protocols.
type side struct {
	d    *door
	come chan net.Conn
}

func (d *door) side() *side { return &side{d, make(chan net.Conn)} }

func (s *side) Accept() (net.Conn, error) {
	select {
	case c := <-s.come:
		return c, nil
	case <-s.d.done:
		return nil, net.ErrClosed
	}
}

func (s *side) Close() error   { return nil } // the door's to close
func (s *side) Addr() net.Addr { return s.d.listener.Addr() }

// peeked is a connection of which something was read ahead.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) {
	if p.r.Buffered() > 0 {
		return p.r.Read(b[:min(len(b), p.r.Buffered())])
	}
	return p.Conn.Read(b)
}

// impatient bounds each read and write, as etcd does with connections of voters:
// one that is gone without a word is let go.
type impatient struct{ net.Conn }

func (i impatient) Read(b []byte) (int, error) {
	if err := i.SetReadDeadline(time.Now().Add(rafthttp.ConnReadTimeout)); err != nil {
		return 0, err
	}
	return i.Conn.Read(b)
}

func (i impatient) Write(b []byte) (int, error) {
	if err := i.SetWriteDeadline(time.Now().Add(rafthttp.ConnWriteTimeout)); err != nil {
		return 0, err
	}
	return i.Conn.Write(b)
}
