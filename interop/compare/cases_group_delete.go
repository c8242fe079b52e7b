//go:build interop

package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func offsetDeleteCases() []testCase {
	return []testCase{
		{"OffsetDelete", offsetDelete},
		{"OffsetDelete-subscribed", offsetDeleteSubscribed},
	}
}

func deleteOffsetsReq(group, topic string, parts ...int32) *kmsg.OffsetDeleteRequest {
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = group
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic = topic
	for _, x := range parts {
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = x
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return r
}

func offsetDelete(s *session) {
	s.create("od", 3)
	t := s.topic("od")
	s.ask("unknown group", deleteOffsetsReq(s.group("nosuch"), t, 0))
	s.ask("unknown group, unknown topic", deleteOffsetsReq(s.group("nosuch"), s.topic("nosuch"), 0))
	s.ask("no group", deleteOffsetsReq("", t, 0))
	g := s.group("od")
	s.ask("commit", commitReq(7, g, "", -1, t, offsetPart{0, 1}, offsetPart{1, 2}, offsetPart{2, 3}))
	s.ask("one committed, one there twice, one not there", deleteOffsetsReq(g, t, 0, 0, 7, -1))
	s.ask("again", deleteOffsetsReq(g, t, 0))
	s.ask("unknown topic", deleteOffsetsReq(g, s.topic("nosuch"), 0))
	s.ask("no partitions", deleteOffsetsReq(g, t))
	none := deleteOffsetsReq(g, t)
	none.Topics = []kmsg.OffsetDeleteRequestTopic{}
	s.ask("no topics", none)
	twice := deleteOffsetsReq(g, t, 1)
	twice.Topics = append(twice.Topics, deleteOffsetsReq(g, t, 2).Topics...)
	s.ask("topic twice", twice)
	s.ask("what is left", fetchOffsetsReq(7, g))
	s.describe("the group", g)
}

// offsetDeleteSubscribed asks while members are subscribed to a topic.
func offsetDeleteSubscribed(s *session) {
	id := s.known("ods", 1)
	s.known("odo", 1)
	subscribed, other := s.topic("ods"), s.topic("odo")
	try := func(g string) {
		two := deleteOffsetsReq(g, subscribed, 0)
		two.Topics = append(two.Topics, deleteOffsetsReq(g, other, 0).Topics...)
		s.ask("subscribed and other", two)
		s.ask("what is left", fetchOffsetsReq(7, g))
	}
	commit := func(g string) {
		two := commitReq(7, g, "", -1, subscribed, offsetPart{0, 1})
		two.Topics = append(two.Topics, commitReq(7, g, "", -1, other, offsetPart{0, 2}).Topics...)
		s.do(two)
	}
	for i, protocols := range [][]kmsg.JoinGroupRequestProtocol{
		{subscription("range", 1, subscribed)}, {subscription("range", 3, subscribed)}, {protocol("range", "no subscription")}, {protocol("range", "")},
		{subscription("range", 1)}, {subscription("range", 9, subscribed)},
	} {
		g := s.group(fmt.Sprintf("ods%d", i))
		commit(g)
		p := s.peer("a", g)
		p.protocols = protocols
		p.join()
		p.answer()
		try(g)
		p.ask("sync", p.syncReq())
		try(g)
		p.ask("leave", p.leaveReq())
		try(g)
	}
	g := s.group("odconnect")
	commit(g)
	p := s.peer("a", g, "range")
	req := p.joinReq()
	req.ProtocolType = "connect"
	p.ask("join", req)
	req.MemberID = p.id
	p.ask("join", req)
	try(g)
	g = s.group("odconsumer")
	commit(g)
	m := s.consumer("m", g, subscribed)
	m.beat("join", nil)
	try(g)
	m.beat("owns it", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0) })
	m.leave(-1)
	try(g)
}
