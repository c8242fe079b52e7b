package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// swap is the owner's part of a move: something may be appended just before.
func (h *history) swap(to *Log, do func() error) error {
	if h.rng.IntN(3) == 0 && !h.dead {
		h.append(false)
	}
	err := do()
	if err == nil {
		h.log = to
	}
	return err
}

// moveStep does something about moves between the two directories.
func (h *history) moveStep() {
	v := h.box.m.mover
	mv := v.get(testTP)
	if mv == nil {
		if h.log.origin.Load() != nil && h.rng.IntN(2) == 0 {
			h.log.Settled()
			v.tick()
			h.logf("settled")
		}
		if h.log.origin.Load() != nil {
			return
		}
		to := h.other()
		h.logf("move to %s", to)
		if err := h.box.m.Move(testTP, to); err != nil {
			h.failed("move", err)
		}
		return
	}
	var err error
	switch r := h.rng.IntN(10); {
	case r < 5:
		n := 0
		if !mv.ready {
			err = mv.align(h.log)
			mv.ready = err == nil
		}
		if err == nil {
			n, err = mv.copy(h.log, 1+h.rng.IntN(3000), false)
		}
		h.logf("copied %d bytes, future at %d of %d", n, mv.future.End(), h.log.End())
	case r < 6:
		h.logf("checkpoint of the future log")
		if err = mv.future.checkpoint(context.Background()); err == nil {
			err = mv.future.d.writeRecoveryPoints()
		}
	case r < 7:
		h.logf("move called off")
		err = h.box.m.Move(testTP, h.log.d.path)
	default:
		h.logf("move completes")
		v.mu.Lock()
		v.queue = nil
		mv.state = moveWorks
		v.mu.Unlock()
		err = mv.work(context.Background())
		v.give(context.Background(), mv, err)
		h.logf("move: %v; log in %s, [%d, %d), flushed %d", err, h.log.d.path, h.log.Start(), h.log.End(), h.log.FlushedEnd())
		if err == nil && !h.dead && h.log.Failed() == nil {
			h.check("after a move")
		}
	}
	if err != nil && !errors.Is(err, errWait) && !errors.Is(err, errBehind) {
		h.failed("move", err)
	}
}

func (h *history) other() string {
	if h.log.d.path == h.dirs[0] {
		return h.dirs[1]
	}
	return h.dirs[0]
}

func newMoveHistory(t *testing.T, rng *rand.Rand) *history {
	h := &history{t: t, rng: rng, clock: testAt, dirs: []string{"/a", "/b"}, epoch: true}
	h.cfg = testConfig()
	h.cfg.SegmentBytes = int32(1500 + rng.IntN(6000))
	h.cfg.IndexIntervalBytes = int32(rng.IntN(1000))
	h.cfg.Durable = rng.IntN(5) > 0
	h.cfg.RetentionMs, h.cfg.FileDeleteDelay = -1, 0
	h.open(vfs.NewMem())
	h.create()
	return h
}

// TestMoveCrash moves a log to and fro between two directories while it is
// written, truncated, cut at its start and restarted, and crashes at random
// changes of the file system. Wherever the log is after a start, it has all
// that was told as flushed, and is what it was.
func TestMoveCrash(t *testing.T) {
	moves := 0
	for i := range 2 * *seedCount {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { moves += moveCrashHistory(t, seed) })
	}
	if *seedCount >= 20 && moves < 20 {
		t.Errorf("%d moves were completed by all histories", moves)
	}
}

func moveCrashHistory(t *testing.T, seed uint64) (moves int) {
	rng := rand.New(rand.NewPCG(seed, 3))
	h := newMoveHistory(t, rng)
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
		for n := 0; after == nil && n < 300; n++ {
			was := h.log.d
			if rng.IntN(3) == 0 {
				h.moveStep()
			} else {
				h.step()
			}
			if h.log.d != was {
				moves++
			}
		}
		if after == nil {
			after, then = h.fs.CrashClone(rng, opts), h.m.copy()
			h.logf("CRASH %d (%+v) between operations", crash, opts)
		}
		h.m = then
		h.reopen(after, opts)
	}
	return moves
}

