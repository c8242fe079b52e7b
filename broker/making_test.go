package broker

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// manyPartitions takes several transactions.
const manyPartitions = 300

// halfMade begins something of several transactions and gives it up as a client
// does whose time is over, when the first of them is done and no other comes
// through. The store works again with resume.
func (r *rig) halfMade(begin func(context.Context) error) (resume func()) {
	r.t.Helper()
	r.store.OnTxn(func(t metastore.Txn) metastore.Fault {
		if len(t.Then) > 50 {
			return metastore.Fault{Kind: metastore.Refused}
		}
		return metastore.Fault{}
	})
	ctx, giveUp := context.WithCancel(r.t.Context())
	got := make(chan error, 1)
	go func() { got <- begin(ctx) }()
	r.await("the beginning", func() bool { return pendings(r.keeper.Image()) == 1 })
	giveUp()
	if err := <-got; !errors.Is(err, context.Canceled) {
		r.t.Errorf("who gave up was told %v", err)
	}
	return func() { r.store.OnTxn(nil) }
}

func pendings(img *meta.Image) (n int) {
	for range img.Pendings() {
		n++
	}
	return n
}

func leftover(img *meta.Image) (n int) {
	for range img.Aside() {
		n++
	}
	return n
}

func (r *rig) whole(topic string, partitions int) {
	r.t.Helper()
	r.await(topic+" whole", func() bool {
		img := r.keeper.Image()
		t, ok := img.Topic(topic)
		return ok && len(t.Partitions) == partitions && pendings(img) == 0 && leftover(img) == 0
	})
	r.await(topic+" to serve", func() bool { return r.leads(topic, int32(partitions-1)) })
}

// What a client gave up waiting for is brought to an end, and nothing of it
// stands in the way of others.
func TestHalfMadeIsFinished(t *testing.T) {
	r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
	resume := r.halfMade(func(ctx context.Context) error {
		_, err := r.create(ctx, "half", manyPartitions)
		return err
	})
	if _, there := r.keeper.Image().Topic("half"); there {
		t.Error("a topic is there that is not whole")
	}
	resume()
	r.whole("half", manyPartitions)

	if _, err := r.create(t.Context(), "more", 2); err != nil {
		t.Fatal(err)
	}
	resume = r.halfMade(func(ctx context.Context) error {
		return r.wishes.AddPartitions(ctx, api.MorePartitions{Topic: "more", Count: manyPartitions}, false)
	})
	if got, _ := r.keeper.Image().Topic("more"); len(got.Partitions) != 2 {
		t.Errorf("%d partitions are there before all are made", len(got.Partitions))
	}
	resume()
	r.whole("more", manyPartitions)
}

// A broker that ends between two steps leaves no topic, a topic of its old
// size, and nothing in the way of those who try again.
func TestHalfMadeIsCollected(t *testing.T) {
	mem, disk := metastore.NewMem(), vfs.NewMem()
	r := startRig(t, mem, disk, "a")
	r.halfMade(func(ctx context.Context) error {
		_, err := r.create(ctx, "half", manyPartitions)
		return err
	})
	r.stop()
	r = startRig(t, mem, disk, "b")
	r.await("nothing left of it", func() bool {
		return pendings(r.keeper.Image()) == 0 && leftover(r.keeper.Image()) == 0
	})
	if _, there := r.keeper.Image().Topic("half"); there {
		t.Error("half a topic is there")
	}
	if _, err := r.create(t.Context(), "half", 2); err != nil {
		t.Fatalf("made again: %v", err)
	}
	r.whole("half", 2)

	r.halfMade(func(ctx context.Context) error {
		return r.wishes.AddPartitions(ctx, api.MorePartitions{Topic: "half", Count: manyPartitions}, false)
	})
	r.stop()
	r = startRig(t, mem, disk, "c")
	r.whole("half", 2)
	err := r.wishes.AddPartitions(t.Context(), api.MorePartitions{Topic: "half", Count: 2}, false)
	if !errors.Is(err, kerr.InvalidPartitions) {
		t.Errorf("to the old size: %v", err)
	}
	if err := r.wishes.AddPartitions(t.Context(), api.MorePartitions{Topic: "half", Count: 5}, false); err != nil {
		t.Fatal(err)
	}
	r.whole("half", 5)
}
