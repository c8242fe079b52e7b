//go:build interop

package main

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

func produceCases() []testCase {
	return []testCase{
		{"PROD-01-leader-epoch", prod01},
		{"PROD-02-corrupt", prod02},
		{"PROD-02-malformed", prodMalformed},
		{"PROD-02-stricter", prodStricter},
		{"PROD-02-compressed-garbage", prodGarbage},
		{"PROD-02-null-records", prodNull},
		{"PROD-03-acks", prod03},
		{"PROD-04-size", prod04},
		{"PROD-06-log-append-time", prod06},
		{"PROD-06-timestamps", prodTimestamps},
		{"PROD-08-zstd-version", prod08},
		{"PROD-09-internal", prod09},
		{"PROD-10-keyless", prod10},
		{"Produce-unknown", prodUnknown},
		{"Produce-idempotent", prodIdempotent},
		{"Produce-recompress", prodRecompress},
		{"Produce-all-versions", prodVersions},
	}
}

func prod01(s *session) {
	s.create("epoch", 1)
	for _, e := range []int32{0, 7, -1} {
		b := raw.NewBatch(1000, "x")
		b.LeaderEpoch = e
		s.ask(fmt.Sprintf("epoch %d", e), produce(9, -1, s.topic("epoch"), [16]byte{}, part{0, b.MustEncode()}))
	}
	base := raw.NewBatch(1000, "x")
	base.BaseOffset = 500
	s.ask("base offset 500", produce(9, -1, s.topic("epoch"), [16]byte{}, part{0, base.MustEncode()}))
	s.ask("read back", fetch(12, s.topic("epoch"), [16]byte{}, fetchAsk{0, 0, 0}))
}

func prod02(s *session) {
	s.create("crc", 2)
	bad := raw.NewBatch(1000, "good", "bad").MustEncode()
	bad[len(bad)-3] ^= 1
	for v := int16(3); v <= 12; v++ {
		s.ask("partition 1 corrupt", produce(v, -1, s.topic("crc"), [16]byte{}, part{0, raw.NewBatch(1000, "x").MustEncode()}, part{1, bad}))
	}
	s.ask("nothing appended to 1", listOffsets(7, s.topic("crc"), offsetAsk{0, -1, -1}, offsetAsk{1, -1, -1}))
}

// prodMalformed sends batches whose CRC is right and whose meaning is not.
func prodMalformed(s *session) {
	s.create("bad", 1)
	good := raw.NewBatch(1000, "a", "b", "c").MustEncode()
	try := func(label string, data []byte) {
		for _, v := range []int16{3, 9} {
			s.ask(label, produce(v, -1, s.topic("bad"), [16]byte{}, part{0, data}))
		}
	}
	edit := func(label string, f func([]byte)) {
		b := append([]byte(nil), good...)
		f(b)
		raw.Seal(b)
		try(label, b)
	}
	try("empty records", []byte{})
	try("two batches", append(append([]byte(nil), good...), good...))
	try("truncated by 1", good[:len(good)-1])
	try("only half a header", good[:30])
	try("five bytes", good[:5])
	edit("magic 0", func(b []byte) { b[16] = 0 })
	edit("magic 1", func(b []byte) { b[16] = 1 })
	edit("magic 3", func(b []byte) { b[16] = 3 })
	edit("codec 5", func(b []byte) { b[22] = 5 })
	edit("codec 7", func(b []byte) { b[22] = 7 })
	edit("control bit", func(b []byte) { b[22] |= 0x20 })
	edit("transactional bit without a producer", func(b []byte) { b[22] |= 0x10 })
	edit("delete horizon bit", func(b []byte) { b[22] |= 0x40 })
	edit("unknown attribute bit 7", func(b []byte) { b[22] |= 0x80 })
	edit("LogAppendTime bit", func(b []byte) { b[22] |= 0x08 })
	edit("last offset delta 5", func(b []byte) { b[26] = 5 })
	edit("count 2 of 3", func(b []byte) { b[60] = 2 })
	edit("count 2 and delta 1 of 3", func(b []byte) { b[60], b[26] = 2, 1 })
	edit("count 4", func(b []byte) { b[60], b[26] = 4, 3 })
	edit("count 0", func(b []byte) { b[60] = 0 })
	edit("count -1", func(b []byte) { binary.BigEndian.PutUint32(b[57:], 0xffffffff) })
	edit("length too small", func(b []byte) { binary.BigEndian.PutUint32(b[8:], 20) })
	edit("length negative", func(b []byte) { binary.BigEndian.PutUint32(b[8:], 0xffffffff) })
	edit("producer id 5 epoch -1", func(b []byte) { binary.BigEndian.PutUint64(b[43:], 5) })
	none := raw.NewBatch(1000)
	try("no records, delta -1", none.MustEncode())
	max := raw.NewBatch(1000, "a")
	max.Max = 99
	try("max timestamp below the record's", max.MustEncode())
	s.ask("log end", listOffsets(7, s.topic("bad"), offsetAsk{0, -1, -1}))
	s.ask("max timestamp", listOffsets(7, s.topic("bad"), offsetAsk{0, -3, -1}))
	s.ask("what was stored", fetch(12, s.topic("bad"), [16]byte{}, fetchAsk{0, 0, 0}))
}

