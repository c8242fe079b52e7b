package controller_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/controller"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

const (
	nodes = 4 // at first 1 to 3 hold replicas
	topic = "t"
)

// cluster is a world with logs: how many records each broker has flushed for
// each partition, and how many were committed. What was committed is what a
// client was told is safe.
type cluster struct {
	*metatest.World
	logs      map[kafka.NodeID]map[int32]int
	committed map[int32]int
	// terms remembers who led at each leader epoch: one incarnation (safety 2).
	terms map[string]string
	heard map[replica]heard
	held  []kv.Txn // planned and not yet sent
}

// TestNothingCommittedIsLost drives brokers that die, return, shut down, lose
// directories, move partitions and race with outdated plans, and demands that no
// election that is not asked to be unclean ever yields a leader without all that
// was committed, that no two incarnations share a leader epoch, that the
// controller takes nobody out of an ISR without a reason, that it comes to rest
// in a good state, and that every reassignment ends once all are well.
func TestNothingCommittedIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCluster(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"append":    c.append,
			"replicate": c.replicate,
			"shrink":    c.shrink,
			"grow":      c.grow,
			"die":       c.die,
			"return":    c.comeBack,
			"leave":     c.leave,
			"lose":      c.lose,
			"configure": c.configure,
			"step":      c.step,
			"outrun":    c.outrun,
			"late":      c.late,
			"rebalance": c.rebalance,
			"reassign":  c.reassign,
			"cancel":    c.cancel,
			"drain":     c.drain,
			"arrive":    c.arrive,
			"out":       c.out,
			"":          func(rt *rapid.T) { c.check(rt) },
		})
		c.rest(rt)
		c.heal(rt)
	})
}

func newCluster(rt *rapid.T) *cluster {
	c := &cluster{
		World: metatest.New(), logs: map[kafka.NodeID]map[int32]int{}, committed: map[int32]int{},
		terms: map[string]string{}, heard: map[replica]heard{},
	}
	for n := kafka.NodeID(1); n <= nodes; n++ {
		c.logs[n] = map[int32]int{}
		c.register(rt, n)
	}
	c.campaign(rt)
	m, err := plan.CreateTopic(c.Img, plan.NewTopic{
		Name: topic, ID: c.NextID(), Partitions: -1, Factor: -1,
		Manual: []plan.ManualAssignment{
			{Partition: 0, Replicas: []kafka.NodeID{1, 2, 3}},
			{Partition: 1, Replicas: []kafka.NodeID{2, 3, 1}},
		},
		Configs: map[string]string{"min.insync.replicas": "2"},
		Creator: plan.Creator{Node: 1, BrokerEpoch: 2},
	})
	if err != nil || c.Make(m, 0) != nil {
		rt.Fatal(err)
	}
	for n := kafka.NodeID(1); n <= nodes; n++ {
		c.assign(rt, n)
	}
	return c
}

func (c *cluster) register(rt *rapid.T, n kafka.NodeID) {
	err := c.RegisterBroker(&meta.Broker{ID: n, StartID: fmt.Sprint(c.Store.Rev), Dirs: []kafka.DirID{dirOf(n)}})
	if err != nil {
		rt.Fatal(err)
	}
}

func dirOf(n kafka.NodeID) kafka.DirID { return metatest.Dir("d" + n.String()) }

func (c *cluster) campaign(rt *rapid.T) {
	for _, b := range c.Img.Brokers() {
		ts, err := plan.Campaign(c.Img, b.ID, b.Epoch)
		if err != nil {
			rt.Fatal(err)
		}
		for _, t := range ts {
			c.Do(t)
		}
	}
}

// assign names the one directory that a broker has, where it has not.
func (c *cluster) assign(rt *rapid.T, n kafka.NodeID) {
	b, ok := c.Img.Broker(n)
	if !ok {
		return
	}
	var as []plan.Assignment
	for _, p := range c.parts() {
		as = append(as, plan.Assignment{Partition: p.ID(), Dir: dirOf(n)})
	}
	bs, err := plan.AssignDirs(c.Img, n, b.Epoch, as)
	if err != nil {
		rt.Fatal(err)
	}
	for _, b := range bs {
		c.Do(b.Txn)
	}
}

func (c *cluster) parts() []*meta.Partition {
	t, _ := c.Img.Topic(topic)
	return t.Partitions
}

func (c *cluster) drawPart(rt *rapid.T) *meta.Partition {
	return rapid.SampledFrom(c.parts()).Draw(rt, "partition")
}

