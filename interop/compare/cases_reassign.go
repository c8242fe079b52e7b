//go:build interop

package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func reassignCases() []testCase {
	return []testCase{
		{"ElectLeaders", electLeaders},
		{"ElectLeaders-all", electAll},
		{"AlterPartitionReassignments", alterReassignments},
		{"AlterPartitionReassignments-refused", reassignRefused},
		{"ListPartitionReassignments", listReassignments},
		{"DescribeQuorum", describeQuorum},
	}
}

func electReq(version int16, kind int8, topics ...kmsg.ElectLeadersRequestTopic) *kmsg.ElectLeadersRequest {
	r := kmsg.NewPtrElectLeadersRequest()
	r.Version, r.ElectionType, r.TimeoutMillis, r.Topics = version, kind, 10000, topics
	return r
}

func electTopic(name string, partitions ...int32) kmsg.ElectLeadersRequestTopic {
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = name, partitions
	return t
}

func electLeaders(s *session) {
	s.create("e", 2)
	name := s.topic("e")
	for v := int16(0); v <= 2; v++ {
		for kind := int8(0); kind <= 1; kind++ {
			s.ask(fmt.Sprintf("led, kind %d", kind), electReq(v, kind, electTopic(name, 0, 1)))
			s.ask(fmt.Sprintf("unknown, kind %d", kind), electReq(v, kind, electTopic(s.topic("none"), 0), electTopic(name, 7, -1, 1)))
		}
		s.ask("a kind that does not exist", electReq(v, 7, electTopic(name, 0)))
		s.ask("a kind below nought", electReq(v, -1, electTopic(name, 0), electTopic(s.topic("none"), 3)))
		s.ask("an empty list", electReq(v, 0, []kmsg.ElectLeadersRequestTopic{}...))
		s.ask("no partitions", electReq(v, 0, electTopic(name)))
		s.ask("no name", electReq(v, 0, electTopic("", 0)))
	}
	s.ask("a partition twice", electReq(2, 0, electTopic(name, 0, 0)))
	s.ask("a topic twice", electReq(2, 0, electTopic(name, 0), electTopic(name, 1)))
	for _, ms := range []int32{0, -1} {
		r := electReq(2, 0, electTopic(name, 0), electTopic(s.topic("none"), 0))
		r.TimeoutMillis = ms
		s.ask(fmt.Sprintf("time-out %d", ms), r)
	}
}

// electAll asks for every topic of the broker: how many there are is its own
// affair, that each is led is not.
func electAll(s *session) {
	s.create("ea", 1)
	for v := int16(0); v <= 2; v++ {
		for kind := int8(0); kind <= 1; kind++ {
			resp, ok := s.do(electReq(v, kind)).(*kmsg.ElectLeadersResponse)
			if !ok {
				s.fail("no answer")
			}
			there := false
			for _, t := range resp.Topics {
				there = there || t.Topic == s.topic("ea")
				if len(t.Partitions) > 0 {
					s.note("v%d kind %d: partitions of %s", v, kind, t.Topic)
				}
			}
			s.note("v%d kind %d: error %d, named %v", v, kind, resp.ErrorCode, there)
		}
	}
}

// to is the wish that partition n has these replicas; none cancels.
func to(n int32, replicas ...int32) kmsg.AlterPartitionAssignmentsRequestTopicPartition {
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = n, replicas
	return p
}

func reassignReq(version int16, topic string, ps ...kmsg.AlterPartitionAssignmentsRequestTopicPartition) *kmsg.AlterPartitionAssignmentsRequest {
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.Version, r.TimeoutMillis = version, 10000
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic, t.Partitions = topic, ps
	r.Topics = append(r.Topics, t)
	return r
}

// self is the broker's id: on either side it is alone.
func (s *session) self() int32 {
	m, ok := s.do(metadata(12, false, s.topic("none"))).(*kmsg.MetadataResponse)
	if !ok || len(m.Brokers) != 1 {
		s.fail("not one broker")
	}
	return m.Brokers[0].NodeID
}

func alterReassignments(s *session) {
	s.create("r", 3)
	name, self := s.topic("r"), s.self()
	for v := int16(0); v <= 1; v++ {
		s.ask("where they are", reassignReq(v, name, to(0, self), to(2, self)))
		s.ask("nothing to cancel", reassignReq(v, name, to(0), to(1)))
		s.ask("unknown partitions", reassignReq(v, name, to(3, self), to(-1, self), to(9)))
		s.ask("an unknown topic", reassignReq(v, s.topic("none"), to(0, self), to(1)))
		s.ask("no partitions", reassignReq(v, name))
		s.ask("no name", reassignReq(v, "", to(0, self)))
		s.ask("a partition twice", reassignReq(v, name, to(0, self), to(0)))
		fixed := reassignReq(v, name, to(0, self))
		fixed.AllowReplicationFactorChange = false
		s.ask("the factor held", fixed)
		two := reassignReq(v, name, to(0, self))
		two.Topics = append(two.Topics, two.Topics[0], reassignReq(v, s.topic("none"), to(0)).Topics[0])
		s.ask("a topic twice and an unknown one", two)
		none := reassignReq(v, name)
		none.Topics = nil
		s.ask("no topics", none)
	}
	for _, ms := range []int32{0, -1} {
		r := reassignReq(0, name, to(0), to(1, self))
		r.TimeoutMillis = ms
		s.ask(fmt.Sprintf("time-out %d", ms), r)
	}
	s.ask("as before", metadata(12, false, name))
}

