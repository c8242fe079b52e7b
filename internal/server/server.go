package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// Anonymous is the principal of a connection that nobody vouches for.
const Anonymous = "User:ANONYMOUS"

// controlFrame is the size up to which a frame other than Produce may use the
// reserve of the budget.
const controlFrame = 64 << 10

// Listener is one endpoint.
type Listener struct {
	Name    string
	Address string       // host:port; port 0 picks a free one; an empty host is every interface
	Net     net.Listener // already listening (TLS, a pipe in a test); Address is ignored then

	// InterBroker exempts from max.connections, and lets every frame but Produce use
	// the budget's reserve.
	InterBroker bool
	// Authenticate: until Conn.Authenticated, only small frames and the keys that
	// log in are taken. Principal may do it at once.
	Authenticate bool
	// Principal names the peer of a new connection from what the connection knows
	// (a TLS certificate). It may block; an error closes the connection, an empty
	// name leaves it open. nil: nobody is named.
	Principal func(ctx context.Context, c net.Conn) (string, error)
}

// Config of a Server. Zero fields take the default named beside them.
type Config struct {
	Listeners []Listener

	MaxFrameBytes     int64 // socket.request.max.bytes: 100 MiB
	PreAuthFrameBytes int64 // before authentication: 512 KiB
	ControlFrameBytes int64 // other keys than Produce: 8 MiB; see claimFrame
	QueuedBytes       int64 // queued.max.request.bytes: bytes of frames in flight; 256 MiB, negative: no limit
	ReservedBytes     int64 // beside them, for small control frames: 8 MiB

	MaxIdle    time.Duration // connections.max.idle.ms: 10 min
	SlowReader time.Duration // no progress for so long closes: 30 s

	// Listen opens an address of a listener without Net; nil: TCP.
	Listen func(ctx context.Context, address string) (net.Listener, error)

	Limits  Limits // until SetLimits gives others
	Backlog int    // socket.listen.backlog.size: 0, the system's choice

	SlotsPerConnection int // requests of one connection in flight or unwritten: 64
	SendBufferBytes    int // socket.send.buffer.bytes: 0, the system's choice
	ReceiveBufferBytes int // socket.receive.buffer.bytes: 0, the system's choice

	StopGrace   time.Duration // on stop, for requests to end by themselves: 200 ms
	StopTimeout time.Duration // on stop, until connections are cut: 5 s

	Logger  *slog.Logger          // nil: none
	Metrics prometheus.Registerer // nil: unregistered
}

func (c *Config) defaults() {
	def(&c.MaxFrameBytes, 100<<20)
	def(&c.PreAuthFrameBytes, 512<<10)
	def(&c.ControlFrameBytes, 8<<20)
	def(&c.QueuedBytes, 256<<20)
	c.QueuedBytes = max(c.QueuedBytes, 0)
	def(&c.ReservedBytes, 8<<20)
	def(&c.MaxIdle, 10*time.Minute)
	def(&c.SlowReader, 30*time.Second)
	def(&c.SlotsPerConnection, 64)
	def(&c.StopGrace, 200*time.Millisecond)
	def(&c.StopTimeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Server serves a table on its listeners.
type Server struct {
	cfg    Config
	table  Table
	log    *slog.Logger
	met    *metrics
	logs   sparseLogs
	budget *budget
	limits *limiter
	alarms *alarms
	born   time.Time
	ids    atomic.Uint64

	wg sync.WaitGroup // every goroutine of a connection

	mu        sync.Mutex
	listeners []*listener
	conns     map[*conn]struct{}
	stopping  bool
}

type listener struct {
	cfg Listener
	ln  net.Listener
}

// New makes a server; it opens nothing.
func New(cfg Config, table Table) *Server {
	cfg.defaults()
	born := time.Now()
	s := &Server{
		cfg: cfg, table: table, log: cfg.Logger,
		budget: newBudget(cfg.QueuedBytes, cfg.ReservedBytes),
		limits: newLimiter(cfg.Limits), alarms: newAlarms(born), born: born, conns: map[*conn]struct{}{},
	}
	s.met = newMetrics(cfg.Metrics, table, func() float64 { return float64(s.budget.held()) })
	return s
}

// Listen opens the listeners, so that Addr knows their ports and peers find them open.
// Nothing is accepted before Run. After an error none is open. Run calls it when
// nobody did.
func (s *Server) Listen(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners != nil {
		return nil
	}
	var open []*listener
	for _, l := range s.cfg.Listeners {
		ln := l.Net
		if ln == nil {
			var err error
			if ln, err = s.listen(ctx, l.Address); err != nil {
				for _, o := range open {
					_ = o.ln.Close()
				}
				if errors.Is(err, syscall.EADDRINUSE) {
					return fmt.Errorf("listener %s: %s is taken by another process: stop that one, or set listeners to another port (%w)", l.Name, l.Address, syscall.EADDRINUSE)
				}
				return fmt.Errorf("listener %s: %w", l.Name, err)
			}
		}
		open = append(open, &listener{cfg: l, ln: ln})
	}
	s.listeners = open
	return nil
}

// Close closes what Listen opened, for when Run is not called; it may be called
// after Run, too.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		_ = l.ln.Close()
	}
}

