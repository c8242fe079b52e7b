package check

import (
	"slices"
	"strings"
	"testing"
)

// verdicts says by short lines what happened: each line is the inside of an object,
// in partition 0 of t, by the observer o, at [begin end].
func verdicts(t *testing.T, o Options, lines string) []Kind {
	t.Helper()
	r, err := Run(o, NewReader("script", strings.NewReader(script(lines))))
	if err != nil {
		t.Fatal(err)
	}
	var out []Kind
	for k, n := range r.Number {
		if n > 0 {
			out = append(out, Kind(k))
		}
	}
	return out
}

func script(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		op, rest, _ := strings.Cut(line, " ")
		times, rest, _ := strings.Cut(rest, " ")
		begin, end, _ := strings.Cut(times, "-")
		b.WriteString(`{"op":"` + op + `","begin":` + begin + `,"end":` + end + `,"topic":"t",` + rest + "}\n")
	}
	return b.String()
}

const once = `"producer":"p","idempotent":true,"acks":-1`

// TestRight are histories that look wrong and are right, and beside each how
// little is missing to make it wrong.
func TestRight(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     Options
		lines string
		wrong []Kind
	}{
		{"a maybe that appears late", Options{}, `
			produce 1-2 "id":"a","seq":1,"out":"maybe",` + once + `
			read 3-4 "from":0,"next":0,"high":0
			produce 3-5 "id":"b","seq":2,"offset":0,` + once + `
			read 6-7 "final":true,"done":true,"from":0,"records":[[0,"b"],[1,"a"]]`, nil},
		{"but not an acknowledged one", Options{}, `
			produce 1-2 "id":"a","seq":1,"offset":1,` + once + `
			produce 3-5 "id":"b","seq":2,"offset":0,` + once + `
			read 6-7 "final":true,"done":true,"from":0,"records":[[0,"b"],[1,"a"]]`, []Kind{Reordered}},
		{"more requests in flight than keep the order", Options{}, `
			produce 1-5 "id":"a","seq":1,"offset":1,"inflight":6,` + once + `
			produce 3-5 "id":"b","seq":2,"offset":0,"inflight":6,` + once + `
			read 6-7 "final":true,"done":true,"from":0,"records":[[0,"b"],[1,"a"]]`, nil},
		{"acknowledged, nobody knows where", Options{}, `
			produce 1-5 "id":"a","seq":1,"offset":-1,` + once + `
			produce 3-5 "id":"b","seq":2,"offset":1,` + once + `
			read 6-7 "final":true,"done":true,"from":0,"records":[[0,"a"],[1,"b"]]`, nil},
		{"but not behind what was sent later", Options{}, `
			produce 1-5 "id":"a","seq":1,"offset":-1,` + once + `
			produce 3-5 "id":"b","seq":2,"offset":0,` + once + `
			read 6-7 "final":true,"done":true,"from":0,"records":[[0,"b"],[1,"a"]]`, []Kind{Reordered}},
		{"and not nowhere", Options{}, `
			produce 1-5 "id":"a","seq":1,"offset":-1,` + once + `
			read 6-7 "final":true,"done":true,"from":0,"next":0`, []Kind{Lost}},
		{"a maybe that never appears", Options{}, `
			produce 1-2 "id":"a","seq":1,"out":"maybe",` + once + `
			read 6-7 "final":true,"done":true,"from":0,"next":0`, nil},
		{"a second copy by a producer that may write twice", Options{}, `
			produce 1-2 "id":"a","out":"maybe","acks":-1,"attempts":2
			read 6-7 "final":true,"done":true,"from":0,"records":[[0,"a"],[1,"a"]]`, nil},
		{"and by one that may not", Options{}, `
			produce 1-2 "id":"a","out":"maybe","acks":-1,"attempts":1
			read 6-7 "final":true,"done":true,"from":0,"records":[[0,"a"],[1,"a"]]`, []Kind{Duplicated}},
		{"acknowledged by the leader alone, and lost with it", Options{}, `
			produce 1-2 "id":"a","offset":0,"acks":1
			produce 3-4 "id":"b","offset":0,"acks":-1
			read 6-7 "final":true,"done":true,"from":0,"records":[[0,"b"]]`, nil},
		{"but not once a reader saw it", Options{}, `
			produce 1-2 "id":"a","offset":0,"acks":1
			read 3-4 "from":0,"records":[[0,"a"]]
			read 6-7 "final":true,"done":true,"from":0,"next":1`, []Kind{Vanished}},
		{"nor above its mark", Options{}, `
			produce 1-2 "id":"a","offset":0,"acks":1
			read 3-4 "from":0,"high":0,"records":[[0,"a"]]`, []Kind{AboveMark}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := verdicts(t, c.o, c.lines); !slices.Equal(got, c.wrong) {
				t.Errorf("got %v, want %v", got, c.wrong)
			}
		})
	}
}