func reassignRefused(s *session) {
	s.create("f", 2)
	name, self := s.topic("f"), s.self()
	for v := int16(0); v <= 1; v++ {
		s.ask("no replicas", reassignReq(v, name, to(0, []int32{}...)))
		s.ask("a broker twice", reassignReq(v, name, to(0, self, self)))
		s.ask("an unknown broker", reassignReq(v, name, to(0, self, 4711), to(1, -1)))
		fixed := reassignReq(v, name, to(0, self, 4711), to(1, self, self), to(0, []int32{}...))
		fixed.AllowReplicationFactorChange = false
		s.ask("refused, and the factor held", fixed)
	}
	s.ask("as before", metadata(12, false, name))
}

func listReassignments(s *session) {
	s.create("l", 2)
	list := func(topics ...kmsg.ListPartitionReassignmentsRequestTopic) *kmsg.ListPartitionReassignmentsRequest {
		r := kmsg.NewPtrListPartitionReassignmentsRequest()
		r.TimeoutMillis, r.Topics = 10000, topics
		return r
	}
	topic := func(name string, ps ...int32) kmsg.ListPartitionReassignmentsRequestTopic {
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic, t.Partitions = name, ps
		return t
	}
	s.ask("all", list())
	s.ask("none", list([]kmsg.ListPartitionReassignmentsRequestTopic{}...))
	s.ask("of topics", list(topic(s.topic("l"), 0, 1, 5), topic(s.topic("none"), 0), topic("", 1)))
	s.ask("no partitions", list(topic(s.topic("l"))))
	r := list()
	r.TimeoutMillis = 0
	s.ask("time-out 0", r)
}

// describeQuorum shows who the voters are and who leads, not where the log is.
func describeQuorum(s *session) {
	ask := func(v int16, topic string, ps ...int32) *kmsg.DescribeQuorumRequest {
		r := kmsg.NewPtrDescribeQuorumRequest()
		r.Version = v
		t := kmsg.NewDescribeQuorumRequestTopic()
		t.Topic = topic
		for _, n := range ps {
			p := kmsg.NewDescribeQuorumRequestTopicPartition()
			p.Partition = n
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
		return r
	}
	const metadataTopic = "__cluster_metadata"
	for v := int16(0); v <= 2; v++ {
		s.quorum("the metadata", ask(v, metadataTopic, 0))
		s.quorum("another partition", ask(v, metadataTopic, 1))
		s.quorum("and another partition", ask(v, metadataTopic, 0, 1))
		s.quorum("another topic", ask(v, s.topic("q"), 0))
		s.quorum("no partitions", ask(v, metadataTopic))
		none := ask(v, metadataTopic)
		none.Topics = nil
		s.quorum("no topics", none)
		two := ask(v, metadataTopic, 0)
		two.Topics = append(two.Topics, ask(v, "x", 0).Topics[0])
		s.quorum("and another topic", two)
	}
}

// quorum asks, and writes down what two brokers can have in common.
func (s *session) quorum(label string, req *kmsg.DescribeQuorumRequest) {
	answer, err := s.c().Do(req)
	resp, ok := answer.(*kmsg.DescribeQuorumResponse)
	if err != nil || !ok {
		s.hangUp()
		s.note("v%d %s: no answer", req.Version, label)
		return
	}
	s.note("v%d %s: error %d %v", req.Version, label, resp.ErrorCode, s.say(resp.ErrorMessage))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			s.note("  %s %d: error %d %v leader %d, known epoch %v, high watermark %v", s.plain(t.Topic), p.Partition, p.ErrorCode, s.say(p.ErrorMessage), p.LeaderID, p.LeaderEpoch > 0, p.HighWatermark > 0)
			for _, r := range p.CurrentVoters {
				s.note("    voter %d directory %v end %v fetched %v caught up %v", r.ReplicaID, r.ReplicaDirectoryID != [16]byte{}, r.LogEndOffset >= p.HighWatermark, r.LastFetchTimestamp > 0, r.LastCaughtUpTimestamp > 0)
			}
			s.note("    %d observers", len(p.Observers))
		}
	}
	for _, n := range resp.Nodes {
		s.note("  node %d", n.NodeID)
		for _, l := range n.Listeners {
			s.note("    %s %s %v", l.Name, l.Host, l.Port > 0)
		}
	}
}

func (s *session) say(message *string) string {
	if message == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *message)
}
