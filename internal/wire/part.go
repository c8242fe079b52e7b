package wire

// Part is a piece of an answer: bytes in memory, or a range of a file, which is
// sent without passing through memory where the connection allows it.
type Part struct {
	Mem  []byte
	File FileRange // used when Mem is nil
}

// FileRange is a range of a file whose bytes never change while it is held.
// storage.Slice is one.
type FileRange interface {
	// Len is the size in bytes.
	Len() int
	// File is the descriptor and the absolute range; ok is false where there is no descriptor.
	File() (fd uintptr, off int64, n int, ok bool)
	// ReadAt fills p from off, relative to the start of the range.
	ReadAt(p []byte, off int64) error
}

// Len is the size of the part in bytes.
func (p Part) Len() int {
	if p.Mem != nil {
		return len(p.Mem)
	}
	if p.File != nil {
		return p.File.Len()
	}
	return 0
}
