package batch

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// maxRecordErrors bounds the errors listed for one batch: a request of a
// megabyte can hold 150 000 records that are wrong, and each would be answered
// with a sentence. Clients take records that are not listed as failed with the
// batch, which they are.
const maxRecordErrors = 1000

// RecordError says what is wrong with one record (KIP-467).
type RecordError struct {
	BatchIndex int32 // the record's place in the batch, from 0
	Message    string
}

// RecordsError refuses a batch for some of its records. It unwraps to the code:
// INVALID_TIMESTAMP when a timestamp is among the reasons, else INVALID_RECORD.
// Errors is in order and lists the first thousand.
type RecordsError struct {
	Errors []RecordError
	Code   *kerr.Error
}

func (e *RecordsError) Error() string {
	if len(e.Errors) == 0 {
		return e.Code.Error()
	}
	first := e.Errors[0]
	return fmt.Sprintf("%d records are refused, the first at index %d: %s: %v", len(e.Errors), first.BatchIndex, first.Message, e.Code)
}

func (e *RecordsError) Unwrap() error { return e.Code }

func (e *RecordsError) add(index int32, code *kerr.Error, message string) {
	if code == kerr.InvalidTimestamp || e.Code == nil {
		e.Code = code
	}
	e.Errors = append(e.Errors, RecordError{BatchIndex: index, Message: message})
}

// walked is what a walk over the records found: the largest timestamp, and the
// first record that has it.
type walked struct {
	max int64
	at  int32
}

// walk checks every record of b: structure, offset deltas, keys, timestamps. It
// allocates nothing unless a record is refused.
func (r *Rules) walk(b Batch, plain []byte) (walked, error) {
	var rec Record
	var bad string
	var refused *RecordsError
	found := walked{max: NoTimestamp, at: 0}
	base, count := b.BaseTimestamp(), b.Count()
	for i := range count {
		if plain, bad = rec.decode(plain); bad != "" {
			return found, fmt.Errorf("%w: record %d of %d: %s", ErrMalformed, i, count, bad)
		}
		if rec.OffsetDelta != i {
			return found, fmt.Errorf("%w: record %d of %d has offset delta %d", ErrMalformed, i, count, rec.OffsetDelta)
		}
		ts := base + rec.TimestampDelta
		if ts > found.max {
			found = walked{max: ts, at: i}
		}
		if r.Compact && rec.Key == nil || r.outOfRange(ts) {
			if refused == nil {
				refused = new(RecordsError)
			}
			if len(refused.Errors) < maxRecordErrors {
				r.refuse(refused, i, &rec, ts)
			}
		}
	}
	if len(plain) > 0 {
		return found, fmt.Errorf("%w: %d bytes follow the last record", ErrMalformed, len(plain))
	}
	if refused != nil {
		return found, refused
	}
	return found, nil
}

// refuse notes why the record at index i cannot be taken, its key first.
func (r *Rules) refuse(e *RecordsError, i int32, rec *Record, ts int64) {
	if r.Compact && rec.Key == nil {
		e.add(i, kerr.InvalidRecord, "A record of a compacted topic needs a key.")
		return
	}
	e.add(i, kerr.InvalidTimestamp, fmt.Sprintf("Timestamp %d is out of range: the broker's clock says %d, and up to %d ms before and %d ms after it are allowed.",
		ts, r.NowMs, r.TimestampBeforeMaxMs, r.TimestampAfterMaxMs))
}

// outOfRange reports a timestamp too far from the broker's clock (KIP-937).
// Records without a timestamp pass, and all do when the broker sets the time.
// Sums wrap, as they do for Apache Kafka.
func (r *Rules) outOfRange(ts int64) bool {
	if r.LogAppendTime || ts == NoTimestamp {
		return false
	}
	age := r.NowMs - ts
	return age > r.TimestampBeforeMaxMs || -age > r.TimestampAfterMaxMs
}

// doubtful reports a header whose timestamps do not settle that every record's
// is in range. By custom the base timestamp is the first record's. One that
// claims a broker's timestamp says nothing of the records' own.
func (r *Rules) doubtful(b Batch) bool {
	if r.LogAppendTime {
		return false
	}
	base, top := b.BaseTimestamp(), b.MaxTimestamp()
	return b.LogAppendTime() || top < base || r.outOfRange(base) || r.outOfRange(top)
}

// stampedByClient reports a batch that claims a broker's timestamp, where that
// is refused: on a topic that stamps by itself, and where there is no timestamp
// behind the claim. Else the claim is dropped, and the records' own timestamps
// count; Apache Kafka does the same.
func (r *Rules) stampedByClient(b Batch) bool {
	return b.LogAppendTime() && (r.LogAppendTime || b.MaxTimestamp() == NoTimestamp)
}

// stampedErrors refuses every record of a batch that claims a broker's
// timestamp.
func stampedErrors(count int32) error {
	e := new(RecordsError)
	for i := range min(count, maxRecordErrors) {
		e.add(i, kerr.InvalidTimestamp, "A producer may not set the timestamp type LogAppendTime.")
	}
	return e
}
