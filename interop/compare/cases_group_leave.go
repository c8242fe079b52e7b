//go:build interop

package main

import "github.com/twmb/franz-go/pkg/kmsg"

func leaveCases() []testCase {
	return []testCase{
		{"GRP-17-leave-batch", grp17},
		{"LeaveGroup-errors", leaveErrors},
	}
}

func leaving(member string, instance *string) kmsg.LeaveGroupRequestMember {
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = member, instance
	return m
}

// leaveReq has its members in the form of the version.
func leaveReq(version int16, group string, members ...kmsg.LeaveGroupRequestMember) *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = version, group
	r.Members = append([]kmsg.LeaveGroupRequestMember{}, members...)
	if len(members) > 0 {
		r.MemberID = members[0].MemberID
	}
	return r
}

func grp17(s *session) {
	for _, v := range []int16{3, 4, 5} {
		g := s.group("batch" + string(rune('0'+v)))
		a, b, c := s.peer("a", g, "range"), s.peer("b", g, "range"), s.staticPeer("c", g, "ic", "range")
		s.gather(a, b, c)
		s.ask("valid, unknown, fenced, nobody", leaveReq(v, g, leaving(b.id, nil), leaving("who", nil), leaving("who", c.instance), leaving("", nil)))
		s.awaitRebalance(a, c)
		s.describe("one is gone", g)
		s.ask("the rest, one twice", leaveReq(v, g, leaving(a.id, nil), leaving("", c.instance), leaving(a.id, nil)))
		s.describe("empty", g)
		s.ask("again", leaveReq(v, g, leaving(a.id, nil)))
	}
}

func leaveErrors(s *session) {
	g := s.group("leave")
	for v := int16(0); v <= 5; v++ {
		s.ask("no such group", leaveReq(v, g, leaving("who", nil)))
		s.ask("no group", leaveReq(v, "", leaving("who", nil)))
		s.ask("no group, nobody", leaveReq(v, ""))
		s.ask("nobody, no such group", leaveReq(v, g))
	}
	s.do(commitReq(7, g, "", -1, s.topic("nosuch"), offsetPart{0, 1}))
	a := s.alone(g)
	for v := int16(0); v <= 5; v++ {
		s.ask("nobody", leaveReq(v, g))
		s.ask("unknown", leaveReq(v, g, leaving("who", nil)))
	}
	for v := int16(0); v <= 2; v++ {
		b := s.peer("b", s.group("leave"+string(rune('0'+v))), "range")
		b.join()
		b.answer()
		b.ask("before the sync", leaveReq(v, b.group, leaving(b.id, nil)))
	}
	a.ask("from itself", a.leaveReq())
	s.describe("empty", g)
}
