package plan

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// TestPlace: replicas are distinct, leaders are spread evenly, partitions that
// are added later stand where they would have stood at once, and no rack has
// two replicas while another has none.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(rt, "brokers")
		racks := rapid.IntRange(0, 4).Draw(rt, "racks")
		var bs []*meta.Broker
		kinds := map[string]bool{}
		rackOf := map[kafka.NodeID]string{}
		for i := range n {
			b := &meta.Broker{ID: kafka.NodeID(i * 3)}
			if racks > 0 {
				b.Rack = fmt.Sprint("r", rapid.IntRange(1, racks).Draw(rt, "rack"))
				kinds[b.Rack] = true
			}
			rackOf[b.ID] = b.Rack
			bs = append(bs, b)
		}
		factor := rapid.IntRange(1, n).Draw(rt, "factor")
		count := rapid.Int32Range(1, 40).Draw(rt, "partitions")
		start := rapid.Uint64().Draw(rt, "start")
		all := place(bs, start, 0, count, factor)
		leads := map[kafka.NodeID]int{}
		for p, rs := range all {
			leads[rs[0]]++
			seen, used := map[kafka.NodeID]bool{}, map[string]bool{}
			for _, r := range rs {
				if seen[r] {
					rt.Fatalf("partition %d has %v", p, rs)
				}
				seen[r] = true
				used[rackOf[r]] = true
			}
			if len(rs) != factor || racks > 0 && len(used) != min(factor, len(kinds)) {
				rt.Fatalf("partition %d has %v in %d racks of %d", p, rs, len(used), len(kinds))
			}
		}
		for _, b := range bs {
			if l := leads[b.ID]; l < int(count)/n || l > (int(count)+n-1)/n {
				rt.Fatalf("broker %d leads %d of %d partitions among %d brokers", b.ID, l, count, n)
			}
		}
		cut := rapid.Int32Range(0, count).Draw(rt, "cut")
		if got, want := fmt.Sprint(append(place(bs, start, 0, cut, factor), place(bs, start, cut, count-cut, factor)...)), fmt.Sprint(all); got != want {
			rt.Fatalf("in two parts %s, at once %s", got, want)
		}
	})
}
