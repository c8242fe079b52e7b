package broker

import (
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// An empty disk under an old number is filled again from the leaders: never
// before is it in an ISR (safety 3).
func TestEmptyDiskIsFilled(t *testing.T) {
	c := startThree(t, 3)
	cl := c.client(kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for n := range int32(3) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Partition: n, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := c.nodes[1].image().Topic("t")
	c.nodes[2].end()
	if err := os.RemoveAll(c.dirs[2]); err != nil {
		t.Fatal(err)
	}
	c.start(2)
	c.whole()
	for n := range int32(3) {
		c.copies(n, 1)
	}
	after, _ := c.nodes[1].image().Topic("t")
	for n, s := range after.Partitions {
		was, _ := before.Partitions[n].Replica(2)
		is, _ := s.Replica(2)
		joined, _ := s.InSync(2)
		if was.Dir == is.Dir || is.Dir == kafka.DirUnassigned || joined.Dir != is.Dir {
			t.Errorf("partition %d: %v, was %v; in the ISR %v", n, is, was, joined)
		}
	}
}

// A broker that was the sole member of an ISR and comes back with an empty disk
// leads nothing, for its disk may come back; when another was elected, which was
// eligible (KIP-966), it makes its replica anew without another restart.
func TestSoleMemberWithAnEmptyDisk(t *testing.T) {
	c := startThree(t, 1, "barnabas.shutdown.timeout.ms=100")
	c.nodes[1].setAll("min.insync.replicas", "2", kmsg.IncrementalAlterConfigOpSet)
	cl := c.client(kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	state := func(n int) *meta.Partition {
		topic, _ := c.nodes[n].image().Topic("t")
		return topic.Partitions[0]
	}
	c.nodes[1].end()
	c.nodes[3].end()
	two := c.nodes[2]
	two.awaitImage(func() bool { s := state(2); return len(s.ISR) == 1 && s.ISR[0].Node == 2 && len(s.Eligible) == 1 })
	lost := state(2).ISR[0]
	two.end()
	if err := os.RemoveAll(c.dirs[2]); err != nil {
		t.Fatal(err)
	}
	c.start(2)
	if s := state(2); s.Leader != kafka.NoNode || len(s.ISR) != 1 || s.ISR[0] != lost {
		t.Fatalf("leader %d, ISR %v: it does not wait for the disk", s.Leader, s.ISR)
	}
	c.start(1)
	c.start(3)
	c.whole()
	c.copies(0, 1)
	if r, _ := state(2).Replica(2); r.Dir == lost.Dir || r.Dir == kafka.DirUnassigned {
		t.Errorf("its replica is in %v", r.Dir)
	}
}
