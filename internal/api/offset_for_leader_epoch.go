package api

// OffsetForLeaderEpoch, key 23, versions 2-4 (KIP-101, KIP-320). Any replica id
// may ask: consumers use it to find where their log parts from the leader's.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) offsetForLeaderEpoch(_ context.Context, r *server.Request, req *kmsg.OffsetForLeaderEpochRequest, resp *kmsg.OffsetForLeaderEpochResponse) error {
	img := a.Image()
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		topic, absent := a.resolve(img, false, t.Topic, kafka.TopicID{})
		for j := range t.Partitions {
			in := &t.Partitions[j]
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.LeaderEpoch, p.EndOffset = in.Partition, -1, -1
			var err error
			switch {
			case !a.allow(r, acl.Describe, acl.Topic, t.Topic):
				err = kerr.TopicAuthorizationFailed
			case absent != nil:
				err = absent
			default:
				partition, herr := a.hosted(topic, in.Partition)
				err = herr
				if err == nil && in.CurrentLeaderEpoch < -1 {
					err = kerr.FencedLeaderEpoch // only -1 stands for none
				}
				if err == nil {
					var epoch kafka.LeaderEpoch
					epoch, p.EndOffset, err = partition.EpochEnd(kafka.LeaderEpoch(in.CurrentLeaderEpoch), kafka.LeaderEpoch(in.LeaderEpoch))
					p.LeaderEpoch = int32(epoch)
				}
			}
			p.ErrorCode = a.code(err)
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return nil
}
