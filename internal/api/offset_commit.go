package api

// OffsetCommit, key 8, versions 2-10.
//
//	v2-4  a retention of the request's own
//	v6    leader epochs
//	v7    static members (KIP-345)
//	v9    generation may be a member epoch of the consumer protocol (KIP-848)
//	v10   topics by id

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) offsetCommit(ctx context.Context, r *server.Request, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) error {
	cmd := &group.CommitOffsets{
		Group: req.Group, Member: req.MemberID, Instance: req.InstanceID, Generation: req.Generation,
		Version: req.Version, RetentionMs: -1,
	}
	if req.Version <= 4 {
		cmd.RetentionMs = req.RetentionTimeMillis
	}
	var rows []*int16 // the error of each of the command's partitions
	img := a.Image()
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, 0, len(req.Topics))
	denied := !a.allow(r, acl.Read, acl.Group, req.Group)
	for i := range req.Topics {
		in := &req.Topics[i]
		if len(in.Partitions) == 0 {
			continue // nothing to say, as in Apache Kafka
		}
		resp.Topics = append(resp.Topics, kmsg.NewOffsetCommitResponseTopic())
		out := &resp.Topics[len(resp.Topics)-1]
		out.Topic, out.TopicID = in.Topic, in.TopicID
		t, err := a.commitTopic(r, img, req.Version, in)
		if denied {
			err = kerr.GroupAuthorizationFailed
		}
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(in.Partitions))
		for j := range in.Partitions {
			p, to := &in.Partitions[j], &out.Partitions[j]
			*to = kmsg.NewOffsetCommitResponseTopicPartition()
			to.Partition = p.Partition
			switch {
			case err != nil:
				to.ErrorCode = a.code(err)
			case p.Partition < 0 || int(p.Partition) >= len(t.Partitions):
				to.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				cmd.Partitions = append(cmd.Partitions, commitPartition(t, p))
				rows = append(rows, &to.ErrorCode)
			}
		}
	}
	if len(rows) == 0 && len(req.Topics) > 0 {
		return nil // nothing that exists: the group is not asked, as in Apache Kafka
	}
	reply, err := a.Groups.Do(ctx, req.Group, cmd)
	for i, row := range rows {
		if err != nil {
			*row = a.code(err)
		} else {
			*row = reply.(*group.OffsetsCommitted).Codes[i]
		}
	}
	return nil
}

// commitTopic finds the topic that offsets are committed for.
func (a *API) commitTopic(r *server.Request, img *meta.Image, version int16, in *kmsg.OffsetCommitRequestTopic) (*meta.Topic, error) {
	if unknown(img) {
		return nil, kerr.CoordinatorNotAvailable // Java ends with an error of a leader here
	}
	t, err := a.resolve(img, version >= 10, in.Topic, in.TopicID)
	name := in.Topic
	if t != nil {
		name = t.Name
	}
	if (t != nil || version < 10) && !a.allow(r, acl.Read, acl.Topic, name) {
		return nil, kerr.TopicAuthorizationFailed
	}
	return t, err
}

func commitPartition(t *meta.Topic, p *kmsg.OffsetCommitRequestTopicPartition) group.CommitPartition {
	c := group.CommitPartition{
		Topic: t.Name, TopicID: kafka.TopicID(t.ID), Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
	}
	if p.Metadata != nil {
		c.Metadata = *p.Metadata
	}
	return c
}
