package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// tmpSuffix is what Apache Kafka appends to a checkpoint while it is written.
const tmpSuffix = ".tmp"

// ReadFile reads a whole file, which must not grow beyond limit bytes: a
// damaged size must not become an allocation.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s is %d bytes long, more than the %d that such a file can have", name, size, limit)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) < size {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// ReplaceFile puts data in place of the file's content: after a crash at any
// instant the file holds the old content or the new, and once ReplaceFile has
// returned nil it holds the new. The order is Apache Kafka's: write and sync
// name.tmp, rename it, sync the directory. Callers serialize calls for one name.
func ReplaceFile(fsys FS, name string, data []byte) error {
	if err := PutFile(fsys, name+tmpSuffix, name, data); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// PutFile is ReplaceFile but for the directory's sync, which the caller sees to,
// by way of a file tmp. A crash may leave that one.
func PutFile(fsys FS, tmp, name string, data []byte) error {
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		// Give the bytes back to a full disk; a leftover would do no other harm.
		_ = fsys.Remove(tmp)
		return err
	}
	return fsys.Rename(tmp, name)
}

// Exists reports whether name is there.
func Exists(fsys FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, err
}
