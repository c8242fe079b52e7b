//go:build interop

package main

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func rebalanceCases() []testCase {
	return []testCase{
		{"GRP-08-heartbeats", grp08},
		{"GRP-09-commits", grp09},
		{"SyncGroup-errors", syncErrors},
		{"SyncGroup-order", syncOrder},
		{"JoinGroup-again", joinAgain},
		{"GRP-05-leave-in-rebalance", grp05},
		{"GRP-states", groupStates},
	}
}

func grp08(s *session) {
	p := s.peer("a", s.group("beats"), "range")
	for v := int16(0); v <= 4; v++ {
		beat := p.beatReq()
		beat.Version, beat.MemberID, beat.Generation = v, "who", 1
		p.ask("no such group", beat)
		beat.Group = ""
		p.ask("no group", beat)
		beat.MemberID = ""
		p.ask("no group, no member", beat)
	}
	p.join()
	p.answer()
	p.ask("before the sync", p.beatReq())
	p.ask("sync", p.syncReq(p.id, "all"))
	for v := int16(0); v <= 4; v++ {
		for _, g := range []int32{1, 0, 2, -1, -2} {
			beat := p.beatReq()
			beat.Version, beat.Generation = v, g
			p.ask("stable", beat)
		}
		beat := p.beatReq()
		beat.Version, beat.MemberID = v, "who"
		p.ask("unknown member", beat)
		beat.MemberID = ""
		p.ask("empty member", beat)
		beat.MemberID, beat.InstanceID = p.id, kmsg.StringPtr("none")
		p.ask("an instance that is not there", beat)
	}
	q := s.peer("b", p.group, "range")
	q.join()
	s.awaitRebalance(p)
	wrong := p.beatReq()
	wrong.Generation = 9
	p.ask("wrong generation while a rebalance begins", wrong)
	p.ask("join again", p.joinReq())
	q.answer()
	p.ask("new generation, before the sync", p.beatReq())
	p.ask("leaves", p.leaveReq())
	p.ask("after it left", p.beatReq())
}

// grp09 commits at every state of a group.
func grp09(s *session) {
	s.create("c9", 1)
	t := s.topic("c9")
	a := s.peer("a", s.group("commits"), "range")
	commit := func(p *peer, label string, gen int32, member string) {
		s.ask(p.name+", "+label, commitReq(9, p.group, member, gen, t, offsetPart{0, 5}))
	}
	commit(a, "no such group, no member", -1, "")
	commit(a, "group of offsets alone, a generation", 1, "")
	commit(a, "group of offsets alone, generation and member", 1, "m")
	commit(a, "group of offsets alone, member alone", -1, "m")
	a.join()
	a.answer()
	commit(a, "before the sync", a.generation, a.id)
	a.ask("sync", a.syncReq(a.id, "all"))
	commit(a, "stable", a.generation, a.id)
	commit(a, "stable, without generation and member", -1, "")
	commit(a, "stable, without generation", -1, a.id)
	commit(a, "stable, without member", a.generation, "")
	commit(a, "stable, older generation", a.generation-1, a.id)
	commit(a, "stable, newer generation", a.generation+1, a.id)
	commit(a, "stable, generation -2", -2, a.id)
	commit(a, "stable, unknown member", a.generation, "who")
	odd := commitReq(9, a.group, a.id, a.generation, t, offsetPart{0, 5})
	odd.InstanceID = kmsg.StringPtr("none")
	a.ask("an instance that is not there", odd)
	for v := int16(2); v <= 10; v++ {
		req := commitReq(v, a.group, "who", a.generation, t, offsetPart{0, 5})
		req.Topics[0].TopicID = s.id("c9")
		a.ask("unknown member", req)
		req.MemberID, req.Generation = a.id, 7
		a.ask("wrong generation", req)
	}
	b := s.peer("b", a.group, "range")
	b.join()
	s.awaitRebalance(a)
	commit(a, "while a rebalance begins", a.generation, a.id)
	commit(b, "from one who joins", a.generation, b.id)
	a.ask("join again", a.joinReq())
	b.answer()
	commit(a, "new generation, before the sync", a.generation, a.id)
	commit(b, "new generation, before the sync", b.generation, b.id)
	a.ask("leaves", a.leaveReq())
	commit(a, "after it left", a.generation, a.id)
	b.ask("leaves", b.leaveReq())
	commit(b, "empty, without member", -1, "")
	commit(b, "empty, generation of before", b.generation, b.id)
	b.ask("what is there", fetchOffsetsReq(7, b.group))
}

