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
	n, err := readLength(r, limit)
	if err != nil {
		return nil, err
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	return buf, readBody(r, buf)
}

func readLength(r io.Reader, limit int) (int, error) {
	var head [LengthBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	n := int64(int32(binary.BigEndian.Uint32(head[:])))
	if n < 0 || n > int64(limit) {
		return 0, fmt.Errorf("%w frame: %d bytes, at most %d", ErrMalformed, n, limit)
	}
	return int(n), nil
}

func readBody(r io.Reader, buf []byte) error {
	_, err := io.ReadFull(r, buf)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
