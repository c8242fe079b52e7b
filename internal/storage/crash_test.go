package storage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// TestCrash runs random histories on a file system that crashes at random
// changes: a power loss that keeps arbitrary parts of what was not synced, torn
// and reordered, a strict one, or the kill of the process. What was told as
// flushed is there, in order, unchanged; nothing else than what was appended
// is; producers, epochs, aborted transactions and the log start are right.
func TestCrash(t *testing.T) {
	for i := range *seedCount {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { crashHistory(t, seed) })
	}
}

func crashHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	h := &history{t: t, rng: rng, clock: testAt}
	h.cfg = testConfig()
	h.cfg.SegmentBytes = int32(1500 + rng.IntN(6000))
	h.cfg.IndexIntervalBytes = int32(rng.IntN(1000))
	h.cfg.Durable = rng.IntN(5) > 0
	h.cfg.RetentionMs, h.cfg.FileDeleteDelay = -1, 0
	fsys := vfs.NewMem()
	h.open(fsys)
	h.create()
	for crash := range 6 {
		var after *vfs.Mem
		var then model
		chance := 20 + rng.IntN(400)
		opts := vfs.PowerLoss
		switch rng.IntN(4) {
		case 0:
			opts = vfs.CrashOptions{}
		case 1:
			opts = vfs.ProcessKill
		}
		h.crash = func(op vfs.Op) {
			if after == nil && rng.IntN(chance) == 0 {
				h.logf("CRASH %d (%+v) before %s; acked %d", crash, opts, op, h.m.acked)
				after, then = h.fs.CrashClone(rng, opts), h.m.copy()
			}
		}
		for n := 0; after == nil && n < 400; n++ {
			h.step()
		}
		if after == nil {
			after, then = h.fs.CrashClone(rng, opts), h.m.copy()
			h.logf("CRASH %d (%+v) between operations", crash, opts)
		}
		h.m = then
		h.reopen(after, opts)
	}
}

// TestFaults lets one change of the file system fail, with EIO or for want of
// space, at a random moment. Whatever fails then, after a restart everything
// that was told as flushed is there, and nothing that was never appended.
func TestFaults(t *testing.T) {
	for i := range *seedCount {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { faultHistory(t, seed) })
	}
}

func faultHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	h := &history{t: t, rng: rng, clock: testAt}
	h.cfg = testConfig()
	h.cfg.SegmentBytes = int32(1500 + rng.IntN(6000))
	h.cfg.IndexIntervalBytes = int32(rng.IntN(1000))
	h.cfg.RetentionMs, h.cfg.FileDeleteDelay = -1, 0
	fsys := vfs.NewMem()
	h.open(fsys)
	h.create()
	for range 4 {
		chance := 20 + rng.IntN(300)
		h.fault = func(op vfs.Op) error {
			switch {
			case h.faulted || rng.IntN(chance) > 0:
				return nil
			case op.Kind == vfs.OpWrite && rng.IntN(2) == 0:
				h.faulted = true
				h.logf("NO SPACE at %s", op)
				return &vfs.ShortWrite{N: rng.IntN(op.N + 1), Err: vfs.ErrNoSpace}
			case op.Kind == vfs.OpCreate && rng.IntN(2) == 0:
				h.faulted = true
				h.logf("NO SPACE at %s", op)
				return vfs.ErrNoSpace
			}
			h.faulted = true
			h.logf("EIO at %s", op)
			return errInjected
		}
		for n := 0; n < 300 && !h.dead; n++ {
			if h.step(); h.faulted && rng.IntN(20) == 0 {
				break
			}
		}
		// Without a failure of the machine, what lies behind may be more than was
		// acknowledged, and the page cache is as it was.
		opts := vfs.ProcessKill
		if rng.IntN(2) == 0 {
			opts = vfs.PowerLoss
		}
		after := h.fs.CrashClone(rng, opts)
		h.fault, h.faulted, h.dead = nil, false, false
		h.box.m.tasks.Wait()
		h.reopen(after, opts)
	}
}

// reopen starts on what a crash left. The start may crash again, several times.
func (h *history) reopen(fsys *vfs.Mem, opts vfs.CrashOptions) {
	for again := 0; ; again++ {
		var next *vfs.Mem
		h.crash = func(op vfs.Op) {
			if next == nil && again < 4 && h.rng.IntN(12) == 0 {
				h.logf("CRASH while starting, before %s", op)
				next = fsys.CrashClone(h.rng, opts)
			}
		}
		h.logf("files: %v", list(fsys))
		if opts != vfs.ProcessKill {
			h.boots++
		}
		h.log = nil
		h.open(fsys)
		if next == nil {
			break
		}
		fsys = next
	}
	h.crash = nil
	h.create()
	h.logf("opened: [%d, %d)", h.log.Start(), h.log.End())
	h.settle()
	h.resend()
}

// list names the files of the log with their sizes.
func list(fsys *vfs.Mem) (out []string) {
	names, _ := fsys.List("/d/t-0")
	for _, n := range names {
		if fi, err := fsys.Stat("/d/t-0/" + n); err == nil {
			out = append(out, fmt.Sprintf("%s=%d", strings.TrimLeft(n, "0"), fi.Size()))
		}
	}
	return out
}
