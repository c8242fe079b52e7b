package group

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// sorted are the members by id.
func (c *classic) sorted() []*classicMember {
	out := make([]*classicMember, 0, len(c.members))
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		out = append(out, c.members[id])
	}
	return out
}

// add takes a member in.
func (c *classic) add(m *classicMember) {
	c.members[m.id] = m
	if m.instance != nil {
		c.statics[*m.instance] = m.id
	}
	c.offer(m, 1)
	if m.join != 0 {
		c.joining++
	}
	if m.unsynced {
		c.unsynced++
	}
}

// take takes a member out. The next generation elects another leader where it
// was that.
func (c *classic) take(m *classicMember) {
	delete(c.members, m.id)
	if m.instance != nil {
		delete(c.statics, *m.instance)
	}
	c.offer(m, -1)
	c.waits(m, 0)
	c.synced(m)
	if c.leader == m.id {
		c.leader = ""
	}
}

// offer counts a member's protocols, or no longer.
func (c *classic) offer(m *classicMember, n int) {
	for i := range m.protocols {
		c.offered[m.protocols[i].Name] += n
		if c.offered[m.protocols[i].Name] == 0 {
			delete(c.offered, m.protocols[i].Name)
		}
	}
	if !m.written {
		c.weigh(n * weight(m.id, m.protocols))
	}
}

// weigh counts bytes that members say and no record has.
func (c *classic) weigh(bytes int) {
	c.unsaid += bytes
	if c.sum != nil {
		*c.sum += bytes
	}
}

// weighPending counts an id that was handed out, or no longer. They outlive the members.
func (c *classic) weighPending(id string, n int) {
	if c.sum != nil {
		*c.sum += n * weight(id, nil)
	}
}

// weight is about what a member takes.
func weight(id string, protocols []kmsg.JoinGroupRequestProtocol) int {
	const overhead, each = 500, 64
	size := overhead + len(id)
	for i := range protocols {
		size += each + len(protocols[i].Name) + len(protocols[i].Metadata)
	}
	return size
}

// update takes over what a member says when it joins again.
func (c *classic) update(m *classicMember, r *kmsg.JoinGroupRequest) {
	c.offer(m, -1)
	m.protocols, m.written = protocolsOf(r), false
	c.offer(m, 1)
	m.rebalanceMs, m.sessionMs = rebalanceMs(r), r.SessionTimeoutMillis
}

// waits makes somebody wait for a member's join; 0 nobody.
func (c *classic) waits(m *classicMember, to coord.Token) {
	if m.join != 0 {
		c.joining--
	}
	if to != 0 {
		c.joining++
	}
	m.join = to
}

// synced says that a member has its assignment, or no longer needs one.
func (c *classic) synced(m *classicMember) {
	if m.unsynced {
		m.unsynced = false
		c.unsynced--
	}
}

func (c *classic) allJoined() bool {
	return c.joining == len(c.members) && len(c.pending) == 0
}

// accepts says whether a member can be among the others: it has their protocol
// type, and a protocol that all of them have.
func (c *classic) accepts(r *kmsg.JoinGroupRequest) bool {
	if c.phase == phaseEmpty {
		return r.ProtocolType != "" && len(r.Protocols) > 0
	}
	return r.ProtocolType == c.kind && slices.ContainsFunc(r.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return c.offered[p.Name] == len(c.members)
	})
}

// elect finds a leader among those who joined: the one there is, else the first.
func (c *classic) elect() bool {
	if m := c.members[c.leader]; m != nil && m.join != 0 {
		return true
	}
	for _, m := range c.sorted() {
		if m.join != 0 {
			c.leader = m.id
			return true
		}
	}
	return false
}

// vote picks the protocol: each member has one vote, for the first on its list
// that all have. Where votes are even, the leader's list decides.
func (c *classic) vote() string {
	votes := map[string]int{}
	members := c.sorted()
	for _, m := range members {
		if i := slices.IndexFunc(m.protocols, c.common); i >= 0 {
			votes[m.protocols[i].Name]++
		}
	}
	first := members[0]
	if m := c.members[c.leader]; m != nil {
		first = m
	}
	best := ""
	for _, p := range first.protocols {
		if votes[p.Name] > votes[best] {
			best = p.Name
		}
	}
	return best
}

func (c *classic) common(p kmsg.JoinGroupRequestProtocol) bool {
	return c.offered[p.Name] == len(c.members)
}

// rebalanceTimeout is the longest of the members'.
func (c *classic) rebalanceTimeout() time.Duration {
	var most int32
	for _, m := range c.sorted() {
		most = max(most, m.rebalanceMs)
	}
	return millis(most)
}

// metadata is what the member says under a protocol.
func (m *classicMember) metadata(protocol string) []byte {
	for i := range m.protocols {
		if m.protocols[i].Name == protocol {
			return m.protocols[i].Metadata
		}
	}
	return nil
}

// says tells whether a join has the protocols that the member has already.
func (m *classicMember) says(r *kmsg.JoinGroupRequest) bool {
	return slices.EqualFunc(m.protocols, protocolsOf(r), func(a, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && slices.Equal(a.Metadata, b.Metadata)
	})
}

// protocolsOf copies a join's protocols; of a name that comes twice, the first.
func protocolsOf(r *kmsg.JoinGroupRequest) []kmsg.JoinGroupRequestProtocol {
	seen := map[string]bool{}
	var out []kmsg.JoinGroupRequestProtocol
	for i := range r.Protocols {
		if seen[r.Protocols[i].Name] {
			continue
		}
		seen[r.Protocols[i].Name] = true
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = r.Protocols[i].Name, notNil(slices.Clone(r.Protocols[i].Metadata))
		out = append(out, p)
	}
	return out
}

// rebalanceMs is the rebalance timeout of a join: version 0 has none of its own,
// and -1, in a record as well, is none.
func rebalanceMs(r *kmsg.JoinGroupRequest) int32 {
	if r.Version == 0 || r.RebalanceTimeoutMillis == -1 {
		return r.SessionTimeoutMillis
	}
	return r.RebalanceTimeoutMillis
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }
