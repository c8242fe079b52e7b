//go:build interop

package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func metadataCases() []testCase {
	return []testCase{
		{"META-02-auto-creation", meta02},
		{"META-03-topic-ids", meta03},
		{"Metadata-authorized-operations", metaAuthorized},
		{"Metadata-names", metaNames},
		{"Metadata-versions", metaVersions},
	}
}

func meta02(s *session) {
	s.create("m2", 1)
	s.ask("not allowed", metadata(12, false, s.topic("auto-a")))
	s.ask("still not there", metadata(12, false, s.topic("auto-a")))
	s.ask("fetch does not create", fetch(12, s.topic("auto-a"), [16]byte{}, fetchAsk{0, 0, 0}))
	s.ask("list offsets does not create", listOffsets(7, s.topic("auto-a"), offsetAsk{0, -1, -1}))
	all := metadata(12, true)
	all.Topics = nil
	s.do(all)
	s.ask("null list does not create", metadata(12, false, s.topic("auto-a")))
	for _, v := range []int16{0, 3, 4, 9, 12, 13} {
		name := fmt.Sprintf("auto-v%d", v)
		s.ask("allowed", metadata(v, true, s.topic(name)))
		s.settle(name)
		s.ask("afterwards", metadata(v, false, s.topic(name)))
	}
	s.ask("two names, one bad", metadata(12, true, "bad name!", s.topic("auto-b")))
	s.settle("auto-b")
	s.ask("afterwards", metadata(12, false, s.topic("auto-b")))
	s.ask("twice", metadata(12, true, s.topic("auto-c"), s.topic("auto-c")))
	s.settle("auto-c")
	dot, under := "x.y"+s.suffix, "x_y"+s.suffix
	s.do(metadata(12, true, dot))
	s.settleName(dot)
	s.ask("collides with a name that has a dot", metadata(12, true, under))
}

// settle waits until an automatically created topic has its leader.
func (s *session) settle(base string) { s.settleName(s.topic(base)) }

func (s *session) settleName(name string) {
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		r := s.do(metadata(12, false, name)).(*kmsg.MetadataResponse)
		if t := r.Topics[0]; t.ErrorCode == 0 && len(t.Partitions) > 0 && t.Partitions[0].Leader >= 0 {
			return
		}
	}
	s.fail("topic %s was not created", s.plain(name))
}

func byID(version int16, ids ...[16]byte) *kmsg.MetadataRequest {
	r := metadata(version, false)
	for _, id := range ids {
		t := kmsg.NewMetadataRequestTopic()
		t.TopicID = id
		r.Topics = append(r.Topics, t)
	}
	return r
}

func meta03(s *session) {
	id := s.create("m3", 1)
	for _, v := range []int16{10, 11, 12, 13} {
		s.ask("by name", metadata(v, false, s.topic("m3")))
		s.ask("by id", byID(v, id))
		s.ask("unknown id", byID(v, [16]byte{7, 7}))
		s.ask("null name, zero id", byID(v, [16]byte{}))
		both := metadata(v, false, s.topic("m3"))
		both.Topics[0].TopicID = id
		s.ask("name and its id", both)
		both.Topics[0].TopicID = [16]byte{7, 7}
		s.ask("name and another id", both)
	}
	s.ask("known and unknown id", byID(12, id, [16]byte{7, 7}))
	mixed := byID(12, id)
	mixed.Topics = append(mixed.Topics, metadata(12, false, s.topic("m3x")).Topics...)
	s.ask("an id and a name", mixed)
	s.deleteTopic("m3")
	s.ask("id of a deleted topic", byID(12, id))
	again := s.create("m3", 1)
	s.note("new id after the new creation: %t", again != id)
	s.ask("old id", byID(12, id))
	s.ask("new id", byID(12, again))
}

func metaAuthorized(s *session) {
	s.create("ao", 1)
	for v := int16(8); v <= 13; v++ {
		req := metadata(v, false, s.topic("ao"), s.topic("nosuch"))
		req.IncludeTopicAuthorizedOperations = true
		req.IncludeClusterAuthorizedOperations = true
		s.ask("both asked for", req)
	}
}

func metaNames(s *session) {
	long := make([]byte, 250)
	for i := range long {
		long[i] = 'l'
	}
	for _, auto := range []bool{false, true} {
		for _, name := range []string{"", ".", "..", "a b", "a/b", "ä", "a:b", string(long)} {
			for _, v := range []int16{4, 12} {
				s.ask(fmt.Sprintf("auto %t", auto), metadata(v, auto, name))
			}
		}
	}
	s.ask("order", metadata(12, false, s.topic("zz-unknown"), "a b", s.topic("aa-unknown"), ".."))
}

func metaVersions(s *session) {
	s.create("mv", 3)
	for v := int16(0); v <= 13; v++ {
		// Versions up to 3 create what they name, sooner or later.
		s.ask("known and unknown", metadata(v, false, s.topic("mv"), s.topic(fmt.Sprintf("nosuch%d", v))))
	}
}