func syncErrors(s *session) {
	a := s.peer("a", s.group("sync"), "range")
	for v := int16(0); v <= 5; v++ {
		req := a.syncReq()
		req.Version, req.MemberID, req.Generation = v, "who", 1
		a.ask("no such group", req)
		req.Group = ""
		a.ask("no group", req)
		req.ProtocolType, req.Protocol = nil, nil
		a.ask("no group, no protocol", req)
		req.Group = a.group
		a.ask("no protocol", req)
	}
	a.join()
	a.answer()
	change := func(label string, f func(*kmsg.SyncGroupRequest)) {
		req := a.syncReq()
		f(req)
		a.ask(label, req)
	}
	change("older generation", func(r *kmsg.SyncGroupRequest) { r.Generation-- })
	change("newer generation", func(r *kmsg.SyncGroupRequest) { r.Generation++ })
	change("unknown member", func(r *kmsg.SyncGroupRequest) { r.MemberID = "who" })
	change("no member", func(r *kmsg.SyncGroupRequest) { r.MemberID = "" })
	change("foreign type", func(r *kmsg.SyncGroupRequest) { r.ProtocolType = kmsg.StringPtr("connect") })
	change("foreign protocol", func(r *kmsg.SyncGroupRequest) { r.Protocol = kmsg.StringPtr("sticky") })
	change("null type", func(r *kmsg.SyncGroupRequest) { r.ProtocolType = nil })
	change("null protocol", func(r *kmsg.SyncGroupRequest) { r.Protocol = nil })
	change("empty type", func(r *kmsg.SyncGroupRequest) { r.ProtocolType = kmsg.StringPtr("") })
	change("an instance that is not there", func(r *kmsg.SyncGroupRequest) { r.InstanceID = kmsg.StringPtr("none") })
	change("foreign protocol and wrong generation", func(r *kmsg.SyncGroupRequest) { r.Generation, r.Protocol = 9, kmsg.StringPtr("sticky") })
	a.ask("the leader gives nobody anything", a.syncReq())
	s.describe("stable", a.group)
	for v := int16(0); v <= 5; v++ {
		req := a.syncReq(a.id, "changed its mind")
		req.Version = v
		a.ask("again when stable", req)
	}
	change("foreign protocol when stable", func(r *kmsg.SyncGroupRequest) { r.Protocol = kmsg.StringPtr("sticky") })
	b := s.peer("b", a.group, "range")
	b.join()
	s.awaitRebalance(a)
	a.ask("while a rebalance begins", a.syncReq())
	b.s.peer("x", a.group, "range").ask("unknown while a rebalance begins", (&peer{s: s, group: a.group, id: "who", generation: 1, protocol: "range"}).syncReq())
	a.ask("join again", a.joinReq())
	b.answer()
	a.ask("leader's, for some who are not there, and itself twice", a.syncReq("who", "x", a.id, "one", a.id, "two"))
	b.ask("the follower was forgotten", b.syncReq())
	s.describe("stable", a.group)
}

// syncOrder has a follower ask before the leader, and a rebalance come between.
func syncOrder(s *session) {
	a, b := s.peer("a", s.group("order"), "range"), s.peer("b", s.group("order"), "range")
	s.gather(a, b)
	c := s.peer("c", a.group, "range")
	c.join()
	s.awaitRebalance(a, b)
	a.send("join again", a.joinReq())
	b.send("join again", b.joinReq())
	a.answer()
	b.answer()
	c.answer()
	b.send("sync before the leader", b.syncReq())
	b.waits("for the leader")
	c.send("sync before the leader", c.syncReq())
	s.describe("completing", a.group)
	other := s.peer("b'", a.group, "range")
	other.id, other.generation = b.id, b.generation
	other.ask("the same member asks from another connection", other.beatReq())
	c2 := s.peer("d", a.group, "range")
	c2.join()
	b.answer()
	c.answer()
	c2.waits("for the three")
	s.describe("preparing", a.group)
	a.send("join again", a.joinReq())
	b.send("join again", b.joinReq())
	a.waits("for the third")
	c.ask("leaves", c.leaveReq())
	a.answer()
	b.answer()
	c2.answer()
	a.ask("sync", a.syncReq(a.id, "1", b.id, "2", c2.id, "3"))
	b.ask("sync", b.syncReq())
	c2.ask("sync", c2.syncReq())
}

