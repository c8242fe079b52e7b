package api

// ListGroups, key 16, versions 0-5.
//
//	v4   filter by state, and the state of each (KIP-518)
//	v5   filter by type, and the type of each (KIP-848)
//
// Each broker lists the groups that it coordinates.

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) listGroups(ctx context.Context, r *server.Request, req *kmsg.ListGroupsRequest, resp *kmsg.ListGroupsResponse) error {
	replies, err := a.Groups.Each(ctx, &group.ListGroups{States: group.FilterOf(req.StatesFilter), Types: group.FilterOf(req.TypesFilter)})
	if err != nil {
		resp.ErrorCode = a.code(err)
		return nil
	}
	all := a.allow(r, acl.Describe, acl.Cluster, acl.ClusterName)
	for _, reply := range replies {
		for _, g := range reply.([]kmsg.ListGroupsResponseGroup) {
			if all || a.allow(r, acl.Describe, acl.Group, g.Group) {
				resp.Groups = append(resp.Groups, g)
			}
		}
	}
	slices.SortFunc(resp.Groups, func(x, y kmsg.ListGroupsResponseGroup) int { return strings.Compare(x.Group, y.Group) })
	return nil
}
