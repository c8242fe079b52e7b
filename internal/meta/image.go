package meta

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Image is the cluster's state at one revision. It is immutable: any goroutine
// may hold and read it. Apply gives the next one. What its methods return is
// part of it and not to be changed. The zero Image is a cluster without
// anything, not even an id.
type Image struct {
	clusterID string
	rev       int64

	brokers []*Broker // by id
	topics  sorted[string, *Topic]
	byID    sorted[kafka.TopicID, *Topic]
	// index lists, by broker, the partitions of topics that name it as leader,
	// in the ISR or as eligible.
	index sorted[kafka.NodeID, sorted[PartitionID, struct{}]]

	// What the topics are made of, whether or not they are whole.
	records sorted[string, *record]
	named   sorted[kafka.TopicID, string] // topic id of a record to its name
	states  sorted[PartitionID, *Partition]

	pending    sorted[kafka.TopicID, *Pending]
	tombstones sorted[kafka.TopicID, *Tombstone]

	topicConfigs  sorted[string, Config]
	groupConfigs  sorted[string, Config]
	brokerConfigs sorted[kafka.NodeID, Config]
	clusterConfig Config
	clientMetrics sorted[string, Config]

	controller      Controller // ModRev 0: none
	controllerEpoch ControllerEpoch
	features        Features
	cluster         Cluster
	producerIDs     ProducerIDs
}

// Empty is the image of a cluster about which nothing is known yet.
func Empty(clusterID string) *Image { return &Image{clusterID: clusterID} }

// Revision of the store that the image shows.
func (i *Image) Revision() int64 { return i.rev }

// ClusterID is the id under whose prefix the image was read.
func (i *Image) ClusterID() string { return i.clusterID }

// Keys of the cluster.
func (i *Image) Keys() Keys { return KeysOf(i.clusterID) }

// Cluster is what was written when the cluster began; ok is false before.
func (i *Image) Cluster() (c Cluster, ok bool) { return i.cluster, i.cluster.ModRev != 0 }

// Controller is the elected controller, and the create revision that its
// transactions compare; -1 and 0 when there is none.
func (i *Image) Controller() (id kafka.NodeID, createRev int64) {
	if i.controller.ModRev == 0 {
		return kafka.NoNode, 0
	}
	return i.controller.Node, i.controller.CreateRev
}

// ControllerHolder is Controller in full; ok is false when there is none.
func (i *Image) ControllerHolder() (c Controller, ok bool) {
	return i.controller, i.controller.ModRev != 0
}

// ControllerEpoch counts the elections of a controller so far.
func (i *Image) ControllerEpoch() int32 { return i.controllerEpoch.Epoch }

// ControllerEpochKey is the same with its revision, for the next election.
func (i *Image) ControllerEpochKey() ControllerEpoch { return i.controllerEpoch }

// Broker finds a registration.
func (i *Image) Broker(id kafka.NodeID) (*Broker, bool) {
	n, ok := slices.BinarySearchFunc(i.brokers, id, byNode)
	if !ok {
		return nil, false
	}
	return i.brokers[n], true
}

func byNode(b *Broker, id kafka.NodeID) int { return cmp.Compare(b.ID, id) }

// Brokers are the registrations by id.
func (i *Image) Brokers() []*Broker { return i.brokers }

// Topic finds a topic by name.
func (i *Image) Topic(name string) (*Topic, bool) { return i.topics.get(name) }

// TopicByID finds a topic by id.
func (i *Image) TopicByID(id kafka.TopicID) (*Topic, bool) { return i.byID.get(id) }

// TopicCount is the number of topics.
func (i *Image) TopicCount() int { return i.topics.len() }

// Topics go by name.
func (i *Image) Topics() iter.Seq[*Topic] { return values(i.topics.all()) }

// TopicsFrom go by name, beginning with the first that is not below name.
func (i *Image) TopicsFrom(name string) iter.Seq[*Topic] { return values(i.topics.from(name)) }

func values[K, V any](s iter.Seq2[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range s {
			if !yield(v) {
				return
			}
		}
	}
}

// Partition finds a partition by topic id.
func (i *Image) Partition(id PartitionID) (*Topic, *Partition, bool) {
	t, ok := i.byID.get(id.Topic)
	if !ok || id.Partition < 0 || int(id.Partition) >= len(t.Partitions) {
		return nil, nil, false
	}
	return t, t.Partitions[id.Partition], true
}

// NodesNamed are the brokers, registered or not, that partitions name as
// leader, in the ISR or as eligible.
func (i *Image) NodesNamed() []kafka.NodeID {
	var out []kafka.NodeID
	for n := range i.index.all() {
		out = append(out, n)
	}
	return out
}

// PartitionsNaming are the partitions that name node as leader, in the ISR or
// as eligible, by topic id and number.
func (i *Image) PartitionsNaming(node kafka.NodeID) iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		of, _ := i.index.get(node)
		for id := range of.all() {
			_, p, ok := i.Partition(id)
			if ok && !yield(p) {
				return
			}
		}
	}
}

