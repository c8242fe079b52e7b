package broker

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

const (
	rigCluster = "AAAAAAAAAAAAAAAAAAAAAQ"
	rigNode    = kafka.NodeID(1)
	patience   = 30 * time.Second
)

var quiet = slog.New(slog.DiscardHandler)

// rig is the part of a broker that stands between the metadata store and the
// logs, over a store and a disk in memory.
type rig struct {
	t        *testing.T
	store    *metastore.Faulty
	logs     *storage.Manager
	replicas *replica.Manager
	keeper   *imageKeeper
	wishes   *wishes
	stop     func()
}

// startRig starts one that has registered and is about to become the controller.
func startRig(t *testing.T, mem *metastore.Mem, disk vfs.FS, startID string) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{t: t, store: metastore.NewFaulty(mem)}
	r.logs = storage.New(storage.ManagerConfig{Dirs: []string{"/data"}, NodeID: rigNode, ClusterID: rigCluster}, disk, nil, nil)
	if err := r.logs.Open(ctx); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.replicas = replica.NewManager(rigNode, r.logs, newSettings(cfg, rigNode, quiet).forPartition, quiet)
	r.keeper = newImageKeeper(rigNode, startID, r.replicas, quiet)
	r.keeper.begin(rigCluster)
	r.wishes = newWishes(r.keeper, r.store, r.replicas, quiet)
	r.register(ctx, startID)

	var all sync.WaitGroup
	control := &control{
		keeper: r.keeper, store: r.store, self: rigNode, log: quiet,
		offline: func() []kafka.DirID { return nil }, cordoned: r.logs.Cordoned, dirFailed: make(chan struct{}, 1),
	}
	follower := metastore.NewFollower(r.store, meta.KeysOf(rigCluster).Prefix(), func(u metastore.Update) error {
		return r.keeper.apply(ctx, u)
	}, nil)
	all.Go(func() { _ = follower.Run(ctx) })
	all.Go(func() { _ = r.keeper.makeLogs(ctx) })
	all.Go(func() { _ = control.Run(ctx) })
	all.Go(func() { _ = r.logs.Run(ctx) })
	all.Go(func() { _ = r.wishes.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
		r.replicas.Close()
		if err := r.logs.Close(1); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	t.Cleanup(r.stop)
	r.await("a registration", func() bool { return r.keeper.Epoch(r.keeper.Image()) != 0 })
	return r
}

func (r *rig) register(ctx context.Context, startID string) {
	r.t.Helper()
	if _, err := txn(ctx, r.store, plan.Bootstrap(rigCluster, 1)); err != nil {
		r.t.Fatal(err)
	}
	kvs, rev, err := metastore.ListAll(ctx, r.store, meta.KeysOf(rigCluster).Prefix(), 100)
	if err != nil {
		r.t.Fatal(err)
	}
	img, _ := meta.FromListing(rigCluster, kvs, rev)
	existing, _ := img.Broker(rigNode)
	self := &meta.Broker{ID: rigNode, StartID: startID, Dirs: []kafka.DirID{r.logs.Dirs()[0].ID}, Features: supportedFeatures()}
	self.Listeners = []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: 1}}
	reg, err := plan.Register(img.Keys(), existing, self, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	if reg.Remove != nil {
		if _, err := txn(ctx, r.store, *reg.Remove); err != nil {
			r.t.Fatal(err)
		}
	}
	if _, err := txn(ctx, r.store, reg.Put); err != nil {
		r.t.Fatal(err)
	}
}

// await waits until a condition holds that changes with the published image.
func (r *rig) await(what string, holds func() bool) {
	r.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		changed := r.keeper.Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			r.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (r *rig) leads(topic string, partition int32) bool {
	p, ok := r.replicas.Get(kafka.TopicPartition{Topic: topic, Partition: partition})
	if !ok {
		return false
	}
	_, leads := p.Leading()
	return leads
}

func (r *rig) create(ctx context.Context, topic string, partitions int32) (api.CreatedTopic, error) {
	return r.wishes.CreateTopic(ctx, api.NewTopic{
		Name: topic, Partitions: partitions, ReplicationFactor: 1, Config: map[string]string{"segment.bytes": "2000000"},
	}, false)
}
