package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/barnabas-mq/barnabas/internal/controller"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

func TestScripts(t *testing.T) {
	metatest.Run(t, "testdata/scripts", map[string]metatest.Verb{"step": step, "plan": planned, "send": send})
}

// input reads the arguments of a step: by default it looks at what the last
// change was.
func input(w *metatest.World, d *datadriven.TestData) controller.Input {
	_, at := w.Img.Controller()
	a := metatest.Words{D: d}
	delta := w.Delta
	in := controller.Input{
		Image: w.Img, ElectedAt: a.Int("elected", at), Delta: &delta,
		Rebalance: d.HasArg("rebalance"), Sweep: d.HasArg("sweep"),
		Now: time.UnixMilli(a.Int("now", 0)),
	}
	if d.HasArg("unclean") {
		in.Unclean = func(topic string) bool { return topic == a.Str("unclean", "") }
	}
	if name := a.Str("grow", ""); name != "" {
		in.Grow = []controller.Grown{{Topic: name, Factor: int(a.Int("factor", 3))}}
	}
	if d.HasArg("full") {
		in.Delta = nil
	}
	return in
}

// step plans and carries out, until nothing is left to do.
func step(_ *testing.T, w *metatest.World, d *datadriven.TestData) string {
	return run(w, controller.Step(input(w, d)))
}

func run(w *metatest.World, out controller.Output) string {
	var b strings.Builder
	if out.Deposed {
		b.WriteString("deposed\n")
	}
	for _, batch := range out.Batches {
		res := w.Do(batch.Txn)
		fmt.Fprintf(&b, "batch of %d, %d compares: %v at %d\n", len(batch.Changes), len(batch.Txn.If), res.Succeeded, res.Rev)
		for n, c := range batch.Changes {
			if n == 8 {
				b.WriteString("...\n")
				break
			}
			name := "(deleted)"
			if t, ok := w.Img.TopicByID(c.Next.Topic); ok {
				name = t.Name
			}
			fmt.Fprintf(&b, "  %s-%d %s\n", name, c.Next.Partition, metatest.State(c.Next))
		}
		if res.Succeeded {
			continue
		}
		again, stale, deposed := batch.Split(w.Img.Keys(), res)
		fmt.Fprintf(&b, "  split: deposed %v, stale %v\n", deposed, stale)
		for _, a := range again {
			fmt.Fprintf(&b, "  again %d: %v\n", len(a.Changes), w.Do(a.Txn).Succeeded)
		}
		if !deposed {
			_, at := w.Img.Controller()
			none := meta.Delta{}
			b.WriteString(run(w, controller.Step(controller.Input{Image: w.Img, ElectedAt: at, Delta: &none, Again: stale})))
		}
	}
	for _, t := range out.Sweeps {
		fmt.Fprintf(&b, "sweep %v\n", w.Do(t).Succeeded)
		if len(t.Then) <= 4 {
			b.WriteString(metatest.Txn(t))
		} else {
			fmt.Fprintf(&b, "%d compares, %d operations\n", len(t.If), len(t.Then))
		}
	}
	if b.Len() == 0 {
		return "nothing to do"
	}
	return b.String()
}

// plan and send are the halves of a step, for what comes in between.
var held controller.Output

func planned(_ *testing.T, w *metatest.World, d *datadriven.TestData) string {
	held = controller.Step(input(w, d))
	n := 0
	for _, b := range held.Batches {
		n += len(b.Changes)
	}
	return fmt.Sprintf("%d changes in %d batches, %d sweeps", n, len(held.Batches), len(held.Sweeps))
}

func send(_ *testing.T, w *metatest.World, _ *datadriven.TestData) string { return run(w, held) }
