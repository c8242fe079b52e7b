package meta

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Root is the prefix under which every cluster's keys lie.
const Root = "/barnabas/"

// StoreCluster names the cluster that a broker joins which is of none yet. It
// lies beside the clusters' keys: it is written with the first of them, once.
const StoreCluster = Root + "cluster"

// ClusterOf is the id of the cluster that a key is of; ok is false for a key
// that is of none.
func ClusterOf(key string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(key, Root)
	if !ok {
		return "", false
	}
	id, _, ok = strings.Cut(rest, "/")
	return id, ok && id != ""
}

// Keys builds the keys of one cluster.
type Keys struct{ prefix string }

// KeysOf gives the keys of the cluster with that id.
func KeysOf(clusterID string) Keys { return Keys{prefix: Root + clusterID} }

// Prefix is what every key of the cluster begins with: what to list and watch.
func (k Keys) Prefix() string { return k.prefix + "/" }

// Broker is the registration of a broker.
func (k Keys) Broker(n kafka.NodeID) string { return k.prefix + "/brokers/ids/" + n.String() }

// Controller is held by the elected controller.
func (k Keys) Controller() string { return k.prefix + "/controller" }

// ControllerEpoch counts elections of a controller.
func (k Keys) ControllerEpoch() string { return k.prefix + "/controller_epoch" }

// Topic holds id and partition count of the topic with that name.
func (k Keys) Topic(name string) string { return k.prefix + "/topics/" + name }

// States is the prefix of a topic's partition states, and of nothing else.
func (k Keys) States(id kafka.TopicID) string { return k.prefix + "/topics/" + id.String() + "/" }

// State is the state of one partition.
func (k Keys) State(id kafka.TopicID, partition int32) string {
	return k.States(id) + "partitions/" + strconv.Itoa(int(partition)) + "/state"
}

// Name is the claim on a name under which . and _ are one (see Collides).
func (k Keys) Name(name string) string { return k.prefix + "/names/" + UnifyName(name) }

// Pending marks partitions that are being made.
func (k Keys) Pending(id kafka.TopicID) string { return k.prefix + "/pending/" + id.String() }

// Deleted is the tombstone of a topic.
func (k Keys) Deleted(id kafka.TopicID) string { return k.prefix + "/deleted/" + id.String() }

// TopicConfig holds a topic's overrides.
func (k Keys) TopicConfig(name string) string { return k.prefix + "/config/topics/" + name }

// BrokerConfig holds a broker's dynamic overrides.
func (k Keys) BrokerConfig(n kafka.NodeID) string { return k.prefix + "/config/brokers/" + n.String() }

// GroupConfig holds the overrides of a consumer group, whose id may have any
// character: it is escaped as a segment of a path.
func (k Keys) GroupConfig(id string) string { return k.prefix + "/config/groups/" + url.PathEscape(id) }

// ClientMetrics holds a subscription to client metrics (KIP-714), escaped as a
// group's id is.
func (k Keys) ClientMetrics(name string) string {
	return k.prefix + "/config/client-metrics/" + url.PathEscape(name)
}

// BrokerConfigs is the prefix of the dynamic overrides of brokers, one and all.
func (k Keys) BrokerConfigs() string { return k.prefix + "/config/brokers/" }

// ClusterConfig holds the dynamic overrides of all brokers.
func (k Keys) ClusterConfig() string { return k.prefix + "/config/brokers/default" }

// ProducerIDs holds the next block of producer ids.
func (k Keys) ProducerIDs() string { return k.prefix + "/ids/producer" }

// Features holds the finalized feature levels.
func (k Keys) Features() string { return k.prefix + "/features" }

// Cluster is written once, when the cluster begins.
func (k Keys) Cluster() string { return k.prefix + "/cluster" }

// UnifyName is name with every . as _: Apache Kafka's metrics cannot tell the
// two apart, so two topics whose unified names are equal cannot coexist.
func UnifyName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// Collides says whether another topic's name could unify to the same.
func Collides(name string) bool { return strings.ContainsAny(name, "._") }

