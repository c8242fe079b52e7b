package api

// AlterReplicaLogDirs, key 34, versions 1-2 (KIP-113): a partition's log moves
// to another directory of this broker. A partition that is not here gets
// REPLICA_NOT_AVAILABLE, one that nobody knows UNKNOWN_TOPIC_OR_PARTITION, and
// in both cases the directory is remembered for the day that its log is made.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) alterReplicaLogDirs(_ context.Context, r *server.Request, req *kmsg.AlterReplicaLogDirsRequest, resp *kmsg.AlterReplicaLogDirsResponse) error {
	allowed := a.allow(r, acl.Alter, acl.Cluster, acl.ClusterName)
	// Of a partition that is named twice the last directory counts.
	last := make(map[numberedPartition]string)
	topics := numbered{}
	for i := range req.Dirs {
		for _, t := range req.Dirs[i].Topics {
			number := topics.of(t.Topic)
			for _, p := range t.Partitions {
				last[numberedPartition{number, p}] = req.Dirs[i].Dir
			}
		}
	}
	at := make(map[int]int)
	for i := range req.Dirs {
		for _, t := range req.Dirs[i].Topics {
			number := topics.of(t.Topic)
			for _, n := range t.Partitions {
				key := numberedPartition{number, n}
				dir, ok := last[key]
				if !ok {
					continue // answered
				}
				delete(last, key)
				p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				p.Partition, p.ErrorCode = n, kerr.ClusterAuthorizationFailed.Code
				if allowed {
					p.ErrorCode = a.code(a.moveReplica(kafka.TopicPartition{Topic: t.Topic, Partition: n}, dir))
				}
				where, ok := at[number]
				if !ok {
					where = len(resp.Topics)
					at[number] = where
					out := kmsg.NewAlterReplicaLogDirsResponseTopic()
					out.Topic = t.Topic
					resp.Topics = append(resp.Topics, out)
				}
				resp.Topics[where].Partitions = append(resp.Topics[where].Partitions, p)
			}
		}
	}
	return nil
}

func (a *API) moveReplica(tp kafka.TopicPartition, dir string) error {
	err := a.LogDirs.Move(tp, dir)
	if errors.Is(err, kerr.ReplicaNotAvailable) {
		t, ok := a.Image().Topic(tp.Topic)
		if !ok || tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions) {
			return kerr.UnknownTopicOrPartition
		}
	}
	return err
}
