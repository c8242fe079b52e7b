package brokertest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

func wish(name string, partitions int32, factor int16, settings ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, factor
	for _, s := range settings {
		k, v, _ := strings.Cut(s, "=")
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		t.Configs = append(t.Configs, c)
	}
	return t
}

func (p *peer) createTopics(version int16, dry bool, topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
	p.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis, req.ValidateOnly, req.Topics = version, 20_000, dry, topics
	return ask[*kmsg.CreateTopicsResponse](p, req).Topics
}

// topics are the names of all that there are.
func (p *peer) topics() []string {
	p.t.Helper()
	var out []string
	for _, t := range p.metadata(12, false, nil).Topics {
		out = append(out, *t.Topic)
	}
	return out
}

func TestADM01ValidateOnly(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("there", 1)
	for version := int16(2); version <= 7; version++ {
		out := p.createTopics(version, true, wish("there", 1, 1), wish("new", 4, 1), wish("bad name", 1, 1),
			wish("none", 0, 1), wish("key", 1, 1, "no.such.key=1"))
		for n, want := range []*kerr.Error{kerr.TopicAlreadyExists, nil, kerr.InvalidTopicException, kerr.InvalidPartitions, kerr.InvalidConfig} {
			wantCode(t, fmt.Sprintf("v%d %s", version, out[n].Topic), out[n].ErrorCode, want)
		}
		dry := out[1]
		if version >= 5 && (dry.NumPartitions != 4 || dry.ReplicationFactor != 1 || len(dry.Configs) == 0) {
			t.Errorf("v%d: %d partitions, %d replicas, %d configurations", version, dry.NumPartitions, dry.ReplicationFactor, len(dry.Configs))
		}
		wantList(t, "topics afterwards", p.topics(), "there")
	}
}

func TestADM02DefaultsAreAnswered(t *testing.T) {
	p := dial(t, brokertest.Start(t, brokertest.Set("num.partitions", "3"), brokertest.Set("log.segment.bytes", "7000000")))
	for version := int16(4); version <= 7; version++ {
		name := fmt.Sprintf("defaults%d", version)
		out := p.createTopics(version, false, wish(name, -1, -1, "retention.ms=100000"))[0]
		wantCode(t, name, out.ErrorCode, nil)
		m, _ := p.topic(name)
		if len(m.Partitions) != 3 {
			t.Errorf("v%d: %d partitions", version, len(m.Partitions))
		}
		if version < 5 {
			continue
		}
		if out.NumPartitions != 3 || out.ReplicationFactor != 1 || version >= 7 && (out.TopicID != m.TopicID || m.TopicID == [16]byte{}) {
			t.Errorf("v%d: %d partitions, %d replicas, id %x", version, out.NumPartitions, out.ReplicationFactor, out.TopicID)
		}
		got := map[string]string{}
		for _, c := range out.Configs {
			if c.Value == nil {
				t.Fatalf("v%d: %s has no value", version, c.Name)
			}
			got[c.Name] = fmt.Sprintf("%s from %d", *c.Value, c.Source)
		}
		for key, want := range map[string]string{
			"retention.ms": "100000 from 1", "segment.bytes": "7000000 from 4", "cleanup.policy": "delete from 5", "max.message.bytes": "1048588 from 5",
		} {
			if got[key] != want {
				t.Errorf("v%d: %s is %s, want %s", version, key, got[key], want)
			}
		}
	}
}

func TestADM03Counts(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for n, c := range []struct {
		partitions int32
		factor     int16
		want       *kerr.Error
	}{
		{1, 2, kerr.InvalidReplicationFactor}, {1, 0, kerr.InvalidReplicationFactor}, {1, -2, kerr.InvalidReplicationFactor},
		{0, 1, kerr.InvalidPartitions}, {-2, 1, kerr.InvalidPartitions}, {2, 1, nil}, {10_001, 1, kerr.PolicyViolation},
	} {
		out := p.createTopics(7, false, wish(fmt.Sprint("t", n), c.partitions, c.factor))[0]
		wantCode(t, fmt.Sprintf("%d partitions, %d replicas", c.partitions, c.factor), out.ErrorCode, c.want)
		if (out.ErrorMessage == nil) != (c.want == nil) {
			t.Errorf("%s: message %v", name(out.ErrorCode), out.ErrorMessage)
		}
	}
	wantList(t, "topics", p.topics(), "t5")
	out := p.createTopics(7, false, wish("half", 6000, 1), wish("other", 6000, 1), wish("small", 1, 1))
	for _, o := range out {
		wantCode(t, o.Topic+" of too many", o.ErrorCode, kerr.PolicyViolation)
	}
}

