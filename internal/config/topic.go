package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Topic is a topic's settings, typed: its overrides over the broker's values.
// Times are -1 where there is no limit.
type Topic struct {
	SegmentBytes       int32
	SegmentAge         time.Duration
	SegmentJitter      time.Duration
	IndexBytes         int32
	IndexIntervalBytes int32
	RetentionBytes     int64 // -1: no limit
	RetentionAge       time.Duration
	FileDeleteDelay    time.Duration
	Delete, Compact    bool // cleanup.policy
	FlushMessages      int64
	FlushInterval      time.Duration
	Preallocate        bool
	Durable            bool // barnabas.durable.acks

	LogAppendTime   bool
	TimestampBefore time.Duration // how far in the past a producer's timestamp may lie
	TimestampAfter  time.Duration
	MaxMessageBytes int32
	PlainLimit      int // max.decompressed.message.bytes; 0: the broker's own

	MinInsync       int
	UncleanElection bool

	ThrottledLeaders, ThrottledFollowers []string // leader. and follower.replication.throttled.replicas

	Compression CompressionType
	GzipLevel   int // -1: the codec's own
	LZ4Level    int
	ZstdLevel   int

	MinCompactionLag  time.Duration
	MaxCompactionLag  time.Duration
	DeleteRetention   time.Duration
	MinCleanableRatio float64
}

// unboundedPlain is the default of max.decompressed.message.bytes: the longest
// array in Java.
const unboundedPlain = 2147483639

// CompressionType is a value of compression.type.
type CompressionType string

// The values of compression.type.
const (
	ProducerCompression CompressionType = "producer"
	Uncompressed        CompressionType = "uncompressed"
	GzipCompression     CompressionType = "gzip"
	SnappyCompression   CompressionType = "snappy"
	LZ4Compression      CompressionType = "lz4"
	ZstdCompression     CompressionType = "zstd"
)

// topicValue is the value that counts for a topic's key: the override, the
// broker's, or the default. An override that does not fit counts as unset.
func (c *Config) topicValue(overrides map[string]string, name string) any {
	k := index[TopicScope][name]
	if raw, ok := overrides[name]; ok {
		if v, err := k.parse(raw); err == nil {
			return v
		}
	}
	for _, s := range c.settings(k.Synonyms) {
		bk, _ := lookupBroker(s.name)
		if v, err := bk.parse(s.raw); err == nil {
			return convert(v, s.name, name)
		}
	}
	if k.Default == nil {
		return nil
	}
	v, err := k.parse(*k.Default)
	if err != nil {
		panic("config: default of " + name + ": " + err.Error())
	}
	return v
}

// convert turns a broker's value into the unit of the topic's key.
func convert(v any, from, to string) any {
	n, ok := v.(int64)
	if !ok || n < 0 || unit(from) == unit(to) {
		return v
	}
	return n * int64(unit(from)/unit(to))
}

// Topic resolves a topic's settings.
func (c *Config) Topic(overrides map[string]string) Topic {
	num := func(name string) int64 { n, _ := c.topicValue(overrides, name).(int64); return n }
	flag := func(name string) bool { b, _ := c.topicValue(overrides, name).(bool); return b }
	text := func(name string) string { s, _ := c.topicValue(overrides, name).(string); return s }
	age := func(name string) time.Duration { return scaled(num(name), time.Millisecond) }
	list := func(name string) []string { l, _ := c.topicValue(overrides, name).([]string); return l }
	policy := list("cleanup.policy")
	ratio, _ := c.topicValue(overrides, "min.cleanable.dirty.ratio").(float64)
	t := Topic{
		SegmentBytes:       int32(num("segment.bytes")),
		SegmentAge:         age("segment.ms"),
		SegmentJitter:      age("segment.jitter.ms"),
		IndexBytes:         int32(num("segment.index.bytes")),
		IndexIntervalBytes: int32(num("index.interval.bytes")),
		RetentionBytes:     num("retention.bytes"),
		RetentionAge:       age("retention.ms"),
		FileDeleteDelay:    age("file.delete.delay.ms"),
		Delete:             slices.Contains(policy, "delete"),
		Compact:            slices.Contains(policy, "compact"),
		FlushMessages:      num("flush.messages"),
		FlushInterval:      age("flush.ms"),
		Preallocate:        flag("preallocate"),
		Durable:            flag("barnabas.durable.acks"),
		LogAppendTime:      text("message.timestamp.type") == "LogAppendTime",
		TimestampBefore:    age("message.timestamp.before.max.ms"),
		TimestampAfter:     age("message.timestamp.after.max.ms"),
		MaxMessageBytes:    int32(num("max.message.bytes")),
		MinInsync:          int(num("min.insync.replicas")),
		UncleanElection:    flag("unclean.leader.election.enable"),
		Compression:        CompressionType(text("compression.type")),
		GzipLevel:          int(num("compression.gzip.level")),
		LZ4Level:           int(num("compression.lz4.level")),
		ZstdLevel:          int(num("compression.zstd.level")),
		MinCompactionLag:   age("min.compaction.lag.ms"),
		MaxCompactionLag:   age("max.compaction.lag.ms"),
		DeleteRetention:    age("delete.retention.ms"),
		MinCleanableRatio:  ratio,
		ThrottledLeaders:   list("leader.replication.throttled.replicas"),
		ThrottledFollowers: list("follower.replication.throttled.replicas"),
	}
	if n := num("max.decompressed.message.bytes"); n < unboundedPlain {
		t.PlainLimit = int(n)
	}
	if n := num("internal.segment.bytes"); n > 0 {
		t.SegmentBytes = int32(n)
	}
	return t
}

// ValidateTopic checks overrides before they are stored; a nil value is one
// that the protocol carried as null. The error is an *Invalid (INVALID_CONFIG)
// with Apache Kafka's text.
func (c *Config) ValidateTopic(overrides map[string]*string) error {
	var nulls []string
	parsed := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		k, ok := index[TopicScope][name]
		if !ok {
			return &Invalid{"Unknown topic config name: " + name}
		}
		if overrides[name] == nil {
			nulls = append(nulls, name)
			continue
		}
		if _, err := k.parse(*overrides[name]); err != nil {
			return err
		}
		parsed[name] = *overrides[name]
	}
	if len(nulls) > 0 {
		return &Invalid{"Null value not supported for topic configs: " + strings.Join(nulls, ",")}
	}
	least, _ := c.topicValue(parsed, "min.compaction.lag.ms").(int64)
	most, _ := c.topicValue(parsed, "max.compaction.lag.ms").(int64)
	if least > most {
		return &Invalid{fmt.Sprintf("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", least, most)}
	}
	for _, name := range sortedKeys(parsed) {
		if why := index[TopicScope][name].Refusal(parsed[name]); why != "" {
			return &Invalid{why}
		}
	}
	return nil
}
