//go:build interop

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

func consumerCases() []testCase {
	return []testCase{
		{"G848-01-validation", g01},
		{"G848-02-epochs", g02},
		{"G848-03-static", g03},
		{"G848-04-handover", g04},
		{"G848-05-assignment", g05},
		{"G848-06-topics", g06},
		{"G848-assignors", g848assignors},
		{"G848-regex", g848regex},
		{"G848-commits", g848commits},
		{"G848-group-size", g848size},
	}
}

// consumer is a member by the consumer protocol, with an id of its own.
type consumer struct {
	s        *session
	conn     *raw.Conn
	name     string
	group    string
	id       string
	instance *string
	epoch    int32
	version  int16
	topics   []string
}

func (s *session) consumer(name, group string, topics ...string) *consumer {
	c, err := raw.Dial(s.addr)
	if err != nil {
		s.fail("dial: %v", err)
	}
	s.peers = append(s.peers, c)
	return &consumer{s: s, conn: c, name: name, group: group, id: "member-" + name, version: 1, topics: topics}
}

// known makes a topic and waits until the group coordinator has heard of it:
// until a group of its own is given all of its partitions.
func (s *session) known(base string, partitions int32) [16]byte {
	id := s.create(base, partitions)
	probe := s.consumer("probe", s.group("probe-"+base), s.topic(base))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		resp, err := probe.conn.Do(probe.req())
		if err != nil {
			s.fail("probe: %v", err)
		}
		r := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
		probe.epoch = r.MemberEpoch
		if a := r.Assignment; a != nil && len(a.Topics) == 1 && len(a.Topics[0].Partitions) == int(partitions) {
			break
		}
		if r.ErrorCode != 0 || time.Now().After(deadline) {
			s.fail("the coordinator does not know %s: %s", base, errName(r.ErrorCode))
		}
	}
	last := probe.req()
	last.MemberEpoch = -1
	s.do(last)
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 2, []string{probe.group}
	s.do(del)
	return id
}

// req is a heartbeat that says all when it joins and nothing new afterwards.
func (m *consumer) req() *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.InstanceID, r.RebalanceTimeoutMillis = m.version, m.group, m.id, m.epoch, m.instance, -1
	if m.epoch == 0 {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames, r.Topics = 30000, append([]string{}, m.topics...), owned([16]byte{})
	}
	return r
}

// owned are partitions that a member says it has; without any, an empty list.
func owned(id [16]byte, partitions ...int32) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	if len(partitions) == 0 {
		return []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
	t.TopicID, t.Partitions = id, partitions
	return []kmsg.ConsumerGroupHeartbeatRequestTopic{t}
}

// beat sends a heartbeat as req has it, changed, and remembers what it is told.
func (m *consumer) beat(label string, change func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
	r := m.req()
	if change != nil {
		change(r)
	}
	resp := m.try(label, r)
	if resp != nil && resp.ErrorCode == 0 {
		m.epoch = resp.MemberEpoch
		if resp.MemberID != nil {
			m.id = *resp.MemberID
		}
	}
	return resp
}

// try sends a heartbeat that changes nothing here.
func (m *consumer) try(label string, r *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	fmt.Fprintf(&m.s.out, "\n> %s, %s: ConsumerGroupHeartbeat v%d %s", m.name, label, r.Version, m.s.dump(r))
	resp, err := m.conn.Do(r)
	if err != nil {
		m.s.fail("%s: %v", m.name, err)
	}
	m.s.learn(resp)
	m.s.out.WriteString("< " + m.s.dumpAnswer(resp))
	return resp.(*kmsg.ConsumerGroupHeartbeatResponse)
}

func (m *consumer) leave(epoch int32) {
	r := m.req()
	r.MemberEpoch, r.RebalanceTimeoutMillis, r.SubscribedTopicNames, r.Topics = epoch, -1, nil, nil
	m.try("leaves", r)
}

// describe848 asks for a consumer group's description.
func (s *session) describe848(label, group string) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Version, req.Groups = 1, []string{group}
	s.ask(label, req)
}

