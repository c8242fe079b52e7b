package brokertest_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// A name that collides is told of before settings that are wrong, and what asks
// for too many partitions is answered item by item.
func TestCreateTopicsOfOddItems(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("a.b", 1)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	add := func(name string, partitions int32, key, value string) {
		in := kmsg.NewCreateTopicsRequestTopic()
		in.Topic, in.NumPartitions, in.ReplicationFactor = name, partitions, 1
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		in.Configs = append(in.Configs, c)
		req.Topics = append(req.Topics, in)
	}
	add("a_b", 1, "retention.ms", "never")
	wantCode(t, "a name that collides", ask[*kmsg.CreateTopicsResponse](p, req).Topics[0].ErrorCode, kerr.InvalidTopicException)

	req.Topics = nil
	add("large", 10_001, "retention.ms", "1000")
	add("twice", 1, "retention.ms", "1000")
	add("twice", 1, "retention.ms", "1000")
	resp := ask[*kmsg.CreateTopicsResponse](p, req)
	if len(resp.Topics) != 3 {
		t.Fatalf("%d items are answered, want all three", len(resp.Topics))
	}
	for _, out := range resp.Topics {
		wantCode(t, out.Topic, out.ErrorCode, kerr.PolicyViolation)
	}
}

// CreateTopics tells settings as they were written.
func TestCreatedSettingsAsWritten(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	in := kmsg.NewCreateTopicsRequestTopic()
	in.Topic, in.NumPartitions, in.ReplicationFactor = "t", 1, 1
	want := map[string]string{"min.cleanable.dirty.ratio": "1", "preallocate": "FALSE", "retention.ms": "+5"}
	for name, value := range want {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		in.Configs = append(in.Configs, c)
	}
	req.Topics = append(req.Topics, in)
	for _, c := range ask[*kmsg.CreateTopicsResponse](p, req).Topics[0].Configs {
		if w, ok := want[c.Name]; ok && *c.Value != w {
			t.Errorf("%s is %q, want %q", c.Name, *c.Value, w)
		}
	}
}

// What DeleteTopics names by a name and an id, or by nothing, is refused for
// itself, and does not spoil what names the same topic well.
func TestDeleteTopicsOfOddItems(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	id := p.create("kept", 1)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 10_000
	add := func(name string, id [16]byte) {
		in := kmsg.NewDeleteTopicsRequestTopic()
		in.TopicID = id
		if name != "" {
			in.Topic = &name
		}
		req.Topics = append(req.Topics, in)
	}
	add("kept", [16]byte{7})
	add("", id)
	add("", [16]byte{})
	add("", [16]byte{})
	refused, deleted := 0, 0
	for _, out := range ask[*kmsg.DeleteTopicsResponse](p, req).Topics {
		switch out.ErrorCode {
		case 0:
			deleted++
		case kerr.InvalidRequest.Code:
			refused++
		}
	}
	if refused != 3 || deleted != 1 {
		t.Errorf("%d items refused and %d deleted, want 3 and 1", refused, deleted)
	}
}
