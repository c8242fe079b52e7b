package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/barnabas-mq/barnabas/internal/check"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// Options of Run.
type Options struct {
	// Seed gives the plan: settings, work, faults.
	Seed uint64
	// Length is for how long faults happen; 0: the plan's own choice.
	Length time.Duration
	// Traced asks for a Result's Trace even if nothing is wrong.
	Traced bool
}

// World is one history while it happens.
type World struct {
	o       Options
	plan    *plan
	fenced  bool
	began   time.Time
	ctx     context.Context // of the clients and the faults
	stop    context.CancelFunc
	all     sync.WaitGroup // every goroutine but the caller's
	clients sync.WaitGroup // all that write
	readers sync.WaitGroup
	groups  []*committer
	// noMore ends what is sent; noPatience what is not answered for.
	noMore, noPatience context.CancelFunc
	store              *metastore.Mem
	net                *network
	nodes              []*machine
	configs            []*config.Config
	trace              *trace
	history            *history
	dice               *dice
	mended             atomic.Bool // nothing bad happens any more

	mu     sync.Mutex
	slow   map[*machine]time.Duration // the slowest sync; 0: as usual
	counts map[string]int
	faults []string       // of the cluster, not of the plan
	dark   [brokers]int64 // the metadata's revision when a machine last lost its power
}

// A Result is what came of a history.
type Result struct {
	Verdict *check.Result
	Faults  map[string]int
	// Wrong is what the checker does not see: replicas that differ, a cluster that
	// does not get well.
	Wrong []string
	Trace string
}

// OK tells whether nothing was wrong.
func (r *Result) OK() bool { return r.Verdict.OK() && len(r.Wrong) == 0 }

func (r *Result) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(&b, "%s: %d, ", k, r.Faults[k])
	}
	b.WriteByte('\n')
	for _, w := range r.Wrong {
		fmt.Fprintf(&b, "WRONG: %s\n", w)
	}
	return b.String() + r.Verdict.String()
}

// Run makes the history of a seed and judges it. It is to be called in a bubble
// of testing/synctest: a history takes a minute or two of its time.
func Run(o Options) *Result {
	w := newWorld(o)
	late := time.AfterFunc(longest, func() { panic("a history does not end\n" + w.trace.String()) })
	defer late.Stop()
	watched, stop := context.WithCancel(context.Background())
	defer stop()
	go w.trace.watch(watched, w.store)
	for _, m := range w.nodes {
		m.start()
	}
	if w.begin() {
		w.work()
		w.misfortune()
		w.calm()
	}
	return w.end()
}

func newWorld(o Options) *World {
	w := &World{
		o: o, began: time.Now(), store: metastore.NewMem(), dice: newDice(o.Seed, 1),
		slow: map[*machine]time.Duration{}, counts: map[string]int{},
	}
	w.plan = newPlan(o)
	w.fenced = w.plan.fenced
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.net = newNetwork(newDice(o.Seed, 2).rng, w.plan.delay)
	w.history = &history{began: w.began, starts: map[int32]int64{}, judge: check.NewJudge(check.Options{Stale: !w.fenced})}
	w.trace = &trace{began: w.began}
	w.trace.add("seed %d: %s", o.Seed, w.plan.String())
	for id := 1; id <= brokers; id++ {
		m := newMachine(w, id)
		w.nodes = append(w.nodes, m)
		cfg, _, err := config.Load(config.Options{Set: append(w.plan.settings(),
			fmt.Sprintf("node.id=%d", id), "listeners=PLAINTEXT://"+m.name)})
		if err != nil {
			panic(err)
		}
		w.configs = append(w.configs, cfg)
	}
	return w
}

// longest is the time that no history takes.
const longest = 15 * time.Minute

// brokers of every history.
const brokers = 3

func (w *World) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// fault notes what is wrong and the checker does not see.
func (w *World) fault(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	w.trace.add("WRONG: %s", line)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, line)
}

// syncTime is how long a sync takes.
func (w *World) syncTime(m *machine) time.Duration {
	w.mu.Lock()
	slowest := w.slow[m]
	w.mu.Unlock()
	if slowest == 0 {
		slowest = w.plan.sync
		if m.dice.oneIn(20) {
			slowest *= 10
		}
	}
	return time.Microsecond + m.dice.upTo(slowest)
}

// storeTime is half of how long the metadata store takes.
func (w *World) storeTime(m *machine) time.Duration {
	return time.Microsecond + m.dice.upTo(5*time.Millisecond)
}

// moment is for what the store does at once, unless it has no quorum.
func (w *World) moment() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Millisecond)
}

// image is the state of the cluster as the store has it; empty without a quorum.
func (w *World) image() *meta.Image {
	ctx, cancel := w.moment()
	defer cancel()
	page, _ := w.store.List(ctx, meta.Root, "", 0, 0)
	for _, kv := range page.KVs {
		if id, ok := meta.ClusterOf(kv.Key); ok {
			of, err := w.store.List(ctx, meta.KeysOf(id).Prefix(), "", 0, 0)
			if err != nil {
				break
			}
			img, _ := meta.FromListing(id, of.KVs, of.Rev)
			return img
		}
	}
	return meta.Empty("")
}
