package config

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// The texts are those that Apache Kafka 4.4.0 gave.
func TestValidateTopic(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"retention.ms", " 5 ", ""},
		{"retention.bytes", "99999999999999999999", "Invalid value 99999999999999999999 for configuration retention.bytes: Not a number of type LONG"},
		{"cleanup.policy", "foo", "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "Delete", "Invalid value Delete for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "compact,,delete", "Configuration 'cleanup.policy' values must not be empty."},
		{"cleanup.policy", " compact , delete ", ""},
		{"cleanup.policy", "", ""},
		{"min.insync.replicas", "0", "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"},
		{"min.cleanable.dirty.ratio", "1.5", "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "0.5f", ""},
		{"compression.type", "x", "Invalid value x for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"compression.gzip.level", "15", "Invalid value 15 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.zstd.level", "99", "Invalid value 99 for configuration compression.zstd.level: Value must be no more than 22"},
		{"compression.lz4.level", "0", "Invalid value 0 for configuration compression.lz4.level: Value must be at least 1"},
		{"preallocate", "maybe", "Invalid value maybe for configuration preallocate: Expected value to be either true or false"},
		{"preallocate", "TRUE", ""},
		{"segment.bytes", "100", "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576"},
		{"segment.bytes", "9999999999", "Invalid value 9999999999 for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", "+1048576", ""},
		{"internal.segment.bytes", "100", ""},
		{"message.timestamp.type", "x", "Invalid value x for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"},
		{"leader.replication.throttled.replicas", "0:1,2:3", ""},
		{"leader.replication.throttled.replicas", "*", ""},
		{"nope", "1", "Unknown topic config name: nope"},
		{"message.format.version", "3.0", "Unknown topic config name: message.format.version"},
		{"remote.storage.enable", "true", "remote.storage.enable cannot be used: this version has no remote store, and every segment would stay on the local disk; bound it by retention.ms and retention.bytes"},
		{"barnabas.durable.acks", "false", ""},
	} {
		err := must(t, nil).ValidateTopic(map[string]*string{c.name: &c.value})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s=%q: %v", c.name, c.value, err)
		case c.want != "" && (err == nil || err.Error() != c.want):
			t.Errorf("%s=%q:\n got %v\nwant %s", c.name, c.value, err, c.want)
		case err != nil && !errors.Is(err, kerr.InvalidConfig):
			t.Errorf("%s=%q: not INVALID_CONFIG: %v", c.name, c.value, err)
		}
	}
	if err := must(t, nil).ValidateTopic(map[string]*string{"retention.ms": nil, "retention.bytes": nil}); err == nil ||
		err.Error() != "Null value not supported for topic configs: retention.bytes,retention.ms" {
		t.Errorf("null: %v", err)
	}
	ten, nine := "10", "9"
	if err := must(t, nil).ValidateTopic(map[string]*string{"min.compaction.lag.ms": &ten, "max.compaction.lag.ms": &nine}); err == nil {
		t.Error("a least lag above the most must be refused")
	}
}

