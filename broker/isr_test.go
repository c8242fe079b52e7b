package broker

import (
	"context"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A proposal that certainly never will be carried out, since the broker that was
// to come in is gone, is taken back: the mark no longer waits for that broker.
// It shows in the image already, or when the store refuses (safety 7).
func TestProposalIsWithdrawn(t *testing.T) {
	for _, late := range []bool{false, true} {
		mem := metastore.NewMem()
		r := startRig(t, mem, vfs.NewMem(), "a")
		proposed := make(chan replica.Proposal, 10)
		r.replicas.Propose = func(p replica.Proposal) { proposed <- p }
		if _, err := r.create(t.Context(), "t", 1); err != nil {
			t.Fatal(err)
		}
		part, other := r.withSecondReplica("t")
		put := func(want int64) {
			t.Helper()
			var b batch.Builder
			b.Reset(batch.Options{})
			b.Append(time.Now().UnixMilli(), nil, []byte("v"))
			raw, _, err := b.Build(nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := part.Append(time.Now(), raw, replica.AppendOpts{Acks: -1})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := part.AwaitCommitted(ctx, res.Epoch, res.Last+1); err != nil || part.HighWatermark() != want {
				t.Errorf("mark %d, want %d (late %t): %v", part.HighWatermark(), want, late, err)
			}
		}
		put(1)
		if err := part.FollowerAt(time.Now(), kafka.NoEpoch, isr.Claim{Node: 2, BrokerEpoch: other, Fetched: 1, Counted: 1}); err != nil {
			t.Fatal(err)
		}
		p := <-proposed
		goes := func() int64 {
			res, err := mem.Txn(t.Context(), kv.Txn{Then: []kv.Op{kv.DeleteOp(r.keeper.Image().Keys().Broker(2))}})
			if err != nil {
				t.Error(err)
			}
			return res.Rev
		}
		if late {
			r.store.OnTxn(func(kv.Txn) metastore.Fault {
				r.store.OnTxn(nil)
				goes()
				return metastore.Fault{}
			})
		} else if err := r.keeper.Await(t.Context(), goes()); err != nil {
			t.Fatal(err)
		}
		i := newInSync(r.keeper, r.store, r.replicas, time.Hour, quiet)
		for again := []replica.Proposal{p}; len(again) > 0; {
			again = i.carryOut(t.Context(), again)
		}
		put(2)
		r.stop()
	}
}

// withSecondReplica gives a partition a replica on broker 2, which is registered
// and serves its directory, and is not in sync. other is that broker's epoch.
func (r *rig) withSecondReplica(topic string) (part *replica.Partition, other int64) {
	r.t.Helper()
	r.await("the name of a directory", func() bool {
		t, _ := r.keeper.Image().Topic(topic)
		return t.Partitions[0].Replicas[0].Dir != kafka.DirUnassigned
	})
	neighbour(r.t, r.keeper, r.store, 2)
	img := r.keeper.Image()
	c, ok, err := plan.Reassign(img, plan.Reassignment{Topic: topic, Replicas: []kafka.NodeID{rigNode, 2}})
	if err != nil || !ok {
		r.t.Fatal(ok, err)
	}
	r.do(plan.Batches(img.Keys(), nil, []plan.Change{c}))
	img = r.keeper.Image()
	t, _ := img.Topic(topic)
	b, _ := img.Broker(2)
	named, err := plan.AssignDirs(img, 2, b.Epoch, []plan.Assignment{{Partition: t.Partitions[0].ID(), Dir: b.Dirs[0]}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.do(named)
	part, ok = r.replicas.Get(kafka.TopicPartition{Topic: topic})
	if !ok {
		r.t.Fatal("it is not here")
	}
	return part, b.Epoch
}

// do carries batches out, and waits until the image has them.
func (r *rig) do(batches []plan.Batch) {
	r.t.Helper()
	for _, b := range batches {
		res, err := txn(r.t.Context(), r.store, b.Txn)
		if err == nil {
			err = r.keeper.Await(r.t.Context(), res.Rev)
		}
		if err != nil || !res.Succeeded {
			r.t.Fatalf("%v, %v", res.Succeeded, err)
		}
	}
}
