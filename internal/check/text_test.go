package check

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyEvent has any value in every field.
func anyEvent(t *rapid.T) Event {
	e := New(Op(rapid.IntRange(1, len(opNames)-1).Draw(t, "op")))
	for i := range fields {
		label := fields[i].name
		if label == "op" || rapid.Bool().Draw(t, label+" left out") {
			continue
		}
		switch v := fields[i].at(&e).(type) {
		case *Outcome:
			*v = Outcome(rapid.IntRange(0, len(outcomeNames)-1).Draw(t, label))
		case *string:
			*v = rapid.String().Draw(t, label)
		case *int64:
			*v = rapid.Int64().Draw(t, label)
		case *int32:
			*v = rapid.Int32().Draw(t, label)
		case *uint32:
			*v = rapid.Uint32().Draw(t, label)
		case *bool:
			*v = true
		case *[]Record:
			*v = rapid.SliceOfN(rapid.Make[Record](), 1, 3).Draw(t, label)
		}
	}
	return e
}

// TestTextRoundTrip reads back what was written, which is JSON to everyone.
func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyEvent(t)
		line := Append(nil, &want)
		var any map[string]any
		if err := json.Unmarshal(line, &any); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var got Event
		if err := NewReader("f", strings.NewReader(string(line))).Next(&got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		want.Place = Place{"f", 1}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\ngot  %+v\nwant %+v", line, got, want)
		}
	})
}

func TestTextRefuses(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"op":"produce","clint":"a"}`, `unknown key "clint"`},
		{`{"op":"prodce"}`, "op: column 15: not one of"},
		{`{"client":"a"}`, `no "op"`},
		{`{"op":"read"`, `the ',' that is due`},
		{`{"op":"read"} {"op":"read"}`, "one object a line"},
		{`{"op":"read","begin":1.5}`, `the ',' that is due`},
		{`{"op":"read","begin":"1"}`, "begin: column 22: not a whole number"},
		{`{"op":"read","begin":01}`, "not a whole number"},
		{`{"op":"read","begin":9223372036854775808}`, "not a whole number of 64 bits"},
		{`{"op":"read","begin":99999999999999999999}`, "not a number of 64 bits"},
		{`{"op":"read","partition":2147483648}`, "not a whole number of 32 bits"},
		{`{"op":"read","sum":-1}`, "without a sign"},
		{`{"op":"read","client":"a`, "the end of a string"},
		{`{"op":"read","client":"\x"}`, "not a string"},
		{`{"op":"read","client":"a\`, "not a string"},
		{`{"op":"read","final":1}`, "not true or false"},
		{`{"op":"read","records":[[1]]}`, "records: column"},
		{`[]`, `the '{' that is due`},
	} {
		r := NewReader("f", strings.NewReader("\n"+`{"op":"gone","client":"a"}`+"\n"+c.line+"\n"))
		var e Event
		if err := r.Next(&e); err != nil {
			t.Fatal(err)
		}
		err := r.Next(&e)
		if err == nil || !strings.HasPrefix(err.Error(), "f:3: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want f:3 and %q", c.line, err, c.want)
		}
	}
	long := NewReader("f", io.MultiReader(strings.NewReader(`{"op":"gone","client":"`), strings.NewReader(strings.Repeat("a", maxLine))))
	if err := long.Next(new(Event)); err == nil || !strings.HasPrefix(err.Error(), "f:1: ") {
		t.Errorf("a line without end: %v", err)
	}
}

// FuzzText: nothing crashes, and what is taken is JSON and means the same again.
func FuzzText(f *testing.F) {
	f.Add(`{"op":"produce","client":"a","id":"a-1","offset":-1}`)
	f.Add(`{ "op" : "read" , "records" : [ [ 1 , "a\u00e9" ] , [2,"b",3,4] ] }`)
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\n") {
			return
		}
		e, err := New(0), error(nil)
		if err = parse([]byte(line), &e, map[string]string{}); err != nil {
			return
		}
		if !json.Valid([]byte(line)) {
			t.Fatalf("taken, and no JSON: %s", line)
		}
		again := New(0)
		text := Append(nil, &e)
		if err := parse(text[:len(text)-1], &again, map[string]string{}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(e.Records) == 0 {
			e.Records = nil
		}
		if !reflect.DeepEqual(e, again) {
			t.Fatalf("%+v\n%+v", e, again)
		}
	})
}

// texts are the files that the clients of a history would have written.
func texts(events []Event) []Source {
	files := map[string]*strings.Builder{}
	var order []string
	for i := range events {
		c := events[i].Client
		if files[c] == nil {
			files[c] = &strings.Builder{}
			order = append(order, c)
		}
		files[c].Write(Append(nil, &events[i]))
	}
	var out []Source
	for _, c := range order {
		out = append(out, NewReader(c, strings.NewReader(files[c].String())))
	}
	return out
}

// TestFiles judges histories from files as it does without: right and wrong ones.
func TestFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plant(t)
		if i := rapid.IntRange(-1, len(faults)-1).Draw(t, "fault"); i >= 0 {
			faults[i].make(p)
		}
		want := judge(t, p.es)
		got, err := Run(Options{Bound: modelBound}, Merge(texts(p.es)...))
		if err != nil {
			t.Fatal(err)
		}
		if got.Counts != want.Counts || got.OK() != want.OK() {
			t.Fatalf("from files: %v\nwithout: %v", got, want)
		}
		for _, v := range got.Violations {
			for _, place := range v.Events {
				if place.File == "" || place.Line < 1 {
					t.Fatalf("%v: no file and line", v)
				}
			}
		}
	})
}

