package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Members that go: by their own word, or because they said nothing for too long.

// depart takes a heartbeat of a member that goes: epoch -1 for good, -2 a static
// member that will be back within its session.
func (s *step) depart(req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) *refusal {
	g := s.lookup(req.Group)
	if g == nil {
		return refuse(kerr.GroupIDNotFound, "Group %s not found.", req.Group)
	}
	c := s.consumerIn(req.Group)
	if c == nil {
		return refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", req.Group)
	}
	m := c.members[req.MemberID]
	if req.InstanceID != nil {
		m = c.static(*req.InstanceID)
		if no := checkInstance(m, req.MemberID, *req.InstanceID); no != nil {
			return no
		}
	} else if m == nil {
		return unknownMember(c, req.MemberID)
	}
	resp.MemberID, resp.MemberEpoch = &m.id, req.MemberEpoch
	if req.InstanceID != nil && req.MemberEpoch == epochLeft {
		s.pause(c, m)
	} else {
		s.fence(c, []string{m.id})
	}
	return nil
}

// pause keeps what a static member has for the one that takes its place.
func (s *step) pause(c *consumer, m *consumerMember) {
	next := *m.cur
	next.Epoch, next.PendingRevocation, next.Assigned = epochLeft, nil, nil
	for _, t := range m.cur.Assigned {
		// Commits of whoever comes are good, whatever its epoch.
		t.Epochs = make([]int32, len(t.Partitions))
		next.Assigned = append(next.Assigned, t)
	}
	s.emit(&currentRecord{Group: c.group, Member: m.id, Value: &next})
	s.cancelRevocation(c, m)
}

// fence takes members out. If only members of the classic protocol stay, the
// group becomes a classic one.
func (s *step) fence(c *consumer, ids []string) {
	if len(ids) == 0 || s.downgradeWithout(c, ids) {
		return
	}
	var regexes []string
	for _, id := range ids {
		m := c.members[id]
		s.cancelTimers(c, m)
		s.erase(c, id)
		if r := m.meta.regex(); r != "" {
			regexes = append(regexes, r)
		}
	}
	slices.Sort(regexes)
	for _, r := range slices.Compact(regexes) {
		if c.regexes[r] == 0 {
			s.emit(&regexRecord{Group: c.group, Regex: r})
		}
	}
	s.bump(c, s.metadataHash(c))
	if len(c.members) == 0 {
		s.cancelScan(c)
		s.emit(&targetEpochRecord{Group: c.group, Value: &targetEpoch{Epoch: c.epoch}})
	}
}

// erase takes a member's records away.
func (s *step) erase(c *consumer, id string) {
	s.emit(&currentRecord{Group: c.group, Member: id})
	s.emit(&targetRecord{Group: c.group, Member: id})
	s.emit(&memberRecord{Group: c.group, Member: id})
}

// pulse is a member's soft state: what it has to do by when. Heartbeats set no
// timer: one that goes off too early is set again for the rest.
type pulse struct {
	deadline time.Time // of the session
	alarm    time.Time // when the session's timer goes off; zero: it is not set
	revoking int32     // the epoch that the member has to leave in time
	revokes  bool      // the timer for that is set
	joins    bool      // a classic member has to join by a timer
	syncs    bool      // a classic member has to sync by a timer
}

// renew begins a member's session anew.
func (s *step) renew(c *consumer, m *consumerMember, session time.Duration) {
	k := m.pulse
	k.deadline = s.now.Add(session)
	if k.alarm.IsZero() || k.deadline.Before(k.alarm) {
		k.alarm = k.deadline
		s.timer(timerSession, c.group, m.id, k.alarm)
	}
}

func (s *step) consumerSessionExpired(g *Group, c *consumer, member string) {
	m := c.members[member]
	if m == nil {
		return
	}
	k := m.pulse
	k.alarm = time.Time{}
	if s.now.Before(k.deadline) {
		k.alarm = k.deadline
		s.timer(timerSession, c.group, m.id, k.alarm)
		return
	}
	s.fence(c, []string{m.id})
}

func (s *step) expectRevocation(c *consumer, m *consumerMember) {
	m.pulse.revokes, m.pulse.revoking = true, m.cur.Epoch
	s.timer(timerRevocation, c.group, m.id, s.now.Add(millis(m.meta.RebalanceTimeoutMs)))
}

func (s *step) cancelRevocation(c *consumer, m *consumerMember) {
	if m.pulse.revokes {
		m.pulse.revokes = false
		s.cancel(timerRevocation, c.group, m.id)
	}
}

// revocationExpired takes out a member that did not give up partitions in time.
func (s *step) revocationExpired(group, member string) {
	c := s.consumerIn(group)
	if c == nil || c.members[member] == nil {
		return
	}
	m := c.members[member]
	m.pulse.revokes = false
	if m.cur.Epoch == m.pulse.revoking {
		s.fence(c, []string{m.id})
	}
}

func (s *step) cancelTimers(c *consumer, m *consumerMember) {
	if !m.pulse.alarm.IsZero() {
		s.cancel(timerSession, c.group, m.id)
	}
	s.cancelRevocation(c, m)
	s.cancelJoin(c, m)
	s.cancelSync(c, m)
	*m.pulse = pulse{}
}

// loadedConsumer starts what a group loaded from the log needs: sessions in
// full, and time to give up partitions. Regular expressions and the
// assignment are looked at by the next heartbeat.
func (s *step) loadedConsumer(g *Group, c *consumer) {
	if s.topics.created == 0 {
		s.topics.created = s.image.Revision()
	}
	session := s.settings(c.group).Session
	for _, id := range c.ids() {
		m := c.members[id]
		s.renew(c, m, session)
		if m.cur.State == memberUnrevokedPartitions {
			s.expectRevocation(c, m)
		}
	}
}