// prodStricter sends what Apache Kafka stores although it makes no sense.
func prodStricter(s *session) {
	s.create("strict", 1)
	try := func(label string, data []byte) {
		for _, v := range []int16{3, 9} {
			s.ask(label, produce(v, -1, s.topic("strict"), [16]byte{}, part{0, data}))
		}
	}
	try("trailing byte", append(raw.NewBatch(1000, "a", "b", "c").MustEncode(), 0))
	for _, deltas := range [][]int32{{0, 2, 1}, {1, 2, 3}, {0, 1, 1}} {
		b := raw.NewBatch(1000, "a", "b", "c")
		for j := range b.Records {
			b.Records[j].OffsetDelta = deltas[j]
		}
		try(fmt.Sprintf("record offset deltas %v", deltas), b.MustEncode())
	}
	s.ask("what was stored", fetch(12, s.topic("strict"), [16]byte{}, fetchAsk{0, 0, 0}))
}

func prodNull(s *session) {
	s.create("null", 1)
	for _, v := range []int16{3, 9} {
		req := produce(v, -1, s.topic("null"), [16]byte{}, part{0, nil})
		if _, err := s.c().Send(req); err != nil {
			s.fail("send: %v", err)
		}
		f, err := s.c().ReadWithin(3 * time.Second)
		if err != nil {
			s.hangUp()
			s.note("v%d null records: no answer within 3 s, or closed", v)
			continue
		}
		resp, err := raw.Decode(req, f)
		if err != nil {
			s.fail("decode: %v", err)
		}
		s.out.WriteString("< " + s.dumpAnswer(resp))
	}
}

func prodGarbage(s *session) {
	s.create("garbage", 1)
	for codec := raw.Gzip; codec <= raw.Zstd; codec++ {
		b := raw.NewBatch(1000, "aaaa")
		enc := b.MustEncode()
		enc[22] = byte(codec)
		raw.Seal(enc)
		s.ask("not compressed but says "+raw.CodecNames[codec], produce(9, -1, s.topic("garbage"), [16]byte{}, part{0, enc}))
		b.Codec = codec
		enc = b.MustEncode()
		binary.BigEndian.PutUint32(enc[57:], 2)
		enc[26] = 1
		raw.Seal(enc)
		s.ask(raw.CodecNames[codec]+" with one record too few", produce(9, -1, s.topic("garbage"), [16]byte{}, part{0, enc}))
	}
}

func prod03(s *session) {
	s.create("acks", 2)
	b := raw.NewBatch(1000, "x").MustEncode()
	for _, acks := range []int16{2, -2, 3, 32767, 1, -1} {
		s.ask(fmt.Sprintf("acks %d", acks), produce(9, acks, s.topic("acks"), [16]byte{}, part{0, b}, part{1, b}))
	}
	s.ask("acks 2, unknown topic", produce(9, 2, s.topic("noacks"), [16]byte{}, part{0, b}))
	s.ask("log end", listOffsets(7, s.topic("acks"), offsetAsk{0, -1, -1}))
}

