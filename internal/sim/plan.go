package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// plan is what a seed gives: settings, and what happens when. It is drawn before
// anything runs, so the same seed gives the same plan; the order of goroutines
// is their own.
type plan struct {
	rng    *rand.Rand
	length time.Duration
	fenced bool
	ttl    time.Duration // of sessions
	lag    time.Duration // replica.lag.time.max.ms
	delay  time.Duration // the slowest packet
	sync   time.Duration // the slowest sync, but for some
	min    int           // min.insync.replicas
	pace   time.Duration // between two batches of a producer
	steps  []step
	wiped  bool
	// unsynced: acknowledgements do not wait for syncs. Then what all in-sync
	// replicas lost with their power is lost, so they lose it one at a time.
	unsynced bool
}

// step is one event of the plan.
type step struct {
	at   time.Duration
	what string
	do   func(w *World)
}

func newPlan(o Options) *plan {
	p := &plan{rng: rand.New(rand.NewPCG(o.Seed, 0)), fenced: o.Seed%2 == 0, unsynced: o.Seed%5 == 4, length: o.Length}
	if p.length == 0 {
		p.length = time.Duration(12+p.rng.IntN(18)) * time.Second
	}
	p.ttl = time.Duration(pick(p.rng, 2, 3, 4, 9)) * time.Second
	p.lag = time.Duration(pick(p.rng, 600, 1000, 3000, 10000)) * time.Millisecond
	p.delay = time.Duration(pick(p.rng, 1, 5, 20, 100)) * time.Millisecond
	p.sync = time.Duration(pick(p.rng, 1, 5, 20)) * time.Millisecond
	p.min = pick(p.rng, 2, 2, 2, 1)
	p.pace = time.Duration(pick(p.rng, 80, 150, 300)) * time.Millisecond
	for range 2 + p.rng.IntN(7) {
		p.fault()
	}
	for range p.rng.IntN(4) {
		p.wish()
	}
	slices.SortStableFunc(p.steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return p
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func (p *plan) String() string {
	return fmt.Sprintf("fenced %t, unsynced %t, session %v, lag %v, packets %v, syncs %v, min.insync.replicas %d, pace %v, %v of faults",
		p.fenced, p.unsynced, p.ttl, p.lag, p.delay, p.sync, p.min, p.pace, p.length)
}

// settings of every broker.
func (p *plan) settings() []string {
	ms := func(key string, d time.Duration) string { return fmt.Sprintf("%s=%d", key, d.Milliseconds()) }
	return []string{
		"log.dirs=/data", "barnabas.admin.listener=", fmt.Sprintf("barnabas.durable.acks=%t", !p.unsynced),
		ms("broker.session.timeout.ms", p.ttl), ms("replica.lag.time.max.ms", p.lag), ms("barnabas.shutdown.timeout.ms", 5*time.Second),
		"default.replication.factor=3", "auto.create.topics.enable=false",
		"offsets.topic.num.partitions=1", "offsets.topic.replication.factor=3", fmt.Sprintf("offsets.topic.segment.bytes=%d", pick(p.rng, 2000, 20000)),
		ms("log.flush.offset.checkpoint.interval.ms", time.Duration(pick(p.rng, 1, 5, 60))*time.Second),
		ms("replica.high.watermark.checkpoint.interval.ms", time.Duration(pick(p.rng, 1, 5))*time.Second),
		ms("log.flush.start.offset.checkpoint.interval.ms", 5*time.Second),
		"log.segment.delete.delay.ms=2000", "initial.broker.registration.timeout.ms=60000",
		fmt.Sprintf("auto.leader.rebalance.enable=%t", p.rng.IntN(2) == 0), "leader.imbalance.check.interval.seconds=5",
	}
}

func (p *plan) at(at time.Duration, do func(w *World), format string, args ...any) {
	p.steps = append(p.steps, step{at, fmt.Sprintf(format, args...), do})
}

// span is when a fault begins and ends. Most are short, and many begin soon after
// something else happened: trouble does not come alone.
func (p *plan) span(longest time.Duration) (begin, end time.Duration) {
	begin = time.Duration(p.rng.Int64N(int64(p.length)))
	if len(p.steps) > 0 && p.rng.IntN(2) == 0 {
		begin = p.steps[p.rng.IntN(len(p.steps))].at + time.Duration(p.rng.Int64N(int64(time.Second>>p.rng.IntN(6))))
	}
	longest >>= p.rng.IntN(5)
	return begin, begin + time.Duration(p.rng.Int64N(int64(longest))) + time.Millisecond
}

// fault draws one.
func (p *plan) fault() {
	b := p.rng.IntN(brokers)
	weighted := []struct {
		weight int
		draw   func(b int)
	}{
		{20, p.cuts}, {8, p.kills}, {8, p.beheads}, {8, p.aftershocks}, {12, p.fuses}, {8, p.powerLoss}, {12, p.pauses}, {10, p.quorum}, {10, p.tricks},
		{6, p.disks}, {5, p.stops}, {3, p.wipes}, {5, p.clocks}, {3, p.compaction},
	}
	n := 0
	for _, f := range weighted {
		n += f.weight
	}
	n = p.rng.IntN(n)
	for _, f := range weighted {
		if n -= f.weight; n < 0 {
			f.draw(b)
			return
		}
	}
}

// cuts stops what a broker sends to another, or to clients, or the other way, or
// to and from everybody.
func (p *plan) cuts(b int) {
	begin, end := p.span(15 * time.Second)
	other := (b + 1 + p.rng.IntN(brokers-1)) % brokers
	var links [][2]int
	switch p.rng.IntN(5) {
	case 0:
		links = [][2]int{{b, other}}
	case 1:
		links = [][2]int{{b, other}, {other, b}}
	case 2:
		links = [][2]int{{b, (b + 1) % brokers}, {b, (b + 2) % brokers}}
	case 3:
		links = [][2]int{{(b + 1) % brokers, b}, {(b + 2) % brokers, b}}
	case 4:
		links = [][2]int{{b, (b + 1) % brokers}, {b, (b + 2) % brokers}, {(b + 1) % brokers, b}, {(b + 2) % brokers, b}}
	}
	clients, reset := p.rng.IntN(4) == 0, p.rng.IntN(2) == 0
	each := func(w *World, on bool) {
		for _, l := range links {
			w.net.cut(w.nodes[l[0]].name, w.nodes[l[1]].name, on)
		}
		if clients {
			w.net.cut(w.nodes[b].name, clientHost, on)
			w.net.cut(clientHost, w.nodes[b].name, on)
		}
	}
	p.at(begin, func(w *World) {
		w.count("cut")
		each(w, true)
	}, "cut %v, clients %t", links, clients)
	p.at(end, func(w *World) {
		each(w, false)
		for _, l := range links {
			if reset {
				w.net.reset(w.nodes[l[0]].name, w.nodes[l[1]].name)
			}
		}
	}, "mend %v, reset %t", links, reset)
}

// kills ends one process, or all.
func (p *plan) kills(b int) { p.crashes(b, p.rng.IntN(6) == 0, false) }

// powerLoss takes the power of one machine, or of all.
func (p *plan) powerLoss(b int) { p.crashes(b, p.rng.IntN(3) == 0, true) }

func (p *plan) crashes(b int, all, powerless bool) {
	begin, _ := p.span(time.Second)
	p.at(begin, func(w *World) { w.strike(b, all, powerless) }, "crash of %d, all %t, power lost %t", b+1, all, powerless)
	p.revival(b, all, begin, 8*time.Second)
}

// beheads ends whoever leads a partition when the time has come.
func (p *plan) beheads(int) {
	begin, end := p.span(8 * time.Second)
	part, powerless := p.rng.IntN(partitions), p.rng.IntN(2) == 0
	p.at(begin, func(w *World) {
		b := w.leads(part)
		if b < 0 {
			return
		}
		w.strike(b, false, powerless)
		w.all.Go(func() {
			if sleep(w.ctx, end-begin) == nil {
				w.nodes[b].start()
			}
		})
	}, "crash of the leader of %d, power lost %t", part, powerless)
}

// aftershocks end the leader of a partition, and let it return once another
// leads; soon after, while it fits its log to the other's, that one ends.
func (p *plan) aftershocks(int) {
	begin, end := p.span(8 * time.Second)
	part, powerless := p.rng.IntN(partitions), p.rng.IntN(2) == 0
	after := time.Duration(p.rng.Int64N(int64(time.Second >> p.rng.IntN(4))))
	p.at(begin, func(w *World) {
		b := w.leads(part)
		if b < 0 {
			return
		}
		w.strike(b, false, powerless)
		w.all.Go(func() {
			next := w.nextLeader(part, b)
			w.nodes[b].start()
			if next < 0 || sleep(w.ctx, after) != nil {
				return
			}
			w.strike(next, false, powerless)
			if sleep(w.ctx, end-begin) == nil {
				w.nodes[next].start()
			}
		})
	}, "crash of the leader of %d, of the next one %v after its return, power lost %t", part, after, powerless)
}

// nextLeader waits for another leader than b; -1: none came.
func (w *World) nextLeader(part, b int) int {
	for range 100 {
		if now := w.leads(part); now >= 0 && now != b || sleep(w.ctx, 100*time.Millisecond) != nil {
			return now
		}
	}
	return -1
}

// leads is who leads a partition, as the store has it; -1: nobody.
func (w *World) leads(part int) int {
	if t, ok := w.image().Topic(theTopic); ok && t.Partitions[part].Leader > 0 {
		return int(t.Partitions[part].Leader) - 1
	}
	return -1
}

// revival starts what was struck.
func (p *plan) revival(b int, all bool, after, longest time.Duration) {
	for i := range brokers {
		if all || i == b {
			at := after + time.Duration(p.rng.Int64N(int64(longest>>p.rng.IntN(4)))) + time.Millisecond
			p.at(at, func(w *World) { w.nodes[i].start() }, "start of %d", i+1)
		}
	}
}

// strike ends one process, or all at once.
func (w *World) strike(b int, all, powerless bool) {
	if w.mended.Load() {
		return
	}
	if powerless && !w.maySwitchOff(b, all) {
		powerless = false
	}
	what := "kill"
	if powerless {
		what = "power loss"
	}
	if all {
		what += " of all"
	}
	w.count(what)
	for i, m := range w.nodes {
		if all || i == b {
			m.crash(powerless)
		}
	}
}

// maySwitchOff tells whether machines may lose what they have not synced: with
// durable acks always; else one of them, when all replicas are in sync, and the
// one before has come back and is in sync again by what it knows since.
func (w *World) maySwitchOff(b int, all bool) bool {
	if !w.plan.unsynced {
		return true
	}
	img := w.image()
	w.mu.Lock()
	defer w.mu.Unlock()
	if all || img.Revision() == 0 {
		return false
	}
	for i := range w.nodes {
		reg, there := img.Broker(kafka.NodeID(i + 1))
		if !there || reg.Epoch <= w.dark[i] {
			return false
		}
	}
	for t := range img.Topics() {
		for _, p := range t.Partitions {
			if len(p.ISR) < brokers {
				return false
			}
		}
	}
	w.dark[b] = img.Revision()
	return true
}

// fuses end a process in the middle of what it does to its disk.
func (p *plan) fuses(b int) {
	begin, _ := p.span(time.Second)
	all, powerless, after := p.rng.IntN(4) == 0, p.rng.IntN(2) == 0, 1+p.rng.IntN(60)
	p.at(begin, func(w *World) {
		w.nodes[b].blow(after, func() { w.strike(b, all, powerless) })
	}, "crash of %d in %d operations, all %t, power lost %t", b+1, after, all, powerless)
	p.revival(b, all, begin+3*time.Second, 8*time.Second)
}

// pauses stops a process for a while.
func (p *plan) pauses(b int) {
	begin, end := p.span(20 * time.Second)
	p.at(begin, func(w *World) {
		w.count("pause")
		w.nodes[b].freeze(true)
	}, "pause of %d", b+1)
	p.at(end, func(w *World) { w.nodes[b].freeze(false) }, "end of the pause of %d", b+1)
}

// quorum takes the metadata from one broker, or from all.
func (p *plan) quorum(b int) {
	begin, end := p.span(20 * time.Second)
	switch p.rng.IntN(3) {
	case 0:
		p.at(begin, func(w *World) {
			w.count("loss of the quorum")
			w.store.Stall(true)
		}, "loss of the quorum")
		p.at(end, func(w *World) { w.store.Stall(false) }, "return of the quorum")
	case 1:
		p.at(begin, func(w *World) {
			w.count("cut off from the metadata")
			w.nodes[b].cutOff(true)
		}, "metadata away from %d", b+1)
		p.at(end, func(w *World) { w.nodes[b].cutOff(false) }, "metadata back for %d", b+1)
	case 2:
		p.at(begin, func(w *World) {
			w.count("watch delayed")
			w.nodes[b].lag(true)
		}, "watches of %d stand still", b+1)
		p.at(end, func(w *World) { w.nodes[b].lag(false) }, "watches of %d go on", b+1)
	}
}

// tricks has metadata transactions of a broker, or of all, go wrong.
func (p *plan) tricks(b int) {
	begin, end := p.span(20 * time.Second)
	all, share := p.rng.IntN(2) == 0, int32(pick(p.rng, 10, 30, 80))
	set := func(share int32) func(w *World) {
		return func(w *World) {
			for i, m := range w.nodes {
				if all || i == b {
					m.tricks.Store(share)
				}
			}
		}
	}
	p.at(begin, set(share), "%d %% of the transactions of %d go wrong, of all %t", share, b+1, all)
	p.at(end, set(0), "transactions of %d go well, of all %t", b+1, all)
}

// disks makes syncs slow.
func (p *plan) disks(b int) {
	begin, end := p.span(20 * time.Second)
	slowest := time.Duration(pick(p.rng, 100, 1000, 5000)) * time.Millisecond
	set := func(d time.Duration) func(w *World) {
		return func(w *World) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.slow[w.nodes[b]] = d
		}
	}
	p.at(begin, set(slowest), "syncs of %d take up to %v", b+1, slowest)
	p.at(end, set(0), "syncs of %d are quick", b+1)
}

// stops ends a broker in order.
func (p *plan) stops(b int) {
	begin, end := p.span(8 * time.Second)
	p.at(begin, func(w *World) {
		w.count("stop")
		w.all.Go(w.nodes[b].end)
	}, "stop of %d", b+1)
	p.at(end, func(w *World) { w.nodes[b].start() }, "start of %d", b+1)
}

// wipes takes a disk away for good: one of a history, and none where a record
// may be on one alone.
func (p *plan) wipes(b int) {
	if p.wiped || p.min < 2 {
		return
	}
	p.wiped = true
	begin, end := p.span(8 * time.Second)
	p.at(begin, func(w *World) {
		if !w.maySwitchOff(b, false) {
			return
		}
		w.count("disk lost")
		w.nodes[b].crash(true)
		w.nodes[b].wipe()
	}, "loss of the disk of %d", b+1)
	p.at(end, func(w *World) { w.nodes[b].start() }, "start of %d", b+1)
}

// clocks lets time jump for a session: the machine slept.
func (p *plan) clocks(b int) {
	begin, _ := p.span(time.Second)
	by := time.Duration(1+p.rng.IntN(60)) * time.Second
	p.at(begin, func(w *World) {
		w.count("clock jump")
		w.nodes[b].skew.Add(int64(by))
	}, "clock of %d jumps by %v", b+1, by)
}

// compaction forgets the history of the metadata.
func (p *plan) compaction(int) {
	begin, _ := p.span(time.Second)
	p.at(begin, func(w *World) {
		w.count("compaction")
		ctx, cancel := w.moment()
		defer cancel()
		if w.store.Compact(ctx, w.image().Revision()) != nil {
			return // it has no quorum
		}
		for _, m := range w.nodes {
			m.breakWatches(metastore.ErrCompacted)
		}
	}, "compaction of the metadata")
}
