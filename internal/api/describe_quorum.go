package api

// DescribeQuorum, key 55, versions 0-2 (KIP-595): the members of the metadata's
// quorum, told as those of the one partition of __cluster_metadata. Anything
// else that is asked for is UNKNOWN_TOPIC_OR_PARTITION.
//
//	v1   when each member was heard, and was level with the leader (KIP-836)
//	v2   directories, and addresses of the members (KIP-853)
//
// The members are etcd's: the epoch is raft's term, and positions are indexes
// of its log. A member's directory id is its id at etcd, in the last eight bytes:
// a voter that lost its disk, and came back, has another. A node that carries the
// metadata alone has none.

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// Quorum is what is known of the metadata's quorum.
type Quorum struct {
	Leader            kafka.NodeID // NoNode: unknown
	Epoch             int32
	HighWatermark     int64
	Voters, Observers []QuorumMember
}

// QuorumMember is one of its members.
type QuorumMember struct {
	Node     kafka.NodeID
	Dir      kafka.DirID // zero: none
	End      int64       // of its log; -1: unknown
	Heard    time.Time   // zero: unknown
	CaughtUp time.Time
	// Listeners are where the other members find it: none on a single node.
	Listeners []meta.Listener
}

const metadataTopic = "__cluster_metadata"

func (a *API) describeQuorum(ctx context.Context, r *server.Request, req *kmsg.DescribeQuorumRequest, resp *kmsg.DescribeQuorumResponse) error {
	empty := ""
	resp.ErrorMessage = &empty
	if !a.allow(r, acl.Describe, acl.Cluster, acl.ClusterName) {
		resp.ErrorCode, resp.ErrorMessage = kerr.ClusterAuthorizationFailed.Code, message(kerr.ClusterAuthorizationFailed)
		return nil
	}
	if len(req.Topics) == 1 && req.Topics[0].Topic == metadataTopic &&
		len(req.Topics[0].Partitions) == 1 && req.Topics[0].Partitions[0].Partition == 0 {
		a.tellQuorum(ctx, resp)
		return nil
	}
	for i := range req.Topics {
		out := kmsg.NewDescribeQuorumResponseTopic()
		out.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			p := kmsg.NewDescribeQuorumResponseTopicPartition()
			p.Partition, p.ErrorCode = req.Topics[i].Partitions[j].Partition, kerr.UnknownTopicOrPartition.Code
			p.ErrorMessage = &kerr.UnknownTopicOrPartition.Description
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return nil
}

func (a *API) tellQuorum(ctx context.Context, resp *kmsg.DescribeQuorumResponse) {
	q, err := a.Quorum(ctx)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = a.code(err), message(err)
		return
	}
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.ErrorMessage = resp.ErrorMessage
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = int32(q.Leader), q.Epoch, q.HighWatermark
	for _, m := range q.Voters {
		p.CurrentVoters = append(p.CurrentVoters, quorumState(m))
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = int32(m.Node)
		for _, l := range m.Listeners {
			at := kmsg.NewDescribeQuorumResponseNodeListener()
			at.Name, at.Host, at.Port = l.Name, l.Host, uint16(l.Port)
			node.Listeners = append(node.Listeners, at)
		}
		resp.Nodes = append(resp.Nodes, node)
	}
	for _, m := range q.Observers {
		p.Observers = append(p.Observers, quorumState(m))
	}
	out := kmsg.NewDescribeQuorumResponseTopic()
	out.Topic, out.Partitions = metadataTopic, append(out.Partitions, p)
	resp.Topics = append(resp.Topics, out)
}

func quorumState(m QuorumMember) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	s.ReplicaID, s.ReplicaDirectoryID, s.LogEndOffset = int32(m.Node), m.Dir, m.End
	if !m.Heard.IsZero() {
		s.LastFetchTimestamp = m.Heard.UnixMilli()
	}
	if !m.CaughtUp.IsZero() {
		s.LastCaughtUpTimestamp = m.CaughtUp.UnixMilli()
	}
	return s
}
