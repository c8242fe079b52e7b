package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// LeaveGroup names several members from this version on (KIP-345), each with an
// error of its own; before, the one member's error is the answer's.
const leaveBatch = 3

// leaveGroup takes members out of a group: one rebalance for all of them.
func (s *step) leaveGroup(to coord.Token, c *LeaveGroup) {
	r := c.Req
	if r.Group == "" {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = kerr.InvalidGroupID.Code
		s.reply(to, resp)
		return
	}
	g, cl := s.classicOf(r.Group)
	if cl == nil {
		if g != nil {
			if cons, ok := g.members.(*consumer); ok {
				s.leaveConsumerGroup(to, c, g, cons)
				return
			}
		}
		s.reply(to, leaveAnswer(r, func(kmsg.LeaveGroupRequestMember) *kerr.Error { return kerr.UnknownMemberID }))
		return
	}
	left := false
	resp := leaveAnswer(r, func(m kmsg.LeaveGroupRequestMember) *kerr.Error {
		err := s.leave(cl, m)
		left = left || err == nil
		return err
	})
	if left && cl.phase != phaseEmpty {
		s.rebalanceOrComplete(g, cl)
	}
	s.reply(to, resp)
}

// leave takes one member out. An administrator names a static one by its
// instance alone.
func (s *step) leave(c *classic, r kmsg.LeaveGroupRequestMember) *kerr.Error {
	id := r.MemberID
	switch {
	case id == "" && r.InstanceID == nil:
		return kerr.UnknownMemberID
	case id == "":
		id = c.statics[*r.InstanceID]
	case c.pending[id]:
		s.dropPending(c, id)
		return nil
	}
	if err := c.check(id, r.InstanceID); err != nil {
		return err
	}
	s.forget(c, c.members[id])
	return nil
}

// leaveAnswer asks for each member that a request names, and answers it in the
// shape of its version.
func leaveAnswer(r *kmsg.LeaveGroupRequest, leave func(kmsg.LeaveGroupRequestMember) *kerr.Error) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	if r.Version < leaveBatch {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = r.MemberID
		if err := leave(m); err != nil {
			resp.ErrorCode = err.Code
		}
		return resp
	}
	for i := range r.Members {
		m := kmsg.NewLeaveGroupResponseMember()
		m.MemberID, m.InstanceID = r.Members[i].MemberID, r.Members[i].InstanceID
		if err := leave(r.Members[i]); err != nil {
			m.ErrorCode = err.Code
		}
		resp.Members = append(resp.Members, m)
	}
	return resp
}