// TestRightLater are those of records that may be gone, of marks, and of
// operations that take long.
func TestRightLater(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     Options
		lines string
		wrong []Kind
	}{
		{"deleted records", Options{}, `
			produce 1-2 "id":"a","offset":0,"acks":-1
			produce 1-3 "id":"b","offset":1,"acks":-1
			read 3-4 "from":0,"records":[[0,"a"],[1,"b"]]
			delete 5-6 "offset":1,"out":"maybe"
			read 6-7 "final":true,"done":true,"from":1,"start":1,"records":[[1,"b"]]`, nil},
		{"more is gone than was deleted", Options{}, `
			produce 1-2 "id":"a","offset":0,"acks":-1
			produce 1-3 "id":"b","offset":1,"acks":-1
			delete 5-6 "offset":1
			read 6-7 "final":true,"done":true,"from":2,"next":2,"start":2`, []Kind{Lost}},
		{"a deletion that was refused", Options{}, `
			produce 1-2 "id":"a","offset":0,"acks":-1
			delete 5-6 "offset":1,"out":"failed"
			read 6-7 "final":true,"done":true,"from":1,"next":1`, []Kind{Lost}},
		{"a deletion up to a mark that nobody was told", Options{}, `
			produce 1-2 "id":"a","offset":0,"acks":-1
			delete 5-6 "out":"maybe"
			read 6-7 "final":true,"done":true,"from":1,"next":1`, nil},
		{"a deletion under way while another reads", Options{}, `
			produce 1-2 "id":"a","offset":0,"acks":-1
			produce 1-2 "id":"b","offset":1,"acks":-1
			read 4-6 "from":0,"next":2,"start":1,"records":[[1,"b"]]
			read 3-7 "from":0,"records":[[0,"a"],[1,"b"]]
			delete 5-8 "offset":1,"start":1
			read 9-10 "final":true,"done":true,"from":1,"records":[[1,"b"]]`, nil},
		{"retention", Options{}, `
			topic 1-1 "retention":true
			produce 1-2 "id":"a","offset":0,"acks":-1
			produce 1-3 "id":"b","offset":1,"acks":-1
			read 6-7 "final":true,"done":true,"from":1,"start":1,"records":[[1,"b"]]`, nil},
		{"retention does not take from the middle", Options{}, `
			topic 1-1 "retention":true
			produce 1-2 "id":"a","offset":0,"acks":-1
			produce 1-3 "id":"b","offset":1,"acks":-1
			read 6-7 "final":true,"done":true,"from":0,"next":2,"start":0,"records":[[1,"b"]]`, []Kind{Lost}},
		{"compaction", Options{}, `
			topic 1-1 "compacted":true
			produce 1-2 "id":"a","offset":0,"acks":-1
			produce 1-3 "id":"b","offset":1,"acks":-1
			read 3-4 "from":0,"records":[[0,"a"],[1,"b"]]
			read 6-7 "final":true,"done":true,"from":0,"records":[[1,"b"]]`, nil},
		{"marks of answers that overlap", Options{}, `
			read 1-4 "from":0,"next":0,"high":9
			read 3-5 "from":0,"next":0,"high":5`, nil},
		{"a mark of another observer", Options{}, `
			read 1-4 "observer":"x","from":0,"next":0,"high":9
			read 5-6 "observer":"y","from":0,"next":0,"high":5`, nil},
		{"a follower that is behind", Options{}, `
			read 1-4 "from":0,"next":0,"high":9,"start":3
			read 5-6 "from":0,"next":0,"high":5,"start":0,"follower":true`, nil},
		{"and a leader behind a follower", Options{}, `
			read 1-4 "from":0,"next":0,"high":9,"follower":true
			read 5-6 "from":0,"next":0,"high":5`, []Kind{MarkBack}},
		{"a stale leader, where it may be", Options{Stale: true}, `
			read 1-4 "client":"x","from":0,"next":0,"high":9
			read 5-6 "client":"y","from":0,"next":0,"high":5`, nil},
		{"but not for one client", Options{Stale: true}, `
			read 1-4 "client":"x","from":0,"next":0,"high":9
			read 5-6 "client":"x","from":0,"next":0,"high":5`, []Kind{MarkBack}},
		{"the end of the log below what was told", Options{}, `
			read 1-4 "from":0,"next":0,"high":9
			read 5-6 "final":true,"done":true,"from":0,"next":5`, []Kind{MarkBack}},
		{"an operation written when it began and when it returned", Options{Bound: 5}, `
			produce 1-1 "client":"c","id":"a","out":"open","acks":-1
			produce 1-4 "client":"c","id":"a","offset":0,"acks":-1
			produce 4-4 "client":"c","id":"b","out":"open","acks":-1
			gone 9-9 "client":"c"
			read 60-70 "final":true,"done":true,"from":0,"records":[[0,"a"],[1,"b"]]`, nil},
		{"and one that never returned", Options{Bound: 5}, `
			produce 4-4 "client":"c","id":"b","out":"open","acks":-1
			read 60-70 "final":true,"done":true,"from":0,"records":[[0,"b"]]`, []Kind{Hang}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := verdicts(t, c.o, c.lines); !slices.Equal(got, c.wrong) {
				t.Errorf("got %v, want %v", got, c.wrong)
			}
		})
	}
}

