//go:build unix

package etcdstore

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitFiles makes every write beyond 64 KiB of a file fail: to etcd that is
// what a write on a full disk is, an error of write(2).
func limitFiles() error {
	signal.Ignore(syscall.SIGXFSZ)
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10})
}
