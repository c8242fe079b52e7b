package batch

import (
	"fmt"
	"math"
)

// Codec is a compression codec as the low three attribute bits carry it.
type Codec int8

// The codecs. 5 to 7 are no one's.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd

	codecs = iota
)

// DefaultPlainLimit bounds, in bytes, what a compressed body may open to where
// the caller names no limit.
const DefaultPlainLimit = 64 << 20

var codecNames = [codecs]string{"none", "gzip", "snappy", "lz4", "zstd"}

// Valid reports whether c is a codec that exists.
func (c Codec) Valid() bool { return c >= None && c < codecs }

func (c Codec) String() string {
	if !c.Valid() {
		return fmt.Sprintf("codec(%d)", int8(c))
	}
	return codecNames[c]
}

// ParseCodec reads a codec's name as clients and topics spell it; "uncompressed"
// is none.
func ParseCodec(name string) (Codec, error) {
	if name == "uncompressed" {
		return None, nil
	}
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("no codec is named %q (none, uncompressed, gzip, snappy, lz4, zstd)", name)
}

// maxRatio bounds plain size over compressed size, by each format: deflate
// codes 258 bytes in 2 bits, a snappy copy is 64 bytes in 3, lz4 lengths grow
// by 255 a byte, a zstd block of 4 bytes repeats one byte 128 KiB long.
var maxRatio = [codecs]int64{1, 1032, 64, 256, 32 << 10}

// canHold reports whether n compressed bytes could hold so many records. It
// catches a count that is made up without opening the body.
func (c Codec) canHold(n int, count int32) bool {
	return int64(count)*minRecordSize <= int64(n)*maxRatio[c]
}

// Encoding is a codec and how hard it works. Level 0 is the codec's default,
// which is Apache Kafka's: gzip -1, lz4 9, zstd 3.
type Encoding struct {
	Codec Codec
	Level int
}

// Levels are the least and greatest level of the codec, as Apache Kafka's
// compression.*.level keys have them (KIP-390); 0, 0 where it has none. gzip
// also takes -1, its default.
func (c Codec) Levels() (least, greatest int) {
	switch c {
	case Gzip:
		return 1, 9
	case LZ4:
		return 1, 17
	case Zstd:
		return -1 << 17, 22
	}
	return 0, 0
}

// Check reports a codec or a level that does not exist.
func (e Encoding) Check() error {
	if !e.Codec.Valid() {
		return fmt.Errorf("%v does not exist", e.Codec)
	}
	least, greatest := e.Codec.Levels()
	if e.Level == 0 || e.Level >= least && e.Level <= greatest || e.Codec == Gzip && e.Level == -1 {
		return nil
	}
	if greatest == 0 {
		return fmt.Errorf("%v has no levels, not even %d", e.Codec, e.Level)
	}
	return fmt.Errorf("%v has levels %d to %d, not %d", e.Codec, least, greatest, e.Level)
}

// Compress appends src, compressed, to dst. An encoding that Check refuses is
// an error.
func Compress(dst []byte, e Encoding, src []byte) ([]byte, error) {
	return compressLimit(dst, e, src, math.MaxInt)
}

// Decompress appends to dst what src opens to, at most limit bytes, or
// DefaultPlainLimit when that is 0. More is ErrTooLarge; a body that does not
// follow its format is ErrMalformed. On an error dst is returned as it was.
func Decompress(dst []byte, c Codec, src []byte, limit int) ([]byte, error) {
	p, err := decompress(c, src, limit)
	if err != nil {
		return dst, err
	}
	dst = append(dst, p.b...)
	p.release()
	return dst, nil
}

// TopicEncoding turns compression.type and the three level keys of a topic into
// the Encoding of its stored batches: nil for "producer", which keeps every
// batch as it came.
func TopicEncoding(compressionType string, gzipLevel, lz4Level, zstdLevel int) (*Encoding, error) {
	if compressionType == "producer" {
		return nil, nil
	}
	c, err := ParseCodec(compressionType)
	if err != nil {
		return nil, err
	}
	e := &Encoding{Codec: c}
	switch c {
	case Gzip:
		e.Level = gzipLevel
	case LZ4:
		e.Level = lz4Level
	case Zstd:
		e.Level = zstdLevel
	}
	return e, e.Check()
}
