package batch

import (
	"bytes"
	"errors"
	"testing"
)

// seeds are batches of every kind, whole and hurt; more than a few lines of
// testdata would only repeat them.
func seeds(f *testing.F, add func(b []byte)) {
	f.Helper()
	for c := range Codec(codecs) {
		b := mustBuild(f, Options{Encoding: Encoding{Codec: c}, Producer: &Producer{ID: 1, Epoch: 2, Sequence: 3}}, nullsAndEmpties...)
		add(b)
		add(b[:len(b)-1])
		add(append(bytes.Clone(b), b...))
	}
	for _, m := range malformed {
		add(m.b)
	}
	add(AppendMarker(nil, Marker{ProducerID: 9, Commit: true}, 1))
	add(make([]byte, 100))
}

// FuzzNext: no input panics, what is split off lies within the input, and every
// getter works on it.
func FuzzNext(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, buf []byte) {
		total := len(buf)
		for {
			b, rest, err := Next(buf)
			if err != nil {
				if b != nil || rest != nil {
					t.Fatal("bytes with an error")
				}
				return
			}
			if len(b) < HeaderSize || len(b)+len(rest) != len(buf) || len(buf) > total {
				t.Fatalf("%d and %d of %d", len(b), len(rest), len(buf))
			}
			_, _, _, _, _ = b.LastOffset(), b.CRCValid(), b.LastSequence(), b.Codec().String(), b.Payload()
			if b.BaseSequence() >= 0 && b.LastOffsetDelta() >= 0 && b.LastSequence() < 0 {
				t.Fatalf("last sequence %d", b.LastSequence())
			}
			_, _, _ = ParseMarker(b)
			buf = rest
		}
	})
}

// bothDecode holds the straight line of decode against decodeAny.
func bothDecode(t *testing.T, p []byte) {
	for len(p) > 0 {
		var quick, any Record
		rest, bad := quick.decode(p)
		restAny, badAny := any.decodeAny(p)
		if bad != badAny || len(rest) != len(restAny) {
			t.Fatalf("%q and %d left, by decodeAny %q and %d: %x", bad, len(rest), badAny, len(restAny), p)
		}
		if bad != "" {
			return
		}
		if quick.OffsetDelta != any.OffsetDelta || quick.TimestampDelta != any.TimestampDelta || quick.count != any.count ||
			quick.Attributes != any.Attributes || !sameBytes(quick.Key, any.Key) || !sameBytes(quick.Value, any.Value) {
			t.Fatalf("%+v, by decodeAny %+v: %x", quick, any, p)
		}
		p = rest
	}
}

// FuzzRecords: a body of any codec iterates to an end or an error, within the
// limit; what iterates cleanly builds again to the same records.
func FuzzRecords(f *testing.F) {
	seeds(f, func(b []byte) {
		if len(b) > HeaderSize {
			f.Add(Batch(b).Count(), byte(Batch(b).Codec()), b[HeaderSize:])
		}
	})
	f.Fuzz(func(t *testing.T, count int32, codec byte, payload []byte) {
		bothDecode(t, payload)
		b := raw(count, payload...)
		b[atAttributes+1] = codec & maskCodec
		b.setCRC()
		it := Records(b, 1<<20)
		defer it.Close()
		var again Builder
		again.Reset(Options{})
		var want []rec
		for it.Next() {
			r := it.Record()
			one := rec{ts: b.Timestamp(r), key: bytes.Clone(r.Key), value: bytes.Clone(r.Value)}
			n := 0
			for k, v := range r.Headers() {
				one.headers = append(one.headers, Header{string(k), bytes.Clone(v)})
				n++
			}
			if n != r.HeaderCount() {
				t.Fatalf("%d headers of %d", n, r.HeaderCount())
			}
			want = append(want, one)
			again.Append(one.ts, one.key, one.value, one.headers...)
		}
		if it.Err() != nil {
			if !errors.Is(it.Err(), ErrMalformed) && !errors.Is(it.Err(), ErrTooLarge) {
				t.Fatal(it.Err())
			}
			return
		}
		if len(want) != int(count) {
			t.Fatalf("%d records of %d without an error", len(want), count)
		}
		if count == 0 {
			return
		}
		_, built, err := again.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := collect(t, built); !sameRecs(got, want) {
			t.Fatal("records differ after building again")
		}
	})
}

// FuzzValidate: whatever passes is exactly one whole batch whose sum is right,
// within the size limit, and, where its records were looked at, readable.
func FuzzValidate(f *testing.F) {
	seeds(f, func(b []byte) {
		f.Add(b, byte(0))
		f.Add(b, byte(0x3d))
		f.Add(b, byte(0xff))
	})
	f.Fuzz(func(t *testing.T, buf []byte, rule byte) {
		if len(buf) >= HeaderSize {
			// Without this no mutation would get behind the checksum.
			b := Batch(buf)
			b.SetBaseOffset(0)
			b.seal()
		}
		r := rules()
		r.PlainLimit, r.MaxMessageBytes = 1<<20, 1<<16
		r.AllowZstd, r.Full, r.Compact, r.LogAppendTime = true, rule&1 != 0, rule&2 != 0, rule&4 != 0
		if target := Codec(rule >> 3 & 7); target.Valid() && rule&0x40 != 0 {
			r.Encoding = &Encoding{Codec: target}
		}
		r.Coordinator = rule&0x80 != 0
		res, err := Validate(buf, r)
		if err != nil {
			if codeOf(err) == nil && !IsTruncated(err) && len(buf) > 0 {
				t.Fatalf("no code: %v", err)
			}
			return
		}
		defer res.Release()
		if r.Coordinator {
			return
		}
		b, rest, err := Next(res.Records)
		if err != nil || len(rest) != 0 || !b.CRCValid() || len(b) > r.MaxMessageBytes {
			t.Fatalf("%v, %d bytes after it, sum valid %v, %d bytes", err, len(rest), b.CRCValid(), len(b))
		}
		if int(b.Count()) != res.Count || b.LogAppendTime() != r.LogAppendTime || b.MaxTimestamp() != res.MaxTimestampMs {
			t.Fatalf("the batch says otherwise than %+v", res)
		}
		if b.Codec() == None || r.Full {
			it := Records(b, 1<<20)
			for it.Next() {
			}
			it.Close()
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		}
	})
}

// FuzzDecompress: any body opens within the limit or is refused; what opens
// survives every codec.
func FuzzDecompress(f *testing.F) {
	for c := range Codec(codecs) {
		body := mustCompress(f, Encoding{Codec: c}, text(300))
		f.Add(byte(c), body, uint16(1000))
		f.Add(byte(c), body, uint16(299))
		f.Add(byte(c), body[:len(body)-2], uint16(1000))
	}
	f.Add(byte(Zstd), []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x40, 0x02, 0xff, 0x07, 0x00}, uint16(0))
	f.Fuzz(func(t *testing.T, codec byte, body []byte, limit uint16) {
		c := Codec(codec % codecs)
		max := int(limit) + 1
		plain, err := Decompress(nil, c, body, max)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
		if len(plain) > max {
			t.Fatalf("%d bytes under a limit of %d", len(plain), max)
		}
		for to := range Codec(codecs) {
			again, err := Decompress(nil, to, mustCompress(t, Encoding{Codec: to}, plain), max)
			if err != nil || !bytes.Equal(again, plain) {
				t.Fatalf("by way of %v: %d bytes of %d, %v", to, len(again), len(plain), err)
			}
		}
	})
}
