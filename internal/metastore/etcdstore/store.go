package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// errFatal stands in for the error that the failure channel announces.
var errFatal = errors.New("metadata store failed")

// errDown is the cause of calls refused or broken off because Run is over.
var errDown = metastore.ErrStopped

// Store is metastore.Store on etcd. Its life is Run's.
type Store struct {
	cfg     Config
	logger  *slog.Logger
	metrics *metrics

	ready  chan struct{} // client is there
	client *clientv3.Client
	member atomic.Pointer[member] // nil: external, or not running

	down   context.Context // over once calls have to end
	goDown context.CancelCauseFunc
	calls  sync.WaitGroup // calls and watches under way

	failMu sync.Mutex
	fatal  error
	failed chan struct{} // closed with fatal set

	mu      sync.Mutex // guards calls.Add against Run's Wait
	stopped bool
}

var (
	_ metastore.Store             = (*Store)(nil)
	_ metastore.Compacter         = (*Store)(nil)
	_ metastore.ProgressRequester = (*Store)(nil)
)

// New makes a Store. reg may be nil: the collectors are then unregistered.
func New(cfg Config, logger *slog.Logger, reg prometheus.Registerer) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: cfg, logger: logger, ready: make(chan struct{}), failed: make(chan struct{})}
	s.down, s.goDown = context.WithCancelCause(context.Background())
	s.metrics = newMetrics(s, reg)
	return s, nil
}

// Ready is closed when calls are served: a member leads or knows who does, or the client of an etcd elsewhere is made.
func (s *Store) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx ends (nil) or the member fails, in a way that etcd alone
// would have ended the process for. Run is called once.
func (s *Store) Run(ctx context.Context) error {
	defer s.goDown(errDown)
	switch {
	case len(s.cfg.Endpoints) > 0:
		return s.runClient(ctx, s.cfg.Endpoints)
	case s.cfg.Member.Dir == "":
		return s.runClient(ctx, s.cfg.clientEndpoints())
	}
	return s.runMember(ctx)
}

// dial makes a client of listeners that are open, or will be.
func (c Config) dial(endpoints []string, logger *slog.Logger) (*clientv3.Client, error) {
	return c.dialWith(endpoints, newZap(logger, func(error) {}))
}

func (c Config) dialWith(endpoints []string, lg *zap.Logger) (*clientv3.Client, error) {
	tlsConfig := c.TLS
	if tlsConfig == nil {
		var err error
		if tlsConfig, err = c.Files.client(); err != nil {
			return nil, err
		}
	}
	cfg := clientv3.Config{
		Endpoints:            endpoints,
		TLS:                  tlsConfig,
		Username:             c.Username,
		Password:             c.Password,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		Logger:               lg,
		Context:              context.Background(),
		// gRPC's own back-off grows to two minutes: so long would a broker stay away
		// after the metadata are back.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: dialPause},
			MinConnectTimeout: dialTimeout,
		})},
	}
	if c.shared() {
		cfg.AutoSyncInterval = endpointsEvery
	}
	cl, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("metadata store: %w", err)
	}
	return cl, nil
}

func (s *Store) runClient(ctx context.Context, endpoints []string) error {
	c, err := s.cfg.dialWith(endpoints, newZap(s.logger, s.fail))
	if err != nil {
		return err
	}
	s.client = c
	close(s.ready)
	s.logger.Info("metadata store is elsewhere", "endpoints", endpoints)
	learning, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.learnVoters(learning) })
	select {
	case <-ctx.Done():
	case <-s.failed:
	}
	stop()
	wg.Wait()
	s.drain()
	_ = c.Close() // says only that its context is over
	return s.failure()
}

// learnVoters asks whom it was told of who votes by now, before that one is away;
// after that the client does so from time to time.
func (s *Store) learnVoters(ctx context.Context) {
	if !s.cfg.shared() {
		return
	}
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	for {
		one, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
		err := s.client.Sync(one)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Store) runMember(ctx context.Context) error {
	start := time.Now()
	m, err := startMember(ctx, s.cfg, s.logger, s.fail, s.failed)
	if err != nil {
		if errors.Is(err, errFatal) {
			err = s.failure()
		}
		return err
	}
	s.member.Store(m)
	s.client = m.client()
	close(s.ready)
	s.logger.Info("metadata store is up", "dir", s.cfg.Member.Dir, "took", time.Since(start).Round(time.Millisecond))

	care, stopCare := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { newCaretaker(s, m).run(care) })
	wg.Go(func() { s.settle(care, m) })
	var end error // of an etcd that ended, as against one that stands still where it failed
	select {
	case <-ctx.Done():
	case <-s.failed:
	case <-m.etcd.Server.StopNotify():
		end = m.stopped()
	case end = <-m.refused():
	}
	stopCare()
	s.drain()
	s.member.Store(nil)
	if s.failure() == nil {
		wg.Wait()
		_ = s.client.Close() // says only that its context is over
	}
	m.stop(s.failed)
	if err := s.failure(); err != nil {
		return err
	}
	return end
}

