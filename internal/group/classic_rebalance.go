package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// rebalanceOrComplete follows a change of the members: a rebalance begins, or
// the one under way may have all it waits for.
func (s *step) rebalanceOrComplete(g *Group, c *classic) {
	if c.phase != phasePreparing {
		s.prepareRebalance(g, c)
		return
	}
	s.maybeCompleteJoin(g, c)
}

// maybeCompleteJoin ends the join once nobody is missing. The first rebalance of an empty
// group waits for its time all the same.
func (s *step) maybeCompleteJoin(g *Group, c *classic) {
	if !c.initial && c.allJoined() {
		s.completeJoin(g, c)
	}
}

// prepareRebalance asks the members to join anew, and waits for them.
func (s *step) prepareRebalance(g *Group, c *classic) {
	if c.phase == phaseCompleting {
		s.failSync(c, kerr.RebalanceInProgress)
	}
	if c.unsynced > 0 {
		for _, m := range c.sorted() {
			c.synced(m)
		}
	}
	s.cancel(timerSync, c.id, "")
	c.initial = c.phase == phaseEmpty
	c.enter(phasePreparing, s.now)
	switch {
	case c.initial:
		c.grew = false
		c.delay = s.cfg.InitialRebalanceDelay
		c.left = max(c.rebalanceTimeout()-c.delay, 0)
		s.timer(timerRebalance, c.id, "", s.now.Add(c.delay))
	case c.allJoined():
		s.completeJoin(g, c)
	default:
		s.timer(timerRebalance, c.id, "", s.now.Add(c.rebalanceTimeout()))
	}
}

// rebalanceExpired ends the wait for members to join. The first rebalance waits
// once more if somebody came meanwhile, within the rebalance timeout.
func (s *step) rebalanceExpired(group string) {
	g, c := s.classicOf(group)
	if c == nil || c.phase != phasePreparing {
		return
	}
	if c.initial && c.grew && c.left > 0 {
		c.grew = false
		wait := min(s.cfg.InitialRebalanceDelay, c.left)
		c.left = max(c.left-c.delay, 0)
		c.delay = wait
		s.timer(timerRebalance, group, "", s.now.Add(wait))
		return
	}
	s.completeJoin(g, c)
}

// completeJoin begins a generation with those who joined. Dynamic members that
// did not are out; static ones stay, for as long as their session does.
func (s *step) completeJoin(g *Group, c *classic) {
	s.cancel(timerRebalance, c.id, "")
	c.initial = false
	for _, m := range c.sorted() {
		if m.join == 0 && m.instance == nil {
			s.forget(c, m)
		}
	}
	if !c.elect() && len(c.members) > 0 {
		// Static members alone, and none of them is here to lead: wait on, and do
		// not spin where they have no time-out.
		s.timer(timerRebalance, c.id, "", s.now.Add(max(c.rebalanceTimeout(), time.Second)))
		return
	}
	c.generation++
	g.rebalances++
	if len(c.members) == 0 {
		c.protocol, c.leader = nil, ""
		c.enter(phaseEmpty, s.now)
		s.emit(c.body())
		return
	}
	protocol := c.vote()
	c.protocol = &protocol
	c.topics = c.read()
	c.enter(phaseCompleting, s.now)
	for _, m := range c.sorted() {
		s.answerJoin(c, m, c.joined(m, m.id == c.leader))
		s.touch(c, m)
		m.fresh, m.unsynced = false, true
	}
	c.unsynced = len(c.members)
	s.timer(timerSync, c.id, "", s.now.Add(c.rebalanceTimeout()))
}

// forget takes a member out, with its timer. Nobody goes without an answer.
func (s *step) forget(c *classic, m *classicMember) {
	s.answerJoin(c, m, joinError("", kerr.UnknownMemberID))
	s.answerSync(m, syncError(kerr.UnknownMemberID))
	s.cancelSession(c, m)
	c.take(m)
}

// awaitJoin makes to wait for the join. Who waited before for the same member has
// been given up on, and is told to come again.
func (s *step) awaitJoin(c *classic, m *classicMember, to coord.Token) {
	s.answerJoin(c, m, joinError(m.id, kerr.RebalanceInProgress))
	c.waits(m, to)
}

// answerJoin answers who waits for the member's join, if anybody does.
func (s *step) answerJoin(c *classic, m *classicMember, body any) {
	s.reply(m.join, body)
	c.waits(m, 0)
}

// answerSync answers who waits for the member's assignment, if anybody does.
func (s *step) answerSync(m *classicMember, body any) {
	s.reply(m.sync, body)
	m.sync = 0
}

// classicOf finds a group of the classic protocol; nil if there is none.
func (s *step) classicOf(group string) (*Group, *classic) {
	g := s.lookup(group)
	if g == nil {
		return nil, nil
	}
	c, _ := g.members.(*classic)
	return g, c
}

// emitIfFits writes a record unless it is too large.
func (s *step) emitIfFits(b body) bool {
	if key, value := encode(b); len(key)+len(value) > s.cfg.MaxRecordBytes {
		return false
	}
	s.emit(b)
	return true
}
