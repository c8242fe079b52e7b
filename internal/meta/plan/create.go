package plan

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// kafkaMetadata is Apache Kafka's own metadata log: a directory of that name
// tells its data directories from ours.
const kafkaMetadata = "__cluster_metadata"

// MaxPartitions is how many partitions one request may make, as in Apache
// Kafka.
const MaxPartitions = 10000

// Creator is who makes partitions: a registered broker, the lease of its
// registration, and a random token for the one attempt.
type Creator struct {
	Node        kafka.NodeID
	BrokerEpoch int64
	Lease       int64
	Token       kafka.UUID
}

// NewTopic is the wish for a topic.
type NewTopic struct {
	Name string
	ID   kafka.TopicID // random, and new for each attempt
	// Partitions and Factor: -1 takes the default, and must be -1 beside Manual.
	Partitions        int32
	Factor            int16
	Manual            []ManualAssignment
	Configs           map[string]string // checked already
	DefaultPartitions int32
	DefaultFactor     int16
	Start             uint64 // random: where placement begins
	Creator           Creator
}

// Making is the plan of new partitions: First, then each Step.
type Making struct {
	First kv.Txn
	// Partitions are the new ones' first states.
	Partitions []*meta.Partition

	topic  *meta.Topic
	keys   meta.Keys
	before int32 // partitions that were there
	token  kafka.UUID
	rest   []kv.Txn
}

