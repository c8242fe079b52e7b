//go:build interop

package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

func deleteRecordsCases() []testCase {
	return []testCase{
		{"ADM-12-delete-records", deleteRecords},
		{"ADM-12-policies", deletePolicies},
		{"ADM-12-unknown", deleteUnknown},
	}
}

// deleteAsk is one partition of a DeleteRecords request.
type deleteAsk struct {
	p      int32
	offset int64
}

func deleteReq(version int16, topic string, asks ...deleteAsk) *kmsg.DeleteRecordsRequest {
	r := kmsg.NewPtrDeleteRecordsRequest()
	r.Version, r.TimeoutMillis = version, 10000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	for _, a := range asks {
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = a.p, a.offset
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return r
}

func deleteRecords(s *session) {
	for v := int16(0); v <= 2; v++ {
		base := fmt.Sprintf("dr%d", v)
		s.create(base, 2)
		s.put(base, 0, raw.NewBatch(1000, "a", "b", "c").MustEncode(), raw.NewBatch(1000, "d", "e").MustEncode())
		for _, o := range []int64{-2, -3, 0, 1, 0, 2, 4, 3, 6, 5, -1, 5, 6} {
			s.ask(fmt.Sprintf("up to %d", o), deleteReq(v, s.topic(base), deleteAsk{0, o}))
			s.askOffset("earliest", listOffsets(7, s.topic(base), offsetAsk{0, -2, -1}))
		}
		s.ask("an empty partition", deleteReq(v, s.topic(base), deleteAsk{1, -1}))
		s.ask("an empty partition, above", deleteReq(v, s.topic(base), deleteAsk{1, 1}))
		for _, ts := range []int64{-1, -3, -4, 0} {
			s.askOffset(fmt.Sprintf("timestamp %d", ts), listOffsets(8, s.topic(base), offsetAsk{0, ts, -1}))
		}
		s.put(base, 0, raw.NewBatch(2000, "f").MustEncode())
		s.ask("fetch below", fetch(12, s.topic(base), [16]byte{}, fetchAsk{0, 4, 0}))
		s.ask("the epoch's end", epochReq(4, s.topic(base), -1, -1, 0, 0))
		for _, wait := range []int32{0, -1} {
			r := deleteReq(v, s.topic(base), deleteAsk{0, -1})
			r.TimeoutMillis = wait
			s.ask(fmt.Sprintf("timeout %d", wait), r)
		}
	}
}

func deletePolicies(s *session) {
	for _, policy := range []string{"compact", "delete", "compact,delete", ""} {
		base := "dp" + policy[:min(len(policy), 1)] + fmt.Sprint(len(policy))
		s.create(base, 1, "cleanup.policy", policy)
		b := raw.NewBatch(1000, "a")
		b.Records[0].Key = []byte("k")
		s.put(base, 0, b.MustEncode())
		for _, o := range []int64{1, -1, -2, 7} {
			s.ask(fmt.Sprintf("policy %q, up to %d", policy, o), deleteReq(2, s.topic(base), deleteAsk{0, o}))
		}
	}
}

func deleteUnknown(s *session) {
	s.create("du", 2)
	s.put("du", 0, raw.NewBatch(1000, "a", "b", "c").MustEncode())
	name := s.topic("du")
	s.ask("unknown topic", deleteReq(2, s.topic("nosuch"), deleteAsk{0, -1}, deleteAsk{7, 1}))
	s.ask("bad name", deleteReq(2, "a b", deleteAsk{0, -1}))
	s.ask("unknown partitions", deleteReq(2, name, deleteAsk{2, -1}, deleteAsk{-1, 0}, deleteAsk{0, 1}))
	s.ask("partition twice", deleteReq(2, name, deleteAsk{0, 3}, deleteAsk{0, 2}))
	two := deleteReq(2, name, deleteAsk{0, 2})
	two.Topics = append(two.Topics, deleteReq(2, name, deleteAsk{1, 0}).Topics...)
	s.ask("topic twice", two)
	s.ask("no partitions", deleteReq(2, name))
	none := deleteReq(2, name)
	none.Topics = nil
	s.ask("no topics", none)
	s.group("du")
	s.ask("internal topic", deleteReq(2, "__consumer_offsets", deleteAsk{0, -1}, deleteAsk{77, -1}))
	s.ask("internal topic that is not there", deleteReq(2, "__share_group_state", deleteAsk{0, -1}))
}
