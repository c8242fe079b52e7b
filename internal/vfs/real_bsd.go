//go:build darwin || dragonfly || freebsd

package vfs

import (
	"errors"
	"os"
	"syscall"
)

// datasync is os.File.Sync, which is F_FULLFSYNC on Darwin.
func datasync(f *os.File) error { return f.Sync() }

func syncAll(string) error { return errors.ErrUnsupported }

func startWriteback(*os.File, int64, int64) {}
func forget(*os.File, int64, int64)         {}
func reserve(*os.File, int64, int64)        {}

func usage(name string) (Usage, error) {
	var sfs syscall.Statfs_t
	if err := syscall.Statfs(name, &sfs); err != nil {
		return Usage{}, &os.PathError{Op: "statfs", Path: name, Err: err}
	}
	var st syscall.Stat_t
	if err := syscall.Stat(name, &st); err != nil {
		return Usage{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	free := max(int64(sfs.Bavail), 0) // signed, and below zero when only the superuser's reserve is left
	block := uint64(sfs.Bsize)
	return Usage{TotalBytes: sfs.Blocks * block, FreeBytes: uint64(free) * block, Device: uint64(st.Dev)}, nil
}
