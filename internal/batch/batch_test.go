package batch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// rec is a record as tests write it down.
type rec struct {
	ts         int64
	key, value []byte
	headers    []Header
}

func mustBuild(t testing.TB, o Options, recs ...rec) Batch {
	t.Helper()
	var b Builder
	b.Reset(o)
	for _, r := range recs {
		b.Append(r.ts, r.key, r.value, r.headers...)
	}
	_, built, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// goldenBatch was put together by hand from the format's description, its sum
// by a bitwise CRC-32C: one record at 1 000 ms, key "k", value null, a header "h" with value null.
const goldenBatch = "0000000000000000" + // base offset
	"0000003c" + // length 60
	"00000007" + // leader epoch
	"02" + // magic
	"47dcc9ef" + // CRC-32C
	"0000" + // attributes
	"00000000" + // last offset delta
	"00000000000003e8" + "00000000000003e8" + // timestamps
	"ffffffffffffffff" + "ffff" + "ffffffff" + // no producer
	"00000001" + // count
	"14" + "00" + "00" + "00" + // length 10, attributes, deltas
	"026b" + "01" + // key, value
	"02" + "0268" + "01" // headers

func TestGoldenBytes(t *testing.T) {
	b := mustBuild(t, Options{LeaderEpoch: 7}, rec{ts: 1000, key: []byte("k"), headers: []Header{{Key: "h"}}})
	want, err := hex.DecodeString(goldenBatch)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Fatalf("got  %x\nwant %x", []byte(b), want)
	}
}

func TestCastagnoliCheckValue(t *testing.T) {
	// The check value that every description of CRC-32C states for "123456789".
	b := make(Batch, atAttributes, 64)
	b = append(b, "123456789"...)
	if got := b.sum(); got != 0xe3069283 {
		t.Fatalf("sum %08x", got)
	}
}

func TestNext(t *testing.T) {
	good := mustBuild(t, Options{}, rec{value: []byte("v")})
	with := func(f func(b Batch)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	legacy := make([]byte, 12+22)
	binary.BigEndian.PutUint32(legacy[8:], 22)
	for _, c := range []struct {
		name string
		buf  []byte
		err  error
	}{
		{"empty", nil, io.EOF},
		{"one byte", good[:1], io.ErrUnexpectedEOF},
		{"no length", good[:11], io.ErrUnexpectedEOF},
		{"no magic", good[:16], io.ErrUnexpectedEOF},
		{"magic and no more", good[:17], io.ErrUnexpectedEOF},
		{"header only", good[:61], io.ErrUnexpectedEOF},
		{"a byte short", good[:len(good)-1], io.ErrUnexpectedEOF},
		{"whole", good, nil},
		{"zeroed tail", make([]byte, 100), ErrCorrupt},
		{"negative length", with(func(b Batch) { b.put32(atLength, -1) }), ErrCorrupt},
		{"length of less than a header", with(func(b Batch) { b.put32(atLength, 48) }), ErrCorrupt},
		{"huge length", with(func(b Batch) { b.put32(atLength, math.MaxInt32) }), ErrCorrupt},
		{"large length", with(func(b Batch) { b.put32(atLength, math.MaxInt32-12) }), io.ErrUnexpectedEOF},
		{"magic 3", with(func(b Batch) { b[atMagic] = 3 }), ErrCorrupt},
		{"magic -1", with(func(b Batch) { b[atMagic] = 255 }), ErrCorrupt},
		{"magic 1", with(func(b Batch) { b[atMagic] = 1 }), ErrLegacy},
		{"magic 0, small", legacy, ErrLegacy},
		{"magic 0, cut off", legacy[:20], io.ErrUnexpectedEOF},
	} {
		b, rest, err := Next(c.buf)
		if !errors.Is(err, c.err) || (err != nil) != (c.err != nil) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.err)
		}
		if err == nil && (!bytes.Equal(b, good) || len(rest) != 0) {
			t.Errorf("%s: %d bytes and %d left", c.name, len(b), len(rest))
		}
	}
	if _, _, err := Next(with(func(b Batch) { b[atMagic] = 1 })); !strings.Contains(err.Error(), "magic 1") {
		t.Errorf("the legacy magic is not named: %v", err)
	}
}

func TestNextWalksBatches(t *testing.T) {
	a := mustBuild(t, Options{}, rec{value: []byte("a")})
	b := mustBuild(t, Options{Encoding: Encoding{Codec: LZ4}}, rec{value: bytes.Repeat([]byte("b"), 1000)})
	buf := append(append(bytes.Clone(a), b...), b[:40]...)
	var seen []Batch
	for {
		one, rest, err := Next(buf)
		if err != nil {
			if !IsTruncated(err) {
				t.Fatal(err)
			}
			break
		}
		seen, buf = append(seen, one), rest
	}
	if len(seen) != 2 || !bytes.Equal(seen[0], a) || !bytes.Equal(seen[1], b) || len(buf) != 40 {
		t.Fatalf("%d batches, %d bytes left", len(seen), len(buf))
	}
	if cap(seen[0]) != len(seen[0]) {
		t.Error("appending to a batch would overwrite its neighbour")
	}
}

