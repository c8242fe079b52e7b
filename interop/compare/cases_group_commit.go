//go:build interop

package main

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func commitCases() []testCase {
	return []testCase{
		{"GRP-10-unknown-partitions", grp10},
		{"OffsetCommit-values", commitValues},
		{"OffsetCommit-metadata", commitMetadata},
		{"OffsetCommit-ids", commitIDs},
		{"GRP-18-topic-deleted", grp18},
	}
}

// offsetPart is a partition and the offset committed for it.
type offsetPart struct {
	p      int32
	offset int64
}

func commitReq(version int16, group, member string, generation int32, topic string, parts ...offsetPart) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.Generation = version, group, member, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for _, x := range parts {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = x.p, x.offset, kmsg.StringPtr("")
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return r
}

// id is the topic's, which the case has created.
func (s *session) id(base string) [16]byte {
	return s.do(metadata(12, false, s.topic(base))).(*kmsg.MetadataResponse).Topics[0].TopicID
}

func grp10(s *session) {
	id := s.create("c10", 2)
	t := s.topic("c10")
	for v := int16(2); v <= 10; v++ {
		g := s.group(fmt.Sprintf("c10-%d", v))
		with := func(topics ...kmsg.OffsetCommitRequestTopic) *kmsg.OffsetCommitRequest {
			r := commitReq(v, g, "", -1, "")
			r.Topics = append([]kmsg.OffsetCommitRequestTopic{}, topics...)
			return r
		}
		of := func(name string, id [16]byte, parts ...offsetPart) kmsg.OffsetCommitRequestTopic {
			topic := commitReq(v, g, "", -1, name, parts...).Topics[0]
			topic.TopicID = id
			return topic
		}
		s.ask("one there, two not", with(of(t, id, offsetPart{0, 3}, offsetPart{99, 4}), of(s.topic("nosuch"), [16]byte{7}, offsetPart{0, 5})))
		s.ask("none there", with(of(s.topic("nosuch"), [16]byte{7}, offsetPart{0, 5}, offsetPart{1, 5})))
		s.ask("partition -1", with(of(t, id, offsetPart{-1, 3})))
		s.ask("name that cannot be", with(of("bad name!", [16]byte{8}, offsetPart{0, 5}), of("", [16]byte{}, offsetPart{0, 5})))
		s.ask("no topics", with())
		s.ask("no partitions", with(of(t, id)))
		s.ask("partition twice", with(of(t, id, offsetPart{1, 10}, offsetPart{1, 11})))
		s.ask("topic twice", with(of(t, id, offsetPart{0, 20}), of(t, id, offsetPart{0, 21}, offsetPart{1, 22})))
		s.ask("internal topic", with(of("__consumer_offsets", [16]byte{}, offsetPart{0, 1})))
		s.ask("what is stored", fetchOffsetsReq(7, g))
		r := with(of(t, id, offsetPart{0, 3}))
		r.Group = ""
		s.ask("no group", r)
	}
	s.ask("what the nameless group has", fetchOffsetsReq(7, "", t))
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 2, []string{""}
	s.ask("it is deleted", del)
}

func commitValues(s *session) {
	s.create("cval", 1)
	t := s.topic("cval")
	for v := int16(2); v <= 9; v++ {
		g := s.group(fmt.Sprintf("cval%d", v))
		for _, c := range []struct {
			offset    int64
			epoch     int32
			retention int64
		}{{0, -1, -1}, {5, 0, -1}, {1 << 62, 3, -1}, {-1, -1, -1}, {-5, -1, -1}, {6, -2, -1}, {7, 2147483647, -1}, {8, -1, 0}, {9, -1, 60000}, {10, -1, -2}} {
			if c.retention != -1 && v > 4 || c.epoch != -1 && v < 6 {
				continue
			}
			r := commitReq(v, g, "", -1, t, offsetPart{0, c.offset})
			r.Topics[0].Partitions[0].LeaderEpoch, r.RetentionTimeMillis = c.epoch, c.retention
			s.ask(fmt.Sprintf("offset %d epoch %d retention %d", c.offset, c.epoch, c.retention), r)
			s.ask("stored", fetchOffsetsReq(5, g, t))
		}
		r := commitReq(v, g, "", -1, t, offsetPart{0, 1})
		r.InstanceID = kmsg.StringPtr("i")
		if v >= 7 {
			s.ask("an instance, no group", r)
			r.InstanceID = kmsg.StringPtr("")
			s.ask("an empty instance", r)
		}
	}
}

