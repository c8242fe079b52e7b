//go:build unix

package etcdstore

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dirLock keeps a second process out: etcd itself would wait for the first in silence.
type dirLock struct{ file *os.File }

var errLocked = errors.New("in use by another process: stop that one, or set metadata.log.dir to another directory")

func lockDir(path string) (*dirLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	return &dirLock{file: f}, nil
}

func (l *dirLock) release() { _ = l.file.Close() } // unlocks
