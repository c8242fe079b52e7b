package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Of an entry.
const (
	wasSent      = 1 << iota
	wasOpen      // sent, and so far without an answer
	wasAcked     // acknowledged
	wasFailed    // certainly never written
	wantsAll     // its producer wants it kept
	isIdempotent // and once
	isMisplaced  // it was said that its offset is wrong
	isSummed     // its sum is known
)

// An entry is a record, under its id: what its producer was told, and where
// readers saw it.
type entry struct {
	id       string
	seq      int64
	acked    int64 // offset; -1: not told
	seenAt   int64 // first offset at which it was seen; -1: never
	sentAt   spot
	readAt   spot
	txn      *txn
	producer uint32
	part     uint32
	sum      uint32
	attempts int32
	copies   int32 // offsets at which it was seen
	state    uint8
	again    int64 // an offset at which it was seen too
}

func (e *entry) is(flags uint8) bool { return e.state&flags == flags }

// A table holds entries by their number, which is never 0.
type table struct {
	chunks []*[chunk]entry
	n      uint32
}

const chunk = 4096

func (t *table) at(i uint32) *entry { return &t.chunks[i/chunk][i%chunk] }

func (t *table) add() uint32 {
	t.n++
	if int(t.n/chunk) >= len(t.chunks) {
		t.chunks = append(t.chunks, new([chunk]entry))
	}
	return t.n
}

// entry is the record of an id, which an event of partition part names.
func (j *Judge) entry(id string, part uint32) (uint32, *entry) {
	if i, ok := j.ids[id]; ok {
		return i, j.entries.at(i)
	}
	i := j.entries.add()
	j.ids[id] = i
	en := j.entries.at(i)
	*en = entry{id: id, acked: -1, seenAt: -1, part: part}
	return i, en
}

func (j *Judge) produce(e *Event) error {
	part := j.partIndex(e)
	p := j.partList[part]
	i, en := j.entry(e.ID, part)
	if en.is(wasSent) && !en.is(wasOpen) {
		return fmt.Errorf("%v: record %q was sent before: ids are used once", e.Place, e.ID)
	}
	if !en.is(wasSent) {
		j.counts.Sent++
	}
	if en.part != part && en.seenAt >= 0 {
		j.note(Phantom, []spot{j.here, en.readAt}, "%s was sent to %v and read in %v", e.ID, p.tp, j.partList[en.part].tp)
	}
	en.state = en.state&^wasOpen | wasSent
	en.part, en.seq, en.sentAt, en.producer, en.attempts = part, e.Seq, j.here, j.word(e.Producer), e.Attempts
	if e.Acks == AcksAll {
		en.state |= wantsAll
	}
	if e.Idempotent {
		en.state |= isIdempotent
	}
	if e.Txn != "" {
		en.txn = j.txnOf(e.Txn)
	}
	j.sum(p, en, e.Sum, j.here, en.seenAt)
	switch e.Out {
	case Open:
		en.state |= wasOpen
	case Failed:
		en.state |= wasFailed
		j.counts.Failed++
	case Maybe:
		j.counts.Maybe++
	case OK:
		j.acknowledged(e, p, i, en)
	}
	return nil
}

// sum compares what is known of a record's content.
func (j *Judge) sum(p *partition, en *entry, sum uint32, place spot, offset int64) {
	switch {
	case sum == 0:
	case !en.is(isSummed):
		en.sum = sum
		en.state |= isSummed
	case en.sum != sum:
		events := []spot{place}
		if en.is(wasSent) && en.sentAt != place {
			events = append(events, en.sentAt)
		}
		j.note(Changed, events, "%v offset %d: %s has the sum %d, and had %d elsewhere", p.tp, offset, en.id, sum, en.sum)
	}
}

func (j *Judge) acknowledged(e *Event, p *partition, i uint32, en *entry) {
	j.counts.Acknowledged++
	en.state |= wasAcked
	en.acked = e.Offset
	if en.is(wantsAll) && p.needed == 0 {
		p.needed = j.here
	}
	if en.is(wantsAll|isIdempotent) && e.InFlight <= 5 {
		p.acked[en.producer] = append(p.acked[en.producer], i)
	}
	if e.Offset < 0 {
		return
	}
	marks := p.marks.of(j.viewer(e))
	if m := marks.before(e.Begin); e.Offset < m.value {
		j.note(Reordered, []spot{j.here, m.place}, "%v: %s was acknowledged at offset %d, and before it was sent a client knew that the partition ended at %d or later", p.tp, e.ID, e.Offset, m.value)
	}
	if !en.is(wantsAll) {
		return
	}
	marks.raise(e.End, e.Offset+1, j.here)
	s := p.at(e.Offset)
	switch {
	case s.entry == 0:
		s.entry = i
	case s.entry != i:
		other := j.entries.at(s.entry)
		j.misplaced(en, []spot{j.here, other.shown()}, "%v: %s was acknowledged at offset %d, where %s is", p.tp, e.ID, e.Offset, other.id)
		return
	}
	s.flags |= told
}

