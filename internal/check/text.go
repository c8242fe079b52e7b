package check

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// A field is a key of the text form and where an event keeps its value.
type field struct {
	name string
	at   func(*Event) any
}

// fields in the order in which they are written.
var fields = []field{
	{"op", func(e *Event) any { return &e.Op }},
	{"client", func(e *Event) any { return &e.Client }},
	{"observer", func(e *Event) any { return &e.Observer }},
	{"begin", func(e *Event) any { return &e.Begin }},
	{"end", func(e *Event) any { return &e.End }},
	{"out", func(e *Event) any { return &e.Out }},
	{"topic", func(e *Event) any { return &e.Topic }},
	{"partition", func(e *Event) any { return &e.Partition }},
	{"offset", func(e *Event) any { return &e.Offset }},
	{"txn", func(e *Event) any { return &e.Txn }},
	{"producer", func(e *Event) any { return &e.Producer }},
	{"idempotent", func(e *Event) any { return &e.Idempotent }},
	{"acks", func(e *Event) any { return &e.Acks }},
	{"seq", func(e *Event) any { return &e.Seq }},
	{"id", func(e *Event) any { return &e.ID }},
	{"sum", func(e *Event) any { return &e.Sum }},
	{"attempts", func(e *Event) any { return &e.Attempts }},
	{"inflight", func(e *Event) any { return &e.InFlight }},
	{"committed", func(e *Event) any { return &e.Committed }},
	{"from", func(e *Event) any { return &e.From }},
	{"next", func(e *Event) any { return &e.Next }},
	{"high", func(e *Event) any { return &e.High }},
	{"stable", func(e *Event) any { return &e.Stable }},
	{"start", func(e *Event) any { return &e.Start }},
	{"follower", func(e *Event) any { return &e.Follower }},
	{"final", func(e *Event) any { return &e.Final }},
	{"done", func(e *Event) any { return &e.Done }},
	{"records", func(e *Event) any { return &e.Records }},
	{"group", func(e *Event) any { return &e.Group }},
	{"commit", func(e *Event) any { return &e.IsCommit }},
	{"retention", func(e *Event) any { return &e.Retention }},
	{"compacted", func(e *Event) any { return &e.Compacted }},
}

var (
	byName = index()
	blank  = New(0)
)

func index() map[string]*field {
	m := map[string]*field{}
	for i := range fields {
		m[fields[i].name] = &fields[i]
	}
	return m
}

// Append writes the event as one line of the text form.
func Append(b []byte, e *Event) []byte {
	start := len(b)
	for i := range fields {
		b = appendField(b, &fields[i], e)
	}
	b[start] = '{' // in place of the first comma
	return append(b, "}\n"...)
}

func appendField(b []byte, f *field, e *Event) []byte {
	v, none := f.at(e), f.at(&blank)
	key := func() { b = append(append(append(b, `,"`...), f.name...), `":`...) }
	number := func(n, none int64) {
		if n != none {
			key()
			b = strconv.AppendInt(b, n, 10)
		}
	}
	switch v := v.(type) {
	case *Op:
		key()
		b = appendString(b, v.String())
	case *Outcome:
		if *v != OK {
			key()
			b = appendString(b, v.String())
		}
	case *string:
		if *v != "" {
			key()
			b = appendString(b, *v)
		}
	case *int64:
		number(*v, *none.(*int64))
	case *int32:
		number(int64(*v), 0)
	case *uint32:
		number(int64(*v), 0)
	case *bool:
		if *v {
			key()
			b = append(b, "true"...)
		}
	case *[]Record:
		if len(*v) > 0 {
			key()
			b = appendRecords(b, *v)
		}
	}
	return b
}

func appendRecords(b []byte, records []Record) []byte {
	for i, r := range records {
		b = append(b, "[,"[min(i, 1)], '[')
		b = strconv.AppendInt(b, r.Offset, 10)
		b = appendString(append(b, ','), r.ID)
		b = strconv.AppendUint(append(b, ','), uint64(r.Sum), 10)
		b = append(strconv.AppendInt(append(b, ','), int64(r.Epoch), 10), ']')
	}
	return append(b, ']')
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			q, _ := json.Marshal(s) // a string never fails
			return append(b, q...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// maxLine bounds a line: a reader that saw more at once writes several.
const maxLine = 16 << 20

// A Reader reads the text form of one file.
type Reader struct {
	scan  *bufio.Scanner
	place Place
	known map[string]string
}

// NewReader reads from r, which has the name that errors and verdicts call it by.
func NewReader(name string, r io.Reader) *Reader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLine)
	return &Reader{scan: s, place: Place{File: name}, known: map[string]string{}}
}

// Next reads the next event into e, whose records it uses again, and is io.EOF
// at the end. A last line without its newline that is cut short, as kill -9
// leaves it, is an error as any other.
func (r *Reader) Next(e *Event) error {
	for r.scan.Scan() {
		r.place.Line++
		line := r.scan.Bytes()
		if len(line) == 0 {
			continue
		}
		records := e.Records[:0]
		*e = New(0)
		e.Records, e.Place = records, r.place
		if err := parse(line, e, r.known); err != nil {
			return fmt.Errorf("%v: %w", r.place, err)
		}
		if len(r.known) > maxKnown {
			clear(r.known)
		}
		return nil
	}
	if err := r.scan.Err(); err != nil {
		return fmt.Errorf("%v: %w", Place{r.place.File, r.place.Line + 1}, err)
	}
	return io.EOF
}

// maxKnown bounds the words that a reader keeps one copy of.
const maxKnown = 10_000

var errNoOp = errors.New(`no "op"`)

// parse reads one object of the text form.
func parse(line []byte, e *Event, known map[string]string) error {
	s := scanner{b: line, known: known}
	s.expect('{')
	for first := true; s.err == nil && !s.found('}'); first = false {
		if !first {
			s.expect(',')
		}
		key := s.raw()
		s.expect(':')
		if s.err != nil {
			break
		}
		f, ok := byName[string(key)]
		if !ok {
			return fmt.Errorf("unknown key %q", key)
		}
		if s.value(f, e); s.err != nil {
			return fmt.Errorf("%s: %w", f.name, s.err)
		}
	}
	s.space()
	switch {
	case s.err != nil:
		return s.err
	case s.i != len(line):
		return s.wrong("one object a line")
	case e.Op == 0:
		return errNoOp
	}
	return nil
}

// value reads what the field holds.
func (s *scanner) value(f *field, e *Event) {
	switch v := f.at(e).(type) {
	case *Op:
		*v = Op(s.word(opNames))
	case *Outcome:
		*v = Outcome(s.word(outcomeNames))
	case *string:
		if f.name == "id" {
			*v = string(s.raw())
		} else {
			*v = s.text()
		}
	case *int64:
		*v = s.number(64)
	case *int32:
		*v = int32(s.number(32))
	case *uint32:
		*v = s.sum()
	case *bool:
		*v = s.bool()
	case *[]Record:
		s.records(v)
	}
}

func (s *scanner) records(out *[]Record) {
	*out = (*out)[:0]
	s.expect('[')
	for first := true; s.err == nil && !s.found(']'); first = false {
		if !first {
			s.expect(',')
		}
		r := Record{Epoch: kafka.NoEpoch}
		s.expect('[')
		r.Offset = s.number(64)
		s.expect(',')
		r.ID = string(s.raw())
		if s.found(',') {
			r.Sum = s.sum()
		}
		if s.found(',') {
			r.Epoch = kafka.LeaderEpoch(s.number(32))
		}
		s.expect(']')
		*out = append(*out, r)
	}
}
