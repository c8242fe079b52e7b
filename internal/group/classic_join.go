package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// JoinGroup means something else at these versions: 0 has no rebalance timeout;
// from 4 on a dynamic member first gets its id, and joins with it (KIP-394); from 5
// on a member may be static (KIP-345); from 9 on a static leader that comes back is told that
// it leads, and not to assign (KIP-814).
const (
	joinKnownID        = 4
	joinSkipAssignment = 9
)

// maxUnsaid bounds what members of a shard's classic groups say and no record has
// yet, and the ids that were handed out: until a group has agreed on a generation,
// a join costs who sends it nothing. Above, members are told to come again; there
// is room for thousands of groups that rebalance at once. (Apache Kafka has no bound.)
const maxUnsaid = 64 << 20

// joinGroup takes a member into a group.
func (s *step) joinGroup(to coord.Token, c *JoinGroup) {
	r := c.Req
	if err := s.checkJoin(c); err != nil {
		s.reply(to, joinError(r.MemberID, err))
		return
	}
	g := s.lookup(r.Group)
	if g != nil {
		if cons, ok := g.members.(*consumer); ok && cons.size() > 0 {
			s.joinConsumerGroup(to, c, g, cons)
			return
		}
	}
	g, cl := s.toJoin(g, r)
	switch {
	case cl == nil:
		s.reply(to, joinError(r.MemberID, kerr.UnknownMemberID))
	case !s.hasRoom(cl, r.MemberID):
		s.turnAway(cl, r.MemberID)
		s.reply(to, joinError("", kerr.GroupMaxSizeReached))
	case !cl.accepts(r):
		s.reply(to, joinError(r.MemberID, kerr.InconsistentGroupProtocol))
	case s.unsaid > maxUnsaid:
		s.reply(to, joinError(r.MemberID, kerr.CoordinatorNotAvailable))
	case r.MemberID == "":
		s.joinNew(to, c, g, cl)
	default:
		s.joinAgain(to, c, g, cl)
	}
}

// checkJoin refuses what no group takes.
func (s *step) checkJoin(c *JoinGroup) *kerr.Error {
	session := millis(c.Req.SessionTimeoutMillis)
	switch {
	case c.Req.Group == "":
		return kerr.InvalidGroupID
	case session < s.cfg.MinSession || session > s.cfg.MaxSession:
		return kerr.InvalidSessionTimeout
	case !c.fitsRecord(s.cfg.MaxRecordBytes):
		return kerr.InvalidRequest
	}
	return nil
}

// fitsRecord says whether the strings of a join fit those of the group's record,
// and what is said under each protocol the record. Compact strings can be longer;
// Apache Kafka does not read such a request.
func (c *JoinGroup) fitsRecord(most int) bool {
	r := c.Req
	longest := max(len(r.Group), len(r.MemberID), len(c.NewMemberID), len(r.ProtocolType))
	if r.InstanceID != nil {
		longest = max(longest, len(*r.InstanceID))
	}
	for i := range r.Protocols {
		longest = max(longest, len(r.Protocols[i].Name))
		if len(r.Protocols[i].Metadata) > most {
			return false
		}
	}
	return longest <= maxString
}

// toJoin finds the group to join, or makes it for a member without an id: it is written
// down as an empty one, before anybody is in it. A consumer group whose members
// are gone becomes a classic one. Nil: such a member there cannot be.
func (s *step) toJoin(g *Group, r *kmsg.JoinGroupRequest) (*Group, *classic) {
	var had protocol
	if g != nil {
		had = g.members
	}
	if c, ok := had.(*classic); ok {
		return g, c
	}
	if r.MemberID != "" {
		if g != nil && had == nil {
			return g, newClassic(r.Group) // offsets alone: refuses as an empty group does
		}
		return nil, nil
	}
	if had != nil {
		had.remove(s)
	}
	c := newClassic(r.Group)
	c.enter(phaseEmpty, s.now)
	s.emit(c.body())
	g = s.lookup(r.Group)
	return g, g.members.(*classic)
}

// hasRoom holds the group to group.max.size. While it prepares a rebalance it is those who
// joined already that count: the rest may not come.
func (s *step) hasRoom(c *classic, member string) bool {
	m := c.members[member]
	switch c.phase {
	case phaseEmpty:
		return true
	case phasePreparing:
		return m != nil && m.join != 0 || c.joining < s.cfg.MaxSize
	default:
		return m != nil || len(c.members) < s.cfg.MaxSize
	}
}

// turnAway drops a member for which there is no room.
func (s *step) turnAway(c *classic, member string) {
	if m := c.members[member]; m != nil {
		s.forget(c, m)
	}
	if c.pending[member] {
		s.dropPending(c, member)
	}
}

// joinNew takes a member without an id. A static one takes the place of the
// member that has its instance id.
func (s *step) joinNew(to coord.Token, c *JoinGroup, g *Group, cl *classic) {
	if c.Req.InstanceID != nil {
		if id, ok := cl.statics[*c.Req.InstanceID]; ok {
			s.joinStatic(to, c, g, cl, cl.members[id])
			return
		}
	} else if c.Req.Version >= joinKnownID {
		cl.pending[c.NewMemberID] = true
		cl.weighPending(c.NewMemberID, 1)
		s.timer(timerPending, cl.id, c.NewMemberID, s.now.Add(millis(c.Req.SessionTimeoutMillis)))
		s.reply(to, joinError(c.NewMemberID, kerr.MemberIDRequired))
		return
	}
	s.addMember(to, c, g, cl, c.NewMemberID)
}

