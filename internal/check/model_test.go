package check

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// The model is a small correct cluster: partitions with leaders that change,
// clients that lose answers, and a history of what they did and saw.

// modelRecord is an offset of the model's log.
type modelRecord struct {
	id     string
	sum    uint32
	epoch  kafka.LeaderEpoch
	txn    *modelTxn
	marker bool
}

type modelPartition struct {
	n         int32
	log       []modelRecord
	high      int64
	start     int64
	epoch     kafka.LeaderEpoch
	committed map[string]int64 // by group
}

// modelTxn is a transaction of the model; the truth of it.
type modelTxn struct {
	id       string
	producer *modelProducer
	done     bool // markers are written
	commit   bool // and say so
	closing  bool
	records  int // acknowledged
	open     int // and not answered
	unknown  bool
	offsets  []modelOffset
}

type modelOffset struct {
	group string
	p     *modelPartition
	value int64
}

type modelProducer struct {
	name       string
	idempotent bool
	acks       int32
	attempts   int32
	seq        int64
	txn        *modelTxn
	txns       int
	ends       bool // has transactions
}

// modelOp is an operation on its way.
type modelOp struct {
	e       Event
	p       *modelPartition
	from    *modelProducer
	rec     modelRecord
	at      int64 // offset of a written record; -1
	copies  int32
	gone    bool // its client has given up, and told so
	applied bool
	apply   func() // of other operations
}

type world struct {
	t       *rapid.T
	now     int64
	events  []Event
	parts   []*modelPartition
	ops     []*modelOp
	makers  []*modelProducer
	readers []*modelReader
	ids     int
	txns    []*modelTxn
}

// modelReader reads one partition from wherever it is.
type modelReader struct {
	client, observer string
	p                *modelPartition
	pos              int64
	committed, busy  bool
}

const modelTopic = "t"

func newWorld(t *rapid.T) *world {
	w := &world{t: t}
	for n := range int32(2) {
		w.parts = append(w.parts, &modelPartition{n: n, committed: map[string]int64{}})
	}
	w.makers = []*modelProducer{
		{name: "once", idempotent: true, acks: AcksAll},
		{name: "often", acks: AcksAll, attempts: 3},
		{name: "leader", acks: 1, attempts: 1},
		{name: "txn", idempotent: true, acks: AcksAll, ends: true},
	}
	for i, p := range []*modelPartition{w.parts[0], w.parts[1], w.parts[0], w.parts[1], w.parts[0]} {
		r := &modelReader{client: fmt.Sprintf("reader%d", i), observer: "sim", p: p, committed: i%2 == 1}
		if i == 4 {
			r.observer = "far"
		}
		w.readers = append(w.readers, r)
	}
	return w
}

func (w *world) chance(percent int, label string) bool {
	return rapid.IntRange(0, 99).Draw(w.t, label) < percent
}

func (w *world) pick(n int, label string) int { return rapid.IntRange(0, n-1).Draw(w.t, label) }

func (w *world) position(observer string) int64 {
	if observer == "far" {
		return w.now*3 + 1_000_000
	}
	return w.now
}

// begun is an event that begins now.
func (w *world) begun(op Op, client, observer string) Event {
	w.now++
	e := New(op)
	e.Client, e.Observer, e.Begin = client, observer, w.position(observer)
	return e
}

// returned writes an operation down, as its client knows it.
func (w *world) returned(e Event, out Outcome) {
	w.now++
	e.End, e.Out = w.position(e.Observer), out
	w.events = append(w.events, e)
}

func (w *world) forget(o *modelOp) {
	w.ops = slices.DeleteFunc(w.ops, func(x *modelOp) bool { return x == o })
}

func (p *modelPartition) of(e Event) Event {
	e.Topic, e.Partition = modelTopic, p.n
	return e
}

// send begins to produce a record.
func (w *world) send(m *modelProducer, p *modelPartition) *modelOp {
	w.ids++
	m.seq++
	e := p.of(w.begun(Produce, m.name, "sim"))
	e.Producer, e.Idempotent, e.Acks, e.Attempts, e.Seq = m.name, m.idempotent, m.acks, m.attempts, m.seq
	e.ID, e.Sum = fmt.Sprintf("%s-%d", m.name, w.ids), uint32(w.ids)*7+1
	o := &modelOp{e: e, p: p, from: m, rec: modelRecord{id: e.ID, sum: e.Sum}, at: -1}
	if m.ends {
		if m.txn == nil {
			m.txns++
			m.txn = &modelTxn{id: fmt.Sprintf("%s/%d", m.name, m.txns), producer: m}
			w.txns = append(w.txns, m.txn)
			b := w.begun(Begin, m.name, "sim")
			b.Txn = m.txn.id
			w.returned(b, OK)
		}
		o.e.Txn, o.rec.txn = m.txn.id, m.txn
		m.txn.open++
	}
	w.ops = append(w.ops, o)
	return o
}

// write appends the record of a producer whose turn it is.
func (w *world) write(o *modelOp) {
	if o.rec.txn != nil && o.rec.txn.done || o.copies > 0 && (o.from.idempotent || o.copies >= o.from.attempts) {
		return
	}
	if o.from.idempotent { // in order
		for _, x := range w.ops {
			if x == o {
				break
			}
			if x.from == o.from && x.p == o.p && x.copies == 0 {
				return
			}
		}
	}
	o.copies++
	r := o.rec
	r.epoch = o.p.epoch
	o.p.log = append(o.p.log, r)
	if o.at < 0 {
		o.at = int64(len(o.p.log)) - 1
	}
}

