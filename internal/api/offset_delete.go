package api

// OffsetDelete, key 47, version 0 (KIP-496).

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) offsetDelete(ctx context.Context, r *server.Request, req *kmsg.OffsetDeleteRequest, resp *kmsg.OffsetDeleteResponse) error {
	if !a.allow(r, acl.Delete, acl.Group, req.Group) {
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return nil
	}
	cmd := &group.DeleteOffsets{Group: req.Group}
	var rows [][2]int              // where each of the command's partitions is answered
	topics := make(map[string]int) // their rows
	once := a.anyUnknown(r, req)   // then a topic is answered once, however often it is named
	img := a.Image()
	if unknown(img) {
		return kerr.CoordinatorNotAvailable
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		found, err := a.resolve(img, false, t.Topic, kafka.TopicID{})
		if !a.allow(r, acl.Read, acl.Topic, t.Topic) {
			err = kerr.TopicAuthorizationFailed
		}
		at, ok := topics[t.Topic]
		switch {
		case ok && once:
		case err == nil && len(t.Partitions) == 0:
			continue // nothing to tell of a topic that is there
		default:
			at = len(resp.Topics)
			topics[t.Topic] = at
			resp.Topics = append(resp.Topics, kmsg.NewOffsetDeleteResponseTopic())
		}
		out := &resp.Topics[at]
		out.Topic = t.Topic
		for _, in := range t.Partitions {
			p := kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition = in.Partition
			switch {
			case err != nil:
				p.ErrorCode = a.code(err)
			case in.Partition < 0 || int(in.Partition) >= len(found.Partitions):
				p.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				cmd.Partitions = append(cmd.Partitions, kafka.TopicPartition{Topic: t.Topic, Partition: in.Partition})
				rows = append(rows, [2]int{at, len(out.Partitions)})
			}
			out.Partitions = append(out.Partitions, p)
		}
	}
	err := error(kerr.InvalidGroupID)
	if req.Group != "" {
		var reply any
		if reply, err = a.Groups.Do(ctx, req.Group, cmd); err == nil {
			done := reply.(*group.OffsetsDeleted)
			if err = kerr.ErrorForCode(done.Code); err == nil {
				for i, row := range rows {
					resp.Topics[row[0]].Partitions[row[1]].ErrorCode = done.Codes[i]
				}
				return nil
			}
		}
	}
	resp.ErrorCode, resp.Topics = a.code(err), nil
	return nil
}

// anyUnknown tells whether a request names anything that is not there. Apache
// Kafka puts its answer together in another way then.
func (a *API) anyUnknown(r *server.Request, req *kmsg.OffsetDeleteRequest) bool {
	for i := range req.Topics {
		t := &req.Topics[i]
		found, err := a.resolve(a.Image(), false, t.Topic, kafka.TopicID{})
		if err != nil || !a.allow(r, acl.Read, acl.Topic, t.Topic) {
			return true
		}
		for _, in := range t.Partitions {
			if in.Partition < 0 || int(in.Partition) >= len(found.Partitions) {
				return true
			}
		}
	}
	return false
}
