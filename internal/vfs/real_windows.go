package vfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

const errIsDir = windows.ERROR_DIRECTORY

var (
	noSpaceErrors = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}
	tooManyErrors = []error{windows.ERROR_TOO_MANY_OPEN_FILES}
)

// openFile lets others rename and remove the file while it is open, as
// retention and truncation do and every other system allows; os.OpenFile keeps
// that from them. flag is one of the three that Real opens with.
func openFile(name string, flag int) (*os.File, error) {
	p, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var access, how uint32 = windows.GENERIC_READ, windows.OPEN_EXISTING
	if flag&os.O_RDWR != 0 {
		access |= windows.GENERIC_WRITE
	}
	if flag&os.O_CREATE != 0 {
		how = windows.CREATE_NEW
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	// Without backup semantics a directory would be "access denied", and not be told apart.
	const attrs = windows.FILE_ATTRIBUTE_NORMAL | windows.FILE_FLAG_BACKUP_SEMANTICS
	h, err := windows.CreateFile(p, access, share, nil, how, attrs, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

func datasync(f *os.File) error { return f.Sync() }

// syncDir does nothing: a directory cannot be flushed on Windows, and NTFS
// journals the names itself.
func syncDir(dir string) error {
	_, err := os.Stat(dir)
	return err
}

func syncAll(string) error { return errors.ErrUnsupported }

func startWriteback(*os.File, int64, int64) {}
func forget(*os.File, int64, int64)         {}
func reserve(*os.File, int64, int64)        {}

func lockFile(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		err = ErrLocked
	}
	return nil, &os.PathError{Op: "lock", Path: name, Err: err}
}

func usage(name string) (Usage, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return Usage{}, err
	}
	p, err := windows.UTF16PtrFromString(abs)
	if err != nil {
		return Usage{}, err
	}
	var u Usage
	if err := windows.GetDiskFreeSpaceEx(p, &u.FreeBytes, &u.TotalBytes, nil); err != nil {
		return Usage{}, &os.PathError{Op: "usage", Path: name, Err: err}
	}
	// The volume's name tells devices apart as well as its serial would.
	for _, c := range filepath.VolumeName(abs) {
		u.Device = u.Device*31 + uint64(c)
	}
	return u, nil
}
