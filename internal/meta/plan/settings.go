package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Bootstrap plans the first keys of a cluster: its id and the levels of its
// features. It fails when the cluster is there already, and reads that.
func Bootstrap(clusterID string, nowMs int64) kv.Txn {
	keys := meta.KeysOf(clusterID)
	c := meta.Cluster{ID: clusterID, CreatedAtMs: nowMs}
	return kv.Txn{
		If: []kv.Cmp{kv.Absent(keys.Cluster()), kv.Absent(keys.Features())},
		Then: []kv.Op{
			kv.PutOp(keys.Cluster(), c.Encode(), 0),
			kv.PutOp(keys.Features(), meta.Features{}.Encode(meta.InitialFeatures()), 0),
		},
		Else: []kv.Op{kv.GetOp(keys.Cluster())},
	}
}

// Begin is Bootstrap for the first cluster of a store, which whoever is of no
// cluster joins: of several that begin at once one does, and the others read
// its id. It fails, too, when the cluster is there already.
func Begin(clusterID string, nowMs int64) kv.Txn {
	t := Bootstrap(clusterID, nowMs)
	t.If = append(t.If, kv.Absent(meta.StoreCluster))
	t.Then = append(t.Then, kv.PutOp(meta.StoreCluster, meta.Cluster{ID: clusterID, CreatedAtMs: nowMs}.Encode(), 0))
	t.Else = append(t.Else, kv.GetOp(meta.StoreCluster))
	return t
}

// ConfigChange sets and removes overrides; the values are checked already.
type ConfigChange struct {
	Set    map[string]string
	Remove []string
}

func (c ConfigChange) on(was map[string]string) map[string]string {
	next := maps.Clone(was)
	if next == nil {
		next = map[string]string{}
	}
	for _, k := range c.Remove {
		delete(next, k)
	}
	maps.Copy(next, c.Set)
	return next
}

// ConfigureTopic plans other overrides of a topic; ok is false when they are
// that already. It compares the topic too: overrides of a deleted topic would
// be inherited by the next of that name. Refusal: UNKNOWN_TOPIC_OR_PARTITION.
func ConfigureTopic(img *meta.Image, topic string, c ConfigChange) (txn kv.Txn, ok bool, err error) {
	t, there := img.Topic(topic)
	if !there {
		return kv.Txn{}, false, refuse(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", topic)
	}
	keys := img.Keys()
	same := kv.CreatedAt(keys.Topic(topic), t.CreateRev)
	txn, ok = configure(keys.TopicConfig(topic), img.TopicOverrides(topic), c, same)
	return txn, ok, nil
}

// ConfigureBroker plans other dynamic overrides of one broker, registered or
// not, or of all brokers with node -1; ok is false when they are that already.
func ConfigureBroker(img *meta.Image, node kafka.NodeID, c ConfigChange) (txn kv.Txn, ok bool) {
	if node == kafka.NoNode {
		return configure(img.Keys().ClusterConfig(), img.ClusterOverrides(), c)
	}
	return configure(img.Keys().BrokerConfig(node), img.BrokerOverrides(node), c)
}

// ConfigureGroup plans other overrides of a group, which need not exist; ok is
// false when they are that already.
func ConfigureGroup(img *meta.Image, group string, c ConfigChange) (txn kv.Txn, ok bool) {
	return configure(img.Keys().GroupConfig(group), img.GroupOverrides(group), c)
}

// ConfigureClientMetrics plans another subscription to client metrics (KIP-714);
// with nothing set it is gone. ok is false when it is that already.
func ConfigureClientMetrics(img *meta.Image, name string, c ConfigChange) (txn kv.Txn, ok bool) {
	return configure(img.Keys().ClientMetrics(name), img.ClientMetricsOverrides(name), c)
}

func configure(key string, was meta.Config, c ConfigChange, also ...kv.Cmp) (kv.Txn, bool) {
	next := c.on(was.Entries)
	if maps.Equal(next, was.Entries) {
		return kv.Txn{}, false
	}
	op := kv.PutOp(key, was.Encode(next), 0)
	if len(next) == 0 {
		op = kv.DeleteOp(key)
	}
	return kv.Txn{
		If:   slices.Concat([]kv.Cmp{kv.ModIs(key, was.ModRev)}, also),
		Then: []kv.Op{op},
		Else: []kv.Op{kv.GetOp(key)},
	}, true
}

// ProducerIDBlock is how many producer ids a broker takes at a time, as in
// Apache Kafka.
const ProducerIDBlock = 1000

// TakeProducerIDs plans that a broker takes the next block of producer ids,
// beginning with first. The block may be used once the transaction is known to
// have succeeded; on a failure the key was read (meta.DecodeProducerIDs), to
// plan again from; after an unknown outcome the block is given up. The zero
// ProducerIDs is that of a key which is absent.
func TakeProducerIDs(keys meta.Keys, now meta.ProducerIDs, node kafka.NodeID, brokerEpoch int64) (txn kv.Txn, first int64, err error) {
	if now.Next > math.MaxInt64-ProducerIDBlock {
		return kv.Txn{}, 0, fmt.Errorf("no producer ids are left: the next is %d: %w", now.Next, kerr.UnknownServerError)
	}
	key := keys.ProducerIDs()
	return kv.Txn{
		If:   []kv.Cmp{kv.ModIs(key, now.ModRev), kv.CreatedAt(keys.Broker(node), brokerEpoch)},
		Then: []kv.Op{kv.PutOp(key, now.Encode(now.Next+ProducerIDBlock, node, brokerEpoch), 0)},
		Else: []kv.Op{kv.GetOp(key), kv.GetOp(keys.Broker(node))},
	}, now.Next, nil
}
