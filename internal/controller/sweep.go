package controller

import (
	"slices"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// sweep collects what nobody else will: creations whose creator is gone,
// states that belong to nothing, old tombstones.
func sweep(img *meta.Image, fixed []kv.Cmp, now time.Time) []kv.Txn {
	out := deadPending(img, fixed)
	out = append(out, leftovers(img, fixed)...)
	return append(out, oldTombstones(img, fixed, now)...)
}

// deadPending ends creations whose creator's incarnation is gone: pending goes
// first or together with the states, so that a creator which is only slow
// fails at its next step (safety 29). States that were to be added to a topic
// are left to the next sweep.
func deadPending(img *meta.Image, fixed []kv.Cmp) []kv.Txn {
	var out []kv.Txn
	for p := range img.Pendings() {
		if b, ok := img.Broker(p.Node); ok && b.Epoch == p.BrokerEpoch {
			continue
		}
		key := img.Keys().Pending(p.Topic)
		t := kv.Txn{
			If:   slices.Concat(fixed, []kv.Cmp{kv.ModIs(key, p.ModRev)}),
			Then: []kv.Op{kv.DeleteOp(key)},
		}
		if _, _, exists := img.NameOf(p.Topic); !exists {
			t.Then = append(t.Then, kv.DeleteUnder(img.Keys().States(p.Topic)))
		}
		out = append(out, t)
	}
	return out
}

// leftovers deletes states of no topic, and those at or above their topic's
// count, when nobody is making them. A topic key with a given id is written
// only while its pending key is there, or together with its states: so without
// the pending key nothing can make such states part of a topic.
func leftovers(img *meta.Image, fixed []kv.Cmp) []kv.Txn {
	var out []kv.Txn
	var done kafka.TopicID // whose states all go
	var beyond beyondCount
	for s := range img.Aside() {
		if _, busy := img.Pending(s.Topic); busy || s.Topic == done {
			continue
		}
		none := kv.Absent(img.Keys().Pending(s.Topic))
		name, count, exists := img.NameOf(s.Topic)
		switch {
		case !exists:
			done = s.Topic
			out = append(out, kv.Txn{
				If:   slices.Concat(fixed, []kv.Cmp{none}),
				Then: []kv.Op{kv.DeleteUnder(img.Keys().States(s.Topic))},
			})
		case s.Partition >= count:
			t, whole := img.Topic(name)
			if !whole {
				continue // its own states are missing: not a thing to touch
			}
			assume := slices.Concat(fixed, []kv.Cmp{none, kv.ModIs(img.Keys().Topic(name), t.ModRev)})
			out = beyond.add(out, s.Topic, assume, img.Keys().State(s.Topic, s.Partition), s.PartitionEpoch)
		}
	}
	return out
}

// beyondCount packs deletions of one topic's states together.
type beyondCount struct{ topic kafka.TopicID }

func (b *beyondCount) add(out []kv.Txn, topic kafka.TopicID, assume []kv.Cmp, key string, rev int64) []kv.Txn {
	if b.topic != topic || len(out[len(out)-1].If) == kv.MaxOps {
		b.topic = topic
		out = append(out, kv.Txn{If: assume})
	}
	t := &out[len(out)-1]
	t.If = append(t.If, kv.ModIs(key, rev))
	t.Then = append(t.Then, kv.DeleteOp(key))
	return out
}

func oldTombstones(img *meta.Image, fixed []kv.Cmp, now time.Time) []kv.Txn {
	var out []kv.Txn
	before := now.Add(-TombstoneAge).UnixMilli()
	for t := range img.Tombstones() {
		if t.DeletedAtMs > before {
			continue
		}
		if len(out) == 0 || len(out[len(out)-1].If) == kv.MaxOps {
			out = append(out, kv.Txn{If: slices.Clone(fixed)})
		}
		last := &out[len(out)-1]
		key := img.Keys().Deleted(t.Topic)
		last.If = append(last.If, kv.ModIs(key, t.ModRev))
		last.Then = append(last.Then, kv.DeleteOp(key))
	}
	return out
}
