// Package admin is the HTTP listener for operators: /metrics for Prometheus,
// /healthz and /readyz for whoever restarts and routes, /debug/pprof for
// whoever wonders. It listens on loopback unless configured otherwise: nothing
// on it asks who is there.
//
// New does no I/O. Listen opens the port, Run serves until its context ends.
// The functions of Config are called concurrently.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config of a Server.
type Config struct {
	Address  string              // host:port; port 0 picks a free one
	Gatherer prometheus.Gatherer // nil: no /metrics
	// Healthy says what is broken beyond what waiting mends, or nil: a log
	// directory offline, the metadata store lost. nil: always healthy.
	Healthy func() error
	// Ready says what is still missing before requests can be served, such as
	// the progress of recovery, or nil. nil: always ready.
	Ready func() error
	Log   *slog.Logger // nil: none
}

// Server is the admin listener.
type Server struct {
	cfg Config
	mux *http.ServeMux
	ln  net.Listener
}

// stopTimeout bounds how long Run waits for answers under way.
const stopTimeout = time.Second

// New makes a Server.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /healthz", check(cfg.Healthy, "healthy"))
	s.mux.HandleFunc("GET /readyz", check(cfg.Ready, "ready"))
	if cfg.Gatherer != nil {
		s.mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 8}))
	}
	s.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	s.mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	s.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	s.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	s.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	s.mux.HandleFunc("GET /{$}", index)
	return s
}

// Handle adds a page, before Run; the pattern is that of http.ServeMux.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// ServeHTTP lets the pages be served elsewhere, and tested without a port.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Listen opens the port and returns its address.
func (s *Server) Listen() (net.Addr, error) {
	ln, err := net.Listen("tcp", s.cfg.Address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("admin listener: %s is taken by another process: stop that one, or set barnabas.admin.listener to another port (%w)", s.cfg.Address, syscall.EADDRINUSE)
	}
	if err != nil {
		return nil, fmt.Errorf("admin listener: %w: set barnabas.admin.listener right", err)
	}
	s.ln = ln
	return ln.Addr(), nil
}

// Run serves until ctx ends, and then waits a moment for answers under way. It
// calls Listen where that was not done.
func (s *Server) Run(ctx context.Context) error {
	if s.ln == nil {
		if _, err := s.Listen(); err != nil {
			return err
		}
	}
	srv := &http.Server{
		Handler:           s.mux,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	defer func() { <-stopped }()
	done, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(stopped)
		<-done.Done()
		grace, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer stop()
		if srv.Shutdown(grace) != nil { // a profile that runs for half a minute is cut
			_ = srv.Close()
		}
	}()
	if err := srv.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin listener: %w", err)
	}
	return nil
}

// check answers 200 with the word, or 503 with what is wrong.
func check(wrong func() error, word string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if wrong != nil {
			if err := wrong(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(word + "\n"))
	}
}

const indexPage = `<!doctype html><title>Barnabas</title><h1>Barnabas</h1><ul>
<li><a href="metrics">metrics</a><li><a href="healthz">healthz</a><li><a href="readyz">readyz</a><li><a href="debug/pprof/">debug/pprof</a></ul>
`

func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(indexPage))
}