func sized(total int) []byte {
	empty := raw.NewBatch(1000, strings.Repeat("x", 1000)).MustEncode()
	b := raw.NewBatch(1000, strings.Repeat("x", 1000+total-len(empty))).MustEncode()
	for len(b) != total {
		b = raw.NewBatch(1000, strings.Repeat("x", 1000+total-len(empty)+total-len(b))).MustEncode()
	}
	return b
}

func prod04(s *session) {
	s.create("size", 1, "max.message.bytes", "10000")
	s.create("sizebig", 1, "max.message.bytes", "3000000")
	s.create("sizeun", 1, "max.message.bytes", "10000", "compression.type", "uncompressed")
	z := raw.NewBatch(1000, strings.Repeat("x", 1<<20))
	z.Codec = raw.Gzip
	small := z.MustEncode()
	s.ask("1 MiB in a small gzip batch", produce(9, -1, s.topic("size"), [16]byte{}, part{0, small}))
	s.ask("10000 bytes", produce(9, -1, s.topic("size"), [16]byte{}, part{0, sized(10000)}))
	s.ask("10001 bytes", produce(9, -1, s.topic("size"), [16]byte{}, part{0, sized(10001)}))
	s.ask("2 MB, topic allows 3", produce(9, -1, s.topic("sizebig"), [16]byte{}, part{0, sized(2000000)}))
	s.ask("uncompressed topic, 1 MiB in gzip", produce(9, -1, s.topic("sizeun"), [16]byte{}, part{0, small}))
	s.ask("log ends", listOffsets(7, s.topic("size"), offsetAsk{0, -1, -1}))
}

func prod06(s *session) {
	s.create("lat", 1, "message.timestamp.type", "LogAppendTime")
	future := time.Now().AddDate(10, 0, 0).UnixMilli()
	for i, ts := range []int64{1, future, -1} {
		b := raw.NewBatch(ts, "a", "b")
		for _, codec := range []int{raw.None, raw.Gzip} {
			b.Codec = codec
			time.Sleep(10 * time.Millisecond) // each has its own time: the last one the largest
			s.ask(fmt.Sprintf("client time %d", i), produce(9, -1, s.topic("lat"), [16]byte{}, part{0, b.MustEncode()}))
		}
	}
	s.ask("read back", fetch(12, s.topic("lat"), [16]byte{}, fetchAsk{0, 0, 0}))
	s.ask("by time 1, max timestamp", listOffsets(7, s.topic("lat"), offsetAsk{0, 1, -1}, offsetAsk{0, -3, -1}))
	s.ask("max timestamp", listOffsets(7, s.topic("lat"), offsetAsk{0, -3, -1}))
}

func prodTimestamps(s *session) {
	s.create("ts", 1)
	s.create("tsnarrow", 1, "message.timestamp.before.max.ms", "3600000", "message.timestamp.after.max.ms", "60000")
	now := time.Now()
	for _, c := range []struct {
		label string
		ts    int64
	}{
		{"1", 1}, {"0", 0}, {"-1", -1}, {"-2", -2}, {"in 59 minutes", now.Add(59 * time.Minute).UnixMilli()},
		{"in 61 minutes", now.Add(61 * time.Minute).UnixMilli()}, {"two hours ago", now.Add(-2 * time.Hour).UnixMilli()}, {"now", now.UnixMilli()},
	} {
		for _, topic := range []string{"ts", "tsnarrow"} {
			b := raw.NewBatch(c.ts, "a", "b")
			for _, codec := range []int{raw.None, raw.LZ4} {
				b.Codec = codec
				r, err := s.c().Do(produce(9, -1, s.topic(topic), [16]byte{}, part{0, b.MustEncode()}))
				if err != nil {
					s.hangUp()
					s.note("%s, timestamp %s: %s", topic, c.label, answerError(err))
					continue
				}
				p := r.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
				s.note("%s, timestamp %s, %s: %s base %d log append time %s, %d record errors, message: %t", topic, c.label, raw.CodecNames[codec], errName(p.ErrorCode), p.BaseOffset, stamp(p.LogAppendTime), len(p.ErrorRecords), p.ErrorMessage != nil)
				for _, e := range p.ErrorRecords {
					s.note("   record %d message: %t", e.RelativeOffset, e.ErrorMessage != nil)
				}
			}
		}
	}
}

