//go:build interop

package main

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func joinCases() []testCase {
	return []testCase{
		{"FindCoordinator-keys", coordinatorKeys},
		{"GRP-01-two-steps", grp01},
		{"GRP-01-pending-member", grp01pending},
		{"GRP-06-protocols", grp06},
		{"GRP-07-validation", grp07},
		{"GRP-19-group-size", grp19},
		{"JoinGroup-versions", joinVersions},
		{"Group-malformed", groupMalformed},
	}
}

func coordinatorKeys(s *session) {
	s.group("fc")
	for _, v := range []int16{0, 1, 3, 4, 6} {
		for _, keys := range [][]string{nil, {""}, {"x"}, {"x", "x"}, {"x", "", "y"}, {strings.Repeat("g", 300)}, {"ä €\x01"}} {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.Version, req.CoordinatorKeys = v, append([]string{}, keys...)
			if len(keys) > 0 {
				req.CoordinatorKey = keys[0]
			}
			if v < 4 && len(keys) > 1 {
				continue
			}
			s.ask("group", req)
			if v > 0 {
				req.CoordinatorType = 3
				s.ask("type 3", req)
				req.CoordinatorType = -1
				s.ask("type -1", req)
			}
		}
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKeys = 2, []string{"x", "g:AAAAAAAAAAAAAAAAAAAAAQ:0", "g:nonsense:0", "g:AAAAAAAAAAAAAAAAAAAAAQ:x"}
	req.Version = 5
	s.ask("share, before its version", req)
}

func grp01(s *session) {
	for v := int16(0); v <= 9; v++ {
		p := s.peer("a", s.group(fmt.Sprintf("steps%d", v)), "range")
		req := p.joinReq()
		req.Version = v
		p.ask("first", req)
		req = p.joinReq()
		req.Version = v
		p.ask("with the id", req)
		req.MemberID = "interop-11111111-2222-4333-8444-555555555555"
		p.ask("a made-up id", req)
		q := s.peer("q", s.group(fmt.Sprintf("none%d", v)), "range")
		req = q.joinReq()
		req.Version, req.MemberID = v, "made-up"
		q.ask("a made-up id, no such group", req)
	}
}

func grp01pending(s *session) {
	p := s.peer("a", s.group("pend"), "range")
	p.ask("first", p.joinReq())
	s.describe("pending", p.group)
	p.ask("heartbeat", p.beatReq())
	p.ask("sync", p.syncReq())
	p.ask("commit", commitReq(9, p.group, p.id, -1, "nosuch", offsetPart{0, 1}))
	req := p.joinReq()
	req.Protocols = []kmsg.JoinGroupRequestProtocol{protocol("other", "x")}
	p.ask("other protocols than at first", req)
	q := s.peer("b", p.group, "range")
	q.ask("first", q.joinReq())
	q.ask("leaves before it joined", q.leaveReq())
	q.ask("leaves again", q.leaveReq())
	q.ask("joins after it left", q.joinReq())
	s.describe("afterwards", p.group)
	v3 := s.peer("c", p.group, "range")
	v3.ask("first", v3.joinReq())
	low := v3.joinReq()
	low.Version = 3
	v3.ask("pending id at v3", low)
	t := s.peer("d", p.group, "range")
	t.ask("first", t.joinReq())
	t.instance = kmsg.StringPtr("late")
	t.ask("pending id, now with an instance", t.joinReq())
	t.instance = nil
	old := t.leaveReq()
	old.Version, old.MemberID = 0, t.id
	t.ask("leaves at v0", old)
}

func grp06(s *session) {
	a := s.peer("a", s.group("vote"), "range", "sticky")
	b, b2 := s.peer("b", a.group, "sticky", "range"), s.peer("b2", a.group, "sticky", "range")
	s.gather(a)
	b.join()
	b2.join()
	b2.waits("for a")
	s.awaitRebalance(a)
	a.ask("join again", a.joinReq())
	b.answer()
	b2.answer()
	a.ask("sync", a.syncReq(a.id, "1", b.id, "2", b2.id, "3"))
	b.ask("sync", b.syncReq())
	b2.ask("sync", b2.syncReq())
	s.describe("two votes against one", a.group)
	for _, c := range []struct {
		label     string
		kind      string
		protocols []kmsg.JoinGroupRequestProtocol
	}{
		{"only a foreign protocol", "consumer", []kmsg.JoinGroupRequestProtocol{protocol("roundrobin", "")}},
		{"foreign type", "connect", a.protocols}, {"empty type", "", a.protocols}, {"type in upper case", "CONSUMER", a.protocols},
		{"no protocols", "consumer", []kmsg.JoinGroupRequestProtocol{}},
		{"protocol without a name", "consumer", []kmsg.JoinGroupRequestProtocol{protocol("", "")}},
	} {
		for _, g := range []string{a.group, s.group("vote-" + strings.ReplaceAll(c.label, " ", "-"))} {
			p := s.peer("c", g)
			req := p.joinReq()
			req.ProtocolType, req.Protocols = c.kind, c.protocols
			p.ask(c.label, req)
			if p.id != "" {
				req.MemberID = p.id
				p.ask(c.label+", with the id", req)
			}
			if g != a.group {
				req.Group += "-static"
			}
			req.MemberID, req.InstanceID = "", kmsg.StringPtr("i")
			s.ask(c.label+", static", req)
		}
	}
	req := a.joinReq()
	req.Protocols = []kmsg.JoinGroupRequestProtocol{protocol("roundrobin", "")}
	a.ask("a member that drops the common protocol", req)
	req.Protocols, req.ProtocolType = a.protocols, "connect"
	a.ask("a member that changes the type", req)
	c := s.peer("c", a.group, "roundrobin", "range")
	s.note("the fourth shares one protocol, which the group does not use now")
	c.join()
	s.awaitRebalance(a, b, b2)
	b.send("join again", b.joinReq())
	b2.send("join again", b2.joinReq())
	a.send("join again", a.joinReq())
	a.answer()
	b.answer()
	b2.answer()
	c.answer()
}

func grp07(s *session) {
	for v := int16(0); v <= 9; v++ {
		for i, c := range []struct {
			label              string
			group              string
			session, rebalance int32
			instance           *string
		}{
			{"no group", "", 30000, 30000, nil}, {"session 5999", "g", 5999, 30000, nil}, {"session 1800001", "g", 1800001, 30000, nil},
			{"session 6000", "g", 6000, 30000, nil}, {"session 1800000", "g", 1800000, 30000, nil},
			{"session 0", "g", 0, 30000, nil}, {"session -1", "g", -1, 30000, nil}, {"rebalance 0", "g", 30000, 0, nil}, {"rebalance -1", "g", 30000, -1, nil},
			{"empty instance", "g", 30000, 30000, kmsg.StringPtr("")}, {"odd instance", "g", 30000, 30000, kmsg.StringPtr("a b/€")},
			{"instance ..", "g", 30000, 30000, kmsg.StringPtr("..")}, {"instance of 250", "g", 30000, 30000, kmsg.StringPtr(strings.Repeat("i", 250))},
			{"no group, and session 0", "", 0, 30000, nil}, {"blank group", " ", 30000, 30000, nil},
		} {
			if c.instance != nil && v < 5 {
				continue
			}
			p := s.peer("a", c.group, "range")
			switch c.group {
			case "g":
				p.group = s.group(fmt.Sprintf("v%d-%d", v, i))
			case " ":
				p.group = s.group(strings.Repeat(" ", 1+int(v)))
			}
			req := p.joinReq()
			req.Version, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.InstanceID = v, c.session, c.rebalance, c.instance
			p.ask(c.label, req)
		}
	}
}

// grp19 expects a group to hold four members at most.
func grp19(s *session) {
	g := s.group("size")
	var all []*peer
	for i := range 4 {
		all = append(all, s.peer(string(rune('a'+i)), g, "range"))
	}
	s.gather(all...)
	e := s.peer("e", g, "range")
	e.ask("a fifth", e.joinReq())
	if e.id != "" {
		e.ask("a fifth, with the id", e.joinReq())
	}
	e.id, e.instance = "", kmsg.StringPtr("five")
	e.ask("a fifth, static", e.joinReq())
	all[3].ask("the fourth joins again", all[3].joinReq())
	all[3].ask("the fourth leaves", all[3].leaveReq())
	e.id, e.instance = "", nil
	e.ask("now the fifth", e.joinReq())
}

func joinVersions(s *session) {
	for v := int16(0); v <= 9; v++ {
		g := s.group(fmt.Sprintf("jv%d", v))
		p := s.peer("a", g, "range", "sticky")
		req := p.joinReq()
		req.Version, req.Reason = v, kmsg.StringPtr("because")
		p.send("join", req)
		p.answer()
		if p.generation < 0 {
			req.MemberID = p.id
			p.ask("join", req)
		}
		sync := p.syncReq(p.id, "mine", "nobody", "theirs")
		sync.Version = min(v, 5)
		p.ask("sync", sync)
		beat := p.beatReq()
		beat.Version = min(v, 4)
		p.ask("beat", beat)
		req.MemberID = p.id
		p.ask("the leader joins again", req)
		leave := p.leaveReq()
		leave.Version, leave.MemberID = min(v, 5), p.id
		p.ask("leave", leave)
		s.describe("afterwards", g)
	}
}

// groupMalformed sends bodies that are too short or no message at all.
func groupMalformed(s *session) {
	s.group("mal")
	for _, c := range []struct {
		key, version int16
		flexible     bool
	}{
		{8, 2, false}, {8, 8, true}, {9, 1, false}, {9, 8, true}, {10, 0, false}, {10, 4, true}, {11, 0, false}, {11, 9, true}, {12, 0, false}, {12, 4, true},
		{13, 0, false}, {13, 5, true}, {14, 0, false}, {14, 5, true}, {15, 0, false}, {15, 6, true}, {16, 4, true}, {42, 0, false}, {42, 3, true}, {47, 0, false},
		{68, 0, true}, {68, 1, true}, {69, 0, true}, {69, 1, true},
		{8, 1, false}, {8, 11, true}, {9, 0, false}, {9, 11, true}, {10, 7, true}, {11, 10, true}, {12, 5, true}, {13, 6, true}, {14, 6, true}, {15, 7, true}, {16, 6, true},
		{42, 4, true}, {47, 1, true}, {68, 2, true}, {69, 2, true},
	} {
		for _, body := range [][]byte{{}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0, 3, 'a'}} {
			s.hangUp()
			if _, err := s.c().SendBody(c.key, c.version, c.flexible, body); err != nil {
				s.fail("send: %v", err)
			}
			f, err := s.c().Read()
			s.note("%s v%d body %x: %s", kmsg.NameForKey(c.key), c.version, body, frameText(f, err, f.Correlation))
		}
	}
	s.hangUp()
}
