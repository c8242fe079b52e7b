package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/await"
	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// The points at which a test can step in: at each of them the runtime is about
// to learn something of the partition, or has just learned it.
const (
	atAdmit    = "admit"
	atLeading  = "leading"
	atAppend   = "append"   // nothing is written yet
	atAppended = "appended" // it is
	atAwait    = "await"
	atAwaited  = "awaited" // the verdict has fallen
	atMark     = "mark"    // about to read the high watermark
	atRead     = "read"
	atBounds   = "bounds"
)

// part is a Partition in memory: one replica, whose log is a segment, and whose
// roles, marks and failures a test decides.
type part struct {
	t testing.TB

	mu       sync.Mutex
	hooks    map[string]func() // each is called once
	epoch    kafka.LeaderEpoch
	leads    bool
	admit    error // answer of Admit
	fail     error // of the next Append
	few      bool  // too few replicas in sync, when a wait has ended
	most     int   // bytes that an append may have; 0: any
	held     bool  // the mark stays where it is
	hw       int64
	start    int64
	gap      int64 // offsets behind the last batch that compaction took
	rot      bool  // the next read tells that bytes were lost
	blank    bool  // the next read finds nothing, as when the role changes beneath it
	log      *segment.Segment
	commits  await.Offsets
	appended []int // batches of each append
}

var _ Partition = (*part)(nil)

// newPart makes a partition that leads in epoch 0.
func newPart(t testing.TB) *part {
	p := &part{t: t, hooks: map[string]func(){}}
	p.wipe(0)
	p.lead(0)
	return p
}

// wipe replaces the log by an empty one that begins at an offset.
func (p *part) wipe(start int64) {
	p.t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/d"); err != nil {
		p.t.Fatal(err)
	}
	s, err := segment.Create(segment.NewFiles(fs, 10, 1<<20), segment.NewDir("/d"), start, nil, "")
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log, p.start, p.hw = s, start, start
}

// at has f called when the runtime comes to a point, once.
func (p *part) at(point string, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks[point] = f
}

func (p *part) reach(point string) {
	p.mu.Lock()
	f := p.hooks[point]
	delete(p.hooks, point)
	p.mu.Unlock()
	if f != nil {
		f()
	}
}

// set changes what the test decides, under the lock.
func (p *part) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// lead begins a term as leader.
func (p *part) lead(epoch kafka.LeaderEpoch) { p.role(epoch, true) }

// follow ends the term; another broker leads.
func (p *part) follow(epoch kafka.LeaderEpoch) { p.role(epoch, false) }

func (p *part) role(epoch kafka.LeaderEpoch, leads bool) {
	p.mu.Lock()
	w := p.commits.Fail(int32(p.epoch), kerr.NotLeaderForPartition)
	p.epoch, p.leads = epoch, leads
	if leads {
		w.Join(p.commits.Begin(int32(epoch), p.hw))
		w.Join(p.advance())
	}
	p.mu.Unlock()
	w.Run()
}

// advance takes the mark to the log's end, unless it is held; p.mu is held.
func (p *part) advance() await.Wakes {
	if p.held || !p.leads {
		return await.Wakes{}
	}
	p.hw = p.log.Next()
	return p.commits.Advance(p.hw)
}

// hold keeps the mark where it is; free lets it go on.
func (p *part) hold() { p.set(func() { p.held = true }) }

func (p *part) free() {
	p.mu.Lock()
	p.held = false
	w := p.advance()
	p.mu.Unlock()
	w.Run()
}

// commit takes the mark to an offset, while it is held.
func (p *part) commit(offset int64) {
	p.mu.Lock()
	p.hw = offset
	w := p.commits.Advance(offset)
	p.mu.Unlock()
	w.Run()
}

func (p *part) Leading() (kafka.LeaderEpoch, bool) {
	p.reach(atLeading)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch, p.leads
}

func (p *part) Admit() error {
	p.reach(atAdmit)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.leads {
		return kerr.NotLeaderForPartition
	}
	return p.admit
}

