package check

import "slices"

// moreFaults are those of groups, of transactions and of clients that wait.
var moreFaults = []struct {
	name string
	kind Kind
	make func(*planter)
}{
	{"a committed offset goes back", CommittedBack, func(p *planter) {
		p.one("fetch", func(e *Event) bool { return e.Op == Fetch && e.Group == "coda" }).Offset = 5
	}},
	{"a committed offset is lost", CommittedBack, func(p *planter) {
		p.one("fetch", func(e *Event) bool { return e.Op == Fetch && e.Group == "coda" }).Offset = -1
	}},
	{"an offset that nobody committed", CommittedBack, func(p *planter) {
		p.one("fetch", func(e *Event) bool { return e.Op == Fetch && (e.Group == "coda" || e.Group == "g") }).Offset = 777_777
	}},
	{"a record of an aborted transaction is read as committed", AbortedSeen, func(p *planter) {
		e := p.one("record", func(e *Event) bool {
			commit, told := p.endTold(e.Txn)
			return p.kept(e) && e.Txn != "" && told && !commit
		})
		f := p.one("reading", func(f *Event) bool {
			return f.Op == Read && f.Committed && f.Partition == e.Partition && f.From <= e.Offset && e.Offset < f.Next
		})
		put(f, Record{e.Offset, e.ID, e.Sum, -1})
	}},
	{"a record of a committed transaction is not visible", Torn, func(p *planter) {
		e := p.one("record", func(e *Event) bool { return p.kept(e) && e.Txn != "" && p.txnCommitted(e.Txn) })
		p.without(isStableFinal, idIs(e.ID))
	}},
	{"half of a transaction whose end nobody knows is visible", Torn, func(p *planter) {
		e := p.one("record", func(e *Event) bool {
			return p.kept(e) && e.Txn == "coda-txn/4"
		})
		f := p.one("reading", func(f *Event) bool {
			return f.Final && f.Committed && f.Partition == e.Partition && f.From <= e.Offset && e.Offset < f.Next
		})
		put(f, Record{e.Offset, e.ID, e.Sum, -1})
	}},
	{"a reader of what is committed jumps over a record of a committed transaction", Torn, func(p *planter) {
		e := p.one("record", func(e *Event) bool { return p.kept(e) && e.Txn == "coda-txn/2" })
		for i := range p.es {
			switch x := &p.es[i]; {
			case x.Op == End && x.Txn == e.Txn: // it was aborted
				x.IsCommit = true
			}
		}
	}},
	{"a committed transaction without its offsets", TornOffsets, func(p *planter) {
		p.one("fetch", func(e *Event) bool { return e.Op == Fetch && e.Group == "coda-ok" && e.Partition == 0 }).Offset = 50
	}},
	{"offsets of an aborted transaction", TornOffsets, func(p *planter) {
		p.one("fetch", func(e *Event) bool { return e.Op == Fetch && e.Group == "coda-aborted" && e.Partition == 0 }).Offset = 100
	}},
	{"records and no offsets", TornOffsets, func(p *planter) {
		p.one("fetch", func(e *Event) bool { return e.Op == Fetch && e.Group == "coda-shown" && e.Partition == 0 }).Offset = 50
	}},
	{"offsets and no records", TornOffsets, func(p *planter) {
		p.one("fetch", func(e *Event) bool { return e.Op == Fetch && e.Group == "coda-hidden" && e.Partition == 0 }).Offset = 100
	}},
	{"an answer that took too long", Hang, func(p *planter) {
		p.one("operation", func(e *Event) bool { return e.Op != Read }).Begin -= modelBound + 500_000
	}},
	{"an operation that never returned", Hang, func(p *planter) {
		e := New(Produce)
		e.Client, e.Observer, e.Topic, e.ID, e.Out = "stuck", "sim", modelTopic, "stuck-1", Open
		e.Begin = -2 * modelBound
		e.End = e.Begin
		p.es = slices.Insert(p.es, 0, e)
	}},
	{"a transaction that does not end", Hang, func(p *planter) {
		f := p.lastFinal(true)
		f.Stable = f.High - 1
		f.Records = nil
	}},
	{"a partition that was not read to its end", Unread, func(p *planter) {
		part := p.lastFinal(false).Partition
		for i := range p.es {
			if p.es[i].Partition == part {
				p.es[i].Done = false
			}
		}
	}},
}