// TestRightOffsets are those of groups and of transactions.
func TestRightOffsets(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     Options
		lines string
		wrong []Kind
	}{
		{"a fetch beside a commit", Options{}, `
			commit 1-2 "group":"g","offset":5
			fetch 3-5 "group":"g","offset":7
			fetch 3-5 "group":"g","offset":5
			commit 4-6 "group":"g","offset":7
			fetch 5-6 "group":"g","offset":5`, nil},
		{"a fetch after it", Options{}, `
			commit 1-2 "group":"g","offset":5
			commit 3-4 "group":"g","offset":7
			fetch 5-6 "group":"g","offset":5`, []Kind{CommittedBack}},
		{"a fetch before it", Options{}, `
			fetch 3-5 "group":"g","offset":7
			commit 6-7 "group":"g","offset":7`, []Kind{CommittedBack}},
		{"commits side by side", Options{}, `
			commit 1-4 "group":"g","offset":7
			commit 3-5 "group":"g","offset":5
			fetch 6-7 "group":"g","offset":7`, nil},
		{"a maybe that comes late", Options{}, `
			commit 1-2 "group":"g","offset":5,"out":"maybe"
			commit 3-4 "group":"g","offset":7
			fetch 5-6 "group":"g","offset":7
			fetch 7-8 "group":"g","offset":5`, nil},
		{"one that certainly failed", Options{}, `
			commit 1-2 "group":"g","offset":5,"out":"failed"
			fetch 7-8 "group":"g","offset":5`, []Kind{CommittedBack}},
		{"a deleted offset", Options{}, `
			commit 1-2 "group":"g","offset":5
			commit 3-4 "group":"g","offset":-1
			fetch 7-8 "group":"g","offset":-1`, nil},
		{"a stale coordinator, where it may be", Options{Stale: true}, `
			commit 1-2 "group":"g","offset":5
			commit 3-4 "group":"g","offset":7
			fetch 5-6 "group":"g","offset":5
			fetch 7-8 "group":"g","offset":7,"final":true`, nil},
		{"but not in the end", Options{Stale: true}, `
			commit 1-2 "group":"g","offset":5
			commit 3-4 "group":"g","offset":7
			fetch 7-8 "group":"g","offset":5,"final":true`, []Kind{CommittedBack}},
		{"a transaction that was never ended is aborted", Options{}, `
			begin 1-2 "txn":"x"
			produce 3-4 "id":"a","txn":"x","offset":0,"acks":-1
			commit 5-6 "txn":"x","group":"g","offset":5
			end 7-8 "txn":"x","commit":true,"out":"maybe"
			read 10-11 "final":true,"done":true,"from":0,"next":2,"records":[[0,"a"]]
			read 10-11 "final":true,"done":true,"committed":true,"from":0,"next":2
			fetch 12-13 "group":"g","offset":-1,"final":true`, nil},
		{"or committed", Options{}, `
			begin 1-2 "txn":"x"
			produce 3-4 "id":"a","txn":"x","offset":0,"acks":-1
			commit 5-6 "txn":"x","group":"g","offset":5
			end 7-8 "txn":"x","commit":true,"out":"open"
			read 10-11 "final":true,"done":true,"from":0,"next":2,"records":[[0,"a"]]
			read 10-11 "final":true,"done":true,"committed":true,"from":0,"next":2,"records":[[0,"a"]]
			fetch 12-13 "group":"g","offset":5,"final":true`, nil},
		{"but its offsets go with its records", Options{}, `
			begin 1-2 "txn":"x"
			produce 3-4 "id":"a","txn":"x","offset":0,"acks":-1
			commit 5-6 "txn":"x","group":"g","offset":5
			read 10-11 "final":true,"done":true,"from":0,"next":2,"records":[[0,"a"]]
			read 10-11 "final":true,"done":true,"committed":true,"from":0,"next":2,"records":[[0,"a"]]
			fetch 12-13 "group":"g","offset":-1,"final":true`, []Kind{TornOffsets}},
		{"unless someone committed after it", Options{}, `
			begin 1-2 "txn":"x"
			produce 3-4 "id":"a","txn":"x","offset":0,"acks":-1
			commit 5-6 "txn":"x","group":"g","offset":5
			commit 7-8 "group":"g","offset":3
			read 10-11 "final":true,"done":true,"from":0,"next":2,"records":[[0,"a"]]
			read 10-11 "final":true,"done":true,"committed":true,"from":0,"next":2,"records":[[0,"a"]]
			fetch 12-13 "group":"g","offset":3,"final":true`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := verdicts(t, c.o, c.lines); !slices.Equal(got, c.wrong) {
				t.Errorf("got %v, want %v", got, c.wrong)
			}
		})
	}
}

