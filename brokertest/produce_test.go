package brokertest_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/batch"
)

func TestPROD01LeaderEpoch(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("epoch", 1)
	for i, epoch := range []int32{0, 7, -1} {
		sent := batch.Batch(batchOf(batch.Options{LeaderEpoch: epoch}, "x"))
		crc := sent.CRC()
		if got := p.write("epoch", sent)[0].BaseOffset; got != int64(i) {
			t.Errorf("epoch %d: base offset %d, want %d", epoch, got, i)
		}
		stored := p.read("epoch", 0, int64(i))[0]
		if stored.LeaderEpoch() != 0 || stored.CRC() != crc {
			t.Errorf("epoch %d: stored with epoch %d and checksum %x, want 0 and %x", epoch, stored.LeaderEpoch(), stored.CRC(), crc)
		}
	}
	out := p.produce(produceTo(9, -1, "epoch", batchOf(batch.Options{BaseOffset: 500}, "x")))[0]
	wantCode(t, "base offset 500", out.ErrorCode, kerr.InvalidRecord)
}

func TestPROD02CorruptBatch(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	id := p.create("crc", 2)
	for version := int16(3); version <= 13; version++ {
		bad := records("good", "bad")
		bad[len(bad)-3] ^= 2
		req := produceTo(version, -1, "crc", records("x"), bad)
		req.Topics[0].TopicID = id
		out := p.produce(req)
		wantCode(t, "partition 0", out[0].ErrorCode, nil)
		if want := int64(version - 3); out[0].BaseOffset != want {
			t.Errorf("v%d: base offset %d, want %d", version, out[0].BaseOffset, want)
		}
		wantCode(t, "partition 1", out[1].ErrorCode, kerr.CorruptMessage)
		if out[1].BaseOffset != -1 {
			t.Errorf("v%d: a refused batch has base offset %d", version, out[1].BaseOffset)
		}
	}
	if end := p.end("crc", 1); end != 0 {
		t.Errorf("%d records were appended", end)
	}
}

// What a batch's header can say wrongly: change is done to a sound batch of
// three, whose checksum is made right again unless want is the checksum's error.
func TestPROD02MalformedBatch(t *testing.T) {
	const length, magic, attributes, lastDelta, pid, count = 8, 16, 21, 23, 43, 57
	p := dial(t, brokertest.Start(t))
	p.create("bad", 1)
	set := func(at int, bytes ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], bytes); return b }
	}
	for _, c := range []struct {
		what   string
		change func([]byte) []byte
		want   *kerr.Error
	}{
		{"nothing", func([]byte) []byte { return []byte{} }, kerr.InvalidRecord},
		{"null", func([]byte) []byte { return nil }, kerr.InvalidRecord}, // Apache Kafka never answers this one
		{"two batches", func(b []byte) []byte { return append(b, records("d")...) }, kerr.InvalidRecord},
		{"half a header", func(b []byte) []byte { return b[:30] }, kerr.InvalidRecord},
		{"five bytes", func(b []byte) []byte { return b[:5] }, kerr.InvalidRecord},
		{"cut off", func(b []byte) []byte { return b[:len(b)-1] }, kerr.InvalidRecord},
		{"magic 0", set(magic, 0), kerr.InvalidRecord},
		{"magic 1", set(magic, 1), kerr.InvalidRecord},
		{"magic 3", set(magic, 3), kerr.CorruptMessage},
		{"size too small", set(length, 0, 0, 0, 10), kerr.CorruptMessage},
		{"size negative", set(length, 0xff, 0xff, 0xff, 0xff), kerr.CorruptMessage},
		{"control", set(attributes, 0, 0x20), kerr.InvalidRecord},
		{"transactional without an id", set(attributes, 0, 0x10), kerr.TransactionalIDAuthorizationFailed},
		{"last offset delta 5", set(lastDelta, 0, 0, 0, 5), kerr.InvalidRecord},
		{"count 2", set(count, 0, 0, 0, 2), kerr.InvalidRecord},
		{"count 2 and delta 1", func(b []byte) []byte { b[lastDelta+3], b[count+3] = 1, 2; return b }, kerr.InvalidRecord},
		{"count 4", func(b []byte) []byte { b[lastDelta+3], b[count+3] = 3, 4; return b }, kerr.InvalidRecord},
		{"count 0", set(count, 0, 0, 0, 0), kerr.InvalidRecord},
		{"count -1", set(count, 0xff, 0xff, 0xff, 0xff), kerr.InvalidRecord},
		{"producer without epoch", set(pid, 0, 0, 0, 0, 0, 0, 0, 9), kerr.InvalidRecord},
	} {
		for _, version := range []int16{3, 9} {
			b := c.change(records("a", "b", "c"))
			if len(b) >= batch.HeaderSize {
				fixCRC(b)
			}
			out := p.produce(produceTo(version, -1, "bad", b))[0]
			wantCode(t, fmt.Sprintf("%s, v%d", c.what, version), out.ErrorCode, c.want)
		}
	}
	if end := p.end("bad", 0); end != 0 {
		t.Errorf("%d records of malformed batches were appended", end)
	}
}

