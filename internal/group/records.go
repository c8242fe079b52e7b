package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// body is one record of __consumer_offsets, key and value in one. A nil Value
// is a tombstone. The schemas are Apache Kafka's own (coordinator-key and
// coordinator-value messages), so that its tools read ours.
type body interface{ group() string }

// offsetRecord is a committed offset: key types 0 and 1.
type offsetRecord struct {
	Group, Topic string
	Partition    int32
	Value        *offset
}

// offset is a committed offset.
type offset struct {
	Offset      int64
	LeaderEpoch int32 // -1 unknown
	Metadata    string
	CommitMs    int64         // wall time of the commit
	ExpireMs    int64         // -1: by the broker's retention (only OffsetCommit v2-v4 set it)
	TopicID     kafka.TopicID // zero: unknown
}

// classicRecord is a classic group with its members: key type 2.
type classicRecord struct {
	Group string
	Value *kmsg.GroupMetadataValue
}

// groupEpochRecord is a consumer group's epoch: key type 3.
type groupEpochRecord struct {
	Group string
	Value *groupEpoch
}

type groupEpoch struct {
	Epoch        int32
	MetadataHash int64
}

// partitionMetadataRecord is key type 4, which Apache Kafka wrote before 4.1.
// It marks that the group is a consumer group and says nothing more to us; only
// its tombstone is ever written.
type partitionMetadataRecord struct {
	Group     string
	Tombstone bool
}

// memberRecord is a consumer group's member: key type 5.
type memberRecord struct {
	Group, Member string
	Value         *memberMetadata
}

type memberMetadata struct {
	Instance, Rack     *string
	ClientID, Host     string
	Topics             []string // sorted
	Regex              *string
	RebalanceTimeoutMs int32
	Assignor           *string
	// Classic is set for a member that speaks the classic protocol.
	Classic *classicMetadata
}

type classicMetadata struct {
	SessionTimeoutMs int32
	Protocols        []kmsg.JoinGroupRequestProtocol
}

// targetEpochRecord is the epoch that the target assignment was made for: key type 6.
type targetEpochRecord struct {
	Group string
	Value *targetEpoch
}

type targetEpoch struct {
	Epoch int32
	AtMs  int64 // wall time when it was made (KIP-1263); 0 unknown
}

// targetRecord is a member's target assignment: key type 7.
type targetRecord struct {
	Group, Member string
	Value         *target
}

type target struct{ Topics []topicPartitions }

// topicPartitions are partitions of one topic, ascending. Lists of them go by
// topic id. Epochs, of the same length or nil, are the member epochs at which
// each was assigned (in currentRecord alone).
type topicPartitions struct {
	Topic      kafka.TopicID
	Partitions []int32
	Epochs     []int32
}

// currentRecord is what a member has and is to give up: key type 8.
type currentRecord struct {
	Group, Member string
	Value         *current
}

type current struct {
	Epoch, PreviousEpoch int32
	State                memberState
	Assigned             []topicPartitions
	PendingRevocation    []topicPartitions
}

// memberState is Apache Kafka's MemberState, by its number in records.
type memberState int8

const (
	memberStable               memberState = 0
	memberUnrevokedPartitions  memberState = 1
	memberUnreleasedPartitions memberState = 2
	memberUnknown              memberState = 127
)

// regexRecord is what a regular expression matched when it was looked at last: key type 16.
type regexRecord struct {
	Group, Regex string
	Value        *regexTopics
}

type regexTopics struct {
	Topics  []string // sorted
	Version int64    // of the metadata image: its revision
	AtMs    int64
}

func (b *offsetRecord) group() string            { return b.Group }
func (b *classicRecord) group() string           { return b.Group }
func (b *groupEpochRecord) group() string        { return b.Group }
func (b *partitionMetadataRecord) group() string { return b.Group }
func (b *memberRecord) group() string            { return b.Group }
func (b *targetEpochRecord) group() string       { return b.Group }
func (b *targetRecord) group() string            { return b.Group }
func (b *currentRecord) group() string           { return b.Group }
func (b *regexRecord) group() string             { return b.Group }
