package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

// wishes carries out what handlers ask of the metadata: api.Cluster.
type wishes struct {
	keeper   *imageKeeper
	store    metastore.Store
	self     kafka.NodeID
	replicas *replica.Manager
	log      *slog.Logger

	makers *makers
	ids    producerIDs
}

func newWishes(k *imageKeeper, s metastore.Store, r *replica.Manager, log *slog.Logger) *wishes {
	return &wishes{keeper: k, store: s, self: k.self, replicas: r, log: log, makers: newMakers(), ids: producerIDs{turn: make(chan struct{}, 1)}}
}

// CreateTopic implements api.Cluster.
func (w *wishes) CreateTopic(ctx context.Context, t api.NewTopic, validate bool) (api.CreatedTopic, error) {
	var made api.CreatedTopic
	err := w.grow(ctx, validate, func(img *meta.Image, by plan.Creator) (*plan.Making, kafka.TopicID, error) {
		wish := newTopic(t, by)
		m, err := plan.CreateTopic(img, wish)
		if err == nil {
			made = api.CreatedTopic{
				ID: wish.ID, Partitions: int32(len(m.Partitions)), ReplicationFactor: int16(len(m.Partitions[0].Replicas)),
			}
		}
		return m, wish.ID, err
	})
	if err != nil {
		return api.CreatedTopic{}, err
	}
	if !validate {
		w.log.Info("topic created", "topic", t.Name, "topic_id", made.ID, "partitions", made.Partitions)
	}
	return made, nil
}

// AddPartitions implements api.Cluster.
func (w *wishes) AddPartitions(ctx context.Context, p api.MorePartitions, validate bool) error {
	err := w.grow(ctx, validate, func(img *meta.Image, by plan.Creator) (*plan.Making, kafka.TopicID, error) {
		m, err := plan.AddPartitions(img, plan.MorePartitions{
			Topic: p.Topic, Count: p.Count, Manual: p.Assignment, Start: randomStart(), Creator: by,
		})
		if err != nil {
			return nil, kafka.TopicID{}, err
		}
		return m, m.Partitions[0].Topic, nil
	})
	if err == nil && !validate {
		w.log.Info("partitions added", "topic", p.Topic, "partitions", p.Count)
	}
	return err
}

