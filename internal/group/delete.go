package group

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// deleteGroup deletes an empty group with its offsets.
func (s *step) deleteGroup(to coord.Token, c *DeleteGroup) {
	g := s.lookup(c.Group)
	switch {
	case g == nil:
		s.reply(to, kerr.GroupIDNotFound.Code)
		return
	case g.members != nil && g.members.state() != "Empty":
		s.reply(to, kerr.NonEmptyGroup.Code)
		return
	}
	s.removeOffsets(g)
	if g.members != nil {
		g.members.remove(s)
	}
	s.reply(to, int16(0))
}
