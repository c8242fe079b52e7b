package metatest

import (
	"fmt"
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
