package plan

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// MorePartitions is the wish that a topic have Count partitions in all.
type MorePartitions struct {
	Topic   string
	Count   int32
	Manual  [][]kafka.NodeID // nil: placed; else the replicas of each new one
	Start   uint64           // random; used when partition 0 does not say where placement began
	Creator Creator
}

// AddPartitions plans more partitions of a topic (safety 29). Refusals:
// UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT,
// INVALID_REPLICATION_FACTOR, POLICY_VIOLATION.
func AddPartitions(img *meta.Image, r MorePartitions) (*Making, error) {
	t, ok := img.Topic(r.Topic)
	if !ok {
		return nil, refuse(kerr.UnknownTopicOrPartition, "%s", kerr.UnknownTopicOrPartition.Description)
	}
	have := int32(len(t.Partitions))
	switch {
	case r.Count == have:
		return nil, refuse(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case r.Count < have:
		return nil, refuse(kerr.InvalidPartitions,
			"The topic %s currently has %d partition(s); %d would not be an increase.", r.Topic, have, r.Count)
	case r.Count-have > MaxPartitions:
		return nil, tooMany()
	}
	if _, busy := img.Pending(t.ID); busy {
		return nil, refuse(kerr.ReassignmentInProgress, "partitions of topic %s are being added already", r.Topic)
	}
	replicas, err := r.replicas(img, t)
	if err != nil {
		return nil, err
	}
	m := &Making{topic: t, keys: img.Keys(), before: have, token: r.Creator.Token}
	var over []kv.Cmp
	for n, nodes := range replicas {
		id := meta.PartitionID{Topic: t.ID, Partition: have + int32(n)}
		p, ok := fresh(img, id, nodes)
		if !ok && r.Manual != nil {
			return nil, noneActive(int(id.Partition))
		}
		if !ok {
			return nil, placeable(nil, len(nodes))
		}
		m.Partitions = append(m.Partitions, p)
		left := int64(0)
		if s := img.State(id); s != nil {
			left = s.PartitionEpoch // of somebody who did not finish
		}
		over = append(over, kv.ModIs(m.keys.State(id.Topic, id.Partition), left))
	}
	same := []kv.Cmp{kv.ModIs(m.keys.Topic(t.Name), t.ModRev)}
	last := []kv.Op{kv.PutOp(m.keys.Topic(t.Name), t.Encode(m.count()), 0)}
	m.compose(img, r.Creator, same, last, over)
	return m, nil
}

func (r *MorePartitions) replicas(img *meta.Image, t *meta.Topic) ([][]kafka.NodeID, error) {
	have := int32(len(t.Partitions))
	factor := len(t.Partitions[0].Target()) // not those that a reassignment takes away
	if r.Manual != nil {
		if len(r.Manual) != int(r.Count-have) {
			return nil, refuse(kerr.InvalidReplicaAssignment,
				"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", r.Count-have, len(r.Manual))
		}
		for _, nodes := range r.Manual {
			if err := checkManual(img, nodes, factor, nil); err != nil {
				return nil, err
			}
		}
		return r.Manual, nil
	}
	brokers := active(img)
	if err := placeable(brokers, factor); err != nil {
		return nil, err
	}
	start := r.Start
	nodes, _ := arrange(brokers)
	if n := slices.Index(nodes, t.Partitions[0].Replicas[0].Node); n >= 0 {
		start = uint64(n)
	}
	return place(brokers, start, have, r.Count-have, factor), nil
}
