package producers

import "math"

// KeptBatches is how many batches of a producer are remembered: as many as a
// client may have in flight, so that any of them can be retried.
const KeptBatches = 5

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
	n       int

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

func (e *Entry) setEpoch(epoch int16) {
	if e.Epoch != epoch {
		e.Epoch, e.n = epoch, 0
	}
}

func (e *Entry) add(b *Batch) {
	e.setEpoch(b.Epoch)
	if e.n == KeptBatches {
		copy(e.batches[:], e.batches[1:])
		e.n--
	}
	e.batches[e.n] = Written{
		LastSeq:     b.LastSeq,
		LastOffset:  b.LastOffset,
		OffsetDelta: int32(b.LastOffset - b.FirstOffset),
		TimestampMs: b.TimestampMs,
	}
	e.n++
	e.LastTimestampMs = b.TimestampMs
}
