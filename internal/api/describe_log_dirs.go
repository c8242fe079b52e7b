package api

// DescribeLogDirs, key 35, versions 1-5.
//
//	v3   the answer has an error of its own: CLUSTER_AUTHORIZATION_FAILED; below,
//	     one who may not ask gets no directories
//	v4   the bytes of each directory's device, in all and to be had (KIP-827)
//	v5   whether a directory is cordoned (KIP-1066)

import (
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

// LogDirs are the directories that hold this broker's logs.
type LogDirs interface {
	// Describe tells what they hold of the wanted partitions; nil wants all.
	Describe(want func(kafka.TopicPartition) bool) []storage.DirDescription
	// Move has a partition's log move to the directory of this path, or when
	// there is no such log has it made there one day. Errors wrap *kerr.Error;
	// REPLICA_NOT_AVAILABLE: there is no log.
	Move(tp kafka.TopicPartition, path string) error
}

func (a *API) describeLogDirs(_ context.Context, r *server.Request, req *kmsg.DescribeLogDirsRequest, resp *kmsg.DescribeLogDirsResponse) error {
	if !a.allow(r, acl.Describe, acl.Cluster, acl.ClusterName) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return nil
	}
	var want func(kafka.TopicPartition) bool
	if req.Topics != nil {
		asked := make(map[kafka.TopicPartition]bool)
		for i := range req.Topics {
			if len(req.Topics[i].Topic) > plan.MaxNameLen {
				continue // there is none, and looking it up takes time for every partition
			}
			for _, p := range req.Topics[i].Partitions {
				asked[kafka.TopicPartition{Topic: req.Topics[i].Topic, Partition: p}] = true
			}
		}
		want = func(tp kafka.TopicPartition) bool { return asked[tp] }
	}
	for _, d := range a.LogDirs.Describe(want) {
		resp.Dirs = append(resp.Dirs, a.describeLogDir(&d))
	}
	return nil
}

func (a *API) describeLogDir(d *storage.DirDescription) kmsg.DescribeLogDirsResponseDir {
	out := kmsg.NewDescribeLogDirsResponseDir()
	out.Dir = d.Path
	if d.Offline != nil {
		out.ErrorCode = kerr.KafkaStorageError.Code
		return out
	}
	out.IsCordoned = d.Cordoned
	out.TotalBytes = int64(min(d.Usage.TotalBytes, math.MaxInt64))
	out.UsableBytes = int64(min(d.Usage.FreeBytes, math.MaxInt64))
	for _, l := range d.Logs {
		if n := len(out.Topics); n == 0 || out.Topics[n-1].Topic != l.Partition.Topic {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = l.Partition.Topic
			out.Topics = append(out.Topics, t)
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size, p.OffsetLag, p.IsFuture = l.Partition.Partition, l.SizeBytes, l.Lag, l.Future
		if _, ok := a.Partitions.Get(l.Partition); !ok {
			p.OffsetLag = -1 // nobody here knows where the partition's log ends
		}
		t := &out.Topics[len(out.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return out
}
