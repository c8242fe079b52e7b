package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// balanceProofs are of keys that give leadership back to preferred replicas.
func balanceProofs() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"leader.imbalance.check.interval.seconds": func(t *testing.T) {
			// Longer than the controller's loop looks again at what it could not make.
			p, led := imbalanced(t, "leader.imbalance.check.interval.seconds=4")
			p.awaitImage(func() bool { return led().Leader == 2 }) // by the clock alone: nothing else changes
		},
		"auto.leader.rebalance.enable": func(t *testing.T) {
			p, led := imbalanced(t, "leader.imbalance.check.interval.seconds=1", "auto.leader.rebalance.enable=false")
			img := p.b.parts.keeper.Image
			began := time.Now()
			for n := 0; time.Since(began) < 2500*time.Millisecond; n++ {
				c, ok, err := plan.ConfigureTopic(img(), "t", plan.ConfigChange{Set: map[string]string{"retention.ms": fmt.Sprint(1000 + n)}})
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				res, err := txn(p.ctx(), p.b.parts.store, c)
				if err == nil {
					err = p.b.parts.keeper.Await(p.ctx(), res.Rev)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if led().Leader != 1 {
				t.Errorf("led by %d, although nobody gives leadership back", led().Leader)
			}
		},
		"unclean.leader.election.enable": func(t *testing.T) {
			p, led := lastMemberGone(t, "unclean.leader.election.enable=true")
			p.awaitImage(func() bool { return led().Leader == 1 })
		},
	}
}

// lastMemberGone starts a broker with a replica out of sync of a partition whose
// only member in sync is gone.
func lastMemberGone(t *testing.T, set ...string) (*process, func() *meta.Partition) {
	t.Helper()
	p, _ := serving(t, set...)
	parts := &p.b.parts
	neighbour(t, parts.keeper, parts.store, 2)
	p.placed("t", [][]kafka.NodeID{{2, 1}})
	led := func() *meta.Partition {
		topic, _ := parts.keeper.Image().Topic("t")
		return topic.Partitions[0]
	}
	p.awaitImage(func() bool { return led().Replicas[1].Dir != kafka.DirUnassigned })
	img := parts.keeper.Image()
	joined(t, parts.keeper, parts.store, led(), 2) // alone
	two, _ := img.Broker(2)
	res, err := txn(p.ctx(), parts.store, plan.Unregister(img.Keys(), 2, two.Epoch))
	if err != nil || !res.Succeeded {
		t.Fatal(res.Succeeded, err)
	}
	p.awaitImage(func() bool { return p.registered(2) == nil && led().Leader != 2 })
	return p, led
}

// imbalanced starts a broker that leads a partition which a neighbour should.
func imbalanced(t *testing.T, set ...string) (*process, func() *meta.Partition) {
	t.Helper()
	p, _ := serving(t, set...)
	parts := &p.b.parts
	w := parts.cluster
	led := func() *meta.Partition {
		topic, _ := parts.keeper.Image().Topic("t")
		return topic.Partitions[0]
	}
	p.createTopic("t", 1)
	neighbour(t, parts.keeper, parts.store, 2)
	errs := w.Reassign(p.ctx(), []plan.Reassignment{{Topic: "t", Partition: 0, Replicas: []kafka.NodeID{2, 1}}})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	// The directory is named by this broker, beside what is planned here.
	p.awaitImage(func() bool { return led().Replicas[1].Dir != kafka.DirUnassigned })
	joined(t, parts.keeper, parts.store, led(), 2)
	return p, led
}
