package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// member is one broker of a cluster of three that share a partition, over a
// disk that forgets what was not synced.
type member struct {
	id    kafka.NodeID
	epoch int64 // of its registration
	up    bool
	mem   *vfs.Mem
	disk  *disk
	stop  func()
	p     *Partition
	free  func() // lets held syncs go on
	asked []Proposal
	wrote []written
}

// written is a record that waits to be acknowledged.
type written struct {
	epoch kafka.LeaderEpoch
	last  int64
	value string
}

// cluster is three members, the state that the metadata store holds, and what
// clients were told.
type cluster struct {
	t       *testing.T
	rng     *rand.Rand
	members []*member
	state   struct {
		epoch       int64
		leaderEpoch kafka.LeaderEpoch
		leader      kafka.NodeID
		leaderOf    int64
		isr         []kafka.NodeID
	}
	acked map[int64]string
	seen  map[int64]string // by consumers
	n     int
	epoch int64
}

func newCluster(t *testing.T, seed uint64) *cluster {
	c := &cluster{t: t, rng: rand.New(rand.NewPCG(seed, 1)), acked: map[int64]string{}, seen: map[int64]string{}}
	for id := kafka.NodeID(1); id <= 3; id++ {
		m := &member{id: id, mem: vfs.NewMem(), free: func() {}}
		c.members = append(c.members, m)
		c.start(m)
		c.state.isr = append(c.state.isr, id)
	}
	c.state.epoch = 1
	c.elect()
	return c
}

