//go:build interop

package main

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (g *gen) describeCluster() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrDescribeClusterRequest()
	r.Version, r.IncludeClusterAuthorizedOperations = g.version(0, 2), g.chance(50)
	r.EndpointType = pick[int8](g, 1, 1, 1, 2, 0, 3, -1)
	r.IncludeFencedBrokers = g.chance(30)
	return r
}

// updateFeatures mostly validates only: what it changes would change what
// every other request means.
func (g *gen) updateFeatures() kmsg.Request {
	r := kmsg.NewPtrUpdateFeaturesRequest()
	r.Version, r.TimeoutMillis, r.ValidateOnly = g.version(1, 2), g.timeout(), true
	g.fragile = true
	for range g.few() {
		f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		f.Feature = pick(g, "metadata.version", "group.version", "transaction.version", "kraft.version", "eligible.leader.replicas.version",
			"share.version", "streams.version", "nosuch.version", "")
		f.MaxVersionLevel = pick[int16](g, 0, 1, 1, 2, 3, 7, 25, 29, 30, 33, 100, 32767, -1)
		f.UpgradeType = pick[int8](g, 1, 1, 2, 3, 0, 4, -1)
		r.FeatureUpdates = append(r.FeatureUpdates, f)
	}
	return r
}

// unregisterBroker never names the only one there is.
func (g *gen) unregisterBroker() kmsg.Request {
	r := kmsg.NewPtrUnregisterBrokerRequest()
	r.BrokerID = pick[int32](g, 0, 2, 7, -1, 2147483647, -2147483648)
	g.fragile = true
	return r
}

// clientInstance is none, or one that nobody had before: how often a known one
// may come depends on the clock.
func (g *gen) clientInstance() [16]byte {
	if g.chance(40) {
		return [16]byte{}
	}
	return [16]byte{g.nonce[0], g.nonce[1], g.nonce[2], g.nonce[3], 6: 0x40, 8: 0x80, 13: byte(g.number >> 16), 14: byte(g.number >> 8), 15: byte(g.number)}
}

func (g *gen) telemetrySubscriptions() kmsg.Request {
	r := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	r.ClientInstanceID = g.clientInstance()
	return r
}

func (g *gen) pushTelemetry() kmsg.Request {
	r := kmsg.NewPtrPushTelemetryRequest()
	r.ClientInstanceID, r.SubscriptionID = g.clientInstance(), pick[int32](g, 0, 1, -1)
	r.Terminating, r.CompressionType = g.chance(30), pick[int8](g, 0, 1, 4, 9, -1)
	r.Metrics = pick(g, []byte{}, []byte("not otlp"), make([]byte, 1<<20+1))
	return r
}

func (g *gen) offsetDelete() kmsg.Request {
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = g.group()
	for range g.few() {
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = g.topic()
		for range g.few() { // never thousands: Apache Kafka does not answer those
			x := kmsg.NewOffsetDeleteRequestTopicPartition()
			x.Partition = g.partition()
			t.Partitions = append(t.Partitions, x)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) groups() (out []string) {
	out = []string{}
	for range g.few() {
		out = append(out, g.group())
	}
	return out
}

func (g *gen) deleteGroups() kmsg.Request {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Version, r.Groups = g.version(0, 3), g.groups()
	return r
}

func (g *gen) describeGroups() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Version, r.Groups, r.IncludeAuthorizedOperations = g.version(0, 6), g.groups(), g.chance(30)
	return r
}

func (g *gen) listGroups() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrListGroupsRequest()
	r.Version = g.version(0, 5)
	r.StatesFilter, r.TypesFilter = []string{}, []string{}
	if g.chance(40) {
		r.StatesFilter = append(r.StatesFilter, pick(g, "Empty", "empty", "Stable", "Dead", "nosuch", ""))
	}
	if g.chance(40) {
		r.TypesFilter = append(r.TypesFilter, pick(g, "classic", "Classic", "consumer", "share", "nosuch", ""))
	}
	return r
}

// offsetCommit is how groups come to be here.
func (g *gen) offsetCommit() kmsg.Request {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 8, pick(g, "g1", "g2", "g3"), -1
	g.fragile = true
	// One topic stays, so that a group does: ours goes with its last offset.
	for _, topic := range []string{barrierTopic, pick(g, names...)} {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = topic
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = pick[int32](g, 0, 1), 1
		if topic == barrierTopic {
			p.Partition = 0
		}
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) apiVersions() kmsg.Request {
	g.reads = true
	return apiVersions(g.version(0, 5), pick(g, "interop", "bad name!", "", "a.b-c"), pick(g, "1.0", "", "1 0"))
}

func (g *gen) findCoordinator() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.Version, r.CoordinatorKey, r.CoordinatorKeys = g.version(0, 6), g.group(), g.groups()
	r.CoordinatorType = pick[int8](g, 0, 0, 0, 0, 2, 3, -1, 127)
	return r
}
