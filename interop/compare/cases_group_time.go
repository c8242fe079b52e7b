//go:build interop

package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func groupTimeCases() []testCase {
	return []testCase{
		{"GRP-rebalance-time-out", rebalanceTimeout},
		{"GRP-sync-time-out", syncTimeout},
		{"GRP-session-time-out", sessionTimeout},
		{"G848-rebalance-time-out", g848timeout},
	}
}

// short has a join give the others one second to join again.
func short(r *kmsg.JoinGroupRequest) *kmsg.JoinGroupRequest {
	r.RebalanceTimeoutMillis = 1000
	return r
}

// rebalanceTimeout leaves out a member that does not join again in time.
func rebalanceTimeout(s *session) {
	g := s.group("rto")
	a, b := s.peer("a", g, "range"), s.peer("b", g, "range")
	a.ask("first", short(a.joinReq()))
	a.ask("join", short(a.joinReq()))
	a.ask("sync", a.syncReq())
	b.ask("first", short(b.joinReq()))
	start := time.Now()
	b.send("join", short(b.joinReq()))
	b.answer()
	s.note("b waited about a second for a: %t", within(start, 900, 4000))
	a.ask("was left out", a.beatReq())
	s.describe("b alone", g)
	b.ask("sync", b.syncReq())
}

// syncTimeout leaves out members that do not sync in time.
func syncTimeout(s *session) {
	g := s.group("sto")
	a := s.peer("a", g, "range")
	a.ask("first", short(a.joinReq()))
	a.ask("join", short(a.joinReq()))
	s.until("a is left out", func() bool {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups = 5, []string{g}
		return s.do(req).(*kmsg.DescribeGroupsResponse).Groups[0].State == "Empty"
	})
	a.ask("too late", a.syncReq())
	s.describe("nobody", g)
}

// sessionTimeout lets members go silent: one that is pending, one in a
// stable group, an instance.
func sessionTimeout(s *session) {
	pending := s.peer("pending", s.group("ses-pending"), "range")
	dynamic, static := s.peer("dynamic", s.group("ses-dynamic"), "range"), s.staticPeer("static", s.group("ses-static"), "i", "range")
	req := pending.joinReq()
	req.SessionTimeoutMillis = 6000
	pending.ask("first", req)
	for _, p := range []*peer{dynamic, static} {
		req := p.joinReq()
		req.SessionTimeoutMillis = 6000
		p.ask("join", req)
		if p.generation < 0 {
			req.MemberID = p.id
			p.ask("join", req)
		}
		p.ask("sync", p.syncReq())
	}
	for _, p := range []*peer{dynamic, static} {
		s.until("a silent member is gone", func() bool {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Version, req.Groups = 5, []string{p.group}
			return s.do(req).(*kmsg.DescribeGroupsResponse).Groups[0].State == "Empty"
		})
		p.ask("afterwards", p.beatReq())
		p.ask("joins with the id of before", p.joinReq())
	}
	pending.ask("the pending one comes too late", pending.joinReq())
}

// g848timeout fences a member that does not give up in time.
func g848timeout(s *session) {
	id := s.known("gto", 2)
	g := s.group("gto")
	a, b := s.consumer("a", g, s.topic("gto")), s.consumer("b", g, s.topic("gto"))
	a.beat("join", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = 1000 })
	a.beat("owns both", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = owned(id, 0, 1) })
	b.beat("join", nil)
	a.beat("is to give up one", nil)
	b.await("gets what a did not give up")
	a.beat("was left out", nil)
	s.describe848("b alone", g)
}
