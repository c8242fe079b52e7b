package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/barnabas-mq/barnabas/broker"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// gate lets pass, or holds everybody who comes. The zero value is open.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // not nil while it is shut; closed when it opens
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.shut == nil:
		g.shut = make(chan struct{})
	case !shut && g.shut != nil:
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut != nil
}

// pass waits until the gate is open; the error is ctx's.
func (g *gate) pass(ctx context.Context) error {
	for {
		g.mu.Lock()
		c := g.shut
		g.mu.Unlock()
		if c == nil {
			return ctx.Err()
		}
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dice are a random generator for several goroutines.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newDice(seed, use uint64) *dice { return &dice{rng: rand.New(rand.NewPCG(seed, use))} }

// upTo is a time below d.
func (d *dice) upTo(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rng.Int64N(int64(most)))
}

func (d *dice) intn(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// fork is a generator of its own.
func (d *dice) fork() *rand.Rand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return rand.New(rand.NewPCG(d.rng.Uint64(), d.rng.Uint64()))
}

// oneIn is true once in n times.
func (d *dice) oneIn(n int) bool { return d.intn(n) == 0 }

// machine is what a broker runs on, and outlives it: a disk, a clock, a place in
// the network, a way to the metadata store.
type machine struct {
	w    *World
	id   int
	name string // its address

	frozen  atomic.Bool  // its processes do not run
	stopped gate         // by frozen
	away    gate         // the metadata store does not answer
	lags    atomic.Bool  // watches stand still
	skew    atomic.Int64 // of the session's clock
	tricks  atomic.Int32 // how often in 100 a metadata transaction goes wrong
	dice    *dice

	mu   sync.Mutex
	disk *vfs.Mem
	boot int      // times that the power came back
	run  *process // nil: down
	down bool     // on purpose: nobody starts it
}

// process is one life of a broker.
type process struct {
	m      *machine
	b      *broker.Broker
	store  *metastore.Faulty
	disk   *vfs.Mem
	cancel context.CancelFunc
	dead   context.Context // ends when it is killed
	kill   context.CancelFunc
	ended  chan struct{}
	fuse   atomic.Int64 // operations on the disk until it dies; 0: none
	blast  func()       // by the fuse
}

var errDead = errors.New("the process is dead")

func newMachine(w *World, id int) *machine {
	m := &machine{w: w, id: id, name: fmt.Sprintf("b%d:9092", id), disk: vfs.NewMem(), dice: newDice(w.o.Seed, 100+uint64(id))}
	return m
}

// start starts a broker, if none runs.
func (m *machine) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = false
	if m.run != nil {
		return
	}
	m.w.net.boot(m.name)
	dead, kill := context.WithCancel(context.Background())
	p := &process{m: m, store: metastore.NewFaulty(m.w.store), disk: m.disk, dead: dead, kill: kill, ended: make(chan struct{})}
	p.store.OnTxn(func(metastore.Txn) metastore.Fault { return m.fault() })
	p.store.HoldWatches(m.held())
	o := broker.Options{
		Config: m.w.configs[m.id-1], Logger: slog.New(m.w.trace.of(fmt.Sprintf("broker %d", m.id))),
		World: &broker.World{Files: vfs.Faulty(m.disk, p.file), Store: p.view(), BootID: fmt.Sprint("boot ", m.boot), Clock: m.clock, Listen: p.listen, Dial: p.dial},
	}
	b, err := broker.New(o)
	if err != nil {
		panic(err) // of the settings, which are fixed
	}
	p.b = b
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	m.run = p
	m.w.trace.add("broker %d starts", m.id)
	m.w.all.Go(func() {
		defer cancel()
		defer kill()
		err := b.Run(ctx)
		m.gone(p, err)
		close(p.ended)
	})
}

// gone is the end of a process that was not killed.
func (m *machine) gone(p *process, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != p {
		return
	}
	m.run = nil
	m.disk = m.disk.CrashClone(nil, vfs.ProcessKill)
	m.w.net.die(m.name, false)
	if err != nil {
		m.w.trace.add("broker %d ended by itself: %v", m.id, err)
		m.w.count("ended by itself")
	}
	if m.down {
		return
	}
	m.w.all.Go(func() { // as a service manager would
		if sleep(m.w.ctx, 500*time.Millisecond+m.dice.upTo(2*time.Second)) == nil && !m.isDown() {
			m.start()
		}
	})
}

func (m *machine) isDown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.down
}

// end stops the broker in order, and waits for it.
func (m *machine) end() {
	m.mu.Lock()
	p := m.run
	m.down = true
	m.mu.Unlock()
	if p != nil {
		m.w.trace.add("broker %d is stopped", m.id)
		p.cancel()
		<-p.ended
	}
}

