package meta

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Replica is a broker and the directory that holds its copy.
type Replica struct {
	Node kafka.NodeID
	Dir  kafka.DirID
}

// PartitionID names a partition for the life of its topic.
type PartitionID struct {
	Topic     kafka.TopicID
	Partition int32
}

func (p PartitionID) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Compare orders by topic id, then number.
func (p PartitionID) Compare(q PartitionID) int {
	return cmp.Or(slices.Compare(p.Topic[:], q.Topic[:]), cmp.Compare(p.Partition, q.Partition))
}

// Partition is /topics/<id>/partitions/<p>/state. It is not changed once it is
// part of an image: Clone it to plan another state.
//
// ISR and Eligible name the directory that joined, which need not be the one
// the broker has now (safety 3). ISR is never empty: the last member stays,
// with Leader -1 when it is not there.
type Partition struct {
	Topic             kafka.TopicID
	Partition         int32
	Replicas          []Replica
	Adding, Removing  []kafka.NodeID
	Leader            kafka.NodeID
	LeaderBrokerEpoch int64 // 0 without a leader
	LeaderEpoch       kafka.LeaderEpoch
	ISR               []Replica
	Eligible          []Replica // eligible leader replicas, KIP-966
	LastKnownLeader   kafka.NodeID
	ControllerEpoch   int32
	PartitionEpoch    int64 // mod revision of the key

	extra extra
}

// ID of the partition.
func (p *Partition) ID() PartitionID { return PartitionID{p.Topic, p.Partition} }

// Clone copies p deeply.
func (p *Partition) Clone() *Partition {
	q := *p
	q.Replicas = slices.Clone(p.Replicas)
	q.Adding = slices.Clone(p.Adding)
	q.Removing = slices.Clone(p.Removing)
	q.ISR = slices.Clone(p.ISR)
	q.Eligible = slices.Clone(p.Eligible)
	return &q
}

// Replica finds node among the replicas.
func (p *Partition) Replica(node kafka.NodeID) (Replica, bool) { return find(p.Replicas, node) }

// InSync finds node in the ISR.
func (p *Partition) InSync(node kafka.NodeID) (Replica, bool) { return find(p.ISR, node) }

// Reassigning says whether p is on its way to other replicas (KIP-455).
func (p *Partition) Reassigning() bool { return len(p.Adding)+len(p.Removing) > 0 }

// Target is the replicas that p has when its reassignment is over.
func (p *Partition) Target() []Replica {
	return slices.DeleteFunc(slices.Clone(p.Replicas), func(r Replica) bool { return slices.Contains(p.Removing, r.Node) })
}

// Counted is the number of replicas that min.insync.replicas is bounded by:
// those that are being added do not count, or a topic of one replica could not
// be written from the moment that it gets more (safety 30).
func (p *Partition) Counted() int {
	n := 0
	for _, r := range p.Replicas {
		if !slices.Contains(p.Adding, r.Node) {
			n++
		}
	}
	return max(n, 1)
}

func find(rs []Replica, node kafka.NodeID) (Replica, bool) {
	for _, r := range rs {
		if r.Node == node {
			return r, true
		}
	}
	return Replica{}, false
}

// nodes lists every broker that p names as leader, in the ISR or as eligible:
// those whose coming and going concern the controller.
func (p *Partition) nodes() []kafka.NodeID {
	out := make([]kafka.NodeID, 0, len(p.ISR)+len(p.Eligible)+1)
	if p.Leader >= 0 {
		out = append(out, p.Leader)
	}
	for _, rs := range [2][]Replica{p.ISR, p.Eligible} {
		for _, r := range rs {
			if !slices.Contains(out, r.Node) {
				out = append(out, r.Node)
			}
		}
	}
	return out
}

type partitionValue struct {
	Version           int            `json:"version"`
	Replicas          []replicaValue `json:"replicas"`
	Adding            []kafka.NodeID `json:"adding,omitempty"`
	Removing          []kafka.NodeID `json:"removing,omitempty"`
	Leader            kafka.NodeID   `json:"leader"`
	LeaderBrokerEpoch int64          `json:"leader_broker_epoch"`
	LeaderEpoch       int32          `json:"leader_epoch"`
	ISR               []replicaValue `json:"isr"`
	Eligible          []replicaValue `json:"eligible_leaders,omitempty"`
	LastKnownLeader   kafka.NodeID   `json:"last_known_leader"`
	ControllerEpoch   int32          `json:"controller_epoch"`
}

