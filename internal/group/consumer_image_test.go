package group

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// Racks are part of what a group is assigned by, leaders are not.
func TestRacks(t *testing.T) {
	r := newRig(t)
	r.w.Register(2, "")
	broker, _ := r.w.Img.Broker(1)
	racked := *broker
	racked.ID, racked.Rack = 3, "r3"
	if err := r.w.RegisterBroker(&racked); err != nil {
		t.Fatal(err)
	}
	if err := r.w.CreateTopic("t", 1); err != nil {
		t.Fatal(err)
	}
	r.image()
	topic, _ := r.w.Img.Topic("t")
	s := &step{Machine: r.m}
	p := topic.Partitions[0].Clone()
	p.Replicas = []meta.Replica{{Node: 1}, {Node: 3}, {Node: 9}}
	on := &meta.Topic{Name: "t", ID: topic.ID, Partitions: []*meta.Partition{p}}
	if got := fmt.Sprint(s.racks(on), knownRacks(s.racks(on)), knownRacks(s.racks(topic))); got != "[[r3]] [[r3]] []" {
		t.Error(got)
	}
	leads := p.Clone()
	leads.Leader, leads.PartitionEpoch = 3, 7
	if moved(meta.PartitionChange{Topic: on, Old: p, New: leads}) {
		t.Error("another leader counts as a move")
	}
	for _, replicas := range [][]meta.Replica{{{Node: 3}, {Node: 1}, {Node: 9}}, {{Node: 1}}} {
		other := p.Clone()
		other.Replicas = replicas
		if !moved(meta.PartitionChange{Topic: on, Old: p, New: other}) {
			t.Errorf("%v does not count as a move", replicas)
		}
	}
}

// A look at very many topics is cut into pieces, and sees one image.
func TestRegexInPieces(t *testing.T) {
	defer func(n int) { regexSlice = n }(regexSlice)
	regexSlice = 300
	r := newRig(t)
	for i := range 15 {
		if err := r.w.CreateTopic(fmt.Sprintf("t%02d", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	r.m.Step(r.now, 0, &NewImage{Image: r.w.Img})

	for _, b := range []body{
		&memberRecord{Group: "g", Member: "a", Value: &memberMetadata{Regex: ptr("t1."), RebalanceTimeoutMs: 1000}},
		&memberRecord{Group: "g", Member: "b", Value: &memberMetadata{Regex: ptr("t(?"), RebalanceTimeoutMs: 1000}}, // of another version
		&memberRecord{Group: "g", Member: "c", Value: &memberMetadata{Topics: []string{"t01"}, RebalanceTimeoutMs: 1000}},
	} {
		r.m.apply(b, coord.Meta{Offset: -1, Producer: coord.NoProducer})
	}
	s := &step{Machine: r.m, now: r.now, out: &coord.Out{}}
	c := r.m.consumerIn("g")
	s.wantScan(c, false, s.mayScan(c), &ConsumerHeartbeat{Req: kmsg.NewPtrConsumerGroupHeartbeatRequest(), Visible: func(topic string) bool { return topic != "t10" }})
	r.took("", *s.out)
	pieces := 0
	for key := range r.timers {
		if key.Kind != timerRegex {
			delete(r.timers, key)
		}
	}
	for len(r.timers) > 0 {
		if pieces++; pieces == 2 { // meanwhile
			if err := r.w.DeleteTopic("t14"); err != nil {
				t.Fatal(err)
			}
			r.m.Step(r.now, 0, &NewImage{Image: r.w.Img, Delta: &r.w.Delta})
		}
		key, _, _ := r.next()
		delete(r.timers, key)
		r.took("", r.m.Fire(r.now, key))
	}
	got := c.resolved["t1."].Topics
	if pieces < 2 || fmt.Sprint(got) != "[t11 t12 t13 t14]" || len(c.resolved["t(?"].Topics) != 0 {
		t.Errorf("%d pieces, %v", pieces, got)
	}
	if _, ok := r.m.topics.names["t14"].groups["g"]; !ok {
		t.Error("the group would not hear of a topic that went meanwhile")
	}
}
