//go:build interop

package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func partitionCases() []testCase {
	return []testCase{
		{"ADM-04-create-twice", createTwice},
		{"ADM-05-names", createNames},
		{"ADM-10-numbers", addNumbers},
		{"ADM-10-assignments", addAssignments},
		{"ADM-10-errors", addErrors},
		{"ADM-11-rows", deleteRows},
	}
}

// moreReq asks for so many partitions in all; as are the replicas of the new
// ones, if they are not left to the broker.
func moreReq(version int16, topic string, count int32, as ...[]int32) *kmsg.CreatePartitionsRequest {
	r := kmsg.NewPtrCreatePartitionsRequest()
	r.Version, r.TimeoutMillis = version, 10000
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, count
	for _, nodes := range as {
		a := kmsg.NewCreatePartitionsRequestTopicAssignment()
		a.Replicas = nodes
		t.Assignment = append(t.Assignment, a)
	}
	r.Topics = append(r.Topics, t)
	return r
}

func createTwice(s *session) {
	n := s.topic
	s.askCreate("one twice", createReq(7, newTopic(n("c1"), 1, 1), newTopic(n("c2"), 1, 1), newTopic(n("c1"), 2, 1)))
	s.askCreate("three times", createReq(7, newTopic(n("c3"), 1, 1), newTopic(n("c3"), 1, 1), newTopic(n("c3"), 1, 1)))
	s.create("c4", 1)
	s.askCreate("one twice that is there", createReq(7, newTopic(n("c4"), 1, 1), newTopic(n("c4"), 1, 1)))
	s.askCreate("a bad name twice", createReq(7, newTopic("a b", 1, 1), newTopic("a b", 1, 1)))
	s.askCreate("validate only, twice", func() *kmsg.CreateTopicsRequest {
		r := createReq(7, newTopic(n("c5"), 1, 1), newTopic(n("c5"), 1, 1))
		r.ValidateOnly = true
		return r
	}())
	s.askCreate("many partitions in all", createReq(7, newTopic(n("c6"), 9999, 1), newTopic(n("c7"), 2, 1)))
	s.askCreate("many partitions, and a name twice", createReq(7, newTopic(n("c8"), 9999, 1), newTopic(n("c8"), 9999, 1), newTopic(n("c9"), 1, 1)))
	s.askCreate("many partitions, and a bad name", createReq(7, newTopic("a b", 10001, 1), newTopic(n("c10"), 1, 1)))
	s.askCreate("no partitions of another's many", createReq(7, newTopic(n("c11"), 10001, 1), newTopic(n("c12"), -5, 1)))
	s.ask("what there is", metadata(12, false, n("c1"), n("c2"), n("c3"), n("c5"), n("c6"), n("c8"), n("c9"), n("c10"), n("c12")))
}

func createNames(s *session) {
	for _, name := range []string{"", ".", "..", "...", "a b", "ä", "a/b", "a\\b", "a:b", "a\x00b", "a\nb", "A.b_c-9", "-", "_"} {
		r := createReq(7, newTopic(name, 1, 1))
		r.ValidateOnly = true
		s.askCreate(fmt.Sprintf("%q", name), r)
	}
}

func addNumbers(s *session) {
	for v := int16(0); v <= 3; v++ {
		base := fmt.Sprintf("add%d", v)
		s.create(base, 2)
		name := s.topic(base)
		dry := moreReq(v, name, 5)
		dry.ValidateOnly = true
		s.ask("2 to 5, validate only", dry)
		s.ask("still 2", metadata(12, false, name))
		for _, n := range []int32{5, 5, 3, 0, -1} {
			s.ask(fmt.Sprintf("to %d", n), moreReq(v, name, n))
		}
		s.awaitLeaders(base, 5)
		s.ask("now 5", metadata(12, false, name))
		s.ask("too many", moreReq(v, name, 10006))
	}
}

func addAssignments(s *session) {
	node := s.do(metadata(9, false)).(*kmsg.MetadataResponse).Brokers[0].NodeID
	s.create("aa", 2)
	name := s.topic("aa")
	for _, c := range []struct {
		label string
		as    [][]int32
	}{
		{"too few", [][]int32{{node}}}, {"too many", [][]int32{{node}, {node}, {node}}},
		{"unknown broker", [][]int32{{node}, {77}}}, {"broker twice", [][]int32{{node}, {node, node}}},
		{"two replicas", [][]int32{{node}, {node, 77}}}, {"none", [][]int32{{node}, {}}}, {"negative", [][]int32{{-1}, {node}}},
		{"good", [][]int32{{node}, {node}}},
	} {
		dry := moreReq(3, name, 4, c.as...)
		dry.ValidateOnly = true
		s.ask(c.label+", validate only", dry)
		s.ask(c.label, moreReq(3, name, 4, c.as...))
	}
	empty := moreReq(3, name, 6)
	empty.Topics[0].Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
	s.ask("an empty assignment", empty)
	s.ask("count and assignment bad", moreReq(3, name, 2, []int32{77}))
}

func addErrors(s *session) {
	s.create("ae", 1)
	name := s.topic("ae")
	s.ask("unknown topic", moreReq(3, s.topic("nosuch"), 3))
	s.ask("bad name", moreReq(3, "a b", 3))
	s.ask("empty name", moreReq(3, "", 3))
	twice := moreReq(3, name, 2)
	twice.Topics = append(twice.Topics, moreReq(3, name, 3).Topics...)
	twice.Topics = append(twice.Topics, moreReq(3, s.topic("nosuch"), 3).Topics...)
	s.ask("topic twice, and another", twice)
	s.create("af", 1)
	many := moreReq(3, name, 10000)
	many.Topics = append(many.Topics, moreReq(3, s.topic("af"), 5000).Topics...)
	s.ask("too many in all", many)
	s.ask("none of them came", metadata(12, false, name, s.topic("af")))
	none := moreReq(3, name, 2)
	none.Topics = nil
	s.ask("no topics", none)
	zero := moreReq(3, name, 2)
	zero.TimeoutMillis = 0
	s.ask("timeout 0", zero)
}

// deleteRows has one row a thing that is asked for, at versions by name and by id.
func deleteRows(s *session) {
	for v := int16(1); v <= 6; v++ {
		id := s.create("dx", 1)
		s.create("dy", 1)
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version, r.TimeoutMillis = v, 10000
		add := func(name string, id [16]byte) {
			t := kmsg.NewDeleteTopicsRequestTopic()
			if name != "" {
				t.Topic = kmsg.StringPtr(s.topic(name))
				r.TopicNames = append(r.TopicNames, s.topic(name))
			}
			t.TopicID = id
			r.Topics = append(r.Topics, t)
		}
		add("dy", [16]byte{})
		add("nosuch", [16]byte{})
		if v == 6 {
			add("", id)
			add("", [16]byte{6, 6})
			add("", [16]byte{})
			add("dz", [16]byte{7})
		} else {
			add("dx", [16]byte{})
		}
		s.ask("there, unknown, by id, unknown id, neither, both", r)
		s.awaitGone("dx")
		s.awaitGone("dy")
	}
}
