package plan

import (
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// Holding counts what a broker that is leaving has not given up yet: partitions
// that it leads, and others in whose ISR it is (safety 35). It waits until there
// are none, for as long as a shutdown may take. What nobody else could take over
// is not counted: no other broker that stays has a replica of it.
func Holding(img *meta.Image, node kafka.NodeID) (leads, inSync int) {
	for p := range img.PartitionsNaming(node) {
		could := slices.ContainsFunc(p.Replicas, func(r meta.Replica) bool {
			b, ok := img.Broker(r.Node)
			return ok && r.Node != node && !b.Leaving && b.Serves(r.Dir)
		})
		_, in := p.InSync(node)
		switch {
		case !could:
		case p.Leader == node:
			leads++
		case in:
			inSync++
		}
	}
	return leads, inSync
}
