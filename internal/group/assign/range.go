package assign

import (
	"cmp"
	"maps"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Range gives each member a run of consecutive partitions of every topic. With
// the same subscriptions and numbers of partitions, partitions of one number go to
// one member, so that topics can be joined.
//
// Static members come first, by instance id, and keep their place whatever
// member id they have; then the others, by member id. What was owned, and racks, play no part.
type Range struct{}

// Name is "range".
func (Range) Name() string { return "range" }

// Assign assigns.
func (Range) Assign(s Spec) Assignment {
	runs := make([]run, len(s.Topics))
	var longest int32
	for t, topic := range s.Topics {
		runs[t].left = topic.Partitions
		longest = max(longest, topic.Partitions)
	}
	numbers := make([]int32, longest) // every run is a part of it
	for i := range numbers {
		numbers[i] = int32(i)
	}
	var topics []int32
	for i := range s.Members {
		topics = s.subscription(i, topics[:0])
		for _, t := range topics {
			runs[t].members++
		}
	}
	out := make(Assignment, len(s.Members))
	for _, i := range rangeOrder(s.Members) {
		got := map[kafka.TopicID][]int32{}
		topics = s.subscription(i, topics[:0])
		for _, t := range topics {
			if first, end := runs[t].next(); first < end {
				got[s.Topics[t].ID] = numbers[first:end:end]
			}
		}
		if owned := s.Members[i].Owned; owned != nil && maps.EqualFunc(got, owned, slices.Equal) {
			got = owned
		}
		out[i] = got
	}
	return out
}

// run deals out a topic's partitions from the first to the last.
type run struct {
	first, left int32 // partitions
	members     int32 // still to come
}

// next is the next member's part. What does not divide goes to the first ones.
func (r *run) next() (first, end int32) {
	if r.left == 0 {
		return r.first, r.first
	}
	n := (r.left + r.members - 1) / r.members
	first = r.first
	r.first += n
	r.left -= n
	r.members--
	return first, r.first
}

// rangeOrder is the order of members, as their indexes.
func rangeOrder(members []Member) []int {
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		x, y := &members[i], &members[j]
		switch {
		case x.Instance != "" && y.Instance != "":
			return cmp.Compare(x.Instance, y.Instance)
		case x.Instance != "":
			return -1
		case y.Instance != "":
			return 1
		}
		return cmp.Compare(x.ID, y.ID)
	})
	return order
}
