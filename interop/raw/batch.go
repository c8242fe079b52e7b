//go:build interop

package raw

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Codec numbers as the lowest three attribute bits carry them.
const (
	None = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// CodecNames are the names by codec number, as configuration spells them.
var CodecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// Batch describes a record batch v2 to encode. Fields left zero are encoded
// as zero, except those that NewBatch sets.
type Batch struct {
	Records     []kmsg.Record
	Codec       int
	Attributes  int16 // or-ed with the codec
	LeaderEpoch int32
	First, Max  int64 // timestamps, ms
	ProducerID  int64
	Epoch       int16
	Sequence    int32
	BaseOffset  int64
}

// NewBatch is a batch without a producer around one record per value, keys
// nil, all at timestamp ts.
func NewBatch(ts int64, values ...string) Batch {
	b := Batch{First: ts, Max: ts, ProducerID: -1, Epoch: -1, Sequence: -1, LeaderEpoch: -1}
	for i, v := range values {
		b.Records = append(b.Records, kmsg.Record{OffsetDelta: int32(i), Value: []byte(v)})
	}
	return b
}

// Encode gives the batch's bytes with a right length and CRC.
func (b Batch) Encode() ([]byte, error) {
	var recs []byte
	for _, r := range b.Records {
		r.Length = 0
		body := r.AppendTo(nil)[1:] // Length 0 takes one byte
		recs = binary.AppendVarint(recs, int64(len(body)))
		recs = append(recs, body...)
	}
	packed, err := Pack(b.Codec, recs)
	if err != nil {
		return nil, err
	}
	kb := kmsg.RecordBatch{
		FirstOffset:          b.BaseOffset,
		Length:               int32(49 + len(packed)),
		PartitionLeaderEpoch: b.LeaderEpoch,
		Magic:                2,
		Attributes:           b.Attributes | int16(b.Codec),
		LastOffsetDelta:      int32(len(b.Records) - 1),
		FirstTimestamp:       b.First,
		MaxTimestamp:         b.Max,
		ProducerID:           b.ProducerID,
		ProducerEpoch:        b.Epoch,
		FirstSequence:        b.Sequence,
		NumRecords:           int32(len(b.Records)),
		Records:              packed,
	}
	out := kb.AppendTo(nil)
	Seal(out)
	return out, nil
}

// MustEncode is Encode for batches that a test writes down.
func (b Batch) MustEncode() []byte {
	out, err := b.Encode()
	if err != nil {
		panic(err)
	}
	return out
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal recomputes the CRC of an encoded batch.
func Seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
}

// Pack compresses the records of a batch.
func Pack(codec int, recs []byte) ([]byte, error) {
	var cc kgo.CompressionCodec
	switch codec {
	case None:
		return recs, nil
	case Gzip:
		cc = kgo.GzipCompression()
	case Snappy:
		cc = kgo.SnappyCompression()
	case LZ4:
		cc = kgo.Lz4Compression()
	case Zstd:
		cc = kgo.ZstdCompression()
	default:
		return nil, fmt.Errorf("codec %d", codec)
	}
	c, err := kgo.DefaultCompressor(cc)
	if err != nil {
		return nil, err
	}
	out, used := c.Compress(new(bytes.Buffer), recs)
	if int(used) != codec {
		return nil, fmt.Errorf("compressor used codec %d, want %d", used, codec)
	}
	return bytes.Clone(out), nil
}

// Header is the fixed part of a stored or fetched batch.
type Header struct {
	kmsg.RecordBatch
	Size int // whole batch
}

// Codec is the codec number in the attributes.
func (h Header) Codec() int { return int(h.Attributes & 7) }

// Walk calls f with each complete batch in b, in order, and reports how many
// bytes at the end are no complete batch.
func Walk(b []byte, f func(Header, []byte) error) (rest int, err error) {
	for len(b) >= 61 {
		size := 12 + int(int32(binary.BigEndian.Uint32(b[8:])))
		if size < 61 || size > len(b) {
			break
		}
		var h Header
		if err := h.ReadFrom(b[:size]); err != nil {
			return len(b), err
		}
		h.Size = size
		if err := f(h, b[:size]); err != nil {
			return len(b), err
		}
		b = b[size:]
	}
	return len(b), nil
}

// Unpack decompresses and decodes the records of a batch.
func (h Header) Unpack() ([]kmsg.Record, error) {
	recs := h.Records
	if h.Codec() != None {
		var err error
		if recs, err = kgo.DefaultDecompressor().Decompress(recs, kgo.CompressionCodecType(h.Codec())); err != nil {
			return nil, err
		}
	}
	var out []kmsg.Record
	for range h.NumRecords {
		n, used := binary.Varint(recs)
		if used <= 0 || int64(len(recs)-used) < n {
			return nil, fmt.Errorf("record %d of %d runs over the batch", len(out), h.NumRecords)
		}
		var r kmsg.Record
		if err := r.ReadFrom(recs[:used+int(n)]); err != nil {
			return nil, err
		}
		out = append(out, r)
		recs = recs[used+int(n):]
	}
	if len(recs) != 0 {
		return nil, fmt.Errorf("%d bytes behind the last record", len(recs))
	}
	return out, nil
}