// CreateTopic plans a topic. Refusals: INVALID_TOPIC_EXCEPTION,
// TOPIC_ALREADY_EXISTS, INVALID_REPLICATION_FACTOR, INVALID_PARTITIONS,
// INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST, POLICY_VIOLATION.
func CreateTopic(img *meta.Image, r NewTopic) (*Making, error) {
	if err := CheckName(r.Name); err != nil {
		return nil, err
	}
	if r.Name == kafkaMetadata {
		return nil, refuse(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", r.Name)
	}
	if err := CheckFree(img, r.Name); err != nil {
		return nil, err
	}
	replicas, err := r.replicas(img)
	if err != nil {
		return nil, err
	}
	m := &Making{topic: &meta.Topic{Name: r.Name, ID: r.ID}, keys: img.Keys(), token: r.Creator.Token}
	for n, nodes := range replicas {
		p, ok := fresh(img, meta.PartitionID{Topic: r.ID, Partition: int32(n)}, nodes)
		if !ok {
			return nil, r.noneActive(n)
		}
		m.Partitions = append(m.Partitions, p)
	}
	free := []kv.Cmp{kv.Absent(m.keys.Topic(r.Name)), kv.Absent(m.keys.TopicConfig(r.Name))}
	last := []kv.Op{kv.PutOp(m.keys.Topic(r.Name), m.topic.Encode(m.count()), 0)}
	if meta.Collides(r.Name) {
		free = append(free, kv.Absent(m.keys.Name(r.Name)))
		last = append(last, kv.PutOp(m.keys.Name(r.Name), meta.Claim(r.Name), 0))
	}
	if len(r.Configs) > 0 {
		last = append(last, kv.PutOp(m.keys.TopicConfig(r.Name), meta.Config{}.Encode(r.Configs), 0))
	}
	m.compose(img, r.Creator, free, last, nil)
	return m, nil
}

func (r *NewTopic) replicas(img *meta.Image) ([][]kafka.NodeID, error) {
	if len(r.Manual) > 0 {
		return r.manual(img)
	}
	switch {
	case r.Factor < -1 || r.Factor == 0:
		return nil, refuse(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case r.Partitions < -1 || r.Partitions == 0:
		return nil, refuse(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	count, factor := r.Partitions, int(r.Factor)
	if count == -1 {
		count = r.DefaultPartitions
	}
	if factor == -1 {
		factor = int(r.DefaultFactor)
	}
	if count > MaxPartitions {
		return nil, tooMany()
	}
	brokers := active(img)
	if err := placeable(brokers, factor); err != nil {
		return nil, err
	}
	return place(brokers, r.Start, 0, count, factor), nil
}

func tooMany() error {
	return refuse(kerr.PolicyViolation, "Excessively large number of partitions per request.")
}

func (r *NewTopic) manual(img *meta.Image) ([][]kafka.NodeID, error) {
	if r.Factor != -1 {
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if r.Partitions != -1 {
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	if len(r.Manual) > MaxPartitions {
		return nil, tooMany()
	}
	out := make([][]kafka.NodeID, len(r.Manual))
	factor, gap := 0, false
	seen := map[int32]bool{}
	for _, a := range r.Manual {
		if seen[a.Partition] {
			return nil, refuse(kerr.InvalidReplicaAssignment,
				"Found multiple manual partition assignments for partition %d", a.Partition)
		}
		seen[a.Partition] = true
		if err := checkManual(img, a.Replicas, factor, nil); err != nil {
			return nil, err
		}
		factor = len(a.Replicas)
		if a.Partition < 0 || int(a.Partition) >= len(out) {
			gap = true
			continue
		}
		out[a.Partition] = a.Replicas
	}
	if gap {
		return nil, refuse(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
	}
	return out, nil
}

func (r *NewTopic) noneActive(partition int) error {
	if len(r.Manual) > 0 {
		return noneActive(partition)
	}
	return placeable(nil, int(r.Factor))
}

func noneActive(partition int) error {
	return refuse(kerr.InvalidReplicaAssignment,
		"All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", partition)
}

func (m *Making) count() int32 { return m.before + int32(len(m.Partitions)) }

// compose makes the transactions. free is what must hold before anything is
// written and again at the end, last what is written at the end, over the
// revisions of states that are overwritten (nil: there can be none).
func (m *Making) compose(img *meta.Image, by Creator, free []kv.Cmp, last []kv.Op, over []kv.Cmp) {
	pendingKey := m.keys.Pending(m.topic.ID)
	reads := []kv.Op{kv.GetOp(m.keys.Topic(m.topic.Name)), kv.GetOp(m.keys.Name(m.topic.Name)), kv.GetOp(pendingKey)}
	finish := kv.Txn{If: slices.Clone(free), Then: slices.Clone(last), Else: reads}

	single := finish
	single.If = append(slices.Clone(single.If), kv.Absent(pendingKey))
	if m.addStates(&single, img, m.Partitions, over) == len(m.Partitions) {
		m.First = single
		return
	}
	pending := meta.Pending{
		Name: m.topic.Name, From: m.before, Count: m.count(),
		Node: by.Node, BrokerEpoch: by.BrokerEpoch, Token: by.Token,
	}
	m.First = kv.Txn{
		If:   append(slices.Clone(free), kv.Absent(pendingKey), kv.CreatedAt(m.keys.Broker(by.Node), by.BrokerEpoch)),
		Then: []kv.Op{kv.PutOp(pendingKey, pending.Encode(), by.Lease)},
		Else: reads,
	}
	for done := 0; done < len(m.Partitions); {
		at := m.keys.State(m.topic.ID, m.Partitions[done].Partition)
		step := kv.Txn{If: []kv.Cmp{kv.ModIs(pendingKey, 0)}, Else: append(slices.Clone(reads), kv.GetOp(at))}
		var rest []kv.Cmp
		if over != nil {
			rest = over[done:]
		}
		done += m.addStates(&step, img, m.Partitions[done:], rest)
		m.rest = append(m.rest, step)
	}
	finish.If = append(finish.If, kv.ModIs(pendingKey, 0))
	finish.Then = append(finish.Then, kv.DeleteOp(pendingKey))
	m.rest = append(m.rest, finish)
}

// addStates adds the first states to t, as many as fit, and says how many.
func (m *Making) addStates(t *kv.Txn, img *meta.Image, ps []*meta.Partition, over []kv.Cmp) int {
	for n, p := range ps {
		var more []kv.Cmp
		if b, ok := img.Broker(p.Leader); ok {
			leads := kv.ModIs(m.keys.Broker(b.ID), b.ModRev)
			if !slices.Contains(t.If, leads) {
				more = append(more, leads)
			}
		}
		if over != nil {
			more = append(more, over[n])
		}
		if len(t.Then)+1 > kv.MaxOps || len(t.If)+len(more) > kv.MaxOps {
			return n
		}
		t.If = append(t.If, more...)
		t.Then = append(t.Then, kv.PutOp(m.keys.State(p.Topic, p.Partition), p.Encode(), 0))
	}
	return len(ps)
}

// Steps says how many transactions follow First. All but the last may be carried
// out in any order, and side by side; then the last.
func (m *Making) Steps() int { return len(m.rest) }

// Step is transaction n after First, which was done at revision pendingRev.
func (m *Making) Step(n int, pendingRev int64) kv.Txn {
	t := m.rest[n]
	t.If = slices.Clone(t.If)
	key := m.keys.Pending(m.topic.ID)
	for i, c := range t.If {
		if c.Key == key {
			t.If[i].Want = pendingRev
		}
	}
	return t
}

// Abandon undoes what was begun at pendingRev; what it cannot undo the
// controller collects.
func (m *Making) Abandon(pendingRev int64) kv.Txn {
	key := m.keys.Pending(m.topic.ID)
	t := kv.Txn{If: []kv.Cmp{kv.ModIs(key, pendingRev)}, Then: []kv.Op{kv.DeleteOp(key)}}
	if m.before == 0 {
		t.Then = append(t.Then, kv.DeleteUnder(m.keys.States(m.topic.ID)))
	}
	return t
}

// StepOutcome reads the answer of a Step that did not succeed, and was sent
// perhaps more than once: without an error it was applied before. done says that
// all is made.
func (m *Making) StepOutcome(res kv.TxnResult) (done bool, err error) {
	done, pendingRev, err := m.Outcome(res)
	if done || err != nil {
		return done, err
	}
	if state, ok := one(res, 3); ok && state.ModRev > pendingRev { // all steps but the last read one of theirs
		return false, nil
	}
	return false, ErrStale // what it assumed is outrun: a leader registered anew, say
}

// Added says of the last transaction of partitions that are added, one that was
// sent more than once and did not succeed, that it had been applied before: the
// topic has as many partitions as were wished. It may have them from another
// creation; who was answered nothing need not know.
func (m *Making) Added(res kv.TxnResult) bool {
	e, ok := one(res, 0)
	if !ok || m.before == 0 {
		return false
	}
	id, count, err := meta.TopicOf(e)
	return err == nil && id == m.topic.ID && count >= m.count()
}

// one is the entry that read n of a transaction found.
func one(res kv.TxnResult, n int) (kv.KV, bool) {
	if n < len(res.Gets) && len(res.Gets[n]) == 1 {
		return res.Gets[n][0], true
	}
	return kv.KV{}, false
}

// Outcome reads the answer of First that did not succeed. That
// may be because the same transaction was applied before, when its first
// answer was lost: done says that all is made, and a pendingRev above 0 that
// First is. Otherwise the error is a refusal, or ErrStale.
func (m *Making) Outcome(res kv.TxnResult) (done bool, pendingRev int64, err error) {
	got := func(n int) (kv.KV, bool) { return one(res, n) }
	if e, ok := got(0); ok && m.before == 0 {
		id, _, err := meta.TopicOf(e)
		switch {
		case err != nil:
			return false, 0, err
		case id == m.topic.ID:
			return true, 0, nil
		}
		return false, 0, alreadyExists(m.topic.Name)
	}
	if e, ok := got(1); ok && m.before == 0 {
		other, err := meta.ClaimedBy(e)
		if err != nil {
			return false, 0, err
		}
		return false, 0, collides(m.topic.Name, other)
	}
	if e, ok := got(2); ok {
		p, err := meta.DecodePending(m.topic.ID, e)
		if err != nil {
			return false, 0, err
		}
		if p.Token == m.token {
			return false, p.ModRev, nil
		}
		return false, 0, fmt.Errorf("partitions of topic %q are being made by broker %d: %w", m.topic.Name, p.Node, ErrStale)
	}
	return false, 0, ErrStale
}
