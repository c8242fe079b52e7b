package producers

import "math"

// KeptBatches is how many batches of a producer are remembered: as many as a
// client may have in flight, so that any of them can be retried.
const KeptBatches = 5

// maxChain bounds Entry.chain: half of all sequences, or one that is to come
// could be taken for one of before the last wrap.
const maxChain = 1 << 30

// None stands for an offset, sequence, epoch or producer that is not there.
const None = -1

// Written is what is remembered of a batch.
type Written struct {
	LastSeq    int32
	LastOffset int64
	// OffsetDelta is last minus first offset, and so of the sequences too.
	OffsetDelta int32
	TimestampMs int64 // the batch's largest
}

// FirstOffset is the batch's base offset.
func (w Written) FirstOffset() int64 { return w.LastOffset - int64(w.OffsetDelta) }

// FirstSeq is the batch's base sequence.
func (w Written) FirstSeq() int32 { return seqMinus(w.LastSeq, w.OffsetDelta) }

// seqMinus counts back; sequences wrap from 2^31-1 to 0.
func seqMinus(seq, n int32) int32 {
	if seq >= n {
		return seq - n
	}
	return math.MaxInt32 - (n - seq) + 1
}

// sequences is how many there are from first up to, and without, next.
func sequences(first, next int32) int64 {
	return (int64(next) - int64(first)) & math.MaxInt32
}

// follows reports whether a batch beginning at next is the one after last,
// which is None before the first.
func follows(last, next int32) bool {
	if last == math.MaxInt32 {
		return next == 0
	}
	return next == last+1
}

// Entry is what is known of a producer.
type Entry struct {
	ProducerID       int64
	Epoch            int16 // None before the first
	CoordinatorEpoch int32 // of the last transaction marker; None
	LastTimestampMs  int64 // None
	// TxnFirstOffset is where the open transaction began; None.
	TxnFirstOffset int64

	batches [KeptBatches]Written // oldest first
	n       int32
	// chain counts the sequences, back from the last batch's, that were written
	// without a gap in this epoch, as far as is known: at most maxChain.
	chain int32

	// seenMs is when this broker last heard of the producer, by its own clock:
	// the batches' timestamps are the client's and may be years off.
	seenMs int64
}

func emptyEntry(producerID int64) Entry {
	return Entry{ProducerID: producerID, Epoch: None, CoordinatorEpoch: None, LastTimestampMs: None, TxnFirstOffset: None}
}

// Batches returns the remembered batches of the current epoch, oldest first.
func (e *Entry) Batches() []Written { return e.batches[:e.n] }

// Last returns the newest batch of the current epoch; ok is false when there is none.
func (e *Entry) Last() (w Written, ok bool) {
	if e.n == 0 {
		return Written{LastSeq: None, LastOffset: None}, false
	}
	return e.batches[e.n-1], true
}

// LastSeq is the last sequence of the current epoch, or None.
func (e *Entry) LastSeq() int32 {
	w, _ := e.Last()
	return w.LastSeq
}

// LastOffset is the last offset of a data batch of the current epoch, or None.
// The cleaner keeps the batch that holds it.
func (e *Entry) LastOffset() int64 {
	w, _ := e.Last()
	return w.LastOffset
}

// InTransaction reports whether a transaction is open.
func (e *Entry) InTransaction() bool { return e.TxnFirstOffset != None }

func (e *Entry) find(b *Batch) (Written, bool) {
	if b.Epoch != e.Epoch {
		return Written{}, false
	}
	for _, w := range e.Batches() {
		if w.FirstSeq() == b.FirstSeq && w.LastSeq == b.LastSeq {
			return w, true
		}
	}
	return Written{}, false
}

// forgotten reports that a batch was certainly written, before all that are
// remembered: its sequences lie in the chain that the oldest of these ends.
// A batch that reaches into them, and is none of them, is in doubt.
func (e *Entry) forgotten(b *Batch) bool {
	if b.Epoch != e.Epoch || e.n == 0 || b.FirstSeq < 0 {
		return false
	}
	older := int64(e.chain)
	for _, w := range e.Batches() {
		older -= int64(w.OffsetDelta) + 1
	}
	back := sequences(b.FirstSeq, e.batches[0].FirstSeq())
	return back <= older && b.LastOffset-b.FirstOffset < back
}

func (e *Entry) setEpoch(epoch int16) {
	if e.Epoch != epoch {
		e.Epoch, e.n = epoch, 0
	}
}

// extend makes a batch that is about to be added the end of the chain, or the
// beginning of another one where it does not follow.
func (e *Entry) extend(w Written) {
	if e.n == 0 || !follows(e.LastSeq(), w.FirstSeq()) {
		e.chain = 0
	}
	if w.LastSeq < 0 {
		e.chain = 0 // a coordinator's: it has none
		return
	}
	e.chain = int32(min(int64(e.chain)+int64(w.OffsetDelta)+1, maxChain))
}

func (e *Entry) add(b *Batch) {
	e.setEpoch(b.Epoch)
	w := Written{
		LastSeq:     b.LastSeq,
		LastOffset:  b.LastOffset,
		OffsetDelta: int32(b.LastOffset - b.FirstOffset),
		TimestampMs: b.TimestampMs,
	}
	e.extend(w)
	if e.n == KeptBatches {
		copy(e.batches[:], e.batches[1:])
		e.n--
	}
	e.batches[e.n] = w
	e.n++
	e.LastTimestampMs = b.TimestampMs
}
