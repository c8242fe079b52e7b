// Package assign holds the assignors of the consumer protocol (KIP-848): a
// group's subscriptions to a target assignment. They are pure, the same input gives
// the same output, and any number of goroutines may call them.
//
// Uniform puts balance first and few moves second, Range puts the same partition
// numbers of all topics together. Both decide as Apache Kafka 4.4 does, whose own
// answers are under testdata, but for one thing. There, a member may name its rack
// and no server-side assignor looks at it. Here, Uniform lets racks settle what is
// otherwise arbitrary: which of the partitions that have to move go to whom. How
// many partitions each member has, and how many move, does not change by it; and
// where no member names a rack nothing does. Range has no such choice to make.
//
// Partitions that a member owns and cannot own any more are passed over: of a
// topic that is gone or that it left, beyond the end of the topic, or owned by a
// member before it as well.
package assign

import (
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Member is one member of the group. Instance and Rack are "" where unset.
type Member struct {
	ID, Instance, Rack string
	// Topics it subscribes to, by id, sorted, each of them in Spec.Topics.
	Topics []kafka.TopicID
	// Owned is its part of the assignment before, by topic; ascending partitions.
	Owned map[kafka.TopicID][]int32
}

// Topic is a topic that somebody subscribes to.
type Topic struct {
	ID         kafka.TopicID
	Partitions int32
	// Racks are those of each partition's replicas; nil where no rack is known.
	Racks [][]string
}

// Spec is what an assignor is given. Members go by id, Topics by topic id.
type Spec struct {
	Members []Member
	Topics  []Topic
	// Homogeneous: all members subscribe to the same topics.
	Homogeneous bool
}

// subscription appends the indexes of the topics that a member subscribes to.
func (s *Spec) subscription(member int, to []int32) []int32 {
	if s.Homogeneous {
		for t := range s.Topics {
			to = append(to, int32(t))
		}
		return to
	}
	t := 0 // both lists go by id
	for _, id := range s.Members[member].Topics {
		for t < len(s.Topics) && compareIDs(s.Topics[t].ID, id) < 0 {
			t++
		}
		if t < len(s.Topics) && s.Topics[t].ID == id {
			to = append(to, int32(t))
		}
	}
	return to
}

// Assignment is the target by member, in the order of Spec.Members: partitions
// by topic, ascending. A member without partitions has an empty map. Where a
// member's part did not change, it may be the map of Member.Owned itself: neither is
// to be changed.
type Assignment []map[kafka.TopicID][]int32

// Assignor makes an assignment: every partition of a subscribed topic goes to
// exactly one member that subscribes to it.
type Assignor interface {
	Name() string
	Assign(s Spec) Assignment
}

// ByName finds an assignor: "uniform" or "range".
func ByName(name string) (Assignor, bool) {
	switch name {
	case "uniform":
		return Uniform{}, true
	case "range":
		return Range{}, true
	}
	return nil, false
}
