package controller_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// replica is one broker's copy of one partition.
type replica struct {
	node      kafka.NodeID
	partition int32
}

// heard is what a broker's incarnation last saw of a partition. Metadata reach a
// broker late or never: it may lead in a term that is long over.
type heard struct {
	incarnation int64
	epoch       kafka.LeaderEpoch
	leads       bool
}

// hear lets a live broker see who leads now.
func (c *cluster) hear(n kafka.NodeID, p *meta.Partition) {
	b, ok := c.Img.Broker(n)
	if !ok {
		return
	}
	c.heard[replica{n, p.Partition}] = heard{
		incarnation: b.Epoch, epoch: p.LeaderEpoch, leads: p.Leader == n && p.LeaderBrokerEpoch == b.Epoch,
	}
}

// knows says whether n has heard of the partition's present term.
func (c *cluster) knows(n kafka.NodeID, p *meta.Partition) bool {
	b, ok := c.Img.Broker(n)
	h := c.heard[replica{n, p.Partition}]
	return ok && h.incarnation == b.Epoch && h.epoch == p.LeaderEpoch
}

// stale is somebody who is there and takes itself for the leader in an earlier
// term: clients that ask it are told the high watermark of that term.
func (c *cluster) stale(p *meta.Partition) (kafka.NodeID, bool) {
	for _, b := range c.Img.Brokers() {
		h := c.heard[replica{b.ID, p.Partition}]
		if b.ID != p.Leader && h.leads && h.incarnation == b.Epoch && h.epoch < p.LeaderEpoch {
			return b.ID, true
		}
	}
	return 0, false
}

// commit moves the high watermark: the minimum over the ISR of what its leader
// knows, and never while the ISR is below min.insync.replicas (safety 8). When it
// moves, nobody serves clients who knows of less.
func (c *cluster) commit(rt *rapid.T, p *meta.Partition) {
	t, _ := c.Img.Topic(topic)
	c.hear(p.Leader, p)
	if len(p.ISR) < plan.MinInsync(c.Img, t, p) {
		return
	}
	low := c.logs[p.Leader][p.Partition]
	for _, r := range p.ISR {
		if !c.knows(r.Node, p) {
			return // it has not fetched in this term
		}
		low = min(low, c.logs[r.Node][p.Partition])
	}
	if low <= c.committed[p.Partition] {
		return
	}
	c.committed[p.Partition] = low
	if n, ok := c.stale(p); ok {
		rt.Fatalf("records are committed while %d still leads in an earlier term: %s", n, metatest.State(p))
	}
}

// out is a leader's removal of those who are to go, as far as they know that it
// leads, and as far as it may.
func (c *cluster) out(rt *rapid.T) { c.outOf(rt, c.drawPart(rt)) }

func (c *cluster) outOf(rt *rapid.T, p *meta.Partition) {
	if !c.leads(p) {
		return
	}
	t, _ := c.Img.Topic(topic)
	removed, leaving, least := plan.Outgoing(c.Img, t, p)
	left := slices.DeleteFunc(slices.Clone(p.ISR), func(r meta.Replica) bool {
		return r.Node != p.Leader && c.knows(r.Node, p) && slices.Contains(removed, r.Node)
	})
	for _, n := range leaving {
		if n != p.Leader && c.knows(n, p) && len(left) > least {
			left = slices.DeleteFunc(left, func(r meta.Replica) bool { return r.Node == n })
		}
	}
	if len(left) == len(p.ISR) {
		return
	}
	var to []plan.Member
	for _, r := range left {
		to = append(to, c.member(r.Node))
	}
	c.propose(rt, p, to)
}

// unheard adds to a proposal whom a leader keeps in the ISR, however far behind:
// who is there and has not heard of its term.
func (c *cluster) unheard(p *meta.Partition, to []plan.Member) []plan.Member {
	for _, r := range p.ISR {
		_, alive := c.Img.Broker(r.Node)
		if alive && !c.knows(r.Node, p) && !slices.ContainsFunc(to, func(m plan.Member) bool { return m.Node == r.Node }) {
			to = append(to, c.member(r.Node))
		}
	}
	return to
}
