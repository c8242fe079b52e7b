//go:build unix

package brokertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// One node with data grows to three and to five brokers under clients. One of
// them is drained and goes; one that lost its disk is replaced by an empty one
// under the same number, another one by one under a new number. Nothing that was
// acknowledged is lost on the way.
func TestGrowth(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fleet) {
		const join = "controller.quorum.auto.join.enable=true"
		f.alone(1)
		f.tool("topic create history -p 4 -r 1")
		h := f.history("history", 4)

		one, three := []int{1}, []int{1, 2, 3}
		f.stop(1)
		f.votes(1, one)
		f.joins(4, 1) // beside the only voter
		f.brokers(1, 4)
		h.grows()

		f.stop(1)
		f.votes(1, three)
		f.votes(2, three, join)
		f.votes(3, three, join)
		f.quorum(1, 2, 3)
		f.brokers(1, 2, 3, 4)
		f.spread("history", 1, 2, 3)
		f.tool("config set topic/history min.insync.replicas=2")
		h.grows()

		f.joins(5, 2)
		f.brokers(1, 2, 3, 4, 5)
		f.spread("history", 1, 2, 3, 4, 5)
		f.whole("__consumer_offsets", 3) // by itself
		h.grows()

		f.drain(4)
		f.stop(4)
		f.brokers(1, 2, 3, 5)
		h.grows()

		f.lose(2) // its disk is gone: an empty one takes its number and its vote
		h.grows()
		f.votes(2, three, join)
		f.quorum(1, 2, 3)
		f.whole("history", 3)
		h.grows()

		f.lose(3) // and this one is replaced by another number
		h.grows()
		if !f.external {
			f.tool("cluster quorum remove 3 --yes")
		}
		f.votes(6, []int{1, 2, 6}, join)
		f.quorum(1, 2, 6)
		f.brokers(1, 2, 5, 6)
		f.drain(3) // what the lost one held
		f.whole("history", 3, 1, 2, 5, 6)
		f.whole("__consumer_offsets", 3, 1, 2, 5, 6)
		f.nodes[1].proc.kill() // nothing is left that only the first has
		f.brokers(2, 5, 6)
		h.grows()
		h.judge()
	})
}

// drain moves all that a broker holds to others.
func (f *fleet) drain(broker int) {
	f.t.Helper()
	f.tool(fmt.Sprintf("cluster drain %d --yes", broker))
	f.until("drained", func(ctx context.Context) error {
		d, err := f.adm.ListTopicsWithInternal(ctx)
		if err != nil {
			return err
		}
		var left []string
		for _, topic := range d {
			for _, p := range topic.Partitions {
				for _, r := range p.Replicas {
					if int(r) == broker {
						left = append(left, fmt.Sprintf("%s-%d", p.Topic, p.Partition))
					}
				}
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("broker %d holds %s", broker, strings.Join(left, " "))
		}
		return nil
	})
}
