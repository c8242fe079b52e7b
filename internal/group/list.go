package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// listGroups lists the groups that pass the filters. A state or type that
// nobody knows is one that no group has.
func (s *step) listGroups(to coord.Token, c *ListGroups) {
	groups := []kmsg.ListGroupsResponseGroup{}
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		l := s.groups[id].listed()
		if c.States.passes(l.GroupState) && c.Types.passes(l.GroupType) {
			groups = append(groups, l)
		}
	}
	s.reply(to, groups)
}

// listed is the group's line. One that only commits offsets is an empty classic
// group that nobody ever joined.
func (g *Group) listed() kmsg.ListGroupsResponseGroup {
	l := kmsg.NewListGroupsResponseGroup()
	l.Group, l.GroupState, l.GroupType = g.id, "Empty", "classic"
	if p := g.members; p != nil {
		l.ProtocolType, l.GroupState, l.GroupType = p.protocolType(), p.state(), p.typ()
	}
	return l
}

// Filter holds values that are looked for, whatever their case. It is made once for
// all shards, and not by them: a request may have millions.
type Filter map[string]bool

// FilterOf makes a filter.
func FilterOf(values []string) Filter {
	out := Filter{}
	for _, v := range values {
		out[strings.ToLower(strings.TrimSpace(v))] = true
	}
	return out
}

func (f Filter) passes(value string) bool { return len(f) == 0 || f[strings.ToLower(value)] }