// answer has a producer's client return, as it may.
func (w *world) answer(o *modelOp) {
	if o.gone {
		return
	}
	switch {
	case o.at >= 0 && (o.from.acks == 1 || o.p.high > o.at) && !w.chance(10, "answer lost"):
		o.e.Offset = o.at
		w.settled(o, OK)
	case o.copies == 0 && w.chance(20, "refused"):
		w.settled(o, Failed)
	case w.chance(30, "timed out"):
		w.settled(o, Maybe)
	}
}

func (w *world) settled(o *modelOp, out Outcome) {
	if t := o.rec.txn; t != nil {
		t.open--
		if out == OK {
			t.records++
		} else {
			t.unknown = true
		}
	}
	w.returned(o.e, out)
	o.gone = true // and may still be written
	if out == Maybe {
		return
	}
	if out == Failed || out == Open || o.from.idempotent || o.copies >= o.from.attempts || w.chance(50, "no more copies") {
		w.forget(o)
	}
}

// elect changes the leader; what was not committed may be lost.
func (w *world) elect(p *modelPartition) {
	p.epoch++
	keep := p.high + int64(w.pick(int(int64(len(p.log))-p.high)+1, "kept"))
	for _, o := range w.ops {
		if o.p != p || o.from == nil {
			continue
		}
		o.at, o.copies = -1, 0
		for i, r := range p.log[:keep] {
			if r.id == o.rec.id {
				o.copies++
				if o.at < 0 {
					o.at = int64(i)
				}
			}
		}
	}
	p.log = p.log[:keep]
}

// stable is the last stable offset.
func (p *modelPartition) stable() int64 {
	for i, r := range p.log[:p.high] {
		if r.txn != nil && !r.txn.done {
			return int64(i)
		}
	}
	return p.high
}

// seen fills an answer with what is there now, up to n offsets from a position on.
func (p *modelPartition) seen(e *Event, from int64, n int) {
	e.High, e.Start, e.Stable = p.high, p.start, p.stable()
	limit := p.high
	if e.Committed {
		limit = e.Stable
	}
	from = max(from, p.start)
	e.From, e.Next = from, from
	for ; e.Next < limit && n > 0; e.Next++ {
		r := p.log[e.Next]
		if n--; r.marker || e.Committed && r.txn != nil && !r.txn.commit {
			continue
		}
		e.Records = append(e.Records, Record{e.Next, r.id, r.sum, r.epoch})
	}
}

func (w *world) read(r *modelReader) {
	if r.busy {
		return
	}
	r.busy = true
	e := r.p.of(w.begun(Read, r.client, r.observer))
	e.Committed = r.committed
	o := &modelOp{e: e, p: r.p}
	n := rapid.IntRange(1, 5).Draw(w.t, "fetched")
	o.apply = func() {
		r.p.seen(&o.e, r.pos, n)
		r.busy, r.pos = false, o.e.Next
	}
	w.ops = append(w.ops, o)
}

func (w *world) commitOffset(group, observer string, p *modelPartition, value int64) {
	e := p.of(w.begun(Commit, group+"-member-"+observer, observer))
	e.Group, e.Offset = group, value
	o := &modelOp{e: e, p: p}
	o.apply = func() { p.committed[group] = value }
	w.ops = append(w.ops, o)
}

func (w *world) fetchOffset(group, observer string, p *modelPartition) {
	e := p.of(w.begun(Fetch, group+"-watch-"+observer, observer))
	e.Group = group
	o := &modelOp{e: e, p: p}
	o.apply = func() { o.e.Offset = p.offsetOf(group) }
	w.ops = append(w.ops, o)
}

func (p *modelPartition) offsetOf(group string) int64 {
	if v, ok := p.committed[group]; ok {
		return v
	}
	return -1
}

// commitInTxn adds a group's offset to the transaction under way.
func (w *world) commitInTxn(m *modelProducer, group string, p *modelPartition, value int64) {
	t := m.txn
	if t == nil || t.closing {
		return
	}
	t.offsets = append(t.offsets, modelOffset{group, p, value})
	e := p.of(w.begun(Commit, m.name, "sim"))
	e.Group, e.Offset, e.Txn = group, value, t.id
	w.returned(e, OK)
}

// close begins to end the transaction under way.
func (w *world) close(m *modelProducer, commit bool) *modelOp {
	t := m.txn
	if t == nil || t.closing || t.open > 0 {
		return nil
	}
	t.closing = true
	e := w.begun(End, m.name, "sim")
	e.Txn, e.IsCommit = t.id, commit && !t.unknown
	o := &modelOp{e: e}
	o.apply = func() { w.mark(t, e.IsCommit) }
	w.ops = append(w.ops, o)
	return o
}

// mark writes a transaction's markers, and its offsets.
func (w *world) mark(t *modelTxn, commit bool) {
	t.done, t.commit = true, commit
	for _, p := range w.parts {
		p.log = append(p.log, modelRecord{marker: true, epoch: p.epoch})
		p.high = int64(len(p.log))
	}
	if commit {
		for _, o := range t.offsets {
			o.p.committed[o.group] = o.value
		}
	}
	if t.producer.txn == t {
		t.producer.txn = nil
	}
}

func (w *world) deleteRecords(p *modelPartition) {
	e := p.of(w.begun(Delete, "admin", "sim"))
	e.Offset = int64(rapid.IntRange(0, int(p.high)).Draw(w.t, "deleted up to"))
	o := &modelOp{e: e, p: p}
	o.apply = func() {
		p.start = max(p.start, o.e.Offset)
		o.e.Start = p.start
	}
	w.ops = append(w.ops, o)
}
