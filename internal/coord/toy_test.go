package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// toy is a machine that holds a value for each key: what the last record of the
// key said. A command is a function of it.
type toy struct {
	r *rig

	hard    map[string]string // by the records alone
	records []string          // applied, in order
	markers []string

	waiting []Token // soft
	fired   []string
	inside  atomic.Int32 // calls under way
}

// act is a command of the toy.
type act func(m *toy, now time.Time, to Token) Out

// look is one that only looks.
type look act

func (look) Query() {}

func (m *toy) enter() func() {
	if m.inside.Add(1) != 1 {
		m.r.t.Error("two calls of a machine at once")
	}
	return func() { m.inside.Add(-1) }
}

func (m *toy) Step(now time.Time, to Token, cmd Command) Out {
	defer m.enter()()
	switch f := cmd.(type) {
	case act:
		return f(m, now, to)
	case look:
		return f(m, now, to)
	case *taken:
		return f.act(m, now, to)
	}
	panic(fmt.Sprintf("unknown command %T", cmd))
}

func (m *toy) Fire(now time.Time, key TimerKey) Out {
	defer m.enter()()
	m.fired = append(m.fired, key.ID)
	m.r.mu.Lock()
	f := m.r.onFire
	m.r.mu.Unlock()
	if f == nil {
		return Out{}
	}
	return f(m, now, key)
}

func (m *toy) Apply(rec Record, meta Meta) error {
	defer m.enter()()
	k, v := string(rec.Key), string(rec.Value)
	if k == "boom" && m.r.boom.Load() {
		panic("a record that the machine cannot bear")
	}
	if k == "odd" {
		return errors.New("a record that cannot be understood")
	}
	m.apply(k, v)
	if meta.Transactional {
		m.markers = append(m.markers, fmt.Sprintf("%d/%d:%s", meta.Producer.ID, meta.Producer.Epoch, k))
	}
	clear(rec.Key) // the bytes are the caller's, who is about to use them again
	clear(rec.Value)
	return nil
}

func (m *toy) apply(k, v string) {
	m.hard[k] = v
	m.records = append(m.records, k+"="+v)
}

func (m *toy) ApplyMarker(p Producer, commit bool) {
	m.markers = append(m.markers, fmt.Sprintf("%d/%d=%t", p.ID, p.Epoch, commit))
}

func (m *toy) Loaded(now time.Time) Out {
	defer m.enter()()
	select {
	case m.r.begun <- struct{}{}:
	default:
	}
	m.r.mu.Lock()
	f := m.r.onLoaded
	m.r.mu.Unlock()
	if f == nil {
		return Out{}
	}
	return f(m, now, 0)
}

// emit applies a record and gives it.
func (m *toy) emit(k, v string) Record {
	m.apply(k, v)
	return Record{Key: []byte(k), Value: []byte(v)}
}

// put sets a key, and answers with the value that it had.
func put(k, v string) act {
	return func(m *toy, _ time.Time, to Token) Out {
		was := m.hard[k]
		return Out{Records: []Record{m.emit(k, v)}, Replies: []Reply{{to, was}}}
	}
}

// get answers with the value of a key.
func get(k string) look {
	return func(m *toy, _ time.Time, to Token) Out { return Out{Replies: []Reply{{to, m.hard[k]}}} }
}

// wait is answered by the next wake.
func wait() act {
	return func(m *toy, _ time.Time, to Token) Out {
		m.waiting = append(m.waiting, to)
		return Out{}
	}
}

func wake() act {
	return func(m *toy, _ time.Time, to Token) (out Out) {
		for _, w := range m.waiting {
			out.Replies = append(out.Replies, Reply{w, "woken"})
		}
		m.waiting = nil
		out.Replies = append(out.Replies, Reply{to, len(out.Replies)})
		return out
	}
}

// ask has an effect, with a record before it where k is not empty.
func ask(effect, k string) act {
	return func(m *toy, _ time.Time, to Token) Out {
		out := Out{Effects: []Effect{effect}, Replies: []Reply{{to, nil}}}
		if k != "" {
			out.Records = []Record{m.emit(k, effect)}
		}
		return out
	}
}

// setTimer sets a timer that is due after d; dropTimer cancels it.
func setTimer(id string, d time.Duration) act {
	return func(m *toy, now time.Time, to Token) Out {
		return Out{Timers: []Timer{{TimerKey{ID: id}, now.Add(d)}}, Replies: []Reply{{to, nil}}}
	}
}

func dropTimer(id string) act {
	return func(m *toy, now time.Time, to Token) Out {
		return Out{Timers: []Timer{{Key: TimerKey{ID: id}}}, Replies: []Reply{{to, nil}}}
	}
}

// rig is a runtime of toys over partitions in memory.
type rig struct {
	t     testing.TB
	r     *Runtime
	parts map[int32]*part
	reg   *prometheus.Registry
	stop  func()        // ends Run
	begun chan struct{} // a machine has begun

	boom atomic.Bool // Apply panics

	mu       sync.Mutex
	onLoaded act
	onFire   func(*toy, time.Time, TimerKey) Out
	onEffect func(string)
	toys     map[int32][]*toy
	effects  []string
}

