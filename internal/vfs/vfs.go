// Package vfs is the file system as Barnabas sees it: the real one ([Real]),
// one in memory that forgets what was not synced when it is cloned as after a
// crash ([Mem]), and wrappers that inject faults and delays ([Faulty]) or
// record what was done ([Trace]). No other package below the broker opens a
// file but through it.
//
// Durability, as POSIX file systems give it and the crash clone enforces it:
// bytes of a file survive a crash once File.Sync has returned after they were
// written; a name (create, rename, remove) survives once the directory that
// holds it was synced (SyncDir). Unsynced writes may survive in part, torn and
// in any order.
//
// A directory's own name is an entry of its parent: a file in a new directory
// is safe only when the file, the directory and the parent were synced.
//
// All methods may be called from several goroutines.
package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// FS is a tree of files. Errors satisfy errors.Is with fs.ErrNotExist and
// fs.ErrExist where they apply, and with ErrNoSpace when a disk or quota is full.
type FS interface {
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing.
	OpenReadWrite(name string) (File, error)
	// Create makes a new file, empty, for reading and writing; an existing one
	// is an fs.ErrExist error: nothing is ever silently overwritten.
	Create(name string) (File, error)
	// Rename gives a file or directory another name, atomically. A file of the
	// new name is replaced; a directory of that name is an fs.ErrExist error.
	Rename(oldName, newName string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes name and all below it; a missing name is no error.
	RemoveAll(name string) error
	// MkdirAll makes a directory and those above it that are missing.
	MkdirAll(name string) error
	// List returns the base names in a directory, sorted.
	List(dir string) ([]string, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the directory's entries durable, not what they name.
	SyncDir(dir string) error
	// SyncAll makes everything written so far to the file system that holds
	// name durable, files and entries, in one call: cheaper than many syncs
	// when many files are dirty. errors.ErrUnsupported where there is no such call.
	SyncAll(name string) error
	// Lock takes an exclusive lock named by a file, which is created when
	// missing; it is held until the Closer is closed or the process ends.
	// A lock held elsewhere is ErrLocked.
	Lock(name string) (io.Closer, error)
	// Usage describes the device that holds name, which must exist.
	Usage(name string) (Usage, error)
}

// File is an open file. Positions are explicit: there is no cursor.
//
// ReadAt and WriteAt keep the promises of package io: fewer bytes than asked
// come with an error (io.EOF at the end of the file, ErrNoSpace on a full disk).
// Closing twice, or using a closed file, is an fs.ErrClosed error.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name is the name that the file was opened under.
	Name() string
	Size() (int64, error)
	// Truncate cuts the file, or extends it with zeros.
	Truncate(size int64) error
	// Sync makes the bytes written so far durable (fdatasync).
	Sync() error
	// StartWriteback asks the system to begin writing the range, without
	// waiting; a hint, and a no-op where there is no such call.
	StartWriteback(off, n int64)
	// Forget tells the system that the cached range will not be read again; a hint.
	Forget(off, n int64)
	// Reserve asks the system for room for n bytes, counted from the start of the
	// file, whose size stays; an n that is not above the size gives back what
	// was reserved behind it. A hint, and a no-op where there is no such call. No
	// other goroutine writes meanwhile.
	Reserve(n int64)
	// Fd is the descriptor for sendfile; ok is false for a file that has none.
	Fd() (fd uintptr, ok bool)
}

// Usage is the state of a device.
type Usage struct {
	// FreeBytes is what this process may still write: blocks reserved for the
	// superuser are not in it.
	TotalBytes, FreeBytes uint64
	// Device tells devices apart: one flusher runs per device.
	Device uint64
}

var (
	// ErrNoSpace marks ENOSPC and EDQUOT.
	ErrNoSpace = errors.New("no space left on device")
	// ErrTooManyFiles marks EMFILE and ENFILE: nothing was opened, and it may
	// work later.
	ErrTooManyFiles = errors.New("too many open files")
	// ErrLocked marks a lock that another process or owner holds.
	ErrLocked = errors.New("locked by another process")
)
