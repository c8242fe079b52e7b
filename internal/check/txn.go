package check

import (
	"fmt"
	"maps"
	"slices"
)

// txnState is what is known of a transaction's end.
type txnState uint8

const (
	undecided txnState = iota
	committed
	aborted
)

// A txn is a transaction: what it wrote, and what of it was seen.
type txn struct {
	id      string
	state   txnState
	began   bool
	ended   bool
	endedAt spot
	offsets []*txnOffset
	shown   txnSeen // acknowledged records that the final reading has as committed
	hidden  txnSeen // and those that it has not
}

type txnSeen struct {
	n     int
	first uint32 // entry
}

func (s *txnSeen) add(i uint32) {
	if s.n++; s.n == 1 {
		s.first = i
	}
}

// A txnOffset is what a transaction commits for a group.
type txnOffset struct {
	commit
	key   registerKey
	maybe bool
}

func (j *Judge) txnOf(id string) *txn {
	t := j.txns[id]
	if t == nil {
		t = &txn{id: id}
		j.txns[id] = t
	}
	return t
}

func (j *Judge) txn(e *Event) {
	t := j.txnOf(e.Txn)
	if !t.began {
		j.counts.Transactions++
		t.began = true
	}
}

// end decides a transaction, as far as its client knows. An abort that failed
// may still be one that the broker makes by itself; so may a commit that was
// refused for good.
func (j *Judge) end(e *Event) error {
	t := j.txnOf(e.Txn)
	if t.ended {
		return fmt.Errorf("%v: transaction %q ended before: ids are used once", e.Place, e.Txn)
	}
	if e.Out == Open {
		return nil
	}
	t.ended, t.endedAt = true, j.here
	switch {
	case e.IsCommit && e.Out == OK:
		t.state = committed
	case e.IsCommit && e.Out == Failed, !e.IsCommit && e.Out == OK:
		t.state = aborted
	}
	for _, o := range t.offsets {
		o.end = e.End
		j.settle(t, o)
	}
	return nil
}

// settle puts a transaction's offset among those of its group. While nobody
// knows how the transaction ended, it has to wait for what its records show.
func (j *Judge) settle(t *txn, o *txnOffset) {
	r := j.register(o.key)
	switch t.state {
	case committed:
		o.sure = !o.maybe
		r.add(o.commit)
	case aborted:
		r.aborted = append(r.aborted, o)
	}
}

// settleRest does so for transactions whose end nobody knows.
func (j *Judge) settleRest(t *txn) {
	for _, o := range t.offsets {
		r := j.register(o.key)
		o.sure = false
		if t.shown.n == 0 && t.hidden.n > 0 {
			r.aborted = append(r.aborted, o)
		} else {
			r.add(o.commit)
		}
	}
}

// member judges a record of a transaction.
func (j *Judge) member(p *partition, i uint32, en *entry) {
	t := en.txn
	if en.seenAt >= 0 && t.state == aborted {
		if s := p.at(en.seenAt); s.flags&seenStable != 0 {
			j.note(AbortedSeen, []spot{en.sentAt, t.endedAt, en.readAt}, "%v offset %d: %s of transaction %s was read as committed", p.tp, en.seenAt, en.id, t.id)
		}
		return
	}
	offset, r := en.where(), p.readTo[1]
	if !r.done || offset < 0 || p.mayBeGone(offset) {
		return
	}
	s := p.at(offset)
	switch {
	case s.entry == i && s.flags&finalStable != 0:
		t.shown.add(i)
	case !en.is(wasAcked|wantsAll) || offset >= r.next:
	case p.readTo[0].done && s.flags&finalAll == 0: // lost, and said so
	default:
		t.hidden.add(i)
	}
}

// transactions demands that each is seen whole or not at all, and its offsets with it.
func (j *Judge) transactions() {
	for _, id := range slices.Sorted(maps.Keys(j.txns)) {
		t := j.txns[id]
		if t.hidden.n > 0 && (t.shown.n > 0 || t.state == committed) {
			h := j.entries.at(t.hidden.first)
			events := []spot{h.sentAt}
			if t.shown.n > 0 {
				events = append(events, j.entries.at(t.shown.first).sentAt)
			}
			if t.ended {
				events = append(events, t.endedAt)
			}
			j.note(Torn, events, "transaction %s: %d of its acknowledged records are visible and %d are not, the first of these %s in %v", t.id, t.shown.n, t.hidden.n, h.id, j.partList[h.part].tp)
		}
		if t.state == undecided {
			j.settleRest(t)
			j.withRecords(t)
		}
	}
}

// withRecords demands of a transaction whose end nobody knows that its offsets
// are there if its records are. The reverse shows when a fetch is not explained.
func (j *Judge) withRecords(t *txn) {
	for _, o := range t.offsets {
		if r := j.register(o.key); t.shown.n > 0 && !o.maybe && r.last.n > 0 && !r.mayBe(r.last, o) {
			j.note(TornOffsets, []spot{o.place, r.last.place}, "transaction %s: its records are visible, and group %s in %v is at %d instead of %d", t.id, o.key.group, o.key.tp, r.last.value, o.value)
		}
	}
}