func TestTopicDefaults(t *testing.T) {
	got := must(t, nil).Topic(nil)
	want := Topic{
		SegmentBytes: 1 << 30, SegmentAge: 168 * time.Hour, IndexBytes: 10 << 20, IndexIntervalBytes: 4096, RetentionBytes: -1, RetentionAge: 168 * time.Hour,
		FileDeleteDelay: time.Minute, Delete: true, FlushMessages: 1<<63 - 1, FlushInterval: 1<<63 - 1, Durable: true,
		TimestampBefore: 1<<63 - 1, TimestampAfter: time.Hour, MaxMessageBytes: 1048588, MinInsync: 1, Compression: ProducerCompression,
		GzipLevel: -1, LZ4Level: 9, ZstdLevel: 3, MaxCompactionLag: 1<<63 - 1, DeleteRetention: 24 * time.Hour, MinCleanableRatio: 0.5,
		ThrottledLeaders: []string{}, ThrottledFollowers: []string{},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

// Override over broker over default; dynamic settings over static ones.
func TestTopicPrecedence(t *testing.T) {
	c, warnings := must(t, map[string]string{"log.segment.bytes": "2000000", "log.retention.hours": "1", "barnabas.durable.acks": "false"}).
		With(map[string]string{"log.retention.ms": "7200000", "compression.type": "lz4", "node.id": "9", "min.insync.replicas": "x"}, map[string]string{"compression.type": "zstd"})
	if len(warnings) != 2 {
		t.Errorf("warnings: %q", warnings)
	}
	topic := c.Topic(map[string]string{"segment.bytes": "3000000", "cleanup.policy": "compact,delete", "max.message.bytes": "broken"})
	if topic.SegmentBytes != 3000000 || topic.RetentionAge != 2*time.Hour || topic.Compression != ZstdCompression || topic.Durable || !topic.Compact || !topic.Delete {
		t.Errorf("%+v", topic)
	}
	if topic.MaxMessageBytes != 1048588 || topic.MinInsync != 1 || c.Int("node.id") != 1 {
		t.Error("what does not fit, or is read-only, must count as unset")
	}
	if c.Topic(map[string]string{"internal.segment.bytes": "500"}).SegmentBytes != 500 {
		t.Error("internal.segment.bytes")
	}
}

// ADM-08: sources and synonyms as Apache Kafka orders them.
func TestDescribeTopic(t *testing.T) {
	c, _ := must(t, map[string]string{"log.retention.hours": "1", "log.retention.minutes": "30"}).
		With(map[string]string{"log.retention.ms": "7200000"}, map[string]string{"log.retention.ms": "3600000"})
	e := c.DescribeTopic(map[string]string{"retention.ms": "5"}, []string{"retention.ms", "none"})
	if len(e) != 1 || *e[0].Value != "5" || e[0].Source != DynamicTopic || e[0].Type != Long || e[0].ReadOnly || e[0].IsDefault() {
		t.Fatalf("%+v", e)
	}
	var got []string
	for _, s := range e[0].Synonyms {
		got = append(got, s.Name+"="+*s.Value+" "+s.Source.String())
	}
	want := []string{
		"retention.ms=5 DYNAMIC_TOPIC_CONFIG",
		"log.retention.ms=3600000 DYNAMIC_BROKER_CONFIG",
		"log.retention.ms=7200000 DYNAMIC_DEFAULT_BROKER_CONFIG",
		"log.retention.minutes=30 STATIC_BROKER_CONFIG",
		"log.retention.hours=1 STATIC_BROKER_CONFIG",
		"log.retention.hours=168 DEFAULT_CONFIG",
	}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	e = must(t, nil).DescribeTopic(nil, nil)
	if len(e) != len(Keys(TopicScope)) {
		t.Errorf("%d keys", len(e))
	}
	for _, e := range e {
		if e.Source != Default || e.Value == nil || e.Name == "internal.segment.bytes" {
			t.Errorf("%+v", e)
		}
		if e.Name == "retention.ms" && *e.Value != "604800000" {
			t.Errorf("retention.ms=%s: hours must be shown in milliseconds", *e.Value)
		}
	}
}

// ADM-09: the settings that tools read are there under their names.
func TestDescribeBroker(t *testing.T) {
	c := must(t, map[string]string{"num.partitions": "4", "log.retention.ms": "100"})
	for name, want := range map[string]string{"auto.create.topics.enable": "true", "default.replication.factor": "1", "num.partitions": "4", "min.insync.replicas": "1",
		"message.max.bytes": "1048588", "log.retention.ms": "100", "log.retention.hours": "168", "offsets.retention.minutes": "10080", "log.cleaner.io.max.bytes.per.second": "1.7976931348623157E308"} {
		e := c.DescribeBroker([]string{name})
		if len(e) != 1 || e[0].Value == nil || *e[0].Value != want {
			t.Errorf("%s: %+v", name, e)
			continue
		}
		source, k := Default, index[BrokerScope][name]
		if name == "num.partitions" || name == "log.retention.ms" {
			source = Static
		}
		if e[0].Source != source || e[0].ReadOnly != (k.Mode == ReadOnly) {
			t.Errorf("%s: %+v", name, e[0])
		}
	}
	if e := must(t, nil).DescribeBroker([]string{"log.retention.ms"}); len(e) != 1 || e[0].Value != nil || e[0].Source != Default {
		t.Errorf("an unset key is null: %+v", e)
	}
	g := must(t, map[string]string{"group.consumer.session.timeout.ms": "50000"}).DescribeGroup(map[string]string{"share.isolation.level": "read_committed"}, nil)
	for _, e := range g {
		if e.Name == "consumer.session.timeout.ms" && (*e.Value != "50000" || e.Source != Static) || e.Name == "share.isolation.level" && e.Source != DynamicGroup {
			t.Errorf("%+v", e)
		}
		if e.Name == "share.isolation.level" && (len(e.Synonyms) != 2 || e.Synonyms[1].Source != Default) {
			t.Errorf("the override and the default: %+v", e.Synonyms)
		}
	}
}
