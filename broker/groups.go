package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/replica"
)

// groups is the group coordinator: api.Groups over a runtime of one machine a
// partition of the offsets topic.
type groups struct {
	keeper   *imageKeeper
	cluster  api.Cluster
	replicas *replica.Manager
	settings *settings
	cfg      config.Groups
	run      *coord.Runtime
	valid    func() bool // this broker's session holds; nil: it needs none
	log      *slog.Logger
}

func newGroups(s *settings, k *imageKeeper, cluster api.Cluster, r *replica.Manager, log *slog.Logger, reg prometheus.Registerer) *groups {
	c := s.static.Groups()
	g := &groups{keeper: k, cluster: cluster, replicas: r, settings: s, cfg: c, log: log}
	g.run = coord.New(coord.Config{
		Name:          "group",
		Partition:     g.partition,
		Machine:       func(int32) coord.Machine { return group.New(g.machines(k.Image()), k.Image()) },
		Begin:         func() coord.Command { return g.newImage(k.Image(), nil) },
		Effect:        func(shard int32, e coord.Effect) { log.Warn("group coordinator", "shard", shard, "says", e) },
		Workers:       runtime.GOMAXPROCS(0),
		MaxBatchBytes: maxRecordBytes,
		Encoding:      batch.Encoding{Codec: batch.Codec(c.Offsets.Codec)},
		LoadBytes:     c.Offsets.LoadBytes,
		MaxQueued:     maxQueued,
		CommitTimeout: c.Offsets.CommitTimeout,
		Log:           log,
		Metrics:       coord.NewMetrics(reg, "group"),
	})
	return g
}

const (
	// maxRecordBytes bounds what a machine writes at once.
	maxRecordBytes = 1 << 20
	// maxQueued bounds what waits for one shard: a connection has one command.
	maxQueued = 100_000
)

func (g *groups) partition(shard int32) (coord.Partition, bool) {
	p, ok := g.replicas.Get(kafka.TopicPartition{Topic: api.OffsetsTopic, Partition: shard})
	if !ok { // not a nil *replica.Partition in an interface
		return nil, false
	}
	if g.valid != nil {
		return fencedPartition{p, g.valid}, true
	}
	return p, true
}

// fencedPartition takes no writes while the broker is fenced: members that are
// not heard then are not thrown out.
type fencedPartition struct {
	*replica.Partition
	valid func() bool
}

func (p fencedPartition) Admit() error {
	if !p.valid() {
		return errFenced
	}
	return p.Partition.Admit()
}

// errFenced: another broker may coordinate by now.
var errFenced = fmt.Errorf("%w: this broker's session may be over", kerr.NotCoordinator)

// follow takes over a published image: who leads, and what the machines are to
// know. It is called for each in order, by one goroutine at a time.
func (g *groups) follow(img *meta.Image, d *meta.Delta, resync bool) {
	for _, t := range d.Deleted {
		if t.Name == api.OffsetsTopic {
			for i := range t.Partitions {
				g.run.Resigned(int32(i))
			}
		}
	}
	if t, ok := img.Topic(api.OffsetsTopic); ok && (resync || d.Empty() || touches(d, t) || len(d.BrokersUp)+len(d.BrokersDown) > 0) {
		for i := range t.Partitions {
			g.elect(t, int32(i))
		}
	}
	if resync || concernsGroups(d) {
		if resync {
			d = nil
		}
		g.run.Broadcast(g.newImage(img, d))
	}
}

// machines is what machines go by in an image.
func (g *groups) machines(img *meta.Image) group.Config {
	return groupConfig(g.settings.at(img).Groups())
}

func (g *groups) newImage(img *meta.Image, d *meta.Delta) *group.NewImage {
	defaults := g.machines(img).ConsumerDefaults
	return &group.NewImage{Image: img, Delta: d, Defaults: &defaults}
}

// touches: the delta changes partitions of t.
func touches(d *meta.Delta, t *meta.Topic) bool {
	for _, c := range d.Partitions {
		if c.Topic.ID == t.ID {
			return true
		}
	}
	return false
}

// concernsGroups leaves out what happens all the time and changes no
// subscription: leaders and in-sync replicas.
func concernsGroups(d *meta.Delta) bool {
	if d.ClusterConfig || len(d.Created)+len(d.Deleted)+len(d.GroupConfigs)+len(d.BrokerConfigs)+len(d.BrokersUp)+len(d.BrokersDown)+len(d.BrokersChanged) > 0 {
		return true
	}
	for _, c := range d.Partitions {
		if c.Old == nil || c.New == nil {
			return true
		}
	}
	return false
}

func (g *groups) elect(t *meta.Topic, shard int32) {
	p, ok := g.replicas.Get(kafka.TopicPartition{Topic: t.Name, Partition: shard})
	if ok && p.TopicID() == t.ID {
		if epoch, leads := p.Leading(); leads {
			g.run.Elected(shard, epoch)
			return
		}
	}
	g.run.Resigned(shard)
}

