package storage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

var (
	seedCount = flag.Int("seeds", envInt("BARNABAS_SEEDS", 60), "random histories per crash test (or BARNABAS_SEEDS)")
	firstSeed = flag.Uint64("seed", 0, "first seed of the crash tests")
)

func envInt(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// mbatch is a batch as the model remembers it.
type mbatch struct {
	base, last int64
	epoch      int32
	pid        int64
	pepoch     int16
	seq        int32
	txn        bool
	marker     int // 0 none, 1 commit, 2 abort
	bytes      string
}

// model is what a log must be equal to.
type model struct {
	cur   []mbatch // everything written and not truncated, from offset 0
	acked int64    // told by Hooks.Flushed
	// counted is the most that Counted was at any instant; doubted says that the
	// log has lost some of it, and that nobody vouched for that.
	counted int64
	doubted bool
	// extra is what may stand behind cur in a crash: an append under way, or
	// what a truncation under way cuts.
	extra []mbatch
	// start is the durable log start, startMax the one that was asked for.
	start, startMax int64
	epoch           int32
}

func (m *model) end() int64 {
	if len(m.cur) == 0 {
		return 0
	}
	return m.cur[len(m.cur)-1].last + 1
}

func (m *model) copy() model {
	c := *m
	c.cur, c.extra = slices.Clip(m.cur), slices.Clip(m.extra)
	return c
}

// producer is what the model knows of a producer from batches.
type mproducer struct {
	epoch   int16
	last    mbatch
	inTxn   bool
	txnFrom int64
}

// txnState replays batches.
func txnState(bs []mbatch) (producers map[int64]*mproducer, aborted []AbortedTxn, marks []int64) {
	producers = map[int64]*mproducer{}
	for _, b := range bs {
		if b.pid < 0 {
			continue
		}
		p := producers[b.pid]
		if p == nil {
			p = &mproducer{last: mbatch{base: -1, last: -1}}
			producers[b.pid] = p
		}
		p.epoch = b.pepoch
		switch {
		case b.marker != 0:
			if p.inTxn && b.marker == 2 {
				aborted = append(aborted, AbortedTxn{b.pid, p.txnFrom})
				marks = append(marks, b.last)
			}
			p.inTxn = false
		default:
			p.last = b
			if b.txn && !p.inTxn {
				p.inTxn, p.txnFrom = true, b.base
			}
		}
	}
	return producers, aborted, marks
}

// history drives a log and its model with random operations.
type history struct {
	t     testing.TB
	rng   *rand.Rand
	cfg   Config
	fs    *vfs.Mem
	box   *box
	log   *Log
	m     model
	n     int // appends so far, for values
	clock time.Time
	ops   []string

	// fault, when set, is asked for every change of the file system.
	fault      func(op vfs.Op) error
	dead       bool // an operation failed after a fault
	faulted    bool
	quietReads bool // reads of check do not draw from rng

	// crash is called at every change of the file system.
	crash func(op vfs.Op)

	hooks sync.Mutex
	dirs  []string // log directories; /d when nil
	boots int      // times that the system came up
	epoch bool     // a truncation begins a new epoch, as leaders see to
}

func (h *history) open(fsys *vfs.Mem) {
	h.fs = fsys
	wrapped := vfs.Wrap(fsys, vfs.Hooks{Before: func(op vfs.Op) error {
		h.hooks.Lock() // directories are opened side by side
		defer h.hooks.Unlock()
		if op.Kind.Changes() && h.crash != nil {
			h.count()
			h.crash(op)
		}
		if op.Kind.Changes() && h.fault != nil {
			return h.fault(op)
		}
		return nil
	}})
	cfg := managerConfig("/d")
	if h.dirs != nil {
		cfg.Dirs = h.dirs
	}
	cfg.MaxOpenFiles, cfg.MaxIndexBytes = 2, 512
	cfg.Defaults, cfg.BootID = h.cfg, fmt.Sprint("boot ", h.boots)
	b := &box{tb: h.t, m: New(cfg, wrapped, testLogger(h.t), nil), stop: func() {}}
	h.box = b
	if err := b.m.Open(context.Background()); err != nil {
		h.failed("open", err)
	}
}

// failed reports an error of an operation: fatal, unless a fault was injected.
func (h *history) failed(what string, err error) {
	h.t.Helper()
	if !h.faulted {
		h.fatal("%s: %v", what, err)
	}
	if !errors.Is(err, kerr.KafkaStorageError) && !errors.Is(err, errInjected) && !errors.Is(err, vfs.ErrNoSpace) {
		h.fatal("%s after a fault: %v", what, err)
	}
	h.logf("%s failed: %v", what, err)
	h.dead = true
}

var errInjected = fmt.Errorf("injected: %w", syscall.EIO)

func (h *history) fatal(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf(format+"\nafter\n%s", append(args, strings.Join(h.ops[max(0, len(h.ops)-80):], "\n"))...)
}

func (h *history) create() {
	if _, there := h.box.m.Get(testTP); h.faulted && !there {
		h.dead = true // its directory did not open: whoever knows that it was there makes no other
		return
	}
	l, err := h.box.m.Create(testTP, testID, h.cfg)
	if err != nil {
		h.failed("create", err)
		return
	}
	h.log = l
	l.SetHooks(Hooks{Flushed: func(end int64) { h.m.acked = max(h.m.acked, end) }, Swap: h.swap})
}

// count looks what the log is counted on for.
func (h *history) count() {
	if h.log != nil {
		h.m.counted = max(h.m.counted, min(h.log.Counted(), h.m.end())) // a truncation under way is known here
	}
}

func (h *history) logf(format string, args ...any) {
	h.ops = append(h.ops, fmt.Sprintf(format, args...))
}

// batchFor builds a random batch that the log will take at offset base.
func (h *history) batchFor(base int64) (mbatch, []byte) {
	h.n++
	h.clock = h.clock.Add(time.Duration(h.rng.IntN(3000)) * time.Millisecond)
	ps, _, _ := txnState(append(slices.Clip(h.m.cur), h.m.extra...))
	mb := mbatch{base: base, epoch: h.m.epoch, pid: -1, pepoch: -1, seq: -1}
	if h.rng.IntN(3) > 0 {
		mb.pid = int64(1 + h.rng.IntN(3))
		mb.pepoch = 0
		p := ps[mb.pid]
		if p != nil && p.last.base >= 0 {
			mb.seq = p.last.seq + int32(p.last.last-p.last.base) + 1
		} else {
			mb.seq = 0
		}
		mb.txn = mb.pid != 3
		if p != nil && p.inTxn && h.rng.IntN(3) == 0 {
			mb.marker = 1 + h.rng.IntN(2)
			mb.last = base
			out := batch.AppendMarker(nil, batch.Marker{ProducerID: mb.pid, ProducerEpoch: mb.pepoch, Commit: mb.marker == 1}, h.clock.UnixMilli())
			return mb, out
		}
	}
	var recs []rec
	for i := range 1 + h.rng.IntN(4) {
		recs = append(recs, rec{ts: h.clock.UnixMilli() + int64(h.rng.IntN(50)), value: fmt.Sprintf("%d.%d.%s", h.n, i, fill[:h.rng.IntN(len(fill))])})
	}
	o := batch.Options{Transactional: mb.txn}
	if mb.pid >= 0 {
		o.Producer = &batch.Producer{ID: mb.pid, Epoch: mb.pepoch, Sequence: mb.seq}
	}
	mb.last = base + int64(len(recs)) - 1
	return mb, makeBatch(h.t, o, recs...)
}

const fill = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"

func (h *history) append(follower bool) {
	n := 1 + h.rng.IntN(3)
	if !follower {
		n = 1
	}
	var buf []byte
	base := h.m.end()
	origin := FromClient
	for range n {
		mb, raw := h.batchFor(base)
		if mb.marker != 0 {
			origin = FromCoordinator
		}
		b := batch.Batch(raw)
		b.SetBaseOffset(base)
		b.SetLeaderEpoch(mb.epoch)
		mb.bytes = string(raw)
		h.m.extra = append(h.m.extra, mb)
		base = mb.last + 1
		buf = append(buf, raw...)
	}
	var res AppendResult
	var err error
	if follower {
		res, err = h.log.AppendAsFollower(buf)
	} else {
		res, err = h.log.Append(h.clock, buf, kafka.LeaderEpoch(h.m.epoch), origin)
	}
	if err != nil {
		h.failed("append", err)
		return
	}
	if res.Duplicate || res.Base != h.m.end() {
		h.fatal("append gave %+v, want base %d", res, h.m.end())
	}
	h.m.cur = append(slices.Clip(h.m.cur), h.m.extra...)
	h.m.extra = nil
	h.logf("append %d..%d epoch %d", res.Base, res.Last, h.m.epoch)
}

// step does one random operation.
func (h *history) step() {
	l := h.log
	switch r := h.rng.IntN(100); {
	case r < 55:
		h.append(h.rng.IntN(2) == 0)
	case r < 72:
		l.d.flusher.drain()
		h.logf("drain: flushed %d", l.FlushedEnd())
	case r < 78:
		h.m.epoch += int32(1 + h.rng.IntN(2))
		if h.rng.IntN(2) == 0 {
			if err := l.AssignEpoch(kafka.LeaderEpoch(h.m.epoch), l.End()); err != nil {
				h.failed("assign", err)
			}
		}
		h.logf("epoch %d", h.m.epoch)
	case r < 84:
		h.truncate()
	case r < 88:
		hw := h.m.start + h.rng.Int64N(h.m.acked-min(h.m.start, h.m.acked)+1)
		l.SetHighWatermark(max(hw, l.HighWatermark()))
	case r < 91:
		h.deleteBefore()
	case r < 96:
		h.logf("checkpoint")
		if err := h.box.m.Checkpoint(context.Background()); err != nil {
			h.failed("checkpoint", err)
		}
	case r < 97:
		h.logf("tick")
		h.box.m.dirs[0].deleteDue(time.Now().Add(time.Hour))
	case r < 99:
		h.restart()
	default:
		h.cfg.Durable = !h.cfg.Durable
		h.logf("durable %v", h.cfg.Durable)
		l.SetConfig(h.cfg)
	}
	if !h.dead {
		h.count()
	}
}

func (h *history) truncate() {
	l := h.log
	low := max(l.HighWatermark(), h.m.startMax)
	if low >= h.m.end() {
		return
	}
	to := low + h.rng.Int64N(h.m.end()-low)
	i := slices.IndexFunc(h.m.cur, func(b mbatch) bool { return b.last >= to })
	cut := h.m.cur[i].base
	if cut < low {
		return // the high watermark lies within a batch: no leader asks for that
	}
	h.logf("truncate %d (at %d)", to, cut)
	h.m.acked, h.m.counted = min(h.m.acked, cut), min(h.m.counted, cut)
	h.m.cur, h.m.extra = slices.Clip(h.m.cur[:i]), slices.Clip(h.m.cur[i:])
	if err := l.Truncate(to); err != nil {
		h.failed("truncate", err)
		return
	}
	h.m.extra = nil
	if h.epoch {
		h.m.epoch++
	}
	if l.End() != cut {
		h.fatal("truncated to %d, want %d", l.End(), cut)
	}
}

func (h *history) deleteBefore() {
	hw := h.log.HighWatermark()
	if hw <= h.m.start {
		return
	}
	to := h.m.start + h.rng.Int64N(hw-h.m.start+1)
	h.logf("delete before %d", to)
	h.m.startMax = max(h.m.startMax, to)
	if err := h.log.DeleteBefore(to); err != nil {
		h.failed("delete before", err)
		return
	}
	h.m.start = max(h.m.start, to)
}

func (h *history) restart() {
	h.logf("clean restart")
	if err := h.box.m.Close(3); err != nil {
		h.failed("close", err)
		return
	}
	h.m.acked = h.m.end()
	h.boots += h.n % 2 // what an orderly stop leaves outlives the system's
	h.log = nil
	h.open(h.fs)
	if h.dead {
		return
	}
	if h.create(); h.dead {
		return
	}
	h.doubt(h.m.end())
	h.check("after a clean restart")
	h.resend()
	if h.log.End() != h.m.end() {
		h.fatal("end %d after a clean restart, want %d", h.log.End(), h.m.end())
	}
}

// doubt checks that a log that lacks what it was counted on for says so, until
// somebody vouches, and that no other does where nothing was lost with the
// system.
func (h *history) doubt(end int64) {
	h.m.doubted = h.m.doubted || end < h.m.counted
	if d := h.log.Doubtful(); h.m.doubted && !d {
		h.fatal("log ends at %d, %d was counted on, and it is not doubtful", end, h.m.counted)
	}
	h.m.counted = end
	if h.n%2 == 0 {
		h.box.m.Vouch()
		h.m.doubted = false
	}
}

// settle makes the model that of what was found after a crash.
func (h *history) settle() {
	end := h.log.End()
	all := append(slices.Clip(h.m.cur), h.m.extra...)
	if end < h.m.acked {
		h.fatal("log ends at %d, and %d was acknowledged", end, h.m.acked)
	}
	h.doubt(end)
	i := 0
	for i < len(all) && all[i].last < end {
		i++
	}
	if i > 0 && all[i-1].last+1 != end || i == 0 && end != 0 {
		h.fatal("log ends at %d, within a batch", end)
	}
	if s := h.log.Start(); s < h.m.start || s > max(h.m.startMax, h.m.start) {
		h.fatal("log start %d, want it in [%d, %d]", s, h.m.start, h.m.startMax)
	}
	h.m.cur, h.m.extra = all[:i:i], nil
	h.m.acked = end
	h.m.start = h.log.Start()
	h.m.startMax = h.m.start
	h.check("after a crash")
}

// check compares the log with the model.
func (h *history) check(when string) {
	l := h.log
	start, end := l.Start(), l.End()
	var got []byte
	for at := start; at < end; {
		room := 1000
		if !h.quietReads {
			room = 1 + h.rng.IntN(3000)
		}
		r, err := l.Read(at, end, room, true)
		if err != nil {
			h.fatal("%s: read at %d: %v", when, at, err)
		}
		if r.SizeBytes == 0 {
			h.fatal("%s: nothing at %d, end %d", when, at, end)
		}
		for _, s := range r.Slices {
			p := make([]byte, s.Len())
			if err := s.ReadAt(p, 0); err != nil {
				h.fatal("%s: read at %d: %v", when, at, err)
			}
			got = append(got, p...)
			for len(p) > 0 {
				b, rest, err := batch.Next(p)
				if err != nil {
					h.fatal("%s: batch after %d: %v", when, at, err)
				}
				at, p = b.NextOffset(), rest
			}
		}
		r.Release()
	}
	var want []byte
	for _, b := range h.m.cur {
		if b.last >= start && b.base < end {
			want = append(want, b.bytes...)
		}
	}
	if string(got) != string(want) {
		h.fatal("%s: log [%d, %d) reads %d bytes that are not the %d of the model", when, start, end, len(got), len(want))
	}
	h.checkStates(when, start, end)
}

func (h *history) checkStates(when string, start, end int64) {
	l := h.log
	for _, b := range h.m.cur {
		if b.last < start {
			continue
		}
		if e := l.EpochAt(b.last); int32(e) != b.epoch {
			h.fatal("%s: epoch at %d is %d, want %d", when, b.last, e, b.epoch)
		}
	}
	ps, aborted, marks := txnState(h.m.cur)
	unstable := int64(-1)
	for _, e := range l.Producers() {
		p := ps[e.ProducerID]
		if p == nil {
			h.fatal("%s: producer %d is known and wrote nothing", when, e.ProducerID)
		}
		if e.LastOffset() != p.last.last || e.InTransaction() != p.inTxn {
			h.fatal("%s: producer %d: last offset %d in transaction %v, want %d %v", when, e.ProducerID, e.LastOffset(), e.InTransaction(), p.last.last, p.inTxn)
		}
		if p.last.base >= 0 && e.LastSeq() != p.last.seq+int32(p.last.last-p.last.base) {
			h.fatal("%s: producer %d: last sequence %d", when, e.ProducerID, e.LastSeq())
		}
		delete(ps, e.ProducerID)
		if p.inTxn && (unstable < 0 || p.txnFrom < unstable) {
			unstable = p.txnFrom
		}
	}
	for id, p := range ps {
		if p.last.last >= start {
			h.fatal("%s: producer %d is forgotten", when, id)
		}
	}
	if got := l.FirstUnstable(end); got != unstable && !h.m.unstableWithin(got, start) {
		h.fatal("%s: first unstable %d, want %d", when, got, unstable)
	}
	got := l.Aborted(start, end)
	for i, a := range aborted {
		found := slices.ContainsFunc(got, func(g AbortedTxn) bool { return h.m.sameTxn(g, a, start) })
		if !found && marks[i] >= start {
			h.fatal("%s: aborted transaction %+v is missing in %v, log start %d", when, a, got, start)
		}
	}
	for _, a := range got {
		if !slices.ContainsFunc(aborted, func(want AbortedTxn) bool { return h.m.sameTxn(a, want, start) }) {
			h.fatal("%s: aborted transaction %+v was never there: got %v want %v markers %v", when, a, got, aborted, marks)
		}
	}
	seen := map[AbortedTxn]bool{}
	for _, a := range got {
		if seen[a] {
			h.fatal("%s: aborted transaction %+v twice", when, a)
		}
		seen[a] = true
	}
}

// resend checks that the last batches of each producer, as many as it may have
// in flight, are duplicates.
func (h *history) resend() {
	for _, id := range []int64{1, 2, 3} {
		var sent []mbatch
		for _, b := range h.m.cur {
			if b.pid == id && b.marker == 0 {
				sent = append(sent, b)
			}
		}
		kept := max(0, len(sent)-producers.KeptBatches)
		if !h.older(sent[:kept]) {
			return
		}
		for _, b := range sent[kept:] {
			if b.base < h.log.Start() {
				continue
			}
			res, err := h.log.Append(h.clock, []byte(b.bytes), kafka.LeaderEpoch(h.m.epoch), FromClient)
			if err != nil && h.faulted {
				h.failed("send again", err)
				return
			}
			if err != nil || !res.Duplicate || res.Base != b.base || res.Last != b.last {
				h.fatal("producer %d sent %d..%d again: %+v %v", id, b.base, b.last, res, err)
			}
		}
	}
}