func (c *cluster) drawNode(rt *rapid.T) kafka.NodeID {
	return kafka.NodeID(rapid.IntRange(1, nodes).Draw(rt, "node"))
}

// leads says whether the partition's leader is there and is the incarnation
// that was elected.
func (c *cluster) leads(p *meta.Partition) bool {
	b, ok := c.Img.Broker(p.Leader)
	return ok && b.Epoch == p.LeaderBrokerEpoch
}

func (c *cluster) append(rt *rapid.T) {
	if p := c.drawPart(rt); c.leads(p) {
		c.logs[p.Leader][p.Partition]++
		c.commit(rt, p)
	}
}

// replicate brings a live follower level with its leader, be that by fetching
// or by truncating.
func (c *cluster) replicate(rt *rapid.T) {
	p, n := c.drawPart(rt), c.drawNode(rt)
	if _, hosts := p.Replica(n); !hosts || !c.leads(p) {
		return
	}
	if _, alive := c.Img.Broker(n); alive {
		c.hear(n, p)
		c.logs[n][p.Partition] = c.logs[p.Leader][p.Partition]
		c.commit(rt, p)
	}
}

func (c *cluster) shrink(rt *rapid.T) {
	p := c.drawPart(rt)
	out := c.drawNode(rt)
	if !c.leads(p) || out == p.Leader {
		return
	}
	var to []plan.Member
	for _, r := range p.ISR {
		if r.Node != out {
			to = append(to, c.member(r.Node))
		}
	}
	c.propose(rt, p, to)
}

func (c *cluster) member(n kafka.NodeID) plan.Member {
	b, ok := c.Img.Broker(n)
	if !ok {
		return plan.Member{Node: n}
	}
	return plan.Member{Node: n, BrokerEpoch: b.Epoch}
}

// grow lets a follower in that has all that the leader has.
func (c *cluster) grow(rt *rapid.T) {
	p, n := c.drawPart(rt), c.drawNode(rt)
	_, hosts := p.Replica(n)
	_, in := p.InSync(n)
	if !hosts || in || !c.leads(p) || c.logs[n][p.Partition] != c.logs[p.Leader][p.Partition] {
		return
	}
	if _, alive := c.Img.Broker(n); !alive {
		return
	}
	to := []plan.Member{c.member(n)}
	for _, r := range p.ISR {
		to = append(to, c.member(r.Node))
	}
	c.propose(rt, p, to)
}

func (c *cluster) propose(rt *rapid.T, p *meta.Partition, to []plan.Member) {
	c.hear(p.Leader, p)
	to = c.unheard(p, to)
	ch, err := plan.ChangeISR(c.Img, plan.ISRChange{
		Partition: p.ID(), Leader: p.Leader, LeaderBrokerEpoch: p.LeaderBrokerEpoch, LeaderEpoch: p.LeaderEpoch, ISR: to,
	})
	if err != nil {
		return // refused, as by a member that is leaving
	}
	for _, b := range plan.Batches(c.Img.Keys(), nil, []plan.Change{ch}) {
		if !c.Do(b.Txn).Succeeded {
			rt.Fatal("a change of the ISR that was planned from the newest image was refused")
		}
	}
	c.commit(rt, c.parts()[p.Partition])
}

func (c *cluster) die(rt *rapid.T) {
	n := c.drawNode(rt)
	if b, ok := c.Img.Broker(n); ok {
		c.Do(plan.Unregister(c.Img.Keys(), n, b.Epoch))
	}
}

func (c *cluster) comeBack(rt *rapid.T) {
	n := c.drawNode(rt)
	c.register(rt, n) // also while the last registration is there: a fast restart
	c.assign(rt, n)
}

func (c *cluster) leave(rt *rapid.T) {
	if b, ok := c.Img.Broker(c.drawNode(rt)); ok {
		t, err := plan.SetLeaving(c.Img, b.ID, b.Epoch)
		if err != nil {
			rt.Fatal(err)
		}
		c.Do(t)
	}
}

// lose wipes a dead broker's log; it resigns before it does anything else.
func (c *cluster) lose(rt *rapid.T) {
	p, n := c.drawPart(rt), c.drawNode(rt)
	if _, alive := c.Img.Broker(n); alive || !rapid.Bool().Draw(rt, "really") {
		return
	}
	for _, b := range plan.Resign(c.Img, n, []plan.Loss{{Partition: p.ID(), LogMissing: true, Anew: true}}) {
		c.Do(b.Txn)
	}
	c.logs[n][p.Partition] = 0
}

