package config

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Groups is what the group coordinator goes by. Times of consumer groups are
// what a group has that sets nothing itself, with the bounds of what it may set.
type Groups struct {
	Protocols             []string // group.coordinator.rebalance.protocols
	MinSession            time.Duration
	MaxSession            time.Duration
	InitialRebalanceDelay time.Duration
	MaxSize               int

	ConsumerMaxSize    int
	ConsumerAssignors  []string
	ConsumerUpgrade    bool // group.consumer.migration.policy
	ConsumerDowngrade  bool
	ConsumerRegexEvery time.Duration // group.consumer.regex.refresh.interval.ms

	Session            Bounded // consumer.session.timeout.ms
	Heartbeat          Bounded // consumer.heartbeat.interval.ms
	AssignmentInterval Bounded // consumer.assignment.interval.ms

	Offsets Offsets
}

// Bounded is a setting of groups with the broker's bounds.
type Bounded struct{ Default, Min, Max time.Duration }

// Offsets are the settings of committed offsets and of the topic that holds them.
type Offsets struct {
	Partitions     int32
	Replicas       int16
	SegmentBytes   int64
	Codec          int8 // offsets.topic.compression.codec, by the protocol's number
	LoadBytes      int
	CommitTimeout  time.Duration
	MetadataMax    int
	Retention      time.Duration
	RetentionCheck time.Duration
}

// leastSegment holds the largest batch that a coordinator writes.
const leastSegment = 4 << 20

// TopicConfig is what the offsets topic is made with.
func (o Offsets) TopicConfig() map[string]string {
	return map[string]string{
		"cleanup.policy":   "compact",
		"compression.type": "producer",
		"segment.bytes":    strconv.FormatInt(max(o.SegmentBytes, leastSegment), 10),
	}
}

// Groups reads the group coordinator's settings.
func (c *Config) Groups() Groups {
	policy := strings.ToUpper(c.Text("group.consumer.migration.policy"))
	bounded := func(name string) Bounded {
		return Bounded{
			Default: c.Duration("group.consumer." + name),
			Min:     c.Duration("group.consumer.min." + name),
			Max:     c.Duration("group.consumer.max." + name),
		}
	}
	return Groups{
		Protocols:             c.List("group.coordinator.rebalance.protocols"),
		MinSession:            c.Duration("group.min.session.timeout.ms"),
		MaxSession:            c.Duration("group.max.session.timeout.ms"),
		InitialRebalanceDelay: c.Duration("group.initial.rebalance.delay.ms"),
		MaxSize:               int(c.Int("group.max.size")),
		ConsumerMaxSize:       int(c.Int("group.consumer.max.size")),
		ConsumerAssignors:     c.List("group.consumer.assignors"),
		ConsumerUpgrade:       slices.Contains([]string{"UPGRADE", "BIDIRECTIONAL"}, policy),
		ConsumerDowngrade:     slices.Contains([]string{"DOWNGRADE", "BIDIRECTIONAL"}, policy),
		ConsumerRegexEvery:    c.Duration("group.consumer.regex.refresh.interval.ms"),
		Session:               bounded("session.timeout.ms"),
		Heartbeat:             bounded("heartbeat.interval.ms"),
		AssignmentInterval:    bounded("assignment.interval.ms"),
		Offsets: Offsets{
			Partitions:     int32(c.Int("offsets.topic.num.partitions")),
			Replicas:       int16(c.Int("offsets.topic.replication.factor")),
			SegmentBytes:   c.Int("offsets.topic.segment.bytes"),
			Codec:          int8(c.Int("offsets.topic.compression.codec")),
			LoadBytes:      int(c.Int("offsets.load.buffer.size")),
			CommitTimeout:  c.Duration("offsets.commit.timeout.ms"),
			MetadataMax:    int(c.Int("offset.metadata.max.bytes")),
			Retention:      time.Duration(c.Int("offsets.retention.minutes")) * time.Minute,
			RetentionCheck: c.Duration("offsets.retention.check.interval.ms"),
		},
	}
}
