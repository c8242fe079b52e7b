package coord

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/loop"
	"github.com/barnabas-mq/barnabas/internal/replica"
)

// Partition is what a shard needs of the partition it lives on:
// *replica.Partition.
type Partition interface {
	Leading() (kafka.LeaderEpoch, bool)
	Admit() error
	Append(now time.Time, buf []byte, o replica.AppendOpts) (replica.AppendResult, error)
	AwaitCommitted(ctx context.Context, epoch kafka.LeaderEpoch, offset int64) error
	Read(now time.Time, r replica.ReadReq) (replica.ReadResult, error)
	HighWatermark() int64
	Bounds() (start, end int64)
}

// Config of New.
type Config struct {
	// Name says in logs and metrics what is coordinated: "group".
	Name string
	// Partition finds the replica of a shard on this broker.
	Partition func(shard int32) (Partition, bool)
	// Machine makes an empty machine for a shard.
	Machine func(shard int32) Machine
	// Begin makes the first command of a machine after its load, nil for none:
	// what Broadcast would have told it meanwhile. It is asked again after a time
	// in which the partition could not be written and something was broadcast.
	Begin func() Command
	// Effect does what a machine asked for, once it is committed. It does not
	// block. Nil where machines have no effects.
	Effect func(shard int32, e Effect)

	Workers int // that run shards
	// MaxBatchBytes is where a batch of several steps' records is closed, and the
	// append with it: below the topic's max.message.bytes, by what compression
	// adds to what cannot be compressed. One step may append three of them, which
	// its segment.bytes must hold, and larger ones append more than once.
	MaxBatchBytes int
	Encoding      batch.Encoding
	LoadBytes     int // read at a time while loading
	MaxQueued     int // commands that wait for one shard; more are refused
	// CommitTimeout is how long a reply may wait for its records to be committed;
	// then it is COORDINATOR_NOT_AVAILABLE, which is a maybe: they may be yet. 0:
	// as long as it takes. Effects always wait.
	CommitTimeout time.Duration

	Log     *slog.Logger
	Metrics *Metrics
}

// The bounds of the back-off between failed loads.
const (
	minBackOff = 100 * time.Millisecond
	maxBackOff = 10 * time.Second
)

// loaders bounds the shards that load at once: the disk is one.
const loaders = 2

// Runtime runs the shards that this broker leads.
type Runtime struct {
	cfg  Config
	exec *loop.Executor
	load chan struct{} // a slot a load
	// calls are reused. They are the runtime's own: a channel made in one synctest
	// bubble must not turn up in another.
	calls sync.Pool

	sleep sleep

	mu     sync.RWMutex // the map only
	shards map[int32]*shard

	ctx  context.Context // of Run; set before anything is elected
	wg   sync.WaitGroup  // loads and releases
	calm chan struct{}   // closed by the begin of Run
}

// New makes a runtime without shards; Run has to run before Elected is called.
func New(cfg Config) *Runtime {
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil, cfg.Name)
	}
	return &Runtime{
		cfg: cfg, exec: loop.New(cfg.Workers), load: make(chan struct{}, loaders),
		shards: make(map[int32]*shard), calm: make(chan struct{}),
		calls: sync.Pool{New: func() any { return &call{done: make(chan answer, 1)} }},
	}
}

// Run works until ctx ends; every shard is dropped then.
func (r *Runtime) Run(ctx context.Context) error {
	r.ctx = ctx
	r.sleep.begin()
	r.wg.Go(func() { r.sleep.watch(ctx, r.cfg.Log) })
	close(r.calm)
	err := r.exec.Run(ctx)
	for _, s := range r.all() {
		s.resign()
	}
	r.wg.Wait()
	return err
}

// Started is closed once Run runs.
func (r *Runtime) Started() <-chan struct{} { return r.calm }

// Elected says that this broker leads a shard's partition in a term. The load
// begins, unless the shard is in that term or a later one. A shard that was
// resigned takes any: its topic may be another one.
func (r *Runtime) Elected(shard int32, epoch kafka.LeaderEpoch) {
	<-r.calm
	r.mu.Lock()
	s := r.shards[shard]
	if s == nil {
		s = newShard(r, shard)
		r.shards[shard] = s
	}
	r.mu.Unlock()
	s.elect(epoch)
}

// Resigned says that this broker does not lead a shard's partition, or that the
// partition is gone.
func (r *Runtime) Resigned(shard int32) {
	r.mu.RLock()
	s := r.shards[shard]
	r.mu.RUnlock()
	if s != nil {
		s.resign()
	}
}

// Do hands a command to a shard's machine and waits for the reply. The command
// and its memory are the caller's again once Do has returned, whatever it returned.
func (r *Runtime) Do(ctx context.Context, shard int32, cmd Command) (any, error) {
	r.mu.RLock()
	s := r.shards[shard]
	r.mu.RUnlock()
	if s == nil {
		return nil, fmt.Errorf("%w: %s shard %d", kerr.NotCoordinator, r.cfg.Name, shard)
	}
	return s.do(ctx, cmd)
}

// Broadcast hands a command to the machine of every active shard; nobody is
// answered. A shard that loads, or whose partition cannot be written, is told by
// Config.Begin, so what is broadcast must show there before. The two may overlap:
// a machine that was told of something can hear of older things after it.
func (r *Runtime) Broadcast(cmd Command) {
	for _, s := range r.all() {
		if s.post(event{cmd: cmd}) == nil {
			s.key.Wake()
		}
	}
}

// Active lists the shards whose machines answer, in no order.
func (r *Runtime) Active() []int32 {
	var out []int32
	for _, s := range r.all() {
		if s.active() {
			out = append(out, s.id)
		}
	}
	return out
}

// Ready says whether a shard's machine answers: nil, NOT_COORDINATOR, or
// COORDINATOR_LOAD_IN_PROGRESS.
func (r *Runtime) Ready(shard int32) error {
	r.mu.RLock()
	s := r.shards[shard]
	r.mu.RUnlock()
	if s == nil {
		return kerr.NotCoordinator
	}
	return s.ready()
}

func (r *Runtime) all() []*shard {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]*shard, 0, len(r.shards))
	for _, s := range r.shards {
		out = append(out, s)
	}
	return out
}
