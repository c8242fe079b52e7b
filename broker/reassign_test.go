package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// neighbour registers a broker that does nothing, and waits for the image to show it.
func neighbour(t *testing.T, k *imageKeeper, s metastore.Store, id kafka.NodeID) {
	t.Helper()
	if err := k.Await(t.Context(), unseen(t, k, s, id)); err != nil {
		t.Fatal(err)
	}
}

// unseen registers a broker that does nothing.
func unseen(t *testing.T, k *imageKeeper, s metastore.Store, id kafka.NodeID) (rev int64) {
	t.Helper()
	b := &meta.Broker{ID: id, StartID: id.String(), Dirs: []kafka.DirID{{byte(id), 1}}}
	reg, err := plan.Register(k.Image().Keys(), nil, b, 0)
	if err != nil {
		t.Fatal(err)
	}
	res, err := txn(t.Context(), s, reg.Put)
	if err != nil {
		t.Fatal(err)
	}
	return res.Rev
}

// A client that another broker has shown a new one names it at once: this one's image,
// which may be behind, does not refuse it.
func TestWishesForABrokerThatIsNew(t *testing.T) {
	r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
	if _, err := r.create(t.Context(), "r", 1); err != nil {
		t.Fatal(err)
	}
	for id := kafka.NodeID(2); id < 42; id += 2 {
		unseen(t, r.keeper, r.store, id)
		if err := r.wishes.Reassign(t.Context(), everyPartitionTo("r", 1, 1, id))[0]; err != nil {
			t.Errorf("a partition to %d: %v", id, err)
		}
		unseen(t, r.keeper, r.store, id+1)
		_, err := r.wishes.CreateTopic(t.Context(), api.NewTopic{
			Name: fmt.Sprint("on", id), Partitions: -1, ReplicationFactor: -1,
			Assignment: []api.Assigned{{Partition: 0, Replicas: []kafka.NodeID{id + 1}}},
		}, false)
		if err != nil {
			t.Errorf("a topic on %d: %v", id+1, err)
		}
	}
	// What is not there is refused still.
	if err := r.wishes.Reassign(t.Context(), everyPartitionTo("r", 1, 1, 99))[0]; !errors.Is(err, kerr.InvalidReplicaAssignment) {
		t.Errorf("a partition to nobody: %v", err)
	}
}

// joined writes the ISR that a leader writes when id has caught up.
func joined(t *testing.T, k *imageKeeper, s metastore.Store, p *meta.Partition, id kafka.NodeID) {
	t.Helper()
	img := k.Image()
	change := plan.ISRChange{Partition: p.ID(), Leader: p.Leader, LeaderBrokerEpoch: p.LeaderBrokerEpoch, LeaderEpoch: p.LeaderEpoch}
	for _, n := range slices.Compact([]kafka.NodeID{p.Leader, id}) {
		b, _ := img.Broker(n)
		change.ISR = append(change.ISR, plan.Member{Node: n, BrokerEpoch: b.Epoch})
	}
	c, err := plan.ChangeISR(img, change)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range plan.Batches(img.Keys(), nil, []plan.Change{c}) {
		res, err := txn(t.Context(), s, b.Txn)
		if err == nil {
			err = k.Await(t.Context(), res.Rev)
		}
		if err != nil || !res.Succeeded {
			t.Fatalf("joined: %v, %v", res.Succeeded, err)
		}
	}
}

func everyPartitionTo(topic string, count int32, nodes ...kafka.NodeID) []plan.Reassignment {
	var out []plan.Reassignment
	for n := range count {
		out = append(out, plan.Reassignment{Topic: topic, Partition: n, Replicas: nodes})
	}
	return out
}