// TestLongHistory has the windows slide: what is out of them is not judged, and
// what is in them is.
func TestLongHistory(t *testing.T) {
	const n = 3 * maxSteps
	j := NewJudge(Options{})
	add := func(op Op, begin, end int64, set func(*Event)) {
		e := New(op)
		e.Client, e.Topic, e.Group, e.Begin, e.End = "c", "t", "g", begin, end
		set(&e)
		if err := j.Add(&e); err != nil {
			t.Fatal(err)
		}
	}
	for i := int64(1); i <= n; i++ {
		add(Read, 2*i, 2*i+1, func(e *Event) { e.High = i })
		add(Commit, 2*i, 2*i+1, func(e *Event) { e.Offset = i })
	}
	end := int64(2*n + 1)
	add(Read, 10, end, func(e *Event) { e.High = 5 }) // began long ago
	add(Fetch, 10, end, func(e *Event) { e.Offset = 5 })
	if v := j.partList[0].marks.of(j.word("")); len(v.steps) > maxSteps {
		t.Errorf("%d steps are kept", len(v.steps))
	}
	if r := j.Finish(); !r.OK() {
		t.Fatalf("%v", r)
	}
	add(Read, end+1, end+2, func(e *Event) { e.High = n - 1 })
	add(Read, end-9, end+2, func(e *Event) { e.High = n - 9 })
	add(Fetch, end+1, end+2, func(e *Event) { e.Offset = n - 1 })
	r := j.Finish()
	if r.Number[MarkBack] != 2 || r.Number[CommittedBack] != 1 {
		t.Fatalf("%v", r)
	}
	if s := r.String(); !strings.Contains(s, "2 mark gone back\n") || !strings.Contains(s, "(event ") || len(r.Violations) != 3 {
		t.Errorf("%s", s)
	}
}
