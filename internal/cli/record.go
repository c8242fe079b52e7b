package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordLine is a record as a line of JSON: what consume -o json prints, and
// produce --input json takes. Bytes that are no UTF-8 stand in base64.
type recordLine struct {
	Topic         string          `json:"topic,omitempty"`
	Partition     *int32          `json:"partition,omitempty"`
	Offset        *int64          `json:"offset,omitempty"`
	Timestamp     *int64          `json:"timestamp,omitempty"` // milliseconds since 1970
	TimestampType string          `json:"timestampType,omitempty"`
	Key           json.RawMessage `json:"key,omitempty"`
	KeyBase64     []byte          `json:"keyBase64,omitempty"`
	Value         json.RawMessage `json:"value,omitempty"`
	ValueBase64   []byte          `json:"valueBase64,omitempty"`
	Headers       []headerLine    `json:"headers,omitempty"`
}

type headerLine struct {
	Key         string          `json:"key"`
	Value       json.RawMessage `json:"value,omitempty"`
	ValueBase64 []byte          `json:"valueBase64,omitempty"`
}

// text is bytes as JSON: null, a text, or base64.
func text(p []byte) (plain json.RawMessage, base64 []byte) {
	if p == nil {
		return json.RawMessage("null"), nil
	}
	if !utf8.Valid(p) {
		return nil, p
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(string(p)); err != nil { // a text always encodes
		return nil, p
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// bytesOf is the inverse of text; a value that is no text stands as the JSON that it is.
func bytesOf(plain json.RawMessage, base64 []byte) ([]byte, error) {
	switch {
	case base64 != nil && len(plain) > 0:
		return nil, errors.New("it is given both as text and as base64")
	case base64 != nil:
		return base64, nil
	case len(plain) == 0 || string(plain) == "null":
		return nil, nil
	case plain[0] == '"':
		var s string
		err := json.Unmarshal(plain, &s)
		return []byte(s), err
	}
	var b bytes.Buffer
	err := json.Compact(&b, plain)
	return b.Bytes(), err
}

// formatJSON writes a record as a line of JSON.
func formatJSON(dst []byte, r *kgo.Record) []byte {
	ms := r.Timestamp.UnixMilli()
	l := recordLine{Topic: r.Topic, Partition: &r.Partition, Offset: &r.Offset, Timestamp: &ms, TimestampType: "CreateTime"}
	if r.Attrs.TimestampType() == 1 {
		l.TimestampType = "LogAppendTime"
	}
	l.Key, l.KeyBase64 = text(r.Key)
	l.Value, l.ValueBase64 = text(r.Value)
	for _, h := range r.Headers {
		line := headerLine{Key: h.Key}
		line.Value, line.ValueBase64 = text(h.Value)
		l.Headers = append(l.Headers, line)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil { // nothing in it can fail
		return append(dst, err.Error()...)
	}
	return append(dst, b.Bytes()...)
}

// parseLine turns a line of JSON into a record without topic and offset.
func parseLine(line []byte) (*kgo.Record, error) {
	var l recordLine
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("it is no record in JSON: %w", err)
	}
	if d.More() {
		return nil, errors.New("it is no record in JSON: there is more after the object")
	}
	r := &kgo.Record{Partition: -1}
	var err error
	if r.Key, err = bytesOf(l.Key, l.KeyBase64); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if r.Value, err = bytesOf(l.Value, l.ValueBase64); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	for _, h := range l.Headers {
		v, err := bytesOf(h.Value, h.ValueBase64)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", h.Key, err)
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: v})
	}
	if l.Partition != nil {
		r.Partition = *l.Partition
	}
	if l.Timestamp != nil {
		r.Timestamp = time.UnixMilli(*l.Timestamp)
	}
	return r, nil
}
