package replica

import (
	"slices"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// Who is to leave the ISR is proposed out of it when it names the leader's epoch,
// or at once when it did: until then it may take itself for the leader, and the
// high watermark waits for it (safety 18, 35).
func TestManagerLetsReplicasGo(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(w *two)
	}{
		{"removed", func(w *two) { w.reassign(self) }},
		{"leaving", func(w *two) {
			b, _ := w.Img.Broker(2)
			leave, err := plan.SetLeaving(w.Img, 2, b.Epoch)
			if err != nil {
				w.t.Fatal(err)
			}
			w.Do(leave)
			w.apply(&w.Delta)
		}},
	} {
		t.Run(c.what+" before it knows", func(t *testing.T) {
			w := newTwo(t)
			c.do(w)
			b, _ := w.Img.Broker(2)
			put(t, w.partition("t", 0), records("a"), 1)
			if err := w.claims(b.Epoch, 0); err != nil || len(w.asked) != 0 {
				t.Fatalf("a claim that knows no epoch: %v, %v", err, w.asked)
			}
			if err := w.claimsIn(w.state().LeaderEpoch, b.Epoch, 0); err != nil {
				t.Fatal(err)
			}
			w.wantOut()
		})
		t.Run(c.what+" when it knows", func(t *testing.T) {
			w := newTwo(t)
			b, _ := w.Img.Broker(2)
			if err := w.claimsIn(w.state().LeaderEpoch, b.Epoch, 0); err != nil || len(w.asked) != 0 {
				t.Fatal(err, w.asked)
			}
			c.do(w)
			w.wantOut()
		})
	}
}

// reassign asks for other replicas of t-0.
func (w *two) reassign(to ...kafka.NodeID) {
	w.t.Helper()
	c, ok, err := plan.Reassign(w.Img, plan.Reassignment{Topic: "t", Replicas: to})
	if err != nil || !ok {
		w.t.Fatal(ok, err)
	}
	w.Do(plan.Batches(w.Img.Keys(), nil, []plan.Change{c})[0].Txn)
	w.apply(&w.Delta)
}

// wantOut carries out the one proposal there is: it leaves this broker alone in
// the ISR, and ends a reassignment.
func (w *two) wantOut() {
	w.t.Helper()
	if len(w.asked) != 1 {
		w.t.Fatalf("proposals %v", w.asked)
	}
	c, err := plan.ChangeISR(w.Img, w.asked[0].ISRChange)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Do(plan.Batches(w.Img.Keys(), nil, []plan.Change{c})[0].Txn)
	w.apply(&w.Delta)
	if s := w.state(); !slices.Equal(w.isr(), []kafka.NodeID{self}) || s.Reassigning() {
		w.t.Errorf("isr %v, %+v", w.isr(), s)
	}
}
