package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/await"
	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

// Rules are what a partition needs of its topic's configuration beside what
// its log needs. They are replaced whole when the configuration changes.
type Rules struct {
	// Batch are the rules for what producers send; the clock and what depends
	// on the request are filled in with each append.
	Batch batch.Rules
	// MinInSync is min.insync.replicas.
	MinInSync int
	// Lag is replica.lag.time.max.ms.
	Lag time.Duration
	// Session is for how long a broker that hears nothing of a new leader may
	// still lead; 0: nobody else can.
	Session time.Duration
	// Internal topics are written by the broker alone.
	Internal bool
	// ThrottledLeaders and ThrottledFollowers are leader. and
	// follower.replication.throttled.replicas.
	ThrottledLeaders, ThrottledFollowers []string

	slowLeader, slowFollower bool // this replica is among them
}

// validate checks what is to be appended, and stamps it where the topic says so.
func (r *Rules) validate(now time.Time, buf []byte, o AppendOpts) (batch.Result, error) {
	b := r.Batch
	b.NowMs = now.UnixMilli()
	b.AllowZstd = o.AllowZstd
	b.Coordinator = o.Origin != storage.FromClient
	return batch.Validate(buf, b)
}

// Partition is this broker's replica of a partition. All methods may be called
// from several goroutines.
type Partition struct {
	tp    kafka.TopicPartition
	id    kafka.TopicID
	self  kafka.NodeID
	rules atomic.Pointer[Rules]

	// log is replaced under mu, when it has moved to another directory.
	log atomic.Pointer[storage.Log]
	// moved is told of that, and propose of an ISR to be proposed, with no lock
	// held.
	moved   func(*Partition)
	propose func(Proposal)

	// role, hw and inSync are read without mu, and written under it.
	role   atomic.Pointer[role]
	hw     atomic.Int64
	inSync atomic.Bool // this replica is in the committed ISR
	// followed: it leads, and others follow.
	followed atomic.Bool

	watchers watchers

	// tail is held, before mu, by whoever writes to the log as a follower, also
	// across the syncs of a truncation, and by whoever begins a term: none begins
	// on a log that is being cut.
	tail sync.Mutex

	mu        sync.Mutex
	state     stated
	view      isr.View
	followers []isr.Follower // of a leader, in the order of the assignment
	pending   *Proposal      // on its way
	commits   await.Offsets  // acks=all, bound to the term in role
}

// stated is what the metadata store holds of the partition.
type stated struct {
	epoch       int64 // the partition epoch: the key's mod revision
	brokerEpoch int64 // this broker's registration, while it leads
}

// role is what the partition is in its term; it is replaced, never changed.
type role struct {
	epoch kafka.LeaderEpoch
	// leader: this broker leads. Otherwise every request that wants a leader
	// is refused.
	leader bool
	// of is the leader: this broker or another; -1 none.
	of kafka.NodeID
	// epochStart is the log end when the term began: until the high watermark
	// is there, what the last leader committed is not known (KIP-207).
	epochStart int64
	// failed is set once the log directory is offline, for good.
	failed error
}

// err is the refusal of a partition in this role, or nil for a leader.
func (r *role) err() error {
	switch {
	case r.failed != nil:
		return fmt.Errorf("%w: log directory is offline: %w", kerr.KafkaStorageError, r.failed)
	case !r.leader:
		return kerr.NotLeaderForPartition
	}
	return nil
}

// check compares the leader epoch that a client knows (-1: none) with the
// partition's own (KIP-320).
func (r *role) check(current kafka.LeaderEpoch) error {
	if err := r.err(); err != nil {
		return err
	}
	return r.compare(current)
}

func (r *role) compare(current kafka.LeaderEpoch) error {
	switch {
	case current < 0 || current == r.epoch:
		return nil
	case current < r.epoch:
		return kerr.FencedLeaderEpoch
	default:
		return kerr.UnknownLeaderEpoch
	}
}