func (c *cluster) configure(rt *rapid.T) {
	v := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "min.insync.replicas")
	set := plan.ConfigChange{Set: map[string]string{"min.insync.replicas": v}}
	if rapid.Bool().Draw(rt, "of the cluster") {
		if t, ok := plan.ConfigureBroker(c.Img, kafka.NoNode, set); ok {
			c.Do(t)
		}
		if rapid.Bool().Draw(rt, "drop the topic's") {
			set = plan.ConfigChange{Remove: []string{"min.insync.replicas"}}
		}
	}
	if t, ok, err := plan.ConfigureTopic(c.Img, topic, set); err == nil && ok {
		c.Do(t)
	}
	for _, p := range c.parts() {
		if c.leads(p) {
			c.commit(rt, p)
		}
	}
}

func (c *cluster) plans(rebalance bool) []kv.Txn {
	_, at := c.Img.Controller()
	out := controller.Step(controller.Input{Image: c.Img, ElectedAt: at, Rebalance: rebalance})
	var ts []kv.Txn
	for _, b := range out.Batches {
		ts = append(ts, b.Txn)
	}
	return ts
}

func (c *cluster) step(rt *rapid.T) {
	c.campaign(rt)
	if _, at := c.Img.Controller(); at == 0 {
		return
	}
	was := slices.Clone(c.parts())
	for _, t := range c.plans(false) {
		if !c.Do(t).Succeeded {
			rt.Fatal("what the controller planned from the newest image was refused")
		}
	}
	for n, p := range c.parts() {
		if err := c.justified(was[n], p); err != nil {
			rt.Fatalf("%s became %s: %v", metatest.State(was[n]), metatest.State(p), err)
		}
	}
}

func (c *cluster) rebalance(rt *rapid.T) {
	if _, at := c.Img.Controller(); at != 0 {
		for _, t := range c.plans(true) {
			c.Do(t)
		}
	}
}

// outrun keeps what would be done now, and late sends it whenever.
func (c *cluster) outrun(*rapid.T) {
	if _, at := c.Img.Controller(); at != 0 {
		c.held = append(c.held, c.plans(false)...)
	}
}

func (c *cluster) late(*rapid.T) {
	for _, t := range c.held {
		c.Do(t)
	}
	c.held = nil
}

func (c *cluster) check(rt *rapid.T) {
	for _, p := range c.parts() {
		c.forget(p)
		if p.Leader < 0 {
			continue
		}
		if has := c.logs[p.Leader][p.Partition]; has < c.committed[p.Partition] {
			rt.Fatalf("partition %d is led by %d, which has %d records of %d that were committed: %s",
				p.Partition, p.Leader, has, c.committed[p.Partition], metatest.State(p))
		}
		term := fmt.Sprintf("%d/%d", p.Partition, p.LeaderEpoch)
		who := fmt.Sprintf("%d/%d", p.Leader, p.LeaderBrokerEpoch)
		if was, ok := c.terms[term]; ok && was != who {
			rt.Fatalf("leader epoch %s is that of %s and of %s", term, was, who)
		}
		c.terms[term] = who
	}
}

// rest lets the controller finish, and looks at what it leaves.
func (c *cluster) rest(rt *rapid.T) {
	c.late(rt)
	c.campaign(rt)
	if _, at := c.Img.Controller(); at == 0 {
		return
	}
	c.step(rt)
	c.check(rt)
	if left := c.plans(false); len(left) != 0 {
		rt.Fatalf("the controller is not at rest: %s", metatest.Txn(left[0]))
	}
	for _, p := range c.parts() {
		if err := c.good(p); err != nil {
			rt.Fatalf("%s: %v", metatest.State(p), err)
		}
	}
}

func (c *cluster) good(p *meta.Partition) error {
	there := func(r meta.Replica) bool {
		b, ok := c.Img.Broker(r.Node)
		return ok && b.Serves(r.Dir)
	}
	gone := slices.ContainsFunc(p.ISR, func(r meta.Replica) bool { return !there(r) })
	if gone && slices.ContainsFunc(p.ISR, there) {
		return fmt.Errorf("a member of the ISR is gone and another is there")
	}
	if p.Leader >= 0 && !c.leads(p) {
		return fmt.Errorf("the leader's incarnation is gone")
	}
	for _, r := range p.ISR {
		if b, ok := c.Img.Broker(r.Node); ok && b.Serves(r.Dir) && !b.Leaving && p.Leader < 0 {
			return fmt.Errorf("no leader, and %d could lead", r.Node)
		}
	}
	return nil
}
