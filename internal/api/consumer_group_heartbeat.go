package api

// ConsumerGroupHeartbeat, key 68, versions 0-1 (KIP-848).
//
//	v0   a member without an id is given one
//	v1   the client makes its id (KIP-1082); regular expressions

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

func (a *API) consumerGroupHeartbeat(ctx context.Context, r *server.Request, req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) error {
	if err := a.consumerHeartbeat(ctx, r, req, resp); err != nil {
		resp.ErrorCode, resp.ErrorMessage = a.code(err), message(err)
	}
	return nil
}

func (a *API) consumerHeartbeat(ctx context.Context, r *server.Request, req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) error {
	if err := a.consumerServed(); err != nil {
		return err
	}
	if !a.allow(r, acl.Read, acl.Group, req.Group) {
		return kerr.GroupAuthorizationFailed
	}
	for _, t := range req.SubscribedTopicNames {
		if !a.allow(r, acl.Describe, acl.Topic, t) {
			return kerr.TopicAuthorizationFailed
		}
	}
	principal := r.Principal
	cmd := &group.ConsumerHeartbeat{
		Req: req, Client: client(r),
		Visible: func(topic string) bool { return acl.For(a.Image()).Allow(principal, acl.Describe, acl.Topic, topic) },
	}
	if req.MemberID == "" { // one heartbeat in a member's life
		cmd.NewMemberID = storage.NewUUID().String()
	}
	if re := req.SubscribedTopicRegex; re != nil && *re != "" {
		cmd.Regex = group.ReadRegex(*re)
	}
	return answer(ctx, a, req.Group, cmd, resp)
}
