package broker

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// ghost is another broker as far as others can see: a registration under a
// lease that does not run out, and a port.
type ghost struct {
	t     *testing.T
	l     net.Listener
	lease int64
	epoch int64
	conns chan net.Conn
}

func newGhost(t *testing.T, mem *metastore.Mem, cluster, start string, controls bool) *ghost {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &ghost{t: t, l: l, conns: make(chan net.Conn, 16)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			g.conns <- nc
		}
	}()
	if g.lease, err = mem.Grant(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	at := meta.Listener{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "127.0.0.1", Port: int32(l.Addr().(*net.TCPAddr).Port)}
	self := &meta.Broker{ID: 2, StartID: start, Dirs: []kafka.DirID{{2, 1}}, Listeners: []meta.Listener{at}, Features: supportedFeatures()}
	keys := meta.KeysOf(cluster)
	r, err := plan.Register(keys, nil, self, g.lease)
	if err != nil {
		t.Fatal(err)
	}
	res, err := mem.Txn(t.Context(), r.Put)
	if err != nil || !res.Succeeded {
		t.Fatal(res, err)
	}
	g.epoch = res.Rev
	if controls {
		c := meta.Controller{Node: 2, BrokerEpoch: g.epoch}
		if _, err := mem.Txn(t.Context(), kv.Txn{Then: []kv.Op{kv.PutOp(keys.Controller(), c.Encode(), g.lease)}}); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// felt is the connection that somebody holds.
func (g *ghost) felt() net.Conn {
	g.t.Helper()
	select {
	case nc := <-g.conns:
		return nc
	case <-time.After(patience):
		g.t.Fatal("nobody holds a connection")
		return nil
	}
}

// A process that dies takes its connections and its port along, and its session
// is ended for it; one that only loses a connection goes on (safety 34).
func TestDeadBrokersSessionIsEnded(t *testing.T) {
	mem := metastore.NewMem()
	p := startOn(t, mem, "1", "barnabas.cluster.id=c")
	g := newGhost(t, mem, "c", "ghost", false)
	g.felt().Close()
	held := g.felt() // held again: it lives
	if p.awaitImage(func() bool { return p.registered(2) != nil }); p.registered(2).Epoch != g.epoch {
		t.Errorf("%+v", p.registered(2))
	}
	held.Close()
	last := g.felt()
	g.l.Close()
	last.Close()
	for len(g.conns) > 0 {
		(<-g.conns).Close()
	}
	p.awaitImage(func() bool { return p.registered(2) == nil })

	// Back without a restart: its port refuses for other reasons.
	again := newGhost(t, mem, "c", "ghost", false)
	p.awaitImage(func() bool { return p.registered(2) != nil })
	who := patient{node: 2, epoch: again.epoch}
	if _, ok := p.b.parts.pulse.condemned(p.image(), who, time.Now()); ok {
		t.Error("a broker that came back without a restart is condemned again")
	}
	if _, ok := p.b.parts.pulse.condemned(p.image(), who, time.Now().Add(pulseTrust+time.Minute)); !ok {
		t.Error("a broker is trusted for ever")
	}
}

// losing is a store that loses the first words about leases, as a leader of the
// metadata does that dies with the broker.
type losing struct {
	metastore.Store
	lost atomic.Int32
}

func (l *losing) Revoke(ctx context.Context, lease int64) error {
	if l.lost.Add(1) <= 2 {
		<-ctx.Done()
		return metastore.ErrMaybe
	}
	return l.Store.Revoke(ctx, lease)
}

// The end of a session is asked for until it is there.
func TestDeadBrokersSessionIsEndedInTheEnd(t *testing.T) {
	mem := metastore.NewMem()
	store := &losing{Store: mem}
	p := startOn(t, store, "1", "barnabas.cluster.id=c")
	g := newGhost(t, mem, "c", "ghost", false)
	held := g.felt()
	p.awaitImage(func() bool { return p.registered(2) != nil })
	g.l.Close()
	held.Close()
	p.awaitImage(func() bool { return p.registered(2) == nil })
	if n := store.lost.Load(); n != 3 {
		t.Errorf("asked %d times", n)
	}
}

// When the controller dies any broker ends its session, and one takes its place.
func TestDeadControllersSessionIsEnded(t *testing.T) {
	mem := metastore.NewMem()
	if _, err := mem.Txn(t.Context(), plan.Begin("c", 1)); err != nil {
		t.Fatal(err)
	}
	g := newGhost(t, mem, "c", "ghost", true)
	p := startOn(t, mem, "1")
	if c, _ := p.image().Controller(); c != 2 {
		t.Fatalf("controller %d", c)
	}
	held := g.felt()
	g.l.Close()
	held.Close()
	p.awaitImage(func() bool { c, _ := p.image().Controller(); return c == 1 && p.registered(2) == nil })
}

// Whose session may be ended, and by whom.
func TestCondemned(t *testing.T) {
	mem := metastore.NewMem()
	one := startOn(t, mem, "1", "barnabas.cluster.id=c")
	two := startOn(t, mem, "3")
	g := newGhost(t, mem, "c", "ghost", false)
	for _, p := range []*process{one, two} {
		p.awaitImage(func() bool { return p.registered(2) != nil })
	}
	who := patient{node: 2, epoch: g.epoch}
	may := func(p *process, who patient) bool {
		_, ok := p.b.parts.pulse.condemned(p.image(), who, time.Now())
		return ok
	}
	if !may(one, who) {
		t.Error("the controller may not end a dead broker's session")
	}
	if may(two, who) {
		t.Error("a broker that is not the controller ends another's session")
	}
	if may(one, patient{node: 2, epoch: g.epoch - 1}) {
		t.Error("the session of another registration is ended")
	}
	was := one.registered(2)
	leaving, err := plan.SetLeaving(one.image(), 2, g.epoch)
	if err != nil {
		t.Fatal(err)
	}
	res, err := mem.Txn(t.Context(), leaving)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.b.parts.keeper.Await(one.ctx(), res.Rev); err != nil {
		t.Fatal(err)
	}
	if may(one, who) {
		t.Error("the session of a broker that is leaving is ended")
	}
	// A look at the image that is older than the registration ends nothing.
	if gone, err := one.b.parts.pulse.revoke(one.ctx(), was); gone || err != nil {
		t.Errorf("the session of a registration that changed is ended: %t, %v", gone, err)
	}
	if _, err := mem.Renew(t.Context(), g.lease); err != nil {
		t.Errorf("its lease: %v", err)
	}
}

// counting is a store that counts the sessions that are ended.
type counting struct {
	metastore.Store
	ended atomic.Int32
}

func (c *counting) Revoke(context.Context, int64) error {
	c.ended.Add(1)
	return nil
}

// A session is ended only where a connection was there and ended, and the port
// refuses each of three times then (safety 34).
func TestPulse(t *testing.T) {
	mem := metastore.NewMem()
	p := startOn(t, mem, "1", "barnabas.cluster.id=c")
	g := newGhost(t, mem, "c", "ghost", false)
	p.awaitImage(func() bool { return p.registered(2) != nil })
	const ended, refused, held = 'e', 'r', 'h'
	for dials, want := range map[string]int32{"rrrrrrh": 0, "errh": 0, "ereerrh": 0, "errrh": 1} {
		store := &counting{Store: mem}
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		dial := func(ctx context.Context, _ string) (net.Conn, error) {
			what := dials[n]
			n++
			if what == refused {
				return nil, syscall.ECONNREFUSED
			}
			here, there := net.Pipe()
			if what == ended {
				there.Close()
			} else {
				cancel()
			}
			return here, ctx.Err()
		}
		feeling := &pulse{self: 1, keeper: p.b.parts.keeper, store: store, valid: func() bool { return true }, dial: dial, log: quiet}
		feeling.feel(ctx, patient{node: 2, epoch: g.epoch})
		if got := store.ended.Load(); got != want || n != len(dials) {
			t.Errorf("%s: %d sessions ended after %d dials, want %d", dials, got, n, want)
		}
		cancel()
	}
}
