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
	states, types := folded(c.States), folded(c.Types)
	groups := []kmsg.ListGroupsResponseGroup{}
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		l := s.groups[id].listed()
		if passes(states, l.GroupState) && passes(types, l.GroupType) {
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

func folded(filter []string) map[string]bool {
	out := map[string]bool{}
	for _, f := range filter {
		out[strings.ToLower(strings.TrimSpace(f))] = true
	}
	return out
}

func passes(filter map[string]bool, value string) bool {
	return len(filter) == 0 || filter[strings.ToLower(value)]
}
