package batch

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

const nowMs = int64(1_790_000_000_000)

// rules are a topic's by default.
func rules() Rules {
	return Rules{
		NowMs: nowMs, MaxMessageBytes: 1048588, AllowZstd: true,
		TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: 3_600_000,
	}
}

func three() []rec {
	return []rec{{ts: nowMs, key: []byte("a"), value: []byte("1")}, {ts: nowMs + 5, key: []byte("b"), value: []byte("2")}, {ts: nowMs - 5, key: []byte("c")}}
}

func codeOf(err error) *kerr.Error {
	var k *kerr.Error
	errors.As(err, &k)
	return k
}

func mustValidate(t testing.TB, buf []byte, r Rules) Result {
	t.Helper()
	res, err := Validate(buf, r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestValidatePassesThrough(t *testing.T) {
	for c := range Codec(codecs) {
		for _, epoch := range []int32{-1, 0, 7} { // PROD-01: sarama sends 0
			b := mustBuild(t, Options{Encoding: Encoding{Codec: c}, LeaderEpoch: epoch}, three()...)
			before := bytes.Clone(b)
			res := mustValidate(t, b, rules())
			if !bytes.Equal(res.Records, before) || &res.Records[0] != &b[0] || res.Recoded {
				t.Errorf("%v: bytes changed or copied", c)
			}
			if res.Count != 3 || res.MaxTimestampMs != nowMs+5 || res.AppendTimeMs != -1 {
				t.Errorf("%v: %+v", c, res)
			}
			want := int32(1)
			if c != None {
				want = -1
			}
			if res.MaxTimestampDelta != want {
				t.Errorf("%v: largest timestamp at %d, want %d", c, res.MaxTimestampDelta, want)
			}
			// The leader's part: epoch and offset leave the checksum valid.
			Batch(res.Records).SetLeaderEpoch(12)
			Batch(res.Records).SetBaseOffset(99)
			if !Batch(res.Records).CRCValid() {
				t.Errorf("%v: checksum broken by the epoch", c)
			}
		}
	}
}

// headerCases each break one field of a good batch.
var headerCases = []struct {
	name  string
	with  func(b Batch) []byte
	rules func(r *Rules)
	code  *kerr.Error
}{
	{"nothing", func(Batch) []byte { return nil }, nil, kerr.InvalidRecord},
	{"cut off", func(b Batch) []byte { return b[:len(b)-1] }, nil, kerr.InvalidRecord},
	{"two batches", func(b Batch) []byte { return append(bytes.Clone(b), b...) }, nil, kerr.InvalidRecord},
	{"a byte after the batch", func(b Batch) []byte { return append(b, 0) }, nil, kerr.InvalidRecord},
	{"magic 0", func(b Batch) []byte { b[atMagic] = 0; return b }, nil, kerr.InvalidRecord},
	{"magic 1", func(b Batch) []byte { b[atMagic] = 1; return b }, nil, kerr.InvalidRecord},
	{"magic 3", func(b Batch) []byte { b[atMagic] = 3; return b }, nil, kerr.CorruptMessage},
	{"short length", func(b Batch) []byte { b.put32(atLength, 20); return b }, nil, kerr.CorruptMessage},
	{"base offset 1", func(b Batch) []byte { b.SetBaseOffset(1); return b }, nil, kerr.InvalidRecord},
	{"flipped payload bit", func(b Batch) []byte { b[len(b)-1] ^= 4; return b }, nil, kerr.CorruptMessage},
	{"flipped checksum bit", func(b Batch) []byte { b[atCRC] ^= 4; return b }, nil, kerr.CorruptMessage},
	{"a byte too large", summed(func(b Batch) {}), func(r *Rules) { r.MaxMessageBytes = 86 }, kerr.MessageTooLarge},
	{"last delta -1", summed(func(b Batch) { b.put32(atLastDelta, -1) }), nil, kerr.InvalidRecord},
	{"last delta 1", summed(func(b Batch) { b.put32(atLastDelta, 1) }), nil, kerr.InvalidRecord},
	{"count 0", summed(func(b Batch) { b.put32(atCount, 0) }), nil, kerr.InvalidRecord},
	{"count -1", summed(func(b Batch) { b.put32(atCount, -1) }), nil, kerr.InvalidRecord},
	{"count wraps to fit", summed(func(b Batch) { b.put32(atCount, math.MinInt32); b.put32(atLastDelta, math.MaxInt32) }), nil, kerr.InvalidRecord},
	{"count made up", summed(func(b Batch) { b.put32(atCount, 1<<30); b.put32(atLastDelta, 1<<30-1) }), nil, kerr.InvalidRecord},
	{"control", summed(func(b Batch) { b[atAttributes+1] |= bitControl }), nil, kerr.InvalidRecord},
	{"codec 5", summed(func(b Batch) { b[atAttributes+1] |= 5 }), nil, kerr.UnsupportedCompressionType},
	{"producer without sequence", summed(func(b Batch) { b.put64(atProducerID, 5); b.put16(atProducerEpoch, 0) }), nil, kerr.InvalidRecord},
	{"producer without epoch", summed(func(b Batch) { b.put64(atProducerID, 5); b.put32(atBaseSequence, 0) }), nil, kerr.InvalidRecord},
	{"transaction without producer", summed(func(b Batch) { b[atAttributes+1] |= bitTransactional }), nil, kerr.InvalidRecord},
	{"good producer", summed(func(b Batch) {
		b[atAttributes+1] |= bitTransactional
		b.put64(atProducerID, 5)
		b.put16(atProducerEpoch, 0)
		b.put32(atBaseSequence, math.MaxInt32)
	}), nil, nil},
	{"just as large as allowed", summed(func(b Batch) {}), func(r *Rules) { r.MaxMessageBytes = 87 }, nil},
}

// summed applies f and makes the checksum right again.
func summed(f func(b Batch)) func(b Batch) []byte {
	return func(b Batch) []byte {
		f(b)
		b.setCRC()
		return b
	}
}

func TestValidateHeader(t *testing.T) {
	for _, c := range headerCases {
		b := mustBuild(t, Options{}, three()...)
		if len(b) != 87 {
			t.Fatalf("the batch has %d bytes", len(b))
		}
		r := rules()
		if c.rules != nil {
			c.rules(&r)
		}
		if _, err := Validate(c.with(b), r); codeOf(err) != c.code || (err == nil) != (c.code == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.code)
		}
	}
}

func TestValidateRecords(t *testing.T) {
	full := rules()
	full.Full = true
	for _, c := range malformed {
		if c.b.Count() <= 0 {
			continue // the header is refused already
		}
		if _, err := Validate(bytes.Clone(c.b), rules()); codeOf(err) != kerr.InvalidRecord {
			t.Errorf("%s: %v", c.name, err)
		}
		for codec := Gzip; codec < codecs; codec++ {
			b, err := c.b.recode(nil, Encoding{Codec: codec}, c.b.Payload(), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			Batch(b).setCRC()
			if _, err := Validate(b, full); codeOf(err) != kerr.InvalidRecord {
				t.Errorf("%s in %v: %v", c.name, codec, err)
			}
		}
	}
	gap := raw(2, 12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 4, 1, 1, 0)
	if _, err := Validate(gap, rules()); !errors.Is(err, ErrMalformed) {
		t.Errorf("offset deltas 0, 2: %v", err)
	}
}

// TestGarbageUnderACodec: bodies are opened in full mode only; the checksum is
// right in both.
func TestGarbageUnderACodec(t *testing.T) {
	for codec := Gzip; codec < codecs; codec++ {
		b := raw(3, bytes.Repeat([]byte{0xa5}, 50)...)
		b[atAttributes+1] = byte(codec)
		b.setCRC()
		if _, err := Validate(b, rules()); err != nil {
			t.Errorf("%v passes through: %v", codec, err)
		}
		full := rules()
		full.Full = true
		if _, err := Validate(b, full); codeOf(err) != kerr.InvalidRecord {
			t.Errorf("%v in full: %v", codec, err)
		}
	}
}

// TestCountThatTheBodyCannotHold: no client may burn offsets by a count that it
// made up, not even where bodies stay closed.
func TestCountThatTheBodyCannotHold(t *testing.T) {
	for codec := Gzip; codec < codecs; codec++ {
		recs := make([]rec, 5000) // no denser body exists
		for i := range recs {
			recs[i].ts = nowMs
		}
		b := mustBuild(t, Options{Encoding: Encoding{Codec: codec}}, recs...)
		mustValidate(t, b, rules())
		b.put32(atCount, math.MaxInt32)
		b.put32(atLastDelta, math.MaxInt32-1)
		b.setCRC()
		if _, err := Validate(b, rules()); codec != Zstd && codeOf(err) != kerr.InvalidRecord {
			t.Errorf("%v: %d bytes of two billion records: %v", codec, len(b), err)
		}
	}
	tiny := raw(1000, 0x28, 0xb5, 0x2f, 0xfd)
	tiny = tiny[:HeaderSize]
	tiny[atAttributes+1] = byte(Zstd)
	tiny.seal()
	if _, err := Validate(tiny, rules()); codeOf(err) != kerr.InvalidRecord {
		t.Errorf("no body at all: %v", err)
	}
}

// PROD-02: the flipped bit condemns its own batch only; each partition is
// validated by itself, so here the pair is two calls on one frame.
func TestCorruptBatchLeavesItsNeighbour(t *testing.T) {
	frame := append(bytes.Clone(mustBuild(t, Options{}, three()...)), mustBuild(t, Options{}, three()...)...)
	good, bad := frame[:len(frame)/2], frame[len(frame)/2:]
	bad[HeaderSize+8] ^= 1
	if _, err := Validate(bad, rules()); codeOf(err) != kerr.CorruptMessage {
		t.Errorf("the flipped one: %v", err)
	}
	if _, err := Validate(good, rules()); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// PROD-04: the limit is on the whole batch as stored.
func TestSizeLimitIsOnTheStoredBatch(t *testing.T) {
	r := rules()
	r.MaxMessageBytes = 10_000
	small := mustBuild(t, Options{Encoding: Encoding{Codec: Gzip}}, rec{ts: nowMs, value: make([]byte, 1<<20)})
	if len(small) >= 10_000 {
		t.Fatalf("the batch has %d bytes", len(small))
	}
	mustValidate(t, small, r)
	exact := mustBuild(t, Options{}, rec{ts: nowMs, value: make([]byte, 10_000-HeaderSize-11)})
	if len(exact) != 10_000 {
		t.Fatalf("the batch has %d bytes", len(exact))
	}
	mustValidate(t, exact, r)
	above := mustBuild(t, Options{}, rec{ts: nowMs, value: make([]byte, 10_001-HeaderSize-11)})
	if _, err := Validate(above, r); codeOf(err) != kerr.MessageTooLarge {
		t.Errorf("10 001 bytes: %v", err)
	}
	r.Encoding = &Encoding{Codec: None}
	if _, err := Validate(small, r); codeOf(err) != kerr.MessageTooLarge {
		t.Errorf("stored uncompressed: %v", err)
	}
	r.Encoding = &Encoding{Codec: Snappy}
	dense := mustBuild(t, Options{Encoding: Encoding{Codec: Zstd}}, rec{ts: nowMs, value: make([]byte, 1<<20)})
	if _, err := Validate(dense, r); codeOf(err) != kerr.MessageTooLarge {
		t.Errorf("stored as snappy, which is larger than zstd: %v", err)
	}
}

// PROD-06: the broker's clock replaces whatever the client said.
func TestLogAppendTime(t *testing.T) {
	for c := range Codec(codecs) {
		for _, target := range []*Encoding{nil, {Codec: None}, {Codec: LZ4}} {
			for _, ts := range []int64{1, nowMs + 10*365*24*3_600_000, -1} {
				r := rules()
				r.LogAppendTime, r.Encoding = true, target
				b := mustBuild(t, Options{Encoding: Encoding{Codec: c}}, rec{ts: ts, value: []byte("v")}, rec{ts: ts, value: []byte("w")})
				res := mustValidate(t, b, r)
				got := Batch(res.Records)
				if res.AppendTimeMs != nowMs || res.MaxTimestampMs != nowMs || res.MaxTimestampDelta != 0 ||
					!got.LogAppendTime() || got.MaxTimestamp() != nowMs || !got.CRCValid() {
					t.Fatalf("%v to %v, %d: %+v", c, target, ts, res)
				}
				for _, one := range collect(t, got) {
					if one.ts != nowMs {
						t.Fatalf("%v: a record reads as %d", c, one.ts)
					}
				}
				res.Release()
			}
		}
	}
}

func TestClientClaimsLogAppendTime(t *testing.T) {
	claim := func(c Codec) Batch {
		b := mustBuild(t, Options{Encoding: Encoding{Codec: c}}, three()...)
		b.SetLogAppendTime(nowMs + 77)
		return b
	}
	for _, c := range []Codec{None, Gzip} {
		r := rules()
		r.LogAppendTime = true
		_, err := Validate(claim(c), r)
		var re *RecordsError
		if !errors.As(err, &re) || re.Code != kerr.InvalidTimestamp || len(re.Errors) != 3 || re.Errors[2].BatchIndex != 2 {
			t.Errorf("%v on a LogAppendTime topic: %v", c, err)
		}
		res := mustValidate(t, claim(c), rules())
		if b := Batch(res.Records); b.LogAppendTime() || !b.CRCValid() || b.MaxTimestamp() != nowMs+5 {
			t.Errorf("%v on a CreateTime topic: the claim stays", c)
		}
		none := claim(c)
		none.SetLogAppendTime(NoTimestamp)
		if _, err := Validate(none, rules()); codeOf(err) != kerr.InvalidTimestamp {
			t.Errorf("%v, claim without a time: %v", c, err)
		}
	}
}

func TestTimestampBounds(t *testing.T) {
	const hour = 3_600_000
	for _, c := range []struct {
		name   string
		ts     []int64
		before int64
		wrong  []int32
	}{
		{"now", []int64{nowMs}, hour, nil},
		{"at both bounds", []int64{nowMs - hour, nowMs + hour}, hour, nil},
		{"a ms too late", []int64{nowMs, nowMs + hour + 1}, hour, []int32{1}},
		{"a ms too early", []int64{nowMs - hour - 1, nowMs}, hour, []int32{0}},
		{"only the middle", []int64{nowMs, nowMs + 2*hour, nowMs}, hour, []int32{1}},
		{"none given", []int64{-1, -1}, hour, nil},
		{"some given", []int64{nowMs, -1, nowMs}, hour, nil},
		{"the epoch without a bound", []int64{0}, math.MaxInt64, nil},
		{"every one", []int64{1, 2, 3}, hour, []int32{0, 1, 2}},
	} {
		for codec := range Codec(codecs) {
			for _, target := range []*Encoding{nil, {Codec: Gzip}} {
				r := rules()
				r.TimestampBeforeMaxMs, r.Encoding = c.before, target
				var recs []rec
				for _, ts := range c.ts {
					recs = append(recs, rec{ts: ts})
				}
				_, err := Validate(mustBuild(t, Options{Encoding: Encoding{Codec: codec}}, recs...), r)
				var re *RecordsError
				if (err == nil) != (c.wrong == nil) || err != nil && !errors.As(err, &re) {
					t.Errorf("%s, %v: %v", c.name, codec, err)
					continue
				}
				if err == nil {
					continue
				}
				var wrong []int32
				for _, e := range re.Errors {
					wrong = append(wrong, e.BatchIndex)
				}
				if fmt.Sprint(wrong) != fmt.Sprint(c.wrong) || re.Code != kerr.InvalidTimestamp {
					t.Errorf("%s, %v: refused %v with %v, want %v", c.name, codec, wrong, re.Code, c.wrong)
				}
			}
		}
	}
}

// TestHeaderLiesAboutTimestamps: a header whose times are out of range or
// contradict each other is doubt, which the records settle.
func TestHeaderLiesAboutTimestamps(t *testing.T) {
	for _, codec := range []Codec{None, Zstd} {
		for _, lie := range []int64{nowMs + 1e12, -1, 1} {
			b := mustBuild(t, Options{Encoding: Encoding{Codec: codec}}, three()...)
			b.put64(atMaxTimestamp, lie)
			b.setCRC()
			res := mustValidate(t, b, rules())
			if got := Batch(res.Records); got.MaxTimestamp() != nowMs+5 || !got.CRCValid() || res.MaxTimestampMs != nowMs+5 || res.MaxTimestampDelta != 1 {
				t.Errorf("%v, max timestamp %d: stays %d", codec, lie, got.MaxTimestamp())
			}
		}
	}
}

// PROD-08.
func TestZstdNeedsProduce7(t *testing.T) {
	b := mustBuild(t, Options{Encoding: Encoding{Codec: Zstd}}, three()...)
	mustValidate(t, b, rules())
	r := rules()
	r.AllowZstd = false
	if _, err := Validate(b, r); codeOf(err) != kerr.UnsupportedCompressionType {
		t.Errorf("before version 7: %v", err)
	}
	r.Encoding = &Encoding{Codec: Zstd}
	res := mustValidate(t, mustBuild(t, Options{}, three()...), r)
	if Batch(res.Records).Codec() != Zstd {
		t.Error("a topic's own zstd depends on the request's version")
	}
}

// PROD-10.
func TestCompactedTopicNeedsKeys(t *testing.T) {
	for c := range Codec(codecs) {
		r := rules()
		r.Compact = true
		o := Options{Encoding: Encoding{Codec: c}}
		b := mustBuild(t, o, rec{ts: nowMs, key: []byte("a")}, rec{ts: nowMs}, rec{ts: nowMs, key: []byte("c")})
		_, err := Validate(b, r)
		var re *RecordsError
		if !errors.As(err, &re) || re.Code != kerr.InvalidRecord || len(re.Errors) != 1 || re.Errors[0].BatchIndex != 1 ||
			re.Errors[0].Message == "" || !strings.Contains(err.Error(), re.Errors[0].Message) {
			t.Errorf("%v: %v", c, err)
		}
		mustValidate(t, mustBuild(t, o, rec{ts: nowMs, key: []byte{}}), r)
		// A timestamp among the reasons decides the code.
		_, err = Validate(mustBuild(t, o, rec{ts: nowMs}, rec{ts: nowMs + 1e9, key: []byte("k")}), r)
		if !errors.As(err, &re) || re.Code != kerr.InvalidTimestamp || len(re.Errors) != 2 || codeOf(err) != kerr.InvalidTimestamp {
			t.Errorf("%v, two reasons: %v", c, err)
		}
	}
}

func TestRecordErrorsAreBounded(t *testing.T) {
	var b Builder
	b.Reset(Options{})
	for range 5000 {
		b.Append(nowMs, nil, nil)
	}
	_, built, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rules()
	r.Compact = true
	_, err = Validate(built, r)
	var re *RecordsError
	if !errors.As(err, &re) || len(re.Errors) != maxRecordErrors {
		t.Errorf("%v", err)
	}
	built.SetLogAppendTime(nowMs)
	r.LogAppendTime = true
	if _, err = Validate(built, r); !errors.As(err, &re) || len(re.Errors) != maxRecordErrors {
		t.Errorf("%v", err)
	}
}
