package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// Commands of Step, with what each is answered. Requests and their slices
// belong to the caller, and alias a frame that is gone once the reply was
// sent: what the machine keeps it copies.

// Client is who speaks: client.id and the address, as describing a group shows them.
type Client struct{ ID, Host string }

// JoinGroup is answered with *kmsg.JoinGroupResponse.
type JoinGroup struct {
	Req    *kmsg.JoinGroupRequest
	Client Client
	// NewMemberID is the id for a member that comes without one.
	NewMemberID string
	// Release is called when the member waits for others, and the bytes of the
	// request are needed no longer; it may be nil.
	Release func()
}

// Parked implements coord.Parker.
func (c *JoinGroup) Parked() {
	c.Req.Protocols = nil
	if c.Release != nil {
		c.Release()
	}
}

// SyncGroup is answered with *kmsg.SyncGroupResponse.
type SyncGroup struct {
	Req     *kmsg.SyncGroupRequest
	Release func() // as of JoinGroup
}

// Parked implements coord.Parker.
func (c *SyncGroup) Parked() {
	c.Req.GroupAssignment = nil
	if c.Release != nil {
		c.Release()
	}
}

// Heartbeat is answered with *kmsg.HeartbeatResponse.
type Heartbeat struct{ Req *kmsg.HeartbeatRequest }

// LeaveGroup is answered with *kmsg.LeaveGroupResponse.
type LeaveGroup struct{ Req *kmsg.LeaveGroupRequest }

// ConsumerHeartbeat is answered with *kmsg.ConsumerGroupHeartbeatResponse.
type ConsumerHeartbeat struct {
	Req    *kmsg.ConsumerGroupHeartbeatRequest
	Client Client
	// NewMemberID is the id for a member that comes without one (version 0).
	NewMemberID string
	// Visible says which topics the client may see (DESCRIBE): a regular
	// expression matches no others. Nil: all. It is pure.
	Visible func(topic string) bool
	// Regex is the request's regular expression as ReadRegex reads it: beforehand,
	// for it takes long. Nil: it is read when it is needed.
	Regex *Regex
}

// CommitOffsets is answered with *OffsetsCommitted.
type CommitOffsets struct {
	Group, Member string
	Instance      *string
	Generation    int32 // or member epoch; -1 none
	Version       int16 // of OffsetCommit
	// RetentionMs of OffsetCommit v2-v4; -1: the broker's.
	RetentionMs int64
	// Producer of TxnOffsetCommit: the offsets are pending until its marker.
	// Nil: an ordinary commit.
	Producer   *CommitProducer
	Partitions []CommitPartition // that exist
}

// CommitProducer is the transaction that offsets are part of.
type CommitProducer struct {
	ID    int64
	Epoch int16
}

// CommitPartition is one offset to store.
type CommitPartition struct {
	Topic       string
	TopicID     kafka.TopicID
	Partition   int32
	Offset      int64
	LeaderEpoch int32 // -1 unknown
	Metadata    string
}

// OffsetsCommitted has one protocol error code for each of the command's
// partitions, in order.
type OffsetsCommitted struct{ Codes []int16 }

// FetchOffsets is answered with *OffsetsFetched.
type FetchOffsets struct {
	Group         string
	Member        *string // nil: not given, and not checked
	MemberEpoch   int32   // -1: not given
	RequireStable bool
	// Topics to answer, nil: every topic with a committed offset.
	Topics []FetchTopic
}

// FetchTopic is a topic of FetchOffsets. ID is zero where the client asked by name.
type FetchTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []int32
}

// OffsetsFetched answers FetchOffsets. Code refuses the whole group.
type OffsetsFetched struct {
	Code   int16
	Topics []FetchedTopic // as asked; sorted by name where all were asked for
}

// FetchedTopic is a topic of OffsetsFetched.
type FetchedTopic struct {
	Name       string
	Partitions []FetchedOffset
}

// FetchedOffset is a committed offset; Offset -1 where there is none.
type FetchedOffset struct {
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Metadata    string
	Code        int16 // UNSTABLE_OFFSET_COMMIT
}

// DeleteOffsets (OffsetDelete) is answered with *OffsetsDeleted.
type DeleteOffsets struct {
	Group      string
	Partitions []kafka.TopicPartition // that exist
}

// OffsetsDeleted has the group's error code, and one for each of the command's
// partitions, in order, where that is 0.
type OffsetsDeleted struct {
	Code  int16
	Codes []int16
}

// DeleteGroup is answered with a protocol error code, an int16.
type DeleteGroup struct{ Group string }

// ListGroups is answered with []kmsg.ListGroupsResponseGroup, by id. Empty filters let all pass.
type ListGroups struct{ States, Types Filter }

// DescribeGroup is answered with *kmsg.DescribeGroupsResponseGroup.
type DescribeGroup struct {
	Group   string
	Version int16
}

// DescribeConsumerGroup is answered with *kmsg.ConsumerGroupDescribeResponseGroup.
type DescribeConsumerGroup struct{ Group string }

// Observe is answered with []Stats, by group id: for metrics.
type Observe struct{}

// Stats are figures of one group. Counters begin at the load of the shard.
type Stats struct {
	Group      string
	Type       string // "classic", "consumer"
	State      string // as ListGroups gives it
	Members    int
	Rebalances uint64 // new generations or group epochs
	Commits    uint64 // partitions committed
	Offsets    []StatsOffset
}

// StatsOffset is a committed offset.
type StatsOffset struct {
	kafka.TopicPartition
	Offset int64
	At     time.Time // of the commit
}

// NewImage tells of another image of the metadata. Nobody is answered.
type NewImage struct {
	Image *meta.Image
	Delta *meta.Delta // nil: everything may have changed
	// Defaults are what consumer groups have from here on that set nothing
	// themselves; nil: as before.
	Defaults *Settings
}

// These write nothing, whatever they find: they are answered while the log
// cannot be written, too. A heartbeat of the classic protocol moves a deadline alone.
var (
	_ coord.Query = (*FetchOffsets)(nil)
	_ coord.Query = (*ListGroups)(nil)
	_ coord.Query = (*DescribeGroup)(nil)
	_ coord.Query = (*DescribeConsumerGroup)(nil)
	_ coord.Query = (*Observe)(nil)
	_ coord.Query = (*Heartbeat)(nil)
)

func (*FetchOffsets) Query()          {}
func (*ListGroups) Query()            {}
func (*DescribeGroup) Query()         {}
func (*DescribeConsumerGroup) Query() {}
func (*Observe) Query()               {}
func (*Heartbeat) Query()             {}
