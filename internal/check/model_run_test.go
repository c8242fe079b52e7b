package check

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// progress takes some operation a step further.
func (w *world) progress() {
	if len(w.ops) == 0 {
		return
	}
	o := w.ops[w.pick(len(w.ops), "operation")]
	switch {
	case o.from != nil && w.chance(60, "write"):
		w.write(o)
	case o.from != nil:
		w.answer(o)
	case o.gone: // nobody waits for it any more
		o.apply()
		w.forget(o)
	case !o.applied:
		if w.mayBeUnknown(o) && w.chance(15, "unknown") {
			o.gone = true
			w.returned(o.e, Maybe)
			return
		}
		o.applied = true
		o.apply()
	case w.mayBeUnknown(o) && w.chance(15, "answer lost"):
		w.returned(o.e, Maybe)
		w.forget(o)
	default:
		w.returned(o.e, OK)
		w.forget(o)
	}
}

// mayBeUnknown are the operations that change something.
func (w *world) mayBeUnknown(o *modelOp) bool {
	return o.e.Op == Commit || o.e.Op == End || o.e.Op == Delete
}

// step does something at random.
func (w *world) step() {
	m := w.makers[w.pick(len(w.makers), "producer")]
	p := w.parts[w.pick(len(w.parts), "partition")]
	switch w.pick(20, "step") {
	case 0, 1, 2, 3:
		if m.txn == nil || !m.txn.closing {
			w.send(m, p)
		}
	case 4, 5, 6:
		p.high += int64(w.pick(int(int64(len(p.log))-p.high)+1, "replicated"))
	case 7:
		if w.chance(40, "elect") {
			w.elect(p)
		}
	case 8, 9:
		w.read(w.readers[w.pick(len(w.readers), "reader")])
	case 10:
		w.commitOffset("g", "sim", p, int64(w.ids+w.pick(3, "value")))
	case 11:
		w.fetchOffset([]string{"g", "none"}[w.pick(2, "group")], []string{"sim", "far"}[w.pick(2, "observer")], p)
	case 12:
		w.commitInTxn(w.makers[3], "txn-group", p, int64(1000+w.ids))
	case 13:
		w.close(w.makers[3], w.chance(70, "commit"))
	case 14:
		if w.chance(15, "delete") {
			w.deleteRecords(p)
		}
	default:
		w.progress()
	}
}

// drain brings what is under way to its end, or leaves it open.
func (w *world) drain() {
	for _, o := range slices.Clone(w.ops) {
		switch {
		case o.from != nil:
			w.drainRecord(o)
		case o.gone && w.chance(50, "never") && o.e.Op != End:
			w.forget(o)
		case !o.applied:
			o.applied = true
			o.apply()
		}
		if o.from == nil && !o.gone {
			w.returned(o.e, OK)
		}
		w.forget(o)
	}
	for _, t := range w.txns {
		if !t.done { // the broker's time-out
			w.mark(t, false)
		}
	}
	for _, p := range w.parts {
		p.high = int64(len(p.log))
	}
}

func (w *world) drainRecord(o *modelOp) {
	if w.chance(70, "write at last") {
		w.write(o)
	}
	o.p.high = int64(len(o.p.log))
	switch {
	case o.gone:
	case o.at >= 0:
		o.e.Offset = o.at
		w.settled(o, OK)
	default:
		w.settled(o, Open)
	}
}

// direct does an operation from begin to end.
func (w *world) direct(o *modelOp, out Outcome) {
	if o.from != nil {
		o.at = int64(len(o.p.log))
		o.copies = 1
		r := o.rec
		r.epoch = o.p.epoch
		o.p.log = append(o.p.log, r)
		o.p.high = int64(len(o.p.log))
		o.e.Offset = o.at
		w.settled(o, out)
	} else {
		o.apply()
		w.returned(o.e, out)
	}
	w.forget(o)
}

func (w *world) latest() *modelOp { return w.ops[len(w.ops)-1] }

// coda has one of everything, one after the other, so that there is something
// of each kind to break.
func (w *world) coda() {
	once := &modelProducer{name: "coda", idempotent: true, acks: AcksAll}
	often := &modelProducer{name: "coda-often", acks: AcksAll, attempts: 2}
	for i := range 6 {
		w.direct(w.send(once, w.parts[i%2]), OK)
		w.direct(w.send(often, w.parts[i%2]), OK)
	}
	for _, p := range w.parts {
		for _, value := range []int64{5, 9} {
			w.commitOffset("coda", "sim", p, value)
			w.direct(w.latest(), OK)
		}
		w.fetchOffset("coda", "sim", p)
		w.direct(w.latest(), OK)
	}
	txn := &modelProducer{name: "coda-txn", idempotent: true, acks: AcksAll, ends: true}
	for i, c := range []struct {
		commit bool
		out    Outcome
	}{{true, OK}, {false, OK}, {true, Maybe}, {false, Maybe}} {
		group := []string{"coda-ok", "coda-aborted", "coda-shown", "coda-hidden"}[i]
		w.commitOffset(group, "sim", w.parts[0], 50)
		w.direct(w.latest(), OK)
		for _, p := range w.parts {
			w.direct(w.send(txn, p), OK)
		}
		w.commitInTxn(txn, group, w.parts[0], 100)
		o := w.close(txn, true)
		w.mark(txn.txn, c.commit)
		o.e.IsCommit = c.commit || c.out == Maybe
		w.returned(o.e, c.out)
		w.forget(o)
	}
	for _, p := range w.parts {
		r := &modelReader{client: "coda-reader", observer: "sim", p: p, pos: max(p.start, p.high-25)}
		for r.pos < p.high {
			w.read(r)
			w.direct(w.latest(), OK)
		}
	}
}

// finalReadings are the end of a history.
func (w *world) finalReadings() {
	for _, p := range w.parts {
		for _, committed := range []bool{false, true} {
			at := p.start
			for done := false; !done; {
				e := p.of(w.begun(Read, "final", "sim"))
				e.Committed, e.Final = committed, true
				p.seen(&e, at, 4)
				at = e.Next
				done = at >= p.high
				e.Done = done
				w.returned(e, OK)
			}
		}
		for _, g := range []string{"g", "none", "txn-group", "coda", "coda-ok", "coda-aborted", "coda-shown", "coda-hidden"} {
			e := p.of(w.begun(Fetch, "final", "sim"))
			e.Group, e.Offset, e.Final = g, p.offsetOf(g), true
			w.returned(e, OK)
		}
	}
}

// history is a correct one.
func history(t *rapid.T) *world {
	w := newWorld(t)
	for range rapid.IntRange(0, 120).Draw(t, "steps") {
		w.step()
	}
	w.drain()
	w.coda()
	w.finalReadings()
	return w
}

// modelBound is more than any operation of the model takes.
const modelBound = 10_000

func judge(t interface{ Fatal(...any) }, events []Event) *Result {
	j := NewJudge(Options{Bound: modelBound})
	for i := range events {
		e := events[i]
		if err := j.Add(&e); err != nil {
			t.Fatal(err)
		}
	}
	return j.Finish()
}

// TestCorrect has every correct history pass.
func TestCorrect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := history(t)
		if r := judge(t, w.events); !r.OK() {
			t.Fatalf("%v", r)
		}
	})
}