func g01(s *session) {
	id := s.known("g01", 1)
	t := s.topic("g01")
	empty := kmsg.StringPtr("")
	for _, v := range []int16{0, 1} {
		for i, c := range []struct {
			label  string
			change func(*kmsg.ConsumerGroupHeartbeatRequest)
		}{
			{"as it should be", func(*kmsg.ConsumerGroupHeartbeatRequest) {}},
			{"no group", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }},
			{"no member id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }},
			{"no rebalance time-out", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }},
			{"rebalance time-out 0", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = 0 }},
			{"rebalance time-out -2", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -2 }},
			{"null partitions", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }},
			{"partitions", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0) }},
			{"no subscription", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }},
			{"empty subscription", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{} }},
			{"a topic twice", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{t, t} }},
			{"topics that cannot be", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"", "bad name!"} }},
			{"empty instance", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = empty }},
			{"empty rack", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = empty }},
			{"empty assignor", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = empty }},
			{"unknown assignor", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("nosuch") }},
			{"assignor in capitals", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("Range") }},
			{"empty expression", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = empty }},
			{"expression that is none", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = kmsg.StringPtr("(") }},
			{"epoch -1", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 }},
			{"epoch -2", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 }},
			{"epoch -2 with an instance", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch, r.InstanceID = -2, kmsg.StringPtr("i") }},
			{"epoch -3", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 }},
			{"epoch 1", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 1 }},
			{"epoch 1, no member id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch, r.MemberID = 1, "" }},
			{"long ids", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				r.MemberID, r.InstanceID = strings.Repeat("m", 300), kmsg.StringPtr(strings.Repeat("i", 300))
			}},
			{"member id of spaces", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "  " }},
		} {
			m := s.consumer("m", s.group(fmt.Sprintf("g01-%d-%d", v, i)), t)
			m.version = v
			m.beat(c.label, c.change)
		}
	}
	m := s.consumer("m", s.group("g01-joined"), t)
	m.beat("join", nil)
	for _, change := range []func(*kmsg.ConsumerGroupHeartbeatRequest){
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = kmsg.StringPtr("(") },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("nosuch") },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = kmsg.StringPtr("nobody") },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch, r.MemberID = -1, "who" },
		func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.MemberEpoch, r.InstanceID = -2, kmsg.StringPtr("nobody")
		},
	} {
		r := m.req()
		change(r)
		m.try("once it has joined", r)
	}
	m.beat("still there", nil)
	m.leave(-1)
	m.leave(-1)
	s.describe848("empty", m.group)
}

func g02(s *session) {
	id := s.known("g02", 2)
	t := s.topic("g02")
	m := s.consumer("m", s.group("g02"), t)
	m.beat("join", nil)
	at := func(label string, epoch int32, parts []kmsg.ConsumerGroupHeartbeatRequestTopic) {
		r := m.req()
		r.MemberEpoch, r.Topics, r.SubscribedTopicNames = epoch, parts, nil
		m.try(label, r)
	}
	m.beat("owns both", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1) })
	s.known("g02b", 1)
	m.beat("subscribes to more", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{t, s.topic("g02b")} })
	at("the epoch before, null partitions", m.epoch-1, nil)
	at("the epoch before, part of what it has", m.epoch-1, owned(id, 0))
	at("the epoch before, nothing", m.epoch-1, owned(id))
	at("the epoch before, more than it has", m.epoch-1, owned(id, 0, 1, 2))
	at("the epoch before, another topic", m.epoch-1, owned([16]byte{5}, 0))
	at("an epoch of long ago", m.epoch-2, nil)
	at("an epoch to come", m.epoch+1, nil)
	at("the right one", m.epoch, nil)
	at("the right one, partitions that it was not given", m.epoch, owned(id, 7))
	at("the right one, unknown topic", m.epoch, owned([16]byte{5}, 0))
	r := m.req()
	r.MemberID = "who"
	m.try("unknown member", r)
	r = m.req()
	r.Group = s.group("g02-nosuch")
	m.try("unknown group", r)
	r.MemberEpoch = -1
	m.try("leaves an unknown group", r)
	epoch := m.epoch
	m.epoch = 0
	m.beat("joins again with its id", nil)
	s.note("the epoch went on: %t", m.epoch > epoch)
	m.topics = []string{t}
	m.epoch = 0
	m.beat("joins again, fewer topics", nil)
	s.describe848("afterwards", m.group)
	s.describe("as a classic group", m.group)
}

