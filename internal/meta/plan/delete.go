package plan

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// DeleteTopic plans the end of a topic in one transaction, whatever its size:
// key, states, configuration, what was being added, and a tombstone (safety
// 29). nowMs is the wall clock. Refusal: UNKNOWN_TOPIC_ID. On failure the topic's
// key was read: absent, the topic is gone; else plan again.
func DeleteTopic(img *meta.Image, id kafka.TopicID, nowMs int64) (kv.Txn, error) {
	t, ok := img.TopicByID(id)
	if !ok {
		return kv.Txn{}, refuse(kerr.UnknownTopicID, "%s", kerr.UnknownTopicID.Description)
	}
	keys := img.Keys()
	grave := meta.Tombstone{Topic: id, Name: t.Name, DeletedAtMs: nowMs}
	txn := kv.Txn{
		If: []kv.Cmp{kv.ModIs(keys.Topic(t.Name), t.ModRev)},
		Then: []kv.Op{
			kv.DeleteOp(keys.Topic(t.Name)),
			kv.DeleteUnder(keys.States(id)),
			kv.DeleteOp(keys.TopicConfig(t.Name)),
			kv.DeleteOp(keys.Pending(id)),
			kv.PutOp(keys.Deleted(id), grave.Encode(), 0),
		},
		Else: []kv.Op{kv.GetOp(keys.Topic(t.Name))},
	}
	if meta.Collides(t.Name) {
		txn.Then = append(txn.Then, kv.DeleteOp(keys.Name(t.Name)))
	}
	return txn, nil
}
