package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// newMemberTimeout is how long a new member may wait for its first join: it
// cannot heartbeat meanwhile, and a client that gave up comes back with another
// id and leaves the old one behind.
const newMemberTimeout = 5 * time.Minute

// heartbeat keeps a member's session, and tells it of a rebalance.
func (s *step) heartbeat(to coord.Token, c *Heartbeat) {
	r := c.Req
	if r.Group == "" {
		s.reply(to, heartbeatAnswer(kerr.InvalidGroupID))
		return
	}
	g, cl := s.classicOf(r.Group)
	if cl == nil {
		if g != nil {
			if cons, ok := g.members.(*consumer); ok {
				s.heartbeatConsumerGroup(to, c, g, cons)
				return
			}
		}
		s.reply(to, heartbeatAnswer(kerr.UnknownMemberID))
		return
	}
	err := cl.check(r.MemberID, r.InstanceID)
	if err == nil && r.Generation != cl.generation {
		err = kerr.IllegalGeneration
	}
	if err == nil {
		s.touch(cl, cl.members[r.MemberID])
		if cl.phase == phasePreparing {
			err = kerr.RebalanceInProgress
		}
	}
	s.reply(to, heartbeatAnswer(err))
}

func heartbeatAnswer(err *kerr.Error) *kmsg.HeartbeatResponse {
	resp := kmsg.NewPtrHeartbeatResponse()
	if err != nil {
		resp.ErrorCode = err.Code
	}
	return resp
}

// touch lets a member's session begin anew.
func (s *step) touch(c *classic, m *classicMember) { s.expireIn(c, m, millis(m.sessionMs)) }

// expireIn moves the deadline of a member's session. The timer is set for an
// earlier one alone: where it fires too early, it is set again.
func (s *step) expireIn(c *classic, m *classicMember, d time.Duration) {
	m.deadline = s.now.Add(d)
	if m.alarm.IsZero() || m.deadline.Before(m.alarm) {
		m.alarm = m.deadline
		s.timer(timerSession, c.id, m.id, m.alarm)
	}
}

func (s *step) cancelSession(c *classic, m *classicMember) {
	if !m.alarm.IsZero() {
		m.alarm = time.Time{}
		s.cancel(timerSession, c.id, m.id)
	}
}

// sessionExpired is the session timer of a member under either protocol.
func (s *step) sessionExpired(group, member string) {
	g := s.lookup(group)
	if g == nil {
		return
	}
	switch c := g.members.(type) {
	case *classic:
		s.classicSessionExpired(g, c, member)
	case *consumer:
		s.consumerSessionExpired(g, c, member)
	}
}

// classicSessionExpired drops a member that was not heard of. One that waits
// for us is alive, but for a new one: who waits there may be long gone.
func (s *step) classicSessionExpired(g *Group, c *classic, member string) {
	m := c.members[member]
	if m == nil {
		return
	}
	m.alarm = time.Time{}
	if s.now.Before(m.deadline) {
		m.alarm = m.deadline
		s.timer(timerSession, c.id, m.id, m.alarm)
		return
	}
	if !m.fresh && (m.join != 0 || m.sync != 0) {
		return
	}
	s.forget(c, m)
	if c.phase != phasePreparing {
		s.prepareRebalance(g, c)
	} else if c.allJoined() {
		s.completeJoin(g, c)
	}
}

// pendingExpired withdraws a member id that nobody joined with.
func (s *step) pendingExpired(group, member string) {
	g, c := s.classicOf(group)
	if c == nil || !c.pending[member] {
		return
	}
	delete(c.pending, member)
	c.weighPending(member, -1)
	if c.phase == phasePreparing && c.allJoined() {
		s.completeJoin(g, c)
	}
}

// dropPending withdraws a member id before its time.
func (s *step) dropPending(c *classic, member string) {
	delete(c.pending, member)
	c.weighPending(member, -1)
	s.cancel(timerPending, c.id, member)
}