// TopicConfig is the topic's explicit overrides.
func (i *Image) TopicConfig(name string) map[string]string { return i.TopicOverrides(name).Entries }

// TopicOverrides is TopicConfig with its revision.
func (i *Image) TopicOverrides(name string) Config {
	c, _ := i.topicConfigs.get(name)
	return c
}

// GroupConfig is the explicit overrides of a group, which need not exist.
func (i *Image) GroupConfig(id string) map[string]string { return i.GroupOverrides(id).Entries }

// GroupOverrides is GroupConfig with its revision.
func (i *Image) GroupOverrides(id string) Config {
	c, _ := i.groupConfigs.get(id)
	return c
}

// ConfiguredGroups are the groups with overrides, by id.
func (i *Image) ConfiguredGroups() iter.Seq[string] { return names(i.groupConfigs) }

func names(m sorted[string, Config]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range m.all() {
			if !yield(name) {
				return
			}
		}
	}
}

// ConfiguredBrokers are the brokers with dynamic overrides of their own, by id.
func (i *Image) ConfiguredBrokers() iter.Seq[kafka.NodeID] {
	return func(yield func(kafka.NodeID) bool) {
		for id := range i.brokerConfigs.all() {
			if !yield(id) {
				return
			}
		}
	}
}

// BrokerConfig is the dynamic overrides of one broker.
func (i *Image) BrokerConfig(id kafka.NodeID) map[string]string { return i.BrokerOverrides(id).Entries }

// BrokerOverrides is BrokerConfig with its revision.
func (i *Image) BrokerOverrides(id kafka.NodeID) Config {
	c, _ := i.brokerConfigs.get(id)
	return c
}

// ClusterConfig is the dynamic overrides of all brokers.
func (i *Image) ClusterConfig() map[string]string { return i.clusterConfig.Entries }

// ClusterOverrides is ClusterConfig with its revision.
func (i *Image) ClusterOverrides() Config { return i.clusterConfig }

// ClientMetrics is what a subscription to client metrics (KIP-714) sets
// itself; nil when there is no such subscription.
func (i *Image) ClientMetrics(name string) map[string]string {
	return i.ClientMetricsOverrides(name).Entries
}

// ClientMetricsOverrides is ClientMetrics with its revision.
func (i *Image) ClientMetricsOverrides(name string) Config {
	c, _ := i.clientMetrics.get(name)
	return c
}

// ClientMetricsNames are the subscriptions to client metrics, by name.
func (i *Image) ClientMetricsNames() iter.Seq[string] { return names(i.clientMetrics) }

// Features are the finalized levels and their epoch; epoch 0: none finalized.
func (i *Image) Features() (levels map[string]int16, epoch int64) {
	return i.features.Levels, i.features.ModRev
}

// FeaturesKey is the same as a value to rewrite.
func (i *Image) FeaturesKey() Features { return i.features }

// ProducerIDs is the state of the hand-out of producer ids.
func (i *Image) ProducerIDs() ProducerIDs { return i.producerIDs }

// Pending finds what is being made for a topic.
func (i *Image) Pending(id kafka.TopicID) (*Pending, bool) { return i.pending.get(id) }

// Pendings go by topic id.
func (i *Image) Pendings() iter.Seq[*Pending] { return values(i.pending.all()) }

// Tombstone says whether the topic was deleted, within the time that
// tombstones are kept.
func (i *Image) Tombstone(id kafka.TopicID) (*Tombstone, bool) { return i.tombstones.get(id) }

// Tombstones go by topic id.
func (i *Image) Tombstones() iter.Seq[*Tombstone] { return values(i.tombstones.all()) }

// State finds the state of a partition even when it is held aside: nil when
// there is none.
func (i *Image) State(id PartitionID) *Partition {
	p, _ := i.states.get(id)
	return p
}

// Aside are the states that belong to no topic of the image, by topic id and
// number: of creations under way, beyond a topic's count, or left over. It
// goes through all states.
func (i *Image) Aside() iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		for id, p := range i.states.all() {
			if _, _, ok := i.Partition(id); !ok && !yield(p) {
				return
			}
		}
	}
}

// NameOf gives the name under which a topic id is recorded, also when the
// topic is not whole.
func (i *Image) NameOf(id kafka.TopicID) (name string, count int32, ok bool) {
	name, ok = i.named.get(id)
	if !ok {
		return "", 0, false
	}
	r, ok := i.records.get(name)
	if !ok || r.id != id {
		return "", 0, false
	}
	return name, r.count, true
}

// Colliding finds a topic whose name differs from name only by . and _ in the
// same places. It goes through the topics that share name's beginning.
func (i *Image) Colliding(name string) (other string, ok bool) {
	if !Collides(name) {
		return "", false
	}
	unified := UnifyName(name)
	head := name[:strings.IndexAny(name, "._")]
	for n := range i.records.from(head) {
		if !strings.HasPrefix(n, head) {
			return "", false
		}
		if n != name && len(n) == len(name) && UnifyName(n) == unified {
			return n, true
		}
	}
	return "", false
}
