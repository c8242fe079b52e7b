package producers

// Recall gives back what a snapshot does not hold: of each producer it names
// the last batch alone, and a client may send all that it has in flight again.
// Make one with State.Recall after Restore, tell it the batches that lie below
// the snapshot's end, in order, from anywhere on, and call Finish.
type Recall struct {
	s     *State
	found map[int64]*Entry
}

// Recall begins a recall.
func (s *State) Recall() *Recall { return &Recall{s: s, found: map[int64]*Entry{}} }

// Add tells of the next batch.
func (r *Recall) Add(b *Batch) {
	if b.ProducerID < 0 || b.Control {
		return
	}
	k := r.s.producers[b.ProducerID]
	if k == nil || k.Epoch != b.Epoch {
		return
	}
	e := r.found[b.ProducerID]
	if e == nil {
		e = new(emptyEntry(b.ProducerID))
		r.found[b.ProducerID] = e
	}
	if e.n > 0 && !follows(e.LastSeq(), b.FirstSeq) {
		e.n = 0 // what came before can not be sent again, and is no part of the chain
	}
	e.add(b)
}

// Finish takes over the batches of those producers whose last batch is the one
// that the snapshot names.
func (r *Recall) Finish() {
	for id, e := range r.found {
		k := r.s.producers[id]
		last, _ := e.Last()
		if known, ok := k.Last(); ok && known.LastOffset == last.LastOffset && known.LastSeq == last.LastSeq {
			k.batches, k.n, k.chain = e.batches, e.n, e.chain
		}
	}
}
