package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// The offsets topic, which a single broker made, gets its replicas when brokers
// join, and no more than are configured; what was committed stays.
func TestOffsetsTopicGrows(t *testing.T) {
	store := metastore.NewMem()
	start := func(id int) *process {
		return startWith(t, Options{store: store, Set: []string{fmt.Sprintf("node.id=%d", id), "log.dirs=" + t.TempDir(), "offsets.topic.num.partitions=6"}})
	}
	one := start(1)
	one.createTopic("t", 1)
	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, 7, -1)
	if err := kadm.NewClient(one.cl).CommitAllOffsets(one.ctx(), "g", offsets); err != nil {
		t.Fatal(err)
	}
	last := one
	for id := 2; id <= 4; id++ {
		last = start(id)
		want := min(id, 3)
		one.awaitImage(func() bool { return grown(one, want) })
	}
	leads := map[kafka.NodeID]int{}
	topic, _ := one.image().Topic(api.OffsetsTopic)
	for _, p := range topic.Partitions {
		leads[p.Replicas[0].Node]++
	}
	if len(leads) < 3 {
		t.Errorf("preferred leaders: %v", leads)
	}
	one.end()
	last.awaitImage(func() bool { return last.registered(1) == nil })
	got, err := kadm.NewClient(last.cl).FetchOffsets(last.ctx(), "g")
	if o, ok := got.Lookup("t", 0); err != nil || !ok || o.At != 7 {
		t.Errorf("%+v, %v", got, err)
	}
}

// grown: every partition of the offsets topic has so many replicas, all in sync.
func grown(p *process, replicas int) bool {
	topic, ok := p.image().Topic(api.OffsetsTopic)
	if !ok {
		return false
	}
	for _, s := range topic.Partitions {
		if s.Reassigning() || len(s.Replicas) != replicas || len(s.ISR) != replicas {
			return false
		}
	}
	return true
}
