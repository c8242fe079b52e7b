package brokertest_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// page asks for one page of topics, which it returns as "topic: partitions".
func (p *peer) page(limit int32, from *kmsg.DescribeTopicPartitionsResponseNextCursor, topics ...string) (*kmsg.DescribeTopicPartitionsResponse, []string) {
	p.t.Helper()
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	for _, name := range topics {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = name
		req.Topics = append(req.Topics, t)
	}
	if from != nil {
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = from.Topic, from.Partition
		req.Cursor = &c
	}
	resp := ask[*kmsg.DescribeTopicPartitionsResponse](p, req)
	var out []string
	for _, t := range resp.Topics {
		parts := []int32{}
		for _, x := range t.Partitions {
			parts = append(parts, x.Partition)
			if x.LeaderID != 1 || len(x.Replicas) != 1 || len(x.ISR) != 1 || len(x.OfflineReplicas) != 0 {
				p.t.Errorf("%s-%d: %+v", *t.Topic, x.Partition, x)
			}
		}
		what := *t.Topic
		if t.ErrorCode != 0 {
			what += " " + name(t.ErrorCode)
		}
		out = append(out, fmt.Sprintf("%s: %v", what, parts))
	}
	return resp, out
}

func TestMETA06Paging(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	id := p.create("b5", 5)
	p.create("a2", 2)
	for _, c := range []struct {
		limit  int32
		topics []string
		want   string
	}{
		{3, nil, "[[a2: [0 1] b5: [0]] [b5: [1 2 3]] [b5: [4]]]"},
		{3, []string{"b5", "a2"}, "[[a2: [0 1] b5: [0]] [b5: [1 2 3]] [b5: [4]]]"},
		{2, []string{"b5", "a2", "b5"}, "[[a2: [0 1]] [b5: [0 1]] [b5: [2 3]] [b5: [4]]]"},
		{7, nil, "[[a2: [0 1] b5: [0 1 2 3 4]]]"},
		{0, []string{"a2"}, "[[a2: [0]] [a2: [1]]]"}, // 1 at least
		{-1, []string{"a2"}, "[[a2: [0]] [a2: [1]]]"},
		{3, []string{"b5", "aa"}, "[[aa UNKNOWN_TOPIC_OR_PARTITION: [] b5: [0 1 2]] [b5: [3 4]]]"},
		{3, []string{"a b"}, "[[a b INVALID_TOPIC_EXCEPTION: []]]"},
	} {
		var got [][]string
		resp, page := p.page(c.limit, nil, c.topics...)
		for got = append(got, page); resp.NextCursor != nil && len(got) < 10; got = append(got, page) {
			resp, page = p.page(c.limit, resp.NextCursor, c.topics...)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("limit %d, topics %q: pages %v, want %s", c.limit, c.topics, got, c.want)
		}
	}
	resp, _ := p.page(10, nil, "b5")
	if resp.Topics[0].TopicID != id || resp.Topics[0].AuthorizedOperations == -1<<31 {
		t.Errorf("topic id %x and operations %d", resp.Topics[0].TopicID, resp.Topics[0].AuthorizedOperations)
	}

	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = "a2", 1<<31-1
	if resp, page := p.page(10, &cursor); resp.NextCursor != nil || fmt.Sprint(page) != "[a2: [] b5: [0 1 2 3 4]]" {
		t.Errorf("behind the last partition: %v, then %v", page, resp.NextCursor)
	}
	cursor.Topic, cursor.Partition = "aa", 1 // deleted since the last page
	if _, page := p.page(10, &cursor); fmt.Sprint(page) != "[b5: [0 1 2 3 4]]" {
		t.Errorf("from a topic that is gone: %v", page)
	}
	if _, page := p.page(10, &cursor, "b5"); fmt.Sprint(page) != "[b5 INVALID_REQUEST: []]" {
		t.Errorf("from a topic that is not asked for: %v", page)
	}
	cursor.Topic, cursor.Partition = "b5", -1
	if _, page := p.page(10, &cursor, "b5"); fmt.Sprint(page) != "[b5 INVALID_REQUEST: []]" {
		t.Errorf("from a negative partition: %v", page)
	}
	if _, there := p.topic("aa"); there {
		t.Error("describing a topic made it")
	}
}

