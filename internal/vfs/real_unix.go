//go:build darwin || dragonfly || freebsd || linux

package vfs

import (
	"io"
	"os"
	"syscall"
)

const errIsDir = syscall.EISDIR

var (
	noSpaceErrors = []error{syscall.ENOSPC, syscall.EDQUOT}
	tooManyErrors = []error{syscall.EMFILE, syscall.ENFILE}
)

func openFile(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, fileMode) }

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// lockFile uses flock, not fcntl: an fcntl lock is lost as soon as any
// descriptor of the file is closed, and does not hold within one process.
func lockFile(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if err == syscall.EWOULDBLOCK {
		err = ErrLocked
	}
	return nil, &os.PathError{Op: "lock", Path: name, Err: err}
}