// addMember takes a member in, and asks all to join anew.
func (s *step) addMember(to coord.Token, c *JoinGroup, g *Group, cl *classic, id string) {
	m := &classicMember{
		id: id, instance: c.Req.InstanceID, clientID: c.Client.ID, host: c.Client.Host, fresh: true, join: to,
		rebalanceMs: rebalanceMs(c.Req), sessionMs: c.Req.SessionTimeoutMillis, protocols: protocolsOf(c.Req),
	}
	if len(cl.members) == 0 {
		cl.kind = c.Req.ProtocolType
	}
	if cl.initial {
		cl.grew = true
	}
	cl.add(m)
	s.expireIn(cl, m, newMemberTimeout)
	s.rebalanceOrComplete(g, cl)
}

// joinAgain takes a member that comes with an id.
func (s *step) joinAgain(to coord.Token, c *JoinGroup, g *Group, cl *classic) {
	r := c.Req
	if cl.pending[r.MemberID] {
		if r.InstanceID != nil { // ids are handed out to dynamic members only
			s.reply(to, joinError("", kerr.UnknownServerError))
			return
		}
		s.dropPending(cl, r.MemberID)
		s.addMember(to, c, g, cl, r.MemberID)
		return
	}
	if err := cl.check(r.MemberID, r.InstanceID); err != nil {
		s.reply(to, joinError(r.MemberID, err))
		return
	}
	m := cl.members[r.MemberID]
	// A member that says what it said before just missed the answer; a leader that
	// comes again to a stable group wants it to rebalance.
	leads := cl.leader == m.id
	if m.says(r) && (cl.phase == phaseCompleting || cl.phase == phaseStable && !leads) {
		s.reply(to, cl.joined(m, leads))
		return
	}
	cl.update(m, r)
	s.awaitJoin(cl, m, to)
	s.rebalanceOrComplete(g, cl)
}

// check says whether the member is one; a static one that was replaced is fenced.
func (c *classic) check(member string, instance *string) *kerr.Error {
	if instance != nil {
		id, ok := c.statics[*instance]
		switch {
		case !ok:
			return kerr.UnknownMemberID
		case id != member:
			return kerr.FencedInstanceID
		}
	}
	if c.members[member] == nil {
		return kerr.UnknownMemberID
	}
	return nil
}

// joinStatic puts a static member that came back in its own place, under a new
// id. A stable group whose protocol stays as it is needs no rebalance for it.
func (s *step) joinStatic(to coord.Token, c *JoinGroup, g *Group, cl *classic, old *classicMember) {
	led := cl.leader
	m := s.replace(cl, old, c.NewMemberID)
	cl.update(m, c.Req)
	if cl.phase != phaseStable || cl.vote() != *cl.protocol {
		s.awaitJoin(cl, m, to)
		s.rebalanceOrComplete(g, cl)
		return
	}
	if !s.emitIfFits(cl.body()) {
		// The new id and subscription were the straw that broke it: as before.
		s.cancelSession(cl, m)
		cl.take(m)
		cl.add(old)
		cl.leader = led
		s.touch(cl, old)
		refused := cl.joined(m, false)
		refused.MemberID, refused.LeaderID, refused.ErrorCode = "", led, kerr.UnknownServerError.Code
		s.reply(to, refused)
		return
	}
	leads := cl.leader == m.id
	if c.Req.Version >= joinSkipAssignment {
		resp := cl.joined(m, leads)
		resp.SkipAssignment = leads
		s.reply(to, resp)
		return
	}
	// An older client would assign if it thought that it leads, and a stable
	// group does not take assignments: it is told of the leader that was.
	resp := cl.joined(m, false)
	resp.LeaderID = led
	s.reply(to, resp)
}

// replace gives a static member's place to a new id. Whoever still waits under
// the old one is fenced.
func (s *step) replace(c *classic, old *classicMember, id string) *classicMember {
	s.answerJoin(c, old, joinError(old.id, kerr.FencedInstanceID))
	s.answerSync(old, syncError(kerr.FencedInstanceID))
	s.cancelSession(c, old)
	m := &classicMember{
		id: id, instance: old.instance, clientID: old.clientID, host: old.host, unsynced: old.unsynced,
		rebalanceMs: old.rebalanceMs, sessionMs: old.sessionMs, protocols: old.protocols, assignment: old.assignment,
	}
	leads := c.leader == old.id
	c.take(old)
	c.add(m)
	if leads {
		c.leader = id
	}
	s.touch(c, m)
	return m
}

// joined is the answer to a member that is in the generation; the leader gets
// everybody's metadata to assign by.
func (c *classic) joined(m *classicMember, all bool) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.MemberID, resp.LeaderID, resp.Generation = m.id, c.leader, c.generation
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(c.kind), c.protocol
	if all {
		for _, m := range c.sorted() {
			r := kmsg.NewJoinGroupResponseMember()
			r.MemberID, r.InstanceID, r.ProtocolMetadata = m.id, m.instance, m.metadata(*c.protocol)
			resp.Members = append(resp.Members, r)
		}
	}
	return resp
}

func joinError(member string, err *kerr.Error) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.MemberID, resp.ErrorCode = member, err.Code
	return resp
}
