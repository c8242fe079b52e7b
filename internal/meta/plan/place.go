package plan

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// place gives the replicas of partitions first to first+count-1, the preferred
// leader first in each. Replica j of partition i stands on broker (start+i+j)
// mod n for the first n partitions; in each further round of n partitions the
// followers are shifted by one more, so that no two brokers share all their
// partitions. With racks, brokers are first ordered so that racks alternate,
// and a rack is used a second time only when each was used once.
func place(brokers []*meta.Broker, start uint64, first, count int32, factor int) [][]kafka.NodeID {
	nodes, racks := arrange(brokers)
	n := len(nodes)
	base := int(start % uint64(n))
	kinds := map[string]bool{}
	for _, r := range racks {
		kinds[r] = true
	}
	out := make([][]kafka.NodeID, 0, count)
	for i := int(first); i < int(first)+int(count); i++ {
		lead := (base + i) % n
		replicas := []kafka.NodeID{nodes[lead]}
		used := map[string]bool{racks[lead]: true}
		for j := 0; len(replicas) < factor; j++ {
			at := (lead + 1 + (i/n+j)%(n-1)) % n
			if slices.Contains(replicas, nodes[at]) || used[racks[at]] && len(used) < len(kinds) {
				continue
			}
			replicas = append(replicas, nodes[at])
			used[racks[at]] = true
		}
		out = append(out, replicas)
	}
	return out
}

// arrange orders brokers by id, or, when each has a rack, so that racks
// alternate: the first broker of each rack, then the second of each. Without
// racks each broker is a rack of its own.
func arrange(brokers []*meta.Broker) (nodes []kafka.NodeID, racks []string) {
	byRack := map[string][]kafka.NodeID{}
	for _, b := range brokers {
		rack := b.Rack
		if slices.ContainsFunc(brokers, func(b *meta.Broker) bool { return b.Rack == "" }) {
			rack = b.ID.String()
		}
		byRack[rack] = append(byRack[rack], b.ID)
	}
	names := slices.Sorted(maps.Keys(byRack))
	if len(names) == len(brokers) {
		// One broker a rack: the order of ids, which names of racks do not follow.
		slices.SortFunc(names, func(a, b string) int { return int(byRack[a][0]) - int(byRack[b][0]) })
	}
	for round := 0; len(nodes) < len(brokers); round++ {
		for _, rack := range names {
			if round < len(byRack[rack]) {
				nodes = append(nodes, byRack[rack][round])
				racks = append(racks, rack)
			}
		}
	}
	return nodes, racks
}

// active are the brokers that may get new replicas: those that stay, and have
// a directory that is not cordoned.
func active(img *meta.Image) []*meta.Broker {
	var out []*meta.Broker
	for _, b := range img.Brokers() {
		if !b.Leaving && b.HasRoom() {
			out = append(out, b)
		}
	}
	return out
}

// placeable refuses a replication factor that the live brokers cannot carry.
func placeable(brokers []*meta.Broker, factor int) error {
	switch {
	case len(brokers) == 0:
		return refuse(kerr.InvalidReplicationFactor,
			"Unable to replicate the partition %d time(s): All brokers are currently fenced, or have all their log directories cordoned.", factor)
	case factor > len(brokers):
		return refuse(kerr.InvalidReplicationFactor,
			"Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d broker(s) are registered or some brokers have all their log directories cordoned.",
			factor, factor, len(brokers))
	}
	return nil
}

// ManualAssignment is the replicas that somebody wants for one partition.
type ManualAssignment struct {
	Partition int32
	Replicas  []kafka.NodeID
}

// checkManual refuses replicas that cannot be; factor 0 accepts any number. Who
// holds a replica of p, nil for none, is accepted as it is.
func checkManual(img *meta.Image, replicas []kafka.NodeID, factor int, p *meta.Partition) error {
	if len(replicas) == 0 {
		return refuse(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for n, node := range sorted {
		b, ok := img.Broker(node)
		holds := false
		if p != nil {
			_, holds = p.Replica(node)
		}
		if !ok && !holds {
			return refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes broker %d, but no such broker is registered.", node)
		}
		if ok && !b.HasRoom() {
			return refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes broker %d, but all its log directories are cordoned.", node)
		}
		if n > 0 && sorted[n-1] == node {
			return refuse(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes the broker %d more than once.", node)
		}
	}
	if factor != 0 && len(replicas) != factor {
		return refuse(kerr.InvalidReplicaAssignment,
			"The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).",
			len(replicas), factor)
	}
	return nil
}

// fresh is the first state of a new partition: led by the first replica that
// is active, with every active one in the ISR, and no directory assigned until
// a broker has one for it (safety 3). ok is false when none is active.
func fresh(img *meta.Image, id meta.PartitionID, replicas []kafka.NodeID) (p *meta.Partition, ok bool) {
	p = &meta.Partition{
		Topic: id.Topic, Partition: id.Partition, Leader: kafka.NoNode, LastKnownLeader: kafka.NoNode,
		ControllerEpoch: img.ControllerEpoch(),
	}
	for _, node := range replicas {
		r := meta.Replica{Node: node}
		p.Replicas = append(p.Replicas, r)
		b, there := img.Broker(node)
		if !there || b.Leaving {
			continue
		}
		p.ISR = append(p.ISR, r)
		if p.Leader < 0 {
			p.Leader, p.LeaderBrokerEpoch = node, b.Epoch
		}
	}
	return p, p.Leader >= 0
}
