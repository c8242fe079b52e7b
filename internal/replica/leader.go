package replica

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
)

// Proposal is another ISR that a leader wants the metadata store to hold. One
// at a time is on its way, and until its outcome is known for certain both the
// committed ISR and the proposed one bound the high watermark (safety 7).
//
// Whoever carries it out ends it in one of two ways. The image shows the
// partition at a later epoch than Base: nothing is to be done, the state is
// taken over with the image. Or it is certain that it never will be carried
// out, for something that it compares has changed, or it was never sent: then
// Withdraw. A transaction that timed out may still be applied: it is sent
// again, the same, until the store says yes or no.
type Proposal struct {
	plan.ISRChange
	// Base is the partition epoch that it was decided at.
	Base int64
}

// newFollowers are those of a term that begins.
func newFollowers(t term, leader bool) []isr.Follower {
	if !leader || len(t.others) == 0 {
		return nil
	}
	now := time.Now()
	out := make([]isr.Follower, 0, len(t.others))
	for _, n := range t.others {
		out = append(out, isr.Unknown(n, slices.Contains(t.view.Committed, n), now))
	}
	return out
}

// restate takes over another state of the same term; mu is held. A replica that
// was added is not known yet, and one that is no longer assigned is forgotten.
func (p *Partition) restate(t term) wakeUps {
	was := p.view.Committed
	if p.pending != nil && t.stated.epoch > p.pending.Base {
		p.pending = nil // that it compared is gone: it was carried out, or never will be
	}
	p.view, p.state = t.view, t.stated
	p.inSync.Store(slices.Contains(t.view.Committed, p.self))
	if p.pending != nil {
		p.view.Proposed = members(p.pending.ISR)
	}
	if t.leader {
		known := p.followers
		p.followers = newFollowers(t, true)
		p.followed.Store(len(p.followers) > 0)
		for i := range p.followers {
			if k := slices.IndexFunc(known, func(f isr.Follower) bool { return f.Node == p.followers[i].Node }); k >= 0 {
				p.followers[i] = known[k]
			}
			if f := &p.followers[i]; slices.Contains(t.view.Committed, f.Node) && !slices.Contains(was, f.Node) {
				f.CaughtUp = time.Now() // it came in behind the log's end, and has the leader's patience from now on
			}
		}
	}
	return p.advanceLocked()
}

func members(ms []plan.Member) []kafka.NodeID {
	out := make([]kafka.NodeID, 0, len(ms))
	for _, m := range ms {
		out = append(out, m.Node)
	}
	return out
}

// FollowerAt takes over what a follower's Fetch of the leader epoch current
// claims, once Read has answered it without a divergence (safety 9). The high
// watermark may move, and another ISR be proposed. Errors: those of a role, and
// NOT_LEADER_OR_FOLLOWER for a broker that is no replica here.
func (p *Partition) FollowerAt(now time.Time, current kafka.LeaderEpoch, c isr.Claim) error {
	p.mu.Lock()
	r := p.role.Load()
	if err := r.check(current); err != nil {
		p.mu.Unlock()
		return err
	}
	i := slices.IndexFunc(p.followers, func(f isr.Follower) bool { return f.Node == c.Node })
	if i < 0 {
		p.mu.Unlock()
		return fmt.Errorf("%w: broker %d is no replica of %s", kerr.NotLeaderForPartition, c.Node, p.tp)
	}
	c.Knows = current == r.epoch
	t := p.termOf(r)
	before := p.followers[i].LogStart
	p.followers[i] = p.followers[i].Fetch(c, t.End, now)
	deleted := p.followers[i].LogStart != before
	woken := p.setMark(t.Mark(now))
	change, ok := p.changeLocked(now, r, math.MaxInt64)
	p.mu.Unlock()
	woken.finish(p)
	if deleted {
		p.watchers.wake() // AwaitDeleted's
	}
	if ok {
		p.propose(change)
	}
	return nil
}

// Tick looks for members that have lagged for too long without a word of
// theirs. It is called every half of replica.lag.time.max.ms.
func (p *Partition) Tick(now time.Time) {
	if !p.followed.Load() { // one read, of ten thousand partitions
		return
	}
	if _, leads := p.Leading(); !leads {
		return
	}
	p.mu.Lock()
	change, ok := p.changeLocked(now, p.role.Load(), p.rules.Load().Lag)
	woken := p.advanceLocked() // it may have waited for one who lags now
	p.mu.Unlock()
	woken.finish(p)
	if ok {
		p.propose(change)
	}
}

// changeLocked decides on another ISR, and counts it from now on. Those who have
// lagged for longer than lag leave: only Tick looks for them, so that a claim
// that comes a moment before another's costs nobody its place.
func (p *Partition) changeLocked(now time.Time, r *role, lag time.Duration) (Proposal, bool) {
	if !r.leader || r.failed != nil || p.propose == nil || len(p.followers) == 0 {
		return Proposal{}, false
	}
	t := p.termOf(r)
	t.Lag = lag
	next := t.Change(now)
	if next == nil {
		return Proposal{}, false
	}
	c := Proposal{Base: p.state.epoch, ISRChange: plan.ISRChange{
		Leader: p.self, LeaderBrokerEpoch: p.state.brokerEpoch, LeaderEpoch: r.epoch,
	}}
	c.Partition.Topic, c.Partition.Partition = p.id, p.tp.Partition
	for _, n := range next {
		m := plan.Member{Node: n, BrokerEpoch: p.state.brokerEpoch}
		if i := slices.IndexFunc(p.followers, func(f isr.Follower) bool { return f.Node == n }); i >= 0 {
			m.BrokerEpoch = p.followers[i].BrokerEpoch
		}
		c.ISR = append(c.ISR, m)
	}
	p.pending, p.view.Proposed = &c, next
	return c, true
}

// Withdraw ends a proposal that certainly never will be carried out.
func (p *Partition) Withdraw(c Proposal) {
	p.mu.Lock()
	var woken wakeUps
	if q := p.pending; q != nil && q.Base == c.Base && q.LeaderEpoch == c.LeaderEpoch {
		p.pending, p.view.Proposed = nil, nil
		woken = p.advanceLocked()
	}
	p.mu.Unlock()
	woken.finish(p)
}

// keptUp notes, before something is appended, who has all there is: a follower
// that fetches lists a partition only when something has changed (safety 19), and
// its patience counts from here.
func (p *Partition) keptUp() {
	if len(p.followers) == 0 {
		return
	}
	end, now := p.Log().End(), time.Now()
	for i := range p.followers {
		if p.followers[i].Position >= end {
			p.followers[i].CaughtUp = now
		}
	}
}

// Followers is what is known of the followers of a partition that is led here.
func (p *Partition) Followers() []isr.Follower {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.followers)
}
