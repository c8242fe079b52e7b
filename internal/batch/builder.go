package batch

import (
	"encoding/binary"
	"errors"
	"math"
)

// Producer identifies who wrote a batch, for idempotence and transactions.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32 // of the first record; NoSequence in control batches
}

// Options are what a batch's header says beside what its records decide.
type Options struct {
	Encoding      Encoding
	BaseOffset    int64
	LeaderEpoch   int32
	Producer      *Producer // nil: none
	Transactional bool
	Control       bool // never compressed, whatever Encoding says
}

// Header is a record header to build. Apache Kafka wants keys in UTF-8.
type Header struct {
	Key   string
	Value []byte // nil: null
}

// Builder builds one batch after another: Reset, Append, Build. The zero value
// is ready. It copies what it is given.
type Builder struct {
	opts  Options
	recs  []byte // encoded records
	count int32
	base  int64 // timestamps in ms
	max   int64
}

// Reset forgets the records and begins a batch under o.
func (b *Builder) Reset(o Options) {
	*b = Builder{opts: o, recs: b.recs[:0]}
}

// Append adds a record at the next offset. tsMs is its timestamp in ms, or
// NoTimestamp; a nil key or value is null.
func (b *Builder) Append(tsMs int64, key, value []byte, headers ...Header) {
	if b.count == 0 {
		b.base, b.max = tsMs, tsMs
	}
	b.max = max(b.max, tsMs)
	b.recs = appendRecord(b.recs, b.count, tsMs-b.base, key, value, headers)
	b.count++
}

// Count is the number of records appended.
func (b *Builder) Count() int { return int(b.count) }

// Size is the size in bytes of the batch if it is built uncompressed.
func (b *Builder) Size() int { return HeaderSize + len(b.recs) }

// Build appends the batch to dst, and returns it alone as well; the builder
// keeps its records until Reset. A batch without records or of 2 GiB is an
// error, and so is an encoding that does not exist.
func (b *Builder) Build(dst []byte) (out []byte, built Batch, err error) {
	if b.count == 0 {
		return dst, nil, errors.New("a batch needs a record")
	}
	at := len(dst)
	var header [HeaderSize]byte
	out = append(dst, header[:]...)
	e := b.opts.Encoding
	if b.opts.Control {
		e = Encoding{}
	}
	if out, err = Compress(out, e, b.recs); err != nil {
		return dst, nil, err
	}
	if len(out)-at > math.MaxInt32 {
		return dst, nil, tooLarge(math.MaxInt32)
	}
	built = Batch(out[at:len(out):len(out)])
	b.fill(built, e.Codec)
	return out, built, nil
}

func (b *Builder) fill(h Batch, codec Codec) {
	attributes := int16(codec)
	if b.opts.Transactional {
		attributes |= bitTransactional
	}
	if b.opts.Control {
		attributes |= bitControl
	}
	p := Producer{ID: -1, Epoch: -1, Sequence: NoSequence}
	if b.opts.Producer != nil {
		p = *b.opts.Producer
	}
	h.SetBaseOffset(b.opts.BaseOffset)
	h.SetLeaderEpoch(b.opts.LeaderEpoch)
	h.put16(atAttributes, attributes)
	h.put32(atLastDelta, b.count-1)
	h.put64(atBaseTimestamp, b.base)
	h.put64(atMaxTimestamp, b.max)
	h.put64(atProducerID, p.ID)
	h.put16(atProducerEpoch, p.Epoch)
	h.put32(atBaseSequence, p.Sequence)
	h.put32(atCount, b.count)
	h.seal()
}

// seal sets length, magic and checksum, which follow from the rest.
func (b Batch) seal() {
	b.put32(atLength, int32(len(b)-frameSize))
	b[atMagic] = 2
	b.setCRC()
}

func appendRecord(dst []byte, offsetDelta int32, tsDelta int64, key, value []byte, headers []Header) []byte {
	size := 1 + varintLen(tsDelta) + varintLen(int64(offsetDelta)) +
		nullableLen(key) + nullableLen(value) + varintLen(int64(len(headers)))
	for _, h := range headers {
		size += varintLen(int64(len(h.Key))) + len(h.Key) + nullableLen(h.Value)
	}
	dst = appendVarint(dst, int64(size))
	dst = append(dst, 0) // attributes
	dst = appendVarint(dst, tsDelta)
	dst = appendVarint(dst, int64(offsetDelta))
	dst = appendNullable(dst, key)
	dst = appendNullable(dst, value)
	dst = appendVarint(dst, int64(len(headers)))
	for _, h := range headers {
		dst = appendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendNullable(dst, h.Value)
	}
	return dst
}

func nullableLen(p []byte) int {
	if p == nil {
		return 1
	}
	return varintLen(int64(len(p))) + len(p)
}

func appendNullable(dst, p []byte) []byte {
	if p == nil {
		return appendVarint(dst, -1)
	}
	dst = appendVarint(dst, int64(len(p)))
	return append(dst, p...)
}

// recode appends to dst the batch that b becomes with its plain records in
// another encoding: every header field that a producer sets is kept. The
// result's checksum is not yet right. ErrTooLarge when it exceeds limit bytes.
func (b Batch) recode(dst []byte, e Encoding, plain []byte, limit int) ([]byte, error) {
	at := len(dst)
	out := append(dst, b[:HeaderSize]...)
	out, err := compressLimit(out, e, plain, limit-HeaderSize)
	if err != nil {
		return dst, err
	}
	h := Batch(out[at:])
	kept := b.Attributes() & (maskWrittenByHand &^ maskCodec)
	binary.BigEndian.PutUint16(h[atAttributes:], uint16(kept|int16(e.Codec)))
	h.put32(atLength, int32(len(h)-frameSize))
	return out, nil
}
