package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// HeaderSize is the size in bytes of a v2 batch's header, records excluded.
const HeaderSize = 61

// NoTimestamp stands for a record or batch without a timestamp.
const NoTimestamp = -1

// Offsets of the header's fields; doc.go has the drawing.
const (
	atLength        = 8
	atLeaderEpoch   = 12
	atMagic         = 16
	atCRC           = 17
	atAttributes    = 21
	atLastDelta     = 23
	atBaseTimestamp = 27
	atMaxTimestamp  = 35
	atProducerID    = 43
	atProducerEpoch = 51
	atBaseSequence  = 53
	atCount         = 57

	frameSize = atLength + 4 // base offset and length: what the length does not count
	// minLegacyLength is the smallest length a magic 0 message can state.
	minLegacyLength = 14
)

// Attribute bits.
const (
	maskCodec         = 0x07
	bitLogAppendTime  = 0x08
	bitTransactional  = 0x10
	bitControl        = 0x20
	bitDeleteHorizon  = 0x40
	maskWrittenByHand = maskCodec | bitLogAppendTime | bitTransactional | bitControl
)

var (
	// ErrCorrupt marks bytes that are not a record batch or not what was
	// summed. It carries CORRUPT_MESSAGE.
	ErrCorrupt error = &marker{"corrupt record batch", kerr.CorruptMessage}

	// ErrLegacy marks a message set of magic 0 or 1, which Apache Kafka 4 and
	// Barnabas do not take. It carries INVALID_RECORD.
	ErrLegacy error = &marker{"message format older than v2", kerr.InvalidRecord}

	// ErrMalformed marks records, or a compressed body, that break the format
	// under a good checksum: who built the batch is wrong, not who carried it.
	// It carries INVALID_RECORD, which clients do not retry.
	ErrMalformed error = &marker{"malformed records", kerr.InvalidRecord}

	// ErrTooLarge marks a batch, or a compressed body, above its limit. It
	// carries MESSAGE_TOO_LARGE, on which producers split the batch.
	ErrTooLarge error = &marker{"record batch too large", kerr.MessageTooLarge}
)

// marker is an error to ask for with errors.Is that also carries a code.
type marker struct {
	text string
	code *kerr.Error
}

func (m *marker) Error() string { return m.text }
func (m *marker) Unwrap() error { return m.code }

// Batch is a view over the bytes of exactly one record batch v2, header
// included. Its methods may be called on what Next returned or Builder built;
// on shorter bytes they panic.
type Batch []byte

// Next splits the first batch off buf without a copy. Only the frame is
// checked (length, magic); the checksum is CRCValid's business.
//
// Errors: io.EOF when buf is empty; io.ErrUnexpectedEOF when buf ends within
// the batch; ErrLegacy for a whole message of magic 0 or 1; ErrCorrupt for
// anything else that cannot be a batch. A zeroed tail is corrupt.
func Next(buf []byte) (b Batch, rest []byte, err error) {
	if len(buf) == 0 {
		return nil, nil, io.EOF
	}
	if len(buf) < frameSize {
		return nil, nil, io.ErrUnexpectedEOF
	}
	length := int32(binary.BigEndian.Uint32(buf[atLength:]))
	if length < minLegacyLength || length > math.MaxInt32-frameSize {
		return nil, nil, fmt.Errorf("%w: length %d", ErrCorrupt, length)
	}
	if len(buf) <= atMagic {
		return nil, nil, io.ErrUnexpectedEOF
	}
	size := int(length) + frameSize
	switch magic := int8(buf[atMagic]); {
	case magic == 2 && size < HeaderSize:
		return nil, nil, fmt.Errorf("%w: %d bytes, fewer than a header's %d", ErrCorrupt, size, HeaderSize)
	case magic == 2 && size > len(buf):
		return nil, nil, io.ErrUnexpectedEOF
	case magic == 0 || magic == 1:
		if size > len(buf) {
			return nil, nil, io.ErrUnexpectedEOF
		}
		return nil, nil, fmt.Errorf("%w: magic %d", ErrLegacy, magic)
	case magic != 2:
		return nil, nil, fmt.Errorf("%w: magic %d", ErrCorrupt, magic)
	}
	return Batch(buf[:size:size]), buf[size:], nil
}

// IsTruncated reports whether err of Next says that the bytes end too early,
// rather than that they are wrong.
func IsTruncated(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }

func (b Batch) int16(at int) int16 { return int16(binary.BigEndian.Uint16(b[at:])) }
func (b Batch) int32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b Batch) int64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

func (b Batch) put16(at int, v int16) { binary.BigEndian.PutUint16(b[at:], uint16(v)) }
func (b Batch) put32(at int, v int32) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
func (b Batch) put64(at int, v int64) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }

// Size is the batch's whole size in bytes, header included.
func (b Batch) Size() int { return len(b) }

// BaseOffset is the offset of the first record.
func (b Batch) BaseOffset() int64 { return b.int64(0) }

