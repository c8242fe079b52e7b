package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

func datasync(f *os.File) error {
	return control(f, "fdatasync", func(fd int) error { return unix.Fdatasync(fd) })
}

// syncAll is syncfs(2), which reports write-back errors since Linux 5.8.
func syncAll(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return control(f, "syncfs", func(fd int) error { return unix.Syncfs(fd) })
}

func startWriteback(f *os.File, off, n int64) {
	_ = control(f, "sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}

func forget(f *os.File, off, n int64) {
	_ = control(f, "fadvise", func(fd int) error { return unix.Fadvise(fd, off, n, unix.FADV_DONTNEED) })
}

// reserve allocates blocks behind the end of the file; to cut it to the size
// that it has frees them.
func reserve(f *os.File, size, n int64) {
	_ = control(f, "fallocate", func(fd int) error {
		if n <= size {
			return unix.Ftruncate(fd, size)
		}
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, n)
	})
}

// control runs a call on the descriptor, again when a signal interrupted it,
// with the file kept open meanwhile.
func control(f *os.File, call string, do func(fd int) error) error {
	sc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = sc.Control(func(fd uintptr) {
		for {
			if callErr = do(int(fd)); callErr != unix.EINTR {
				return
			}
		}
	})
	if err != nil { // the file is closed, which Control says in words of its own
		return &os.PathError{Op: call, Path: f.Name(), Err: os.ErrClosed}
	}
	if callErr != nil {
		return &os.PathError{Op: call, Path: f.Name(), Err: callErr}
	}
	return nil
}

func usage(name string) (Usage, error) {
	var sfs unix.Statfs_t
	if err := unix.Statfs(name, &sfs); err != nil {
		return Usage{}, &os.PathError{Op: "statfs", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return Usage{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	block := uint64(sfs.Frsize)
	if block == 0 {
		block = uint64(sfs.Bsize)
	}
	return Usage{TotalBytes: sfs.Blocks * block, FreeBytes: sfs.Bavail * block, Device: uint64(st.Dev)}, nil
}