// shard is where a group lives; ok is false while there is no offsets topic.
func (g *groups) shard(id string) (shard int32, ok bool) {
	t, ok := g.keeper.Image().Topic(api.OffsetsTopic)
	if !ok {
		return -1, false
	}
	return group.ShardOf(id, int32(len(t.Partitions))), true
}

// Do implements api.Groups.
func (g *groups) Do(ctx context.Context, id string, cmd coord.Command) (any, error) {
	shard, ok := g.shard(id)
	if !ok {
		return nil, kerr.CoordinatorNotAvailable // FindCoordinator makes the topic
	}
	return g.ask(ctx, shard, cmd)
}

// ask hands a command to a shard. A reply that was made by a coordinator which
// may be none any more is not given (safety 31).
func (g *groups) ask(ctx context.Context, shard int32, cmd coord.Command) (any, error) {
	if g.valid != nil && !g.valid() {
		return nil, errFenced
	}
	reply, err := g.run.Do(ctx, shard, cmd)
	if err == nil && g.valid != nil && !g.valid() {
		return nil, errFenced
	}
	return reply, err
}

// Each implements api.Groups. A shard that was given up meanwhile has nothing
// to say; one that loads is an error, as in Apache Kafka.
func (g *groups) Each(ctx context.Context, cmd coord.Command) ([]any, error) {
	t, ok := g.keeper.Image().Topic(api.OffsetsTopic)
	if !ok {
		return nil, nil
	}
	var out []any
	for i := range t.Partitions {
		reply, err := g.ask(ctx, int32(i), cmd)
		if errors.Is(err, kerr.NotCoordinator) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, reply)
	}
	return out, nil
}

// Coordinator implements api.Groups.
func (g *groups) Coordinator(ctx context.Context, id string) (kafka.NodeID, error) {
	shard, ok := g.shard(id)
	if !ok {
		if err := g.create(ctx); err != nil {
			return kafka.NoNode, err
		}
		if shard, ok = g.shard(id); !ok {
			return kafka.NoNode, kerr.CoordinatorNotAvailable
		}
	}
	t, ok := g.keeper.Image().Topic(api.OffsetsTopic)
	if !ok || int(shard) >= len(t.Partitions) || t.Partitions[shard].Leader < 0 {
		return kafka.NoNode, kerr.CoordinatorNotAvailable
	}
	return t.Partitions[shard].Leader, nil
}

// create makes the offsets topic, with as many replicas as there are brokers, up to the
// configured number: the rest come when brokers do.
func (g *groups) create(ctx context.Context) error {
	brokers := len(g.keeper.Image().Brokers())
	if brokers == 0 {
		return kerr.CoordinatorNotAvailable
	}
	_, err := g.cluster.CreateTopic(ctx, api.NewTopic{
		Name: api.OffsetsTopic, Partitions: g.cfg.Offsets.Partitions,
		ReplicationFactor: int16(min(int(g.cfg.Offsets.Replicas), brokers)),
		Config:            g.cfg.Offsets.TopicConfig(),
	}, false)
	switch {
	case err == nil || errors.Is(err, kerr.TopicAlreadyExists):
		return nil
	case errors.Is(ctx.Err(), context.Canceled): // whoever asked has gone; what it began is finished or swept like any topic's beginning
		return kerr.CoordinatorNotAvailable
	default:
		g.log.Warn("offsets topic could not be made", "topic", api.OffsetsTopic, "err", err)
		return kerr.CoordinatorNotAvailable
	}
}

// ConsumerEnabled implements api.Groups.
func (g *groups) ConsumerEnabled() bool { return slices.Contains(g.cfg.Protocols, "consumer") }

// groupConfig is what machines take of the settings.
func groupConfig(c config.Groups) group.Config {
	settings := func(of func(config.Bounded) time.Duration) group.Settings {
		return group.Settings{Session: of(c.Session), Heartbeat: of(c.Heartbeat), AssignmentInterval: of(c.AssignmentInterval)}
	}
	return group.Config{
		MinSession: c.MinSession, MaxSession: c.MaxSession, InitialRebalanceDelay: c.InitialRebalanceDelay, MaxSize: c.MaxSize,
		OffsetMetadataMax: c.Offsets.MetadataMax, OffsetsRetention: c.Offsets.Retention, OffsetsRetentionCheck: c.Offsets.RetentionCheck,
		MaxRecordBytes:    maxRecordBytes,
		ConsumerEnabled:   slices.Contains(c.Protocols, "consumer"),
		ConsumerMaxSize:   c.ConsumerMaxSize,
		ConsumerAssignors: c.ConsumerAssignors,
		ConsumerMigration: group.Migration{Upgrade: c.ConsumerUpgrade, Downgrade: c.ConsumerDowngrade},
		RegexRefresh:      c.ConsumerRegexEvery,
		ConsumerDefaults:  settings(func(b config.Bounded) time.Duration { return b.Default }),
		ConsumerMin:       settings(func(b config.Bounded) time.Duration { return b.Min }),
		ConsumerMax:       settings(func(b config.Bounded) time.Duration { return b.Max }),
	}
}
