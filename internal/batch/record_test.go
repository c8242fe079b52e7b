package batch

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// collect reads every record of b, with copies.
func collect(t testing.TB, b Batch) []rec {
	t.Helper()
	it := Records(b, 0)
	defer it.Close()
	var out []rec
	for it.Next() {
		r := it.Record()
		if got, want := b.Offset(r), b.BaseOffset()+int64(len(out)); got != want {
			t.Fatalf("record %d has offset %d, want %d", len(out), got, want)
		}
		one := rec{ts: b.Timestamp(r), key: bytes.Clone(r.Key), value: bytes.Clone(r.Value)}
		for k, v := range r.Headers() {
			one.headers = append(one.headers, Header{Key: string(k), Value: bytes.Clone(v)})
		}
		if len(one.headers) != r.HeaderCount() {
			t.Fatalf("%d headers of %d", len(one.headers), r.HeaderCount())
		}
		out = append(out, one)
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func sameRecs(a, b []rec) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ts != b[i].ts || !sameBytes(a[i].key, b[i].key) || !sameBytes(a[i].value, b[i].value) || len(a[i].headers) != len(b[i].headers) {
			return false
		}
		for j := range a[i].headers {
			if a[i].headers[j].Key != b[i].headers[j].Key || !sameBytes(a[i].headers[j].Value, b[i].headers[j].Value) {
				return false
			}
		}
	}
	return true
}

// nullsAndEmpties has every way for bytes to be absent.
var nullsAndEmpties = []rec{
	{ts: 1000},
	{ts: 999, key: []byte{}, value: []byte{}},
	{ts: 1 << 41, key: []byte("key"), value: nil, headers: []Header{{"a", nil}, {"a", []byte{}}, {"", []byte("x")}}},
	{ts: -1, key: nil, value: bytes.Repeat([]byte("value "), 300)},
}

func TestNullAndEmptyAreKept(t *testing.T) {
	for c := range Codec(codecs) {
		got := collect(t, mustBuild(t, Options{Encoding: Encoding{Codec: c}, BaseOffset: 5}, nullsAndEmpties...))
		if !sameRecs(got, nullsAndEmpties) {
			t.Errorf("%v: got %v", c, got)
		}
	}
}

func TestHeadersCanStopEarly(t *testing.T) {
	b := mustBuild(t, Options{}, rec{headers: []Header{{"a", nil}, {"b", nil}}})
	it := Records(b, 0)
	it.Next()
	for k := range it.Record().Headers() {
		if string(k) != "a" {
			t.Fatalf("went on to %q", k)
		}
		break
	}
}

// raw builds an uncompressed batch around bytes that may not be records.
func raw(count int32, payload ...byte) Batch {
	b := make(Batch, HeaderSize, HeaderSize+len(payload))
	b = append(b, payload...)
	b.put32(atCount, count)
	b.put32(atLastDelta, count-1)
	b.put64(atProducerID, -1)
	b.put16(atProducerEpoch, -1)
	b.put32(atBaseSequence, -1)
	b.seal()
	return b
}

var malformed = []struct {
	name string
	b    Batch
	says string
}{
	{"nothing", raw(1), "longer than the bytes"},
	{"length only", raw(1, 2), "longer than the bytes"},
	{"empty record", raw(1, 0), "is empty"},
	{"negative length", raw(1, 1), "longer than the bytes"},
	{"length of six bytes", raw(1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00), "longer than the bytes"},
	{"length above 32 bits", raw(1, 0x80, 0x80, 0x80, 0x80, 0x10), "longer than the bytes"},
	{"attributes only", raw(1, 2, 0), "timestamp delta"},
	{"endless timestamp", raw(1, 8, 0, 0x80, 0x80, 0x80), "timestamp delta"},
	{"no offset delta", raw(1, 4, 0, 0), "offset delta"},
	{"no key length", raw(1, 6, 0, 0, 0), "key length"},
	{"key too long", raw(1, 8, 0, 0, 0, 4), "key length"},
	{"no value length", raw(1, 8, 0, 0, 0, 1), "value length"},
	{"value too long", raw(1, 10, 0, 0, 0, 1, 2), "value length"},
	{"no header count", raw(1, 10, 0, 0, 0, 1, 1), "count of headers"},
	{"negative header count", raw(1, 12, 0, 0, 0, 1, 1, 1), "count of headers"},
	{"more headers than bytes", raw(1, 12, 0, 0, 0, 1, 1, 2), "count of headers"},
	{"null header key", raw(1, 16, 0, 0, 0, 1, 1, 2, 1, 1), "bad header"},
	{"header value too long", raw(1, 18, 0, 0, 0, 1, 1, 2, 0, 4, 0), "bad header"},
	{"bytes in the record after it", raw(1, 14, 0, 0, 0, 1, 1, 0, 9), "shorter than it says"},
	// A long timestamp, and then what would be a record were it read from the front.
	{"cut off, but looks whole from its front", raw(1, 12, 6, 0x80, 0x80, 0x01, 1, 0), "value length"},
	{"bytes after the last record", raw(1, 12, 0, 0, 0, 1, 1, 0, 9), "follow the last record"},
	{"fewer records than counted", raw(2, 12, 0, 0, 0, 1, 1, 0), "longer than the bytes"},
	{"count of none but bytes", raw(0, 12, 0, 0, 0, 1, 1, 0), "follow the last record"},
	{"negative count", raw(-1, 12, 0, 0, 0, 1, 1, 0), "negative"},
}