// replicaValue leaves an unassigned directory out.
type replicaValue struct {
	ID  kafka.NodeID `json:"id"`
	Dir kafka.DirID  `json:"dir,omitzero"`
}

var partitionSchema = schemaOf[partitionValue](1)

func (*partitionValue) schema() *schema { return partitionSchema }

// Encode gives the value to store.
func (p *Partition) Encode() []byte {
	return encode(&partitionValue{
		Version:           partitionSchema.version,
		Replicas:          toValues(p.Replicas),
		Adding:            p.Adding,
		Removing:          p.Removing,
		Leader:            p.Leader,
		LeaderBrokerEpoch: p.LeaderBrokerEpoch,
		LeaderEpoch:       int32(p.LeaderEpoch),
		ISR:               toValues(p.ISR),
		Eligible:          toValues(p.Eligible),
		LastKnownLeader:   p.LastKnownLeader,
		ControllerEpoch:   p.ControllerEpoch,
	}, p.extra)
}

func decodePartition(id PartitionID, e kv.KV) (*Partition, error) {
	v := partitionValue{Leader: kafka.NoNode, LastKnownLeader: kafka.NoNode}
	x, err := decode(e.Value, &v)
	if err != nil {
		return nil, err
	}
	p := &Partition{
		Topic:             id.Topic,
		Partition:         id.Partition,
		Replicas:          fromValues(v.Replicas),
		Adding:            noEmpty(v.Adding),
		Removing:          noEmpty(v.Removing),
		Leader:            v.Leader,
		LeaderBrokerEpoch: v.LeaderBrokerEpoch,
		LeaderEpoch:       kafka.LeaderEpoch(v.LeaderEpoch),
		ISR:               fromValues(v.ISR),
		Eligible:          fromValues(v.Eligible),
		LastKnownLeader:   v.LastKnownLeader,
		ControllerEpoch:   v.ControllerEpoch,
		PartitionEpoch:    e.ModRev,
		extra:             x,
	}
	return p, p.check()
}

// check holds what every planned state holds, so that nobody downstream has to
// ask again.
func (p *Partition) check() error {
	switch {
	case len(p.Replicas) == 0:
		return errors.New("no replicas")
	case len(p.ISR) == 0:
		return errors.New("empty isr: its last member never leaves")
	case p.LeaderEpoch < 0:
		return fmt.Errorf("leader_epoch %d is negative", p.LeaderEpoch)
	case p.Leader < kafka.NoNode:
		return fmt.Errorf("leader %d", p.Leader)
	}
	if p.Leader >= 0 {
		if _, ok := p.InSync(p.Leader); !ok {
			return fmt.Errorf("leader %d is not in the isr", p.Leader)
		}
	}
	seen := make([]kafka.NodeID, 0, len(p.Replicas))
	for _, r := range p.Replicas {
		if r.Node < 0 || slices.Contains(seen, r.Node) {
			return fmt.Errorf("replica %d is negative or stands twice", r.Node)
		}
		seen = append(seen, r.Node)
	}
	for _, n := range slices.Concat(p.Adding, p.Removing) {
		if _, ok := p.Replica(n); !ok {
			return fmt.Errorf("adding or removing name %d, which is no replica", n)
		}
	}
	if len(p.Target()) == 0 {
		return errors.New("every replica is being removed")
	}
	seen = seen[:0]
	for _, rs := range [2][]Replica{p.ISR, p.Eligible} {
		for _, r := range rs {
			if _, ok := p.Replica(r.Node); !ok {
				return fmt.Errorf("isr or eligible_leaders name %d, which is no replica", r.Node)
			}
			if slices.Contains(seen, r.Node) {
				return fmt.Errorf("isr and eligible_leaders name %d twice", r.Node)
			}
			seen = append(seen, r.Node)
		}
	}
	return nil
}

func toValues(rs []Replica) []replicaValue {
	out := make([]replicaValue, 0, len(rs))
	for _, r := range rs {
		out = append(out, replicaValue{r.Node, r.Dir})
	}
	return out
}

func fromValues(vs []replicaValue) []Replica {
	var out []Replica
	for _, v := range vs {
		out = append(out, Replica{v.ID, v.Dir})
	}
	return out
}

// noEmpty makes an empty slice nil, so that equal states are equal.
func noEmpty[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}
