package replica

import (
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
)

// concerned are the partitions hosted here whose state did not change, but the
// registration of one of their brokers: whether this broker leads, and whom it
// may let into the ISR, depends on that. seen are looked at anyway. A
// registration that comes or goes costs a look at all that is led here.
func (m *Manager) concerned(img *meta.Image, d *meta.Delta, seen map[kafka.TopicPartition]bool) []change {
	nodes := make(map[kafka.NodeID]bool)
	for _, b := range d.BrokersDown {
		nodes[b.ID] = true
	}
	for _, b := range d.BrokersUp {
		nodes[b.ID] = true
	}
	for _, c := range d.BrokersChanged {
		nodes[c.New.ID] = true
	}
	if len(nodes) == 0 {
		return nil
	}
	var out []change
	for s := range img.PartitionsNaming(m.self) {
		if !slices.ContainsFunc(s.Replicas, func(r meta.Replica) bool { return nodes[r.Node] }) {
			continue
		}
		t, _, _ := img.Partition(s.ID())
		tp := kafka.TopicPartition{Topic: t.Name, Partition: s.Partition}
		if p, hosted := m.Get(tp); hosted && p.id == t.ID && !seen[tp] {
			seen[tp] = true
			out = append(out, change{tp, t, s})
		}
	}
	return out
}

// enter takes over what the image says of a partition that is hosted here;
// epoch is this broker's own registration.
func (m *Manager) enter(p *Partition, img *meta.Image, c change, epoch int64) error {
	was, led := p.Leading()
	defer m.entered(p)
	if err := p.enter(m.termOf(p, img, c.topic, c.state, epoch)); err != nil {
		return err
	}
	if is, leads := p.Leading(); is != was || leads != led {
		m.log.Debug("role taken", "tp", c.tp, "epoch", is, "leader", leads)
	}
	return nil
}

func (m *Manager) entered(p *Partition) {
	if m.Entered != nil {
		m.Entered(p)
	}
}

// termOf is a partition's state as its replica here sees it. A broker leads only
// in the incarnation that was elected (safety 2).
func (m *Manager) termOf(p *Partition, img *meta.Image, of *meta.Topic, s *meta.Partition, epoch int64) term {
	t := term{
		epoch:  s.LeaderEpoch,
		leader: s.Leader == m.self && epoch != 0 && s.LeaderBrokerEpoch == epoch,
		of:     s.Leader,
		view:   isr.View{Replicas: s.Counted(), MinInSync: p.rules.Load().MinInSync},
		stated: stated{epoch: s.PartitionEpoch, brokerEpoch: epoch},
	}
	for _, r := range s.ISR {
		t.view.Committed = append(t.view.Committed, r.Node)
	}
	t.view.Removed, t.view.Leaving, t.view.Least = plan.Outgoing(img, of, s)
	for _, r := range s.Replicas {
		if r.Node != m.self {
			t.others = append(t.others, r.Node)
		}
		if _, in := s.InSync(r.Node); !in {
			c := candidate(img, r)
			c.Eligible = slices.ContainsFunc(s.Eligible, func(e meta.Replica) bool { return e.Node == r.Node })
			t.view.Candidates = append(t.view.Candidates, c)
		}
	}
	return t
}

func candidate(img *meta.Image, r meta.Replica) isr.Candidate {
	c := isr.Candidate{Node: r.Node}
	if b, ok := img.Broker(r.Node); ok {
		c.BrokerEpoch = b.Epoch
		c.May = !b.Leaving && r.Dir != kafka.DirUnassigned && b.Serves(r.Dir)
	}
	return c
}