func TestPROD03Acks(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("acks", 2)
	for _, acks := range []int16{2, -2, 3, 32767, -32768} {
		for _, out := range p.produce(produceTo(9, acks, "acks", records("x"), records("y"))) {
			wantCode(t, fmt.Sprintf("acks %d", acks), out.ErrorCode, kerr.InvalidRequiredAcks)
			if out.BaseOffset != -1 {
				t.Errorf("acks %d: base offset %d", acks, out.BaseOffset)
			}
		}
	}
	if end := p.end("acks", 0); end != 0 {
		t.Errorf("%d records were appended", end)
	}
	out := p.produce(produceTo(9, 2, "noacks", records("x")))[0]
	wantCode(t, "acks 2, unknown topic", out.ErrorCode, kerr.UnknownTopicOrPartition)
	for i, acks := range []int16{1, -1} {
		out := p.produce(produceTo(9, acks, "acks", records("x")))[0]
		if out.ErrorCode != 0 || out.BaseOffset != int64(i) {
			t.Errorf("acks %d: %s at %d", acks, name(out.ErrorCode), out.BaseOffset)
		}
	}
}

// sized is a batch of exactly n bytes.
func sized(n int) []byte {
	for value := n - batch.HeaderSize - 16; ; value++ {
		if b := records(string(make([]byte, value))); len(b) == n {
			return b
		} else if len(b) > n {
			panic(fmt.Sprintf("no batch has %d bytes", n))
		}
	}
}

func TestPROD04Size(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("size", 1, "max.message.bytes=10000")
	p.create("sizebig", 1, "max.message.bytes=3000000")
	p.create("sizeun", 1, "max.message.bytes=10000", "compression.type=uncompressed")
	megabyte := batchOf(batch.Options{Encoding: batch.Encoding{Codec: batch.Gzip}}, string(make([]byte, 1<<20)))
	for _, c := range []struct {
		what, topic string
		batch       []byte
		want        *kerr.Error
	}{
		{"1 MiB in a small gzip batch", "size", megabyte, nil},
		{"10000 bytes", "size", sized(10000), nil},
		{"10001 bytes", "size", sized(10001), kerr.MessageTooLarge},
		{"2 MB where the topic allows 3", "sizebig", sized(2_000_000), nil},
		{"1 MiB to be stored uncompressed", "sizeun", megabyte, kerr.MessageTooLarge},
	} {
		out := p.produce(produceTo(9, -1, c.topic, bytes.Clone(c.batch)))[0]
		wantCode(t, c.what, out.ErrorCode, c.want)
	}
	if end := p.end("size", 0); end != 2 {
		t.Errorf("log end %d, want 2", end)
	}
}