// newPartition wraps a log, in no role yet. Its high watermark is the one that
// the log was opened with: the checkpointed one.
func newPartition(tp kafka.TopicPartition, self kafka.NodeID, log *storage.Log, rules Rules) *Partition {
	p := &Partition{tp: tp, id: log.TopicID(), self: self}
	p.log.Store(log)
	p.setRules(rules)
	p.role.Store(&role{epoch: kafka.NoEpoch})
	p.hw.Store(min(max(log.HighWatermark(), log.Start()), log.End()))
	log.SetHooks(storage.Hooks{Flushed: p.flushed, Started: p.started, Failed: p.dirFailed, Swap: p.swap})
	return p
}

// TopicPartition is the partition's name.
func (p *Partition) TopicPartition() kafka.TopicPartition { return p.tp }

// TopicID of the partition's topic.
func (p *Partition) TopicID() kafka.TopicID { return p.id }

// Log gives the log beneath, for administration: sizes, directories,
// DeleteRecords. It is another one once the partition has moved to another
// directory; the one before then refuses with KAFKA_STORAGE_ERROR.
func (p *Partition) Log() *storage.Log { return p.log.Load() }

// swap is the log's hook: the copy in another directory takes its place. Under
// the mutex nothing is appended, and no mark moves.
func (p *Partition) swap(to *storage.Log, do func() error) error {
	p.mu.Lock()
	err := do()
	if err == nil {
		p.log.Store(to)
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	p.watchers.wake() // what they have read is of the log before
	if p.moved != nil {
		p.moved(p)
	}
	return nil
}

// HighWatermark is the offset below which records are committed.
func (p *Partition) HighWatermark() int64 { return p.hw.Load() }

// Leading reports the leader epoch and whether this broker leads.
func (p *Partition) Leading() (kafka.LeaderEpoch, bool) {
	r := p.role.Load()
	return r.epoch, r.leader && r.failed == nil
}

// flushed is the log's hook: its flushed end moved. A leader's mark may move
// with it; a follower has more to claim.
func (p *Partition) flushed(int64) {
	if !p.role.Load().leader {
		p.watchers.wake()
		return
	}
	p.advance()
}

// started is the log's hook: its start moved, and followers hear of it now.
func (p *Partition) started(int64) { p.watchers.wake() }

// advance takes over new positions and wakes those who waited for them.
func (p *Partition) advance() {
	p.mu.Lock()
	woken := p.advanceLocked()
	p.mu.Unlock()
	woken.finish(p)
}

// wakeUps are collected under the mutex and run after it.
type wakeUps struct {
	moved   bool
	commits await.Wakes
}

func (w wakeUps) finish(p *Partition) {
	if !w.moved {
		return
	}
	w.commits.Run()
	p.watchers.wake()
}

// advanceLocked computes the high watermark. The log learns of it under the
// mutex too, so that two marks cannot reach it in the wrong order.
func (p *Partition) advanceLocked() wakeUps { return p.advanceAs(p.role.Load()) }

// advanceAs is advanceLocked in a role that is about to begin.
func (p *Partition) advanceAs(r *role) wakeUps {
	if !r.leader || r.failed != nil {
		return wakeUps{}
	}
	t := p.termOf(r)
	var now time.Time
	if len(p.followers) > 0 {
		now = time.Now()
	}
	return p.setMark(t.Mark(now))
}

// setMark takes over a high watermark, if it is another; mu is held.
func (p *Partition) setMark(hw int64) wakeUps {
	if hw == p.hw.Load() {
		return wakeUps{}
	}
	p.hw.Store(hw)
	p.Log().SetHighWatermark(hw)
	return wakeUps{moved: true, commits: p.commits.Advance(hw)}
}

// termOf is what a leader decides by; mu is held.
func (p *Partition) termOf(r *role) isr.Term {
	return isr.Term{
		View: p.view, Self: p.self, EpochStart: r.epochStart, End: p.Log().End(), Position: p.Log().Counted(),
		HW: p.hw.Load(), Followers: p.followers,
		Lag: p.rules.Load().Lag, Session: p.rules.Load().Session,
	}
}

// AppendOpts of Append.
type AppendOpts struct {
	// Acks is the producer's: -1 wants an ISR of min.insync.replicas.
	Acks   int16
	Origin storage.Origin
	// AllowZstd is false for Produce versions below 7, whose consumers may not
	// know the codec (KIP-110).
	AllowZstd bool
	// Term, where it is set, is the leader epoch that what is appended was decided
	// in: in another one it is refused.
	Term *kafka.LeaderEpoch
}

// AppendResult is taken under the partition's mutex, so it is bound to the
// term Epoch.
type AppendResult struct {
	Base, Last   int64
	Epoch        kafka.LeaderEpoch
	LogStart     int64
	AppendTimeMs int64 // -1 with CreateTime
	// Duplicate: an idempotent producer sent this before, and Base, Last and
	// AppendTimeMs are the first append's. It still waits like the original. Where
	// nobody remembers where that is, Base is -1, and Last not below it.
	Duplicate bool
	// Committed: the high watermark is past Last already, with enough replicas
	// in sync, so AwaitCommitted would return at once.
	Committed bool
}

// Append validates batches as the topic's rules say, and appends them as
// leader. buf is changed in place and not kept. Errors wrap *kerr.Error; a
// *batch.RecordsError among them names single records (Produce v8).
func (p *Partition) Append(now time.Time, buf []byte, o AppendOpts) (AppendResult, error) {
	rules := p.rules.Load()
	if rules.Internal && o.Origin == storage.FromClient {
		return AppendResult{}, fmt.Errorf("%w: %s is written by the broker alone", kerr.InvalidTopicException, p.tp.Topic)
	}
	if err := p.role.Load().err(); err != nil {
		return AppendResult{}, err // before any work on the records
	}
	v, err := rules.validate(now, buf, o)
	if err != nil {
		return AppendResult{}, fmt.Errorf("append to %s: %w", p.tp, err)
	}

	defer v.Release()

	p.mu.Lock()
	res, woken, err := p.appendLocked(now, v.Records, o)
	p.mu.Unlock()
	if err != nil {
		return AppendResult{}, fmt.Errorf("append to %s: %w", p.tp, err)
	}
	woken.finish(p)
	if !woken.moved {
		p.watchers.wake() // followers read up to the log end
	}
	return res, nil
}

func (p *Partition) appendLocked(now time.Time, buf []byte, o AppendOpts) (AppendResult, wakeUps, error) {
	r := p.role.Load()
	if err := r.err(); err != nil {
		return AppendResult{}, wakeUps{}, err
	}
	if o.Term != nil && *o.Term != r.epoch {
		return AppendResult{}, wakeUps{}, fmt.Errorf("%w: leader epoch %d is over", kerr.NotLeaderForPartition, *o.Term)
	}
	if o.Acks == -1 && !p.view.Enough() {
		return AppendResult{}, wakeUps{}, fmt.Errorf("%w: %d in sync, %d required", kerr.NotEnoughReplicas,
			len(p.view.Committed), p.view.EffectiveMin())
	}
	p.keptUp()
	a, err := p.Log().Append(now, buf, r.epoch, o.Origin)
	if err != nil {
		return AppendResult{}, wakeUps{}, err
	}
	res := AppendResult{Base: a.Base, Last: a.Last, Epoch: r.epoch, LogStart: a.LogStart, AppendTimeMs: a.AppendTimeMs, Duplicate: a.Duplicate}
	var woken wakeUps
	if p.Log().Relaxed() { // otherwise the flusher will say
		woken = p.advanceLocked()
	}
	res.Committed = p.hw.Load() > res.Last && p.view.Enough()
	return res, woken, nil
}

// Admit says why an append with acks=all would be refused now, or nil:
// coordinators ask before they decide anything (safety 24).
func (p *Partition) Admit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.role.Load().err(); err != nil {
		return err
	}
	if !p.view.Enough() {
		return fmt.Errorf("%w: %d in sync, %d required", kerr.NotEnoughReplicas, len(p.view.Committed), p.view.EffectiveMin())
	}
	return p.Log().Writable()
}

