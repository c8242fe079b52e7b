package batch

import (
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// zstdWindow bounds what an encoder remembers and what a consumer's decoder
// must allocate; batches are seldom larger.
const zstdWindow = 1 << 20

// compressLimit is Compress, giving up with ErrTooLarge once dst would grow by
// more than limit bytes.
func compressLimit(dst []byte, e Encoding, src []byte, limit int) ([]byte, error) {
	if err := e.Check(); err != nil {
		return dst, err
	}
	out, err := dst, error(nil)
	switch e.Codec {
	case None:
		out = append(dst, src...)
	case Gzip:
		out, err = gzipCompress(dst, e.Level, src, limit)
	case Snappy:
		out = snappyCompress(dst, src)
	case LZ4:
		out, err = lz4Compress(dst, e.Level, src, limit)
	case Zstd:
		out = zstdCompress(dst, e.Level, src)
	}
	if err != nil {
		return dst, err
	}
	if len(out)-len(dst) > limit {
		return dst, tooLarge(limit)
	}
	return out, nil
}

func tooLarge(limit int) error {
	return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
}

// sink is an io.Writer into a slice that refuses to grow it beyond max.
type sink struct {
	b   []byte
	max int
}

func (s *sink) Write(p []byte) (int, error) {
	if len(p) > s.max-len(s.b) {
		return 0, ErrTooLarge
	}
	s.b = append(s.b, p...)
	return len(p), nil
}

func (s *sink) open(dst []byte, limit int) {
	s.b, s.max = dst, math.MaxInt
	if limit < math.MaxInt-len(dst) {
		s.max = len(dst) + limit
	}
}

// take returns the bytes and forgets them.
func (s *sink) take() []byte {
	b := s.b
	s.b = nil
	return b
}

type gzipEncoder struct {
	w   *gzip.Writer
	out sink
}

var gzipEncoders [11]sync.Pool // by level + 1

func gzipCompress(dst []byte, level int, src []byte, limit int) ([]byte, error) {
	if level == 0 {
		level = gzip.DefaultCompression
	}
	pool := &gzipEncoders[level+1]
	e, ok := pool.Get().(*gzipEncoder)
	if !ok {
		w, err := gzip.NewWriterLevel(nil, level)
		if err != nil {
			return nil, err
		}
		e = &gzipEncoder{w: w}
	}
	defer pool.Put(e)
	e.out.open(dst, limit)
	e.w.Reset(&e.out)
	_, err := e.w.Write(src)
	if err == nil {
		err = e.w.Close()
	}
	return e.out.take(), err
}

type lz4Encoder struct {
	w   *lz4.Writer
	out sink
}

// lz4Default is Apache Kafka's default level, at which it takes the fast
// compressor and not the high one.
const lz4Default = 9

var lz4Encoders [18]sync.Pool // by level

func newLZ4Encoder(level int) (*lz4Encoder, error) {
	e := &lz4Encoder{w: lz4.NewWriter(nil)}
	speed := lz4.Fast
	if level != lz4Default {
		speed = lz4.Level1 << (min(level, 9) - 1)
	}
	// The frame as Apache Kafka's clients write it: independent blocks of 64 KiB,
	// no checksums, no content size.
	return e, e.w.Apply(
		lz4.CompressionLevelOption(speed),
		lz4.BlockSizeOption(lz4.Block64Kb),
		lz4.ChecksumOption(false),
		lz4.ConcurrencyOption(1),
	)
}

func lz4Compress(dst []byte, level int, src []byte, limit int) ([]byte, error) {
	if level == 0 {
		level = lz4Default
	}
	pool := &lz4Encoders[level]
	e, ok := pool.Get().(*lz4Encoder)
	if !ok {
		var err error
		if e, err = newLZ4Encoder(level); err != nil {
			return nil, err
		}
	}
	defer pool.Put(e)
	e.out.open(dst, limit)
	e.w.Reset(&e.out)
	_, err := e.w.Write(src)
	if err == nil {
		err = e.w.Close()
	}
	return e.out.take(), err
}

// snappyCompress writes the framing of the Java library, which every client
// reads.
func snappyCompress(dst, src []byte) []byte {
	blocks := (len(src) + 32<<10 - 1) / (32 << 10)
	need := 16 + blocks*4 + s2.MaxEncodedLen(len(src)) + blocks*16
	if cap(dst)-len(dst) < need {
		dst = append(make([]byte, 0, len(dst)+need), dst...)
	}
	// Encode appends a header only to an empty slice, so it gets one that begins
	// where dst ends.
	tail := xerial.Encode(dst[len(dst):len(dst):cap(dst)], src)
	return append(dst, tail...)
}

// zstdEncoders are by zstd.EncoderLevel, 1 to 4: the library has four speeds
// for Apache Kafka's 22 levels. An encoder that only encodes whole bodies has
// no goroutines, so the pool may drop it.
var zstdEncoders [5]sync.Pool

func zstdCompress(dst []byte, level int, src []byte) []byte {
	speed := zstd.SpeedDefault
	if level != 0 {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	pool := &zstdEncoders[speed]
	e, ok := pool.Get().(*zstd.Encoder)
	if !ok {
		e = newZstdEncoder(speed)
	}
	defer pool.Put(e)
	return e.EncodeAll(src, dst)
}

func newZstdEncoder(speed zstd.EncoderLevel) *zstd.Encoder {
	e, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(speed),
		zstd.WithWindowSize(zstdWindow),
		zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false), // the batch has its own
		zstd.WithZeroFrames(true),
	)
	if err != nil {
		panic("batch: options of the zstd encoder: " + err.Error())
	}
	return e
}
