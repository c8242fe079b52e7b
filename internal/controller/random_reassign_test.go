package controller_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// reassign gives a partition one to three replicas among the brokers, in any
// order; while another reassignment runs, it replaces that.
func (c *cluster) reassign(rt *rapid.T) {
	all := []kafka.NodeID{1, 2, 3, 4}
	target := rapid.Permutation(all).Draw(rt, "target")[:rapid.IntRange(1, 3).Draw(rt, "factor")]
	c.alter(rt, c.drawPart(rt), target)
}

// drain moves all that a broker holds to the others.
func (c *cluster) drain(rt *rapid.T) {
	away := c.drawNode(rt)
	var hosts []plan.Host
	for _, b := range c.Img.Brokers() {
		hosts = append(hosts, plan.Host{Node: b.ID})
	}
	var parts []plan.Held
	for _, p := range c.parts() {
		h := plan.Held{Topic: topic, Partition: p.Partition}
		for _, r := range p.Target() {
			h.Replicas = append(h.Replicas, r.Node)
		}
		parts = append(parts, h)
	}
	moved, err := plan.Drain(hosts, parts, away)
	if err != nil {
		return // nowhere to go
	}
	for _, m := range moved {
		c.alter(rt, c.parts()[m.Partition], m.Replicas)
	}
}

func (c *cluster) cancel(rt *rapid.T) { c.alter(rt, c.drawPart(rt), nil) }

func (c *cluster) alter(rt *rapid.T, p *meta.Partition, target []kafka.NodeID) {
	ch, ok, err := plan.Reassign(c.Img, plan.Reassignment{Topic: topic, Partition: p.Partition, Replicas: target})
	switch {
	case errors.Is(err, kerr.InvalidReplicaAssignment), errors.Is(err, kerr.NoReassignmentInProgress):
		return
	case err != nil:
		rt.Fatal(err)
	case !ok:
		return
	}
	for _, b := range plan.Batches(c.Img.Keys(), nil, []plan.Change{ch}) {
		if rapid.Bool().Draw(rt, "late") {
			c.held = append(c.held, b.Txn)
			return
		}
		if !c.Do(b.Txn).Succeeded {
			rt.Fatal("a reassignment that was planned from the newest image was refused")
		}
	}
	c.taken(rt)
}

// arrive brings the replicas that are being added level and into the ISR,
// instead of others, short of what would end the reassignment.
func (c *cluster) arrive(rt *rapid.T) {
	p := c.drawPart(rt)
	if len(p.Adding) == 0 || !c.leads(p) {
		return
	}
	to := []plan.Member{c.member(p.Leader)}
	for _, n := range p.Adding {
		if _, alive := c.Img.Broker(n); alive && n != p.Leader {
			c.hear(n, p)
			c.logs[n][p.Partition] = c.logs[p.Leader][p.Partition]
			to = append(to, c.member(n))
		}
	}
	c.propose(rt, p, to)
}

// taken lets brokers see what they hold now.
func (c *cluster) taken(rt *rapid.T) {
	for n := kafka.NodeID(1); n <= nodes; n++ {
		c.assign(rt, n)
	}
	for _, p := range c.parts() {
		c.forget(p)
		if c.leads(p) {
			c.commit(rt, p)
		}
	}
}

// forget deletes what live brokers hold and are no replicas of any more. A dead
// one still has it when it comes back, and nothing must count on that.
func (c *cluster) forget(p *meta.Partition) {
	for n := kafka.NodeID(1); n <= nodes; n++ {
		if _, holds := p.Replica(n); holds {
			continue
		}
		if _, alive := c.Img.Broker(n); alive {
			c.logs[n][p.Partition] = 0
		}
	}
}

// justified wants all of the target in sync where the controller ended a
// reassignment that was not cancelled, and takes one reason alone for a member
// that it took out of an ISR: that it is gone.
func (c *cluster) justified(was, is *meta.Partition) error {
	cancelled := slices.Equal(was.Adding, was.Removing)
	if was.Reassigning() && !is.Reassigning() && !cancelled && len(is.ISR) != len(is.Replicas) {
		return fmt.Errorf("the reassignment ended and not all of its target is in sync")
	}
	for _, r := range was.ISR {
		b, alive := c.Img.Broker(r.Node)
		if _, in := is.InSync(r.Node); !in && alive && b.Serves(r.Dir) {
			return fmt.Errorf("%d left the ISR for no reason", r.Node)
		}
	}
	return nil
}

// heal brings every broker back and every log level: then no reassignment of a
// partition that somebody can lead is left.
func (c *cluster) heal(rt *rapid.T) {
	for n := kafka.NodeID(1); n <= nodes; n++ {
		c.register(rt, n)
	}
	c.taken(rt)
	for range 4 {
		c.step(rt)
		for n := range c.parts() {
			c.level(rt, n)
			c.outOf(rt, c.parts()[n])
		}
	}
	c.step(rt)
	c.check(rt)
	for _, p := range c.parts() {
		if p.Reassigning() && p.Leader >= 0 {
			rt.Fatalf("all is well, and still: %s", metatest.State(p))
		}
	}
}

func (c *cluster) level(rt *rapid.T, n int) {
	p := c.parts()[n]
	if !c.leads(p) {
		return
	}
	var to []plan.Member
	for _, r := range p.Replicas {
		c.hear(r.Node, p)
		c.logs[r.Node][p.Partition] = c.logs[p.Leader][p.Partition]
		to = append(to, c.member(r.Node))
	}
	c.propose(rt, p, to)
}
