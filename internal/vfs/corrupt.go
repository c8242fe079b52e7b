package vfs

import (
	"errors"
	"fmt"
)

// ErrCorrupt marks bytes on disk that cannot be what was written there.
var ErrCorrupt = errors.New("corrupt")

// CorruptError is damage with its place. errors.Is finds ErrCorrupt in it.
type CorruptError struct {
	File string
	// Line counts from 1 in a text file; 0 in a binary one, where Offset, in
	// bytes, says where the damage begins.
	Line   int
	Offset int64
	Reason string
}

func (e *CorruptError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: corrupt: %s", e.File, e.Line, e.Reason)
	}
	return fmt.Sprintf("%s: corrupt at byte %d: %s", e.File, e.Offset, e.Reason)
}

// Is lets errors.Is find ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Corruptf returns a CorruptError of a binary file.
func Corruptf(file string, offset int64, format string, args ...any) error {
	return &CorruptError{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// CorruptLinef returns a CorruptError of a text file; lines count from 1.
func CorruptLinef(file string, line int, format string, args ...any) error {
	return &CorruptError{File: file, Line: line, Reason: fmt.Sprintf(format, args...)}
}
