package batch

import (
	"fmt"
	"iter"
)

// minRecordSize is the size of the smallest record: no key, value or headers,
// and every number in one byte.
const minRecordSize = 7

// Record is a view of one record; its slices alias the bytes that it was read
// from, or the iterator's buffer when the batch is compressed.
type Record struct {
	Attributes     int8
	OffsetDelta    int32
	TimestampDelta int64 // ms
	Key            []byte
	Value          []byte // nil: null, a tombstone where compaction is on

	headers []byte // encoded, checked, their count left out
	count   int32
}

// HeaderCount is the number of headers.
func (r *Record) HeaderCount() int { return int(r.count) }

// Headers yields the headers' keys and values in order, decoding as it goes. A
// nil value is null. Keys may repeat.
func (r *Record) Headers() iter.Seq2[[]byte, []byte] {
	p, count := r.headers, r.count
	return func(yield func(key, value []byte) bool) {
		i := 0
		for range count {
			var key, value []byte
			// The bounds were checked when the record was read.
			key, i = nullable(p, i)
			value, i = nullable(p, i)
			if i < 0 || !yield(key, value) {
				return
			}
		}
	}
}

// decode reads the record at the front of p and returns what follows it; bad
// says in a few words what is wrong with it, and is empty when nothing is.
//
// Nearly every record is below 8 KiB, within eight seconds of the batch's first
// and without headers: then each number takes one or two bytes, and a straight
// line reads them. What strays from it is read again by decodeAny.
func (r *Record) decode(p []byte) (rest []byte, bad string) {
	size, i := peek(p, 0)
	end := i + int(size>>1)
	if i == 0 || size&1 != 0 || i == end || end > len(p) {
		return r.decodeAny(p)
	}
	attributes := p[i]
	timestamp, atOffset := peek(p, i+1)
	offset, atKey := peek(p, atOffset)
	keySize, key := peek(p, atKey)
	keyEnd := key
	if keySize&1 == 0 {
		keyEnd += int(keySize >> 1)
	}
	valueSize, value := peek(p, keyEnd)
	valueEnd := value
	if valueSize&1 == 0 {
		valueEnd += int(valueSize >> 1)
	}
	// A peek that failed is 0, and those after it read the wrong place; one that
	// strayed beyond the record cannot end where the record does.
	if atOffset == 0 || atKey == 0 || key == 0 || value == 0 || valueEnd+1 != end || p[valueEnd] != 0 {
		return r.decodeAny(p)
	}
	*r = Record{
		Attributes:     int8(attributes),
		OffsetDelta:    int32(offset>>1) ^ -int32(offset&1),
		TimestampDelta: int64(timestamp>>1) ^ -int64(timestamp&1),
	}
	if keySize&1 == 0 {
		r.Key = p[key:keyEnd:keyEnd]
	}
	if valueSize&1 == 0 {
		r.Value = p[value:valueEnd:valueEnd]
	}
	return p[end:], ""
}

// decodeAny is decode for every record.
func (r *Record) decodeAny(p []byte) (rest []byte, bad string) {
	size, i := varint(p, 0)
	if i < 0 || size < 0 || int(size) > len(p)-i {
		return nil, "a record is longer than the bytes that are left"
	}
	body, rest := p[i:i+int(size)], p[i+int(size):]
	if len(body) == 0 {
		return nil, "a record is empty"
	}
	r.Attributes = int8(body[0])
	if r.TimestampDelta, i = varlong(body, 1); i < 0 {
		return nil, "a record has a bad timestamp delta"
	}
	if r.OffsetDelta, i = varint(body, i); i < 0 {
		return nil, "a record has a bad offset delta"
	}
	if r.Key, i = nullable(body, i); i < 0 {
		return nil, "a record has a bad key length"
	}
	if r.Value, i = nullable(body, i); i < 0 {
		return nil, "a record has a bad value length"
	}
	if r.count, i = varint(body, i); i < 0 || r.count < 0 || int(r.count) > len(body)-i {
		return nil, "a record has a bad count of headers"
	}
	r.headers = body[i:]
	if r.count > 0 {
		i = skipHeaders(body, i, r.count)
	}
	if i < 0 {
		return nil, "a record has a bad header"
	}
	if i != len(body) {
		return nil, "a record is shorter than it says"
	}
	return rest, ""
}

// nullable reads a length and so many bytes at p[i:]; any negative length is
// null, as for Apache Kafka. The index returned is -1 when p is too short.
func nullable(p []byte, i int) ([]byte, int) {
	n, i := varint(p, i)
	if i < 0 || int(n) > len(p)-i {
		return nil, -1
	}
	if n < 0 {
		return nil, i
	}
	end := i + int(n)
	return p[i:end:end], end
}

func skipHeaders(p []byte, i int, count int32) int {
	for range count {
		n, at := varint(p, i)
		if at < 0 || n < 0 || int(n) > len(p)-at {
			return -1
		}
		if _, i = nullable(p, at+int(n)); i < 0 {
			return -1
		}
	}
	return i
}

// Iterator walks the records of one batch:
//
//	it := batch.Records(b, 0)
//	defer it.Close()
//	for it.Next() {
//		use(it.Record())
//	}
//	return it.Err()
//
// Nothing is allocated for an uncompressed batch.
type Iterator struct {
	rest  []byte
	left  int32
	rec   Record
	err   error
	plain *buffer // holds the plain records when the batch is compressed
}

// Records iterates over b. The plain size of a compressed body is limited to
// limit bytes, or DefaultPlainLimit when that is 0; more is ErrTooLarge. A body
// that does not hold exactly Count records is ErrMalformed. Checksum and the
// order of the offsets are not looked at.
func Records(b Batch, limit int) Iterator {
	it := Iterator{left: b.Count(), rest: b.Payload()}
	if it.left < 0 {
		it.fail("the count of records is negative")
		return it
	}
	if codec := b.Codec(); codec != None && (it.left > 0 || len(it.rest) > 0) {
		it.plain, it.err = decompress(codec, it.rest, limit)
		if it.err != nil {
			it.left, it.rest = 0, nil
			return it
		}
		it.rest = it.plain.b
	}
	return it
}

// Next moves to the next record; false at the end and after an error.
func (it *Iterator) Next() bool {
	if it.left == 0 {
		if len(it.rest) > 0 && it.err == nil {
			it.fail("bytes follow the last record")
		}
		return false
	}
	rest, bad := it.rec.decode(it.rest)
	if bad != "" {
		it.fail(bad)
		return false
	}
	it.rest = rest
	it.left--
	return true
}

func (it *Iterator) fail(what string) {
	it.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	it.left, it.rest = 0, nil
}

// Record is the current record, valid until Next or Close.
func (it *Iterator) Record() *Record { return &it.rec }

// Err is the error that ended the iteration, if one did.
func (it *Iterator) Err() error { return it.err }

// Close gives the iterator's memory back; records read from a compressed batch
// are invalid after it. It may be called more than once.
func (it *Iterator) Close() {
	it.plain.release()
	it.plain = nil
	it.rest, it.left = nil, 0
}
