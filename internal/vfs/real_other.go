//go:build !(darwin || dragonfly || freebsd || linux || windows)

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

var (
	errIsDir      = errors.New("is a directory")
	noSpaceErrors []error
	tooManyErrors []error
)

func datasync(f *os.File) error { return f.Sync() }
func syncAll(string) error      { return errors.ErrUnsupported }

func startWriteback(*os.File, int64, int64) {}
func forget(*os.File, int64, int64)         {}
func reserve(*os.File, int64, int64)        {}

func openFile(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, fileMode) }

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func usage(name string) (Usage, error) {
	return Usage{}, &fs.PathError{Op: "usage", Path: name, Err: errors.ErrUnsupported}
}

// held guards against two owners in one process, all that can be done without
// a lock call of the system.
var held = struct {
	sync.Mutex
	names map[string]bool
}{names: map[string]bool{}}

type heldLock struct{ *os.File }

func (l heldLock) Close() error {
	err := l.File.Close()
	if err == nil {
		held.Lock()
		defer held.Unlock()
		delete(held.names, l.Name())
	}
	return err
}

func lockFile(name string) (io.Closer, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	held.Lock()
	defer held.Unlock()
	if held.names[abs] {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	held.names[abs] = true
	return heldLock{f}, nil
}
