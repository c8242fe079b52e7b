package storage

import (
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
)

// producerBatch is what producer state needs of a batch.
func producerBatch(b batch.Batch) producers.Batch {
	out := producers.Batch{
		ProducerID: b.ProducerID(), FirstOffset: b.BaseOffset(), LastOffset: b.LastOffset(),
		TimestampMs: b.MaxTimestamp(),
	}
	if out.ProducerID < 0 {
		return out
	}
	out.Epoch, out.FirstSeq, out.LastSeq = b.ProducerEpoch(), b.BaseSequence(), b.LastSequence()
	out.Transactional, out.Control = b.Transactional(), b.Control()
	if out.Control {
		m, ok, err := batch.ParseMarker(b)
		if err != nil || !ok {
			out.MarkerMissing = true // another kind of control record, or the cleaner took it
		} else {
			out.Marker = producers.Marker{Commit: m.Commit, CoordinatorEpoch: m.CoordinatorEpoch}
		}
	}
	return out
}

// applyProducers makes the change that was analyzed, once its batches are
// written, and notes transactions that were aborted. l.mu is held.
func (l *Log) applyProducers(s *segment.Segment, u *producers.Update) {
	for _, t := range u.Completed {
		if !t.Aborted {
			continue
		}
		if err := s.AddAborted(segment.Aborted{ProducerID: t.ProducerID, First: t.FirstOffset, Last: t.LastOffset, LastStable: t.LastStableOffset}); err != nil {
			// A reader would be shown aborted records: the log must be recovered first.
			l.d.fail(err)
		}
	}
	l.prods.Apply(u)
	l.noteUndecided()
}

func (l *Log) noteUndecided() { l.undecided.Store(l.prods.FirstUnstable(0) >= 0) }

// FirstUnstable is the first offset of an open or undecided (above hw) transaction, or -1.
func (l *Log) FirstUnstable(hw int64) int64 {
	if !l.undecided.Load() {
		return -1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.prods.FirstUnstable(hw)
	if first >= 0 {
		first = max(first, l.Start())
	}
	return first
}

// Producers returns what is known of the log's producers, sorted by id.
func (l *Log) Producers() []producers.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prods.Entries()
}

// StartVerification returns the guard under which a transaction's coordinator
// is asked (KIP-890), for Txn.Guard; nil when nothing has to be asked.
func (l *Log) StartVerification(now time.Time, producerID int64, epoch int16, firstSeq int32, bumps bool) (*producers.Guard, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prods.StartVerification(producerID, epoch, firstSeq, bumps, now)
}
