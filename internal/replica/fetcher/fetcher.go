package fetcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// Config of New.
type Config struct {
	Self kafka.NodeID
	// Epoch is this broker's own registration; without one, 0, nothing is
	// fetched, for no leader could count on it (KIP-903).
	Epoch func() int64
	// Dial connects to a leader. It fails while the leader is not registered.
	Dial func(ctx context.Context, leader kafka.NodeID) (*wire.Client, error)

	PartitionBytes int32         // replica.fetch.max.bytes
	AnswerBytes    int32         // replica.fetch.response.max.bytes
	MinBytes       int32         // replica.fetch.min.bytes
	Wait           time.Duration // replica.fetch.wait.max.ms
	Backoff        time.Duration // replica.fetch.backoff.ms: the longest
	Timeout        time.Duration // replica.socket.timeout.ms, beyond Wait

	// Throttle bounds what replicas fetch that are throttled and not in sync
	// (follower.replication.throttled.rate).
	Throttle *replica.Throttle

	Logger *slog.Logger
}

// Fetchers are the followers of one broker. All methods may be called from any
// goroutine; Run is called once.
type Fetchers struct {
	cfg Config

	mu      sync.Mutex
	of      map[*replica.Partition]following
	workers map[kafka.NodeID]*worker
	ctx     context.Context // of Run; nil before
	ended   bool
	busy    sync.WaitGroup
}

// following is who fetches a partition, in which leader epoch.
type following struct {
	w     *worker
	epoch kafka.LeaderEpoch
}

// New makes fetchers that follow nothing yet.
func New(cfg Config) *Fetchers {
	return &Fetchers{cfg: cfg, of: make(map[*replica.Partition]following), workers: make(map[kafka.NodeID]*worker)}
}

// Run fetches until ctx ends, and returns ctx's error when every goroutine is gone.
func (f *Fetchers) Run(ctx context.Context) error {
	f.mu.Lock()
	f.ctx = ctx
	for _, w := range f.workers {
		f.start(w)
	}
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.busy.Wait()
	return ctx.Err()
}

// start runs a worker; mu is held.
func (f *Fetchers) start(w *worker) { f.busy.Go(func() { w.run(f.ctx) }) }

// Entered looks at the role of a partition: who is to be fetched from. It does
// not block, and may be called for nothing.
func (f *Fetchers) Entered(p *replica.Partition) {
	at, follows := p.Following()
	leader := at.Leader
	if !follows || leader == f.cfg.Self {
		leader = kafka.NoNode
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was, known := f.of[p]
	if known && was.w.leader == leader && was.epoch == at.Epoch {
		return
	}
	if known && was.w.leader != leader {
		was.w.drop(p)
		delete(f.of, p)
	}
	if leader < 0 {
		return
	}
	w := f.workers[leader]
	if w == nil {
		w = newWorker(&f.cfg, leader)
		f.workers[leader] = w
		if f.ctx != nil && !f.ended {
			f.start(w)
		}
	}
	f.of[p] = following{w, at.Epoch}
	w.take(p)
}

// Wake has everyone look again at what a registration may have changed: this
// broker's, or a leader's.
func (f *Fetchers) Wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.workers {
		w.signal()
	}
}