// What was told to have begun has, and what was told to have ended, whatever
// became of the transactions; and the controller brings it to its end.
func TestReassignThroughAmbiguity(t *testing.T) {
	const count = 300 // several transactions
	for seed := range uint64(3) {
		r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
		if _, err := r.create(t.Context(), "r", count); err != nil {
			t.Fatal(err)
		}
		neighbour(t, r.keeper, r.store, 2)
		r.await("the names of directories", func() bool {
			topic, _ := r.keeper.Image().Topic("r")
			return topic.Partitions[count-1].Replicas[0].Dir != kafka.DirUnassigned
		})
		r.store.OnTxn(unsure(seed))
		all := func(what string, rs []plan.Reassignment, holds func(*meta.Partition) bool) {
			t.Helper()
			for n, err := range r.wishes.Reassign(t.Context(), rs) {
				if err != nil {
					t.Errorf("seed %d: %s: %d: %v", seed, what, n, err)
				}
			}
			topic, _ := r.keeper.Image().Topic("r")
			for _, p := range topic.Partitions {
				if !holds(p) {
					t.Errorf("seed %d: %s: %d is %+v", seed, what, p.Partition, p)
				}
			}
		}
		all("begun", everyPartitionTo("r", count, 2), func(p *meta.Partition) bool {
			return len(p.Adding) == 1 && len(p.Removing) == 1 && p.Leader == rigNode
		})
		all("replaced", everyPartitionTo("r", count, 1, 2), func(p *meta.Partition) bool {
			return len(p.Adding) == 1 && len(p.Removing) == 0
		})
		all("cancelled", everyPartitionTo("r", count), func(p *meta.Partition) bool { return !p.Reassigning() && len(p.Replicas) == 1 })
		all("begun again", everyPartitionTo("r", count, 2), (*meta.Partition).Reassigning)
		r.store.OnTxn(nil)
		topic, _ := r.keeper.Image().Topic("r")
		one := func() *meta.Partition {
			topic, _ := r.keeper.Image().Topic("r")
			return topic.Partitions[7]
		}
		joined(t, r.keeper, r.store, topic.Partitions[7], 2)
		r.await("another leader of one", func() bool { return one().Leader == 2 && one().LeaderEpoch == 1 && len(one().ISR) == 2 })
		joined(t, r.keeper, r.store, one(), 2) // alone: who led has heard of it
		if p := one(); p.Reassigning() || p.Leader != 2 || len(p.ISR) != 1 {
			t.Errorf("seed %d: the end of one: %+v", seed, p)
		}
		r.stop()
	}
}

// Each wish is answered for itself, also when one partition is named twice, and
// also when time is over.
func TestReassignAnswers(t *testing.T) {
	r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
	if _, err := r.create(t.Context(), "r", 2); err != nil {
		t.Fatal(err)
	}
	neighbour(t, r.keeper, r.store, 2)
	want := func(what string, errs []error, of ...error) {
		t.Helper()
		for n := range of {
			if !errors.Is(errs[n], of[n]) {
				t.Errorf("%s: %d: %v, not %v", what, n, errs[n], of[n])
			}
		}
	}
	rs := append(everyPartitionTo("r", 3, 1, 2), plan.Reassignment{Topic: "r", Partition: 1}, plan.Reassignment{Topic: "r", Partition: 0, Replicas: []kafka.NodeID{2, 1}})
	want("several", r.wishes.Reassign(t.Context(), rs), nil, nil, kerr.UnknownTopicOrPartition, kerr.NoReassignmentInProgress, nil)
	if topic, _ := r.keeper.Image().Topic("r"); topic.Partitions[0].Replicas[0].Node != 2 {
		t.Errorf("of two wishes the last does not count: %+v", topic.Partitions[0])
	}
	of := []kafka.TopicPartition{{Topic: "r", Partition: 0}, {Topic: "r", Partition: 1}, {Topic: "s"}}
	want("preferred", r.wishes.ElectLeaders(t.Context(), of, plan.Preferred), kerr.PreferredLeaderNotAvailable, kerr.ElectionNotNeeded, kerr.UnknownTopicOrPartition)
	want("unclean", r.wishes.ElectLeaders(t.Context(), of, plan.Unclean), kerr.ElectionNotNeeded, kerr.ElectionNotNeeded)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	want("too late", r.wishes.Reassign(over, everyPartitionTo("r", 2)), context.Canceled, context.Canceled)

	// 2 catches up, and is elected on request while the other partition waits.
	topic, _ := r.keeper.Image().Topic("r")
	joined(t, r.keeper, r.store, topic.Partitions[0], 2)
	r.await("two in sync", func() bool {
		topic, _ = r.keeper.Image().Topic("r")
		return !topic.Partitions[0].Reassigning() && len(topic.Partitions[0].ISR) == 2
	})
	want("preferred", r.wishes.ElectLeaders(t.Context(), of[:1], plan.Preferred), nil)
	if topic, _ := r.keeper.Image().Topic("r"); topic.Partitions[0].Leader != 2 {
		t.Errorf("the preferred leader does not lead: %+v", topic.Partitions[0])
	}
}
