package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// checkCommit takes a commit of the member's own epoch, and of an earlier one
// for partitions that the member has had since then: it may have heartbeaten
// while the commit was on its way.
func (c *consumer) checkCommit(s *step, cm *CommitOffsets) error {
	if cm.Generation < 0 && len(c.members) == 0 {
		return nil
	}
	txn := cm.Producer != nil
	if txn && cm.Generation == -1 && cm.Member == "" && cm.Instance == nil {
		return nil
	}
	m := c.members[cm.Member]
	switch {
	case m == nil:
		return kerr.UnknownMemberID
	case !txn && !m.classic() && cm.Version < 9:
		return kerr.UnsupportedVersion
	case cm.Generation == m.cur.Epoch:
		return nil
	case cm.Generation > m.cur.Epoch:
		return m.stale()
	}
	for _, p := range cm.Partitions {
		if len(p.Metadata) > s.cfg.OffsetMetadataMax {
			continue // refused on its own
		}
		if since, ok := m.assignedAt(s.topicID(p), p.Partition); !ok || cm.Generation < since {
			return m.stale()
		}
	}
	return nil
}

func (s *step) topicID(p CommitPartition) kafka.TopicID {
	if p.TopicID.IsZero() {
		if t, ok := s.image.Topic(p.Topic); ok {
			return t.ID
		}
	}
	return p.TopicID
}

// assignedAt is the epoch since when the member has had a partition.
func (m *consumerMember) assignedAt(topic kafka.TopicID, partition int32) (epoch int32, ok bool) {
	for _, list := range [][]topicPartitions{m.cur.Assigned, m.cur.PendingRevocation} {
		t := partitionsOf(list, topic)
		if i, ok := slices.BinarySearch(t.Partitions, partition); ok {
			return t.Epochs[i], true
		}
	}
	return 0, false
}

// stale is what a member is told whose epoch is not the right one, in its own protocol's word.
func (m *consumerMember) stale() error {
	if m.classic() {
		return kerr.IllegalGeneration
	}
	return kerr.StaleMemberEpoch
}

func (c *consumer) checkFetch(f *FetchOffsets) error {
	if f.Member == nil && f.MemberEpoch < 0 {
		return nil
	}
	if f.Member == nil || c.members[*f.Member] == nil {
		return kerr.UnknownMemberID
	}
	if m := c.members[*f.Member]; f.MemberEpoch != m.cur.Epoch {
		return m.stale()
	}
	return nil
}
