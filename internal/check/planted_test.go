package check

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A planter breaks a correct history in one way.
type planter struct {
	*rapid.T
	w  *world
	es []Event
}

func plant(t *rapid.T) *planter {
	p := &planter{T: t, w: history(t)}
	for _, e := range p.w.events {
		e.Records = slices.Clone(e.Records)
		p.es = append(p.es, e)
	}
	return p
}

// one draws one of the events that fit. The coda sees to it that there is one.
func (p *planter) one(label string, fits func(*Event) bool) *Event {
	p.Helper()
	var fit []int
	for i := range p.es {
		if fits(&p.es[i]) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		p.Fatalf("no event for %s", label)
	}
	return &p.es[rapid.SampledFrom(fit).Draw(p.T, label)]
}

// deletedTo is below where nothing is demanded.
func (p *planter) deletedTo(e *Event) int64 {
	to := int64(0)
	for i := range p.es {
		if d := &p.es[i]; d.Op == Delete && d.Partition == e.Partition {
			to = max(to, d.Offset)
		}
	}
	return to
}

// txnDone tells how a transaction ended in truth.
func (p *planter) txnCommitted(id string) bool {
	i := slices.IndexFunc(p.w.txns, func(t *modelTxn) bool { return t.id == id })
	return p.w.txns[i].commit
}

// endTold is what the client of a transaction knows of its end.
func (p *planter) endTold(id string) (commit, told bool) {
	for i := range p.es {
		if e := &p.es[i]; e.Op == End && e.Txn == id {
			return e.IsCommit, e.Out == OK
		}
	}
	return false, false
}

// kept are records that must be there.
func (p *planter) kept(e *Event) bool {
	return e.Op == Produce && e.Out == OK && e.Acks == AcksAll && e.Offset >= p.deletedTo(e)
}

func (p *planter) plain(e *Event) bool { return p.kept(e) && e.Txn == "" }

// without takes the records that fit out of the readings that fit.
func (p *planter) without(reading func(*Event) bool, record func(*Event, Record) bool) int {
	n := 0
	for i := range p.es {
		e := &p.es[i]
		if e.Op != Read || !reading(e) {
			continue
		}
		before := len(e.Records)
		e.Records = slices.DeleteFunc(e.Records, func(r Record) bool { return record(e, r) })
		n += before - len(e.Records)
	}
	return n
}

func isFinal(e *Event) bool       { return e.Final }
func isStableFinal(e *Event) bool { return e.Final && e.Committed }
func everyReading(*Event) bool    { return true }

func idIs(id string) func(*Event, Record) bool {
	return func(_ *Event, r Record) bool { return r.ID == id }
}

// swap puts two records of a partition in each other's place, for every reader.
func (p *planter) swap(a, b *Event) {
	for i := range p.es {
		for k := range p.es[i].Records {
			switch r := &p.es[i].Records[k]; r.ID {
			case a.ID:
				r.ID, r.Sum = b.ID, b.Sum
			case b.ID:
				r.ID, r.Sum = a.ID, a.Sum
			}
		}
	}
	a.Offset, b.Offset = b.Offset, a.Offset
}

// lastFinal is the last event of a final reading.
func (p *planter) lastFinal(committed bool) *Event {
	return p.one("final reading", func(e *Event) bool { return e.Final && e.Done && e.Committed == committed })
}

// put lets a reading see a record at an offset between its positions.
func put(e *Event, r Record) {
	i, _ := slices.BinarySearchFunc(e.Records, r.Offset, func(a Record, at int64) int { return int(a.Offset - at) })
	e.Records = slices.Insert(e.Records, i, r)
}

// grow makes a final reading one record longer.
func grow(e *Event, id string, sum uint32) {
	e.Records = append(e.Records, Record{e.Next, id, sum, -1})
	e.Next++
	e.High++
	e.Stable++
}

