package batch

import (
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Rules are what a topic and a request ask of the batches to append.
type Rules struct {
	NowMs           int64 // the broker's clock
	MaxMessageBytes int   // max.message.bytes: a whole stored batch, header included

	LogAppendTime        bool  // message.timestamp.type
	TimestampBeforeMaxMs int64 // message.timestamp.before.max.ms
	TimestampAfterMaxMs  int64 // message.timestamp.after.max.ms

	Compact   bool      // cleanup.policy has compact: every record needs a key
	Encoding  *Encoding // compression.type; nil: producer, batches stay as they are
	AllowZstd bool      // the request's version is 7 or later (KIP-110)

	// Full opens every compressed body (barnabas.produce.validation=full). Without
	// it one is opened only for another codec, for keys, or when the header's
	// timestamps leave doubt.
	Full bool

	// PlainLimit bounds in bytes what a compressed body may open to; 0 is the
	// larger of DefaultPlainLimit and four times MaxMessageBytes.
	PlainLimit int

	// Coordinator says that the broker itself made the batches: several at once
	// and control batches are then allowed, and records are not looked at.
	Coordinator bool
}

// Result is what Validate found, and the bytes to append.
type Result struct {
	// Records is what to append: the caller's buffer, in which timestamp fields
	// may have been corrected, or another one when Recoded. Base offset and leader
	// epoch are the log's to set.
	Records []byte

	Count int // records

	// MaxTimestampMs is the largest timestamp, NoTimestamp when there is none.
	// MaxTimestampDelta is the offset of the first record that has it, less the
	// base offset of its batch; -1 when the records were not looked at.
	MaxTimestampMs    int64
	MaxTimestampDelta int32

	AppendTimeMs int64 // NowMs with LogAppendTime, else -1
	Recoded      bool  // compressed anew to the topic's codec

	own *buffer
}

// Release gives back memory that Validate took; Records is invalid after it
// when Recoded.
func (r *Result) Release() {
	if r.own != nil {
		r.own.release()
		r.own, r.Records = nil, nil
	}
}

// Validate checks what a produce request brought for one partition, in one
// pass, and makes it ready to append. It follows Apache Kafka's log validator
// and is stricter where that lets a broken batch through: bytes after the
// batch, offset deltas that do not count 0, 1, 2 ..., a transactional batch
// without a producer. buf may be changed in place, also on an error.
//
// Errors carry the protocol's code: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE,
// UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD, INVALID_TIMESTAMP; the last two
// may be a *RecordsError that names the records at fault.
func Validate(buf []byte, r Rules) (Result, error) {
	if r.Coordinator {
		return validateOwn(buf, &r)
	}
	b, err := onlyBatch(buf, &r)
	if err != nil {
		return Result{}, err
	}
	if err := checkHeader(b); err != nil {
		return Result{}, err
	}
	if r.stampedByClient(b) {
		return Result{}, stampedErrors(b.Count())
	}
	return validateBody(b, &r)
}

// onlyBatch takes the one batch that a produce request may bring for a
// partition (KIP-98), in the order of Apache Kafka's checks.
func onlyBatch(buf []byte, r *Rules) (Batch, error) {
	b, rest, err := Next(buf)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("no record batch: %w", kerr.InvalidRecord)
	case IsTruncated(err):
		return nil, fmt.Errorf("the record batch is cut off: %w", kerr.InvalidRecord)
	case err != nil:
		return nil, err
	case b.Codec() == Zstd && !r.AllowZstd:
		return nil, fmt.Errorf("zstd needs version 7 of produce: %w", kerr.UnsupportedCompressionType)
	case len(rest) > 0:
		return nil, fmt.Errorf("%d bytes follow the one record batch that is allowed: %w", len(rest), kerr.InvalidRecord)
	case b.BaseOffset() != 0:
		return nil, fmt.Errorf("base offset %d, must be 0: %w", b.BaseOffset(), kerr.InvalidRecord)
	case len(b) > r.MaxMessageBytes:
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(b), r.MaxMessageBytes)
	case !b.CRCValid():
		return nil, fmt.Errorf("%w: checksum %08x, the bytes sum to %08x", ErrCorrupt, b.CRC(), b.sum())
	}
	return b, nil
}

