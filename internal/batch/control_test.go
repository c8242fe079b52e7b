package batch

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestMarkerBytes(t *testing.T) {
	b := Batch(AppendMarker(nil, Marker{ProducerID: 4000, ProducerEpoch: 3, Commit: true, CoordinatorEpoch: 0x01020304}, 1234))
	// length 16, no deltas, key (0, 1), value (0, epoch), no headers
	const want = "20" + "000000" + "08" + "00000001" + "0c" + "000001020304" + "00"
	if got := hex.EncodeToString(b.Payload()); got != want {
		t.Errorf("payload %s, want %s", got, want)
	}
	if b.Attributes() != 0x30 || b.BaseSequence() != -1 || b.Count() != 1 || b.LastOffsetDelta() != 0 ||
		b.ProducerID() != 4000 || b.ProducerEpoch() != 3 || b.BaseTimestamp() != 1234 || b.MaxTimestamp() != 1234 || !b.CRCValid() {
		t.Errorf("header %x", []byte(b[:HeaderSize]))
	}
}

func TestMarkerRoundTrip(t *testing.T) {
	for _, m := range []Marker{
		{ProducerID: 1, ProducerEpoch: 2, Commit: true, CoordinatorEpoch: 3},
		{ProducerID: 1 << 60, ProducerEpoch: 1<<15 - 1, CoordinatorEpoch: -1},
	} {
		buf := AppendMarker([]byte("log"), m, 1)
		b, rest, err := Next(buf[3:])
		if err != nil || len(rest) != 0 {
			t.Fatal(err)
		}
		if got, ok, err := ParseMarker(b); err != nil || !ok || got != m {
			t.Errorf("%+v reads as %+v, %v, %v", m, got, ok, err)
		}
		var key kmsg.ControlRecordKey
		var value kmsg.EndTxnMarker
		it := Records(b, 0)
		it.Next()
		if err := key.ReadFrom(it.Record().Key); err != nil {
			t.Fatal(err)
		}
		if err := value.ReadFrom(it.Record().Value); err != nil {
			t.Fatal(err)
		}
		if (key.Type == kmsg.ControlRecordKeyTypeCommit) != m.Commit || value.CoordinatorEpoch != m.CoordinatorEpoch {
			t.Errorf("kmsg reads %+v %+v", key, value)
		}
	}
}

func TestParseMarkerOdd(t *testing.T) {
	control := func(key, value []byte) Batch {
		return mustBuild(t, Options{Control: true, Producer: &Producer{ID: 1, Sequence: -1}}, rec{key: key, value: value})
	}
	emptied := control([]byte{0, 0, 0, 0}, nil)[:HeaderSize]
	emptied.put32(atCount, 0)
	for _, c := range []struct {
		name string
		b    Batch
		ok   bool
		err  error
	}{
		{"data", mustBuild(t, Options{}, rec{}), false, ErrMalformed},
		{"leader change", control([]byte{0, 0, 0, 2}, nil), false, nil},
		{"type of the future", control([]byte{0, 0, 9, 9}, nil), false, nil},
		{"key of a later version", control([]byte{0, 1, 0, 1, 7}, make([]byte, 6)), true, nil},
		{"value of a later version", control([]byte{0, 0, 0, 1}, []byte{0, 1, 0, 0, 0, 1, 9}), true, nil},
		{"short key", control([]byte{0, 0, 0}, make([]byte, 6)), false, ErrMalformed},
		{"null key", control(nil, make([]byte, 6)), false, ErrMalformed},
		{"key version -1", control([]byte{255, 255, 0, 0}, make([]byte, 6)), false, ErrMalformed},
		{"short value", control([]byte{0, 0, 0, 0}, make([]byte, 5)), false, ErrMalformed},
		{"value version -1", control([]byte{0, 0, 0, 0}, []byte{255, 255, 0, 0, 0, 0}), false, ErrMalformed},
		{"emptied by compaction", emptied, false, nil},
	} {
		_, ok, err := ParseMarker(c.b)
		if ok != c.ok || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", c.name, ok, err)
		}
	}
	if s := ControlType(99).String() + ControlAbort.String() + ControlKRaftVoters.String(); s != "control(99)abortkraft voters" {
		t.Error(s)
	}
}
