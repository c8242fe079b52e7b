package etcdstore

import (
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ballast is a file that takes room while there is enough, and gives it to etcd
// when there is not: etcd ends on a full disk, whoever filled it.
type ballast struct {
	path        string
	size, below int64
	logger      *slog.Logger
	held        int64
	looked      bool
	free        func(dir string) (int64, error)
}

func newBallast(cfg Member, logger *slog.Logger) *ballast {
	return &ballast{path: filepath.Join(cfg.Dir, "ballast"), size: cfg.Ballast, below: cfg.BallastBelow, logger: logger, free: freeBytes}
}

// tend looks at the free space, acts, and says how large the ballast is now.
func (b *ballast) tend() int64 {
	if b.size <= 0 {
		return 0
	}
	if !b.looked {
		b.looked = true
		if st, err := os.Stat(b.path); err == nil {
			b.held = st.Size()
		}
	}
	free, err := b.free(filepath.Dir(b.path))
	if err != nil {
		return b.held
	}
	switch {
	case b.held > 0 && free < b.below:
		b.drop(free)
	case b.held != b.size && free > 3*(b.size+b.below):
		b.take()
	}
	return b.held
}

func (b *ballast) drop(free int64) {
	if err := os.Remove(b.path); err != nil {
		b.logger.Error("ballast stays on a nearly full disk", "free", free, "cause", err)
		return
	}
	b.held = 0
	b.logger.Error("disk nearly full: the metadata store's ballast was given up", "free", free, "ballast", b.size)
}

// take reserves the blocks; a file system that cannot has no ballast. The data
// is never read, so nothing is synced.
func (b *ballast) take() {
	f, err := os.OpenFile(b.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	err = allocate(f, b.size)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(b.path)
		b.size = 0
		b.logger.Info("no ballast on this file system", "path", b.path, "cause", err)
		return
	}
	b.held = b.size
}

// freeBytes is what an unprivileged process may still take on dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
