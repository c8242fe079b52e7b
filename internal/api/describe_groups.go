package api

// DescribeGroups, key 15, versions 0-6.
//
//	v3   authorized operations (KIP-430)
//	v4   instance ids
//	v6   a group that does not exist is GROUP_ID_NOT_FOUND, with a sentence (KIP-1043); below, it is Dead

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) describeGroups(ctx context.Context, r *server.Request, req *kmsg.DescribeGroupsRequest, resp *kmsg.DescribeGroupsResponse) error {
	for _, id := range once(req.Groups) {
		out := kmsg.NewDescribeGroupsResponseGroup()
		err := a.mayDescribe(r, id)
		if err == nil {
			err = answer(ctx, a, id, &group.DescribeGroup{Group: id, Version: req.Version}, &out)
		}
		if err != nil {
			out.Group, out.ErrorCode, out.ErrorMessage = id, a.code(err), message(err)
		} else if req.IncludeAuthorizedOperations && out.ErrorCode == 0 {
			out.AuthorizedOperations = acl.For(a.Image()).Authorized(r.Principal, acl.Group, id)
		}
		resp.Groups = append(resp.Groups, out)
	}
	return nil
}