// active is a rig, inside a bubble, whose one shard answers.
func active(t testing.TB) (*rig, *part) {
	g := newRig(t, 1, nil)
	g.r.Elected(0, 0)
	synctest.Wait()
	return g, g.parts[0]
}

// newRig runs a runtime for as long as the test; cfg may change its settings.
func newRig(t testing.TB, shards int32, cfg func(*Config)) *rig {
	g := &rig{t: t, parts: map[int32]*part{}, toys: map[int32][]*toy{}, reg: prometheus.NewRegistry(), begun: make(chan struct{}, 1)}
	for i := range shards {
		g.parts[i] = newPart(t)
	}
	c := Config{
		Name: "toy", Workers: 2, MaxBatchBytes: 1 << 16, LoadBytes: 1 << 10, MaxQueued: 1000,
		Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(g.reg, "toy"),
		Partition: func(shard int32) (Partition, bool) {
			g.mu.Lock()
			defer g.mu.Unlock()
			p, ok := g.parts[shard]
			return p, ok
		},
		Machine: func(shard int32) Machine { return g.newToy(shard) },
		Effect: func(_ int32, e Effect) {
			g.mu.Lock()
			g.effects = append(g.effects, e.(string))
			f := g.onEffect
			g.mu.Unlock()
			if f != nil {
				f(e.(string))
			}
		},
	}
	if cfg != nil {
		cfg(&c)
	}
	g.r = New(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.r.Run(ctx) }()
	<-g.r.Started()
	g.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(g.stop)
	return g
}

// set changes what the test decides, under the lock.
func (g *rig) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

func (g *rig) newToy(shard int32) *toy {
	m := &toy{r: g, hard: map[string]string{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.toys[shard] = append(g.toys[shard], m)
	return m
}

// toy is the live machine of shard 0.
func (g *rig) toy() *toy {
	g.t.Helper()
	s := g.r.shards[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		g.t.Fatal("shard 0 has no machine")
	}
	return s.live.machine.(*toy)
}

// loads counts the machines that were made for shard 0.
func (g *rig) loads() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.toys[0])
}

// count reads one of the runtime's counters.
func (g *rig) count(name string) float64 {
	g.t.Helper()
	families, err := g.reg.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "barnabas_coordinator_"+name+"_total" {
			return f.Metric[0].Counter.GetValue()
		}
	}
	g.t.Fatalf("no counter %s", name)
	return 0
}

// said gives the effects so far, in order.
func (g *rig) said() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.effects, " ")
}

// going is a Do that somebody waits for.
type going struct {
	t    testing.TB
	what string
	done chan answer
}

// start hands a command to shard 0 and does not wait.
func (g *rig) start(ctx context.Context, what string, cmd Command) *going {
	o := &going{t: g.t, what: what, done: make(chan answer, 1)}
	go func() {
		body, err := g.r.Do(ctx, 0, cmd)
		o.done <- answer{body, err}
	}()
	return o
}

// waits fails the test when the answer is there already.
func (o *going) waits() {
	o.t.Helper()
	select {
	case a := <-o.done:
		o.t.Errorf("%s: answered too early: %v, %v", o.what, a.body, a.err)
		o.done <- a
	default:
	}
}

// is waits for the answer, which must be this.
func (o *going) is(want any) {
	o.t.Helper()
	if a := <-o.done; a.err != nil || a.body != want {
		o.t.Errorf("%s: %v, %v, want %v", o.what, a.body, a.err, want)
	}
}

// fails waits for the answer, which must be this error.
func (o *going) fails(want error) {
	o.t.Helper()
	if a := <-o.done; !errors.Is(a.err, want) {
		o.t.Errorf("%s: %v, %v, want the error %v", o.what, a.body, a.err, want)
	}
}

// do hands a command to shard 0; the answer must be this.
func (g *rig) do(what string, cmd Command, want any) {
	g.t.Helper()
	body, err := g.r.Do(context.Background(), 0, cmd)
	if err != nil || body != want {
		g.t.Errorf("%s: %v, %v, want %v", what, body, err, want)
	}
}

// refused hands a command to shard 0 that must fail.
func (g *rig) refused(what string, cmd Command, want error) {
	g.t.Helper()
	if body, err := g.r.Do(context.Background(), 0, cmd); !errors.Is(err, want) {
		g.t.Errorf("%s: %v, %v, want the error %v", what, body, err, want)
	}
}

// agrees holds the machine of shard 0, which must be idle, against its log.
func (g *rig) agrees() {
	g.t.Helper()
	m := g.toy()
	fed := &toy{r: g, hard: map[string]string{}}
	l := live{machine: fed}
	for _, b := range g.parts[0].batches() {
		if _, err := l.applyBatch(b); err != nil {
			g.t.Fatal(err)
		}
	}
	if !maps.Equal(m.hard, fed.hard) || !slices.Equal(m.records, fed.records) {
		g.t.Errorf("the machine holds %v, and its log %v", m.records, fed.records)
	}
}
