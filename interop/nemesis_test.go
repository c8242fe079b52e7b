//go:build interop && linux

package interop

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Three brokers, each on a machine of its own, lose nothing of what they
// acknowledged while processes are killed, stopped and paused, machines cut off,
// ways blocked in one direction and links slowed down, and each time the clients
// in three languages go on by themselves. Every kind of fault comes once, in an
// order by a seed that is logged; INTEROP_MINUTES says for how long faults come
// at random instead, also two at a time.
func TestNemesis(t *testing.T) {
	n := newNetwork(t)
	minutes, _ := strconv.ParseFloat(os.Getenv("INTEROP_MINUTES"), 64)
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("INTEROP_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d", seed)
	c := startClusterOn(t, n, slices.Concat([]string{"offsets.topic.num.partitions=10"}, consumerTimes)...)
	topic := createReplicated(t, c.bootstrap(), "history", partitions, 3, nil, c.opts...)
	x := &nemesis{cluster: c, net: n, rnd: rand.New(rand.NewPCG(seed, 2)), topics: []string{topic, "__consumer_offsets"}, counts: map[string]int{}, slowest: map[string]time.Duration{}}
	x.cl = client(t, c)
	x.history = startHistory(t, c.bootstrap(), topic, n.inside(clientsAt)...)
	x.work = x.history.follow()
	x.whole()
	if minutes > 0 {
		x.random(time.Now().Add(time.Duration(minutes * float64(time.Minute))))
	} else {
		x.each()
	}
	x.whole()
	x.tell()
	x.history.judge()
	for _, b := range c.nodes {
		b.stop()
	}
}

