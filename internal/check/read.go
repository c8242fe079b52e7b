package check

import "fmt"

func (j *Judge) read(e *Event) error {
	if e.Out != OK {
		return nil
	}
	part := j.partIndex(e)
	p := j.partList[part]
	j.counts.Reads++
	j.counts.Records += len(e.Records)
	p.start = max(p.start, e.Start)
	next := e.Next
	if n := len(e.Records); n > 0 {
		next = max(next, e.Records[n-1].Offset+1)
	}
	j.told(e, p, next)
	at := e.From
	for _, r := range e.Records {
		if r.Offset < 0 || r.Offset < e.From || e.Next >= 0 && r.Offset >= e.Next {
			return fmt.Errorf("%v: a record at offset %d, and the reading went from %d to %d", e.Place, r.Offset, e.From, e.Next)
		}
		if at >= 0 && r.Offset < at {
			j.note(Reordered, []spot{j.here}, "%v: a reader got offset %d after %d", p.tp, r.Offset, at-1)
			at = -1 // what is between is not known
		}
		if at >= 0 {
			j.holes(e, p, at, r.Offset)
		}
		at = r.Offset + 1
		j.see(e, p, part, r)
	}
	if at >= 0 {
		j.holes(e, p, at, next)
	}
	if e.Final {
		j.finalRead(e, p, next)
	}
	return nil
}

// told compares the marks of an answer with those that were told before.
func (j *Judge) told(e *Event, p *partition, next int64) {
	high := e.High
	if high < 0 && e.Done && !e.Committed {
		high = next // what a reader takes for the end
	}
	marks, starts := p.marks.of(j.viewer(e)), p.starts.of(j.viewer(e))
	if m := marks.before(e.Begin); high >= 0 && high < m.value && !e.Follower {
		j.note(MarkBack, []spot{m.place, j.here}, "%v: %s was told a high watermark of %d, and before that one of %d or more was known", p.tp, e.Client, high, m.value)
	}
	if m := starts.before(e.Begin); e.Start >= 0 && e.Start < m.value && !e.Follower {
		j.note(MarkBack, []spot{m.place, j.here}, "%v: %s was told a log start of %d, and before that it was %d", p.tp, e.Client, e.Start, m.value)
	}
	starts.raise(e.End, e.Start, j.here)
	if len(e.Records) > 0 {
		high = max(high, next)
	}
	marks.raise(e.End, high, j.here)
}

// see takes a record that a reader saw.
func (j *Judge) see(e *Event, p *partition, part uint32, r Record) {
	if e.High >= 0 && r.Offset >= e.High {
		j.note(AboveMark, []spot{j.here}, "%v offset %d: read with a high watermark of %d", p.tp, r.Offset, e.High)
	} else if e.Committed && e.Stable >= 0 && r.Offset >= e.Stable {
		j.note(AboveMark, []spot{j.here}, "%v offset %d: read as committed with a last stable offset of %d", p.tp, r.Offset, e.Stable)
	}
	i, en := j.entry(r.ID, part)
	if en.part != part {
		j.note(Phantom, []spot{j.here, en.shown()}, "%v offset %d: %s belongs to %v", p.tp, r.Offset, r.ID, j.partList[en.part].tp)
		return
	}
	j.sum(p, en, r.Sum, j.here, r.Offset)
	s := p.at(r.Offset)
	if s.entry != 0 && s.entry != i {
		other := j.entries.at(s.entry)
		if s.flags&seen != 0 {
			j.note(Changed, []spot{other.readAt, j.here}, "%v offset %d: one reader saw %s, another %s", p.tp, r.Offset, other.id, r.ID)
			return
		}
		j.misplaced(other, []spot{other.sentAt, j.here}, "%v offset %d: %s was acknowledged there, and %s is", p.tp, r.Offset, other.id, r.ID)
		s.flags &^= told
	}
	if s.flags&seen == 0 {
		j.copyOf(en, r.Offset, j.here)
		if s.flags&holeAll != 0 || e.Committed && s.flags&holeStable != 0 {
			p.appear.add(r.Offset, j.here)
		}
	}
	s.entry = i
	s.flags |= e.flag(seenAll, seenStable)
	if e.Final {
		s.flags |= e.flag(finalAll, finalStable)
		j.counts.Final++
	}
	if r.Epoch >= 0 {
		if s.epoch >= 0 && s.epoch != r.Epoch {
			j.note(Changed, []spot{en.readAt, j.here}, "%v offset %d: %s has the leader epoch %v, and had %v", p.tp, r.Offset, r.ID, r.Epoch, s.epoch)
		}
		s.epoch = r.Epoch
	}
}

// flag is the one of the event's isolation.
func (e *Event) flag(all, stable uint8) uint8 {
	if e.Committed {
		return stable
	}
	return all
}

// copyOf counts an offset at which a record is.
func (j *Judge) copyOf(en *entry, offset int64, place spot) {
	en.copies++
	if en.copies == 1 {
		en.seenAt, en.readAt = offset, place
		return
	}
	en.again = offset
}

// maxHole is how many offsets without a record are looked at one by one: more
// are what compaction leaves.
const maxHole = 64 << 10

// holes says that a reader saw no record in [from, to). In a partition whose
// records are there, these are markers of transactions and, for one who reads
// what is committed, records of aborted ones.
func (j *Judge) holes(e *Event, p *partition, from, to int64) {
	if to-from > maxHole || p.topic.compacted {
		return
	}
	flag := e.flag(holeAll, holeStable)
	against := e.flag(seen, seenStable)
	for ; from < to; from++ {
		s := p.at(from)
		s.flags |= flag
		if s.flags&against != 0 {
			p.vanish.add(from, j.entries.at(s.entry).readAt, j.here)
		}
	}
}

func (j *Judge) finalRead(e *Event, p *partition, next int64) {
	r := &p.readTo[0]
	if e.Committed {
		r = &p.readTo[1]
	}
	if !r.began {
		r.began, r.from = true, e.From
		if e.From < 0 && len(e.Records) > 0 {
			r.from = e.Records[0].Offset
		}
	}
	r.next, r.place = max(r.next, next), j.here
	r.done = r.done || e.Done
	if e.Done && e.Committed && e.Stable >= 0 && e.Stable < e.High {
		j.note(Hang, []spot{j.here}, "%v: a transaction that began at offset %d has not ended", p.tp, e.Stable)
	}
}