// grow makes what is planned from the newest image, again when that was outrun.
func (w *wishes) grow(ctx context.Context, validate bool, plans func(*meta.Image, plan.Creator) (*plan.Making, kafka.TopicID, error)) error {
	current := false
	for {
		changed := w.keeper.Changed()
		img := w.keeper.Image()
		by := plan.Creator{Node: w.self, BrokerEpoch: w.keeper.Epoch(img), Token: storage.NewUUID()}
		if by.BrokerEpoch == 0 && !validate {
			return errNotJoined
		}
		if self, ok := img.Broker(w.self); ok {
			by.Lease = self.Lease // what is half made when this broker goes is nobody's at once (safety 29)
		}
		m, id, err := plans(img, by)
		if !current && misses(err) && w.catchUp(ctx) {
			current = true
			continue
		}
		if err != nil || validate {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.make(ctx, m, id); !errors.Is(err, plan.ErrStale) {
			return err
		}
		select { // what the plan assumed is outrun: the next image tells by what
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// misses reports that a wish is refused for a broker that is not there: it may be, for
// another broker may have shown it to the client already.
func misses(err error) bool {
	return errors.Is(err, kerr.InvalidReplicaAssignment) || errors.Is(err, kerr.InvalidReplicationFactor)
}

// catchUp waits for the image to show all that the store had when it was called; false:
// it cannot be told.
func (w *wishes) catchUp(ctx context.Context) bool {
	rev, err := w.store.Rev(ctx)
	return err == nil && w.keeper.Await(ctx, rev) == nil
}

func newTopic(t api.NewTopic, by plan.Creator) plan.NewTopic {
	wish := plan.NewTopic{
		Name: t.Name, ID: storage.NewUUID(), Partitions: t.Partitions, Factor: t.ReplicationFactor, Configs: t.Config,
		DefaultPartitions: t.DefaultPartitions, DefaultFactor: t.DefaultReplicationFactor, Creator: by,
	}
	for _, a := range t.Assignment {
		wish.Manual = append(wish.Manual, plan.ManualAssignment{Partition: a.Partition, Replicas: a.Replicas})
	}
	wish.Start = randomStart()
	return wish
}

// randomStart is where the placement of a topic's replicas begins.
func randomStart() uint64 {
	id := storage.NewUUID()
	return binary.BigEndian.Uint64(id[:])
}

// settled waits until the image shows a new topic and the partitions that this
// broker leads do lead: the client's next request finds them. Elsewhere they
// may take a moment longer, which clients know how to handle.
func (w *wishes) settled(ctx context.Context, rev int64, id kafka.TopicID) error {
	if err := w.keeper.Await(ctx, rev); err != nil {
		return err
	}
	for {
		changed := w.keeper.Changed()
		t, ok := w.keeper.Image().TopicByID(id)
		if !ok || w.lead(t) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil // it is made; that it does not serve yet is a matter of retries
		}
	}
}

func (w *wishes) lead(t *meta.Topic) bool {
	for _, s := range t.Partitions {
		if s.Leader != w.self {
			continue
		}
		p, ok := w.replicas.Get(kafka.TopicPartition{Topic: t.Name, Partition: s.Partition})
		if !ok {
			return false
		}
		if _, leads := p.Leading(); !leads {
			return false
		}
	}
	return true
}

// DeleteTopic implements api.Cluster.
func (w *wishes) DeleteTopic(ctx context.Context, id kafka.TopicID) error {
	for {
		changed := w.keeper.Changed()
		t, err := plan.DeleteTopic(w.keeper.Image(), id, time.Now().UnixMilli())
		if err != nil {
			return err
		}
		res, err := txn(ctx, w.store, t)
		if err != nil {
			return err
		}
		if err := w.keeper.Await(ctx, res.Rev); err != nil {
			return err
		}
		if _, there := w.keeper.Image().TopicByID(id); !there {
			w.log.Info("topic deleted", "topic_id", id)
			return nil
		}
		select { // changed meanwhile: planned again from what it is now
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Configure implements api.Cluster.
func (w *wishes) Configure(ctx context.Context, scope config.Scope, name string, change func(map[string]string) (map[string]string, error), validate bool) error {
	for {
		changed := w.keeper.Changed()
		img := w.keeper.Image()
		if img.Revision() == 0 {
			return errNotJoined
		}
		t, ok, err := configure(img, scope, name, change)
		if err != nil || !ok || validate {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		res, err := txn(ctx, w.store, t)
		if err != nil {
			return err
		}
		if res.Succeeded {
			w.log.Info("configuration changed", "of", scope, "name", name)
			return w.keeper.Await(ctx, res.Rev)
		}
		select { // changed meanwhile: planned again from what it is now
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// producerIDs is the block of ids that this broker hands out of. It belongs to
// whoever holds the turn.
type producerIDs struct {
	turn      chan struct{}
	next, end int64
}

// ProducerID implements api.Cluster. A block is taken by one for all: those who
// wait for the turn want the same block, each as long as its own context.
func (w *wishes) ProducerID(ctx context.Context) (int64, error) {
	select {
	case w.ids.turn <- struct{}{}:
	case <-ctx.Done():
		return -1, context.Cause(ctx)
	}
	defer func() { <-w.ids.turn }()
	if w.ids.next == w.ids.end {
		first, err := w.takeBlock(ctx)
		if err != nil {
			return -1, err
		}
		w.ids.next, w.ids.end = first, first+plan.ProducerIDBlock
	}
	id := w.ids.next
	w.ids.next++
	return id, nil
}

// takeBlock takes the next block. A transaction whose outcome is unknown gives
// its block up: an id handed out twice is worse than a thousand never used.
func (w *wishes) takeBlock(ctx context.Context) (int64, error) {
	img := w.keeper.Image()
	now := img.ProducerIDs()
	for {
		epoch := w.keeper.Epoch(w.keeper.Image())
		if epoch == 0 {
			return -1, kerr.CoordinatorLoadInProgress
		}
		t, first, err := plan.TakeProducerIDs(img.Keys(), now, w.self, epoch)
		if err != nil {
			return -1, err
		}
		res, err := w.store.Txn(ctx, t)
		switch {
		case err == nil && res.Succeeded:
			return first, nil
		case err == nil:
			if now, err = readProducerIDs(res); err != nil {
				return -1, err
			}
		case ctx.Err() != nil:
			return -1, context.Cause(ctx)
		case errors.Is(err, metastore.ErrMaybe), errors.Is(err, metastore.ErrUnavailable):
			// The same revision again: it fails and reads the key if the first did land.
			select {
			case <-time.After(controlRetry / 10):
			case <-ctx.Done():
				return -1, context.Cause(ctx)
			}
		default:
			return -1, err
		}
	}
}

// readProducerIDs reads the key as a failed transaction found it.
func readProducerIDs(res kv.TxnResult) (meta.ProducerIDs, error) {
	if len(res.Gets) == 0 || len(res.Gets[0]) == 0 {
		return meta.ProducerIDs{}, nil
	}
	return meta.DecodeProducerIDs(res.Gets[0][0])
}
