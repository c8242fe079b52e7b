package group

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// applyClassic makes a group what the record says.
func (m *Machine) applyClassic(b *classicRecord) {
	if b.Value != nil {
		g := m.of(b.Group)
		c, ok := g.members.(*classic)
		if !ok {
			c = newClassic(b.Group)
			c.sum = &m.unsaid
			g.members = c
		}
		c.follow(b.Value)
		return
	}
	if g := m.lookup(b.Group); g != nil {
		if c, ok := g.members.(*classic); ok {
			c.clear()
			g.members = nil
			m.drop(g)
		}
	}
}

// follow takes a record. Members that stay keep what no record has: who waits,
// sessions, and the protocols that were not chosen.
func (c *classic) follow(v *kmsg.GroupMetadataValue) {
	c.record = v
	c.kind, c.protocol, c.generation, c.sinceMs = v.ProtocolType, v.Protocol, v.Generation, v.CurrentStateTimestamp
	c.leader = ""
	if v.Leader != nil {
		c.leader = *v.Leader
	}
	if c.protocol == nil && len(v.Members) > 0 {
		c.protocol = kmsg.StringPtr("")
	}
	before := c.members
	c.clear()
	for i := range v.Members {
		m := before[v.Members[i].MemberID]
		if m == nil {
			m = &classicMember{}
		}
		m.follow(&v.Members[i], *c.protocol)
		c.add(m)
	}
	c.phase = phaseEmpty
	if len(c.members) > 0 {
		c.phase = phaseStable
	}
	c.topics = c.read()
}

// follow makes a member what its record says, of the protocol that was chosen.
func (m *classicMember) follow(r *kmsg.GroupMetadataValueMember, protocol string) {
	m.id, m.instance, m.clientID, m.host = r.MemberID, r.InstanceID, r.ClientID, r.ClientHost
	m.rebalanceMs, m.sessionMs, m.assignment, m.written = r.RebalanceTimeoutMillis, r.SessionTimeoutMillis, r.Assignment, true
	if m.rebalanceMs == -1 { // version 0 of the record has none
		m.rebalanceMs = m.sessionMs
	}
	same := func(p kmsg.JoinGroupRequestProtocol) bool {
		return p.Name == protocol && bytes.Equal(p.Metadata, r.Subscription)
	}
	if !slices.ContainsFunc(m.protocols, same) {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = protocol, r.Subscription
		m.protocols = []kmsg.JoinGroupRequestProtocol{p}
	}
}

// body is the record of the group as it is now.
func (c *classic) body() *classicRecord {
	v := kmsg.NewGroupMetadataValue()
	v.Version = 3
	v.ProtocolType, v.Protocol, v.Generation, v.CurrentStateTimestamp = c.kind, c.protocol, c.generation, c.sinceMs
	if c.leader != "" {
		v.Leader = kmsg.StringPtr(c.leader)
	}
	for _, m := range c.sorted() {
		r := kmsg.NewGroupMetadataValueMember()
		r.MemberID, r.InstanceID, r.ClientID, r.ClientHost = m.id, m.instance, m.clientID, m.host
		r.RebalanceTimeoutMillis, r.SessionTimeoutMillis = m.rebalanceMs, m.sessionMs
		r.Subscription, r.Assignment = notNil(m.metadata(*c.protocol)), notNil(m.assignment)
		v.Members = append(v.Members, r)
	}
	return &classicRecord{Group: c.id, Value: &v}
}

// notNil is for bytes that a record has in any case: made of the record, they
// are to be what they were.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// enter changes the phase.
func (c *classic) enter(p phase, now time.Time) {
	c.phase, c.sinceMs = p, now.UnixMilli()
}

// readMax bounds the subscriptions that are read: what is more never fits a record,
// and takes long.
const readMax = 1 << 20

// read is what topics the members read: empty without members, nil where that
// is not known, because the protocol type is another or somebody's subscription
// cannot be understood.
func (c *classic) read() map[string]bool {
	if c.kind != "consumer" {
		return nil
	}
	topics, size := map[string]bool{}, 0
	for _, m := range c.sorted() {
		metadata := m.metadata(*c.protocol)
		if size += len(metadata); size > readMax {
			return nil
		}
		names, ok := subscription(metadata)
		if !ok {
			return nil
		}
		for _, name := range names {
			topics[name] = true
		}
	}
	return topics
}

// subscription takes the topics out of a consumer's metadata. Every version of
// it begins as version 0 does, and no more of it is read: some clients get the
// rest wrong.
func subscription(metadata []byte) (topics []string, ok bool) {
	if len(metadata) < 2 || int8(metadata[0]) < 0 {
		return nil, false
	}
	v := kmsg.NewConsumerMemberMetadata()
	if v.ReadFrom(slices.Concat([]byte{0, 0}, metadata[2:])) != nil {
		return nil, false
	}
	return v.Topics, true
}

func (c *classic) subscribes(topic string) bool {
	return len(c.members) > 0 && (c.topics == nil || c.topics[topic])
}

// emptySinceMs: a group that nobody ever joined counts as one that only
// commits offsets, and those expire from their commit.
func (c *classic) emptySinceMs() int64 {
	if c.phase != phaseEmpty || c.kind == "" {
		return -1
	}
	return c.sinceMs
}

func (c *classic) remove(s *step) {
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		s.dropPending(c, id)
	}
	s.emit(&classicRecord{Group: c.id})
}

// For the change between the protocols (KIP-848).
//
// Upgrade: read the members, then dissolve.
//
// Downgrade: draftClassic picks leader and protocol; set each member's
// assignment; see that the draft's body fits; write the tombstones of the
// consumer group; restoreClassic; prepareRebalance if there is to be one.

// dissolve ends the membership: whoever waits is told to come again, timers go,
// and so does the record.
func (s *step) dissolve(c *classic) {
	for _, m := range c.sorted() {
		s.answerJoin(c, m, joinError(m.id, kerr.RebalanceInProgress))
		s.answerSync(m, syncError(kerr.RebalanceInProgress))
		s.cancelSession(c, m)
	}
	s.cancel(timerRebalance, c.id, "")
	s.cancel(timerSync, c.id, "")
	c.remove(s)
}

// draftClassic is a group of members that have protocols in common, Stable, and
// not yet in force.
func draftClassic(id string, generation int32, members []*classicMember, now time.Time) *classic {
	c := newClassic(id)
	c.kind, c.generation = "consumer", generation
	for _, m := range members {
		c.add(m)
	}
	c.leader = c.sorted()[0].id
	c.protocol = kmsg.StringPtr(c.vote())
	c.enter(phaseStable, now)
	return c
}

// restoreClassic puts a draft in force: it is written down, and the sessions
// start. The group is looked up anew: without offsets it went with the
// tombstones of what it was before.
func (s *step) restoreClassic(c *classic) *Group {
	g := s.of(c.id)
	g.members, c.sum = c, &s.unsaid
	s.unsaid += c.unsaid
	s.emit(c.body())
	for _, m := range c.sorted() {
		s.touch(c, m)
	}
	return g
}

// loadedClassic starts what a group needs that was loaded: sessions run in full
// again. A group above the size that is allowed now rebalances down to it.
func (s *step) loadedClassic(g *Group, c *classic) {
	for _, m := range c.sorted() {
		s.touch(c, m)
	}
	if len(c.members) > s.cfg.MaxSize {
		s.prepareRebalance(g, c)
	}
}
