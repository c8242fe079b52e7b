package brokertest_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// moveTo is a wish for replicas; nil cancels.
func moveTo(version int16, topic string, partition int32, replicas []int32) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.TimeoutMillis = version, 20_000
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = topic
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = partition, replicas
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func electing(version int16, kind int8, topic string, partitions ...int32) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.ElectionType, req.TimeoutMillis = version, kind, 20_000
	if topic != "" {
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
	}
	return req
}

// On one broker there is nowhere to go.
func TestReassignmentOnOneBroker(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("r", 2)
	for v := int16(0); v <= 1; v++ {
		for _, c := range []struct {
			what     string
			topic    string
			n        int32
			replicas []int32
			want     *kerr.Error
		}{
			{"where it is", "r", 1, []int32{1}, nil},
			{"nothing to cancel", "r", 0, nil, kerr.NoReassignmentInProgress},
			{"no replicas", "r", 0, []int32{}, kerr.InvalidReplicaAssignment},
			{"another broker", "r", 0, []int32{2}, kerr.InvalidReplicaAssignment},
			{"a broker twice", "r", 0, []int32{1, 1}, kerr.InvalidReplicaAssignment},
			{"no such partition", "r", 2, []int32{1}, kerr.UnknownTopicOrPartition},
			{"no such topic", "s", 0, []int32{1}, kerr.UnknownTopicOrPartition},
		} {
			resp := ask[*kmsg.AlterPartitionAssignmentsResponse](p, moveTo(v, c.topic, c.n, c.replicas))
			wantCode(t, c.what, resp.Topics[0].Partitions[0].ErrorCode, c.want)
			wantCode(t, c.what, resp.ErrorCode, nil)
		}
	}
	late := moveTo(1, "r", 0, []int32{1})
	late.TimeoutMillis, late.AllowReplicationFactorChange = 0, false
	resp := ask[*kmsg.AlterPartitionAssignmentsResponse](p, late)
	wantCode(t, "no time", resp.ErrorCode, kerr.RequestTimedOut)
	wantCode(t, "no time", resp.Topics[0].Partitions[0].ErrorCode, kerr.RequestTimedOut)

	list := kmsg.NewPtrListPartitionReassignmentsRequest()
	if got := ask[*kmsg.ListPartitionReassignmentsResponse](p, list); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("reassignments: %+v", got)
	}
}

func TestElectionsOnOneBroker(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("e", 2)
	for v := int16(0); v <= 2; v++ {
		for kind := int8(0); kind <= 1; kind++ {
			got := ask[*kmsg.ElectLeadersResponse](p, electing(v, kind, "e", 0, 5))
			wantCode(t, "a partition that is led", got.Topics[0].Partitions[0].ErrorCode, kerr.ElectionNotNeeded)
			wantCode(t, "no such partition", got.Topics[0].Partitions[1].ErrorCode, kerr.UnknownTopicOrPartition)
			all := ask[*kmsg.ElectLeadersResponse](p, electing(v, kind, ""))
			if len(all.Topics) != 1 || len(all.Topics[0].Partitions) != 0 {
				t.Errorf("v%d kind %d: all that need no election are not left out: %+v", v, kind, all)
			}
		}
		got := ask[*kmsg.ElectLeadersResponse](p, electing(v, 9, "e", 0))
		want := kerr.InvalidRequest
		if v == 0 {
			want = kerr.ElectionNotNeeded // it has no kind
		}
		wantCode(t, "an unknown kind", got.Topics[0].Partitions[0].ErrorCode, want)
	}
}

func TestDescribeQuorum(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	quorum := func(v int16, topic string, n int32) *kmsg.DescribeQuorumResponse {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Version = v
		of := kmsg.NewDescribeQuorumRequestTopic()
		of.Topic = topic
		at := kmsg.NewDescribeQuorumRequestTopicPartition()
		at.Partition = n
		of.Partitions = append(of.Partitions, at)
		req.Topics = append(req.Topics, of)
		return ask[*kmsg.DescribeQuorumResponse](p, req)
	}
	was := int64(0)
	for v := int16(0); v <= 2; v++ {
		got := quorum(v, "__cluster_metadata", 0).Topics[0].Partitions[0]
		wantCode(t, "the metadata", got.ErrorCode, nil)
		if len(got.CurrentVoters) != 1 || len(got.Observers) != 0 || got.LeaderID != 1 || got.CurrentVoters[0].ReplicaID != 1 || got.LeaderEpoch < 1 {
			t.Errorf("v%d: %+v", v, got)
		}
		if got.HighWatermark <= was || got.CurrentVoters[0].LogEndOffset != got.HighWatermark {
			t.Errorf("v%d: after a change, %d is not above %d", v, got.HighWatermark, was)
		}
		was = got.HighWatermark
		p.create("t"+strings.Repeat("x", int(v)), 1)
		wantCode(t, "another partition", quorum(v, "__cluster_metadata", 1).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
		wantCode(t, "another topic", quorum(v, "t", 0).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	}
}

// A million refusals of a long name are not as many sentences.
func TestRefusalsOfManyPartitionsAreBounded(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("r", 1)
	long := strings.Repeat("long", 100_000)
	many := make([]int32, 200_000)
	for n := range many {
		many[n] = int32(n)
	}
	for _, topic := range []string{long, "r"} {
		move := moveTo(1, topic, 0, []int32{1})
		for _, n := range many {
			move.Topics[0].Partitions = append(move.Topics[0].Partitions, kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: n, Replicas: []int32{1}})
		}
		for _, resp := range []kmsg.Response{ask[*kmsg.ElectLeadersResponse](p, electing(2, 0, topic, many...)), ask[*kmsg.AlterPartitionAssignmentsResponse](p, move)} {
			if n := len(resp.AppendTo(nil)); n > 8<<20 {
				t.Errorf("%.10s: an answer of %d bytes to %s", topic, n, kmsg.NameForKey(resp.Key()))
			}
		}
	}
	p.alive()
}