// start opens what is on the member's disk, as another incarnation of it.
func (c *cluster) start(m *member) {
	m.disk = &disk{stuck: make(chan struct{}, 1)}
	m.disk.FS = vfs.Faulty(m.mem, m.disk.before)
	logs, stop := logsOn(c.t, m.disk, "/data")
	cfg := storage.DefaultConfig()
	cfg.Durable = true
	log, err := logs.Create(testTP, kafka.TopicID{1}, cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	rules := testRules()
	rules.MinInSync, rules.Lag = 2, time.Hour
	m.p = newPartition(testTP, m.id, log, rules)
	m.p.propose = func(p Proposal) { m.asked = append(m.asked, p) }
	c.epoch++
	m.epoch, m.up, m.stop, m.asked, m.wrote = c.epoch, true, stop, nil, nil
}

// crash ends a member without warning; what it had not synced is gone.
func (c *cluster) crash(m *member) {
	m.mem = m.mem.CrashClone(c.rng, vfs.CrashOptions{})
	m.disk.fail(errors.New("crashed"))
	m.free()
	m.stop()
	m.up = false
}

func (c *cluster) member(id kafka.NodeID) *member { return c.members[id-1] }

// elect is the controller's part: brokers that are gone leave the ISR, but for
// the last member, and a leader that is gone is replaced.
func (c *cluster) elect() {
	s := &c.state
	kept := slices.DeleteFunc(slices.Clone(s.isr), func(id kafka.NodeID) bool { return !c.member(id).up })
	if len(kept) == 0 {
		kept = s.isr[:1]
	}
	changed := len(kept) != len(s.isr)
	s.isr = kept
	if s.leader == 0 || !c.member(s.leader).up || c.member(s.leader).epoch != s.leaderOf {
		s.leader, s.leaderOf = 0, 0
		if m := c.member(kept[c.rng.IntN(len(kept))]); m.up {
			s.leader, s.leaderOf = m.id, m.epoch
		}
		s.leaderEpoch++
		changed = true
	}
	if changed {
		s.epoch++
	}
}

// deliver shows the state to a member.
func (c *cluster) deliver(m *member) {
	s := &c.state
	v := isr.View{Committed: slices.Clone(s.isr), Replicas: 3, MinInSync: 2}
	var others []kafka.NodeID
	for _, o := range c.members {
		if !slices.Contains(s.isr, o.id) {
			v.Candidates = append(v.Candidates, isr.Candidate{Node: o.id, BrokerEpoch: o.epoch, May: o.up})
		}
		if o != m {
			others = append(others, o.id)
		}
	}
	of := s.leader
	if of == 0 {
		of = -1
	}
	m.free() // a term begins with a sync
	err := m.p.enter(term{
		epoch: s.leaderEpoch, leader: s.leader == m.id && s.leaderOf == m.epoch, of: of, view: v, others: others,
		stated: stated{epoch: s.epoch, brokerEpoch: m.epoch},
	})
	if err != nil {
		c.t.Fatalf("broker %d: %v", m.id, err)
	}
}

// carryOut is a proposal's transaction.
func (c *cluster) carryOut(m *member) {
	if len(m.asked) == 0 {
		return
	}
	p := m.asked[0]
	m.asked = m.asked[1:]
	s := &c.state
	holds := s.epoch == p.Base
	for _, j := range p.ISR {
		if !slices.Contains(s.isr, j.Node) && (!c.member(j.Node).up || c.member(j.Node).epoch != j.BrokerEpoch) {
			holds = false
		}
	}
	switch {
	case holds:
		s.isr = nil
		for _, j := range p.ISR {
			s.isr = append(s.isr, j.Node)
		}
		s.epoch++ // the answer may be lost; the image comes some time
	case s.epoch == p.Base:
		m.p.Withdraw(p)
	}
}

// fetch is one round of a follower with the leader that it knows.
func (c *cluster) fetch(m *member) {
	f, ok := m.p.Following()
	if !ok || f.Leader < 1 || !c.member(f.Leader).up {
		return
	}
	leader := c.member(f.Leader)
	now := time.Now()
	res, err := leader.p.Read(now, ReadReq{Offset: f.Offset, Epoch: f.Epoch, LastEpoch: f.LastEpoch, Max: 1 << 20, MinOne: true, Isolation: ReadLogEnd})
	if err != nil {
		if errors.Is(err, kerr.OffsetOutOfRange) {
			c.t.Fatalf("broker %d at %d: %v", m.id, f.Offset, err)
		}
		return // another epoch
	}
	defer res.Release()
	if res.Diverging != nil {
		m.free()
		if err := m.p.TruncateAsFollower(f.Epoch, m.p.Cut(*res.Diverging)); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	claim := isr.Claim{Node: m.id, BrokerEpoch: m.epoch, Fetched: f.Offset, Counted: f.Counted}
	if err := leader.p.FollowerAt(now, f.Epoch, claim); err != nil {
		return
	}
	var data []byte
	for _, s := range res.Slices {
		b := make([]byte, s.Len())
		if err := s.ReadAt(b, 0); err != nil {
			c.t.Fatal(err)
		}
		data = append(data, b...)
	}
	if err := m.p.AppendAsFollower(f.Epoch, data, res.HW, res.LogStart); err != nil {
		c.t.Fatalf("broker %d: %v", m.id, err)
	}
}

func (c *cluster) produce(m *member) {
	c.n++
	value := fmt.Sprint(c.n)
	res, err := m.p.Append(testAt, records(value), AppendOpts{Acks: -1})
	if err == nil {
		m.wrote = append(m.wrote, written{res.Epoch, res.Last, value})
	}
}

// acknowledge tells clients what is committed, and lets them read.
func (c *cluster) acknowledge(m *member) {
	now, cancel := context.WithCancel(c.t.Context())
	cancel()
	left := m.wrote[:0]
	for _, w := range m.wrote {
		switch err := m.p.AwaitCommitted(now, w.epoch, w.last+1); {
		case err == nil:
			if was, twice := c.acked[w.last]; twice {
				c.t.Fatalf("offset %d was acknowledged for %s and for %s", w.last, was, w.value)
			}
			c.acked[w.last] = w.value
		case errors.Is(err, context.Canceled):
			left = append(left, w)
		}
	}
	m.wrote = left
	if _, leads := m.p.Leading(); !leads {
		return
	}
	for i, value := range valuesAt(c.t, m.p, 0, ReadUncommitted) {
		at := int64(i)
		if was, ok := c.seen[at]; ok && was != value {
			c.t.Fatalf("offset %d was %s and is %s", at, was, value)
		}
		c.seen[at] = value
	}
}

func (c *cluster) up() (out []*member) {
	for _, m := range c.members {
		if m.up {
			out = append(out, m)
		}
	}
	return out
}

func (c *cluster) step() {
	up := c.up()
	m := c.members[c.rng.IntN(3)]
	if len(up) > 0 {
		m = up[c.rng.IntN(len(up))]
	}
	switch n := c.rng.IntN(100); {
	case !m.up || n < 3:
		if down := slices.DeleteFunc(slices.Clone(c.members), func(m *member) bool { return m.up }); len(down) > 0 {
			c.start(down[c.rng.IntN(len(down))])
			c.elect()
		}
	case n < 5:
		c.crash(m)
		if c.rng.IntN(2) == 0 {
			c.elect()
		}
	case n < 8:
		c.elect()
	case n < 20:
		c.deliver(m)
	case n < 30:
		c.carryOut(m)
	case n < 35:
		m.free()
		m.free = m.disk.hold()
	case n < 40:
		m.free()
	case n < 60:
		c.produce(m)
	default:
		c.fetch(m)
	}
	for _, m := range c.up() {
		c.acknowledge(m)
	}
}

// settle brings everybody up and together.
func (c *cluster) settle() {
	for _, m := range c.members {
		m.free()
		if !m.up {
			c.start(m)
		}
	}
	deadline := time.Now().Add(patience)
	for {
		c.elect()
		for _, m := range c.members {
			c.deliver(m)
			c.fetch(m)
			c.carryOut(m)
		}
		same := len(c.state.isr) == 3
		for _, m := range c.members {
			same = same && m.p.HighWatermark() == c.members[0].p.Log().End() && m.p.Log().End() == c.members[0].p.Log().End()
		}
		if same {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("they do not come together: %+v", c.state)
		}
	}
}

// What was acknowledged with acks=all is on every replica in the end, whoever
// crashed and led, and no reader ever saw anything else at its offset.
func TestReplicationLosesNothing(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	total := 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCluster(t, seed)
			for range 400 {
				c.step()
			}
			c.settle()
			for _, m := range c.members {
				got := valuesAt(t, c.member(c.state.leader).p, 0, ReadUncommitted)
				for at, value := range c.acked {
					if int(at) >= len(got) || got[at] != value {
						t.Errorf("broker %d has not %s at %d", m.id, value, at)
					}
				}
			}
			total += len(c.acked)
		})
	}
	if total < seeds {
		t.Errorf("%d records acknowledged in %d histories", total, seeds)
	}
	t.Logf("%d records acknowledged", total)
}
