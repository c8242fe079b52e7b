package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Directories of new logs that could not be named, because the registration went
// between the look at the metadata and the transaction, are named under the next
// one: a replica without a directory follows nobody.
func TestDirectoriesAreNamedUnderTheNextRegistration(t *testing.T) {
	r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
	var gone atomic.Bool
	own := meta.KeysOf(rigCluster).Broker(rigNode)
	r.store.OnTxn(func(x metastore.Txn) metastore.Fault {
		names := len(x.If) > 0 && x.If[0].Key == own && slices.ContainsFunc(x.Then, func(o kv.Op) bool {
			return strings.HasSuffix(o.Key, "/state") && strings.Contains(string(o.Value), fmt.Sprintf(`{"id":%d,"dir":`, rigNode))
		})
		if names && gone.CompareAndSwap(false, true) {
			if _, err := txn(t.Context(), r.store, plan.Unregister(r.keeper.Image().Keys(), rigNode, r.keeper.Epoch(r.keeper.Image()))); err != nil {
				t.Error(err)
			}
			r.register(t.Context(), "a")
		}
		return metastore.Fault{}
	})
	neighbour(t, r.keeper, r.store, 2)
	_, err := r.wishes.CreateTopic(t.Context(), api.NewTopic{
		Name: "t", Partitions: -1, ReplicationFactor: -1, Assignment: []api.Assigned{{Partition: 0, Replicas: []kafka.NodeID{2}}},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.wishes.Reassign(t.Context(), []plan.Reassignment{{Topic: "t", Replicas: []kafka.NodeID{2, rigNode}}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.await("the name of a directory", func() bool {
		topic, _ := r.keeper.Image().Topic("t")
		p, _ := topic.Partitions[0].Replica(rigNode)
		return p.Dir != kafka.DirUnassigned
	})
	if !gone.Load() {
		t.Error("the registration stayed")
	}
}
