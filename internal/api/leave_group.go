package api

// LeaveGroup, key 13, versions 0-5.
//
//	v3   several members, each with an error of its own, static ones by instance id (KIP-345)
//	v5   a reason, which is logged at debug level

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) leaveGroup(ctx context.Context, r *server.Request, req *kmsg.LeaveGroupRequest, resp *kmsg.LeaveGroupResponse) error {
	err := a.mayRead(r, req.Group)
	if err == nil {
		err = answer(ctx, a, req.Group, &group.LeaveGroup{Req: req}, resp)
	}
	if err != nil {
		resp.ErrorCode = a.code(err)
	}
	return nil
}
