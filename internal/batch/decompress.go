package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// decompress opens src into a pooled buffer that the caller releases. No more
// than limit bytes, rounded up to a size class, are ever taken for it; for zstd
// one block more.
func decompress(c Codec, src []byte, limit int) (*buffer, error) {
	if limit <= 0 {
		limit = DefaultPlainLimit
	}
	var p *buffer
	var err error
	switch c {
	case None:
		if len(src) > limit {
			return nil, tooLarge(limit)
		}
		p = getBuffer(len(src))
		p.b = append(p.b, src...)
	case Gzip:
		p, err = gzipDecompress(src, limit)
	case Snappy:
		p, err = snappyDecompress(src, limit)
	case LZ4:
		p, err = lz4Decompress(src, limit)
	case Zstd:
		p, err = zstdDecompress(src, limit)
	default:
		err = fmt.Errorf("%w: %v does not exist", ErrMalformed, c)
	}
	if err == nil {
		return p, nil
	}
	p.release()
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, fmt.Errorf("%v body: %w", c, err)
	case errors.Is(err, ErrMalformed):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %v body: %v", ErrMalformed, c, err)
}

// firstGuess is the room that a body gets to begin with.
func firstGuess(src []byte, limit int) int { return min(4*len(src)+512, limit) }

// readAll drains r into a pooled buffer, which is returned on errors too.
func readAll(r io.Reader, guess, limit int) (*buffer, error) {
	p := getBuffer(guess)
	for {
		room := min(cap(p.b), limit)
		if len(p.b) == room {
			if room < limit {
				p = p.grow(min(2*room, limit))
				continue
			}
			return p, atEnd(r, limit)
		}
		n, err := r.Read(p.b[len(p.b):room])
		p.b = p.b[:len(p.b)+n]
		if err == io.EOF {
			return p, nil
		}
		if err != nil {
			return p, err
		}
	}
}

// atEnd is nil when r has nothing more to give.
func atEnd(r io.Reader, limit int) error {
	one := getBuffer(1)
	defer one.release()
	n, err := io.ReadFull(r, one.b[:1])
	switch {
	case n > 0:
		return tooLarge(limit)
	case err == io.EOF:
		return nil
	}
	return err
}

type gzipDecoder struct {
	in bytes.Reader
	r  gzip.Reader
}

var gzipDecoders = sync.Pool{New: func() any { return new(gzipDecoder) }}

func gzipDecompress(src []byte, limit int) (*buffer, error) {
	d := gzipDecoders.Get().(*gzipDecoder)
	defer func() {
		d.in.Reset(nil)
		gzipDecoders.Put(d)
	}()
	d.in.Reset(src)
	if err := d.r.Reset(&d.in); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return readAll(&d.r, firstGuess(src, limit), limit)
}

type lz4Decoder struct {
	in bytes.Reader
	r  *lz4.Reader
}

var lz4Decoders = sync.Pool{New: func() any { return &lz4Decoder{r: lz4.NewReader(nil)} }}

// lz4Magic begins a frame. The library also takes the legacy frame and frames
// to skip, which no Kafka client can read.
var lz4Magic = []byte{0x04, 0x22, 0x4d, 0x18}

func lz4Decompress(src []byte, limit int) (*buffer, error) {
	if !bytes.HasPrefix(src, lz4Magic) {
		return nil, errors.New("no lz4 frame")
	}
	d := lz4Decoders.Get().(*lz4Decoder)
	defer func() {
		d.in.Reset(nil)
		d.r.Reset(nil) // gives its block back
		lz4Decoders.Put(d)
	}()
	d.in.Reset(src)
	d.r.Reset(&d.in)
	return readAll(d.r, firstGuess(src, limit), limit)
}

// xerialMagic begins the framing of the Java library; two int32 versions
// follow it.
const (
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = len(xerialMagic) + 8
)

// snappyDecompress reads the framing of the Java library or one bare block.
// Blocks state their plain size, so one pass sizes the buffer exactly.
func snappyDecompress(src []byte, limit int) (*buffer, error) {
	size := 0
	err := snappyBlocks(src, func(block []byte) error {
		n, err := s2.DecodedLen(block)
		if err != nil {
			return err
		}
		if int64(n) > int64(len(block))*maxRatio[Snappy] {
			return fmt.Errorf("a block of %d bytes says that it holds %d", len(block), n)
		}
		if n > limit-size {
			return tooLarge(limit)
		}
		size += n
		return nil
	})
	if err != nil {
		return nil, err
	}
	p := getBuffer(size)
	err = snappyBlocks(src, func(block []byte) error {
		out, err := s2.Decode(p.b[len(p.b):size], block)
		if err == nil {
			p.b = p.b[:len(p.b)+len(out)]
		}
		return err
	})
	return p, err
}

func snappyBlocks(src []byte, visit func(block []byte) error) error {
	if !bytes.HasPrefix(src, []byte(xerialMagic)) {
		return visit(src)
	}
	for len(src) > 0 {
		// Streams that were flushed and joined carry a header each.
		if bytes.HasPrefix(src, []byte(xerialMagic)) {
			if len(src) < xerialHeader {
				return io.ErrUnexpectedEOF
			}
			src = src[xerialHeader:]
			continue
		}
		if len(src) < 4 {
			return io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return io.ErrUnexpectedEOF
		}
		if err := visit(src[:n]); err != nil {
			return err
		}
		src = src[n:]
	}
	return nil
}

// A decoder that only decodes whole bodies has no goroutines, and its history
// is its output: no window is allocated, whatever a frame announces.
var zstdDecoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(128<<20), // what the Java client's decoder takes
		zstd.WithDecodeAllCapLimit(true),
	)
	if err != nil {
		panic("batch: options of the zstd decoder: " + err.Error())
	}
	return d
}}

// zstdBlock is the most that a block of zstd opens to.
const zstdBlock = 128 << 10

// zstdDecompress never lets the decoder allocate: it decodes into the room it
// is given and, where a frame does not state its size, starts again with four
// times the room when that was too small, which costs a third more at worst.
func zstdDecompress(src []byte, limit int) (*buffer, error) {
	if len(src) == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, err
	}
	room := 8*len(src) + 512
	if h.HasFCS {
		if h.FrameContentSize > uint64(limit) {
			return nil, tooLarge(limit)
		}
		// A size is only a claim, so take no more than the input could open to.
		room = int(min(h.FrameContentSize, uint64(len(src))*uint64(maxRatio[Zstd])))
	}
	d := zstdDecoders.Get().(*zstd.Decoder)
	defer zstdDecoders.Put(d)
	// One block of slack tells a body above the limit from a broken one: the
	// decoder has the same error for a block that is and one that does not fit.
	most := limit + zstdBlock
	for {
		p := getBuffer(min(room, most))
		room = min(cap(p.b), most)
		out, err := d.DecodeAll(src, p.b[0:0:room])
		if err == nil && len(out) <= limit {
			if len(out) > 0 && &out[0] != &p.b[:1][0] {
				p.b = append(p.b, out...) // the decoder moved
				return p, nil
			}
			p.b = p.b[:len(out)]
			return p, nil
		}
		p.release()
		short := errors.Is(err, zstd.ErrDecoderSizeExceeded) // a later frame says so
		switch {
		case len(out) > limit || short && room == most:
			return nil, tooLarge(limit)
		case !short && room-len(out) >= zstdBlock || room == most:
			return nil, err
		}
		room = max(4*room, len(out)+2*zstdBlock)
	}
}