// LastOffset is the offset of the last record, kept or compacted away.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset that follows the batch.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// SetBaseOffset moves the batch to offset; the checksum does not cover it.
func (b Batch) SetBaseOffset(offset int64) { b.put64(0, offset) }

// LeaderEpoch is the epoch of the leader that appended the batch; -1 unknown.
func (b Batch) LeaderEpoch() int32 { return b.int32(atLeaderEpoch) }

// SetLeaderEpoch stamps the leader's epoch; the checksum does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) { b.put32(atLeaderEpoch, epoch) }

// Magic is the format version, 2.
func (b Batch) Magic() int8 { return int8(b[atMagic]) }

// Attributes are the attribute bits; doc.go names them.
func (b Batch) Attributes() int16 { return b.int16(atAttributes) }

// Codec is what compresses the records. It may be unknown: see Codec.Valid.
func (b Batch) Codec() Codec { return Codec(b[atAttributes+1] & maskCodec) }

// LogAppendTime reports whether MaxTimestamp, set by the leader, is the
// timestamp of every record.
func (b Batch) LogAppendTime() bool { return b[atAttributes+1]&bitLogAppendTime != 0 }

// Transactional reports whether the batch is part of a transaction.
func (b Batch) Transactional() bool { return b[atAttributes+1]&bitTransactional != 0 }

// Control reports whether the batch holds a control record.
func (b Batch) Control() bool { return b[atAttributes+1]&bitControl != 0 }

// DeleteHorizon is the time in ms after which the cleaner may drop the batch's
// tombstones (KIP-534); ok is false while none is set.
func (b Batch) DeleteHorizon() (ms int64, ok bool) {
	if b[atAttributes+1]&bitDeleteHorizon == 0 {
		return 0, false
	}
	return b.BaseTimestamp(), true
}

// LastOffsetDelta is the last offset less the base offset.
func (b Batch) LastOffsetDelta() int32 { return b.int32(atLastDelta) }

// BaseTimestamp is what the records' timestamp deltas add to, in ms.
func (b Batch) BaseTimestamp() int64 { return b.int64(atBaseTimestamp) }

// MaxTimestamp is the largest timestamp of the records, in ms.
func (b Batch) MaxTimestamp() int64 { return b.int64(atMaxTimestamp) }

// SetLogAppendTime makes ms the timestamp of every record: it sets the
// attribute and the max timestamp, and sums again.
func (b Batch) SetLogAppendTime(ms int64) {
	b.setStamp(true, ms)
	b.setCRC()
}

func (b Batch) setStamp(logAppendTime bool, ms int64) {
	b[atAttributes+1] &^= bitLogAppendTime
	if logAppendTime {
		b[atAttributes+1] |= bitLogAppendTime
	}
	b.put64(atMaxTimestamp, ms)
}

// restamp is setStamp for a batch whose checksum is known to be right; it keeps
// it right without reading the records again.
func (b Batch) restamp(logAppendTime bool, ms int64) {
	if b.LogAppendTime() == logAppendTime && b.MaxTimestamp() == ms {
		return
	}
	before := crc32c(b[atAttributes:atProducerID])
	b.setStamp(logAppendTime, ms)
	change := before ^ crc32c(b[atAttributes:atProducerID])
	b.putCRC(b.CRC() ^ shiftCRC(change, len(b)-atProducerID))
}

// ProducerID is the idempotent producer's id; -1 none.
func (b Batch) ProducerID() int64 { return b.int64(atProducerID) }

// ProducerEpoch fences older incarnations of the producer; -1 none.
func (b Batch) ProducerEpoch() int16 { return b.int16(atProducerEpoch) }

// BaseSequence is the sequence number of the first record; -1 none.
func (b Batch) BaseSequence() int32 { return b.int32(atBaseSequence) }

// LastSequence is the sequence number of the last record. Numbers wrap from
// 2^31-1 to 0; -1 when the batch has none.
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base == NoSequence {
		return NoSequence
	}
	return AddSequence(base, b.LastOffsetDelta())
}

// NoSequence is the base sequence of a batch without an idempotent producer.
const NoSequence = -1

// AddSequence adds n to the sequence number seq, wrapping from 2^31-1 to 0.
func AddSequence(seq, n int32) int32 {
	return int32((int64(seq) + int64(n)) & math.MaxInt32)
}

// Count is the number of records.
func (b Batch) Count() int32 { return b.int32(atCount) }

// Payload is the records as stored, compressed or not.
func (b Batch) Payload() []byte { return b[HeaderSize:] }

// Offset is the offset of a record of this batch.
func (b Batch) Offset(r *Record) int64 { return b.BaseOffset() + int64(r.OffsetDelta) }

// Timestamp is the timestamp in ms of a record of this batch, by the batch's
// timestamp type.
func (b Batch) Timestamp(r *Record) int64 {
	if b.LogAppendTime() {
		return b.MaxTimestamp()
	}
	return b.BaseTimestamp() + r.TimestampDelta
}