// TestMerge has events come by their ends, and an error stop the whole.
func TestMerge(t *testing.T) {
	a := NewReader("a", strings.NewReader(`{"op":"gone","end":1}`+"\n"+`{"op":"gone","end":4}`))
	b := NewReader("b", strings.NewReader(`{"op":"gone","end":2}`+"\n"+`{"op":"gone","end":3}`+"\n"+"torn"))
	m := Merge(a, b, NewReader("empty", strings.NewReader("")))
	var e Event
	for want := range int64(3) {
		if err := m.Next(&e); err != nil || e.End != want+1 {
			t.Fatalf("got %d, %v, want %d", e.End, err, want+1)
		}
	}
	if err := m.Next(&e); err == nil || errors.Is(err, io.EOF) || !strings.HasPrefix(err.Error(), "b:3: ") {
		t.Errorf("got %v, want the torn line", err)
	}
}

// TestNoHistory names the event that makes no sense.
func TestNoHistory(t *testing.T) {
	const ok = `{"op":"produce","client":"a","end":5,"topic":"t","id":"a","offset":0}` + "\n"
	for _, c := range []struct{ line, want string }{
		{`{"op":"gone","begin":7,"end":6}`, "before that"},
		{`{"op":"gone","end":4}`, "in the order of their ends"},
		{`{"op":"produce","end":6,"topic":"t","id":"a","offset":1}`, "ids are used once"},
		{`{"op":"read","end":6,"topic":"t","from":3,"records":[[2,"a"]]}`, "a record at offset 2"},
		{`{"op":"read","end":6,"topic":"t","next":2,"records":[[2,"a"]]}`, "a record at offset 2"},
		{`{"op":"produce","end":6,"topic":"t","offset":1}`, "no id"},
		{`{"op":"end","end":6}`, "no txn"},
	} {
		_, err := Run(Options{}, NewReader("f", strings.NewReader(ok+c.line)))
		if err == nil || !strings.HasPrefix(err.Error(), "f:2: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want f:2 and %q", c.line, err, c.want)
		}
	}
	end := `{"op":"end","end":6,"txn":"x"}` + "\n"
	if _, err := Run(Options{}, NewReader("f", strings.NewReader(end+end))); err == nil || !strings.Contains(err.Error(), "ended before") {
		t.Errorf("ended twice: %v", err)
	}
	if err := NewJudge(Options{}).Add(&Event{}); err == nil || !strings.Contains(err.Error(), "event 1: no operation") {
		t.Errorf("no operation: %v", err)
	}
}