// checkHeader checks what a client's header says about itself.
func checkHeader(b Batch) error {
	codec, count, last := b.Codec(), b.Count(), b.LastOffsetDelta()
	invalid := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, kerr.InvalidRecord)...)
	}
	switch {
	case !codec.Valid():
		return fmt.Errorf("%v does not exist: %w", codec, kerr.UnsupportedCompressionType)
	case last < 0:
		return invalid("last offset delta %d", last)
	case count <= 0:
		return invalid("a count of %d records", count)
	case int64(last)+1 != int64(count):
		return invalid("last offset delta %d does not fit a count of %d records", last, count)
	case !codec.canHold(len(b.Payload()), count):
		return invalid("%d bytes of %v cannot hold %d records", len(b.Payload()), codec, count)
	case b.Control():
		return invalid("clients may not write control batches")
	case b.ProducerID() >= 0 && b.BaseSequence() < 0:
		return invalid("producer %d without a sequence number (%d)", b.ProducerID(), b.BaseSequence())
	case b.ProducerID() >= 0 && b.ProducerEpoch() < 0:
		return invalid("producer %d without an epoch (%d)", b.ProducerID(), b.ProducerEpoch())
	case b.Transactional() && b.ProducerID() < 0:
		return invalid("a transactional batch without a producer id")
	}
	return nil
}

// validateBody looks at the records where the rules ask for it, encodes them
// anew where the topic's codec is another, and sets the timestamps.
func validateBody(b Batch, r *Rules) (Result, error) {
	res := Result{Records: b, Count: int(b.Count()), AppendTimeMs: -1, MaxTimestampDelta: -1}
	codec := b.Codec()
	recode := r.Encoding != nil && r.Encoding.Codec != codec
	plain := b.Payload()
	found := walked{max: b.MaxTimestamp(), at: -1}

	if codec == None || recode || r.Full || r.Compact || r.doubtful(b) {
		if codec != None {
			p, err := decompress(codec, plain, r.plainLimit(recode))
			if err != nil {
				return Result{}, err
			}
			defer p.release()
			plain = p.b
		}
		var err error
		if found, err = r.walk(b, plain); err != nil {
			return Result{}, err
		}
	}
	if recode {
		res.own = getBuffer(min(HeaderSize+len(plain), r.MaxMessageBytes) + 512)
		out, err := b.recode(res.own.b, *r.Encoding, plain, r.MaxMessageBytes)
		if err != nil {
			res.own.release()
			return Result{}, fmt.Errorf("as %v: %w", r.Encoding.Codec, err)
		}
		res.own.b, res.Records, res.Recoded = out, out, true
	}
	r.stamp(&res, found)
	return res, nil
}

// stamp sets the timestamps of the result's batch and its checksum.
func (r *Rules) stamp(res *Result, found walked) {
	b := Batch(res.Records)
	if r.LogAppendTime {
		found = walked{max: r.NowMs, at: 0}
		res.AppendTimeMs = r.NowMs
	}
	res.MaxTimestampMs, res.MaxTimestampDelta = found.max, found.at
	if res.Recoded {
		b.setStamp(r.LogAppendTime, found.max)
		b.setCRC()
		return
	}
	b.restamp(r.LogAppendTime, found.max)
}

// plainLimit bounds what a body may open to. What becomes uncompressed must fit
// a batch in the end, so more need not be opened.
func (r *Rules) plainLimit(recode bool) int {
	limit := r.PlainLimit
	if limit <= 0 {
		limit = max(DefaultPlainLimit, 4*r.MaxMessageBytes)
	}
	if recode && r.Encoding.Codec == None {
		limit = min(limit, max(r.MaxMessageBytes-HeaderSize, 1))
	}
	return limit
}

// validateOwn passes what the broker itself built, after frame, checksum and
// size.
func validateOwn(buf []byte, r *Rules) (Result, error) {
	res := Result{Records: buf, MaxTimestampMs: NoTimestamp, MaxTimestampDelta: -1, AppendTimeMs: -1}
	if r.LogAppendTime {
		res.AppendTimeMs = r.NowMs
	}
	for rest := buf; len(rest) > 0 || res.Count == 0; {
		var b Batch
		var err error
		if b, rest, err = Next(rest); err != nil {
			return Result{}, fmt.Errorf("a coordinator's batch: %w", err)
		}
		if !b.CRCValid() {
			return Result{}, fmt.Errorf("%w: a coordinator's batch has another checksum", ErrCorrupt)
		}
		if len(b) > r.MaxMessageBytes {
			return Result{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(b), r.MaxMessageBytes)
		}
		if b.Count() <= 0 {
			return Result{}, fmt.Errorf("a coordinator's batch with a count of %d records: %w", b.Count(), kerr.InvalidRecord)
		}
		if r.LogAppendTime {
			b.restamp(true, r.NowMs)
		}
		res.Count += int(b.Count())
		res.MaxTimestampMs = max(res.MaxTimestampMs, b.MaxTimestamp())
	}
	return res, nil
}
