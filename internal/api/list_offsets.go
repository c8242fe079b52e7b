package api

// ListOffsets, key 2, versions 1-11.
//
//	v2   isolation level: the newest offset of a read_committed client is the LSO
//	v4   the client's leader epoch is compared, the found record's is answered
//	v5   OFFSET_NOT_AVAILABLE (KIP-207); below, it is LEADER_NOT_AVAILABLE
//	v7   -3: the record with the largest timestamp (KIP-734)
//	v8   -4: the earliest local offset (KIP-405)
//	v9   -5: the latest tiered offset (KIP-1005)
//	v10  a time-out, which is for look-ups in tiers: there are none (KIP-1075)
//	v11  -6: the earliest offset that waits to be tiered (KIP-1023)

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// sinceVersion is the first version that knows a special timestamp.
var sinceVersion = map[int64]int16{
	replica.Latest: 1, replica.Earliest: 1, replica.MaxTimestamp: 7, replica.EarliestLocal: 8, replica.LatestTiered: 9, replica.EarliestPendingCopy: 11,
}

func (a *API) listOffsets(_ context.Context, r *server.Request, req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse) error {
	if req.IsolationLevel < 0 || req.IsolationLevel > 1 {
		refuseListing(req, resp)
		return nil
	}
	times := make(map[kafka.TopicPartition]int)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			times[kafka.TopicPartition{Topic: req.Topics[i].Topic, Partition: req.Topics[i].Partitions[j].Partition}]++
		}
	}
	rows := make(map[string]int) // a topic is answered once, however often it is named
	for i := range req.Topics {
		t := &req.Topics[i]
		if _, ok := rows[t.Topic]; !ok && len(t.Partitions) > 0 {
			rows[t.Topic] = len(resp.Topics)
			out := kmsg.NewListOffsetsResponseTopic()
			out.Topic = t.Topic
			resp.Topics = append(resp.Topics, out)
		}
		for j := range t.Partitions {
			in := &t.Partitions[j]
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: in.Partition}
			n := times[tp]
			if n == 0 {
				continue // named twice, and told so
			}
			times[tp] = 0
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.Offset, p.Timestamp, p.LeaderEpoch = in.Partition, -1, -1, -1
			var err error = kerr.InvalidRequest // named twice
			var found replica.ListResult
			if n == 1 {
				found, err = a.listOffset(r, req, t.Topic, in)
			}
			if err == nil {
				p.Offset, p.Timestamp, p.LeaderEpoch = found.Offset, found.TimestampMs, int32(found.Epoch)
			} else {
				p.ErrorCode = a.listCode(req.Version, err)
			}
			out := &resp.Topics[rows[t.Topic]]
			out.Partitions = append(out.Partitions, p)
		}
	}
	return nil
}

// refuseListing answers all that was asked, as it was asked: a topic that names
// no partitions is there too.
func refuseListing(req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse) {
	for _, t := range req.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for _, in := range t.Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.Offset, p.Timestamp, p.LeaderEpoch = in.Partition, -1, -1, -1
			p.ErrorCode = kerr.InvalidRequest.Code
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
}

func (a *API) listCode(version int16, err error) int16 {
	if version < 5 && errors.Is(err, kerr.OffsetNotAvailable) {
		return kerr.LeaderNotAvailable.Code
	}
	return a.code(err)
}

func (a *API) listOffset(r *server.Request, req *kmsg.ListOffsetsRequest, topic string, in *kmsg.ListOffsetsRequestTopicPartition) (replica.ListResult, error) {
	switch since, known := sinceVersion[in.Timestamp]; {
	case !a.allow(r, acl.Describe, acl.Topic, topic):
		return replica.ListResult{}, kerr.TopicAuthorizationFailed
	case in.Timestamp < 0 && (!known || req.Version < since):
		return replica.ListResult{}, kerr.UnsupportedVersion // before anything is looked up
	}
	t, err := a.resolve(a.Image(), false, topic, kafka.TopicID{})
	if err != nil {
		return replica.ListResult{}, err
	}
	p, err := a.hosted(t, in.Partition)
	if err == nil && req.ReplicaID < 0 {
		err = a.fenced()
	}
	if err != nil {
		return replica.ListResult{}, err
	}
	if in.CurrentLeaderEpoch < -1 {
		return replica.ListResult{}, kerr.FencedLeaderEpoch // only -1 stands for none
	}
	iso := replica.ReadUncommitted
	switch {
	case req.ReplicaID >= 0:
		iso = replica.ReadLogEnd
	case req.IsolationLevel == 1:
		iso = replica.ReadCommitted
	}
	found, err := p.ListOffset(in.Timestamp, iso, kafka.LeaderEpoch(in.CurrentLeaderEpoch))
	if err == nil && req.ReplicaID < 0 {
		err = a.fenced()
	}
	return found, err
}
