//go:build interop

package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func staticCases() []testCase {
	return []testCase{
		{"GRP-02-static-restart", grp02},
		{"GRP-02-static-leader", grp02leader},
		{"GRP-02-static-changes", grp02changes},
		{"GRP-03-static-leave", grp03},
	}
}

// staticPeer is a member with an instance id.
func (s *session) staticPeer(name, group, instance string, protocols ...string) *peer {
	p := s.peer(name, group, protocols...)
	p.instance = kmsg.StringPtr(instance)
	return p
}

// again is the same instance after a restart: it does not know its id.
func (p *peer) again(name string) *peer {
	q := p.s.staticPeer(name, p.group, *p.instance)
	q.protocols = p.protocols
	return q
}

func grp02(s *session) {
	g := s.group("static")
	a, b := s.staticPeer("a", g, "ia", "range"), s.staticPeer("b", g, "ib", "range")
	s.gather(a, b)
	s.describe("stable", g)
	b2 := b.again("b restarted")
	b2.ask("join", b2.joinReq())
	b2.ask("sync", b2.syncReq())
	s.describe("as before", g)
	a.ask("no rebalance", a.beatReq())
	b.ask("old id", b.beatReq())
	b.ask("old id", b.syncReq())
	b.ask("old id", b.joinReq())
	b.ask("old id", b.leaveReq())
	old := commitReq(9, g, b.id, b.generation, "nosuch", offsetPart{0, 1})
	old.InstanceID = b.instance
	b.ask("old id", old)
	noInstance := b.beatReq()
	noInstance.InstanceID = nil
	b.ask("old id without instance", noInstance)
	noInstance.MemberID = b2.id
	b.ask("new id without instance", noInstance)
	mixed := b2.beatReq()
	mixed.InstanceID = a.instance
	b2.ask("an id with another's instance", mixed)
	for v := int16(0); v <= 4; v++ {
		low := b.joinReq()
		low.Version = v
		b.ask("old id, before instances", low)
	}
	join := b2.joinReq()
	join.MemberID = "who"
	b2.ask("known instance, unknown id", join)
	join.InstanceID = kmsg.StringPtr("nobody")
	b2.ask("unknown instance, unknown id", join)
	join.MemberID = b2.id
	b2.ask("unknown instance, known id", join)
	for v := int16(5); v <= 9; v++ {
		b3 := b.again(fmt.Sprintf("b restarted for v%d", v))
		req := b3.joinReq()
		req.Version = v
		b3.ask("join", req)
		sync := b3.syncReq()
		sync.Version = min(v, 5)
		b3.ask("sync", sync)
	}
}

// grp02leader restarts the leader: below v9 it is told nothing that makes it
// assign anew, from v9 on it is told to leave the assignment as it is.
func grp02leader(s *session) {
	g := s.group("sleader")
	a, b := s.staticPeer("a", g, "ia", "range"), s.staticPeer("b", g, "ib", "range")
	s.gather(a, b)
	for v := int16(5); v <= 9; v++ {
		a2 := a.again(fmt.Sprintf("a restarted for v%d", v))
		req := a2.joinReq()
		req.Version = v
		a2.ask("join", req)
		a2.ask("sync", a2.syncReq(a2.id, "anew", b.id, "anew"))
		a.id = a2.id
	}
	b.ask("no rebalance", b.beatReq())
	b.ask("the assignment is the old one", b.syncReq())
	s.describe("stable", g)
	a3 := a.again("a restarted, new metadata")
	a3.protocols = []kmsg.JoinGroupRequestProtocol{protocol("range", "new words")}
	a3.ask("join", a3.joinReq())
	s.describe("with the new metadata", g)
	a3.send("joins again with its id", a3.joinReq())
	a3.waits("for b: a leader's join is a wish to rebalance")
	s.awaitRebalance(b)
	b.ask("join again", b.joinReq())
	a3.answer()
}

func grp02changes(s *session) {
	g := s.group("schange")
	a, b := s.staticPeer("a", g, "ia", "range", "sticky"), s.staticPeer("b", g, "ib", "range", "sticky")
	s.gather(a, b)
	b2 := b.again("b restarted")
	b2.protocols = []kmsg.JoinGroupRequestProtocol{protocol("sticky", "only sticky now")}
	b2.send("join, another protocol", b2.joinReq())
	b2.waits("for a: the choice of the protocol changes")
	s.awaitRebalance(a)
	b3 := b.again("b restarted once more")
	b3.protocols = b2.protocols
	b3.send("join while a rebalance begins", b3.joinReq())
	b2.answer()
	a.ask("join again", a.joinReq())
	b3.answer()
	b4 := b.again("b restarted before the sync")
	b4.protocols = b2.protocols
	b4.send("join", b4.joinReq())
	s.awaitRebalance(a)
	a.ask("join again", a.joinReq())
	b4.answer()
	c := s.peer("c", g, "range")
	c.ask("no common protocol", c.joinReq())
	d := s.staticPeer("d", g, "id", "range")
	d.ask("no common protocol", d.joinReq())
	a.protocols[0], a.protocols[1] = a.protocols[1], a.protocols[0]
	a.protocols[0].Metadata = []byte("else")
	a.send("sync", a.syncReq(a.id, "1", b4.id, "2"))
	a.answer()
	b4.ask("sync", b4.syncReq())
	s.describe("stable", g)
}

func grp03(s *session) {
	g := s.group("sleave")
	a, b, c := s.staticPeer("a", g, "ia", "range"), s.staticPeer("b", g, "ib", "range"), s.staticPeer("c", g, "ic", "range")
	s.gather(a, b, c)
	for v := int16(0); v <= 2; v++ {
		low := leaveReq(v, g)
		low.MemberID = ""
		a.ask("nobody, before batches", low)
	}
	for v := int16(3); v <= 5; v++ {
		s.ask("unknown instance", leaveReq(v, g, leaving("", kmsg.StringPtr("nobody"))))
		s.ask("another's id", leaveReq(v, g, leaving(a.id, b.instance)))
		s.ask("unknown id with a known instance", leaveReq(v, g, leaving("who", b.instance)))
		s.ask("known id with an unknown instance", leaveReq(v, g, leaving(a.id, kmsg.StringPtr("nobody"))))
		s.ask("neither", leaveReq(v, g, leaving("", nil)))
		s.ask("empty instance", leaveReq(v, g, leaving("", kmsg.StringPtr(""))))
	}
	s.ask("removed by instance, the same twice", leaveReq(5, g, leaving("", c.instance), leaving("", c.instance)))
	s.awaitRebalance(a, b)
	c.ask("after it was removed", c.beatReq())
	c.ask("joins with the id of before", c.joinReq())
	a.send("join again", a.joinReq())
	b.send("join again", b.joinReq())
	a.answer()
	b.answer()
	s.ask("removed by id before the sync", leaveReq(5, g, leaving(b.id, nil)))
	s.awaitRebalance(a)
	b2 := b.again("b restarted")
	b2.send("join", b2.joinReq())
	b2.waits("for a")
	a.ask("join again", a.joinReq())
	b2.answer()
}