// TestMoveEachCrash completes one move and crashes before each change of the
// file system that it makes, in each way.
func TestMoveEachCrash(t *testing.T) {
	for _, opts := range []vfs.CrashOptions{{}, vfs.PowerLoss, vfs.ProcessKill} {
		for at := 0; ; at++ {
			rng := rand.New(rand.NewPCG(uint64(at), 4))
			h := newMoveHistory(t, rng)
			for range 60 {
				h.append(false)
				h.log.d.flusher.drain()
			}
			h.log.SetHighWatermark(h.m.acked)
			h.m.startMax = 20
			if err := h.log.DeleteBefore(20); err != nil {
				t.Fatal(err)
			}
			h.m.start = 20
			n := 0
			var after *vfs.Mem
			var then model
			h.crash = func(op vfs.Op) {
				if n++; n == at+1 {
					h.logf("CRASH (%+v) before %s", opts, op)
					after, then = h.fs.CrashClone(rng, opts), h.m.copy()
				}
			}
			for range 20 {
				h.append(rng.IntN(2) == 0)
			}
			if err := h.box.m.Move(testTP, h.other()); err != nil {
				t.Fatal(err)
			}
			mv := h.box.m.mover.get(testTP)
			if err := mv.work(context.Background()); err != nil || h.log != mv.future {
				t.Fatalf("move: %v", err)
			}
			h.append(false)
			h.log.d.flusher.drain()
			h.log.Settled()
			h.box.m.mover.tick()
			if h.log.origin.Load() != nil {
				t.Fatal("the mark of the move stays")
			}
			h.check("after the move")
			if after == nil {
				if at < 30 {
					t.Fatalf("a move makes %d changes only", at)
				}
				break
			}
			h.m = then
			h.reopen(after, opts)
		}
	}
}

// TestMoveFaults lets one change of the file system fail while a log moves: the
// log in its old directory is not harmed by a failure of the new one.
func TestMoveFaults(t *testing.T) {
	for i := range *seedCount {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { moveFaultHistory(t, seed) })
	}
}

func moveFaultHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	h := newMoveHistory(t, rng)
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
			}
			h.faulted = true
			h.logf("EIO at %s", op)
			return errInjected
		}
		for n := 0; n < 300 && !h.dead; n++ {
			if rng.IntN(3) == 0 {
				h.moveStep()
			} else {
				h.step()
			}
			if h.faulted && rng.IntN(20) == 0 {
				break
			}
		}
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

// The directory that a log moves to fails at any of its changes: the log goes
// on where it is, and acknowledges.
func TestMoveToFailingDirectory(t *testing.T) {
	for at := 0; ; at++ {
		rng := rand.New(rand.NewPCG(uint64(at), 6))
		h := newMoveHistory(t, rng)
		for range 30 {
			h.append(false)
		}
		to, n := h.other(), 0
		struck := false
		h.fault = func(op vfs.Op) error {
			if len(op.Name) < len(to) || op.Name[:len(to)] != to {
				return nil
			}
			if n++; n > at {
				struck = true
				return errInjected
			}
			return nil
		}
		err := h.box.m.Move(testTP, to)
		if mv := h.box.m.mover.get(testTP); mv != nil {
			err = mv.work(context.Background())
		}
		if !struck {
			if at < 15 || err != nil {
				t.Fatalf("%d changes, %v", at, err)
			}
			return
		}
		h.box.m.tasks.Wait()
		if h.log.d.path == to {
			continue // it was moved: its directory failed, as any may
		}
		if err == nil || !errors.Is(err, kerr.KafkaStorageError) {
			t.Fatalf("at %d: %v", at, err)
		}
		h.append(false)
		if err := h.log.Sync(context.Background()); err != nil || h.m.acked != h.m.end() {
			t.Fatalf("at %d: sync %v, acked %d of %d", at, err, h.m.acked, h.m.end())
		}
		h.check("after the failure")
		h.fault = nil
		h.reopen(h.fs.CrashClone(rng, vfs.PowerLoss), vfs.PowerLoss)
	}
}
