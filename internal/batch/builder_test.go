package batch

import (
	"bytes"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

var nullable0 = rapid.OneOf(
	rapid.Just([]byte(nil)),
	rapid.SliceOfN(rapid.Byte(), 0, 40),
	rapid.Map(rapid.IntRange(0, 3000), func(n int) []byte { return bytes.Repeat([]byte("ab"), n) }),
)

// drawRecs draws records with every kind of null, timestamp and header.
func drawRecs(t *rapid.T) []rec {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rec {
		r := rec{
			ts:    rapid.OneOf(rapid.Int64Range(-1, 1<<42), rapid.Int64()).Draw(t, "ts"),
			key:   nullable0.Draw(t, "key"),
			value: nullable0.Draw(t, "value"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.headers = append(r.headers, Header{rapid.StringN(0, 8, -1).Draw(t, "hk"), nullable0.Draw(t, "hv")})
		}
		return r
	}), 1, 12).Draw(t, "records")
}

func drawOptions(t *rapid.T) Options {
	c := Codec(rapid.IntRange(0, codecs-1).Draw(t, "codec"))
	o := Options{
		Encoding:      Encoding{Codec: c},
		BaseOffset:    rapid.Int64Range(0, 1<<50).Draw(t, "offset"),
		LeaderEpoch:   rapid.Int32().Draw(t, "epoch"),
		Transactional: rapid.Bool().Draw(t, "txn"),
	}
	if least, greatest := c.Levels(); rapid.Bool().Draw(t, "leveled") && greatest > 0 {
		o.Encoding.Level = rapid.IntRange(least, greatest).Draw(t, "level")
	}
	if rapid.Bool().Draw(t, "idempotent") {
		o.Producer = &Producer{
			rapid.Int64Range(0, math.MaxInt64).Draw(t, "pid"),
			rapid.Int16Range(0, math.MaxInt16).Draw(t, "pepoch"),
			rapid.Int32Range(0, math.MaxInt32).Draw(t, "sequence"),
		}
	}
	return o
}

func TestBuildThenParse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		recs, o := drawRecs(rt), drawOptions(rt)
		prefix := []byte("before")
		var b Builder
		b.Reset(o)
		for _, r := range recs {
			b.Append(r.ts, r.key, r.value, r.headers...)
		}
		out, built, err := b.Build(bytes.Clone(prefix))
		if err != nil {
			rt.Fatal(err)
		}
		if !bytes.HasPrefix(out, prefix) || !bytes.Equal(out[len(prefix):], built) {
			rt.Fatal("Build did not append")
		}
		parsed, rest, err := Next(built)
		if err != nil || len(rest) != 0 || !parsed.CRCValid() {
			rt.Fatalf("Next: %v, %d left, checksum %v", err, len(rest), parsed.CRCValid())
		}
		if got := collect(t, parsed); !sameRecs(got, recs) {
			rt.Fatalf("records differ:\n got %v\nwant %v", got, recs)
		}
		top := recs[0].ts
		for _, r := range recs {
			top = max(top, r.ts)
		}
		if parsed.MaxTimestamp() != top || parsed.Codec() != o.Encoding.Codec || parsed.Transactional() != o.Transactional {
			rt.Fatalf("header: max %d, %v", parsed.MaxTimestamp(), parsed.Codec())
		}
		if o.Encoding.Codec == None && b.Size() != len(built) {
			rt.Fatalf("Size says %d, built %d", b.Size(), len(built))
		}
		kmsgReads(rt, parsed, recs)
	})
}

