package broker

import (
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-mq/barnabas/internal/kafka"
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
