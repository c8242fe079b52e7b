package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
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

// A leader whose registration changes between two steps makes the step that
// assumed it fail: the creation begins anew, and the topic has no hole.
func TestRegistrationChangesWhileMaking(t *testing.T) {
	mem := metastore.NewMem()
	r := startRig(t, mem, vfs.NewMem(), "a")
	disturb := func(step int32) {
		var steps atomic.Int32
		r.store.OnTxn(func(tx metastore.Txn) metastore.Fault {
			switch n := steps.Add(1); {
			case len(tx.Then) < 50:
				steps.Add(-1)
				return metastore.Fault{}
			case n > step && n%2 == 0: // and every other answer is lost from then on
				return metastore.Fault{Kind: metastore.LostAnswer}
			case n != step:
				return metastore.Fault{}
			}
			img := r.keeper.Image()
			change, err := plan.SetCordoned(img, rigNode, r.keeper.Epoch(img), nil)
			if err != nil {
				t.Error(err)
			}
			if res, err := mem.Txn(t.Context(), change); err != nil || !res.Succeeded {
				t.Errorf("registration not changed: %v", err)
			}
			return metastore.Fault{}
		})
	}
	disturb(2)
	if _, err := r.create(t.Context(), "whole", manyPartitions); err != nil {
		t.Fatal(err)
	}
	r.whole("whole", manyPartitions)
	disturb(1)
	if err := r.wishes.AddPartitions(t.Context(), api.MorePartitions{Topic: "whole", Count: 2 * manyPartitions}, false); err != nil {
		t.Fatal(err)
	}
	r.whole("whole", 2*manyPartitions)
}

// A creation that was given up while the metadata store is away is given up when it
// is back: its pending key would keep others from adding partitions.
func TestAbandonedWhileTheStoreIsAway(t *testing.T) {
	mem := metastore.NewMem()
	r := startRig(t, mem, vfs.NewMem(), "a")
	if _, err := r.create(t.Context(), "more", 2); err != nil {
		t.Fatal(err)
	}
	var steps, refused atomic.Int32
	r.store.OnTxn(func(tx metastore.Txn) metastore.Fault {
		if len(tx.Then) <= 2 && len(tx.If) == 1 && strings.Contains(tx.If[0].Key, "/pending/") && refused.Add(1) < 3 {
			return metastore.Fault{Kind: metastore.Refused}
		}
		if len(tx.Then) > 50 && steps.Add(1) == 2 {
			img := r.keeper.Image()
			change, err := plan.SetCordoned(img, rigNode, r.keeper.Epoch(img), nil)
			if err != nil {
				t.Error(err)
			}
			if _, err := mem.Txn(t.Context(), change); err != nil {
				t.Error(err)
			}
		}
		return metastore.Fault{}
	})
	if err := r.wishes.AddPartitions(t.Context(), api.MorePartitions{Topic: "more", Count: manyPartitions}, false); err != nil {
		t.Fatal(err)
	}
	r.whole("more", manyPartitions)
	if refused.Load() < 3 {
		t.Errorf("given up %d times", refused.Load())
	}
}

// Partitions that were added, but for the last answer, were added.
func TestAddedWithoutAnAnswer(t *testing.T) {
	for _, count := range []int32{5, manyPartitions} {
		r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
		if _, err := r.create(t.Context(), "more", 2); err != nil {
			t.Fatal(err)
		}
		var last atomic.Int32
		r.store.OnTxn(func(tx metastore.Txn) metastore.Fault {
			if slices.ContainsFunc(tx.Then, func(op kv.Op) bool { return strings.HasSuffix(op.Key, "/topics/more") }) && last.Add(1) == 1 {
				return metastore.Fault{Kind: metastore.LostAnswer}
			}
			return metastore.Fault{}
		})
		if err := r.wishes.AddPartitions(t.Context(), api.MorePartitions{Topic: "more", Count: count}, false); err != nil {
			t.Errorf("%d partitions, all of which were made: %v", count, err)
		}
		r.whole("more", int(count))
		err := r.wishes.AddPartitions(t.Context(), api.MorePartitions{Topic: "more", Count: count}, false)
		if !errors.Is(err, kerr.InvalidPartitions) {
			t.Errorf("once more: %v", err)
		}
		r.stop()
	}
}

// The image goes on while the logs of a topic of many partitions are made: a
// broker whose image stands still for long is fenced.
func TestImageGoesOnWhileLogsAreMade(t *testing.T) {
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	stuck := make(chan struct{})
	begun := sync.OnceFunc(func() { close(stuck) })
	r := startRig(t, metastore.NewMem(), vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.Contains(op.Name, "/many-") {
			begun()
			<-held
		}
		return nil
	}), "a")
	t.Cleanup(release)
	var all sync.WaitGroup
	for _, name := range []string{"many", "few"} {
		all.Go(func() {
			if _, err := r.create(t.Context(), name, map[string]int32{"many": manyPartitions, "few": 2}[name]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		r.await(name+" in the image", func() bool {
			_, ok := r.keeper.Image().Topic(name)
			return ok
		})
		if name == "many" {
			<-stuck
		}
	}
	release()
	all.Wait()
	r.whole("many", manyPartitions)
	r.whole("few", 2)
}
