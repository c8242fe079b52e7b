package api

// ListPartitionReassignments, key 46, version 0 (KIP-455): what is on its way
// to other replicas. Partitions that are not, or that do not exist, are not
// named; one that a request names twice is answered once. The time-out of the
// request is not looked at, as in Apache Kafka: nothing is waited for.

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) listPartitionReassignments(_ context.Context, r *server.Request, req *kmsg.ListPartitionReassignmentsRequest, resp *kmsg.ListPartitionReassignmentsResponse) error {
	if !a.allow(r, acl.Describe, acl.Cluster, acl.ClusterName) {
		resp.ErrorCode, resp.ErrorMessage = kerr.ClusterAuthorizationFailed.Code, message(kerr.ClusterAuthorizationFailed)
		return nil
	}
	img := a.Image()
	if req.Topics == nil {
		for t := range img.Topics() {
			listReassigning(resp, t.Name, t.Partitions)
		}
		return nil
	}
	named := make(map[meta.PartitionID]bool)
	for i := range req.Topics {
		t, there := img.Topic(req.Topics[i].Topic)
		if !there {
			continue
		}
		var ps []*meta.Partition
		for _, n := range req.Topics[i].Partitions {
			id := meta.PartitionID{Topic: t.ID, Partition: n}
			if n < 0 || int(n) >= len(t.Partitions) || named[id] {
				continue
			}
			named[id] = true
			ps = append(ps, t.Partitions[n])
		}
		listReassigning(resp, t.Name, ps)
	}
	return nil
}

func listReassigning(resp *kmsg.ListPartitionReassignmentsResponse, topic string, ps []*meta.Partition) {
	out := kmsg.NewListPartitionReassignmentsResponseTopic()
	out.Topic = topic
	for _, p := range ps {
		if !p.Reassigning() {
			continue
		}
		one := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		one.Partition, one.AddingReplicas, one.RemovingReplicas = p.Partition, numbersOf(p.Adding), numbersOf(p.Removing)
		for _, r := range p.Replicas {
			one.Replicas = append(one.Replicas, int32(r.Node))
		}
		out.Partitions = append(out.Partitions, one)
	}
	if len(out.Partitions) > 0 {
		resp.Topics = append(resp.Topics, out)
	}
}

func numbersOf(nodes []kafka.NodeID) []int32 {
	var out []int32
	for n := range slices.Values(nodes) {
		out = append(out, int32(n))
	}
	return out
}