func TestMETA06Limit(t *testing.T) {
	p := dial(t, brokertest.Start(t, brokertest.Set("max.request.partition.size.limit", "2")))
	p.create("many", 5)
	resp, page := p.page(1000, nil)
	if c := resp.NextCursor; fmt.Sprint(page) != "[many: [0 1]]" || c == nil || c.Topic != "many" || c.Partition != 2 {
		t.Errorf("the first page is %v, the next begins at %+v", page, c)
	}
}

func TestMETA04DescribeCluster(t *testing.T) {
	b := brokertest.Start(t, brokertest.Set("broker.rack", "r1"), brokertest.Set("node.id", "7"))
	for range 2 {
		p := dial(t, b)
		for version := int16(0); version <= 2; version++ {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.Version, req.IncludeFencedBrokers = version, true
			got := ask[*kmsg.DescribeClusterResponse](p, req)
			wantCode(t, "describe cluster", got.ErrorCode, nil)
			if got.ClusterID != b.Broker().ClusterID() || got.ControllerID != 7 || got.EndpointType != 1 || got.ClusterAuthorizedOperations != -1<<31 {
				t.Errorf("v%d: %+v", version, got)
			}
			if len(got.Brokers) != 1 {
				t.Fatalf("v%d: %d brokers", version, len(got.Brokers))
			}
			n := got.Brokers[0]
			if fmt.Sprintf("%s:%d", n.Host, n.Port) != b.Addr() || n.NodeID != 7 || n.Rack == nil || *n.Rack != "r1" || n.IsFenced {
				t.Errorf("v%d: broker %+v, want %s", version, n, b.Addr())
			}
			req.IncludeClusterAuthorizedOperations = true
			if got := ask[*kmsg.DescribeClusterResponse](p, req).ClusterAuthorizedOperations; got <= 0 {
				t.Errorf("v%d: operations %b", version, got)
			}
			for kind, want := range map[int8]*kerr.Error{2: kerr.MismatchedEndpointType, 3: kerr.UnsupportedEndpointType} {
				req.EndpointType = kind
				if version == 0 { // which has no such field
					want = nil
				}
				got := ask[*kmsg.DescribeClusterResponse](p, req)
				wantCode(t, fmt.Sprintf("v%d endpoint %d", version, kind), got.ErrorCode, want)
				if want != nil && (len(got.Brokers) != 0 || got.ClusterID != "" || got.ControllerID != -1) {
					t.Errorf("v%d: a refusal tells of the cluster: %+v", version, got)
				}
			}
		}
		b.Restart()
	}
}

// producers of a partition, as "id/epoch last sequence at timestamp coordinator transaction".
func (p *peer) producers(topic string, partition int32) []string {
	p.t.Helper()
	req := kmsg.NewPtrDescribeProducersRequest()
	in := kmsg.NewDescribeProducersRequestTopic()
	in.Topic, in.Partitions = topic, []int32{partition, partition}
	req.Topics = append(req.Topics, in)
	got := ask[*kmsg.DescribeProducersResponse](p, req).Topics[0].Partitions
	if len(got) != 1 || got[0].Partition != partition {
		p.t.Fatalf("%s-%d, asked for twice: answered %+v", topic, partition, got)
	}
	if code := got[0].ErrorCode; code != 0 {
		return []string{name(code)}
	}
	var out []string
	for _, d := range got[0].ActiveProducers {
		out = append(out, fmt.Sprintf("%d/%d %d at %d %d %d", d.ProducerID, d.ProducerEpoch, d.LastSequence, d.LastTimestamp-recordTime, d.CoordinatorEpoch, d.CurrentTxnStartOffset))
	}
	return out
}
