package check

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
)

// load is a correct history of n events: producers, readers behind them and
// commits on 16 partitions, then the final reading.
type load struct {
	n, made   int
	now       int64
	ends      [16]int64
	read      [16]int64
	committed [16]int64 // and one more
}

func (l *load) Next(e *Event) error {
	records := e.Records[:0]
	l.now++
	part := int32(l.made % 16)
	high := l.ends[part]
	switch {
	case l.made >= l.n+16:
		return io.EOF
	case l.made >= l.n:
		*e = New(Read)
		e.Final, e.Done, e.From, e.Next, e.High = true, true, 0, high, high
		for o := range high {
			records = append(records, Record{o, l.id(part, o), 7, 1})
		}
	case l.made/16%32 == 31:
		*e = New(Commit)
		e.Group, e.Offset = "g", l.read[part]
		l.committed[part] = l.read[part] + 1
	case l.made/16%32 == 30:
		*e = New(Fetch)
		e.Group, e.Offset = "g", l.committed[part]-1
	case l.made/16%32 == 29:
		*e = New(Read)
		e.From, e.Next, e.High = l.read[part], high, high
		for o := l.read[part]; o < high; o++ {
			records = append(records, Record{o, l.id(part, o), 7, 1})
		}
		l.read[part] = high
	default:
		*e = New(Produce)
		e.Producer, e.Idempotent, e.Acks, e.Seq = "producer", true, AcksAll, int64(l.made)
		e.ID, e.Sum, e.Offset = l.id(part, high), 7, high
		l.ends[part]++
	}
	e.Client, e.Observer, e.Topic, e.Partition, e.Records = "client", "host", "topic", part, records
	e.Begin, e.End = l.now-1, l.now
	l.made++
	return nil
}

func (l *load) id(part int32, offset int64) string {
	return fmt.Sprintf("producer-%d-%d", part, offset)
}

// BenchmarkJudge judges a million events; and with the text form, as from a file.
func BenchmarkJudge(b *testing.B) {
	const events = 1_000_000
	var text []byte
	var e Event
	for l := (&load{n: events}); l.Next(&e) == nil; {
		text = Append(text, &e)
	}
	b.Run("events", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(float64(heldBy(b, &load{n: events}))/events, "held-B/event")
		}
	})
	b.Run("text", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			r, err := Run(Options{Bound: 10}, NewReader("f", bytes.NewReader(text)))
			if err != nil || !r.OK() {
				b.Fatal(r, err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			r := NewReader("f", bytes.NewReader(text))
			for r.Next(&e) == nil {
			}
		}
	})
}

// heldBy is the memory that a judge has at the end.
func heldBy(b *testing.B, s Source) uint64 {
	before := heapHeld()
	j := NewJudge(Options{Bound: 10})
	var e Event
	for s.Next(&e) == nil {
		if err := j.Add(&e); err != nil {
			b.Fatal(err)
		}
	}
	e = Event{}
	r := j.Finish()
	if !r.OK() {
		b.Fatal(r)
	}
	b.StopTimer()
	defer b.StartTimer()
	held := heapHeld() - before
	runtime.KeepAlive(j)
	return held
}

func heapHeld() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
