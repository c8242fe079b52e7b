package api

// DeleteGroups, key 42, versions 0-3.
//
//	v3   errors come with a sentence (KIP-1331)

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) deleteGroups(ctx context.Context, r *server.Request, req *kmsg.DeleteGroupsRequest, resp *kmsg.DeleteGroupsResponse) error {
	for _, id := range once(req.Groups) {
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group = id
		if err := a.deleteGroup(ctx, r, id); err != nil {
			out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
		}
		resp.Groups = append(resp.Groups, out)
	}
	return nil
}

func (a *API) deleteGroup(ctx context.Context, r *server.Request, id string) error {
	if !a.allow(r, acl.Delete, acl.Group, id) {
		return kerr.GroupAuthorizationFailed
	}
	reply, err := a.Groups.Do(ctx, id, &group.DeleteGroup{Group: id})
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(reply.(int16))
}
