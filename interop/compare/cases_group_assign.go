//go:build interop

package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// await sends heartbeats of member m until one of them brings a new epoch or
// an assignment: changes of topics reach a group in the broker's own time.
func (m *consumer) await(what string) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		resp, err := m.conn.Do(m.req())
		if err != nil {
			m.s.fail("%s: %v", m.name, err)
		}
		r := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
		if r.ErrorCode != 0 || r.Assignment != nil {
			m.epoch = r.MemberEpoch
			r.MemberEpoch = 0 // how many steps it took is the broker's affair
			fmt.Fprintf(&m.s.out, "\n> %s, %s\n< %s", m.name, what, m.s.dumpAnswer(r))
			return
		}
	}
	m.s.note("%s, %s: nothing new in 20 s", m.name, what)
}

// g06 creates, deletes and makes again what members are subscribed to.
func g06(s *session) {
	t := s.topic("g06")
	m := s.consumer("m", s.group("g06"), t)
	m.beat("join before the topic is there", nil)
	id := s.create("g06", 1)
	m.await("the topic was created")
	own := m.req()
	own.Topics = owned(id, 0)
	m.try("owns it", own)
	s.deleteTopic("g06")
	m.await("the topic was deleted")
	own = m.req()
	own.Topics = owned(id)
	m.try("gave it up", own)
	s.create("g06", 2)
	m.await("the topic was made again")
}

func g848assignors(s *session) {
	id := s.known("ga", 4)
	t := s.topic("ga")
	for _, name := range []string{"range", "uniform"} {
		g := s.group("ga-" + name)
		with := func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr(name) }
		a, b := s.consumer("a", g, t), s.consumer("b", g, t)
		a.beat("join", with)
		b.beat("join", with)
		a.beat("is to give up", nil)
		s.describe848(name, g)
	}
	g := s.group("ga-mixed")
	a, b := s.consumer("a", g, t), s.consumer("b", g, t)
	a.beat("join, range", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("range") })
	b.beat("join, uniform", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("uniform") })
	s.describe848("one each", g)
	a.beat("uniform now", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("uniform") })
	s.describe848("both uniform", g)
	a.beat("acknowledges", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1) })
	none := s.consumer("none", s.group("ga-none"), t)
	none.beat("join without a wish", nil)
	s.describe848("the first assignor", none.group)
}

func g848regex(s *session) {
	s.known("rx-one", 1)
	s.known("rx-two", 1)
	regex := func(x string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
		return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, kmsg.StringPtr(x)
		}
	}
	tail := "-(one|two)" + s.suffix
	for i, x := range []string{"(", "[a", "a**", "*", "(?!x)y", "\\", "(?<n>a)", "\\p{Nonsense}", "a{1001}", "(?i)RX" + tail, "^rx" + tail + "$", "x" + tail, "rx", "", "rx" + tail + "|", "\\Qrx\\E" + tail} {
		m := s.consumer("m", s.group(fmt.Sprintf("rx%d", i)))
		if r := m.beat("joins with an expression", regex(x)); r == nil || r.ErrorCode != 0 {
			continue
		}
		if r := m.req(); m.epoch > 0 {
			s.settle848(m)
			m.try("after a while", r)
		}
		s.describe848("by expression", m.group)
	}
	m := s.consumer("m", s.group("rx-both"))
	m.beat("names and an expression", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.SubscribedTopicNames, r.SubscribedTopicRegex = []string{s.topic("rx-one")}, kmsg.StringPtr("rx-two"+s.suffix)
	})
	s.settle848(m)
	s.describe848("both", m.group)
	m.beat("no expression any more", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = kmsg.StringPtr("") })
	s.settle848(m)
	s.describe848("names alone", m.group)
	s.ask("subscribed topic", deleteOffsetsReq(m.group, s.topic("rx-one"), 0))
}

// settle848 sends heartbeats until nothing changes for a while.
func (s *session) settle848(m *consumer) {
	quiet := 0
	for range 300 {
		resp, err := m.conn.Do(m.req())
		if err != nil {
			s.fail("%s: %v", m.name, err)
		}
		r := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
		if quiet++; r.MemberEpoch != m.epoch {
			quiet = 0
		}
		m.epoch = r.MemberEpoch
		if quiet == 15 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// g848commits commits and asks for offsets with epochs right and wrong.
func g848commits(s *session) {
	id := s.known("gc", 2)
	t := s.topic("gc")
	m := s.consumer("m", s.group("gc"), t)
	m.beat("join", nil)
	m.beat("owns", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1) })
	s.known("gc2", 1)
	m.beat("another epoch", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{t, s.topic("gc2")} })
	for _, c := range []struct {
		label  string
		member string
		epoch  int32
	}{
		{"right", m.id, m.epoch}, {"an epoch ago", m.id, m.epoch - 1}, {"epoch to come", m.id, m.epoch + 1}, {"long ago", m.id, 0}, {"no epoch", m.id, -1}, {"epoch -2", m.id, -2},
		{"unknown member", "who", m.epoch}, {"no member", "", m.epoch}, {"neither", "", -1},
	} {
		for v := int16(2); v <= 10; v++ {
			r := commitReq(v, m.group, c.member, c.epoch, t, offsetPart{0, int64(v)})
			r.Topics[0].TopicID = id
			s.ask(c.label, r)
		}
		for v := int16(7); v <= 10; v++ {
			f := fetchOffsetsReq(v, m.group, t)
			f.Groups[0].Topics[0].TopicID = id
			f.Groups[0].MemberID, f.Groups[0].MemberEpoch = kmsg.StringPtr(c.member), c.epoch
			s.ask(c.label, f)
			if c.member == "" {
				f.Groups[0].MemberID = nil
				s.ask(c.label+", null", f)
			}
		}
	}
	odd := commitReq(9, m.group, m.id, m.epoch, t, offsetPart{0, 9})
	odd.InstanceID = kmsg.StringPtr("nobody")
	s.ask("an instance that is not there", odd)
	all := fetchOffsetsReq(9, m.group)
	all.Groups[0].MemberID, all.Groups[0].MemberEpoch = &m.id, m.epoch
	s.ask("everything", all)
	m.leave(-1)
	s.ask("after it left", commitReq(9, m.group, m.id, m.epoch, t, offsetPart{0, 9}))
	s.ask("empty group, nobody", commitReq(9, m.group, "", -1, t, offsetPart{0, 10}))
	s.ask("empty group, an epoch", commitReq(9, m.group, "", 3, t, offsetPart{0, 11}))
	s.ask("everything", fetchOffsetsReq(9, m.group))
	p := s.peer("p", m.group, "range")
	p.ask("classic heartbeat", p.beatReq())
	p.ask("classic leave", leaveReq(5, m.group, leaving("who", nil)))
}

// g848size expects a consumer group to hold four members at most.
func g848size(s *session) {
	s.known("gs", 1)
	g := s.group("gs")
	var last *consumer
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		last = s.consumer(name, g, s.topic("gs"))
		last.beat("join", nil)
	}
	last.instance = kmsg.StringPtr("i")
	last.beat("join as an instance", nil)
}