func TestPROD06LogAppendTime(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("lat", 1, "message.timestamp.type=LogAppendTime")
	before := time.Now().UnixMilli()
	client := []int64{1, before + 10*365*24*3600*1000, -1}
	for i, ts := range client {
		for j, codec := range []batch.Codec{batch.None, batch.Gzip} {
			var bl batch.Builder
			bl.Reset(batch.Options{Encoding: batch.Encoding{Codec: codec}})
			bl.Append(ts, nil, []byte("a"))
			bl.Append(ts, nil, []byte("b"))
			out := p.write("lat", build(&bl))[0]
			if now := time.Now().UnixMilli(); out.LogAppendTime < before || out.LogAppendTime > now {
				t.Errorf("client time %d: log append time %d, want one in [%d, %d]", ts, out.LogAppendTime, before, now)
			}
			stored := p.read("lat", 0, out.BaseOffset)[0]
			if !stored.LogAppendTime() || stored.MaxTimestamp() != out.LogAppendTime {
				t.Errorf("client time %d: stored with attributes %x and time %d", ts, stored.Attributes(), stored.MaxTimestamp())
			}
			it := batch.Records(stored, 1<<20)
			for it.Next() {
				if got := stored.Timestamp(it.Record()); got != out.LogAppendTime {
					t.Errorf("client time %d: a record reads as %d", ts, got)
				}
			}
			it.Close()
			if want := int64(4*i + 2*j); out.BaseOffset != want {
				t.Errorf("base offset %d, want %d", out.BaseOffset, want)
			}
		}
	}
	if got := p.list("lat", 0, before); got.Offset != 0 || got.Timestamp < before {
		t.Errorf("first record since the start: %+v", got)
	}
	if got := p.list("lat", 0, time.Now().Add(time.Hour).UnixMilli()); got.Offset != -1 {
		t.Errorf("a record in an hour: %+v", got)
	}
}

// The duplicate of an idempotent producer gets the first answer again, its
// time included.
func TestPROD06DuplicateKeepsItsTime(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("lat", 1, "message.timestamp.type=LogAppendTime")
	sent := batchOf(batch.Options{Producer: &batch.Producer{ID: 5}}, "a", "b")
	first := p.write("lat", bytes.Clone(sent))[0]
	for time.Now().UnixMilli() == first.LogAppendTime {
		p.alive() // until the clock says something else
	}
	again := p.write("lat", bytes.Clone(sent))[0]
	if again.BaseOffset != first.BaseOffset || again.LogAppendTime != first.LogAppendTime {
		t.Errorf("the duplicate is at %d, %d; the first was at %d, %d", again.BaseOffset, again.LogAppendTime, first.BaseOffset, first.LogAppendTime)
	}
}

func TestPROD06Timestamps(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("ts", 1)
	p.create("tsnarrow", 1, "message.timestamp.before.max.ms=3600000", "message.timestamp.after.max.ms=60000")
	now := time.Now().UnixMilli()
	const minute = 60_000
	for _, c := range []struct {
		ts           int64
		wide, narrow *kerr.Error
	}{
		{1, nil, kerr.InvalidTimestamp},
		{0, nil, kerr.InvalidTimestamp},
		{-1, nil, nil},
		{now, nil, nil},
		{now + 59*minute, nil, kerr.InvalidTimestamp},
		{now + 61*minute, kerr.InvalidTimestamp, kerr.InvalidTimestamp},
		{now - 120*minute, nil, kerr.InvalidTimestamp},
	} {
		for topic, want := range map[string]*kerr.Error{"ts": c.wide, "tsnarrow": c.narrow} {
			for _, codec := range []batch.Codec{batch.None, batch.LZ4} {
				var bl batch.Builder
				bl.Reset(batch.Options{Encoding: batch.Encoding{Codec: codec}})
				bl.Append(c.ts, nil, []byte("a"))
				bl.Append(c.ts, nil, []byte("b"))
				out := p.produce(produceTo(9, -1, topic, build(&bl)))[0]
				what := fmt.Sprintf("%s, time now%+d, %v", topic, c.ts-now, codec)
				wantCode(t, what, out.ErrorCode, want)
				if want != nil && (len(out.ErrorRecords) != 2 || out.ErrorMessage == nil || out.LogStartOffset != 0) {
					t.Errorf("%s: %d records named, message %v, log start %d", what, len(out.ErrorRecords), out.ErrorMessage, out.LogStartOffset)
				}
			}
		}
	}
}

