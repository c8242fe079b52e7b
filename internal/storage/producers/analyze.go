package producers

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Origin says where batches come from, and so what is checked.
type Origin int8

// Origins.
const (
	// FromClient: epoch, sequence and duplicates are checked.
	FromClient Origin = iota
	// FromCoordinator: only the epoch is; a coordinator's batches have no sequence.
	FromCoordinator
	// FromReplication: nothing is; a leader has checked. Also for replay.
	FromReplication
)

// Batch is what matters here of a record batch whose offsets are assigned.
type Batch struct {
	ProducerID        int64 // negative: no producer, only the offsets count
	Epoch             int16
	FirstSeq, LastSeq int32
	FirstOffset       int64
	LastOffset        int64
	TimestampMs       int64 // the largest
	Transactional     bool
	Control           bool
	Marker            Marker // of a control batch
	MarkerMissing     bool   // a control batch whose marker the cleaner took
}

// Marker is a transaction marker.
type Marker struct {
	Commit           bool
	CoordinatorEpoch int32
}

// Options of Analyze.
type Options struct {
	Origin Origin
	Now    time.Time
	// TxnVersion is the transaction.version under which a marker was asked for:
	// from 2 on the coordinator raises the epoch for every marker (KIP-890).
	// Data batches and FromReplication ignore it.
	TxnVersion int16
	// Guard is what StartVerification gave for this append; nil for none.
	Guard *Guard
	// RequireVerification refuses a transactional batch that belongs to no open
	// transaction and has no valid Guard.
	RequireVerification bool
}

// CompletedTxn is a transaction that a marker ends: a row of the transaction
// index when it was aborted.
type CompletedTxn struct {
	ProducerID  int64
	FirstOffset int64
	LastOffset  int64 // the marker's
	Aborted     bool
	// LastStableOffset is where, after the marker, the first other transaction
	// is undecided, or the marker's next offset.
	LastStableOffset int64
}

// Update is what an append would change. It belongs to the State and is valid
// until the next Analyze or Begin.
type Update struct {
	// Duplicate: a batch was there already; First to Last are the original's
	// offsets, and TimestampMs its timestamp. Nothing is to be written or applied.
	// Where the original is too old to be remembered, First is None, TimestampMs
	// too, and Last is an offset that it does not lie above.
	Duplicate   bool
	First, Last int64
	TimestampMs int64
	// Completed holds the transactions that end, in order.
	Completed []CompletedTxn

	changes []change
	index   map[int64]int // into changes, when there are many
	started []openTxn
	end     int64
	live    bool
	opts    Options
}

type change struct {
	next    Entry
	cleared bool // a guard of the producer ends
}

// duplicate completes the update as one of a duplicate.
func (u *Update) duplicate(s *State, first, last, timestampMs int64) {
	u.reset(s.end, u.opts)
	u.live = false
	u.Duplicate, u.First, u.Last, u.TimestampMs = true, first, last, timestampMs
}

// indexFrom is the number of producers in one append from which a map beats a walk.
const indexFrom = 8

func (u *Update) reset(end int64, opts Options) {
	*u = Update{Completed: u.Completed[:0], changes: u.changes[:0], index: u.index, started: u.started[:0], end: end, live: true, opts: opts}
	clear(u.index)
}

// change returns the entry as the update leaves it, made from the current one.
func (u *Update) change(s *State, producerID int64) *change {
	if len(u.changes) < indexFrom {
		for i := range u.changes {
			if u.changes[i].next.ProducerID == producerID {
				return &u.changes[i]
			}
		}
	} else {
		if len(u.index) == 0 {
			if u.index == nil {
				u.index = make(map[int64]int)
			}
			for i := range u.changes {
				u.index[u.changes[i].next.ProducerID] = i
			}
		}
		if i, ok := u.index[producerID]; ok {
			return &u.changes[i]
		}
		u.index[producerID] = len(u.changes)
	}
	next := emptyEntry(producerID)
	if e := s.producers[producerID]; e != nil {
		next = e.Entry
	}
	u.changes = append(u.changes, change{next: next})
	return &u.changes[len(u.changes)-1]
}

// Analyze checks the batches of one append, in order, and says what they would
// change: Begin, and Add for each.
func (s *State) Analyze(batches []Batch, opts Options) (*Update, error) {
	u := s.Begin(opts)
	for i := range batches {
		if err := s.Add(u, &batches[i]); err != nil {
			return nil, err
		}
		if u.Duplicate {
			break
		}
	}
	return u, nil
}

// Begin starts the analysis of an append. It ends any earlier update that was
// not applied.
func (s *State) Begin(opts Options) *Update {
	u := &s.scratch
	u.reset(s.end, opts)
	return u
}

// Add checks the next batch of the append. An error makes the update useless,
// and a duplicate, as which the whole append then counts, completes it: Apache
// Kafka does the same, where a client sends one batch a partition. Errors wrap
// *kerr.Error: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
// INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED.
func (s *State) Add(u *Update, b *Batch) error {
	if u != &s.scratch || !u.live {
		panic("producers: update has failed, is complete, or is not the newest")
	}
	if b.ProducerID < 0 {
		u.end = max(u.end, b.LastOffset+1)
		return nil
	}
	if u.opts.Origin == FromClient {
		if e := s.producers[b.ProducerID]; e != nil {
			if w, ok := e.find(b); ok {
				u.duplicate(s, w.FirstOffset(), w.LastOffset, w.TimestampMs)
				return nil
			}
			if e.forgotten(b) {
				// Apache Kafka refuses it as out of order, for ever: its producer would
				// count as failed what is there.
				u.duplicate(s, None, e.batches[0].FirstOffset()-1, None)
				return nil
			}
		}
	}
	if err := s.analyze(u, b); err != nil {
		u.live = false
		return err
	}
	u.end = max(u.end, b.LastOffset+1)
	return nil
}