// crash ends the process at this instant: nothing it does from here on has an
// effect. It may be called from the process itself, under its locks. What it
// had not synced stays in the page cache, or is lost in part with the power.
func (m *machine) crash(powerless bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = true
	how := vfs.ProcessKill
	if powerless {
		m.boot++
		how = vfs.PowerLoss
		if m.dice.oneIn(2) {
			how = vfs.CrashOptions{}
		}
	}
	p := m.run
	m.run = nil
	if p != nil {
		p.kill()
	}
	m.w.net.die(m.name, powerless)
	m.disk = m.disk.CrashClone(m.dice.fork(), how)
	if p != nil {
		p.cancel()
	}
	m.frozen.Store(false)
	m.stopped.set(false)
	m.w.trace.add("broker %d dies, power lost: %t", m.id, powerless)
}

// wipe puts an empty disk into a machine that is down.
func (m *machine) wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		m.disk = vfs.NewMem()
		m.w.trace.add("broker %d has an empty disk", m.id)
	}
}

// freeze stops the process for a while, or lets it go on.
func (m *machine) freeze(on bool) {
	m.w.trace.add("broker %d paused: %t", m.id, on)
	m.frozen.Store(on)
	m.stopped.set(on)
	m.w.net.pause(m.name, on)
	m.holdWatches()
}

// cutOff takes the metadata store away from this machine.
func (m *machine) cutOff(on bool) {
	m.w.trace.add("broker %d cut off from the metadata: %t", m.id, on)
	m.away.set(on)
	m.holdWatches()
}

// lag has watches stand still.
func (m *machine) lag(on bool) {
	m.w.trace.add("watches of broker %d stand still: %t", m.id, on)
	m.lags.Store(on)
	m.holdWatches()
}

func (m *machine) held() bool { return m.frozen.Load() || m.away.isShut() || m.lags.Load() }

func (m *machine) holdWatches() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != nil {
		m.run.store.HoldWatches(m.held())
	}
}

// clock is the session's. Without fencing by the clock it stands still: then no
// session of a process ever runs out by itself.
func (m *machine) clock() time.Duration {
	if !m.w.fenced {
		return time.Hour
	}
	return time.Since(m.w.began) + time.Duration(m.skew.Load()) + time.Hour
}

// fault is what becomes of a metadata transaction.
func (m *machine) fault() metastore.Fault {
	if m.dice.intn(100) >= int(m.tricks.Load()) {
		return metastore.Fault{}
	}
	kinds := []metastore.FaultKind{metastore.Refused, metastore.LostRequest, metastore.LostAnswer, metastore.LostAnswer, metastore.Late, metastore.Late}
	f := metastore.Fault{Kind: kinds[m.dice.intn(len(kinds))], Delay: time.Millisecond + m.dice.upTo(4*time.Second)}
	m.w.count("transaction gone wrong")
	return f
}

// blow has the process die at one of its next operations on the disk.
func (m *machine) blow(after int, blast func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != nil {
		m.run.blast = blast
		m.run.fuse.Store(int64(after))
	}
}

// file is called before each operation on the disk.
func (p *process) file(op vfs.Op) error {
	if p.dead.Err() != nil {
		return errDead
	}
	if op.Kind.Changes() && p.fuse.Load() > 0 && p.fuse.Add(-1) == 0 {
		p.m.w.trace.add("broker %d dies before %v", p.m.id, op)
		p.blast()
		return errDead
	}
	if op.Kind != vfs.OpSync || !strings.HasSuffix(op.Name, ".log") || !flushing() {
		return nil
	}
	// The sync of a flush, which nobody holds a lock for: it takes its time.
	if p.m.stopped.pass(p.dead) != nil || sleep(p.dead, p.m.w.syncTime(p.m)) != nil || p.m.stopped.pass(p.dead) != nil {
		return errDead
	}
	return nil
}

// flushing: a flush of a log is what syncs. Other syncs are made under locks,
// and fake time stands still while somebody waits for a lock.
func flushing() bool {
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "storage.(*Log).flush") {
			return true
		}
		if !more {
			return false
		}
	}
}

func (p *process) listen(context.Context, string) (net.Listener, error) {
	if p.dead.Err() != nil {
		return nil, errDead
	}
	return p.m.w.net.listen(p.m.name)
}

func (p *process) dial(ctx context.Context, address string) (net.Conn, error) {
	if p.dead.Err() != nil {
		return nil, errDead
	}
	c, err := p.m.w.net.dial(ctx, p.m.name, address)
	if err == nil && p.dead.Err() != nil {
		_ = c.Close()
		return nil, errDead
	}
	return c, err
}

// breakWatches ends the watches of the process that runs.
func (m *machine) breakWatches(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != nil {
		m.run.store.BreakWatches(err)
	}
}

// ready: a broker runs, and serves.
func (m *machine) ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		return false
	}
	select {
	case <-m.run.b.Ready():
		return true
	default:
		return false
	}
}