func prod08(s *session) {
	s.create("zstd", 1)
	b := raw.NewBatch(1000, "zzzz")
	b.Codec = raw.Zstd
	for _, v := range []int16{3, 6, 7, 9} {
		s.ask("zstd", produce(v, -1, s.topic("zstd"), [16]byte{}, part{0, b.MustEncode()}))
	}
}

func prod09(s *session) {
	find := kmsg.NewPtrFindCoordinatorRequest() // makes the topic of offsets
	find.Version, find.CoordinatorKey = 3, "interop"
	for range 100 {
		r, err := s.c().Do(find)
		if err != nil {
			s.hangUp()
			break
		}
		if r.(*kmsg.FindCoordinatorResponse).ErrorCode == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	b := raw.NewBatch(1000, "x").MustEncode()
	for _, t := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"} {
		s.ask("internal topic", produce(9, -1, t, [16]byte{}, part{0, b}))
	}
}

func prod10(s *session) {
	s.create("compact", 1, "cleanup.policy", "compact")
	keyed := raw.NewBatch(1000, "a", "b", "c")
	for i := range keyed.Records {
		keyed.Records[i].Key = []byte{byte('a' + i)}
	}
	keyed.Records[1].Key = nil
	for _, v := range []int16{3, 7, 8, 9} {
		s.ask("second record keyless", produce(v, -1, s.topic("compact"), [16]byte{}, part{0, keyed.MustEncode()}))
	}
	keyed.Codec = raw.Snappy
	s.ask("the same in snappy", produce(9, -1, s.topic("compact"), [16]byte{}, part{0, keyed.MustEncode()}))
	keyed.Records[0].Key = nil
	keyed.Codec = raw.None
	s.ask("two keyless", produce(9, -1, s.topic("compact"), [16]byte{}, part{0, keyed.MustEncode()}))
	keyed.Records[0].Key, keyed.Records[1].Key = []byte{}, []byte("k")
	s.ask("empty key", produce(9, -1, s.topic("compact"), [16]byte{}, part{0, keyed.MustEncode()}))
}

func prodUnknown(s *session) {
	id := s.create("known", 1)
	b := raw.NewBatch(1000, "x").MustEncode()
	for v := int16(3); v <= 12; v++ {
		s.ask("unknown topic", produce(v, -1, s.topic("nosuch"), [16]byte{}, part{0, b}))
	}
	s.ask("unknown partition", produce(9, -1, s.topic("known"), [16]byte{}, part{0, b}, part{5, b}, part{-1, b}))
	s.ask("invalid name", produce(9, -1, "bad name!", [16]byte{}, part{0, b}))
	s.ask("empty name", produce(9, -1, "", [16]byte{}, part{0, b}))
	s.ask("known id", produce(13, -1, "", id, part{0, b}, part{5, b}))
	s.ask("unknown id", produce(13, -1, "", [16]byte{1, 2, 3}, part{0, b}, part{1, b}))
	s.ask("zero id", produce(13, -1, "", [16]byte{}, part{0, b}))
	none := kmsg.NewPtrProduceRequest()
	none.Version, none.Acks, none.TimeoutMillis = 9, -1, 1000
	s.ask("no topics", none)
	s.ask("no partitions", produce(9, -1, s.topic("known"), [16]byte{}))
	txn := produce(9, -1, s.topic("known"), [16]byte{}, part{0, b})
	txn.TransactionID = kmsg.StringPtr("t")
	s.ask("transactional id around a plain batch", txn)
	mix := produce(9, -1, s.topic("nosuch"), [16]byte{}, part{0, b})
	mix.Topics = append(mix.Topics, produce(9, -1, s.topic("known"), [16]byte{}, part{0, b}).Topics...)
	s.ask("unknown before known", mix)
	neg := produce(9, -1, s.topic("known"), [16]byte{}, part{0, b})
	neg.TimeoutMillis = -5
	s.ask("negative timeout", neg)
}

