package group

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// DescribeGroups says from this version on that a group does not exist
// (KIP-1043); before, such a group was Dead.
const describeNotFound = 6

// describeGroup describes a classic group. A consumer group is none, and
// answered as if it were not there: it has a request of its own.
func (s *step) describeGroup(to coord.Token, c *DescribeGroup) {
	resp := kmsg.NewDescribeGroupsResponseGroup()
	resp.Group = c.Group
	g := s.lookup(c.Group)
	switch {
	case g == nil:
		missing(&resp, c.Version, fmt.Sprintf("Group %s not found.", c.Group))
	case g.members == nil:
		resp.State = phaseEmpty.String()
	default:
		if cl, ok := g.members.(*classic); ok {
			cl.describe(&resp)
		} else {
			missing(&resp, c.Version, fmt.Sprintf("Group %s is not a classic group.", c.Group))
		}
	}
	s.reply(to, &resp)
}

func missing(resp *kmsg.DescribeGroupsResponseGroup, version int16, why string) {
	resp.State = "Dead"
	if version >= describeNotFound {
		resp.ErrorCode, resp.ErrorMessage = kerr.GroupIDNotFound.Code, &why
	}
}

// describe fills in what members say, and by which protocol, of a stable group alone.
func (c *classic) describe(resp *kmsg.DescribeGroupsResponseGroup) {
	resp.State, resp.ProtocolType = c.state(), c.kind
	if c.phase == phaseStable {
		resp.Protocol = *c.protocol
	}
	for _, m := range c.sorted() {
		r := kmsg.NewDescribeGroupsResponseGroupMember()
		r.MemberID, r.InstanceID, r.ClientID, r.ClientHost = m.id, m.instance, m.clientID, m.host
		r.MemberAssignment = m.assignment
		if c.phase == phaseStable {
			r.ProtocolMetadata = m.metadata(*c.protocol)
		}
		resp.Members = append(resp.Members, r)
	}
}
