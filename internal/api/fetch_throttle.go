package api

import (
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// held: the follower is not in sync, the topic's settings throttle this leader's
// replicas, and they have had their bytes for now. It is told the marks, and no
// records.
func (f *fetch) held(now time.Time, it *fetchItem) bool {
	if f.replica < 0 || f.Throttle == nil {
		return false
	}
	if it.throttled, _ = it.part.Throttled(); !it.throttled {
		return false
	}
	if _, in := it.topic.Partitions[it.partition].InSync(kafka.NodeID(f.replica)); in {
		return false // whoever is in sync is waited for by producers
	}
	return f.Throttle.Wait(now) > 0
}

// charge counts what goes out against the throttle.
func (f *fetch) charge(told []*fetchItem) {
	for _, it := range told {
		if it.throttled {
			f.Throttle.Took(it.read.SizeBytes)
		}
	}
}
