package config

import (
	"reflect"
	"testing"
	"time"
)

func TestGroups(t *testing.T) {
	g := must(t, nil).Groups()
	want := Groups{
		Protocols: []string{"classic", "consumer", "streams"}, MinSession: 6 * time.Second, MaxSession: 30 * time.Minute,
		InitialRebalanceDelay: 3 * time.Second, MaxSize: 1<<31 - 1,
		ConsumerMaxSize: 1<<31 - 1, ConsumerAssignors: []string{"uniform", "range"}, ConsumerUpgrade: true, ConsumerDowngrade: true,
		ConsumerRegexEvery: 10 * time.Minute,
		Session:            Bounded{45 * time.Second, 45 * time.Second, 60 * time.Second},
		Heartbeat:          Bounded{5 * time.Second, 5 * time.Second, 15 * time.Second},
		AssignmentInterval: Bounded{time.Second, 0, 15 * time.Second},
		Offsets: Offsets{
			Partitions: 50, Replicas: 3, SegmentBytes: 100 << 20, LoadBytes: 5 << 20, CommitTimeout: 5 * time.Second,
			MetadataMax: 4096, Retention: 7 * 24 * time.Hour, RetentionCheck: 10 * time.Minute,
		},
	}
	if !reflect.DeepEqual(g, want) {
		t.Errorf("%+v\nwant\n%+v", g, want)
	}
	for policy, c := range map[string][2]bool{"disabled": {}, "Upgrade": {true, false}, "DOWNGRADE": {false, true}, "bidirectional": {true, true}} {
		g := must(t, map[string]string{"group.consumer.migration.policy": policy}).Groups()
		if g.ConsumerUpgrade != c[0] || g.ConsumerDowngrade != c[1] {
			t.Errorf("%s: upgrade %v, downgrade %v", policy, g.ConsumerUpgrade, g.ConsumerDowngrade)
		}
	}
	g = must(t, map[string]string{"offsets.topic.segment.bytes": "1048576"}).Groups()
	if c := g.Offsets.TopicConfig(); c["segment.bytes"] != "4194304" || c["cleanup.policy"] != "compact" || c["compression.type"] != "producer" {
		t.Errorf("%v", c)
	}
}
