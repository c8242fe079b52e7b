package broker

import (
	"slices"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A log moved while the store could not be told its first directory: the state
// names none yet, and is to name the one where the log is, or nobody would ever
// lead the partition.
func TestMovedBeforeItWasNamed(t *testing.T) {
	r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
	made, err := r.create(t.Context(), "t", 1)
	if err != nil {
		t.Fatal(err)
	}
	img := r.keeper.Image()
	_, p, _ := img.Partition(meta.PartitionID{Topic: made.ID})
	one, two := kafka.DirID{1, 1}, kafka.DirID{2, 2}
	c := &control{self: rigNode, unnamed: []replica.Assignment{{Partition: p.ID(), Dir: one}, {Partition: p.ID(), Dir: two, From: one}}}
	as, moves, _ := c.named(img)
	if want := []plan.DirMove{{Partition: p.ID(), From: one, To: two}}; len(as) > 0 || !slices.Equal(moves, want) {
		t.Errorf("the state names a directory: %v and %v", as, moves)
	}
	next := p.Clone()
	next.Replicas[0].Dir, next.ISR[0].Dir = kafka.DirUnassigned, kafka.DirUnassigned
	img, d := img.Apply(kv.Change{Rev: img.Revision() + 1, Events: []kv.Event{{KV: kv.KV{
		Key: img.Keys().State(made.ID, 0), Value: next.Encode(), ModRev: img.Revision() + 1,
	}}}})
	if len(d.Errors) > 0 {
		t.Fatal(d.Errors)
	}
	as, moves, _ = c.named(img)
	if want := []plan.Assignment{{Partition: p.ID(), Dir: two}}; len(moves) > 0 || !slices.Equal(as, want) {
		t.Errorf("the state names none: %v and %v", as, moves)
	}
}
