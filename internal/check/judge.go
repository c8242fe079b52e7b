package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Options say how strict a judge is.
type Options struct {
	// Bound is how long an operation may take, in positions of its observer;
	// 0 is for ever. Reads have no bound: their begin is often a guess.
	Bound int64
	// Stale is for clusters whose brokers may answer from the past for a while,
	// as with clock fencing off: marks are compared within a client only, and
	// only the final fetch of a group's offset has to be the newest.
	Stale bool
}

// A Judge takes the events of a history and tells at the end what is wrong.
type Judge struct {
	o      Options
	counts Counts
	found  [kinds][]Violation
	number [kinds]int

	here      spot              // of the event
	words     map[string]uint32 // of observers, clients, producers and files; from 1 on
	names     []string
	last      map[uint32]int64 // position of each observer
	gone      map[uint32]bool  // clients
	open      map[openKey]openOp
	ids       map[string]uint32
	entries   table
	parts     map[kafka.TopicPartition]uint32
	partList  []*partition
	topics    map[string]*topic
	txns      map[string]*txn
	registers map[registerKey]*register
}

// topic is what its records may be lost by.
type topic struct{ retention, compacted bool }

// openKey names an operation that has not returned.
type openKey struct {
	client uint32
	begin  int64
	op     Op
	id     string // of a record, a transaction or a group
}

type openOp struct {
	place spot
	obs   uint32
}

// NewJudge begins a history.
func NewJudge(o Options) *Judge {
	return &Judge{
		o: o, words: map[string]uint32{}, names: []string{""}, last: map[uint32]int64{}, gone: map[uint32]bool{},
		open: map[openKey]openOp{}, ids: map[string]uint32{}, parts: map[kafka.TopicPartition]uint32{},
		topics: map[string]*topic{}, txns: map[string]*txn{}, registers: map[registerKey]*register{},
	}
}

// word is the number of a name.
func (j *Judge) word(s string) uint32 {
	n, ok := j.words[s]
	if !ok {
		n = uint32(len(j.names))
		j.words[s] = n
		j.names = append(j.names, s)
	}
	return n
}

// A spot is a Place in eight bytes: the file's word and the line.
type spot uint64

const lineBits = 40

func (j *Judge) spotOf(p Place) spot {
	file := uint32(0)
	if p.File != "" {
		file = j.word(p.File)
	}
	return spot(file)<<lineBits | spot(p.Line)
}

// note counts a violation, and keeps it if it is one of the first.
func (j *Judge) note(k Kind, events []spot, format string, args ...any) {
	j.number[k]++
	if len(j.found[k]) < kept {
		v := Violation{Kind: k, What: fmt.Sprintf(format, args...)}
		for _, s := range events {
			v.Events = append(v.Events, Place{j.names[s>>lineBits], int(s & (1<<lineBits - 1))})
		}
		j.found[k] = append(j.found[k], v)
	}
}

// Add takes the next event. An error says that the history itself is not one;
// nothing of e is kept.
func (j *Judge) Add(e *Event) error {
	j.counts.Events++
	if e.Place.File == "" {
		e.Place.Line = j.counts.Events
	}
	j.here = j.spotOf(e.Place)
	obs := j.word(e.Observer)
	switch last := j.last[obs]; {
	case e.Begin > e.End:
		return fmt.Errorf("%v: begins at %d and ends at %d, before that", e.Place, e.Begin, e.End)
	case j.counts.Events > 1 && e.End < last:
		return fmt.Errorf("%v: ends at %d, and an event of the same observer before it at %d: events come in the order of their ends", e.Place, e.End, last)
	}
	if err := e.named(); err != nil {
		return err
	}
	j.last[obs] = e.End
	j.hang(e, obs)
	switch e.Op {
	case Produce:
		return j.produce(e)
	case Read:
		return j.read(e)
	case Commit:
		j.commit(e)
	case Fetch:
		j.fetch(e)
	case Begin:
		j.txn(e)
	case End:
		return j.end(e)
	case Delete:
		j.delete(e)
	case Topic:
		t := j.topic(e.Topic)
		t.retention, t.compacted = t.retention || e.Retention, t.compacted || e.Compacted
	case Gone:
		j.gone[j.word(e.Client)] = true
	default:
		return fmt.Errorf("%v: no operation", e.Place)
	}
	return nil
}

// named demands the names without which an event says nothing.
func (e *Event) named() error {
	for _, n := range []struct {
		of   []Op
		key  string
		name string
	}{
		{[]Op{Produce}, "id", e.ID},
		{[]Op{Begin, End}, "txn", e.Txn},
		{[]Op{Commit, Fetch}, "group", e.Group},
		{[]Op{Produce, Read, Commit, Fetch, Delete, Topic}, "topic", e.Topic},
	} {
		if n.name == "" && slices.Contains(n.of, e.Op) {
			return fmt.Errorf("%v: %v has no %s", e.Place, e.Op, n.key)
		}
	}
	return nil
}

func (j *Judge) topic(name string) *topic {
	t := j.topics[name]
	if t == nil {
		t = &topic{}
		j.topics[name] = t
	}
	return t
}

// hang notes what took too long, and remembers what has not returned.
func (j *Judge) hang(e *Event, obs uint32) {
	switch e.Op {
	case Read, Topic, Gone:
		return
	}
	if e.Out != Open && len(j.open) == 0 && e.End-e.Begin <= j.o.Bound {
		return
	}
	k := openKey{j.word(e.Client), e.Begin, e.Op, e.ID + e.Txn + e.Group}
	if e.Out == Open {
		j.open[k] = openOp{j.here, obs}
		return
	}
	delete(j.open, k)
	if j.o.Bound > 0 && e.End-e.Begin > j.o.Bound {
		j.note(Hang, []spot{j.here}, "%v of %s returned after %d, more than %d", e.Op, e.Client, e.End-e.Begin, j.o.Bound)
	}
}

// neverReturned notes what is still open longer than the bound at the end.
func (j *Judge) neverReturned() {
	for _, k := range slices.SortedFunc(maps.Keys(j.open), func(a, b openKey) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.client, b.client), cmp.Compare(a.op, b.op), cmp.Compare(a.id, b.id))
	}) {
		o := j.open[k]
		if waited := j.last[o.obs] - k.begin; j.o.Bound > 0 && waited > j.o.Bound && !j.gone[k.client] {
			j.note(Hang, []spot{o.place}, "%v of %s did not return for %d, more than %d", k.op, j.names[k.client], waited, j.o.Bound)
		}
	}
}

// delete notes up to where records may be gone.
func (j *Judge) delete(e *Event) {
	if e.Out == Failed {
		return
	}
	p := j.partition(e)
	upTo := max(e.Offset, e.Start)
	if upTo < 0 { // up to a high watermark that nobody told
		upTo = 1<<63 - 1
	}
	p.allowed = max(p.allowed, upTo)
	if e.Out == OK {
		p.starts.of(j.viewer(e)).raise(e.End, e.Start, j.here)
	}
}

// Finish judges what only the end of a history shows.
func (j *Judge) Finish() *Result {
	j.neverReturned()
	j.records()
	j.orders()
	j.partitions()
	j.transactions()
	j.committed()
	r := &Result{Counts: j.counts, Number: j.number}
	for _, vs := range j.found {
		r.Violations = append(r.Violations, vs...)
	}
	return r
}