type kind int8

const (
	kindOther kind = iota // not read by this build
	kindBad               // of a known family, but not a key of it
	kindBroker
	kindController
	kindControllerEpoch
	kindTopic
	kindState
	kindPending
	kindDeleted
	kindTopicConfig
	kindGroupConfig
	kindBrokerConfig
	kindClusterConfig
	kindClientMetrics
	kindProducerIDs
	kindFeatures
	kindCluster
)

// parsed is what a key names.
type parsed struct {
	kind kind
	name string
	node kafka.NodeID
	part PartitionID // Partition 0 where the key names a topic id
}

func (k Keys) parse(key string) parsed {
	rest, ok := strings.CutPrefix(key, k.prefix+"/")
	if !ok {
		return parsed{kind: kindOther}
	}
	switch rest {
	case "controller":
		return parsed{kind: kindController}
	case "controller_epoch":
		return parsed{kind: kindControllerEpoch}
	case "ids/producer":
		return parsed{kind: kindProducerIDs}
	case "features":
		return parsed{kind: kindFeatures}
	case "cluster":
		return parsed{kind: kindCluster}
	case "config/brokers/default":
		return parsed{kind: kindClusterConfig}
	}
	if s, ok := strings.CutPrefix(rest, "topics/"); ok {
		return parseTopics(s)
	}
	if s, ok := strings.CutPrefix(rest, "brokers/ids/"); ok {
		return parseNode(kindBroker, s)
	}
	if s, ok := strings.CutPrefix(rest, "config/brokers/"); ok {
		return parseNode(kindBrokerConfig, s)
	}
	if s, ok := strings.CutPrefix(rest, "config/topics/"); ok {
		if s == "" || strings.Contains(s, "/") {
			return parsed{kind: kindBad}
		}
		return parsed{kind: kindTopicConfig, name: s}
	}
	if s, ok := strings.CutPrefix(rest, "config/groups/"); ok {
		return parseEscaped(kindGroupConfig, s)
	}
	if s, ok := strings.CutPrefix(rest, "config/client-metrics/"); ok {
		return parseEscaped(kindClientMetrics, s)
	}
	if s, ok := strings.CutPrefix(rest, "pending/"); ok {
		return parseID(kindPending, s)
	}
	if s, ok := strings.CutPrefix(rest, "deleted/"); ok {
		return parseID(kindDeleted, s)
	}
	return parsed{kind: kindOther}
}

func parseTopics(s string) parsed {
	id, rest, deeper := strings.Cut(s, "/")
	if !deeper {
		if id == "" {
			return parsed{kind: kindBad}
		}
		return parsed{kind: kindTopic, name: id}
	}
	rest, ok := strings.CutPrefix(rest, "partitions/")
	number, ok2 := strings.CutSuffix(rest, "/state")
	if !ok || !ok2 {
		return parsed{kind: kindBad}
	}
	p, ok := parseNumber(number)
	if !ok {
		return parsed{kind: kindBad}
	}
	out := parseID(kindState, id)
	out.part.Partition = p
	return out
}

func parseEscaped(k kind, s string) parsed {
	name, err := url.PathUnescape(s)
	if err != nil || url.PathEscape(name) != s {
		return parsed{kind: kindBad}
	}
	return parsed{kind: k, name: name}
}

func parseNode(k kind, s string) parsed {
	n, ok := parseNumber(s)
	if !ok {
		return parsed{kind: kindBad}
	}
	return parsed{kind: k, node: kafka.NodeID(n)}
}

func parseID(k kind, s string) parsed {
	id, err := kafka.ParseUUID(s)
	if err != nil || id.String() != s {
		return parsed{kind: kindBad}
	}
	return parsed{kind: k, part: PartitionID{Topic: id}}
}

// parseNumber accepts a number only as it is written by us: one thing has one
// key.
func parseNumber(s string) (int32, bool) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != s {
		return 0, false
	}
	return int32(n), true
}
