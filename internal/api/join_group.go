package api

// JoinGroup, key 11, versions 0-9.
//
//	v0   no rebalance timeout: it is the session timeout
//	v4   a member without an id is given one, and joins with it (KIP-394)
//	v5   static members (KIP-345)
//	v7   the protocol type is answered
//	v8   a reason, which is logged at debug level
//	v9   the leader of a group may be told to leave the assignment alone (KIP-814)

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) joinGroup(ctx context.Context, r *server.Request, req *kmsg.JoinGroupRequest, resp *kmsg.JoinGroupResponse) error {
	err := a.mayRead(r, req.Group)
	if err == nil {
		cmd := &group.JoinGroup{Req: req, Client: client(r), Release: r.Release}
		if req.MemberID == "" {
			cmd.NewMemberID = newMemberID(r, req.InstanceID)
		}
		err = answer(ctx, a, req.Group, cmd, resp)
	}
	if err != nil {
		resp.MemberID, resp.Generation = req.MemberID, -1
		resp.ErrorCode = a.code(err)
	}
	return nil
}