// shown is the event that best shows where the record is.
func (e *entry) shown() spot {
	if e.seenAt >= 0 {
		return e.readAt
	}
	return e.sentAt
}

// misplaced notes once that a record is not where it was acknowledged.
func (j *Judge) misplaced(en *entry, events []spot, format string, args ...any) {
	if !en.is(isMisplaced) {
		en.state |= isMisplaced
		j.note(OffsetWrong, events, format, args...)
	}
}

// records judges each record by where it was seen.
func (j *Judge) records() {
	for i := uint32(1); i <= j.entries.n; i++ {
		en := j.entries.at(i)
		p := j.partList[en.part]
		if en.copies > 0 {
			j.written(p, en)
		}
		if en.is(wasAcked | wantsAll) {
			j.demand(p, i, en)
		}
		if en.txn != nil {
			j.member(p, i, en)
		}
		if en.is(wasOpen) {
			j.counts.Maybe++
		}
	}
}

// written judges a record that was seen.
func (j *Judge) written(p *partition, en *entry) {
	switch {
	case !en.is(wasSent):
		j.note(Phantom, []spot{en.readAt}, "%v offset %d: %s was never sent", p.tp, en.seenAt, en.id)
	case en.is(wasFailed):
		j.note(Phantom, []spot{en.sentAt, en.readAt}, "%v offset %d: %s was certainly not written", p.tp, en.seenAt, en.id)
	}
	allowed := en.attempts
	if en.is(isIdempotent) {
		allowed = 1
	}
	if en.is(wasSent) && allowed > 0 && en.copies > allowed {
		j.note(Duplicated, []spot{en.sentAt, en.readAt}, "%v: %s is there %d times, at offsets %d and %d, and may be %d times", p.tp, en.id, en.copies, en.seenAt, en.again, allowed)
	}
}

// demand demands that an acknowledged record is there.
func (j *Judge) demand(p *partition, i uint32, en *entry) {
	r, flag := p.readTo[0], uint8(finalAll)
	if !r.done {
		if r, flag = p.readTo[1], finalStable; !r.done {
			return // which is said once for the partition
		}
		if en.txn != nil && en.txn.state != committed {
			return
		}
	}
	offset := en.acked
	if offset < 0 {
		if offset = en.seenAt; offset < 0 {
			if p.allowed == 0 && !p.topic.compacted && !p.topic.retention {
				j.note(Lost, []spot{en.sentAt, r.place}, "%v: %s was acknowledged and is nowhere", p.tp, en.id)
			}
			return
		}
	}
	if p.mayBeGone(offset) {
		return
	}
	if s := p.at(offset); s.entry == i && s.flags&flag != 0 {
		return
	}
	if en.seenAt >= 0 && en.seenAt != offset && p.at(en.seenAt).flags&flag != 0 {
		j.misplaced(en, []spot{en.sentAt, en.readAt}, "%v: %s was acknowledged at offset %d and is at %d", p.tp, en.id, offset, en.seenAt)
		return
	}
	j.note(Lost, []spot{en.sentAt, r.place}, "%v offset %d: %s was acknowledged and is not there; the partition was read from %d to %d", p.tp, offset, en.id, r.from, r.next)
}

// orders demands that what an idempotent producer was acknowledged stands in
// the order in which it was sent.
func (j *Judge) orders() {
	for _, p := range j.partList {
		for _, producer := range slices.Sorted(maps.Keys(p.acked)) {
			list := p.acked[producer]
			slices.SortFunc(list, func(a, b uint32) int { return cmp.Compare(j.entries.at(a).seq, j.entries.at(b).seq) })
			j.order(p, producer, list)
		}
	}
}

func (j *Judge) order(p *partition, producer uint32, list []uint32) {
	var before *entry
	for _, i := range list {
		en := j.entries.at(i)
		if en.where() < 0 {
			continue
		}
		if before != nil && en.where() <= before.where() {
			j.note(Reordered, []spot{before.sentAt, en.sentAt}, "%v: producer %s sent %s (%d) before %s (%d), and they are at offsets %d and %d",
				p.tp, j.names[producer], before.id, before.seq, en.id, en.seq, before.where(), en.where())
		}
		before = en
	}
}

// where is the offset at which a record was acknowledged, or seen.
func (e *entry) where() int64 {
	if e.acked >= 0 {
		return e.acked
	}
	return e.seenAt
}