func TestMarkersCarryCodes(t *testing.T) {
	for err, code := range map[error]*kerr.Error{
		ErrCorrupt: kerr.CorruptMessage, ErrLegacy: kerr.InvalidRecord,
		ErrMalformed: kerr.InvalidRecord, ErrTooLarge: kerr.MessageTooLarge,
	} {
		var got *kerr.Error
		if !errors.As(err, &got) || got != code {
			t.Errorf("%v carries %v, want %v", err, got, code)
		}
	}
}

func TestViewAndSetters(t *testing.T) {
	b := mustBuild(t, Options{
		BaseOffset: 40, LeaderEpoch: 3, Transactional: true,
		Producer: &Producer{ID: 9, Epoch: 2, Sequence: math.MaxInt32},
	}, rec{ts: 100}, rec{ts: 90}, rec{ts: 120})
	type row struct {
		name      string
		got, want any
	}
	for _, c := range []row{
		{"base offset", b.BaseOffset(), int64(40)}, {"last offset", b.LastOffset(), int64(42)},
		{"next offset", b.NextOffset(), int64(43)}, {"epoch", b.LeaderEpoch(), int32(3)},
		{"magic", b.Magic(), int8(2)}, {"attributes", b.Attributes(), int16(bitTransactional)},
		{"last delta", b.LastOffsetDelta(), int32(2)}, {"base ts", b.BaseTimestamp(), int64(100)},
		{"max ts", b.MaxTimestamp(), int64(120)}, {"pid", b.ProducerID(), int64(9)},
		{"pepoch", b.ProducerEpoch(), int16(2)}, {"sequence", b.BaseSequence(), int32(math.MaxInt32)},
		{"last sequence wraps", b.LastSequence(), int32(1)}, {"count", b.Count(), int32(3)},
		{"transactional", b.Transactional(), true}, {"control", b.Control(), false}, {"lat", b.LogAppendTime(), false},
		{"size", b.Size(), len(b)}, {"crc", b.CRCValid(), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	sum := b.CRC()
	b.SetBaseOffset(1 << 40)
	b.SetLeaderEpoch(-1)
	if b.BaseOffset() != 1<<40 || b.LeaderEpoch() != -1 || b.CRC() != sum || !b.CRCValid() {
		t.Error("offset or epoch set, or the checksum touched, wrongly")
	}
	b.SetLogAppendTime(5000)
	if !b.LogAppendTime() || b.MaxTimestamp() != 5000 || !b.Transactional() || b.CRC() == sum || !b.CRCValid() {
		t.Error("LogAppendTime is not set or not summed")
	}
	if got := b.Timestamp(&Record{TimestampDelta: -10}); got != 5000 {
		t.Errorf("a record of a LogAppendTime batch reads as %d", got)
	}
	for i := atAttributes; i < len(b); i++ {
		b[i] ^= 1
		if b.CRCValid() {
			t.Fatalf("flipping byte %d goes unnoticed", i)
		}
		b[i] ^= 1
	}
}

// TestRestampKeepsTheSum: what is computed from the change equals a sum over all
// bytes, at every length, and a sum that was wrong stays wrong.
func TestRestampKeepsTheSum(t *testing.T) {
	payload := noise(5000)
	for _, n := range []int{0, 1, 2, 3, 7, 8, 9, 255, 256, 1000, 4096, 5000} {
		b := raw(1, payload[:n]...)
		for _, to := range []struct {
			lat bool
			ms  int64
		}{{true, nowMs}, {true, nowMs + 1}, {false, -1}, {false, 1 << 62}, {true, 0}} {
			b.restamp(to.lat, to.ms)
			if !b.CRCValid() || b.LogAppendTime() != to.lat || b.MaxTimestamp() != to.ms {
				t.Fatalf("%d bytes, %v: sum %08x, computed %08x", n, to, b.sum(), b.CRC())
			}
		}
		b[len(b)-1] ^= 1
		if b.restamp(true, 7); b.CRCValid() {
			t.Fatalf("%d bytes: a broken batch became valid", n)
		}
	}
}

func TestNoSequence(t *testing.T) {
	b := mustBuild(t, Options{}, rec{}, rec{})
	if b.LastSequence() != NoSequence || b.ProducerID() != -1 || b.ProducerEpoch() != -1 {
		t.Fatalf("last sequence %d of producer %d", b.LastSequence(), b.ProducerID())
	}
}

func TestDeleteHorizon(t *testing.T) {
	b := mustBuild(t, Options{}, rec{ts: 77})
	if _, ok := b.DeleteHorizon(); ok {
		t.Fatal("a horizon that no one set")
	}
	b[atAttributes+1] |= bitDeleteHorizon
	if ms, ok := b.DeleteHorizon(); !ok || ms != 77 {
		t.Fatalf("horizon %d %v", ms, ok)
	}
}
