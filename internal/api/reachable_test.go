package api

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// Clients are never told of no broker by one that they can ask.
func TestSomebodyIsReachable(t *testing.T) {
	at := func(id kafka.NodeID) *meta.Broker {
		return &meta.Broker{ID: id, StartID: "s", Dirs: []kafka.DirID{{byte(id), 1}}, Listeners: []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: int32(id)}}}
	}
	a := New(Deps{Here: func() *meta.Broker { return at(1) }})
	w := metatest.New()
	told := func(listener string) (ids []kafka.NodeID) {
		for _, b := range a.reachable(w.Img, listener) {
			ids = append(ids, b.ID)
		}
		return ids
	}
	if got := told("PLAINTEXT"); len(got) != 1 || got[0] != 1 {
		t.Errorf("while nobody is registered: %v", got)
	}
	if got := told("OTHER"); len(got) != 0 {
		t.Errorf("of a listener that it does not have: %v", got)
	}
	if err := w.RegisterBroker(at(2)); err != nil {
		t.Fatal(err)
	}
	if got := told("PLAINTEXT"); len(got) != 1 || got[0] != 2 {
		t.Errorf("beside another: %v", got)
	}
}

// An answer that names the leader of several partitions names its address once
// (KIP-951).
func TestLeadersAreToldOnce(t *testing.T) {
	w := metatest.New()
	for id := kafka.NodeID(1); id <= 2; id++ {
		b := &meta.Broker{ID: id, StartID: "s", Dirs: []kafka.DirID{{byte(id)}}}
		b.Listeners = []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: int32(id)}}
		if err := w.RegisterBroker(b); err != nil {
			t.Fatal(err)
		}
	}
	one, _ := w.Img.Broker(1)
	m, err := plan.CreateTopic(w.Img, plan.NewTopic{
		Name: "t", ID: w.NextID(), Partitions: -1, Factor: -1, Creator: plan.Creator{Node: 1, BrokerEpoch: one.Epoch, Token: w.NextID()},
		Manual: []plan.ManualAssignment{{Partition: 0, Replicas: []kafka.NodeID{1}}, {Partition: 1, Replicas: []kafka.NodeID{2}}, {Partition: 2, Replicas: []kafka.NodeID{1}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Make(m, m.Steps()); err != nil {
		t.Fatal(err)
	}
	req, resp := kmsg.NewPtrProduceRequest(), kmsg.NewPtrProduceResponse()
	req.Version = 12
	p := &produce{API: New(Deps{Image: func() *meta.Image { return w.Img }}), r: plainRequest(12), req: req, resp: resp, img: w.Img}
	topic, _ := w.Img.Topic("t")
	for n := range int32(3) {
		out := kmsg.NewProduceResponseTopicPartition()
		out.Partition = n
		p.fail(&out, topic, kerr.NotLeaderForPartition)
	}
	p.addBrokers()
	var told []int32
	for _, b := range resp.Brokers {
		told = append(told, b.NodeID)
	}
	if !slices.Equal(told, []int32{1, 2}) {
		t.Errorf("told of %v", told)
	}
}
