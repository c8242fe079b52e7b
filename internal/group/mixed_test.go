package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Records of other versions: a state that is not known, lists in another order,
// without epochs, a metadata record of before 4.1.
func TestRecordsOfOtherVersions(t *testing.T) {
	r := newRig(t)
	if err := r.w.CreateTopic("t", 3); err != nil {
		t.Fatal(err)
	}
	r.m.Step(r.now, 0, &NewImage{Image: r.w.Img, Delta: &r.w.Delta})
	topic, _ := r.w.Img.Topic("t")
	for _, b := range []body{
		&partitionMetadataRecord{Group: "g"},
		&memberRecord{Group: "g", Member: "a", Value: &memberMetadata{ClientID: "c", Host: "/h", Topics: []string{"t"}, RebalanceTimeoutMs: 1000}},
		&groupEpochRecord{Group: "g", Value: &groupEpoch{Epoch: 7}},
		&targetRecord{Group: "g", Member: "a", Value: &target{Topics: []topicPartitions{{Topic: topic.ID, Partitions: []int32{2, 0, 1}}}}},
		&targetEpochRecord{Group: "g", Value: &targetEpoch{Epoch: 7}},
		&currentRecord{Group: "g", Member: "a", Value: &current{Epoch: 7, PreviousEpoch: 6, State: 99, Assigned: []topicPartitions{
			{Topic: kafka.TopicID{255}, Partitions: []int32{1, 0}}, {Topic: topic.ID, Partitions: []int32{2, 1}, Epochs: []int32{4, 3}},
		}}},
	} {
		key, value := encode(b)
		r.log = append(r.log, coord.Record{Key: key, Value: value})
		r.metas = append(r.metas, coord.Meta{Offset: int64(len(r.log)), Producer: coord.NoProducer})
	}
	r.m = r.fed()
	r.m.Loaded(r.now)
	r.check("loaded")
	c := r.m.consumerIn("g")
	if got := show(c.members["a"].cur.Assigned); got != "[#1:1@3,2@4 #255:0,1@7]" || c.members["a"].cur.State != memberUnknown || !c.legacy {
		t.Errorf("%s, state %d, legacy %v", got, c.members["a"].cur.State, c.legacy)
	}
	beat := func(owned []kmsg.ConsumerGroupHeartbeatRequestTopic) string {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.MemberEpoch, req.Topics = 1, "g", "a", 7, owned
		r.who[1] = "a"
		return shorter.Replace(r.took("a", r.m.Step(r.now, 1, &ConsumerHeartbeat{Req: req, Client: Client{ID: "c", Host: "/h"}})))
	}
	const fenced = `a: {ErrorCode:FENCED_MEMBER_EPOCH ErrorMessage:"The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."}` + "\n"
	if got := beat(nil); got != fenced {
		t.Error(got)
	}
	if got := beat([]kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: topic.ID, Partitions: []int32{1}}}); got != fenced {
		t.Error(got)
	}
	if got := beat([]kmsg.ConsumerGroupHeartbeatRequestTopic{}); got != "a: {MemberID:a MemberEpoch:8 Interval:5000 Assignment:{Topics:[{TopicID:#1 Partitions:[0 1 2]}]}}\n" {
		t.Error(got)
	}
	if c.legacy {
		t.Error("the record of before 4.1 is still there")
	}
	r.check("after heartbeats")
}
