package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// SyncGroup must name protocol type and protocol from this version on (KIP-559).
const syncNamesProtocol = 5

// syncGroup gives a member its assignment, once the leader has sent them all.
func (s *step) syncGroup(to coord.Token, c *SyncGroup) {
	r := c.Req
	switch {
	case r.Version >= syncNamesProtocol && (r.ProtocolType == nil || r.Protocol == nil):
		s.reply(to, syncError(kerr.InconsistentGroupProtocol))
		return
	case r.Group == "":
		s.reply(to, syncError(kerr.InvalidGroupID))
		return
	}
	g := s.lookup(r.Group)
	if g != nil {
		if cons, ok := g.members.(*consumer); ok && cons.size() > 0 {
			s.syncConsumerGroup(to, c, g, cons)
			return
		}
	}
	_, cl := s.classicOf(r.Group)
	if cl == nil || cl.phase == phaseEmpty {
		s.reply(to, syncError(kerr.UnknownMemberID))
		return
	}
	if err := cl.checkSync(r); err != nil {
		s.reply(to, syncError(err))
		return
	}
	m := cl.members[r.MemberID]
	if m.unsynced {
		cl.synced(m)
		if cl.unsynced == 0 {
			s.cancel(timerSync, cl.id, "")
		}
	}
	if cl.phase == phaseStable {
		s.reply(to, cl.assigned(m))
		return
	}
	s.answerSync(m, syncError(kerr.RebalanceInProgress)) // given up on
	m.sync = to
	if cl.leader == m.id {
		s.assign(g, cl, r)
	}
}

func (c *classic) checkSync(r *kmsg.SyncGroupRequest) *kerr.Error {
	if err := c.check(r.MemberID, r.InstanceID); err != nil {
		return err
	}
	switch {
	case r.Generation != c.generation:
		return kerr.IllegalGeneration
	case r.ProtocolType != nil && *r.ProtocolType != c.kind:
		return kerr.InconsistentGroupProtocol
	case r.Protocol != nil && c.protocol != nil && *r.Protocol != *c.protocol:
		return kerr.InconsistentGroupProtocol
	case c.phase == phasePreparing:
		return kerr.RebalanceInProgress
	}
	return nil
}

// assign takes the leader's assignment: the group is written down, and Stable.
// A member that it leaves out has an empty one.
func (s *step) assign(g *Group, c *classic, r *kmsg.SyncGroupRequest) {
	for _, m := range c.sorted() {
		m.assignment = nil
	}
	for i := range r.GroupAssignment {
		if m := c.members[r.GroupAssignment[i].MemberID]; m != nil {
			m.assignment = slices.Clone(r.GroupAssignment[i].MemberAssignment)
		}
	}
	if !s.emitIfFits(c.body()) {
		s.failSync(c, kerr.UnknownServerError)
		s.prepareRebalance(g, c)
		return
	}
	for _, m := range c.sorted() {
		s.sendSync(c, m, c.assigned(m))
	}
}

// failSync refuses everybody who waits for an assignment.
func (s *step) failSync(c *classic, err *kerr.Error) {
	for _, m := range c.sorted() {
		m.assignment = nil
		s.sendSync(c, m, syncError(err))
	}
}

// sendSync answers a member that waits for its assignment, and is heard of by that.
func (s *step) sendSync(c *classic, m *classicMember, resp *kmsg.SyncGroupResponse) {
	if m.sync != 0 {
		s.answerSync(m, resp)
		s.touch(c, m)
	}
}

// syncExpired drops the members that did not sync in time.
func (s *step) syncExpired(group string) {
	g, c := s.classicOf(group)
	if c == nil || c.unsynced == 0 {
		return
	}
	for _, m := range c.sorted() {
		if m.unsynced {
			s.forget(c, m)
		}
	}
	s.prepareRebalance(g, c)
}

func (c *classic) assigned(m *classicMember) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(c.kind), c.protocol
	resp.MemberAssignment = m.assignment
	return resp
}

func syncError(err *kerr.Error) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = err.Code
	return resp
}
