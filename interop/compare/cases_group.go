//go:build interop

package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

// The cases of groups want both brokers without a delay before the first
// rebalance and between two assignments; compare_test.go sets them so.
func groupCases() []testCase {
	var all []testCase
	for _, part := range [][]testCase{
		joinCases(), rebalanceCases(), staticCases(), leaveCases(), commitCases(), offsetFetchCases(),
		groupAdminCases(), offsetDeleteCases(), consumerCases(), migrationCases(), groupTimeCases(),
	} {
		all = append(all, part...)
	}
	return all
}

// group is the id of base on this run, whose coordinator is there: until its
// topic is, either broker says so in its own time.
func (s *session) group(base string) string {
	name := base + s.suffix
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKey = 2, name
		describe := kmsg.NewPtrDescribeGroupsRequest()
		describe.Version, describe.Groups = 5, []string{name}
		code := s.do(find).(*kmsg.FindCoordinatorResponse).ErrorCode
		if code == 0 {
			code = s.do(describe).(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode
		}
		if code == 0 {
			return name
		}
		if time.Now().After(deadline) {
			s.fail("no coordinator for %s: %s", base, errName(code))
		}
	}
}

// peer is a member of a group, with a connection of its own: its requests may
// wait while others ask.
type peer struct {
	s       *session
	name    string
	conn    *raw.Conn
	pending kmsg.Request

	group      string
	id         string
	instance   *string
	generation int32
	protocol   string // that the group chose
	protocols  []kmsg.JoinGroupRequestProtocol
}

func (s *session) peer(name, group string, protocols ...string) *peer {
	c, err := raw.Dial(s.addr)
	if err != nil {
		s.fail("dial: %v", err)
	}
	s.peers = append(s.peers, c)
	p := &peer{s: s, name: name, conn: c, group: group, generation: -1}
	if len(protocols) > 0 {
		p.protocol = protocols[0]
	}
	for _, proto := range protocols {
		p.protocols = append(p.protocols, protocol(proto, name+" in "+proto))
	}
	return p
}

func protocol(name, metadata string) kmsg.JoinGroupRequestProtocol {
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = name, []byte(metadata)
	return p
}

// send asks without waiting for the answer.
func (p *peer) send(label string, req kmsg.Request) {
	p.s.out.WriteString("\n> " + p.name + ", " + label + ": " + kmsg.NameForKey(req.Key()) + " v" + string(rune('0'+req.GetVersion())) + " " + p.s.dump(req))
	if _, err := p.conn.Send(req); err != nil {
		p.s.fail("send: %v", err)
	}
	p.pending = req
}

// answer reads what send asked for, and remembers who the member became.
func (p *peer) answer() kmsg.Response {
	f, err := p.conn.Read()
	if err != nil {
		p.s.out.WriteString("< " + p.name + ": " + answerError(err) + "\n")
		p.s.fail("%s has no answer", p.name)
	}
	resp, err := raw.Decode(p.pending, f)
	if err != nil {
		p.s.fail("%s: %v", p.name, err)
	}
	p.s.learn(resp)
	p.s.out.WriteString("< " + p.name + ": " + p.s.dumpAnswer(resp))
	if j, ok := resp.(*kmsg.JoinGroupResponse); ok {
		if j.ErrorCode == 0 || j.ErrorCode == kerr.MemberIDRequired.Code {
			p.id = j.MemberID
		}
		if j.ErrorCode == 0 {
			p.generation = j.Generation
			if j.Protocol != nil {
				p.protocol = *j.Protocol
			}
		}
	}
	return resp
}

func (p *peer) ask(label string, req kmsg.Request) kmsg.Response {
	p.send(label, req)
	return p.answer()
}

// waits notes whether the answer is still to come after a while.
func (p *peer) waits(why string) {
	there, err := p.conn.Waiting(250 * time.Millisecond)
	if err != nil {
		p.s.fail("%s: %v", p.name, err)
	}
	p.s.note("%s waits, %s: %t", p.name, why, !there)
}

func (p *peer) joinReq() *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID = 9, p.group, p.id, p.instance
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 30000, 30000
	r.ProtocolType, r.Protocols = "consumer", p.protocols
	return r
}

func (p *peer) syncReq(assignments ...string) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 5, p.group, p.id, p.instance, p.generation
	r.ProtocolType, r.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr(p.protocol)
	r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{}
	for i := 0; i+1 < len(assignments); i += 2 {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = assignments[i], []byte(assignments[i+1])
		r.GroupAssignment = append(r.GroupAssignment, a)
	}
	return r
}

func (p *peer) beatReq() *kmsg.HeartbeatRequest {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 4, p.group, p.id, p.instance, p.generation
	return r
}

func (p *peer) leaveReq() *kmsg.LeaveGroupRequest {
	return leaveReq(5, p.group, leaving(p.id, p.instance))
}

// join takes both steps of joining; the answer to the second is waited for
// where nobody else has to join again.
func (p *peer) join() {
	p.send("join", p.joinReq())
	if p.instance == nil && p.id == "" {
		p.answer()
		p.send("join with the id", p.joinReq())
	}
}

// alone makes a stable group of one.
func (s *session) alone(group string) *peer {
	p := s.peer("a", group, "range")
	p.join()
	p.answer()
	p.ask("sync", p.syncReq(p.id, "all for a"))
	return p
}

// pair makes a stable group of two, of which a leads.
func (s *session) pair(group string, protocols ...string) (a, b *peer) {
	a, b = s.peer("a", group, protocols...), s.peer("b", group, protocols...)
	s.gather(a, b)
	return a, b
}

// gather joins members one after the other and leaves the group stable. They
// must not bring votes for protocols to a draw: that is left to chance in
// Apache Kafka, and to the leader here.
func (s *session) gather(members ...*peer) {
	a := members[0]
	a.join()
	a.answer()
	a.ask("sync", a.syncReq(a.id, "all"))
	for i, b := range members[1:] {
		b.join()
		s.awaitRebalance(members[:i+1]...)
		for _, m := range members[:i+1] {
			m.send("join again", m.joinReq())
		}
		var shares []string
		for _, m := range members[:i+2] {
			m.answer()
			shares = append(shares, m.id, "share of "+m.name)
		}
		for k, m := range members[:i+2] {
			if k == 0 {
				m.ask("sync as leader", m.syncReq(shares...))
			} else {
				m.ask("sync", m.syncReq())
			}
		}
	}
}

// awaitRebalance waits until heartbeats tell members to join again: another
// connection's request takes effect in its own time.
func (s *session) awaitRebalance(members ...*peer) {
	for _, m := range members {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			resp, err := m.conn.Do(m.beatReq())
			if err != nil {
				s.fail("%s: heartbeat: %v", m.name, err)
			}
			code := resp.(*kmsg.HeartbeatResponse).ErrorCode
			if code == kerr.RebalanceInProgress.Code {
				break
			}
			if code != 0 || time.Now().After(deadline) {
				s.fail("%s: no rebalance: %s", m.name, errName(code))
			}
		}
		s.note("%s is told to join again", m.name)
	}
}
