package brokertest_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// What Apache Kafka 4.4.0 answers to requests that are seldom made.

// answerTo is the answer of a broker to one request.
func answerTo[Resp kmsg.Response](t *testing.T, b *brokertest.Broker, req kmsg.Request) Resp {
	t.Helper()
	c, err := wire.Dial(t.Context(), b.Addr(), wire.ClientOptions{ClientID: "answers"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	resp, err := c.Do(t.Context(), req)
	if err != nil {
		t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp.(Resp)
}

// newTopic makes a topic of one partition and returns its id.
func newTopic(t *testing.T, b *brokertest.Broker, name string) [16]byte {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 20_000
	in := kmsg.NewCreateTopicsRequestTopic()
	in.Topic, in.NumPartitions, in.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, in)
	out := answerTo[*kmsg.CreateTopicsResponse](t, b, req).Topics[0]
	if out.ErrorCode != 0 {
		t.Fatalf("create %s: error %d", name, out.ErrorCode)
	}
	return out.TopicID
}

// Producers that want a coordinator of transactions are told at once that there
// is none; so are share groups.
func TestNoTransactionCoordinator(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for version := int16(1); version <= 6; version++ {
		for kind, want := range map[int8]*kerr.Error{1: kerr.UnsupportedVersion, 2: kerr.InvalidRequest} {
			c := p.coordinator(version, kind, "k")[0]
			wantCode(t, fmt.Sprintf("v%d type %d", version, kind), c.ErrorCode, want)
			if c.NodeID != -1 {
				t.Errorf("v%d type %d: node %d, want -1", version, kind, c.NodeID)
			}
		}
	}
}

// A topic that is to be deleted by id and by name is named once in the answer,
// and stays.
func TestDeleteByIDAndName(t *testing.T) {
	b := brokertest.Start(t)
	id := newTopic(t, b, "twice")
	name := "twice"
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 20_000
	byID, byName := kmsg.NewDeleteTopicsRequestTopic(), kmsg.NewDeleteTopicsRequestTopic()
	byID.TopicID, byName.Topic = id, &name
	req.Topics = append(req.Topics, byID, byName)
	resp := answerTo[*kmsg.DeleteTopicsResponse](t, b, req)
	if len(resp.Topics) != 1 {
		t.Fatalf("%d answers, want 1: %+v", len(resp.Topics), resp.Topics)
	}
	got := resp.Topics[0]
	if got.ErrorCode != kerr.InvalidRequest.Code || got.Topic == nil || *got.Topic != name || got.TopicID != id {
		t.Errorf("got %+v, want INVALID_REQUEST with name and id", got)
	}
	if out := answerTo[*kmsg.MetadataResponse](t, b, metadataOf(name)).Topics[0]; out.ErrorCode != 0 {
		t.Errorf("the topic is gone: error %d", out.ErrorCode)
	}
}

func metadataOf(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	in := kmsg.NewMetadataRequestTopic()
	in.Topic = &topic
	req.Topics = append(req.Topics, in)
	return req
}

// Of the negative leader epochs only -1 stands for none.
func TestNegativeLeaderEpochs(t *testing.T) {
	b := brokertest.Start(t)
	newTopic(t, b, "epochs")
	appendTo(t, b, "epochs", batch.Options{})
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 7
	lt, lp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	lt.Topic, lp.Timestamp, lp.CurrentLeaderEpoch = "epochs", -1, -2
	lt.Partitions = append(lt.Partitions, lp)
	list.Topics = append(list.Topics, lt)
	if got := answerTo[*kmsg.ListOffsetsResponse](t, b, list).Topics[0].Partitions[0].ErrorCode; got != kerr.FencedLeaderEpoch.Code {
		t.Errorf("ListOffsets with current epoch -2: error %d, want FENCED_LEADER_EPOCH", got)
	}
	for _, c := range []struct {
		current, asked int32
		code           int16
		epoch          int32
		end            int64
	}{
		{-2, 0, kerr.FencedLeaderEpoch.Code, -1, -1}, {-1, -1, 0, -1, -1}, {-1, 0, 0, 0, 1}, {-1, -2, 0, -2, 0},
	} {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version, req.ReplicaID = 4, -1
		et, ep := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		et.Topic, ep.CurrentLeaderEpoch, ep.LeaderEpoch = "epochs", c.current, c.asked
		et.Partitions = append(et.Partitions, ep)
		req.Topics = append(req.Topics, et)
		got := answerTo[*kmsg.OffsetForLeaderEpochResponse](t, b, req).Topics[0].Partitions[0]
		if got.ErrorCode != c.code || got.LeaderEpoch != c.epoch || got.EndOffset != c.end {
			t.Errorf("current epoch %d, asked for %d: error %d epoch %d end %d, want %d, %d, %d",
				c.current, c.asked, got.ErrorCode, got.LeaderEpoch, got.EndOffset, c.code, c.epoch, c.end)
		}
	}
}

// appendTo produces a batch of one record with the timestamp 1000.
func appendTo(t *testing.T, b *brokertest.Broker, topic string, o batch.Options) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	var builder batch.Builder
	builder.Reset(o)
	builder.Append(1000, nil, []byte("x"))
	data, _, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 20_000
	in, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	in.Topic, p.Records = topic, data
	in.Partitions = append(in.Partitions, p)
	empty := kmsg.NewProduceRequestTopic() // nothing is asked of it
	empty.Topic = topic
	req.Topics = append(req.Topics, empty, in)
	resp := answerTo[*kmsg.ProduceResponse](t, b, req)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("got %+v, want one partition of one topic", resp.Topics)
	}
	out := resp.Topics[0].Partitions[0]
	if out.ErrorCode != 0 {
		t.Fatalf("produce: error %d", out.ErrorCode)
	}
	return out
}

