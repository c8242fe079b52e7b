package plan

import (
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// DirMove says that a broker's copy of a partition, whole, is in another
// directory than before: To goes on where From ended.
type DirMove struct {
	Partition meta.PartitionID
	From, To  kafka.DirID
}

// MoveDirs plans that states name the directories that node's logs moved to,
// as replica, in the ISR and among the eligible: who joined with the old one
// has the same log in the new one. States that do not name From are left out.
// With brokerEpoch 0 node is not registered yet: it moves before it registers.
// Refusal: STALE_BROKER_EPOCH.
func MoveDirs(img *meta.Image, node kafka.NodeID, brokerEpoch int64, moves []DirMove) ([]Batch, error) {
	var own []kv.Cmp
	if brokerEpoch != 0 {
		b, err := registered(img, node, brokerEpoch)
		if err != nil {
			return nil, err
		}
		own = []kv.Cmp{kv.CreatedAt(img.Keys().Broker(b.ID), b.Epoch)}
	}
	var changes []Change
	for _, m := range moves {
		t, p, ok := img.Partition(m.Partition)
		if !ok {
			continue
		}
		next := p.Clone()
		for _, rs := range [][]meta.Replica{next.Replicas, next.ISR, next.Eligible} {
			for n, r := range rs {
				if r.Node == node && r.Dir == m.From {
					rs[n].Dir = m.To
				}
			}
		}
		if slices.Equal(next.Replicas, p.Replicas) && slices.Equal(next.ISR, p.ISR) && slices.Equal(next.Eligible, p.Eligible) {
			continue
		}
		if len(eligible(img, t, p)) == 0 {
			next.Eligible = nil
		}
		changes = append(changes, Change{Next: next, If: assumed(img, t, p, next)})
	}
	return Batches(img.Keys(), own, changes), nil
}