func g03(s *session) {
	id := s.known("g03", 2)
	t := s.topic("g03")
	g := s.group("g03")
	a := s.consumer("a", g, t)
	a.instance = kmsg.StringPtr("i")
	a.beat("join", nil)
	a.beat("owns both", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1) })
	b := s.consumer("b", g, t)
	b.instance = a.instance
	b.beat("joins with the instance of a", nil)
	s.ask("without the instance", commitReq(9, g, a.id, a.epoch, t, offsetPart{0, 1}))
	with := commitReq(9, g, a.id, a.epoch, t, offsetPart{0, 1})
	with.InstanceID = a.instance
	s.ask("with it", with)
	a.leave(-2)
	s.describe848("away for a while", g)
	b.beat("joins with the instance of a", nil)
	b.beat("owns both", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1) })
	a.beat("is gone", nil)
	a.leave(-1)
	a.leave(-2)
	with.Generation = b.epoch
	s.ask("by the old member", with)
	s.describe848("taken over", g)
	r := b.req()
	r.InstanceID = nil
	b.try("without its instance", r)
	b.leave(-2)
	c := s.consumer("c", g, t)
	c.beat("another joins", nil)
	c.beat("nothing for it yet", nil)
	b2 := s.consumer("b2", g, t)
	b2.instance = b.instance
	b2.beat("joins with an epoch", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = b.epoch })
	b2.beat("joins", nil)
	b2.leave(-1)
	c.beat("gets both", nil)
	b3 := s.consumer("b3", g, t)
	b3.instance = b.instance
	b3.beat("the instance begins anew", nil)
}

// g04 hands a partition from one member to another, step by step.
func g04(s *session) {
	id := s.known("g04", 4)
	t := s.topic("g04")
	g := s.group("g04")
	byRange := func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("range") }
	a, b := s.consumer("a", g, t), s.consumer("b", g, t)
	a.beat("join", byRange)
	a.beat("owns all", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1, 2, 3) })
	b.beat("join", byRange)
	s.describe848("b waits", g)
	a.beat("is to give up two", nil)
	b.beat("nothing yet", nil)
	a.beat("still owns all", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1, 2, 3) })
	b.beat("nothing yet", nil)
	a.beat("gave up one", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1, 2) })
	b.beat("nothing yet", nil)
	s.describe848("revoking", g)
	s.list("reconciling", 5, []string{"reconciling"}, nil)
	a.beat("gave up both", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1) })
	b.beat("gets them", nil)
	b.beat("owns them", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 2, 3) })
	s.describe848("stable", g)
	c := s.consumer("c", g, t)
	c.beat("join", byRange)
	a.beat("next epoch", nil)
	b.beat("next epoch", nil)
	b.beat("acknowledges", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 2) })
	c.beat("gets one", nil)
	b.leave(-1)
	a.beat("after b left", nil)
	c.beat("after b left", nil)
	s.describe848("in the end", g)
	s.describe("as a classic group", g)
}

func g05(s *session) {
	id := s.known("g05", 1)
	t := s.topic("g05")
	m := s.consumer("m", s.group("g05"), t)
	m.beat("join", nil)
	m.beat("nothing new", nil)
	m.beat("owns it", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0) })
	m.beat("nothing new", nil)
	m.beat("says everything", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Topics, r.SubscribedTopicNames, r.RebalanceTimeoutMillis = owned(id, 0), []string{t}, 30000
	})
	m.beat("says the topics alone", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{t} })
	m.beat("owns nothing", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id) })
	m.beat("a rack", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = kmsg.StringPtr("r") })
	m.beat("another rebalance time-out", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = 5000 })
	m.beat("no topics any more", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{} })
	m.beat("owns nothing", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id) })
	m.beat("topics again", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{t} })
	x := s.consumer("x", s.group("g05x"), s.topic("g05-nosuch"))
	x.beat("joins for a topic that is not there", nil)
	x.beat("nothing new", nil)
	s.describe848("no partitions", x.group)
	v0 := s.consumer("v0", s.group("g05v0"), t)
	v0.version, v0.id = 0, ""
	v0.beat("joins without an id", nil)
	v0.beat("with the id it was given", nil)
	s.describe848("named by the broker", v0.group)
}