// joinAgain is a member that joins a group that it is in.
func joinAgain(s *session) {
	a, b := s.pair(s.group("again"), "range")
	b.ask("a follower, nothing new", b.joinReq())
	b.ask("still stable", b.beatReq())
	low := b.joinReq()
	low.Version = 5
	b.ask("a follower, nothing new, v5", low)
	timeouts := b.joinReq()
	timeouts.SessionTimeoutMillis, timeouts.RebalanceTimeoutMillis = 20000, 20000
	b.ask("a follower, other time-outs", timeouts)
	b.protocols = []kmsg.JoinGroupRequestProtocol{protocol("range", "new words")}
	b.send("a follower, new metadata", b.joinReq())
	b.waits("for the leader")
	s.awaitRebalance(a)
	a.ask("join again", a.joinReq())
	b.answer()
	a.ask("join again before the sync, nothing new", a.joinReq())
	b.ask("join again before the sync, nothing new", b.joinReq())
	b.send("sync", b.syncReq())
	b.waits("for the leader")
	a.protocols = []kmsg.JoinGroupRequestProtocol{protocol("range", "leader's new words")}
	a.send("the leader, new metadata, before the sync", a.joinReq())
	b.answer()
	b.ask("join again", b.joinReq())
	a.answer()
	a.ask("sync", a.syncReq(a.id, "1", b.id, "2"))
	b.ask("sync", b.syncReq())
	a.send("the leader, nothing new", a.joinReq())
	a.waits("for the follower: a leader's join is a wish to rebalance")
	s.awaitRebalance(b)
	b.ask("join again", b.joinReq())
	a.answer()
}

func grp05(s *session) {
	a, b := s.pair(s.group("grp5"), "range")
	c := s.peer("c", a.group, "range")
	c.join()
	s.awaitRebalance(a, b)
	a.send("join again", a.joinReq())
	a.waits("for b")
	b.ask("leaves instead", b.leaveReq())
	a.answer()
	c.answer()
	a.ask("sync", a.syncReq(a.id, "1", c.id, "2"))
	c.ask("sync", c.syncReq())
	a.ask("the leader leaves", a.leaveReq())
	s.awaitRebalance(c)
	c.ask("join again, alone", c.joinReq())
	c.ask("leaves before the sync", c.leaveReq())
	s.describe("empty", a.group)
	d := s.peer("d", a.group, "sticky")
	d.join()
	d.answer()
	s.describe("new protocol and generation", a.group)
}

// groupStates describes and lists a group in each state, at each version.
func groupStates(s *session) {
	g := s.group("states")
	show := func(label string) {
		for v := int16(0); v <= 6; v++ {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Version, req.Groups = v, []string{g}
			req.IncludeAuthorizedOperations = v%2 == 1
			s.ask(label, req)
		}
		for v := int16(0); v <= 5; v++ {
			s.list(label, v, nil, nil)
		}
	}
	show("not there")
	a := s.peer("a", g, "range", "sticky")
	a.ask("first step", a.joinReq())
	show("with a pending member")
	a.ask("second step", a.joinReq())
	show("completing")
	a.ask("sync", a.syncReq(a.id, "assigned"))
	show("stable")
	b := s.peer("b", g, "range", "sticky")
	b.join()
	s.awaitRebalance(a)
	show("preparing")
	a.ask("join again", a.joinReq())
	b.answer()
	a.ask("leave", a.leaveReq())
	b.ask("leave", b.leaveReq())
	show("empty")
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 2, []string{g}
	s.ask("delete", del)
	show("deleted")
}
