package etcdstore

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// ballast is room that is taken while there is enough, and given to etcd when
// there is not: etcd ends on a full disk, whoever filled it. The larger file
// goes while etcd runs; the reserve only before it starts, when it needs a
// segment of the WAL at once.
type ballast struct {
	path, reserve   string
	size, keep      int64 // of the two files
	below           int64
	logger          *slog.Logger
	held, heldSpare int64
	looked          bool
	free            func(dir string) (int64, error)
}

// startReserve is a segment of the WAL and something for the database.
const startReserve = walSegment + 4<<20

func newBallast(cfg Member, logger *slog.Logger) *ballast {
	return &ballast{
		path: filepath.Join(cfg.Dir, "ballast"), reserve: filepath.Join(cfg.Dir, "reserve"),
		size: cfg.Ballast, keep: min(startReserve, cfg.Ballast/2), below: cfg.BallastBelow, logger: logger, free: freeBytes,
	}
}

// tend looks at the free space, acts, and says how large the ballast is now.
func (b *ballast) tend() int64 {
	if b.size <= 0 {
		return 0
	}
	if !b.looked {
		b.looked = true
		b.held, b.heldSpare = sizeOf(b.path), sizeOf(b.reserve)
	}
	free, err := b.free(filepath.Dir(b.path))
	if err != nil {
		return b.held
	}
	switch {
	case b.held > 0 && free < b.below:
		b.drop(free)
	case free > 3*(b.size+b.below):
		if b.held != b.size {
			b.held = b.take(b.path, b.size)
		}
		if b.heldSpare != b.keep {
			b.heldSpare = b.take(b.reserve, b.keep)
		}
	}
	return b.held
}

func sizeOf(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

func (b *ballast) drop(free int64) {
	if err := os.Remove(b.path); err != nil {
		b.logger.Error("ballast stays on a nearly full disk", "free", free, "cause", err)
		return
	}
	b.held = 0
	b.logger.Error("disk nearly full: the metadata store's ballast was given up", "free", free, "ballast", b.size)
}

// ease makes room before a member starts: it ends when it cannot reserve a
// segment of the WAL. Segments that were reserved and never used are of no use
// to it.
func (b *ballast) ease(need int64) {
	yield := func(path string) func() bool {
		return func() bool {
			if os.Remove(path) != nil {
				return false
			}
			b.logger.Warn("disk nearly full: room was given to the metadata store to start", "file", path)
			return true
		}
	}
	for _, step := range []func() bool{yield(b.path), b.trim, yield(b.reserve)} {
		if free, err := b.free(filepath.Dir(b.path)); err != nil || free >= need || !step() {
			continue
		}
		if d, err := os.Open(filepath.Dir(b.path)); err == nil {
			_ = d.Sync() // blocks may be free only when their removal is committed
			_ = d.Close()
		}
	}
}

func (b *ballast) trim() bool {
	spare, _ := filepath.Glob(filepath.Join(filepath.Dir(b.path), "member", "wal", "*.tmp"))
	removed := false
	for _, name := range spare {
		removed = os.Remove(name) == nil || removed
	}
	if removed {
		b.logger.Warn("disk nearly full: reserved segments of the metadata log were removed", "files", len(spare))
	}
	return removed
}

// take reserves blocks and says how many; a file system that cannot has no
// ballast. The data is never read, so nothing is synced.
func (b *ballast) take(path string, size int64) int64 {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0
	}
	err = allocate(f, size)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(path)
		b.size = 0
		b.logger.Info("no ballast on this file system", "path", path, "cause", err)
		return 0
	}
	return size
}

// freeBytes is what an unprivileged process may still take on dir's file system.
func freeBytes(dir string) (int64, error) {
	u, err := vfs.Real.Usage(dir)
	return int64(min(u.FreeBytes, math.MaxInt64)), err
}
