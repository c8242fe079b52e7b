package meta

import (
	"cmp"
	"maps"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Delta names what differs between two images. Every list is sorted: topics by
// name, partitions by topic name and number, brokers by id.
type Delta struct {
	From, To int64 // revisions

	Created, Deleted []*Topic
	// Partitions holds every partition whose state differs, those of created
	// and deleted topics included.
	Partitions []PartitionChange

	// A broker that came back under another registration is in Down and in Up.
	BrokersUp, BrokersDown []*Broker
	BrokersChanged         []BrokerChange // the same registration, rewritten

	TopicConfigs  []string       // whose overrides differ
	GroupConfigs  []string       // whose overrides differ
	BrokerConfigs []kafka.NodeID // whose overrides differ
	ClientMetrics []string       // subscriptions that differ
	ClusterConfig bool

	Controller bool // another holder, or none, or another epoch
	Features   bool

	// Errors are of type *ValueError: values that could not be used. Apply sets
	// them, Diff has none.
	Errors []error
}

// PartitionChange is one partition in two images.
type PartitionChange struct {
	Topic *Topic     // in the newer image; for a deleted topic as it was
	Old   *Partition // nil: new
	New   *Partition // nil: gone
}

// BrokerChange is one registration in two images.
type BrokerChange struct{ Old, New *Broker }

// Empty says that nothing differs but the revision.
func (d *Delta) Empty() bool {
	return len(d.Created) == 0 && len(d.Deleted) == 0 && len(d.Partitions) == 0 &&
		len(d.BrokersUp) == 0 && len(d.BrokersDown) == 0 && len(d.BrokersChanged) == 0 &&
		len(d.TopicConfigs) == 0 && len(d.GroupConfigs) == 0 && len(d.BrokerConfigs) == 0 &&
		len(d.ClientMetrics) == 0 && !d.ClusterConfig && !d.Controller && !d.Features && len(d.Errors) == 0
}

// Diff names everything that differs between two images of one cluster, as
// after a listing that replaced a broken watch: brokers by create revision,
// topics by id, the rest by mod revision (safety 33).
func Diff(old, now *Image) Delta {
	d := Delta{From: old.rev, To: now.rev}
	merge(old.topics, now.topics, func(_ string, was, is *Topic) { d.topic(was, is) })
	merge(old.topicConfigs, now.topicConfigs, func(name string, was, is Config) {
		if was.ModRev != is.ModRev {
			d.TopicConfigs = append(d.TopicConfigs, name)
		}
	})
	merge(old.groupConfigs, now.groupConfigs, func(id string, was, is Config) {
		if was.ModRev != is.ModRev {
			d.GroupConfigs = append(d.GroupConfigs, id)
		}
	})
	merge(old.brokerConfigs, now.brokerConfigs, func(n kafka.NodeID, was, is Config) {
		if was.ModRev != is.ModRev {
			d.BrokerConfigs = append(d.BrokerConfigs, n)
		}
	})
	merge(old.clientMetrics, now.clientMetrics, func(name string, was, is Config) {
		if was.ModRev != is.ModRev {
			d.ClientMetrics = append(d.ClientMetrics, name)
		}
	})
	nodes := map[kafka.NodeID]struct{}{}
	for _, b := range slices.Concat(old.brokers, now.brokers) {
		nodes[b.ID] = struct{}{}
	}
	d.brokers(old, now, nodes)
	d.rest(old, now)
	return d
}

// delta is Diff where the draft was touched.
func (dr *draft) delta(old *Image) Delta {
	now := &dr.img
	d := Delta{From: old.rev, To: now.rev, Errors: dr.errs}
	for _, name := range slices.Sorted(maps.Keys(dr.names)) {
		was, _ := old.topics.get(name)
		is, _ := now.topics.get(name)
		d.topic(was, is)
	}
	for _, name := range slices.Sorted(maps.Keys(dr.configs)) {
		if old.TopicOverrides(name).ModRev != now.TopicOverrides(name).ModRev {
			d.TopicConfigs = append(d.TopicConfigs, name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(dr.groups)) {
		if old.GroupOverrides(id).ModRev != now.GroupOverrides(id).ModRev {
			d.GroupConfigs = append(d.GroupConfigs, id)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(dr.nodeConfig)) {
		if old.BrokerOverrides(n).ModRev != now.BrokerOverrides(n).ModRev {
			d.BrokerConfigs = append(d.BrokerConfigs, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dr.metrics)) {
		if old.ClientMetricsOverrides(name).ModRev != now.ClientMetricsOverrides(name).ModRev {
			d.ClientMetrics = append(d.ClientMetrics, name)
		}
	}
	d.brokers(old, now, dr.brokers)
	d.rest(old, now)
	return d
}

func (d *Delta) topic(was, is *Topic) {
	if was != nil && (is == nil || is.ID != was.ID) {
		d.Deleted = append(d.Deleted, was)
	}
	if is != nil && (was == nil || is.ID != was.ID) {
		d.Created = append(d.Created, is)
	}
	partitionPairs(was, is, func(p, q *Partition) {
		t := is
		if q == nil && (is == nil || p.Topic != is.ID) {
			t = was
		}
		d.Partitions = append(d.Partitions, PartitionChange{Topic: t, Old: p, New: q})
	})
}

// partitionPairs calls f for every partition whose state differs between two
// states of a topic; of another topic under the same name first all that go,
// then all that come.
func partitionPairs(was, is *Topic, f func(p, q *Partition)) {
	if was != nil && is != nil && was.ID != is.ID {
		partitionPairs(was, nil, f)
		was = nil
	}
	var old, now []*Partition
	if was != nil {
		old = was.Partitions
	}
	if is != nil {
		now = is.Partitions
	}
	for n := range max(len(old), len(now)) {
		var p, q *Partition
		if n < len(old) {
			p = old[n]
		}
		if n < len(now) {
			q = now[n]
		}
		if p == q || p != nil && q != nil && p.PartitionEpoch == q.PartitionEpoch {
			continue
		}
		f(p, q)
	}
}

func (d *Delta) brokers(old, now *Image, nodes map[kafka.NodeID]struct{}) {
	for _, n := range slices.Sorted(maps.Keys(nodes)) {
		was, _ := old.Broker(n)
		is, _ := now.Broker(n)
		if was != nil && (is == nil || is.Epoch != was.Epoch) {
			d.BrokersDown = append(d.BrokersDown, was)
		}
		if is != nil && (was == nil || is.Epoch != was.Epoch) {
			d.BrokersUp = append(d.BrokersUp, is)
		}
		if was != nil && is != nil && was.Epoch == is.Epoch && was.ModRev != is.ModRev {
			d.BrokersChanged = append(d.BrokersChanged, BrokerChange{was, is})
		}
	}
}

func (d *Delta) rest(old, now *Image) {
	d.ClusterConfig = old.clusterConfig.ModRev != now.clusterConfig.ModRev
	d.Controller = old.controller.ModRev != now.controller.ModRev ||
		old.controllerEpoch.ModRev != now.controllerEpoch.ModRev
	d.Features = old.features.ModRev != now.features.ModRev
}

// merge goes through the keys of two maps in order; a missing value is zero.
func merge[K, V any](a, b sorted[K, V], f func(k K, av, bv V)) {
	type entry struct {
		k K
		v V
	}
	list := func(m sorted[K, V]) []entry {
		out := make([]entry, 0, m.len())
		for k, v := range m.all() {
			out = append(out, entry{k, v})
		}
		return out
	}
	compare := orderOf[K]().Compare
	as, bs := list(a), list(b)
	var none V
	for len(as) > 0 || len(bs) > 0 {
		c := 0
		switch {
		case len(as) == 0:
			c = 1
		case len(bs) == 0:
			c = -1
		default:
			c = compare(as[0].k, bs[0].k)
		}
		switch cmp.Compare(c, 0) {
		case -1:
			f(as[0].k, as[0].v, none)
			as = as[1:]
		case 1:
			f(bs[0].k, none, bs[0].v)
			bs = bs[1:]
		default:
			f(as[0].k, as[0].v, bs[0].v)
			as, bs = as[1:], bs[1:]
		}
	}
}
