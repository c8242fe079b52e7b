package meta

import (
	"errors"
	"fmt"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Topic of the image; Partitions is dense.
type Topic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []*Partition
	CreateRev  int64 // of the topic's key
	ModRev     int64

	extra extra
}

// Encode gives the value to store for a topic of count partitions.
func (t *Topic) Encode(count int32) []byte {
	return encode(&topicValue{Version: topicSchema.version, ID: t.ID, Partitions: count}, t.extra)
}

type topicValue struct {
	Version    int           `json:"version"`
	ID         kafka.TopicID `json:"id"`
	Partitions int32         `json:"partitions"`
}

var topicSchema = schemaOf[topicValue](1)

func (*topicValue) schema() *schema { return topicSchema }

// record is a topic's key, whether or not its states are there.
type record struct {
	name  string
	id    kafka.TopicID
	count int32
	at    stamp
	extra extra
}

func decodeTopic(name string, e kv.KV) (*record, error) {
	var v topicValue
	x, err := decode(e.Value, &v)
	if err != nil {
		return nil, err
	}
	if v.ID.IsZero() || v.Partitions < 1 {
		return nil, fmt.Errorf("a topic has an id (%s) and at least one partition (%d)", v.ID, v.Partitions)
	}
	return &record{name: name, id: v.ID, count: v.Partitions, at: stampOf(e), extra: x}, nil
}

// TopicOf reads a topic's id and its number of partitions from a topic key as a
// transaction's answer holds it.
func TopicOf(e kv.KV) (id kafka.TopicID, count int32, err error) {
	r, err := decodeTopic("", e)
	if err != nil {
		return kafka.TopicID{}, 0, &ValueError{Key: e.Key, ModRev: e.ModRev, Err: err}
	}
	return r.id, r.count, nil
}

// Pending says that somebody is making partitions of a topic, in more than one
// transaction (safety 29).
type Pending struct {
	Topic       kafka.TopicID
	Name        string
	From        int32 // first partition to be made: 0 for a creation
	Count       int32 // partitions of the topic when done
	Node        kafka.NodeID
	BrokerEpoch int64      // of the creator's registration
	Token       kafka.UUID // of the one attempt
	CreateRev   int64
	ModRev      int64
}

type pendingValue struct {
	Version     int          `json:"version"`
	Name        string       `json:"name"`
	From        int32        `json:"from"`
	Count       int32        `json:"count"`
	Node        kafka.NodeID `json:"node"`
	BrokerEpoch int64        `json:"broker_epoch"`
	Token       kafka.UUID   `json:"token"`
}

var pendingSchema = schemaOf[pendingValue](1)

func (*pendingValue) schema() *schema { return pendingSchema }

// Encode gives the value to store. A pending key is never rewritten.
func (p *Pending) Encode() []byte {
	return encode(&pendingValue{pendingSchema.version, p.Name, p.From, p.Count, p.Node, p.BrokerEpoch, p.Token}, nil)
}

// DecodePending reads a pending key as a transaction's answer holds it.
func DecodePending(id kafka.TopicID, e kv.KV) (*Pending, error) {
	var v pendingValue
	if _, err := decode(e.Value, &v); err != nil {
		return nil, err
	}
	if v.From < 0 || v.Count <= v.From {
		return nil, errors.New("count is above from, which is at least 0")
	}
	return &Pending{
		Topic: id, Name: v.Name, From: v.From, Count: v.Count, Node: v.Node,
		BrokerEpoch: v.BrokerEpoch, Token: v.Token, CreateRev: e.CreateRev, ModRev: e.ModRev,
	}, nil
}

// Tombstone says that a topic was deleted (safety 15).
type Tombstone struct {
	Topic       kafka.TopicID
	Name        string
	DeletedAtMs int64 // wall clock of the broker that deleted it
	ModRev      int64
}

type tombstoneValue struct {
	Version     int    `json:"version"`
	Name        string `json:"name"`
	DeletedAtMs int64  `json:"deleted_at_ms"`
}

var tombstoneSchema = schemaOf[tombstoneValue](1)

func (*tombstoneValue) schema() *schema { return tombstoneSchema }

// Encode gives the value to store. A tombstone is never rewritten.
func (t *Tombstone) Encode() []byte {
	return encode(&tombstoneValue{tombstoneSchema.version, t.Name, t.DeletedAtMs}, nil)
}

func decodeTombstone(id kafka.TopicID, e kv.KV) (*Tombstone, error) {
	var v tombstoneValue
	if _, err := decode(e.Value, &v); err != nil {
		return nil, err
	}
	return &Tombstone{Topic: id, Name: v.Name, DeletedAtMs: v.DeletedAtMs, ModRev: e.ModRev}, nil
}

// Claim is the value of /names/<unified name>: the topic that holds the name.
func Claim(name string) []byte { return encode(&claimValue{claimSchema.version, name}, nil) }

// ClaimedBy reads such a value.
func ClaimedBy(e kv.KV) (name string, err error) {
	var v claimValue
	if _, err := decode(e.Value, &v); err != nil {
		return "", &ValueError{Key: e.Key, ModRev: e.ModRev, Err: err}
	}
	return v.Name, nil
}

type claimValue struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
}

var claimSchema = schemaOf[claimValue](1)

func (*claimValue) schema() *schema { return claimSchema }