func TestMalformedRecords(t *testing.T) {
	for _, c := range malformed {
		it := Records(c.b, 0)
		for it.Next() {
		}
		if err := it.Err(); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one that says %q", c.name, err, c.says)
		}
		if it.Next() {
			t.Errorf("%s: goes on after an error", c.name)
		}
		it.Close()
		it.Close()
	}
}

// TestShortReadingIsTheLongOne: records whose numbers need one byte, two, and
// more, in every combination, where the straight line of decode must give up.
func TestShortReadingIsTheLongOne(t *testing.T) {
	stamps := []int64{0, 63, 64, -64, -65, 8191, 8192, -8193, 1 << 40}
	sizes := []int{-1, 0, 1, 63, 64, 8191, 8192}
	for _, ts := range stamps {
		for _, offset := range []int32{0, 1, 64, 8192} {
			for _, k := range sizes {
				for _, v := range sizes {
					var key, value []byte
					if k >= 0 {
						key = bytes.Repeat([]byte{0}, k) // zeros read as well-formed numbers
					}
					if v >= 0 {
						value = bytes.Repeat([]byte{0}, v)
					}
					p := appendRecord(nil, offset, ts, key, value, nil)
					bothDecode(t, append(p, p...))
					var r Record
					if rest, bad := r.decode(p); bad != "" || len(rest) != 0 || r.TimestampDelta != ts || r.OffsetDelta != offset ||
						!sameBytes(r.Key, key) || !sameBytes(r.Value, value) {
						t.Fatalf("ts %d offset %d key %d value %d: %q, %+v", ts, offset, k, v, bad, r)
					}
				}
			}
		}
	}
}

func TestAnyNegativeLengthIsNull(t *testing.T) {
	// Apache Kafka reads -2 as null too. Size 6, key -2, value -1.
	got := collect(t, raw(1, 12, 0, 0, 0, 3, 1, 0))
	if got[0].key != nil || got[0].value != nil {
		t.Fatalf("%v", got)
	}
}

func TestEmptyBatchOfTheCleaner(t *testing.T) {
	b := raw(0)
	b[atAttributes+1] = byte(Gzip)
	if got := collect(t, b); len(got) != 0 {
		t.Fatalf("%d records", len(got))
	}
}

func TestVarintEdges(t *testing.T) {
	for _, v := range []int64{0, -1, 1, 63, -64, 64, 1<<31 - 1, -1 << 31} {
		p := appendVarint(nil, v)
		if got, i := varint(p, 0); int64(got) != v || i != len(p) || varintLen(v) != len(p) {
			t.Errorf("%d: reads as %d, %d bytes of %d", v, got, i, len(p))
		}
	}
	for _, v := range []int64{1 << 31, -1<<31 - 1, 1<<63 - 1, -1 << 63} {
		p := appendVarint(nil, v)
		if got, i := varlong(p, 0); got != v || i != len(p) || varintLen(v) != len(p) {
			t.Errorf("%d: reads as %d, %d bytes of %d", v, got, i, len(p))
		}
		if _, i := varint(p, 0); i != -1 {
			t.Errorf("%d fits 32 bits", v)
		}
		for cut := range p {
			if _, i := varlong(p[:cut], 0); i != -1 {
				t.Errorf("%d: %d bytes are enough", v, cut)
			}
		}
	}
	if _, i := varlong(bytes.Repeat([]byte{0xff}, 11), 0); i != -1 {
		t.Error("11 bytes are a varlong")
	}
	if got, i := varint([]byte{0x80, 0x00}, 0); got != 0 || i != 2 {
		t.Error("a padded zero is refused, as Apache Kafka does not")
	}
}

func TestIterationDoesNotAllocate(t *testing.T) {
	b := mustBuild(t, Options{}, nullsAndEmpties...)
	n := testing.AllocsPerRun(100, func() {
		it := Records(b, 0)
		for it.Next() {
			for range it.Record().Headers() {
			}
		}
		it.Close()
	})
	if n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