// A single broker has every replica in sync; a topic that wants more than it
// has cannot be written with acks=all, and can with acks=1.
func TestPROD07MinInSync(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("minisr", 1, "min.insync.replicas=2")
	// min.insync.replicas above the number of replicas counts as that number
	// (KIP-966), or a topic with one replica could never be written.
	for _, acks := range []int16{1, -1} {
		out := p.produce(produceTo(9, acks, "minisr", records("x")))[0]
		wantCode(t, fmt.Sprintf("acks %d", acks), out.ErrorCode, nil)
	}
}

func TestPROD08ZstdVersion(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("zstd", 1)
	for version := int16(3); version <= 9; version++ {
		sent := batchOf(batch.Options{Encoding: batch.Encoding{Codec: batch.Zstd}}, "zzzz")
		out := p.produce(produceTo(version, -1, "zstd", sent))[0]
		want := kerr.UnsupportedCompressionType
		if version >= 7 {
			want = nil
		}
		wantCode(t, fmt.Sprintf("v%d", version), out.ErrorCode, want)
	}
}

func TestPROD09InternalTopics(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for _, topic := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state"} {
		out := p.produce(produceTo(9, -1, topic, records("x")))[0]
		wantCode(t, topic+", not there", out.ErrorCode, kerr.UnknownTopicOrPartition)
		p.create(topic, 1)
		out = p.produce(produceTo(9, -1, topic, records("x")))[0]
		wantCode(t, topic, out.ErrorCode, kerr.InvalidTopicException)
		if end := p.end(topic, 0); end != 0 {
			t.Errorf("%s: %d records", topic, end)
		}
	}
}

func TestPROD10KeylessOnCompacted(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("compact", 1, "cleanup.policy=compact")
	keyed := func(codec batch.Codec, keys ...[]byte) []byte {
		var bl batch.Builder
		bl.Reset(batch.Options{Encoding: batch.Encoding{Codec: codec}})
		for _, k := range keys {
			bl.Append(recordTime, k, []byte("v"))
		}
		return build(&bl)
	}
	for version := int16(3); version <= 12; version++ {
		for _, codec := range []batch.Codec{batch.None, batch.Snappy} {
			out := p.produce(produceTo(version, -1, "compact", keyed(codec, []byte("a"), nil, []byte("c"))))[0]
			what := fmt.Sprintf("v%d %v", version, codec)
			wantCode(t, what, out.ErrorCode, kerr.InvalidRecord)
			if version >= 8 && (len(out.ErrorRecords) != 1 || out.ErrorRecords[0].RelativeOffset != 1 || out.ErrorMessage == nil) {
				t.Errorf("%s: %+v, message %v", what, out.ErrorRecords, out.ErrorMessage)
			}
		}
	}
	if end := p.end("compact", 0); end != 0 {
		t.Errorf("%d records were appended", end)
	}
	p.write("compact", keyed(batch.None, []byte{}, []byte("k"), []byte("c"))) // an empty key is a key
}

// A real client's codecs, stored as sent or in the topic's own, come back whole.
func TestPROD11Codecs(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	codecs := map[batch.Codec]kgo.CompressionCodec{
		batch.None: kgo.NoCompression(), batch.Gzip: kgo.GzipCompression(), batch.Snappy: kgo.SnappyCompression(),
		batch.LZ4: kgo.Lz4Compression(), batch.Zstd: kgo.ZstdCompression(),
	}
	p.create("own", 1, "compression.type=gzip")
	for codec, client := range codecs {
		topic := "as-" + codec.String()
		p.create(topic, 1)
		for to, stored := range map[string]batch.Codec{topic: codec, "own": batch.Gzip} {
			from := p.end(to, 0)
			sent := produceSizes(t, b, to, client)
			got := p.read(to, 0, from)
			for _, one := range got {
				if one.Codec() != stored {
					t.Errorf("%v to %s: stored as %v, want %v", codec, to, one.Codec(), stored)
				}
			}
			if fmt.Sprint(values(t, got)) != fmt.Sprint(sent) {
				t.Errorf("%v to %s: other values came back", codec, to)
			}
		}
	}
}

