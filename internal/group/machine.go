package group

import (
	"fmt"
	"time"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// Machine is one shard of the group coordinator: every group whose id hashes
// to one partition of __consumer_offsets. It is a coord.Machine.
type Machine struct {
	cfg    Config
	image  *meta.Image
	groups map[string]*Group

	// topics lists, by topic name, the groups that are to hear of a change to
	// it; see index.go.
	topics topicIndex
	// committed are the topics that there are offsets of.
	committed topics
	// pending are offsets that wait for the end of their transaction.
	pending pendingOffsets

	gone   []goneTopic // soft: deleted topics whose offsets are to go
	clock  clock       // soft
	unsaid int         // soft: bytes that members of classic groups say and no record has
}

var _ coord.Machine = (*Machine)(nil)

// New returns a machine without groups.
func New(cfg Config, image *meta.Image) *Machine {
	return &Machine{cfg: cfg, image: image, groups: map[string]*Group{}}
}

// Step takes one command; see command.go for what each answers.
func (m *Machine) Step(now time.Time, to coord.Token, cmd coord.Command) (out coord.Out) {
	s := &step{Machine: m, now: now, out: &out}
	switch c := cmd.(type) {
	case *JoinGroup:
		s.joinGroup(to, c)
	case *SyncGroup:
		s.syncGroup(to, c)
	case *Heartbeat:
		s.heartbeat(to, c)
	case *LeaveGroup:
		s.leaveGroup(to, c)
	case *ConsumerHeartbeat:
		s.consumerHeartbeat(to, c)
	case *CommitOffsets:
		s.commitOffsets(to, c)
	case *FetchOffsets:
		s.fetchOffsets(to, c)
	case *DeleteOffsets:
		s.deleteOffsets(to, c)
	case *DeleteGroup:
		s.deleteGroup(to, c)
	case *ListGroups:
		s.listGroups(to, c)
	case *DescribeGroup:
		s.describeGroup(to, c)
	case *DescribeConsumerGroup:
		s.describeConsumerGroup(to, c)
	case *Observe:
		s.observe(to)
	case *NewImage:
		s.newImage(c)
	default:
		panic(fmt.Sprintf("group: unknown command %T", cmd))
	}
	s.settle()
	return out
}

// The kinds of timers. ID is the group; Sub the member where there is one.
const (
	timerSession    uint8 = iota + 1 // a member, classic or consumer, said nothing for too long
	timerRebalance                   // a classic group waits no longer for its members to join
	timerSync                        // a classic group waits no longer for its members to sync
	timerPending                     // a member id was handed out and nobody came with it
	timerRevocation                  // a consumer member did not give up partitions in time
	timerJoinMember                  // a classic member of a consumer group did not join in time
	timerSyncMember                  // and that did not sync in time
	timerRegex                       // regular expressions of a consumer group are to be looked at again
	timerOffsets                     // the first offset of a group expires
	timerTopics                      // topics were deleted; neither ID nor Sub
)

// Fire takes the expiry of a timer.
func (m *Machine) Fire(now time.Time, key coord.TimerKey) (out coord.Out) {
	s := &step{Machine: m, now: now, out: &out}
	switch key.Kind {
	case timerSession:
		s.sessionExpired(key.ID, key.Sub)
	case timerRebalance:
		s.rebalanceExpired(key.ID)
	case timerSync:
		s.syncExpired(key.ID)
	case timerPending:
		s.pendingExpired(key.ID, key.Sub)
	case timerRevocation:
		s.revocationExpired(key.ID, key.Sub)
	case timerJoinMember, timerSyncMember:
		s.stepExpired(key.ID, key.Sub)
	case timerRegex:
		s.regexDue(key.ID)
	case timerOffsets:
		s.offsetsDue(key.ID)
	case timerTopics:
		s.topicsDue()
	default:
		panic(fmt.Sprintf("group: unknown timer %d", key.Kind))
	}
	s.settle()
	return out
}

// step is one call of Step, Fire or Loaded: the machine with the call's clock
// and output.
type step struct {
	*Machine
	now      time.Time
	out      *coord.Out
	reviewed []string // groups that settle looks at
	bytes    int      // of records
}

// enough says that the step has written enough. What can wait goes on in a step of
// its own, so that others have their turn and memory has a bound.
func (s *step) enough() bool { return s.bytes >= s.cfg.MaxRecordBytes }

// emit writes a record: it is applied here and now, so what follows in the
// same step sees it.
func (s *step) emit(b body) {
	s.write(b, coord.Meta{Offset: -1, Producer: coord.NoProducer})
	if _, is := b.(*offsetRecord); !is {
		s.review(b.group())
	}
}

func (s *step) write(b body, meta coord.Meta) {
	key, value := encode(b)
	s.apply(b, meta)
	s.out.Records = append(s.out.Records, coord.Record{Key: key, Value: value, Body: b})
	s.bytes += len(key) + len(value)
}

// reply answers to, unless it is nobody.
func (s *step) reply(to coord.Token, body any) {
	if to != 0 {
		s.out.Replies = append(s.out.Replies, coord.Reply{To: to, Body: body})
	}
}

// timer sets a timer, or replaces the one under the same key.
func (s *step) timer(kind uint8, id, sub string, at time.Time) {
	s.out.Timers = append(s.out.Timers, coord.Timer{Key: coord.TimerKey{Kind: kind, ID: id, Sub: sub}, At: at})
}

func (s *step) cancel(kind uint8, id, sub string) { s.timer(kind, id, sub, time.Time{}) }

// Apply takes a record of the log. Records of kinds that this version does not
// know are skipped, as Apache Kafka does: a newer one wrote them.
func (m *Machine) Apply(rec coord.Record, meta coord.Meta) error {
	if isOffset(rec.Key) {
		return m.loadOffset(rec, meta)
	}
	b, err := decode(rec.Key, rec.Value)
	if err != nil || b == nil {
		return err
	}
	m.apply(b, meta)
	return nil
}

// apply is the one place where hard state changes.
func (m *Machine) apply(b body, meta coord.Meta) {
	switch b := b.(type) {
	case *offsetRecord:
		m.applyOffset(b, meta)
	case *classicRecord:
		m.applyClassic(b)
	case *groupEpochRecord:
		m.applyGroupEpoch(b)
	case *memberRecord:
		m.applyMember(b)
	case *targetEpochRecord:
		m.applyTargetEpoch(b)
	case *targetRecord:
		m.applyTarget(b)
	case *currentRecord:
		m.applyCurrent(b)
	case *regexRecord:
		m.applyRegex(b)
	case *partitionMetadataRecord:
		m.applyPartitionMetadata(b)
	default:
		panic(fmt.Sprintf("group: unknown record %T", b))
	}
}
