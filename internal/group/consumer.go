package group

import (
	"cmp"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// consumer is the membership of a group under the consumer protocol (KIP-848).
// The group has an epoch, which grows with every change of who reads what; the
// target assignment is made for one; and each member moves to its part of the
// target at its own pace, at an epoch of its own.
type consumer struct {
	group string
	index *topicIndex

	// What the records hold.
	epoch    int32       // of the group
	hash     int64       // of the topics that it reads, at that epoch (KIP-1101)
	made     targetEpoch // the epoch that the target assignment is for
	members  map[string]*consumerMember
	targets  map[string]map[kafka.TopicID][]int32 // by member
	resolved map[string]*regexTopics              // regular expressions
	legacy   bool                                 // has a partition metadata record

	// Sums over it, so that a heartbeat looks at no other member.
	statics   map[string]string                  // instance id to member id
	topics    map[string]readers                 // by name
	alike     map[readers]int                    // to the topics that have them
	regexes   map[string]int                     // regular expression to the members that have it
	assignors map[string]int                     // name to the members that want it
	owners    map[kafka.TopicID]map[int32]string // member that has a partition, until it gave it up
	settled   map[int32]int                      // epoch to the members that have their part of its target
	classics  int                                // members that speak the classic protocol
	offered   map[string]int                     // protocol name to those of them that have it
	scanned   struct{ Version, AtMs int64 }      // when regular expressions were looked at last

	// Soft: lost when the machine is loaded anew.
	fresh bool // the topics did not change since hash was compared
	scan  *regexScan
}

var _ protocol = (*consumer)(nil)

// readers are the members that read a topic by its name, and the regular
// expressions that match it.
type readers struct{ byName, byRegex int }

func (r readers) compare(o readers) int {
	return cmp.Or(cmp.Compare(r.byName, o.byName), cmp.Compare(r.byRegex, o.byRegex))
}

// consumerMember is one member. A change replaces it, and what meta and cur point
// to never changes.
type consumerMember struct {
	id    string
	meta  *memberMetadata
	cur   *current
	pulse *pulse
}

// What a member is before its records say so.
var (
	noMetadata = &memberMetadata{Regex: new(string), RebalanceTimeoutMs: -1}
	noCurrent  = &current{PreviousEpoch: -1}
)

// epochLeft is the epoch of a static member that went and may come back.
const epochLeft = -2

func newConsumer(group string, index *topicIndex) *consumer {
	return &consumer{
		group: group, index: index,
		// As in Apache Kafka a group begins at 1: epoch 0 is a member that joins.
		epoch: 1, made: targetEpoch{Epoch: 1},
		members: map[string]*consumerMember{}, targets: map[string]map[kafka.TopicID][]int32{},
		resolved: map[string]*regexTopics{}, statics: map[string]string{}, topics: map[string]readers{}, alike: map[readers]int{},
		regexes: map[string]int{}, assignors: map[string]int{}, owners: map[kafka.TopicID]map[int32]string{},
		settled: map[int32]int{}, offered: map[string]int{},
	}
}

func (c *consumer) typ() string          { return "consumer" }
func (c *consumer) protocolType() string { return "consumer" }
func (c *consumer) size() int            { return len(c.members) }

func (c *consumer) state() string {
	switch {
	case len(c.members) == 0:
		return "Empty"
	case c.epoch > c.made.Epoch:
		return "Assigning"
	case c.settled[c.made.Epoch] < len(c.members):
		return "Reconciling"
	}
	return "Stable"
}

func (c *consumer) subscribes(topic string) bool { _, ok := c.topics[topic]; return ok }

// emptySinceMs: offsets of these groups expire by their commit (KIP-211 counts
// for classic groups alone).
func (c *consumer) emptySinceMs() int64 { return -1 }

func (c *consumer) remove(s *step) {
	s.cancelScan(c)
	s.bury(c)
}

// static is the member of an instance id; nil if there is none.
func (c *consumer) static(instance string) *consumerMember {
	return c.members[c.statics[instance]]
}

// held says whether somebody other than the member has yet to give up a partition.
func (c *consumer) held(topic kafka.TopicID, partition int32, member string) bool {
	owner, ok := c.owners[topic][partition]
	return ok && owner != member
}

// settledAt says whether the member has its part of the target of an epoch.
func (m *consumerMember) settledAt(epoch int32) bool {
	return m.cur.State == memberStable && m.cur.Epoch == epoch
}

func (m *consumerMember) classic() bool { return m.meta.Classic != nil }

// regex is the member's regular expression; "" if it has none.
func (v *memberMetadata) regex() string {
	if v.Regex == nil {
		return ""
	}
	return *v.Regex
}
