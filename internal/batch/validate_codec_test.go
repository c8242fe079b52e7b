package batch

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// PROD-11, the topic's side: producer keeps the bytes, another codec re-encodes
// and changes nothing that a reader or an idempotent producer can see.
func TestTopicCodec(t *testing.T) {
	o := Options{Transactional: true, Producer: &Producer{ID: 8, Epoch: 4, Sequence: 21}}
	recs := append(three(), rec{ts: nowMs, value: text(60_000), headers: []Header{{"h", nil}, {"i", []byte{}}}})
	for from := range Codec(codecs) {
		for to := range Codec(codecs) {
			o.Encoding = Encoding{Codec: from}
			b := mustBuild(t, o, recs...)
			before := bytes.Clone(b)
			r := rules()
			r.Encoding = &Encoding{Codec: to}
			res := mustValidate(t, b, r)
			if !bytes.Equal(b, before) {
				t.Errorf("%v to %v: the request's bytes changed", from, to)
			}
			got := Batch(res.Records)
			if res.Recoded != (from != to) || got.Codec() != to {
				t.Errorf("%v to %v: recoded %v, codec %v", from, to, res.Recoded, got.Codec())
			}
			if from == to && &got[0] != &b[0] {
				t.Errorf("%v: copied", from)
			}
			one, rest, err := Next(got)
			if err != nil || len(rest) != 0 || !one.CRCValid() || !sameRecs(collect(t, one), recs) {
				t.Errorf("%v to %v: %v, records differ or the sum is wrong", from, to, err)
			}
			if one.ProducerID() != 8 || one.ProducerEpoch() != 4 || one.BaseSequence() != 21 || !one.Transactional() ||
				one.BaseTimestamp() != nowMs || one.MaxTimestamp() != nowMs+5 || one.Count() != 4 || one.LastOffsetDelta() != 3 {
				t.Errorf("%v to %v: header %x", from, to, []byte(one[:HeaderSize]))
			}
			res.Release()
			res.Release()
			if res.Recoded && res.Records != nil {
				t.Error("released records can still be used")
			}
		}
	}
}

func TestPlainLimit(t *testing.T) {
	for c := Gzip; c < codecs; c++ {
		b := mustBuild(t, Options{Encoding: Encoding{Codec: c}}, rec{ts: nowMs, key: []byte("k"), value: make([]byte, 3<<20)})
		r := rules()
		r.PlainLimit = 1 << 20
		mustValidate(t, b, r) // passes through unopened
		r.Compact = true
		if _, err := Validate(b, r); codeOf(err) != kerr.MessageTooLarge {
			t.Errorf("%v above the limit: %v", c, err)
		}
		r.PlainLimit = 0
		mustValidate(t, b, r)
	}
}

func TestCoordinatorsBatches(t *testing.T) {
	r := rules()
	r.Coordinator = true
	plain := mustBuild(t, Options{BaseOffset: 44}, rec{ts: nowMs - 9e9, value: []byte("v")}, rec{ts: nowMs})
	buf := append(bytes.Clone(plain), AppendMarker(nil, Marker{ProducerID: 1, Commit: true}, nowMs+3)...)
	res := mustValidate(t, buf, r)
	if res.Count != 3 || res.MaxTimestampMs != nowMs+3 || &res.Records[0] != &buf[0] || len(res.Records) != len(buf) {
		t.Errorf("%+v", res)
	}
	r.LogAppendTime = true
	if res = mustValidate(t, buf, r); res.AppendTimeMs != nowMs || res.MaxTimestampMs != nowMs || !Batch(buf[:len(plain)]).CRCValid() {
		t.Errorf("%+v", res)
	}
	flipped := bytes.Clone(buf)
	flipped[len(flipped)-1] ^= 1
	small := r
	small.MaxMessageBytes = len(plain) - 1
	for name, c := range map[string]struct {
		buf  []byte
		r    Rules
		code *kerr.Error
	}{
		"flipped": {flipped, r, kerr.CorruptMessage}, "too large": {buf, small, kerr.MessageTooLarge},
		"no record": {raw(0), r, kerr.InvalidRecord},
	} {
		if _, err := Validate(c.buf, c.r); codeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, buf := range map[string][]byte{"nothing": nil, "cut off": buf[:len(buf)-1]} {
		if _, err := Validate(buf, r); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}
