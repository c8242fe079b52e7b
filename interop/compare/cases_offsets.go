//go:build interop

package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

func offsetCases() []testCase {
	return []testCase{
		{"ListOffsets-special", listSpecial},
		{"ListOffsets-by-time", listByTime},
		{"ListOffsets-errors", listErrors},
		{"ListOffsets-versions", listVersions},
		{"OffsetForLeaderEpoch", leaderEpochs},
	}
}

func listSpecial(s *session) {
	s.create("lempty", 1)
	s.create("lfull", 1)
	s.put("lfull", 0, raw.NewBatch(5000, "a", "b").MustEncode(), raw.NewBatch(3000, "c").MustEncode())
	for _, topic := range []string{"lempty", "lfull"} {
		for _, v := range []int16{1, 4, 7, 8, 9, 10, 11} {
			for ts := int64(-7); ts <= 0; ts++ {
				s.askOffset(fmt.Sprintf("%s v%d timestamp %d", topic, v, ts), listOffsets(v, s.topic(topic), offsetAsk{0, ts, -1}))
			}
			s.askOffset(fmt.Sprintf("%s v%d timestamp 1<<62", topic, v), listOffsets(v, s.topic(topic), offsetAsk{0, 1 << 62, -1}))
		}
	}
}

// askOffset prints the answer for the first partition on one line.
func (s *session) askOffset(label string, req *kmsg.ListOffsetsRequest) {
	resp, err := s.c().Do(req)
	if err != nil {
		s.hangUp()
		s.note("%s: %s", label, answerError(err))
		return
	}
	r := resp.(*kmsg.ListOffsetsResponse)
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			s.note("%s: partition %d %s offset %d timestamp %s epoch %d", label, p.Partition, errName(p.ErrorCode), p.Offset, stamp(p.Timestamp), p.LeaderEpoch)
		}
	}
}

func listByTime(s *session) {
	for _, codec := range []int{raw.None, raw.Gzip} {
		name := "lt-" + raw.CodecNames[codec]
		s.create(name, 1)
		b := raw.NewBatch(2, "a", "b", "c", "d")
		for i := range b.Records {
			b.Records[i].TimestampDelta64 = int64(2 * i)
		}
		b.Max, b.Codec = 8, codec
		c := raw.NewBatch(3, "e", "f")
		c.Records[1].TimestampDelta64 = 6
		c.Max, c.Codec = 9, codec
		s.put(name, 0, b.MustEncode(), c.MustEncode())
		for _, ts := range []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -3} {
			s.askOffset(fmt.Sprintf("%s timestamp %d", raw.CodecNames[codec], ts), listOffsets(7, s.topic(name), offsetAsk{0, ts, -1}))
		}
	}
	s.create("lt-log", 1, "message.timestamp.type", "LogAppendTime")
	s.put("lt-log", 0, raw.NewBatch(1, "a", "b").MustEncode())
	time.Sleep(10 * time.Millisecond) // or both batches may have one time, and the first of them the largest
	s.put("lt-log", 0, raw.NewBatch(1, "c").MustEncode())
	s.askOffset("LogAppendTime, timestamp 1", listOffsets(7, s.topic("lt-log"), offsetAsk{0, 1, -1}))
	s.askOffset("LogAppendTime, max timestamp", listOffsets(7, s.topic("lt-log"), offsetAsk{0, -3, -1}))
	s.create("lt-same", 1)
	s.put("lt-same", 0, raw.NewBatch(7, "a", "b").MustEncode(), raw.NewBatch(7, "c").MustEncode())
	s.askOffset("equal timestamps, max", listOffsets(7, s.topic("lt-same"), offsetAsk{0, -3, -1}))
	s.create("lt-untimed", 1)
	s.put("lt-untimed", 0, raw.NewBatch(-1, "a").MustEncode())
	s.askOffset("no timestamps, max", listOffsets(7, s.topic("lt-untimed"), offsetAsk{0, -3, -1}))
	s.askOffset("no timestamps, 0", listOffsets(7, s.topic("lt-untimed"), offsetAsk{0, 0, -1}))
}

