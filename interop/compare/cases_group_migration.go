//go:build interop

package main

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func migrationCases() []testCase {
	return []testCase{
		{"G848-07-empty-groups", g07},
		{"G848-upgrade", g848upgrade},
		{"G848-downgrade", g848downgrade},
		{"G848-foreign-members", g848foreign},
	}
}

// subscription is a protocol with what a consumer writes into its metadata.
func subscription(name string, version int16, topics ...string) kmsg.JoinGroupRequestProtocol {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics, m.Generation = version, topics, -1
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = name, m.AppendTo(nil)
	return p
}

// subscribed is a classic member as consumers are.
func (s *session) subscribed(name, group string, topics ...string) *peer {
	p := s.peer(name, group)
	p.protocols = []kmsg.JoinGroupRequestProtocol{subscription("range", 1, topics...), subscription("cooperative-sticky", 1, topics...)}
	return p
}

// g07 gives a group whose members have left to the other protocol, and back.
func g07(s *session) {
	s.known("g07", 1)
	t := s.topic("g07")
	g := s.group("g07")
	a := s.subscribed("a", g, t)
	a.join()
	a.answer()
	a.ask("sync", a.syncReq())
	s.ask("commit", commitReq(7, g, a.id, a.generation, t, offsetPart{0, 5}))
	a.ask("leave", a.leaveReq())
	s.list("classic, empty", 5, nil, nil)
	m := s.consumer("m", g, t)
	m.beat("joins", nil)
	s.list("consumer", 5, nil, nil)
	s.ask("the offset is still there", fetchOffsetsReq(7, g))
	s.ask("the old member", commitReq(7, g, a.id, a.generation, t, offsetPart{0, 6}))
	m.leave(-1)
	s.list("consumer, empty", 5, nil, nil)
	s.describe("as a classic group", g)
	s.describe848("as it is", g)
	b := s.subscribed("b", g, t)
	b.join()
	b.answer()
	b.ask("sync", b.syncReq())
	s.list("classic again", 5, nil, nil)
	s.ask("the offset is still there", fetchOffsetsReq(7, g))
	s.describe848("as a consumer group", g)
}

// g848upgrade brings a consumer into a classic group that is alive, and has
// the classic member find its way.
func g848upgrade(s *session) {
	id := s.known("gup", 2)
	t := s.topic("gup")
	g := s.group("gup")
	a := s.subscribed("a", g, t)
	a.join()
	a.answer()
	share := kmsg.NewConsumerMemberAssignment()
	at := kmsg.NewConsumerMemberAssignmentTopic()
	at.Topic, at.Partitions = t, []int32{0, 1}
	share.Topics = append(share.Topics, at)
	a.ask("sync", a.syncReq(a.id, string(share.AppendTo(nil))))
	s.ask("commit", commitReq(7, g, a.id, a.generation, t, offsetPart{0, 5}))
	m := s.consumer("m", g, t)
	m.beat("joins a group of classic members", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("range") })
	s.list("a consumer group now", 5, nil, nil)
	s.describe848("mixed", g)
	s.describe("as a classic group", g)
	a.ask("is told", a.beatReq())
	s.ask("commits while it is told", commitReq(7, g, a.id, a.generation, t, offsetPart{0, 6}))
	a.ask("sync of before", a.syncReq())
	a.ask("joins again", a.joinReq())
	a.ask("sync", a.syncReq())
	s.ask("commits in the new generation", commitReq(7, g, a.id, a.generation, t, offsetPart{0, 7}))
	s.ask("commits in the old one", commitReq(7, g, a.id, a.generation-1, t, offsetPart{0, 8}))
	m.beat("waits or gets its share", nil)
	a.ask("beat", a.beatReq())
	a.protocols = []kmsg.JoinGroupRequestProtocol{ownedSubscription("cooperative-sticky", a.generation, t, 0)}
	a.ask("joins again, owns one", a.joinReq())
	a.ask("sync", a.syncReq())
	m.beat("gets its share", nil)
	m.beat("owns it", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 1) })
	a.ask("beat", a.beatReq())
	s.describe848("reconciled", g)
	a.ask("a wrong generation", func() kmsg.Request { r := a.beatReq(); r.Generation = 99; return r }())
	a.ask("a sync of a wrong generation", func() kmsg.Request { r := a.syncReq(); r.Generation = 99; return r }())
	a.ask("a foreign protocol", func() kmsg.Request { r := a.syncReq(); r.Protocol = kmsg.StringPtr("nosuch"); return r }())
	a.ask("leaves", a.leaveReq())
	m.beat("after a left", nil)
	s.describe848("all consumers", g)
	s.ask("the offset is still there", fetchOffsetsReq(7, g))
}

