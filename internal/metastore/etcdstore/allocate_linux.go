package etcdstore

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate makes f exactly size bytes, all of them reserved.
func allocate(f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	return unix.Fallocate(int(f.Fd()), 0, 0, size)
}
