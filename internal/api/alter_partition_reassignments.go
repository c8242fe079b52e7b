package api

// AlterPartitionReassignments, key 45, versions 0-1 (KIP-455): partitions get
// other replicas, or with null replicas the reassignment that is running ends
// where it began. It is answered when the wish is written down; the brokers
// then copy, and the controller completes.
//
//	v1   a change of the number of replicas can be forbidden (KIP-860)

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) alterPartitionReassignments(ctx context.Context, r *server.Request, req *kmsg.AlterPartitionAssignmentsRequest, resp *kmsg.AlterPartitionAssignmentsResponse) error {
	if len(req.Topics) == 0 {
		resp.ErrorMessage = new(string)
		return nil
	}
	var refused error
	switch {
	case !a.allow(r, acl.Alter, acl.Cluster, acl.ClusterName):
		refused = kerr.ClusterAuthorizationFailed
	case req.TimeoutMillis <= 0:
		refused = kerr.RequestTimedOut
	}
	errs := make([][]error, len(req.Topics))
	if refused != nil {
		resp.ErrorCode, resp.ErrorMessage = a.code(refused), message(refused)
	} else {
		resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
		ctx, cancel := context.WithTimeout(ctx, time.Duration(req.TimeoutMillis)*time.Millisecond)
		defer cancel()
		errs = a.reassign(ctx, req)
	}
	var text sentences
	for i := range req.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			err := refused
			if err == nil {
				err = errs[i][j]
			}
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = req.Topics[i].Partitions[j].Partition, a.code(err), text.of(err)
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return nil
}

// reassign writes the wishes down, and tells of each how it went.
func (a *API) reassign(ctx context.Context, req *kmsg.AlterPartitionAssignmentsRequest) [][]error {
	var wishes []plan.Reassignment
	errs := make([][]error, len(req.Topics))
	for i := range req.Topics {
		t := &req.Topics[i]
		errs[i] = make([]error, len(t.Partitions))
		if _, there := a.Image().Topic(t.Topic); !there {
			fill(errs[i], refusal(kerr.UnknownTopicOrPartition, "Unable to find a topic named "+t.Topic+"."))
			continue
		}
		for j := range t.Partitions {
			in := &t.Partitions[j]
			wish := plan.Reassignment{
				Topic: t.Topic, Partition: in.Partition, FixedFactor: req.Version >= 1 && !req.AllowReplicationFactorChange,
			}
			if in.Replicas != nil {
				wish.Replicas = make([]kafka.NodeID, len(in.Replicas))
			}
			for k, n := range in.Replicas {
				wish.Replicas[k] = kafka.NodeID(n)
			}
			wishes = append(wishes, wish)
		}
	}
	written := timedOut(a.Cluster.Reassign(ctx, wishes), "The reassignment may have begun, or may yet.")
	for i := range req.Topics {
		if len(errs[i]) > 0 && errs[i][0] == nil {
			written = written[copy(errs[i], written):]
		}
	}
	return errs
}
