package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// ReadFrame reads one frame into buf, or into new memory where it does not fit, and
// returns its bytes without the length. limit is checked before memory is taken.
// io.EOF means that the stream ended between frames.
func ReadFrame(r io.Reader, limit int, buf []byte) ([]byte, error) {
	var head [LengthBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int64(int32(binary.BigEndian.Uint32(head[:])))
	if n < 0 || n > int64(limit) {
		return nil, fmt.Errorf("%w frame: %d bytes, at most %d", ErrMalformed, n, limit)
	}
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return buf, nil
}