// kmsgReads reads b with franz-go's codecs and record types, which share no code
// with this package.
func kmsgReads(t *rapid.T, b Batch, recs []rec) {
	var k kmsg.RecordBatch
	if err := k.ReadFrom(b); err != nil {
		t.Fatalf("kmsg: %v", err)
	}
	if k.Length != int32(len(b)-12) || uint32(k.CRC) != b.CRC() || k.NumRecords != int32(len(recs)) || k.Magic != 2 ||
		k.FirstOffset != b.BaseOffset() || k.PartitionLeaderEpoch != b.LeaderEpoch() || k.Attributes != b.Attributes() ||
		k.LastOffsetDelta != b.LastOffsetDelta() || k.FirstTimestamp != b.BaseTimestamp() || k.MaxTimestamp != b.MaxTimestamp() ||
		k.ProducerID != b.ProducerID() || k.ProducerEpoch != b.ProducerEpoch() || k.FirstSequence != b.BaseSequence() {
		t.Fatalf("kmsg reads another header: %+v", k)
	}
	plain, err := kgo.DefaultDecompressor().Decompress(k.Records, kgo.CompressionCodecType(b.Codec()))
	if err != nil {
		t.Fatalf("kgo cannot open %v: %v", b.Codec(), err)
	}
	for i, want := range recs {
		size, n := varint(plain, 0)
		var r kmsg.Record
		if err := r.ReadFrom(plain[:n+int(size)]); err != nil {
			t.Fatalf("kmsg, record %d: %v", i, err)
		}
		plain = plain[n+int(size):]
		got := rec{ts: k.FirstTimestamp + r.TimestampDelta64, key: r.Key, value: r.Value}
		for _, h := range r.Headers {
			got.headers = append(got.headers, Header{h.Key, h.Value})
		}
		if int(r.OffsetDelta) != i || !sameRecs([]rec{got}, []rec{want}) {
			t.Fatalf("kmsg reads record %d as %v, want %v", i, got, want)
		}
	}
	if len(plain) != 0 {
		t.Fatalf("kmsg leaves %d bytes", len(plain))
	}
}

// TestReadsWhatKmsgWrites is the other direction: batches built by franz-go's
// types and compressors.
func TestReadsWhatKmsgWrites(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		recs := drawRecs(rt)
		codec := Codec(rapid.IntRange(0, codecs-1).Draw(rt, "codec"))
		var plain []byte
		for i, r := range recs {
			k := kmsg.NewRecord()
			k.OffsetDelta, k.TimestampDelta64 = int32(i), r.ts-recs[0].ts
			k.Key, k.Value = r.key, r.value
			for _, h := range r.headers {
				k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
			}
			k.Length = int32(len(k.AppendTo(nil)) - 1) // the length 0 takes a byte
			plain = k.AppendTo(plain)
		}
		body := plain
		if codec != None {
			comp, err := kgo.DefaultCompressor([]kgo.CompressionCodec{
				{}, kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
			}[codec])
			if err != nil {
				rt.Fatal(err)
			}
			body, _ = comp.Compress(new(bytes.Buffer), plain)
		}
		b := raw(int32(len(recs)), body...)
		b[atAttributes+1] = byte(codec)
		b.put64(atBaseTimestamp, recs[0].ts)
		b.setCRC()
		if got := collect(t, b); !sameRecs(got, recs) {
			rt.Fatalf("records differ:\n got %v\nwant %v", got, recs)
		}
	})
}

func TestBuilderIsReusable(t *testing.T) {
	var b Builder
	b.Reset(Options{Encoding: Encoding{Codec: Zstd}})
	b.Append(5, nil, []byte("first"))
	_, first, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Reset(Options{})
	if b.Count() != 0 || b.Size() != HeaderSize {
		t.Fatal("Reset keeps records")
	}
	b.Append(7, nil, []byte("second"))
	_, second, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := collect(t, first); string(got[0].value) != "first" || got[0].ts != 5 {
		t.Fatalf("first: %v", got)
	}
	if got := collect(t, second); string(got[0].value) != "second" || got[0].ts != 7 {
		t.Fatalf("second: %v", got)
	}
}

func TestBuildRefuses(t *testing.T) {
	var b Builder
	if _, _, err := b.Build(nil); err == nil {
		t.Error("an empty batch is built")
	}
	b.Reset(Options{Encoding: Encoding{Codec: Gzip, Level: 12}})
	b.Append(1, nil, nil)
	if out, _, err := b.Build([]byte("x")); err == nil || string(out) != "x" {
		t.Errorf("gzip level 12: %q, %v", out, err)
	}
	b.Reset(Options{Control: true, Encoding: Encoding{Codec: Gzip}})
	b.Append(1, nil, nil)
	if _, built, err := b.Build(nil); err != nil || built.Codec() != None || !built.Control() {
		t.Error("a control batch is compressed")
	}
}
