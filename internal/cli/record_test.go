package cli

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A record that is printed as JSON and read again is the same record.
func TestRecordsAsJSON(t *testing.T) {
	for _, r := range []*kgo.Record{
		{Key: []byte("k"), Value: []byte(`a "text" <with> ü`)},
		{Key: nil, Value: nil},
		{Key: []byte{}, Value: []byte{0xff, 0, 1}},
		{Key: []byte{0xc3}, Value: []byte("null"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("x")}, {Key: "a"}, {Key: "b", Value: []byte{0x80}}}},
		{Value: []byte(`{"not": "parsed"}`)},
	} {
		r.Partition, r.Timestamp = 3, time.UnixMilli(1700000000123)
		line := formatJSON(nil, r)
		got, err := parseLine(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !reflect.DeepEqual(got, r) {
			t.Errorf("%s: %+v, want %+v", line, got, r)
		}
		if strings.Count(string(line), "\n") != 1 || strings.Contains(string(line), `\u003c`) {
			t.Errorf("%q", line)
		}
	}
}

func TestParseLine(t *testing.T) {
	r, err := parseLine([]byte(`{"key": 7, "value": {"a": [1, 2]}, "offset": 5, "topic": "other"}`))
	if err != nil || string(r.Key) != "7" || string(r.Value) != `{"a":[1,2]}` || r.Partition != -1 || !r.Timestamp.IsZero() || r.Topic != "" {
		t.Errorf("%+v, %v", r, err)
	}
	for line, want := range map[string]string{
		`{"vaule": "x"}`: "unknown field", `{}{}`: "more after", ``: "EOF", `7`: "no record in JSON",
		`{"value": "x", "valueBase64": "eA=="}`: "both", `{"keyBase64": "?"}`: "no record in JSON", `{"headers": [{"key": "h", "value": "x", "valueBase64": "eA=="}]}`: "header h",
	} {
		if _, err := parseLine([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"key":"k","valueBase64":"AA==","headers":[{"key":"h","value":null}],"timestamp":1,"partition":2}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseLine(line)
		if err != nil {
			return
		}
		if r.Timestamp.IsZero() {
			r.Timestamp = time.UnixMilli(0)
		}
		again, err := parseLine(formatJSON(nil, r))
		if err != nil || string(again.Value) != string(r.Value) || string(again.Key) != string(r.Key) || len(again.Headers) != len(r.Headers) {
			t.Errorf("%q: %+v and then %+v, %v", line, r, again, err)
		}
	})
}