func prodIdempotent(s *session) {
	s.create("idem", 1)
	pid := s.producerID()
	send := func(label string, epoch int16, seq int32, values ...string) {
		b := raw.NewBatch(1000, values...)
		b.ProducerID, b.Epoch, b.Sequence = pid.ProducerID, epoch, seq
		s.ask(label, produce(9, -1, s.topic("idem"), [16]byte{}, part{0, b.MustEncode()}))
	}
	send("first", 0, 0, "a", "b")
	send("duplicate of the first", 0, 0, "a", "b")
	send("overlap", 0, 1, "b", "c")
	send("gap", 0, 5, "f")
	send("shorter duplicate", 0, 0, "a")
	for i := range int32(6) {
		send("next", 0, 2+i, "n")
	}
	send("duplicate of the last", 0, 7, "n")
	send("duplicate of the fifth last", 0, 3, "n")
	send("older than five batches", 0, 0, "a", "b")
	send("new epoch, sequence 3", 1, 3, "x")
	send("new epoch, sequence 0", 1, 0, "x")
	send("old epoch", 0, 8, "x")
	send("negative epoch", -1, 0, "x")
	send("sequence -1", 1, -1, "x")
	stranger := raw.NewBatch(1000, "s")
	stranger.ProducerID, stranger.Epoch, stranger.Sequence = pid.ProducerID+100000, 0, 4
	s.ask("unknown producer, sequence 4", produce(9, -1, s.topic("idem"), [16]byte{}, part{0, stranger.MustEncode()}))
	two := raw.NewBatch(1000, "t")
	two.ProducerID, two.Epoch, two.Sequence = pid.ProducerID, 1, 1
	first := two.MustEncode()
	two.Sequence = 2
	s.ask("two idempotent batches for one partition", produce(9, -1, s.topic("idem"), [16]byte{}, part{0, append(first, two.MustEncode()...)}))
	wrap := raw.NewBatch(1000, "w1", "w2", "w3")
	wrap.ProducerID, wrap.Epoch, wrap.Sequence = pid.ProducerID+200000, 0, 2147483646
	s.ask("unknown producer near the wrap", produce(9, -1, s.topic("idem"), [16]byte{}, part{0, wrap.MustEncode()}))
	wrap.Sequence = 1
	s.ask("after the wrap", produce(9, -1, s.topic("idem"), [16]byte{}, part{0, wrap.MustEncode()}))
	s.ask("log end", listOffsets(7, s.topic("idem"), offsetAsk{0, -1, -1}))
}

// producerID asks until the broker has its first block of ids: Apache Kafka
// answers COORDINATOR_LOAD_IN_PROGRESS before.
func (s *session) producerID() *kmsg.InitProducerIDResponse {
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version, init.ProducerID, init.ProducerEpoch = 4, -1, -1
	for range 100 {
		if r := s.do(init).(*kmsg.InitProducerIDResponse); r.ErrorCode == 0 {
			return r
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.fail("no producer id")
	return nil
}

func prodRecompress(s *session) {
	for codec := raw.None; codec <= raw.Zstd; codec++ {
		name := "re-" + raw.CodecNames[codec]
		want := raw.CodecNames[codec]
		if codec == raw.None {
			want = "uncompressed"
		}
		s.create(name, 1, "compression.type", want)
		for from := raw.None; from <= raw.Zstd; from++ {
			b := raw.NewBatch(1000, "a", "b")
			b.Codec = from
			s.put(name, 0, b.MustEncode())
		}
		r := s.do(fetch(12, s.topic(name), [16]byte{}, fetchAsk{0, 0, 0})).(*kmsg.FetchResponse)
		_, err := raw.Walk(r.Topics[0].Partitions[0].RecordBatches, func(h raw.Header, _ []byte) error {
			recs, err := h.Unpack()
			s.note("topic %s: base %d stored codec %d records %s (%v)", want, h.FirstOffset, h.Codec(), recordList(recs), err)
			return nil
		})
		if err != nil {
			s.fail("walk: %v", err)
		}
	}
}

func prodVersions(s *session) {
	id := s.create("versions", 1)
	b := raw.NewBatch(1000, "x").MustEncode()
	for v := int16(3); v <= 13; v++ {
		s.ask("good", produce(v, -1, s.topic("versions"), id, part{0, b}))
		s.ask("acks 1", produce(v, 1, s.topic("versions"), id, part{0, b}))
	}
}