// drain ends the calls under way. After a fatal error some may be parked in etcd's code.
func (s *Store) drain() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.goDown(errDown)
	done := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-s.failed:
		select {
		case <-done:
		case <-time.After(stopTimeout):
		}
	}
}

func (s *Store) fail(err error) {
	s.failMu.Lock()
	defer s.failMu.Unlock()
	if s.fatal == nil {
		s.fatal = fmt.Errorf("%w: %w", errFatal, err)
		s.logger.Error("metadata store failed", "cause", err)
		close(s.failed)
	}
}

func (s *Store) failure() error {
	s.failMu.Lock()
	defer s.failMu.Unlock()
	return s.fatal
}

// call waits for the client and gives the call a context that ends with ctx,
// with the store, or after the request time-out. done must be called at its end.
func (s *Store) call(ctx context.Context) (_ context.Context, done func(), err error) {
	ctx, detach, err := s.attach(ctx)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	if s.cfg.shared() && s.cfg.Member.Dir == "" {
		// A member that was cut off refuses at once and for certain, instead of
		// waiting with the request until it is a maybe.
		ctx = clientv3.WithRequireLeader(ctx)
	}
	return ctx, func() { cancel(); detach() }, nil
}

// attach is call without a time-out, for watches.
func (s *Store) attach(ctx context.Context) (_ context.Context, done func(), err error) {
	refuse := func(cause error) error { return fmt.Errorf("%w: %w", metastore.ErrUnavailable, cause) }
	if err := ctx.Err(); err != nil {
		return nil, nil, refuse(err)
	}
	wait, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	select {
	case <-s.ready:
	case <-s.down.Done():
		return nil, nil, refuse(context.Cause(s.down))
	case <-wait.Done():
		return nil, nil, refuse(wait.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, nil, refuse(errDown)
	}
	s.calls.Add(1)
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.down, func() { end(errDown) })
	return ctx, func() { stop(); end(nil); s.calls.Done() }, nil
}

// Rev implements metastore.Store.
func (s *Store) Rev(ctx context.Context) (int64, error) {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	// The cheapest linearizable read: one key's index, no value.
	r, err := s.client.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return 0, readError("read revision", err)
	}
	return r.Header.Revision, nil
}

// List implements metastore.Store.
func (s *Store) List(ctx context.Context, prefix, from string, rev int64, limit int) (metastore.Page, error) {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return metastore.Page{}, err
	}
	defer done()
	key, end := max(prefix, from), metastore.PrefixEnd(prefix)
	if end != "\x00" && key >= end { // etcd would refuse nothing, and read nothing, at a revision of its own
		key, end = prefix, "" // the prefix itself, to learn the revision; dropped below
	}
	if key == "" {
		key = "\x00"
	}
	opts := []clientv3.OpOption{clientv3.WithLimit(int64(limit)), clientv3.WithRev(rev)}
	if end != "" {
		opts = append(opts, clientv3.WithRange(end))
	}
	r, err := s.client.Get(ctx, key, opts...)
	if err != nil {
		return metastore.Page{}, readError(fmt.Sprintf("list %q at %d", prefix, rev), err)
	}
	p := metastore.Page{Rev: r.Header.Revision}
	if rev > 0 {
		p.Rev = rev
	}
	if end != "" {
		p.KVs, p.More = toKVs(r.Kvs), r.More
	}
	return p, nil
}

// Compact implements metastore.Compacter. An embedded member compacts by itself too.
func (s *Store) Compact(ctx context.Context, rev int64) error {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	if _, err := s.client.Compact(ctx, rev); err != nil {
		return writeError(fmt.Sprintf("compact at %d", rev), err)
	}
	return nil
}