// produceSizes writes values of 1 B to 700 KB and returns them.
func produceSizes(t *testing.T, b *brokertest.Broker, topic string, codec kgo.CompressionCodec) []string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var sent []string
	var rs []*kgo.Record
	for size := 1; size < 800_000; size *= 10 {
		v := bytes.Repeat([]byte("barnabas "), size/9+1)[:size]
		sent = append(sent, string(v))
		rs = append(rs, &kgo.Record{Value: v})
	}
	if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return sent
}

func TestProduceUnknown(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	id := p.create("known", 1)
	for _, topic := range []string{"nosuch", "bad name!", ""} {
		out := p.produce(produceTo(9, -1, topic, records("x")))[0]
		wantCode(t, topic, out.ErrorCode, kerr.UnknownTopicOrPartition)
	}
	for _, unknown := range [][16]byte{{}, {1, 2, 3}} {
		req := produceTo(13, -1, "", records("x"))
		req.Topics[0].TopicID = unknown
		wantCode(t, "unknown id", p.produce(req)[0].ErrorCode, kerr.UnknownTopicID)
	}
	for _, partition := range []int32{5, -1} {
		req := produceTo(13, -1, "", records("x"))
		req.Topics[0].TopicID, req.Topics[0].Partitions[0].Partition = id, partition
		wantCode(t, "unknown partition", p.produce(req)[0].ErrorCode, kerr.UnknownTopicOrPartition)
	}
	p.write("known", records("x")) // a log's first append waits for a sync
	req := produceTo(9, -1, "known", records("x"))
	req.TransactionID, req.TimeoutMillis = kmsg.StringPtr("t"), -5
	out := p.produce(req)[0]
	wantCode(t, "a transactional id around a plain batch, negative time-out", out.ErrorCode, nil)
}

func TestProduceIdempotent(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("idem", 1)
	next := int64(0)
	try := func(what string, pid int64, epoch int16, seq int32, n int, want *kerr.Error, base int64) {
		t.Helper()
		vs := make([]string, n)
		out := p.produce(produceTo(9, -1, "idem", batchOf(batch.Options{Producer: &batch.Producer{ID: pid, Epoch: epoch, Sequence: seq}}, vs...)))[0]
		wantCode(t, what, out.ErrorCode, want)
		if base < 0 && want == nil {
			base, next = next, next+int64(n)
		}
		if out.BaseOffset != base || out.LogStartOffset != 0 {
			t.Errorf("%s: base offset %d, want %d; log start %d", what, out.BaseOffset, base, out.LogStartOffset)
		}
	}
	try("first", 1, 0, 0, 2, nil, -1)
	try("duplicate of the first", 1, 0, 0, 2, nil, 0)
	try("overlap", 1, 0, 1, 2, kerr.OutOfOrderSequenceNumber, -1)
	try("gap", 1, 0, 5, 1, kerr.OutOfOrderSequenceNumber, -1)
	try("shorter duplicate", 1, 0, 0, 1, kerr.OutOfOrderSequenceNumber, -1)
	for seq := int32(2); seq <= 7; seq++ {
		try("next", 1, 0, seq, 1, nil, -1)
	}
	try("duplicate of the last", 1, 0, 7, 1, nil, 7)
	try("duplicate of the fifth last", 1, 0, 3, 1, nil, 3)
	try("older than five batches", 1, 0, 0, 2, kerr.DuplicateSequenceNumber, -1)
	try("into the last five batches", 1, 0, 2, 2, kerr.OutOfOrderSequenceNumber, -1)
	try("new epoch, sequence 3", 1, 1, 3, 1, kerr.OutOfOrderSequenceNumber, -1)
	try("new epoch, sequence 0", 1, 1, 0, 1, nil, -1)
	try("old epoch", 1, 0, 8, 1, kerr.InvalidProducerEpoch, -1)
	try("sequence -1", 1, 1, -1, 1, kerr.InvalidRecord, -1)
	try("unknown producer, sequence 4", 2, 0, 4, 1, nil, -1)
	try("near the wrap", 3, 0, 2147483646, 3, nil, -1)
	try("after the wrap", 3, 0, 1, 3, nil, -1)
	if end := p.end("idem", 0); end != next {
		t.Errorf("log end %d, want %d", end, next)
	}
}