func (s *State) analyze(u *Update, b *Batch) error {
	opts := &u.opts
	if opts.Origin != FromReplication && opts.RequireVerification && s.unverified(b, opts.Guard) {
		return refuse(kerr.InvalidTxnState, b, "the batch belongs to no transaction that is open or was verified")
	}
	if b.Control && b.MarkerMissing {
		return nil
	}
	c := u.change(s, b.ProducerID)
	if b.Control {
		return s.marker(u, c, b)
	}
	e := &c.next
	if b.Epoch < e.Epoch && opts.Origin != FromReplication {
		return refuse(kerr.InvalidProducerEpoch, b, "the epoch is below %d", e.Epoch)
	}
	if opts.Origin == FromClient {
		if err := s.checkSequence(e, b); err != nil {
			return err
		}
	}
	// A follower takes what its leader has: refusing would only stop it for ever.
	if e.InTransaction() && !b.Transactional && opts.Origin != FromReplication {
		return refuse(kerr.InvalidTxnState, b, "the producer has an open transaction, and this batch is outside of it")
	}
	e.add(b)
	if b.Transactional && !e.InTransaction() {
		e.TxnFirstOffset = b.FirstOffset
		u.started = append(u.started, openTxn{first: b.FirstOffset, producerID: b.ProducerID})
	}
	c.cleared = c.cleared || b.Transactional
	return nil
}

// checkSequence compares with the entry as earlier batches of the append leave it.
func (s *State) checkSequence(e *Entry, b *Batch) error {
	if g := s.guards[b.ProducerID]; g != nil {
		if k := s.producers[b.ProducerID]; g.bumps && b.FirstSeq != 0 && (k == nil || k.n == 0) {
			return refuse(kerr.OutOfOrderSequenceNumber, b, "a transactional producer that is not known here begins with sequence 0")
		}
		if b.FirstSeq > g.lowestSeq {
			return refuse(kerr.OutOfOrderSequenceNumber, b, "sequence %d was seen first and is not written yet", g.lowestSeq)
		}
	}
	switch {
	case e.Epoch == None:
		// Nothing is known, perhaps because retention took it all: any sequence
		// is a beginning.
		return nil
	case b.Epoch != e.Epoch:
		if b.FirstSeq != 0 {
			return refuse(kerr.OutOfOrderSequenceNumber, b, "a new epoch begins with sequence 0, and the last epoch was %d", e.Epoch)
		}
	case !follows(e.LastSeq(), b.FirstSeq):
		return refuse(kerr.OutOfOrderSequenceNumber, b, "the last sequence was %d", e.LastSeq())
	}
	return nil
}

// marker ends the producer's transaction, if one is open.
func (s *State) marker(u *Update, c *change, b *Batch) error {
	e := &c.next
	if u.opts.Origin != FromReplication {
		if err := checkMarker(e, b, u.opts.TxnVersion); err != nil {
			return err
		}
	}
	if e.InTransaction() {
		u.Completed = append(u.Completed, CompletedTxn{
			ProducerID:       b.ProducerID,
			FirstOffset:      e.TxnFirstOffset,
			LastOffset:       b.LastOffset,
			Aborted:          !b.Marker.Commit,
			LastStableOffset: s.stableAfter(u, b),
		})
	}
	e.setEpoch(b.Epoch)
	e.CoordinatorEpoch = b.Marker.CoordinatorEpoch
	e.LastTimestampMs = b.TimestampMs
	e.TxnFirstOffset = None
	c.cleared = true
	return nil
}

func checkMarker(e *Entry, b *Batch, txnVersion int16) error {
	stale := b.Epoch < e.Epoch
	if txnVersion >= 2 && b.Epoch == e.Epoch && e.InTransaction() {
		// The coordinator raised the epoch for its marker, so this one is late
		// and would end a later transaction. Without an open one it is the
		// retry of a marker that was written, and harmless (KAFKA-19999).
		stale = true
	}
	if stale {
		return refuse(kerr.InvalidProducerEpoch, b, "the marker's epoch is stale, the last one was %d", e.Epoch)
	}
	if b.Marker.CoordinatorEpoch < e.CoordinatorEpoch {
		return refuse(kerr.TransactionCoordinatorFenced, b, "the marker is of coordinator epoch %d, and the last one was of %d",
			b.Marker.CoordinatorEpoch, e.CoordinatorEpoch)
	}
	return nil
}

// stableAfter is the last stable offset once the marker b has ended its
// producer's transaction, in the middle of update u.
func (s *State) stableAfter(u *Update, b *Batch) int64 {
	open := func(t openTxn) bool {
		if t.producerID == b.ProducerID {
			return false
		}
		for i := range u.Completed {
			if u.Completed[i].FirstOffset == t.first {
				return false
			}
		}
		return true
	}
	for _, list := range [2][]openTxn{s.open, u.started} {
		for _, t := range list {
			if open(t) {
				return t.first
			}
		}
	}
	return b.LastOffset + 1
}

func refuse(code *kerr.Error, b *Batch, format string, args ...any) error {
	return fmt.Errorf("producer %d epoch %d sequence %d at offset %d: %s: %w",
		b.ProducerID, b.Epoch, b.FirstSeq, b.FirstOffset, fmt.Sprintf(format, args...), code)
}
