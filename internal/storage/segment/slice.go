package segment

import (
	"fmt"
	"io"
	"sync"
)

// Slice references bytes of a data file that never change. It holds the file
// open until Release, which is called once.
type Slice struct {
	h   *handle
	off int64
	n   int
}

// Len is the number of bytes.
func (s Slice) Len() int { return s.n }

// ReadAt fills p from off on, which counts from the slice's first byte.
func (s Slice) ReadAt(p []byte, off int64) error {
	if off < 0 || off+int64(len(p)) > int64(s.n) {
		return fmt.Errorf("read of %d bytes at %d in a slice of %d: %w", len(p), off, s.n, io.ErrUnexpectedEOF)
	}
	if n, err := s.h.f.ReadAt(p, s.off+off); n < len(p) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%s at %d: %w", s.h.owner.path(), s.off+off, err)
	}
	return nil
}

var copyBuffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// WriteTo copies the bytes through a pooled buffer, for writers that sendfile
// cannot feed.
func (s Slice) WriteTo(w io.Writer) (int64, error) {
	buf := copyBuffers.Get().(*[128 << 10]byte)
	defer copyBuffers.Put(buf)
	var done int64
	for done < int64(s.n) {
		part := buf[:min(int64(len(buf)), int64(s.n)-done)]
		if err := s.ReadAt(part, done); err != nil {
			return done, err
		}
		n, err := w.Write(part)
		done += int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// File is the descriptor, offset and length for sendfile; ok is false where
// the file has no descriptor. The descriptor is good until Release.
func (s Slice) File() (fd uintptr, off int64, n int, ok bool) {
	if s.h == nil {
		return 0, 0, 0, false
	}
	fd, ok = s.h.f.Fd()
	return fd, s.off, s.n, ok
}

// Release lets go of the file.
func (s Slice) Release() {
	if s.h != nil {
		s.h.release()
	}
}