// faults breaks a history in every way that the kinds name, several for some.
var faults = []struct {
	name string
	kind Kind
	make func(*planter)
}{
	{"an acknowledged record is missing at the end", Lost, func(p *planter) {
		p.without(isFinal, idIs(p.one("record", p.plain).ID))
	}},
	{"the log ends too early", Lost, func(p *planter) {
		e := p.one("record", p.plain)
		p.without(func(r *Event) bool { return r.Final && r.Partition == e.Partition }, func(_ *Event, r Record) bool { return r.Offset >= e.Offset })
	}},
	{"a record is lost and nobody was told where it was", Lost, func(p *planter) {
		e := p.one("record", p.plain)
		e.Offset = -1
		p.without(everyReading, idIs(e.ID))
		p.es = slices.DeleteFunc(p.es, func(e Event) bool { return e.Op == Delete })
	}},
	{"an idempotent record is there twice", Duplicated, func(p *planter) {
		f := p.lastFinal(false)
		e := p.one("record", func(e *Event) bool { return p.plain(e) && e.Idempotent && e.Partition == f.Partition })
		grow(f, e.ID, e.Sum)
	}},
	{"more copies than attempts", Duplicated, func(p *planter) {
		f := p.lastFinal(false)
		e := p.one("record", func(e *Event) bool { return p.plain(e) && e.Attempts > 0 && e.Partition == f.Partition })
		for range e.Attempts {
			grow(f, e.ID, e.Sum)
		}
	}},
	{"a producer's records in the wrong order", Reordered, func(p *planter) {
		b := p.one("second", func(e *Event) bool { return p.plain(e) && e.Producer == "coda" && e.Seq > 2 })
		a := p.one("first", func(e *Event) bool {
			return p.plain(e) && e.Producer == "coda" && e.Seq < b.Seq && e.Partition == b.Partition
		})
		p.swap(a, b)
	}},
	{"acknowledged before another was sent, and behind it", Reordered, func(p *planter) {
		b := p.one("second", func(e *Event) bool { return p.plain(e) && e.Producer == "coda-often" && e.Seq > 2 })
		a := p.one("first", func(e *Event) bool { return p.plain(e) && e.End < b.Begin && e.Partition == b.Partition })
		p.swap(a, b)
	}},
	{"a reader gets offsets out of order", Reordered, func(p *planter) {
		e := p.one("reading", func(e *Event) bool { return e.Op == Read && len(e.Records) > 1 })
		e.Records[0], e.Records[1] = e.Records[1], e.Records[0]
	}},
	{"other content", Changed, func(p *planter) {
		e := p.one("reading", func(e *Event) bool { return e.Op == Read && len(e.Records) > 0 })
		e.Records[0].Sum++
	}},
	{"two readers see different records", Changed, func(p *planter) {
		e := p.one("reading", func(e *Event) bool { return e.Op == Read && e.Client == "coda-reader" && len(e.Records) > 0 })
		e.Records[p.w.pick(len(e.Records), "record")].ID = "another"
	}},
	{"another leader epoch", Changed, func(p *planter) {
		e := p.one("reading", func(e *Event) bool { return e.Op == Read && e.Client == "coda-reader" && len(e.Records) > 0 })
		e.Records[p.w.pick(len(e.Records), "record")].Epoch++
	}},
	{"a record comes up where none was", Changed, func(p *planter) {
		f := p.one("reading", func(e *Event) bool { return e.Op == Read && e.Client == "coda-reader" && e.hasPlain(p) })
		r := f.Records[slices.IndexFunc(f.Records, func(r Record) bool { return p.plainID(r.ID) })]
		last := 0 // the last of those who saw it, to whom it comes up
		for i := range p.es {
			if slices.ContainsFunc(p.es[i].Records, func(x Record) bool { return x.ID == r.ID }) {
				last = i
			}
		}
		p.without(func(e *Event) bool { return e != &p.es[last] }, idIs(r.ID))
	}},
	{"never sent", Phantom, func(p *planter) {
		e := p.one("reading", func(e *Event) bool { return e.Op == Read && e.Final && len(e.Records) > 0 })
		id := e.Records[p.w.pick(len(e.Records), "record")].ID
		p.es = slices.DeleteFunc(p.es, func(e Event) bool { return e.Op == Produce && e.ID == id })
	}},
	{"certainly failed", Phantom, func(p *planter) { p.one("record", p.plain).Out = Failed }},
	{"sent to another partition", Phantom, func(p *planter) { p.one("record", p.plain).Partition ^= 1 }},
	{"acknowledged where another record is", OffsetWrong, func(p *planter) {
		b := p.one("second", p.plain)
		a := p.one("first", func(e *Event) bool { return p.plain(e) && e.ID != b.ID && e.Partition == b.Partition })
		a.Offset = b.Offset
	}},
	{"acknowledged where nothing is", OffsetWrong, func(p *planter) { p.one("record", p.plain).Offset += 1000 }},
	{"a high watermark below an acknowledgement", MarkBack, func(p *planter) {
		e := p.one("reading", func(e *Event) bool { return e.Op == Read && e.Client == "coda-reader" })
		e.High = int64(p.w.pick(int(p.acknowledged(e)), "mark"))
	}},
	{"a high watermark below one that another reader was told", MarkBack, func(p *planter) {
		e := *p.one("reading", func(e *Event) bool { return e.Final && e.High > 0 })
		was := New(Read)
		was.Client, was.Observer, was.Topic, was.Partition = "other", "sim", e.Topic, e.Partition
		was.Begin, was.End, was.High = e.Begin-1, e.Begin-1, e.High+1
		i := slices.IndexFunc(p.es, func(x Event) bool { return x.Begin == e.Begin && x.Client == e.Client })
		p.es = slices.Insert(p.es, i, was)
	}},
	{"a log start that goes back", MarkBack, func(p *planter) {
		d := New(Delete)
		d.Client, d.Observer, d.Topic, d.Offset, d.Start = "admin", "sim", modelTopic, 1<<40, 1<<40
		d.Begin, d.End = -1, -1
		p.es = slices.Insert(p.es, 0, d)
	}},
	{"read above the high watermark", AboveMark, func(p *planter) {
		e := p.one("reading", func(e *Event) bool { return e.Op == Read && len(e.Records) > 0 })
		e.High = e.Records[p.w.pick(len(e.Records), "record")].Offset
	}},
	{"read as committed above the last stable offset", AboveMark, func(p *planter) {
		e := p.one("reading", func(e *Event) bool { return e.Op == Read && e.Committed && len(e.Records) > 0 })
		e.Stable = e.Records[p.w.pick(len(e.Records), "record")].Offset
	}},
	{"what a consumer saw is gone at the end", Vanished, func(p *planter) {
		e := p.one("reading", func(e *Event) bool { return e.Op == Read && !e.Final && e.hasPlain(p) })
		id := e.Records[slices.IndexFunc(e.Records, func(r Record) bool { return p.plainID(r.ID) })].ID
		p.without(isFinal, idIs(id))
	}},
	{"one reader does not see what another saw", Vanished, func(p *planter) {
		e := p.one("reading", func(e *Event) bool { return e.Client == "coda-reader" && e.hasPlain(p) })
		i := slices.IndexFunc(e.Records, func(r Record) bool { return p.plainID(r.ID) })
		again := *e
		again.Records = slices.Delete(slices.Clone(e.Records), i, i+1)
		at := slices.IndexFunc(p.es, func(x Event) bool { return x.Final })
		again.Client, again.Begin, again.End = "other", p.es[at].Begin, p.es[at].Begin
		p.es = slices.Insert(p.es, at, again)
	}},
	{"one who reads what is committed does not see a record of no transaction", Vanished, func(p *planter) {
		p.without(func(e *Event) bool { return e.Committed }, idIs(p.one("record", p.plain).ID))
	}},
}

// acknowledged is the offset after those acknowledged before e began.
func (p *planter) acknowledged(e *Event) int64 {
	n := int64(0)
	for i := range p.es {
		if a := &p.es[i]; p.kept(a) && a.Partition == e.Partition && a.End < e.Begin {
			n = max(n, a.Offset+1)
		}
	}
	return n
}

func (p *planter) plainID(id string) bool {
	return slices.ContainsFunc(p.es, func(e Event) bool { return e.ID == id && p.plain(&e) })
}

func (e *Event) hasPlain(p *planter) bool {
	return slices.ContainsFunc(e.Records, func(r Record) bool { return p.plainID(r.ID) })
}

// TestPlanted has every fault named by its kind.
func TestPlanted(t *testing.T) {
	planted := [kinds]bool{}
	for _, f := range slices.Concat(faults, moreFaults) {
		planted[f.kind] = true
		t.Run(f.kind.String()+"/"+f.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := plant(t)
				f.make(p)
				if r := judge(t, p.es); !r.Has(f.kind) {
					t.Fatalf("not found: %v", r)
				}
			})
		})
	}
	for k, is := range planted {
		if !is {
			t.Errorf("no fault of the kind %v", Kind(k))
		}
	}
}