// client is one of franz-go that reaches the cluster.
func client(t *testing.T, c *cluster) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(slices.Clone(c.opts), kgo.SeedBrokers(c.addrs[:]...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// nemesis makes faults and waits until they are forgotten.
type nemesis struct {
	*cluster
	net     *network
	rnd     *rand.Rand
	cl      *kgo.Client
	topics  []string
	history *history
	work    *work
	counts  map[string]int           // by kind of fault
	slowest map[string]time.Duration // by kind of fault, from its end until the clients went on
}

// fault is a kind of fault; its victim is a broker's number, from 1 on.
type fault struct {
	name  string
	begin func(x *nemesis, victim int) (heal func())
}

// other is another broker than the victim.
func (x *nemesis) other(victim int) int { return (victim+x.rnd.IntN(2))%3 + 1 }

// ways blocks the ways given.
func (x *nemesis) ways(pairs ...[2]int) (heal func()) {
	for _, p := range pairs {
		x.net.block(p[0], p[1])
	}
	return func() {
		for _, p := range pairs {
			x.net.unblock(p[0], p[1])
		}
	}
}

func (x *nemesis) node(victim int) *broker { return x.nodes[victim-1] }

func (x *nemesis) signal(victim int, s syscall.Signal) {
	x.t.Helper()
	if err := x.node(victim).cmd.Process.Signal(s); err != nil {
		x.t.Fatal(err)
	}
}

var faults = []fault{
	{"kill", func(x *nemesis, v int) func() {
		x.node(v).kill()
		return func() { x.launch(v - 1) }
	}},
	{"stop", func(x *nemesis, v int) func() {
		x.node(v).stop()
		return func() { x.launch(v - 1) }
	}},
	{"pause", func(x *nemesis, v int) func() {
		x.signal(v, syscall.SIGSTOP)
		return func() { x.signal(v, syscall.SIGCONT) }
	}},
	{"cut machine", func(x *nemesis, v int) func() {
		x.net.cut(v)
		return func() { x.net.mend(v) }
	}},
	{"cut pair", func(x *nemesis, v int) func() { // the third broker sees both
		o := x.other(v)
		return x.ways([2]int{v, o}, [2]int{o, v})
	}},
	{"cut one way", func(x *nemesis, v int) func() {
		if x.rnd.IntN(2) == 0 {
			return x.ways([2]int{v, x.other(v)})
		}
		return x.ways([2]int{x.other(v), v})
	}},
	{"cut off from brokers", func(x *nemesis, v int) func() { // its clients see it, and it does not know better
		a, b := v%3+1, (v+1)%3+1
		return x.ways([2]int{v, a}, [2]int{a, v}, [2]int{v, b}, [2]int{b, v})
	}},
	{"deaf to clients", func(x *nemesis, v int) func() { return x.ways([2]int{clientsAt, v}) }},
	{"mute to clients", func(x *nemesis, v int) func() { return x.ways([2]int{v, clientsAt}) }},
	{"slow link", func(x *nemesis, v int) func() {
		x.net.limit(v, 32<<x.rnd.IntN(7))
		return func() { x.net.unlimit(v) }
	}},
}

// killAll kills all processes at once.
func (x *nemesis) killAll() (heal func()) {
	for _, v := range x.rnd.Perm(3) {
		x.node(v + 1).kill()
	}
	return func() {
		for _, v := range x.rnd.Perm(3) {
			x.launch(v)
		}
	}
}

// hold is how long a fault lasts: often less than a session, in which nobody is
// given up, and otherwise more.
func (x *nemesis) hold(long bool) {
	d := time.Duration(x.rnd.IntN(2500)) * time.Millisecond
	if long {
		d += 9 * time.Second
	}
	pause(d)
}

// each has every kind of fault once, and one of them for longer than a session.
func (x *nemesis) each() {
	long := 2 + x.rnd.IntN(len(faults)-2) // who is killed or stopped is given up at once
	for _, i := range x.rnd.Perm(len(faults) + 1) {
		if i == len(faults) {
			x.round(false, false, nil)
		} else {
			x.round(i == long, false, []fault{faults[i]})
		}
	}
}

// random makes faults until a time.
func (x *nemesis) random(until time.Time) {
	for time.Now().Before(until) {
		which := []fault{faults[x.rnd.IntN(len(faults))]}
		switch n := x.rnd.IntN(20); {
		case n == 0:
			which = nil
		case n < 7:
			which = append(which, faults[x.rnd.IntN(len(faults))])
		}
		x.round(x.rnd.IntN(3) == 0, x.rnd.IntN(2) == 0, which)
	}
}

// round has faults begin, one after the other and each at another broker, and
// end, in any order, or kills all; then clients go on, and where whole says so
// all replicas are in sync again before the next.
func (x *nemesis) round(long, whole bool, which []fault) {
	x.t.Helper()
	var names []string
	var heals []func()
	victims := x.rnd.Perm(3)
	for i, f := range which {
		names = append(names, fmt.Sprintf("%s %d", f.name, victims[i]+1))
		x.counts[f.name]++
		heals = append(heals, f.begin(x, victims[i]+1))
		if i+1 < len(which) {
			x.hold(false)
		}
	}
	if which == nil {
		names = []string{"kill all"}
		x.counts["kill all"]++
		heals = append(heals, x.killAll())
	}
	began := time.Now()
	x.hold(long)
	held := time.Since(began)
	for n, i := range x.rnd.Perm(len(heals)) {
		if n > 0 {
			x.hold(false)
		}
		heals[i]()
	}
	healed, at := time.Now(), monotonic(x.t)
	what := strings.Join(names, " and ")
	for _, b := range x.nodes {
		if b.Addr == "" {
			b.awaitReady()
		}
	}
	last := x.work.goesOn(at)
	took := time.Since(healed)
	kind := strings.Join(kindsOf(which), " and ")
	x.slowest[kind] = max(x.slowest[kind], took)
	x.alive(what)
	more := ""
	if took > 5*time.Second {
		more = ", the last: " + last
	}
	if whole {
		x.whole()
		more += fmt.Sprintf(", all in sync %v after it", round(time.Since(healed)))
	}
	x.t.Logf("%s for %v: clients went on after %v%s", what, round(held), round(took), more)
}

func kindsOf(which []fault) (names []string) {
	for _, f := range which {
		names = append(names, f.name)
	}
	if len(names) == 0 {
		names = []string{"kill all"}
	}
	slices.Sort(names)
	return names
}

// alive demands that no broker ended by itself.
func (x *nemesis) alive(what string) {
	x.t.Helper()
	for i, b := range x.nodes {
		select {
		case err := <-b.done:
			b.done <- err
			x.t.Fatalf("%s: broker %d ended by itself: %v\n%s", what, i+1, err, b.log.last(40))
		default:
		}
	}
}

// whole waits until all replicas are in sync, as every broker sees it.
func (x *nemesis) whole() {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	for _, b := range x.cl.SeedBrokers() {
		for {
			missing := x.missingAt(ctx, b)
			if missing == "" {
				break
			}
			if ctx.Err() != nil {
				x.t.Fatalf("not all replicas are in sync a minute after the fault: %s", missing)
			}
			pause(50 * time.Millisecond)
		}
	}
}

func (x *nemesis) missingAt(ctx context.Context, b *kgo.Broker) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range x.topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kadm.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	resp, err := b.Request(ctx, req)
	if err != nil {
		return err.Error()
	}
	m := resp.(*kmsg.MetadataResponse)
	if len(m.Brokers) != len(x.nodes) {
		return fmt.Sprintf("%d brokers", len(m.Brokers))
	}
	for _, topic := range m.Topics {
		if topic.ErrorCode != 0 {
			return fmt.Sprintf("%s: error %d", *topic.Topic, topic.ErrorCode)
		}
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 || p.Leader < 0 || len(p.ISR) != len(x.nodes) {
				return fmt.Sprintf("%s-%d: leader %d, ISR %v, error %d", *topic.Topic, p.Partition, p.Leader, p.ISR, p.ErrorCode)
			}
		}
	}
	return ""
}

// tell logs what was done.
func (x *nemesis) tell() {
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(x.counts)) {
		total += x.counts[kind]
		x.t.Logf("%d times %s", x.counts[kind], kind)
	}
	slowest := slices.SortedFunc(maps.Keys(x.slowest), func(a, b string) int { return cmp.Compare(x.slowest[b], x.slowest[a]) })
	x.t.Logf("%d faults; the longest time until all clients went on was %v, after %s", total, round(x.slowest[slowest[0]]), slowest[0])
}
