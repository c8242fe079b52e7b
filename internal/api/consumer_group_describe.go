package api

// ConsumerGroupDescribe, key 69, versions 0-1 (KIP-848).
//
//	v1   the type of each member: a classic one, or one of the consumer protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) consumerGroupDescribe(ctx context.Context, r *server.Request, req *kmsg.ConsumerGroupDescribeRequest, resp *kmsg.ConsumerGroupDescribeResponse) error {
	for _, id := range once(req.Groups) {
		out := kmsg.NewConsumerGroupDescribeResponseGroup()
		err := a.describeConsumer(ctx, r, id, &out)
		if err != nil {
			out = kmsg.NewConsumerGroupDescribeResponseGroup()
			out.Group, out.ErrorCode, out.ErrorMessage = id, a.code(err), message(err)
		} else if req.IncludeAuthorizedOperations && out.ErrorCode == 0 {
			out.AuthorizedOperations = acl.For(a.Image()).Authorized(r.Principal, acl.Group, id)
		}
		resp.Groups = append(resp.Groups, out)
	}
	return nil
}

func (a *API) describeConsumer(ctx context.Context, r *server.Request, id string, out *kmsg.ConsumerGroupDescribeResponseGroup) error {
	if err := a.consumerServed(); err != nil {
		return err
	}
	switch {
	case !a.allow(r, acl.Describe, acl.Group, id):
		return kerr.GroupAuthorizationFailed
	case id == "":
		return kerr.InvalidGroupID
	}
	if err := answer(ctx, a, id, &group.DescribeConsumerGroup{Group: id}, out); err != nil {
		return err
	}
	for i := range out.Members {
		m := &out.Members[i]
		for _, list := range [][]string{m.SubscribedTopics, namesOf(m.Assignment), namesOf(m.TargetAssignment)} {
			for _, t := range list {
				if !a.allow(r, acl.Describe, acl.Topic, t) {
					return refusal(kerr.TopicAuthorizationFailed, "The group has described topic(s) that the client is not authorized to describe.")
				}
			}
		}
	}
	return nil
}

func namesOf(a kmsg.Assignment) []string {
	var out []string
	for _, t := range a.TopicPartitions {
		out = append(out, t.Topic)
	}
	return out
}