func (p *part) Append(_ time.Time, buf []byte, o replica.AppendOpts) (replica.AppendResult, error) {
	p.reach(atAppend)
	p.mu.Lock()
	res, w, err := p.appendLocked(buf, o)
	p.mu.Unlock()
	w.Run()
	p.reach(atAppended)
	return res, err
}

func (p *part) appendLocked(buf []byte, o replica.AppendOpts) (res replica.AppendResult, w await.Wakes, err error) {
	err, p.fail = p.fail, nil
	switch {
	case err != nil:
		return res, w, err
	case !p.leads, o.Term != nil && *o.Term != p.epoch:
		return res, w, kerr.NotLeaderForPartition
	case p.admit != nil && o.Acks == -1:
		return res, w, p.admit
	case p.most > 0 && len(buf) > p.most:
		return res, w, fmt.Errorf("%w: %d bytes", kerr.RecordListTooLarge, len(buf))
	}
	next, batches := p.log.Next(), 0
	res = replica.AppendResult{Base: next, Epoch: p.epoch}
	for rest := buf; len(rest) > 0; batches++ {
		b, after, err := batch.Next(rest)
		if err != nil || !b.CRCValid() {
			return res, w, fmt.Errorf("%w: %w", kerr.CorruptMessage, err)
		}
		b.SetBaseOffset(next)
		b.SetLeaderEpoch(int32(p.epoch))
		next, rest = b.NextOffset(), after
	}
	if err := p.log.Append(buf, 4096); err != nil {
		return res, w, err
	}
	res.Last = next - 1
	p.appended = append(p.appended, batches)
	return res, p.advance(), nil
}

func (p *part) AwaitCommitted(ctx context.Context, epoch kafka.LeaderEpoch, offset int64) error {
	p.reach(atAwait)
	err := p.commits.Wait(ctx, int32(epoch), offset)
	p.reach(atAwaited)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, await.ErrTerm):
		return kerr.NotLeaderForPartition
	case err == nil && p.few:
		return kerr.NotEnoughReplicasAfterAppend
	}
	return err
}

func (p *part) HighWatermark() int64 {
	p.reach(atMark)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hw
}

func (p *part) Bounds() (start, end int64) {
	p.reach(atBounds)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start, p.log.Next() + p.gap
}

func (p *part) Read(_ time.Time, r replica.ReadReq) (replica.ReadResult, error) {
	p.reach(atRead)
	p.mu.Lock()
	defer p.mu.Unlock()
	end := p.log.Next()
	switch {
	case !p.leads:
		return replica.ReadResult{}, kerr.NotLeaderForPartition
	case r.Epoch < p.epoch:
		return replica.ReadResult{}, kerr.FencedLeaderEpoch
	case r.Offset < p.start || r.Offset > end+p.gap:
		return replica.ReadResult{}, kerr.OffsetOutOfRange
	case r.Offset >= end:
		return replica.ReadResult{}, nil
	case p.blank:
		p.blank = false
		return replica.ReadResult{}, nil
	case p.rot:
		p.rot = false
		return replica.ReadResult{}, batch.ErrCorrupt
	}
	pos, err := p.log.Find(r.Offset)
	if err != nil {
		return replica.ReadResult{}, err
	}
	to, err := p.log.Whole(pos, int64(r.Max), end, r.MinOne)
	if err != nil {
		return replica.ReadResult{}, err
	}
	s, err := p.log.Acquire(pos, to-pos)
	if err != nil {
		return replica.ReadResult{}, err
	}
	return replica.ReadResult{Slices: []segment.Slice{s}, SizeBytes: s.Len()}, nil
}

// appends gives the number of batches of each append.
func (p *part) appends() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.appended)
}

// batches gives the log's batches.
func (p *part) batches() (out []batch.Batch) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log.Size() == 0 {
		return nil
	}
	s, err := p.log.Acquire(0, p.log.Size())
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Release()
	buf := make([]byte, s.Len())
	if err := s.ReadAt(buf, 0); err != nil {
		p.t.Fatal(err)
	}
	for len(buf) > 0 {
		b, rest, err := batch.Next(buf)
		if err != nil {
			p.t.Fatal(err)
		}
		out, buf = append(out, b), rest
	}
	return out
}
