package storage

import (
	"errors"
	"slices"
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

// lockState locks the log that has the producers' state: this one, or what took
// its place since the caller got it.
func (l *Log) lockState() *Log {
	for {
		l.mu.Lock()
		next := l.next.Load()
		if next == nil {
			return l
		}
		l.mu.Unlock()
		l = next
	}
}

// FirstUnstable is the first offset of an open or undecided (above hw) transaction, or -1.
func (l *Log) FirstUnstable(hw int64) int64 {
	if !l.undecided.Load() {
		return -1
	}
	l = l.lockState()
	defer l.mu.Unlock()
	first := l.prods.FirstUnstable(hw)
	if first >= 0 {
		first = max(first, l.Start())
	}
	return first
}

// Producers returns what is known of the log's producers, sorted by id.
func (l *Log) Producers() []producers.Entry {
	l = l.lockState()
	defer l.mu.Unlock()
	return l.prods.Entries()
}

// StartVerification returns the guard under which a transaction's coordinator
// is asked (KIP-890), for Txn.Guard; nil when nothing has to be asked.
func (l *Log) StartVerification(now time.Time, producerID int64, epoch int16, firstSeq int32, bumps bool) (*producers.Guard, error) {
	l = l.lockState()
	defer l.mu.Unlock()
	return l.prods.StartVerification(producerID, epoch, firstSeq, bumps, now)
}

// loadSnapshot loads the newest snapshot at or below offset most. One above the
// high watermark does not serve a log with transactions: it holds none that
// ended, and their markers may not be decided yet.
func (l *Log) loadSnapshot(most int64) (producers.Loaded, error) {
	dir := l.dir.Path()
	loaded, err := producers.LoadNewest(l.m.fs, dir, 0, most)
	hw := l.HighWatermark()
	if err != nil || loaded.Offset <= hw || !slices.ContainsFunc(loaded.Entries, marked) {
		return loaded, err
	}
	lower, err := producers.LoadNewest(l.m.fs, dir, 0, hw)
	lower.Damaged = append(loaded.Damaged, lower.Damaged...)
	return lower, err
}

// marked reports that a producer's transaction was ended by a marker.
func marked(e producers.Entry) bool { return e.CoordinatorEpoch >= 0 }

// recallEntries is how far before a snapshot the log is read again, in entries
// of the offset index: each stands for a batch or for index.interval.bytes of
// them, so the headers of some fifty producers' batches in flight are among
// them, and the cost is bounded whatever their size.
const recallEntries = 256

// recall tells producer state, restored from the snapshot as of end, the
// batches before the last one of each producer: any of them may be sent again.
func (l *Log) recall(st *producers.State, segs []*segment.Segment, end int64) error {
	if st.Len() == 0 || len(segs) == 0 || end <= segs[0].Base() {
		return nil
	}
	last := find(segs, end-1)
	first, from, left := last, int64(0), recallEntries
	var err error
	for {
		from, left, err = segs[first].Back(end, left)
		left-- // the start of a segment is not in its index
		if err != nil || left <= 0 || first == 0 {
			break
		}
		first--
	}
	r := st.Recall()
	for i := first; err == nil && i <= last; i++ {
		err = recallSegment(r, segs[i], from, end)
	}
	r.Finish()
	var d *segment.Damage
	if errors.As(err, &d) {
		l.logs.Error("segment is damaged", "tp", l.tp, "err", err)
		return nil // what producers sent before it is not known
	}
	return err
}

func recallSegment(r *producers.Recall, s *segment.Segment, from, end int64) error {
	pos, err := s.Find(from)
	if err != nil {
		return err
	}
	return s.Walk(pos, func(b batch.Batch, _, _ int64) bool {
		if b.BaseOffset() >= end {
			return false
		}
		pb := producerBatch(b)
		r.Add(&pb)
		return true
	})
}
