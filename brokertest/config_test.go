package brokertest_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// alter changes one setting of a resource; a nil value deletes it.
func (p *peer) alter(kind kmsg.ConfigResourceType, resource, key string, value *string, validate bool) kmsg.IncrementalAlterConfigsResponseResource {
	p.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, validate
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, resource
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = key, value
	if value == nil {
		c.Op = kmsg.IncrementalAlterConfigOpDelete
	}
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	return ask[*kmsg.IncrementalAlterConfigsResponse](p, req).Resources[0]
}

// setting is what DescribeConfigs says of one key.
func (p *peer) setting(version int16, kind kmsg.ConfigResourceType, resource, key string) (kmsg.DescribeConfigsResponseResourceConfig, int16) {
	p.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = version, true, true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, resource, []string{key}
	req.Resources = append(req.Resources, r)
	out := ask[*kmsg.DescribeConfigsResponse](p, req).Resources[0]
	if len(out.Configs) != 1 {
		return kmsg.DescribeConfigsResponseResourceConfig{}, out.ErrorCode
	}
	return out.Configs[0], out.ErrorCode
}

func TestConfigOfTopicsAndGroups(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("t", 1)
	const topic, group, broker = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeBroker
	v := func(s string) *string { return &s }
	for _, c := range []struct {
		kind          kmsg.ConfigResourceType
		name, key     string
		value, before string
		source        kmsg.ConfigSource
	}{
		{topic, "t", "retention.bytes", "1000", "-1", 1},
		{group, "g/1 %", "consumer.session.timeout.ms", "50000", "45000", 8},
	} {
		wantCode(t, "validate", p.alter(c.kind, c.name, c.key, v(c.value), true).ErrorCode, nil)
		if got, _ := p.setting(4, c.kind, c.name, c.key); *got.Value != c.before {
			t.Errorf("%s after validation alone: %s, want %s", c.key, *got.Value, c.before)
		}
		wantCode(t, "set", p.alter(c.kind, c.name, c.key, v(c.value), false).ErrorCode, nil)
		for version := int16(1); version <= 4; version++ {
			got, code := p.setting(version, c.kind, c.name, c.key)
			wantCode(t, "describe", code, nil)
			if *got.Value != c.value || got.Source != c.source || len(got.ConfigSynonyms) < 2 || version >= 3 && got.Documentation == nil {
				t.Errorf("v%d: %+v, want %s from source %d, its synonyms and documentation", version, got, c.value, c.source)
			}
		}
		b.Restart()
		p = dial(t, b)
		if got, _ := p.setting(4, c.kind, c.name, c.key); *got.Value != c.value {
			t.Errorf("%s after a restart: %s, want %s", c.key, *got.Value, c.value)
		}
		wantCode(t, "delete", p.alter(c.kind, c.name, c.key, nil, false).ErrorCode, nil)
		if got, _ := p.setting(4, c.kind, c.name, c.key); *got.Value != c.before {
			t.Errorf("%s after its deletion: %s, want %s", c.key, *got.Value, c.before)
		}
	}
	if got, code := p.setting(4, broker, "1", "group.max.size"); code != 0 || *got.Value != "2147483647" {
		t.Errorf("broker: %s %+v", name(code), got)
	}
	_, code := p.setting(4, broker, "7", "group.max.size")
	wantCode(t, "another broker", code, kerr.InvalidRequest)
	_, code = p.setting(4, topic, "nosuch", "retention.ms")
	wantCode(t, "no topic", code, kerr.UnknownTopicOrPartition)
	wantCode(t, "set for no topic", p.alter(topic, "nosuch", "retention.ms", v("5"), false).ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "unknown key", p.alter(topic, "t", "nosuch", v("5"), false).ErrorCode, kerr.InvalidConfig)
	wantCode(t, "bad value", p.alter(group, "g", "consumer.session.timeout.ms", v("soon"), false).ErrorCode, kerr.InvalidConfig)
	wantCode(t, "out of bounds", p.alter(group, "g", "consumer.session.timeout.ms", v("1"), false).ErrorCode, kerr.InvalidConfig)
	wantCode(t, "no group", p.alter(group, "", "consumer.session.timeout.ms", v("50000"), false).ErrorCode, kerr.InvalidRequest)
	wantCode(t, "broker", p.alter(broker, "1", "group.max.size", v("5"), false).ErrorCode, kerr.InvalidRequest)
}

// ADM-09: what tools read of a broker is there under Kafka's names, with the values that count.
func TestADM09BrokerSettings(t *testing.T) {
	set := map[string]string{
		"auto.create.topics.enable": "false", "default.replication.factor": "1", "num.partitions": "3", "min.insync.replicas": "2",
		"message.max.bytes": "2000000", "log.retention.ms": "86400000", "log.retention.hours": "24", "offsets.retention.minutes": "1440",
		"inter.broker.listener.name": "PLAINTEXT", "log.segment.bytes": "2097152", "log.cleanup.policy": "compact,delete",
	}
	var opts []brokertest.Option
	for k, v := range set {
		opts = append(opts, brokertest.Set(k, v))
	}
	p := dial(t, brokertest.Start(t, opts...))
	for k, v := range set {
		got, code := p.setting(4, kmsg.ConfigResourceTypeBroker, "1", k)
		wantCode(t, k, code, nil)
		if got.Value == nil || *got.Value != v || got.Source != kmsg.ConfigSourceStaticBrokerConfig {
			t.Errorf("%s: %+v, want %s of the broker's own settings", k, got, v)
		}
	}
}

// grow asks for a topic to have count partitions.
func (p *peer) grow(topic string, count int32, validate bool) kmsg.CreatePartitionsResponseTopic {
	p.t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.TimeoutMillis, req.ValidateOnly = 3, 20_000, validate
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, count
	req.Topics = append(req.Topics, t)
	return ask[*kmsg.CreatePartitionsResponse](p, req).Topics[0]
}

func TestCreatePartitions(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("t", 2)
	p.coordinator(3, 0, "g")
	for _, c := range []struct {
		topic string
		count int32
		want  *kerr.Error
	}{
		{"nosuch", 3, kerr.UnknownTopicOrPartition}, {"t", 2, kerr.InvalidPartitions}, {"t", 1, kerr.InvalidPartitions},
		{"t", -1, kerr.InvalidPartitions}, {"__consumer_offsets", 60, kerr.InvalidRequest},
	} {
		if out := p.grow(c.topic, c.count, false); out.ErrorCode != c.want.Code || out.ErrorMessage == nil {
			t.Errorf("%s to %d: %s, want %s with a sentence", c.topic, c.count, name(out.ErrorCode), c.want.Message)
		}
	}
	wantCode(t, "validate", p.grow("t", 4, true).ErrorCode, nil)
	if got, _ := p.topic("t"); len(got.Partitions) != 2 {
		t.Errorf("%d partitions after validation alone", len(got.Partitions))
	}
	wantCode(t, "grow", p.grow("t", 4, false).ErrorCode, nil)
	p.write("t", records("a"), records("b"), records("c"), records("d"))
	b.Restart()
	p = dial(t, b)
	if got, _ := p.topic("t"); len(got.Partitions) != 4 || p.end("t", 3) != 1 {
		t.Errorf("after a restart: %d partitions", len(got.Partitions))
	}
}