func commitMetadata(s *session) {
	s.create("cmeta", 3)
	t := s.topic("cmeta")
	for _, v := range []int16{2, 7, 8, 9} {
		g := s.group(fmt.Sprintf("cmeta%d", v))
		r := commitReq(v, g, "", -1, t, offsetPart{0, 1}, offsetPart{1, 2}, offsetPart{2, 3})
		parts := r.Topics[0].Partitions
		parts[0].Metadata = kmsg.StringPtr(strings.Repeat("m", 4096))
		parts[1].Metadata = kmsg.StringPtr(strings.Repeat("m", 4097))
		parts[2].Metadata = nil
		s.ask("4096, 4097 and null", r)
		s.ask("stored", fetchOffsetsReq(7, g))
		parts[0].Metadata = kmsg.StringPtr(strings.Repeat("ä", 2048))
		parts[1].Metadata = kmsg.StringPtr(strings.Repeat("ä", 2049))
		parts[2].Metadata = kmsg.StringPtr("\x00")
		s.ask("4096 and 4098 bytes of two a letter", r)
		parts[0].Metadata = kmsg.StringPtr(strings.Repeat("ä", 4096))
		parts[1].Metadata = kmsg.StringPtr(strings.Repeat("ä", 4097))
		s.ask("4096 and 4097 letters of two bytes", r)
		s.ask("stored", fetchOffsetsReq(7, g))
		parts[0].Metadata, parts[2].Metadata = parts[1].Metadata, parts[1].Metadata
		s.ask("all too long", r)
		r.Topics[0].Partitions[0].Partition = 50
		s.ask("too long for a partition that is not there", r)
	}
}

func commitIDs(s *session) {
	id := s.create("cid", 1)
	g := s.group("cid")
	for _, v := range []int16{9, 10} {
		for _, c := range []struct {
			label string
			name  string
			id    [16]byte
		}{{"both", s.topic("cid"), id}, {"id", "", id}, {"name", s.topic("cid"), [16]byte{}}, {"unknown id", "", [16]byte{9, 9}}, {"neither", "", [16]byte{}}} {
			r := commitReq(v, g, "", -1, c.name, offsetPart{0, int64(v)}, offsetPart{4, 1})
			r.Topics[0].TopicID = c.id
			s.ask(c.label, r)
			f := fetchOffsetsReq(v, g, c.name)
			f.Groups[0].Topics[0].TopicID = c.id
			s.ask(c.label, f)
		}
	}
	all := fetchOffsetsReq(10, g)
	s.ask("everything, by ids", all)
}

// grp18 deletes a topic whose offsets are committed, and makes it again.
func grp18(s *session) {
	s.create("c18", 1)
	s.create("c18b", 1)
	g := s.group("c18")
	two := commitReq(7, g, "", -1, s.topic("c18"), offsetPart{0, 10})
	two.Topics = append(two.Topics, commitReq(7, g, "", -1, s.topic("c18b"), offsetPart{0, 20}).Topics[0])
	s.ask("commit", two)
	s.ask("stored", fetchOffsetsReq(7, g))
	s.deleteTopic("c18")
	s.until("the deleted topic's offset is gone", func() bool {
		r := s.do(fetchOffsetsReq(7, g)).(*kmsg.OffsetFetchResponse)
		return len(r.Topics) == 1
	})
	s.create("c18", 1)
	s.ask("after it was made again", fetchOffsetsReq(7, g, s.topic("c18"), s.topic("c18b")))
	s.deleteTopic("c18b")
	s.until("its last offset is gone", func() bool {
		return len(s.do(fetchOffsetsReq(7, g)).(*kmsg.OffsetFetchResponse).Topics) == 0
	})
	s.describe("without offsets", g)
}
