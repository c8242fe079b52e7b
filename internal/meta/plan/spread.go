package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// Host is a broker that replicas can stand on.
type Host struct {
	Node kafka.NodeID
	Rack string // "": none
}

// Held is a partition and the brokers that hold it, the preferred leader first.
type Held struct {
	Topic     string
	Partition int32
	Replicas  []kafka.NodeID
}

// Spread gives every partition replicas among hosts, as many as it has, the way
// that a new topic gets them: leaders and replicas even, and racks apart unless
// flat. Each topic begins where the one before it ended.
func Spread(hosts []Host, parts []Held, flat bool) ([]Held, error) {
	brokers := make([]*meta.Broker, 0, len(hosts))
	for _, h := range hosts {
		b := &meta.Broker{ID: h.Node, Rack: h.Rack}
		if flat {
			b.Rack = ""
		}
		brokers = append(brokers, b)
	}
	slices.SortFunc(brokers, func(a, b *meta.Broker) int { return cmp.Compare(a.ID, b.ID) })
	out := sortedHeld(parts)
	for n := range out {
		factor := len(out[n].Replicas)
		if factor > len(brokers) {
			return nil, fmt.Errorf("partition %s-%d has %d replicas, and there are %d brokers to hold them", out[n].Topic, out[n].Partition, factor, len(brokers))
		}
		start := max(n-int(out[n].Partition), 0) // of the topic's partition 0
		out[n].Replicas = place(brokers, uint64(start), out[n].Partition, 1, factor)[0]
	}
	return out, nil
}

func sortedHeld(parts []Held) []Held {
	out := slices.Clone(parts)
	slices.SortFunc(out, func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

// Drain gives the partitions that a broker holds to others among hosts, each in
// its place among the replicas, and leaves all else as it is. Who gets one is
// in a rack that holds no other replica of it, where there is such a host; of
// those, one that holds fewest, of the preferred leaders when it is one. Only
// what changes is returned.
func Drain(hosts []Host, parts []Held, away kafka.NodeID) ([]Held, error) {
	d := drain{leads: map[kafka.NodeID]int{}, holds: map[kafka.NodeID]int{}, racks: map[kafka.NodeID]string{}}
	racked := !slices.ContainsFunc(hosts, func(h Host) bool { return h.Rack == "" })
	for _, h := range hosts {
		if racked {
			d.racks[h.Node] = h.Rack
		}
		if h.Node != away {
			d.hosts = append(d.hosts, h)
		}
	}
	slices.SortFunc(d.hosts, func(a, b Host) int { return cmp.Compare(a.Node, b.Node) })
	all := sortedHeld(parts)
	for _, p := range all {
		d.count(p.Replicas)
	}
	var out []Held
	for _, p := range all {
		at := slices.Index(p.Replicas, away)
		if at < 0 {
			continue
		}
		to, ok := d.heir(p, at)
		if !ok {
			return nil, fmt.Errorf("partition %s-%d has a replica on every broker: there is no other that could hold it", p.Topic, p.Partition)
		}
		p.Replicas = slices.Clone(p.Replicas)
		p.Replicas[at] = to
		d.holds[to]++
		if at == 0 {
			d.leads[to]++
		}
		out = append(out, p)
	}
	return out, nil
}

type drain struct {
	hosts        []Host // without the one that is drained
	racks        map[kafka.NodeID]string
	leads, holds map[kafka.NodeID]int
}

func (d *drain) count(replicas []kafka.NodeID) {
	for n, r := range replicas {
		d.holds[r]++
		if n == 0 {
			d.leads[r]++
		}
	}
}

// heir is the host that takes the replica at a place.
func (d *drain) heir(p Held, at int) (kafka.NodeID, bool) {
	taken := map[string]bool{}
	for n, r := range p.Replicas {
		if rack, ok := d.racks[r]; ok && n != at {
			taken[rack] = true
		}
	}
	var can []Host
	for _, h := range d.hosts {
		if !slices.Contains(p.Replicas, h.Node) {
			can = append(can, h)
		}
	}
	if len(can) == 0 {
		return 0, false
	}
	crowded := func(h Host) int {
		if rack, ok := d.racks[h.Node]; ok && taken[rack] {
			return 1
		}
		return 0
	}
	return slices.MinFunc(can, func(a, b Host) int {
		led := 0
		if at == 0 {
			led = cmp.Compare(d.leads[a.Node], d.leads[b.Node])
		}
		return cmp.Or(crowded(a)-crowded(b), led, cmp.Compare(d.holds[a.Node], d.holds[b.Node]), cmp.Compare(a.Node, b.Node))
	}).Node, true
}
