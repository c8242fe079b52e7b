package metatest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// reassign begins, replaces or, without to, cancels a reassignment.
func reassign(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	r := plan.Reassignment{Topic: a.Str("topic", ""), Partition: int32(a.Int("p", 0)), FixedFactor: d.HasArg("fixed")}
	if to := a.Str("to", ""); to == "none" {
		r.Replicas = []kafka.NodeID{}
	} else {
		r.Replicas = nodesOf(to, ",")
	}
	c, ok, err := plan.Reassign(w.Img, r)
	switch {
	case err != nil:
		return failed(err)
	case !ok:
		return "no change"
	}
	return w.change(c)
}

func holding(_ *testing.T, w *World, d *datadriven.TestData) string {
	leads, inSync := plan.Holding(w.Img, Words{D: d}.Node("id"))
	return fmt.Sprintf("leads %d, in sync of %d more", leads, inSync)
}

// out has a leader take those out of the ISR who are to go, when all of them know
// that it leads.
func out(_ *testing.T, w *World, d *datadriven.TestData) string {
	id, p := w.partition(Words{D: d})
	t, _, _ := w.Img.Partition(id)
	removed, leaving, least := plan.Outgoing(w.Img, t, p)
	said := fmt.Sprintf("removed %v leaving %v\n", removed, leaving)
	left := len(p.ISR)
	r := plan.ISRChange{Partition: id, Leader: p.Leader, LeaderBrokerEpoch: p.LeaderBrokerEpoch, LeaderEpoch: p.LeaderEpoch}
	for _, m := range p.ISR {
		goes := slices.Contains(removed, m.Node) || slices.Contains(leaving, m.Node) && left > least
		if m.Node != p.Leader && goes {
			left--
			continue
		}
		r.ISR = append(r.ISR, plan.Member{Node: m.Node, BrokerEpoch: w.epoch(m.Node)})
	}
	if len(r.ISR) == len(p.ISR) {
		return said + "no change"
	}
	c, err := plan.ChangeISR(w.Img, r)
	if err != nil {
		return failed(err)
	}
	return said + w.change(c)
}