// listen opens an endpoint with the backlog that is configured.
func (s *Server) listen(ctx context.Context, address string) (net.Listener, error) {
	if s.cfg.Listen != nil {
		return s.cfg.Listen(ctx, address)
	}
	ln, err := (&net.ListenConfig{Control: unpaced}).Listen(ctx, "tcp", address)
	if err != nil || s.cfg.Backlog <= 0 {
		return ln, err
	}
	if err := setBacklog(ln.(*net.TCPListener), s.cfg.Backlog); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("a backlog of %d: %w", s.cfg.Backlog, err)
	}
	return ln, nil
}

// Addr is where a listener listens; nil when it is unknown or not open.
func (s *Server) Addr(name string) net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if l.cfg.Name == name {
			return l.ln.Addr()
		}
	}
	return nil
}

// Run accepts and serves until ctx ends or a listener fails for good. Then it stops:
// listeners close, requests in flight are answered (their contexts end after
// StopGrace), connections close when they have nothing left to answer, and are cut
// after StopTimeout. All goroutines are gone when it returns, provided that handlers
// heed their context.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	base, cancelAll := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancelAll(ErrStopping)
	accepting, stopAccepting := context.WithCancel(ctx)
	defer stopAccepting()

	failed := make(chan error, len(s.listeners))
	var acceptors sync.WaitGroup
	for _, l := range s.listeners {
		s.log.Info("listening", "listener", l.cfg.Name, "addr", l.ln.Addr().String())
		acceptors.Go(func() {
			if err := s.accept(accepting, base, l); err != nil {
				failed <- fmt.Errorf("listener %s: %w", l.cfg.Name, err)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stopAccepting()
	for _, l := range s.listeners {
		_ = l.ln.Close()
	}
	acceptors.Wait()
	s.stop(cancelAll)
	return err
}

// stop lets connections finish, then hurries them, then cuts them.
func (s *Server) stop(cancelAll context.CancelCauseFunc) {
	s.mu.Lock()
	s.stopping = true
	open := len(s.conns)
	for c := range s.conns {
		c.stopReading()
	}
	s.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(gone)
	}()
	hurry, cut := time.NewTimer(s.cfg.StopGrace), time.NewTimer(s.cfg.StopTimeout)
	defer hurry.Stop()
	defer cut.Stop()
	for {
		select {
		case <-gone:
			s.log.Info("listeners closed", "connections", open)
			return
		case <-hurry.C:
			cancelAll(ErrStopping)
			for _, c := range s.connections() {
				c.hurry()
			}
		case <-cut.C:
			late := s.connections()
			s.log.Warn("connections cut while requests were in flight", "connections", len(late))
			for _, c := range late {
				c.kill(nil)
			}
		}
	}
}

func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		out = append(out, c)
	}
	return out
}

// forget drops a closed connection from the books.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	_, known := s.conns[c]
	delete(s.conns, c)
	s.mu.Unlock()
	if known {
		s.limits.remove(c.info.Remote)
		s.met.connections.WithLabelValues(c.l.cfg.Name).Dec()
		if f := c.info.closed.Load(); f != nil {
			(*f)()
		}
	}
}

// reportRead classifies why no more frames come from a connection.
func (s *Server) reportRead(c *conn, err error) {
	kind := ""
	switch {
	case errors.Is(err, errTooLarge):
		kind = faultTooLarge
	case errors.Is(err, wire.ErrUnsupported):
		kind = faultUnsupported
	case errors.Is(err, errEarly):
		kind = faultEarly
	case errors.Is(err, wire.ErrMalformed):
		kind = faultMalformed
	case errors.Is(err, errStalled):
		s.met.fault(faultStalled)
		s.logs.slow.Warn(s.log, "connection closed", "remote", c.info.Remote, "listener", c.l.cfg.Name, "err", err)
		return
	case errors.Is(err, errIdle):
		s.met.fault(faultIdle)
		return
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.ECONNRESET):
		return
	default:
		s.met.fault(faultRead)
		return
	}
	s.met.fault(kind)
	s.logs.garbage.Warn(s.log, "connection closed", "remote", c.info.Remote, "listener", c.l.cfg.Name, "err", err)
}

// reportWrite classifies why an answer could not be written.
func (s *Server) reportWrite(c *conn, err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.met.fault(faultSlow)
		s.logs.slow.Warn(s.log, "connection closed, the peer takes no bytes", "remote", c.info.Remote, "listener", c.l.cfg.Name)
	case errors.Is(err, errShort):
		s.met.fault(faultShort)
		s.logs.failed.Error(s.log, "connection closed", "remote", c.info.Remote, "err", err)
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
	default:
		s.met.fault(faultWrite)
	}
}

func (c *conn) principal() string {
	if p := c.info.principal.Load(); p != nil {
		return *p
	}
	return Anonymous
}