// What an idempotent producer sends again is answered with the offset and the
// time of the first batch, whatever kind of timestamps the topic has.
func TestDuplicateIsAnsweredWithItsTime(t *testing.T) {
	b := brokertest.Start(t)
	newTopic(t, b, "again")
	o := batch.Options{Producer: &batch.Producer{ID: 4711}}
	for i, want := range []int64{-1, 1000} {
		if got := appendTo(t, b, "again", o); got.BaseOffset != 0 || got.LogAppendTime != want {
			t.Errorf("send %d: base %d log append time %d, want 0 and %d", i+1, got.BaseOffset, got.LogAppendTime, want)
		}
	}
}

// The new leader is named from Fetch v16 on (KIP-951), though the field is
// there from v12 on.
func TestFetchNamesTheLeaderFromV16(t *testing.T) {
	b := brokertest.Start(t)
	newTopic(t, b, "leader")
	for version, want := range map[int16]int32{12: -1, 16: 1} {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxBytes, req.SessionEpoch = version, 1<<20, -1
		req.ReplicaID, req.ReplicaState.ID = 77, 77 // no replica of the partition
		in, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		in.Topic, p.PartitionMaxBytes = "leader", 1<<20
		in.TopicID = answerTo[*kmsg.MetadataResponse](t, b, metadataOf("leader")).Topics[0].TopicID
		in.Partitions = append(in.Partitions, p)
		req.Topics = append(req.Topics, in)
		got := answerTo[*kmsg.FetchResponse](t, b, req).Topics[0].Partitions[0]
		if got.ErrorCode != kerr.NotLeaderForPartition.Code || got.CurrentLeader.LeaderID != want {
			t.Errorf("v%d: error %d leader %d, want NOT_LEADER_OR_FOLLOWER and %d", version, got.ErrorCode, got.CurrentLeader.LeaderID, want)
		}
	}
}

// A special timestamp that the version does not know is told before anything
// is looked up, and a topic that is named twice is answered in one row.
func TestListOffsetsOfNothing(t *testing.T) {
	b := brokertest.Start(t)
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 7
	want := map[int32]*kerr.Error{
		0: kerr.UnknownTopicOrPartition, 1: kerr.UnsupportedVersion, 2: kerr.UnsupportedVersion, 3: kerr.UnknownTopicOrPartition,
	}
	for p, ts := range []int64{-3, -4, -9, 5} {
		lt, lp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		lt.Topic, lp.Partition, lp.Timestamp = "nowhere", int32(p), ts
		lt.Partitions = append(lt.Partitions, lp)
		list.Topics = append(list.Topics, lt)
	}
	resp := answerTo[*kmsg.ListOffsetsResponse](t, b, list)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != len(want) {
		t.Fatalf("%d topics answered, want one with %d partitions", len(resp.Topics), len(want))
	}
	for _, p := range resp.Topics[0].Partitions {
		wantCode(t, "partition of nowhere", p.ErrorCode, want[p.Partition])
	}
}

// OffsetDelete answers a topic in one row however often it is named; one
// without partitions only when there is none such.
func TestOffsetDeleteRows(t *testing.T) {
	_, p := withGroups(t)
	p.create("known", 1)
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 8, "g", -1
	ct, cp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	ct.Topic = "known"
	ct.Partitions = append(ct.Partitions, cp)
	commit.Topics = append(commit.Topics, ct)
	ask[*kmsg.OffsetCommitResponse](p, commit)
	drop := kmsg.NewPtrOffsetDeleteRequest()
	drop.Group = "g"
	p.create("barren", 1)
	for _, topic := range []string{"unknown", "known", "empty", "barren", "unknown"} {
		dt, dp := kmsg.NewOffsetDeleteRequestTopic(), kmsg.NewOffsetDeleteRequestTopicPartition()
		dt.Topic = topic
		if topic != "empty" && topic != "barren" {
			dt.Partitions = append(dt.Partitions, dp)
		}
		drop.Topics = append(drop.Topics, dt)
	}
	got := map[string]int{}
	resp := ask[*kmsg.OffsetDeleteResponse](p, drop)
	for _, dt := range resp.Topics {
		got[dt.Topic] = len(dt.Partitions)
	}
	if want := (map[string]int{"unknown": 2, "known": 1, "empty": 0}); resp.ErrorCode != 0 || len(resp.Topics) != 3 || !maps.Equal(got, want) {
		t.Errorf("error %d, rows %v, want %v", resp.ErrorCode, got, want)
	}
}
