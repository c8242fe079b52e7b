//go:build interop

package main

import (
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// gen makes one request. What it makes depends on its random numbers alone.
type gen struct {
	*rand.Rand
	seed      uint64
	number    int
	nonce     [4]byte // of the run: what brokers remember from another must not count
	startMs   int64   // when the run began
	reads     bool    // the request changes nothing
	fragile   bool    // a changed byte could do what the test does not survive
	resources []configResource
}

// maker makes a request of one key.
type maker struct {
	weight int
	make   func(*gen) kmsg.Request
}

// makers are the requests of a random run and how often each comes. All of
// their keys must be served.
var makers = []maker{
	{14, (*gen).createTopics}, {6, (*gen).deleteTopics}, {6, (*gen).createPartitions}, {5, (*gen).deleteRecords},
	{5, (*gen).describeConfigs}, {6, (*gen).alterConfigs}, {10, (*gen).incrementalAlterConfigs}, {2, (*gen).listConfigResources},
	{2, (*gen).describeCluster}, {4, (*gen).describeTopicPartitions}, {4, (*gen).metadata}, {3, (*gen).describeLogDirs},
	{3, (*gen).alterReplicaLogDirs}, {3, (*gen).describeProducers}, {3, (*gen).updateFeatures}, {4, (*gen).listOffsets},
	{1, (*gen).unregisterBroker}, {2, (*gen).telemetrySubscriptions}, {2, (*gen).pushTelemetry}, {3, (*gen).offsetDelete},
	{2, (*gen).deleteGroups}, {3, (*gen).describeGroups}, {2, (*gen).listGroups}, {1, (*gen).apiVersions}, {2, (*gen).findCoordinator},
	{8, (*gen).produce}, {4, (*gen).offsetCommit}, {3, (*gen).electLeaders}, {4, (*gen).alterReassignments}, {1, (*gen).listReassignments},
}

func (g *gen) request() kmsg.Request {
	total := 0
	for _, m := range makers {
		total += m.weight
	}
	n := g.IntN(total)
	for _, m := range makers {
		if n -= m.weight; n < 0 {
			return m.make(g)
		}
	}
	panic("weights")
}

func (g *gen) chance(percent int) bool { return g.IntN(100) < percent }

// version is any that is served from least on; the newest come oftener.
func (g *gen) version(least, most int16) int16 {
	if g.chance(40) {
		return most
	}
	return least + int16(g.IntN(int(most-least)+1))
}

func pick[T any](g *gen, of ...T) T { return of[g.IntN(len(of))] }

// few is how many elements a list has: mostly one, sometimes none.
func (g *gen) few() int { return pick(g, 0, 1, 1, 1, 1, 1, 2, 2, 3, 5) }

// names are the topics of a run. Two of them collide.
var names = []string{"alpha", "beta", "gamma", "delta", "a.b", "a_b", "epsilon", "zeta"}

// oddNames are not topics, and must not become any; but for the longest that
// is allowed.
var oddNames = []string{"", ".", "..", strings.Repeat("l", 249), strings.Repeat("l", 250), "a b", "ä", "a/b", "a:b", "a\x00b", "no\nname", "A-Z_0.9", "*"}

// internalNames belong to the broker.
var internalNames = []string{"__consumer_offsets", "__cluster_metadata"}

func (g *gen) topic() string {
	switch n := g.IntN(100); {
	case n < 84:
		return pick(g, names...)
	case n < 91:
		return pick(g, oddNames...)
	case n < 94:
		return pick(g, internalNames...)
	}
	return pick(g, "nosuch", "nosuch.topic")
}

// ownTopic is one that may be changed.
func (g *gen) ownTopic() string {
	for {
		if t := g.topic(); !strings.HasPrefix(t, "__") {
			return t
		}
	}
}

// placeholderMark begins an id that stands for the id of a topic of names.
const placeholderMark = "topic id"

// fixedIDs are of no topic, or of none that a client may ask for.
var fixedIDs = [][16]byte{{}, {15: 1}, {7, 7}, {15: 2}}

// id stands for the id of a topic: the newest of a name, or an earlier one
// that may be deleted; or for none.
func (g *gen) id() (id [16]byte) {
	if g.chance(15) {
		return pick(g, fixedIDs...)
	}
	copy(id[:], placeholderMark)
	id[8] = byte(g.IntN(len(names)))
	id[9] = pick[byte](g, 0, 0, 0, 0, 1, 2)
	return id
}

func placeholder(id [16]byte) (name string, back int, ok bool) {
	if !strings.HasPrefix(string(id[:]), placeholderMark) || int(id[8]) >= len(names) {
		return "", 0, false
	}
	return names[id[8]], int(id[9]), true
}

func (g *gen) partition() int32 {
	return pick[int32](g, 0, 0, 0, 0, 1, 1, 2, 3, 4, 7, -1, 2147483647, -2147483648)
}

func (g *gen) partitions() []int32 {
	if g.chance(3) {
		return make([]int32, 2000)
	}
	out := []int32{}
	for range g.few() {
		out = append(out, g.partition())
	}
	return out
}

func (g *gen) timeout() int32 {
	return pick[int32](g, 30000, 30000, 30000, 30000, 30000, 60000, 2147483647)
}

// groupNames are the groups of a run; only the first three come to be.
var groupNames = []string{"g1", "g2", "g3", "g1", "g2", "g3", "nosuch", "", "g ä", strings.Repeat("g", 300)}

func (g *gen) group() string { return pick(g, groupNames...) }

func ptr[T any](x T) *T { return &x }
