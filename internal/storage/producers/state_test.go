package producers_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/storage/producers"
)

// Expire in small steps forgets exactly who was not heard of.
func TestExpireSweeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := producers.New(time.Hour), start
		heard := map[int64]time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "appends") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "minutes")) * time.Minute)
			pid, end := rapid.Int64Range(0, 20).Draw(t, "pid"), s.End()
			u, err := s.Analyze([]producers.Batch{{ProducerID: pid, FirstOffset: end, LastOffset: end}}, producers.Options{Origin: producers.FromReplication, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			s.Apply(u)
			heard[pid] = now
			if rapid.Bool().Draw(t, "step") {
				s.Expire(now, rapid.IntRange(1, 5).Draw(t, "limit"))
			}
		}
		for range 2 { // to the end of this round, and one more
			for {
				if _, done := s.Expire(now, 3); done {
					break
				}
			}
		}
		for pid, at := range heard {
			if _, known := s.Entry(pid); known != (now.Sub(at) < time.Hour) {
				t.Fatalf("producer %d, heard of %v ago: known %t", pid, now.Sub(at), known)
			}
		}
		if n := len(s.Entries()); n != s.Len() {
			t.Fatalf("%d producers, and %d in the sweep", n, s.Len())
		}
	})
}

func TestApplyRefusesStaleUpdates(t *testing.T) {
	s := producers.New(0)
	b := []producers.Batch{{ProducerID: 1}}
	mustPanic := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Fatalf("no panic: %s", what)
			}
		}()
		f()
	}
	u, err := s.Analyze(b, producers.Options{Now: start})
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(u)
	mustPanic("applied twice", func() { s.Apply(u) })
	u, err = s.Analyze(b, producers.Options{Now: start})
	if err != nil || !u.Duplicate {
		t.Fatal(u, err)
	}
	mustPanic("a duplicate", func() { s.Apply(u) })
}

// A produce request's share: no allocation once the producer is known.
func TestAppendDoesNotAllocate(t *testing.T) {
	s := producers.New(0)
	var batches [1]producers.Batch
	next := func() {
		b := &batches[0]
		b.ProducerID, b.FirstOffset, b.LastOffset = 1, s.End(), s.End()
		b.FirstSeq, b.LastSeq = int32(s.End()), int32(s.End())
		u, err := s.Analyze(batches[:], producers.Options{Now: start})
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(u)
	}
	next()
	if n := testing.AllocsPerRun(100, next); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	s := producers.New(0)
	batches := make([]producers.Batch, 1)
	b.ReportAllocs()
	for b.Loop() {
		t := &batches[0]
		t.ProducerID, t.FirstOffset, t.LastOffset = 1, s.End(), s.End()
		t.FirstSeq, t.LastSeq = int32(s.End()), int32(s.End())
		u, err := s.Analyze(batches, producers.Options{Now: start})
		if err != nil {
			b.Fatal(err)
		}
		s.Apply(u)
	}
}
