package group

import "strings"

// Group is one group: its offsets, and its members under one of two protocols.
// A group without either does not exist.
type Group struct {
	id      string
	members protocol // nil: offsets alone (a simple group, which is listed as an empty classic one)
	offsets offsets

	rebalances, commits uint64 // for Stats
}

// protocol is the membership side of a group: *classic or *consumer.
type protocol interface {
	// typ is "classic" or "consumer", as ListGroups has it.
	typ() string
	// state is "Empty", "Stable", ... as ListGroups has it.
	state() string
	// protocolType is "consumer", "connect", ...; "" where nobody ever joined.
	protocolType() string
	// size is the number of members.
	size() int
	// checkCommit says whether offsets may be committed; a *kerr.Error or nil.
	// A commit by a member counts as a sign of life where the protocol has it so.
	checkCommit(s *step, c *CommitOffsets) error
	// checkFetch says whether offsets may be read (OffsetFetch v9); a *kerr.Error or nil.
	checkFetch(c *FetchOffsets) error
	// subscribes says whether members read the topic, so that its offsets may
	// not be deleted or expire. A group whose members' subscriptions are not
	// known (classic, another protocol type than consumer) says true while it has members.
	subscribes(topic string) bool
	// emptySinceMs is the wall time since when there have been no members, or
	// -1 where there are some or the time is not known: offsets expire from then on
	// (KIP-211), not known: from their commit.
	emptySinceMs() int64
	// remove emits the tombstones of everything but the offsets. The group is
	// empty.
	remove(s *step)
}

// lookup finds a group, nil if there is none.
func (m *Machine) lookup(id string) *Group { return m.groups[id] }

// of finds a group or makes it, for Apply.
func (m *Machine) of(id string) *Group {
	g := m.groups[id]
	if g == nil {
		g = &Group{id: strings.Clone(id)}
		m.groups[g.id] = g
	}
	return g
}

// drop forgets a group of which nothing is left; Apply calls it after anything
// that took something away.
func (m *Machine) drop(g *Group) {
	if g.members == nil && g.offsets.empty() {
		delete(m.groups, g.id)
	}
}
