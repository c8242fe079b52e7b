package api

// DescribeTopicPartitions, key 75, version 0 (KIP-966): topics in the order of
// their names, in pages of so many partitions. Naming none asks for all. A
// page ends with a cursor where the next one begins, unless it is the last.

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) describeTopicPartitions(_ context.Context, r *server.Request, req *kmsg.DescribeTopicPartitionsRequest, resp *kmsg.DescribeTopicPartitionsResponse) error {
	all := len(req.Topics) == 0
	var from kmsg.DescribeTopicPartitionsRequestCursor
	if req.Cursor != nil {
		from = *req.Cursor
	}
	named := make(map[string]bool, len(req.Topics))
	for i := range req.Topics {
		if name := req.Topics[i].Topic; name >= from.Topic {
			named[name] = true
		}
	}
	if req.Cursor != nil && (from.Partition < 0 || !all && !named[from.Topic]) {
		return a.refuseCursor(req, resp)
	}
	img := a.Image()
	names := slices.Values(slices.Sorted(maps.Keys(named)))
	if all {
		names = topicNames(img, from.Topic)
	}
	var denied []string
	left := max(1, min(a.Limits.PageOfPartitions, int(req.ResponsePartitionLimit)))
	for name := range names {
		if !a.allow(r, acl.Describe, acl.Topic, name) {
			if !all {
				denied = append(denied, name)
			}
			continue
		}
		if resp.NextCursor != nil {
			continue // the page is full: only names that are denied are still told
		}
		first := 0
		if name == from.Topic {
			first = int(from.Partition)
		}
		left -= a.describePage(img, r, resp, name, first, left)
		if resp.NextCursor != nil && all {
			break
		}
	}
	for _, name := range denied {
		resp.Topics = append(resp.Topics, topicRefused(name, kerr.TopicAuthorizationFailed))
	}
	return nil
}

func topicNames(img *meta.Image, from string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for t := range img.TopicsFrom(from) {
			if !yield(t.Name) {
				return
			}
		}
	}
}

// refuseCursor answers every topic with INVALID_REQUEST: the cursor's is not
// among them, or its partition is none.
func (a *API) refuseCursor(req *kmsg.DescribeTopicPartitionsRequest, resp *kmsg.DescribeTopicPartitionsResponse) error {
	for i := range req.Topics {
		resp.Topics = append(resp.Topics, topicRefused(req.Topics[i].Topic, kerr.InvalidRequest))
	}
	return nil
}

func topicRefused(name string, err *kerr.Error) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.ErrorCode, out.AuthorizedOperations = &name, err.Code, notAsked
	return out
}

// describePage adds a topic, from partition first on and left of them at most,
// and says how many. With nothing left, or not enough, the cursor is set.
func (a *API) describePage(img *meta.Image, r *server.Request, resp *kmsg.DescribeTopicPartitionsResponse, name string, first, left int) int {
	next := func(partition int) {
		c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
		c.Topic, c.Partition = name, int32(partition)
		resp.NextCursor = &c
	}
	if left == 0 {
		next(0)
		return 0
	}
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.IsInternal = &name, IsInternal(name)
	out.AuthorizedOperations = acl.For(img).Authorized(r.Principal, acl.Topic, name)
	count := 0
	if t, ok := img.Topic(name); ok {
		out.TopicID = t.ID
		first = min(first, len(t.Partitions))
		end := min(first+left, len(t.Partitions))
		for _, s := range t.Partitions[first:end] {
			out.Partitions = append(out.Partitions, partitionOnPage(img, r, s))
		}
		count = end - first
		if end < len(t.Partitions) {
			next(end)
		}
	} else {
		out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		if plan.CheckName(name) != nil {
			out.ErrorCode = kerr.InvalidTopicException.Code
		}
	}
	resp.Topics = append(resp.Topics, out)
	return count
}

func partitionOnPage(img *meta.Image, r *server.Request, s *meta.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	m := describePartition(img, r, s)
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	out.Partition, out.LeaderID, out.LeaderEpoch = m.Partition, m.Leader, m.LeaderEpoch // a missing leader is no error here
	out.Replicas, out.ISR, out.OfflineReplicas = m.Replicas, m.ISR, m.OfflineReplicas
	out.EligibleLeaderReplicas, out.LastKnownELR = []int32{}, []int32{}
	for _, e := range s.Eligible {
		out.EligibleLeaderReplicas = append(out.EligibleLeaderReplicas, int32(e.Node))
	}
	if s.Leader < 0 && s.LastKnownLeader >= 0 {
		out.LastKnownELR = append(out.LastKnownELR, int32(s.LastKnownLeader))
	}
	return out
}
