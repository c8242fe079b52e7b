package plan

import (
	"cmp"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// Raise plans that the partitions of a topic get more replicas, up to factor, on
// the brokers that take some: by ordinary reassignments. Those that came go where
// fewest are, and racks stay apart; who is to lead is chosen anew, so that a topic
// that was made by a single broker is led by all. Partitions that move already,
// and those without a leader, wait for that.
func Raise(img *meta.Image, topic string, factor int) []Change {
	t, ok := img.Topic(topic)
	if !ok {
		return nil
	}
	d := drain{leads: map[kafka.NodeID]int{}, holds: map[kafka.NodeID]int{}, racks: map[kafka.NodeID]string{}}
	racked := true
	for _, b := range img.Brokers() {
		if b.Leaving || !b.HasRoom() {
			continue
		}
		d.hosts = append(d.hosts, Host{b.ID, b.Rack})
		racked = racked && b.Rack != ""
	}
	slices.SortFunc(d.hosts, func(a, b Host) int { return cmp.Compare(a.Node, b.Node) })
	if racked {
		for _, h := range d.hosts {
			d.racks[h.Node] = h.Rack
		}
	}
	for _, p := range t.Partitions {
		d.count(targetNodes(p))
	}
	var out []Change
	for _, p := range t.Partitions {
		if p.Reassigning() || p.Leader < 0 || len(p.Replicas) >= factor {
			continue
		}
		to := d.raise(targetNodes(p), factor)
		c, ok, err := Reassign(img, Reassignment{Topic: topic, Partition: p.Partition, Replicas: to})
		if err == nil && ok && len(to) > len(p.Replicas) {
			out = append(out, c)
		}
	}
	return out
}

func targetNodes(p *meta.Partition) []kafka.NodeID {
	var out []kafka.NodeID
	for _, r := range p.Target() {
		out = append(out, r.Node)
	}
	return out
}

// raise adds replicas to one partition's, and puts first who leads fewest.
func (d *drain) raise(replicas []kafka.NodeID, factor int) []kafka.NodeID {
	was := len(replicas)
	for len(replicas) < factor {
		to, ok := d.heir(Held{Replicas: replicas}, len(replicas))
		if !ok {
			break
		}
		replicas = append(replicas, to)
		d.holds[to]++
	}
	if len(replicas) == was {
		return replicas
	}
	first := 0
	d.leads[replicas[0]]--
	for n, r := range replicas {
		if d.leads[r] < d.leads[replicas[first]] {
			first = n
		}
	}
	d.leads[replicas[first]]++
	replicas[0], replicas[first] = replicas[first], replicas[0]
	return replicas
}
