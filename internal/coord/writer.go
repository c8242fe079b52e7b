package coord

import (
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
)

// writer builds the batches of one append: one, unless the producer changes
// (safety 22) or a single step is larger than a batch may be. A step is else in
// one batch, so that it is whole on the disk or not at all.
type writer struct {
	encoding batch.Encoding
	max      int // bytes of a batch

	builder batch.Builder
	buf     []byte
	ends    []int // of the batches in buf
	nowMs   int64
	txn     Producer // of the batch that is being built
	records int
	err     error
}

// keepBuffer is the size up to which a buffer outlives its run.
const keepBuffer = 1 << 20

func (w *writer) reset(now time.Time) {
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
	w.buf, w.ends, w.nowMs, w.records, w.err = w.buf[:0], w.ends[:0], now.UnixMilli(), 0, nil
	w.begin(NoProducer)
}

func (w *writer) begin(txn Producer) {
	o := batch.Options{Encoding: w.encoding, Transactional: txn != NoProducer}
	if txn != NoProducer {
		o.Producer = &batch.Producer{ID: txn.ID, Epoch: txn.Epoch, Sequence: batch.NoSequence}
	}
	w.txn = txn
	w.builder.Reset(o)
}

// recordOverhead is what a record takes beside key and value, at most.
const recordOverhead = 32

// add appends the records of one step; by is whose transaction they are of, or nil.
func (w *writer) add(records []Record, by *Producer) {
	if len(records) == 0 {
		return
	}
	txn := NoProducer
	if by != nil {
		txn = *by // it is the machine's, and may be another at the next step
	}
	if w.builder.Count() > 0 && w.txn != txn {
		w.close()
	}
	if w.builder.Count() == 0 {
		w.begin(txn)
	}
	for _, r := range records {
		if w.builder.Count() > 0 && w.builder.Size()+len(r.Key)+len(r.Value)+recordOverhead > w.max {
			w.close()
			w.begin(txn)
		}
		w.builder.Append(w.nowMs, r.Key, r.Value)
	}
	w.records += len(records)
}

// fits says that the records of a step can go with what is there already; alone, any do.
func (w *writer) fits(records []Record) bool {
	size := len(w.buf) + w.builder.Size()
	for _, r := range records {
		size += len(r.Key) + len(r.Value) + recordOverhead
	}
	return w.records == 0 || len(records) == 0 || size <= w.max
}

func (w *writer) close() {
	if w.builder.Count() == 0 || w.err != nil {
		return
	}
	w.buf, _, w.err = w.builder.Build(w.buf)
	w.ends = append(w.ends, len(w.buf))
	w.begin(NoProducer)
}

// batchesAtOnce bounds an append, in full batches: a segment of the topic holds more.
const batchesAtOnce = 3

// finish gives the batches, in the order of the steps, in lots of what one append
// takes. They are valid until reset.
func (w *writer) finish() (appends [][]byte, records int, err error) {
	w.close()
	from, to := 0, 0
	for _, end := range w.ends {
		if to > from && end-from > batchesAtOnce*w.max {
			appends = append(appends, w.buf[from:to])
			from = to
		}
		to = end
	}
	if to > from {
		appends = append(appends, w.buf[from:to])
	}
	return appends, w.records, w.err
}
