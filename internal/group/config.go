package group

import "time"

// Config are the coordinator's settings, by the key that each comes from.
type Config struct {
	MinSession, MaxSession   time.Duration // group.{min,max}.session.timeout.ms
	InitialRebalanceDelay    time.Duration // group.initial.rebalance.delay.ms
	MaxSize                  int           // group.max.size
	OffsetMetadataMax        int           // offset.metadata.max.bytes
	OffsetsRetention         time.Duration // offsets.retention.minutes
	OffsetsRetentionCheck    time.Duration // offsets.retention.check.interval.ms
	MaxRecordBytes           int           // a larger record is refused with the protocol's error
	ConsumerEnabled          bool          // group.coordinator.rebalance.protocols names consumer
	ConsumerMaxSize          int           // group.consumer.max.size
	ConsumerAssignors        []string      // group.consumer.assignors; the first is the default
	ConsumerMigration        Migration     // group.consumer.migration.policy
	RegexRefresh             time.Duration // group.consumer.regex.refresh.interval.ms
	ConsumerDefaults         Settings      // what a group has that sets nothing itself
	ConsumerMin, ConsumerMax Settings      // bounds: a group's own values are clamped to them
}

// Settings are what a consumer group may set for itself, in its configuration
// resource: the machine reads it off the image.
type Settings struct {
	Session            time.Duration // consumer.session.timeout.ms
	Heartbeat          time.Duration // consumer.heartbeat.interval.ms
	AssignmentInterval time.Duration // consumer.assignment.interval.ms
}

// Migration says which live groups may change between the protocols (KIP-848).
type Migration struct{ Upgrade, Downgrade bool }
