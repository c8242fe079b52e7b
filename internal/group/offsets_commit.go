package group

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Versions at which errors got their names.
const (
	commitKnowsNoGroup  = 9 // OffsetCommit: GROUP_ID_NOT_FOUND
	txnKnowsNoGroup     = 6 // TxnOffsetCommit: GROUP_ID_NOT_FOUND
	txnKnowsStaleMember = 6 // TxnOffsetCommit: STALE_MEMBER_EPOCH
)

func (s *step) commitOffsets(to coord.Token, c *CommitOffsets) {
	out := &OffsetsCommitted{Codes: make([]int16, len(c.Partitions))}
	s.reply(to, out)
	g := s.lookup(c.Group)
	if err := s.mayCommit(g, c); err != nil {
		code := codeOf(err)
		for i := range out.Codes {
			out.Codes[i] = code
		}
		return
	}
	if s.commitSize(c) > s.cfg.MaxRecordBytes {
		for i := range out.Codes {
			out.Codes[i] = kerr.InvalidCommitOffsetSize.Code
		}
		return
	}
	nowMs, expireMs := s.now.UnixMilli(), int64(-1)
	if c.RetentionMs != -1 {
		expireMs = plus(nowMs, c.RetentionMs)
	}
	meta := coord.Meta{Offset: -1, Producer: coord.NoProducer}
	if c.Producer != nil {
		s.out.Txn = &coord.Producer{ID: c.Producer.ID, Epoch: c.Producer.Epoch}
		meta.Producer, meta.Transactional = *s.out.Txn, true
	}
	// Together, for a commit has many partitions, or there are many commits.
	type commit struct {
		offsetRecord
		offset
	}
	commits := make([]commit, 0, len(c.Partitions))
	s.out.Records = slices.Grow(s.out.Records, len(c.Partitions))
	for i := range c.Partitions {
		p := &c.Partitions[i]
		commits = append(commits, commit{
			offsetRecord{Group: c.Group, Topic: p.Topic, Partition: p.Partition},
			offset{p.Offset, p.LeaderEpoch, p.Metadata, nowMs, expireMs, p.TopicID},
		})
		b := &commits[i]
		b.Value = &b.offset
		if out.Codes[i] = s.refuseOffset(&b.offsetRecord); out.Codes[i] == 0 {
			b.Metadata = strings.Clone(b.Metadata)
			if expireMs != -1 { // the version of the record that has an expiry has neither
				b.LeaderEpoch, b.TopicID = -1, kafka.TopicID{}
			}
			s.write(&b.offsetRecord, meta)
		}
	}
	if len(s.out.Records) == 0 {
		return
	}
	g = s.lookup(c.Group)
	g.commits += uint64(len(s.out.Records))
	s.lookAt(g, s.expiry(&commits[0].offset, nowMs))
}

// commitSize is what the records of a commit take, without those that are refused
// for themselves. A commit is one batch, as in Apache Kafka, where a larger one is
// refused too: else each partition of a request, a few bytes, could make a record
// with 32 KiB of group id.
func (s *step) commitSize(c *CommitOffsets) (size int) {
	for i := range c.Partitions {
		p := &c.Partitions[i]
		one := offsetKeySize(c.Group, p.Topic) + offsetSize(&offset{Metadata: p.Metadata, ExpireMs: -1, TopicID: p.TopicID})
		if len(p.Metadata) <= s.cfg.OffsetMetadataMax && one <= s.cfg.MaxRecordBytes {
			size += one
		}
	}
	return size
}

// mayCommit is a *kerr.Error or nil. A group that nobody knows is made by a
// commit without a generation.
func (s *step) mayCommit(g *Group, c *CommitOffsets) error {
	txn := c.Producer != nil
	switch {
	case g != nil && g.members != nil:
		err := g.members.checkCommit(s, c)
		if txn && c.Version < txnKnowsStaleMember && errors.Is(err, kerr.StaleMemberEpoch) {
			return kerr.IllegalGeneration
		}
		return err
	case c.Generation < 0:
		return nil
	case g != nil:
		return kerr.UnknownMemberID
	case !txn && c.Version >= commitKnowsNoGroup, txn && c.Version >= txnKnowsNoGroup:
		return kerr.GroupIDNotFound
	}
	return kerr.IllegalGeneration
}

// refuseOffset is the error code of an offset that is not to be stored.
func (s *step) refuseOffset(r *offsetRecord) int16 {
	switch {
	case javaLen(r.Value.Metadata, s.cfg.OffsetMetadataMax) > s.cfg.OffsetMetadataMax:
		return kerr.OffsetMetadataTooLarge.Code
	case max(len(r.Group), len(r.Topic)) > maxString,
		offsetKeySize(r.Group, r.Topic)+offsetSize(r.Value) > s.cfg.MaxRecordBytes:
		return kerr.InvalidCommitOffsetSize.Code
	}
	return 0
}

// javaLen is the length of a string as Apache Kafka counts it, in units of
// UTF-16. One that cannot be above enough is not counted.
func javaLen(s string, enough int) (n int) {
	if len(s) <= enough {
		return len(s)
	}
	for _, r := range s {
		if r == utf8.RuneError {
			n++
			continue
		}
		n += utf16.RuneLen(r)
	}
	return n
}

// codeOf is the protocol's code of a refusal.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	if ke := (*kerr.Error)(nil); errors.As(err, &ke) {
		return ke.Code
	}
	return kerr.UnknownServerError.Code
}
