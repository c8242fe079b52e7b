package meta

import (
	"fmt"
	"maps"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Apply gives the image after a change, and what is different in it. A change
// that the image already contains gives the image itself. Within one revision
// events may come in any order.
func (i *Image) Apply(ch kv.Change) (*Image, Delta) {
	if ch.Rev <= i.rev {
		return i, Delta{From: i.rev, To: i.rev}
	}
	d := newDraft(*i)
	d.img.rev = ch.Rev
	for _, e := range ch.Events {
		if e.Deleted {
			d.remove(e.KV.Key, e.KV.ModRev)
		} else {
			d.put(e.KV)
		}
	}
	d.finish()
	delta := d.delta(i)
	return &d.img, delta
}

// FromListing makes the image of a cluster from all of its keys, as listed at
// revision rev. errs are of type *ValueError; the keys that they name are
// treated as absent.
func FromListing(clusterID string, kvs []kv.KV, rev int64) (img *Image, errs []error) {
	d := newDraft(Image{
		clusterID: clusterID, rev: rev,
		topics: bulk[string, *Topic](), byID: bulk[kafka.TopicID, *Topic](),
		records: bulk[string, *record](), named: bulk[kafka.TopicID, string](),
		states:       bulk[PartitionID, *Partition](),
		topicConfigs: bulk[string, Config](), groupConfigs: bulk[string, Config](), brokerConfigs: bulk[kafka.NodeID, Config](),
		clientMetrics: bulk[string, Config](),
		pending:       bulk[kafka.TopicID, *Pending](), tombstones: bulk[kafka.TopicID, *Tombstone](),
	})
	d.bulk = true
	for _, e := range kvs {
		d.put(e)
	}
	d.finish()
	return &d.img, d.errs
}

// draft is the next image while it is made, and what was touched in it. The
// sets say where to look for differences; whether there are any is decided by
// comparing the images.
type draft struct {
	img  Image
	keys Keys
	bulk bool
	errs []error

	topics     map[kafka.TopicID]struct{}           // a state or the key was touched
	names      map[string]struct{}                  // the key was touched
	parts      map[kafka.TopicID]map[int32]struct{} // states touched
	brokers    map[kafka.NodeID]struct{}
	configs    map[string]struct{} // of topics
	groups     map[string]struct{} // whose configuration was touched
	nodeConfig map[kafka.NodeID]struct{}
	metrics    map[string]struct{} // client metrics, by the subscription's name
	index      map[kafka.NodeID]*sorted[PartitionID, struct{}]
	ownBrokers bool // img.brokers is a copy already
}

func newDraft(from Image) *draft {
	return &draft{
		img: from, keys: from.Keys(),
		topics: map[kafka.TopicID]struct{}{}, names: map[string]struct{}{},
		parts:   map[kafka.TopicID]map[int32]struct{}{},
		brokers: map[kafka.NodeID]struct{}{}, configs: map[string]struct{}{}, groups: map[string]struct{}{},
		nodeConfig: map[kafka.NodeID]struct{}{}, metrics: map[string]struct{}{},
		index: map[kafka.NodeID]*sorted[PartitionID, struct{}]{},
	}
}

func (d *draft) fail(e kv.KV, err error) {
	d.errs = append(d.errs, &ValueError{Key: e.Key, ModRev: e.ModRev, Err: err})
}

func (d *draft) put(e kv.KV) {
	k := d.keys.parse(e.Key)
	var err error
	switch k.kind {
	case kindOther:
	case kindBad:
		err = errKey
	case kindState:
		err = d.putState(k.part, e)
	case kindTopic:
		err = d.putTopic(k.name, e)
	case kindBroker:
		err = d.putBroker(k.node, e)
	case kindPending:
		err = store(&d.img.pending, k.part.Topic, e, func(e kv.KV) (*Pending, error) { return DecodePending(k.part.Topic, e) })
	case kindDeleted:
		err = store(&d.img.tombstones, k.part.Topic, e, func(e kv.KV) (*Tombstone, error) { return decodeTombstone(k.part.Topic, e) })
	case kindTopicConfig:
		d.configs[k.name] = struct{}{}
		err = store(&d.img.topicConfigs, k.name, e, decodeConfig)
	case kindGroupConfig:
		d.groups[k.name] = struct{}{}
		err = store(&d.img.groupConfigs, k.name, e, decodeConfig)
	case kindBrokerConfig:
		d.nodeConfig[k.node] = struct{}{}
		err = store(&d.img.brokerConfigs, k.node, e, decodeConfig)
	case kindClientMetrics:
		d.metrics[k.name] = struct{}{}
		err = store(&d.img.clientMetrics, k.name, e, decodeConfig)
	case kindClusterConfig:
		err = hold(&d.img.clusterConfig, e, decodeConfig)
	case kindController:
		err = hold(&d.img.controller, e, DecodeController)
	case kindControllerEpoch:
		err = hold(&d.img.controllerEpoch, e, decodeEpoch)
	case kindFeatures:
		err = hold(&d.img.features, e, decodeFeatures)
	case kindCluster:
		err = hold(&d.img.cluster, e, DecodeCluster)
	case kindProducerIDs:
		err = hold(&d.img.producerIDs, e, DecodeProducerIDs)
	}
	if err != nil {
		d.fail(e, err)
	}
}

// store and hold keep the old value when the new one cannot be read.
func store[K, V any](m *sorted[K, V], k K, e kv.KV, decode func(kv.KV) (V, error)) error {
	v, err := decode(e)
	if err == nil {
		m.set(k, v)
	}
	return err
}

func hold[V any](to *V, e kv.KV, decode func(kv.KV) (V, error)) error {
	v, err := decode(e)
	if err == nil {
		*to = v
	}
	return err
}

func (d *draft) touchPart(id PartitionID) {
	d.topics[id.Topic] = struct{}{}
	set := d.parts[id.Topic]
	if set == nil {
		set = map[int32]struct{}{}
		d.parts[id.Topic] = set
	}
	set[id.Partition] = struct{}{}
}

func (d *draft) putState(id PartitionID, e kv.KV) error {
	if held, ok := d.img.states.get(id); ok && held.PartitionEpoch >= e.ModRev {
		return nil // safety 7: a state is taken only when it is newer
	}
	p, err := decodePartition(id, e)
	if err != nil {
		return err
	}
	d.img.states.set(id, p)
	d.touchPart(id)
	return nil
}

func (d *draft) putTopic(name string, e kv.KV) error {
	r, err := decodeTopic(name, e)
	if err != nil {
		return err
	}
	if other, ok := d.img.named.get(r.id); ok && other != name {
		if o, ok := d.img.records.get(other); ok && o.id == r.id {
			return fmt.Errorf("topic id %s is that of topic %q", r.id, other)
		}
	}
	d.dropRecord(name)
	d.img.records.set(name, r)
	d.img.named.set(r.id, name)
	d.names[name] = struct{}{}
	d.topics[r.id] = struct{}{}
	return nil
}

func (d *draft) dropRecord(name string) {
	old, ok := d.img.records.get(name)
	if !ok {
		return
	}
	d.img.records.delete(name)
	d.img.named.delete(old.id)
	d.names[name] = struct{}{}
	d.topics[old.id] = struct{}{}
}

func (d *draft) putBroker(id kafka.NodeID, e kv.KV) error {
	b, err := DecodeBroker(id, e)
	if err != nil {
		return err
	}
	d.brokers[id] = struct{}{}
	d.cloneBrokers()
	n, ok := slices.BinarySearchFunc(d.img.brokers, id, byNode)
	if ok {
		d.img.brokers[n] = b
	} else {
		d.img.brokers = slices.Insert(d.img.brokers, n, b)
	}
	return nil
}

func (d *draft) cloneBrokers() {
	if !d.ownBrokers {
		d.img.brokers = slices.Clone(d.img.brokers)
		d.ownBrokers = true
	}
}

func (d *draft) remove(key string, rev int64) {
	k := d.keys.parse(key)
	switch k.kind {
	case kindOther, kindBad:
	case kindState:
		if held, ok := d.img.states.get(k.part); ok && held.PartitionEpoch < rev {
			d.img.states.delete(k.part)
			d.touchPart(k.part)
		}
	case kindTopic:
		d.dropRecord(k.name)
	case kindBroker:
		d.brokers[k.node] = struct{}{}
		d.cloneBrokers()
		if n, ok := slices.BinarySearchFunc(d.img.brokers, k.node, byNode); ok {
			d.img.brokers = slices.Delete(d.img.brokers, n, n+1)
		}
	case kindPending:
		d.img.pending.delete(k.part.Topic)
	case kindDeleted:
		d.img.tombstones.delete(k.part.Topic)
	case kindTopicConfig:
		d.configs[k.name] = struct{}{}
		d.img.topicConfigs.delete(k.name)
	case kindGroupConfig:
		d.groups[k.name] = struct{}{}
		d.img.groupConfigs.delete(k.name)
	case kindBrokerConfig:
		d.nodeConfig[k.node] = struct{}{}
		d.img.brokerConfigs.delete(k.node)
	case kindClientMetrics:
		d.metrics[k.name] = struct{}{}
		d.img.clientMetrics.delete(k.name)
	case kindClusterConfig:
		d.img.clusterConfig = Config{}
	case kindController:
		d.img.controller = Controller{}
	case kindControllerEpoch:
		d.img.controllerEpoch = ControllerEpoch{}
	case kindFeatures:
		d.img.features = Features{}
	case kindCluster:
		d.img.cluster = Cluster{}
	case kindProducerIDs:
		d.img.producerIDs = ProducerIDs{}
	}
}

// finish makes the topics anew whose key or states were touched, and closes
// what was built in bulk.
func (d *draft) finish() {
	for _, id := range sortedIDs(d.topics) {
		if name, ok := d.img.named.get(id); ok {
			d.names[name] = struct{}{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		d.remake(name)
	}
	for _, n := range slices.Sorted(maps.Keys(d.index)) {
		set := d.index[n]
		set.seal()
		if set.len() == 0 {
			d.img.index.delete(n)
		} else {
			d.img.index.set(n, *set)
		}
	}
	d.img.topics.seal()
	d.img.byID.seal()
	d.img.records.seal()
	d.img.named.seal()
	d.img.states.seal()
	d.img.topicConfigs.seal()
	d.img.groupConfigs.seal()
	d.img.brokerConfigs.seal()
	d.img.clientMetrics.seal()
	d.img.pending.seal()
	d.img.tombstones.seal()
}

func sortedIDs[V any](m map[kafka.TopicID]V) []kafka.TopicID {
	return slices.SortedFunc(maps.Keys(m), func(a, b kafka.TopicID) int { return slices.Compare(a[:], b[:]) })
}

// remake brings the topic with that name in line with its key and its states.
func (d *draft) remake(name string) {
	old, _ := d.img.topics.get(name)
	r, ok := d.img.records.get(name)
	var now *Topic
	if ok {
		now = &Topic{Name: name, ID: r.id, CreateRev: r.at.CreateRev, ModRev: r.at.ModRev, extra: r.extra}
		if old != nil && old.ID == r.id {
			now.Partitions = d.patch(old, r.count)
		} else {
			now.Partitions = d.gather(r.id, nil, r.count)
		}
		if len(now.Partitions) != int(r.count) {
			d.fail(kv.KV{Key: d.keys.Topic(name), ModRev: r.at.ModRev},
				fmt.Errorf("the topic has %d partitions, and partition %d has no state", r.count, len(now.Partitions)))
			now = nil
		}
	}
	if old != nil {
		d.img.topics.delete(name)
		d.img.byID.delete(old.ID)
	}
	if now != nil {
		d.img.topics.set(name, now)
		d.img.byID.set(now.ID, now)
	}
	d.reindex(old, now)
}

// gather appends the states of a topic from the next one on, until count or
// until one is missing.
func (d *draft) gather(id kafka.TopicID, have []*Partition, count int32) []*Partition {
	for p := int32(len(have)); p < count; p++ {
		s, ok := d.img.states.get(PartitionID{id, p})
		if !ok {
			break
		}
		have = append(have, s)
	}
	return have
}

// patch copies the old slice and replaces what was touched, so that a change
// of one partition does not look up all the others.
func (d *draft) patch(old *Topic, count int32) []*Partition {
	n := min(len(old.Partitions), int(count))
	out := make([]*Partition, n, max(n, int(min(count, 1<<14))))
	copy(out, old.Partitions)
	for _, p := range slices.Sorted(maps.Keys(d.parts[old.ID])) {
		if int(p) >= len(out) {
			break
		}
		s, ok := d.img.states.get(PartitionID{old.ID, p})
		if !ok {
			return out[:p]
		}
		out[p] = s
	}
	return d.gather(old.ID, out, count)
}

func (d *draft) indexOf(n kafka.NodeID) *sorted[PartitionID, struct{}] {
	set := d.index[n]
	if set == nil {
		set = new(sorted[PartitionID, struct{}])
		if d.bulk {
			*set = bulk[PartitionID, struct{}]()
		} else {
			*set, _ = d.img.index.get(n)
		}
		d.index[n] = set
	}
	return set
}

// reindex changes the index by what differs between two states of a topic.
func (d *draft) reindex(old, now *Topic) {
	partitionPairs(old, now, func(was, is *Partition) {
		var before, after []kafka.NodeID
		if was != nil {
			before = was.nodes()
		}
		if is != nil {
			after = is.nodes()
		}
		same := was != nil && is != nil && was.Topic == is.Topic
		for _, n := range before {
			if !same || !slices.Contains(after, n) {
				d.indexOf(n).delete(was.ID())
			}
		}
		for _, n := range after {
			if !same || !slices.Contains(before, n) {
				d.indexOf(n).set(is.ID(), struct{}{})
			}
		}
	})
}