// ownedSubscription is a cooperative member's, which says what it has.
func ownedSubscription(name string, generation int32, topic string, partitions ...int32) kmsg.JoinGroupRequestProtocol {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics, m.Generation = 2, []string{topic}, generation
	o := kmsg.NewConsumerMemberMetadataOwnedPartition()
	o.Topic, o.Partitions = topic, partitions
	m.OwnedPartitions = append(m.OwnedPartitions, o)
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = name, m.AppendTo(nil)
	return p
}

// g848downgrade brings a classic member into a consumer group; when the last
// consumer leaves, the group is a classic one again.
func g848downgrade(s *session) {
	id := s.known("gdown", 2)
	t := s.topic("gdown")
	g := s.group("gdown")
	m := s.consumer("m", g, t)
	m.beat("join", nil)
	m.beat("owns both", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1) })
	a := s.subscribed("a", g, t)
	a.join()
	a.answer()
	s.describe848("mixed", g)
	m.beat("is to give up", nil)
	m.beat("gave up", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0) })
	a.ask("sync", a.syncReq())
	a.ask("beat", a.beatReq())
	s.describe848("handed over", g)
	m.leave(-1)
	s.list("classic now", 5, nil, nil)
	s.describe("a classic group", g)
	s.describe848("no consumer group", g)
	s.awaitRebalance(a)
	a.ask("joins again", a.joinReq())
	a.ask("sync", a.syncReq(a.id, "all"))
	s.describe("stable", g)
	m.epoch = 0
	m.beat("the consumer comes back", nil)
}

// g848foreign brings members into groups that they do not fit.
func g848foreign(s *session) {
	s.known("gfor", 1)
	t := s.topic("gfor")
	g := s.group("gfor")
	m := s.consumer("m", g, t)
	m.beat("join", nil)
	for _, c := range []struct {
		label     string
		kind      string
		protocols []kmsg.JoinGroupRequestProtocol
	}{
		{"connect", "connect", []kmsg.JoinGroupRequestProtocol{protocol("compatible", "x")}},
		{"metadata that is none", "consumer", []kmsg.JoinGroupRequestProtocol{protocol("range", "no subscription")}},
		{"empty metadata", "consumer", []kmsg.JoinGroupRequestProtocol{protocol("range", "")}},
		{"no protocols", "consumer", []kmsg.JoinGroupRequestProtocol{}},
		{"no type", "", []kmsg.JoinGroupRequestProtocol{subscription("range", 1, t)}},
		{"own assignor", "consumer", []kmsg.JoinGroupRequestProtocol{subscription("mine", 1, t)}},
		{"version 9", "consumer", []kmsg.JoinGroupRequestProtocol{subscription("range", 9, t)}},
	} {
		p := s.peer("p", g)
		req := p.joinReq()
		req.ProtocolType, req.Protocols = c.kind, c.protocols
		p.ask(c.label, req)
		if p.id != "" {
			req.MemberID = p.id
			p.ask(c.label+", with the id", req)
			p.ask("leaves", leaveReq(5, g, leaving(p.id, nil)))
		}
	}
	p := s.subscribed("p", g, t)
	for v := int16(0); v <= 9; v++ {
		req := p.joinReq()
		req.Version, req.MemberID = v, "made-up"
		p.ask("made-up id", req)
	}
	p.ask("heartbeat of a consumer's id", func() kmsg.Request { r := p.beatReq(); r.MemberID, r.Generation = m.id, m.epoch; return r }())
	p.ask("sync of a consumer's id", func() kmsg.Request { r := p.syncReq(); r.MemberID, r.Generation = m.id, m.epoch; return r }())
	p.ask("a consumer's id joins", func() kmsg.Request { r := p.joinReq(); r.MemberID = m.id; return r }())
	p.ask("a consumer's id leaves", leaveReq(5, g, leaving(m.id, nil)))
	m.beat("after that", nil)
	connect := s.peer("c", s.group("gfor-connect"), "compatible")
	req := connect.joinReq()
	req.ProtocolType = "connect"
	connect.ask("join", req)
	req.MemberID = connect.id
	connect.ask("join", req)
	n := s.consumer("n", connect.group, t)
	n.beat("a consumer joins a group of connect", nil)
	odd := s.alone(s.group("gfor-odd"))
	o := s.consumer("o", odd.group, t)
	o.beat("a consumer joins a group with metadata that is none", nil)
	s.describe("as before", odd.group)
	simple := s.group("gfor-simple")
	s.do(commitReq(7, simple, "", -1, t, offsetPart{0, 3}))
	q := s.consumer("q", simple, t)
	q.beat("a consumer joins a group of offsets alone", nil)
	s.ask("the offset is still there", fetchOffsetsReq(7, simple))
}