func listErrors(s *session) {
	s.create("le", 1)
	s.put("le", 0, raw.NewBatch(1000, "x").MustEncode())
	s.ask("unknown topic", listOffsets(7, s.topic("nosuch"), offsetAsk{0, -1, -1}))
	s.ask("unknown partitions", listOffsets(7, s.topic("le"), offsetAsk{5, -1, -1}, offsetAsk{-1, -2, -1}, offsetAsk{0, -1, -1}))
	s.ask("bad name", listOffsets(7, "a b", offsetAsk{0, -1, -1}))
	for _, e := range []int32{-1, 0, 1, -2} {
		for _, ts := range []int64{-1, -2, -3, 500} {
			s.askOffset(fmt.Sprintf("current epoch %d timestamp %d", e, ts), listOffsets(7, s.topic("le"), offsetAsk{0, ts, e}))
		}
	}
	for _, rid := range []int32{-2, 1, 77} {
		r := listOffsets(7, s.topic("le"), offsetAsk{0, -1, -1})
		r.ReplicaID = rid
		s.ask(fmt.Sprintf("replica id %d", rid), r)
	}
	iso := listOffsets(7, s.topic("le"), offsetAsk{0, -1, -1})
	iso.IsolationLevel = 1
	s.ask("read committed", iso)
	iso.IsolationLevel = 9
	s.ask("isolation level 9", iso)
	none := listOffsets(7, s.topic("le"))
	s.ask("no partitions", none)
	none.Topics = nil
	s.ask("no topics", none)
	dup := listOffsets(7, s.topic("le"), offsetAsk{0, -1, -1}, offsetAsk{0, -1, -1})
	s.ask("same partition twice", dup)
	dup = listOffsets(7, s.topic("nosuch"), offsetAsk{0, -1, -1}, offsetAsk{0, -1, -1})
	s.ask("unknown partition twice", dup)
}

func listVersions(s *session) {
	s.create("lv", 1)
	s.put("lv", 0, raw.NewBatch(1000, "x").MustEncode())
	for v := int16(1); v <= 11; v++ {
		s.ask("latest, unknown", listOffsets(v, s.topic("lv"), offsetAsk{0, -1, -1}, offsetAsk{3, -1, -1}))
		s.ask("earliest", listOffsets(v, s.topic("lv"), offsetAsk{0, -2, -1}))
	}
}

func epochReq(version int16, topic string, replica, current, epoch int32, partitions ...int32) *kmsg.OffsetForLeaderEpochRequest {
	r := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r.Version, r.ReplicaID = version, replica
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = topic
	for _, p := range partitions {
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = p, current, epoch
		t.Partitions = append(t.Partitions, rp)
	}
	r.Topics = append(r.Topics, t)
	return r
}

func leaderEpochs(s *session) {
	s.create("oe", 2)
	s.put("oe", 0, raw.NewBatch(1000, "a", "b", "c").MustEncode())
	name := s.topic("oe")
	for v := int16(2); v <= 4; v++ {
		for _, replica := range []int32{-2, -1, 1} {
			s.ask("both partitions, epoch 0", epochReq(v, name, replica, -1, 0, 0, 1))
		}
	}
	for _, e := range []int32{-2, -1, 0, 1, 5} {
		s.ask("epoch asked", epochReq(4, name, -1, -1, e, 0, 1))
	}
	for _, cur := range []int32{-2, -1, 0, 1} {
		s.ask("current epoch", epochReq(4, name, -1, cur, 0, 0))
	}
	s.ask("unknown partition", epochReq(4, name, -1, -1, 0, 0, 9, -1))
	s.ask("unknown topic", epochReq(4, s.topic("nosuch"), -1, -1, 0, 0))
	s.ask("bad name", epochReq(4, "a b", -1, -1, 0, 0))
	s.ask("partition twice", epochReq(4, name, -1, -1, 0, 0, 0))
	s.ask("no partitions", epochReq(4, name, -1, -1, 0))
	none := epochReq(4, name, -1, -1, 0)
	none.Topics = nil
	s.ask("no topics", none)
}