func TestADM03Assignment(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for what, c := range map[string]struct {
		partitions int32
		parts      []int32
		replicas   []int32
		want       *kerr.Error
	}{
		"good": {-1, []int32{1, 0}, []int32{1}, nil}, "with a count": {2, []int32{0, 1}, []int32{1}, kerr.InvalidRequest},
		"a gap": {-1, []int32{0, 2}, []int32{1}, kerr.InvalidReplicaAssignment}, "twice": {-1, []int32{0, 0}, []int32{1}, kerr.InvalidReplicaAssignment},
		"unknown broker": {-1, []int32{0}, []int32{8}, kerr.InvalidReplicaAssignment}, "broker twice": {-1, []int32{0}, []int32{1, 1}, kerr.InvalidReplicaAssignment},
		"no replicas": {-1, []int32{0}, nil, kerr.InvalidReplicaAssignment},
	} {
		topic := wish(strings.ReplaceAll(what, " ", "-"), c.partitions, -1)
		for _, n := range c.parts {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = n, c.replicas
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
		}
		wantCode(t, what, p.createTopics(7, false, topic)[0].ErrorCode, c.want)
	}
	wantList(t, "topics", p.topics(), "good")
}

func TestADM05Names(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	long := strings.Repeat("n", 249)
	for _, bad := range []string{"", ".", "..", long + "n", "a b", "ä", "a/b", "a\x00b"} {
		wantCode(t, fmt.Sprintf("%.20q", bad), p.createTopics(7, false, wish(bad, 1, 1))[0].ErrorCode, kerr.InvalidTopicException)
	}
	p.create(long, 101) // its directories have the numbers behind the name
	p.create("A.b_c-9", 1)
	wantCode(t, "a name that collides", p.createTopics(7, false, wish("A_b.c-9", 1, 1))[0].ErrorCode, kerr.InvalidTopicException)
	if _, err := os.Stat(b.LogDir(long + "-100")); err != nil {
		t.Error(err)
	}
	p.remove(long)
	if _, there := p.topic(long); there {
		t.Error("the long name is there after its deletion")
	}
}

func TestADM06BadSettings(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for version := int16(2); version <= 7; version++ {
		null := wish("null", 1, 1, "retention.ms=1")
		null.Configs[0].Value = nil
		for _, of := range []struct {
			wish kmsg.CreateTopicsRequestTopic
			why  string
		}{
			{wish("unknown", 1, 1, "no.such.key=1"), "no.such.key"},
			{wish("number", 1, 1, "retention.ms=abc"), "abc"},
			{wish("word", 1, 1, "cleanup.policy=foo"), "foo"},
			{null, "retention.ms"},
			{wish("bound", 1, 1, "min.insync.replicas=0"), "min.insync.replicas"},
			{wish("second", 1, 1, "retention.bytes=1000", "retention.ms=abc"), "abc"},
		} {
			out := p.createTopics(version, false, of.wish)[0]
			wantCode(t, of.wish.Topic, out.ErrorCode, kerr.InvalidConfig)
			if out.ErrorMessage == nil || !strings.Contains(*out.ErrorMessage, of.why) {
				t.Errorf("v%d %s: %+v", version, of.wish.Topic, out.ErrorMessage)
			}
		}
		wantList(t, "topics", p.topics())
	}
	out := p.createTopics(7, false, wish("bad", 1, 1, "retention.ms=abc"), wish("good", 1, 1, "retention.ms=1"))
	wantCode(t, "one beside a bad one", out[1].ErrorCode, nil)
	wantList(t, "topics", p.topics(), "good")
}
