package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Real is the operating system's file system. Names are as package os takes them.
var Real FS = realFS{}

const (
	fileMode = 0o644
	dirMode  = 0o755
)

type realFS struct{}

func (realFS) Open(name string) (File, error)          { return open(name, os.O_RDONLY) }
func (realFS) OpenReadWrite(name string) (File, error) { return open(name, os.O_RDWR) }
func (realFS) Create(name string) (File, error) {
	return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func open(name string, flag int) (File, error) {
	f, err := openFile(name, flag)
	if err != nil {
		return nil, mapError(err)
	}
	// A directory opens for reading on Unix, and every use of it would fail later and less clearly.
	if fi, err := f.Stat(); err == nil && fi.IsDir() {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: errIsDir}
	}
	return &realFile{f: f}, nil
}

func (realFS) Rename(oldName, newName string) error { return mapError(os.Rename(oldName, newName)) }
func (realFS) Remove(name string) error             { return mapError(os.Remove(name)) }
func (realFS) RemoveAll(name string) error          { return mapError(os.RemoveAll(name)) }
func (realFS) MkdirAll(name string) error           { return mapError(os.MkdirAll(name, dirMode)) }
func (realFS) SyncDir(dir string) error             { return mapError(syncDir(dir)) }
func (realFS) SyncAll(name string) error            { return mapError(syncAll(name)) }

func (realFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, mapError(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (realFS) Stat(name string) (fs.FileInfo, error) {
	fi, err := os.Stat(name)
	return fi, mapError(err)
}

func (realFS) Lock(name string) (io.Closer, error) {
	c, err := lockFile(name)
	if err != nil {
		return nil, mapError(err)
	}
	return c, nil
}

func (realFS) Usage(name string) (Usage, error) {
	u, err := usage(filepath.Clean(name))
	return u, mapError(err)
}

type realFile struct{ f *os.File }

func (r *realFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.f.ReadAt(p, off)
	return n, mapError(err)
}

func (r *realFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := r.f.WriteAt(p, off)
	return n, mapError(err)
}

func (r *realFile) Close() error              { return mapError(r.f.Close()) }
func (r *realFile) Name() string              { return r.f.Name() }
func (r *realFile) Truncate(size int64) error { return mapError(r.f.Truncate(size)) }
func (r *realFile) Sync() error               { return mapError(datasync(r.f)) }

func (r *realFile) StartWriteback(off, n int64) { startWriteback(r.f, off, n) }
func (r *realFile) Forget(off, n int64)         { forget(r.f, off, n) }

func (r *realFile) Reserve(n int64) {
	if size, err := r.Size(); err == nil {
		reserve(r.f, size, n)
	}
}

func (r *realFile) Size() (int64, error) {
	fi, err := r.f.Stat()
	if err != nil {
		return 0, mapError(err)
	}
	return fi.Size(), nil
}

func (r *realFile) Fd() (uintptr, bool) { return r.f.Fd(), true }

// marked keeps the system's own text and answers to one of our markers.
type marked struct {
	error
	as error
}

func (e marked) Unwrap() error        { return e.error }
func (e marked) Is(target error) bool { return target == e.as }

func mapError(err error) error {
	if err == nil {
		return nil
	}
	for _, target := range noSpaceErrors {
		if errors.Is(err, target) {
			return marked{err, ErrNoSpace}
		}
	}
	for _, target := range tooManyErrors {
		if errors.Is(err, target) {
			return marked{err, ErrTooManyFiles}
		}
	}
	return err
}