// Bounds are the log's start and end.
func (p *Partition) Bounds() (start, end int64) { return p.Log().Start(), p.Log().End() }

// AwaitCommitted waits until the high watermark of the term epoch reaches
// offset: the last appended one + 1. Errors: NOT_LEADER_OR_FOLLOWER when the
// term ended first, NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR, and
// ctx's own, whose outcome is unknown.
func (p *Partition) AwaitCommitted(ctx context.Context, epoch kafka.LeaderEpoch, offset int64) error {
	err := p.commits.Wait(ctx, int32(epoch), offset)
	if errors.Is(err, await.ErrTerm) {
		return kerr.NotLeaderForPartition
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.view.Enough() {
		return kerr.NotEnoughReplicasAfterAppend
	}
	return nil
}

// dirFailed is the log's hook: its directory went offline.
func (p *Partition) dirFailed(cause error) {
	if p.Log().Failed() != nil { // else it has moved away from there
		p.fail(cause)
	}
}

// fail ends the partition for good: nothing that waits can be acknowledged any
// more.
func (p *Partition) fail(cause error) {
	p.mu.Lock()
	r := *p.role.Load()
	if r.failed != nil {
		p.mu.Unlock()
		return
	}
	r.failed = cause
	if cause == nil {
		r.failed = errors.New("unknown cause")
	}
	p.role.Store(&r)
	waiting := p.commits.Fail(int32(r.epoch), r.err())
	p.mu.Unlock()
	waiting.Run()
	p.watchers.wake()
}

// term is what the metadata image says of a partition's leadership.
type term struct {
	epoch  kafka.LeaderEpoch
	leader bool         // this broker
	of     kafka.NodeID // the leader, whoever it is; -1 none
	view   isr.View
	// others are the assigned replicas but this one.
	others []kafka.NodeID
	stated stated
}

// enter takes over a term. The same term again only replaces its view: a
// changed ISR does not fence anyone.
func (p *Partition) enter(t term) error {
	p.tail.Lock()
	defer p.tail.Unlock()
	p.mu.Lock()
	r := *p.role.Load()
	if r.failed != nil || t.epoch < r.epoch || t.stated.epoch < p.state.epoch {
		p.mu.Unlock()
		return nil
	}
	if t.epoch == r.epoch && t.leader == r.leader && t.of == r.of {
		woken := p.restate(t)
		// Whoever was not allowed in before may be now, and will not say again that
		// it has everything.
		change, ok := p.changeLocked(time.Now(), &r, math.MaxInt64)
		p.mu.Unlock()
		woken.finish(p)
		if ok {
			p.propose(change)
		}
		return nil
	}
	// The old term's waiters fail before anything of the new one is visible.
	waiting := p.commits.Fail(int32(r.epoch), kerr.NotLeaderForPartition)
	next := &role{epoch: t.epoch, leader: t.leader, of: t.of, epochStart: p.Log().End()}
	var err error
	if t.leader {
		err = p.Log().AssignEpoch(t.epoch, next.epochStart)
	}
	if err != nil {
		next.leader = false
	}
	// A proposal of an earlier term compared a state that is gone.
	p.view, p.state, p.pending = t.view, t.stated, nil
	p.inSync.Store(slices.Contains(t.view.Committed, p.self))
	p.followers = newFollowers(t, next.leader)
	p.followed.Store(len(p.followers) > 0)
	if next.leader {
		waiting.Join(p.commits.Begin(int32(t.epoch), p.hw.Load()))
	}
	// The mark first: after a restart it is the checkpointed one until here, and
	// no reader may be told a lower one than before.
	woken := p.advanceAs(next)
	p.role.Store(next)
	p.mu.Unlock()

	waiting.Run()
	woken.finish(p)
	p.watchers.wake()
	if err != nil {
		return fmt.Errorf("begin leader epoch %d of %s: %w", t.epoch, p.tp, err)
	}
	return nil
}

// close ends the partition on this broker: it is deleted or moved away.
func (p *Partition) close() {
	p.mu.Lock()
	r := *p.role.Load()
	r.leader, r.of = false, kafka.NoNode
	p.role.Store(&r)
	waiting := p.commits.Fail(int32(r.epoch), kerr.NotLeaderForPartition)
	p.mu.Unlock()
	waiting.Run()
	p.watchers.wake()
}
