package replica

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Following is where a follower stands, and what its next Fetch says.
type Following struct {
	Leader kafka.NodeID // -1: there is none to fetch from
	Epoch  kafka.LeaderEpoch
	// Offset is the written end, from which on it reads; LastEpoch is that of
	// the record before.
	Offset    int64
	LastEpoch kafka.LeaderEpoch
	// Counted is what it can be counted on for (safety 40): the flushed end, but
	// where the topic is not durable.
	Counted  int64
	LogStart int64
}

// Following reports where this replica stands, and whether it is a follower
// whose log can be written.
func (p *Partition) Following() (Following, bool) {
	r := p.role.Load()
	log := p.Log()
	f := Following{Leader: r.of, Epoch: r.epoch, Offset: log.End(), LastEpoch: log.LatestEpoch(), Counted: log.Counted(), LogStart: log.Start()}
	f.Counted = min(f.Counted, f.Offset)
	return f, !r.leader && r.failed == nil && r.epoch >= 0
}

// AppendAsFollower appends what the leader of the epoch sent, and takes over its
// high watermark as far as the log goes, and its log start. records is empty
// where only those have moved. Errors: FENCED_LEADER_EPOCH when the epoch is
// over; CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR, and what the log says of records
// that do not follow on.
func (p *Partition) AppendAsFollower(epoch kafka.LeaderEpoch, records []byte, hw, logStart int64) error {
	p.tail.Lock()
	defer p.tail.Unlock()
	if err := p.followsIn(epoch); err != nil {
		return err
	}
	if len(records) > 0 {
		if err := p.beginAt(records); err != nil {
			return fmt.Errorf("begin %s: %w", p.tp, err)
		}
		if _, err := p.Log().AppendAsFollower(records); err != nil {
			return fmt.Errorf("append to %s: %w", p.tp, err)
		}
	}
	p.mu.Lock()
	// Never back: the leader may be a new one that does not know yet what the
	// last one committed.
	woken := p.setMark(max(p.hw.Load(), min(hw, p.Log().End())))
	p.mu.Unlock()
	woken.finish(p)
	// What is below the leader's start was deleted on purpose; it is deleted
	// here once it is committed here.
	if start := min(logStart, p.hw.Load()); start > p.Log().Start() {
		if err := p.deleteBefore(start); err != nil {
			return fmt.Errorf("delete records: %w", err)
		}
	}
	return nil
}

// beginAt has an empty log begin where its first batch does: the leader's start
// may stand in the middle of one (DeleteRecords), and batches come whole. The
// start is taken over again once the batch is there.
func (p *Partition) beginAt(records []byte) error {
	log := p.Log()
	b, _, err := batch.Next(records)
	if err != nil || log.Start() != log.End() || b.BaseOffset() >= log.End() || b.LastOffset() < log.End() {
		return nil // the append says what is wrong
	}
	return log.Reset(b.BaseOffset())
}

// Cut is where a follower's log has to end, by the leader's answer that it
// diverges: the largest epoch not above the follower's last, and where the
// leader ended that (KIP-595).
func (p *Partition) Cut(d Diverging) int64 {
	log := p.Log()
	epoch, end := log.EpochEnd(d.Epoch)
	switch {
	case epoch < 0 || end < 0: // every record here is of an epoch that the leader never had
		return log.Start()
	case epoch == d.Epoch:
		return min(end, d.EndOffset)
	default: // the leader tells of the epochs below with the next answer
		return end
	}
}

// TruncateAsFollower cuts the log at an offset of Cut's, in the epoch whose
// leader it is compared with. Errors: FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
func (p *Partition) TruncateAsFollower(epoch kafka.LeaderEpoch, offset int64) error {
	return p.shorten(epoch, func() error { return p.Log().Truncate(offset) })
}

// ResetAsFollower empties the log, which is to begin at the leader's start: the
// leader does not have what comes next here any more.
func (p *Partition) ResetAsFollower(epoch kafka.LeaderEpoch, offset int64) error {
	return p.shorten(epoch, func() error { return p.Log().Reset(offset) })
}

func (p *Partition) shorten(epoch kafka.LeaderEpoch, cut func() error) error {
	p.tail.Lock()
	defer p.tail.Unlock()
	if err := p.followsIn(epoch); err != nil {
		return err
	}
	if err := cut(); err != nil {
		return fmt.Errorf("truncate %s: %w", p.tp, err)
	}
	// The mark is above the end only when an unclean election gave up what was
	// committed, or when the log begins anew above it.
	p.mu.Lock()
	log := p.Log()
	woken := p.setMark(min(max(p.hw.Load(), log.Start()), log.End()))
	p.mu.Unlock()
	woken.finish(p)
	return nil
}

// followsIn refuses what comes of an epoch that is over; tail is held, so that
// no other begins meanwhile.
func (p *Partition) followsIn(epoch kafka.LeaderEpoch) error {
	switch r := p.role.Load(); {
	case r.failed != nil:
		return r.err()
	case r.leader || r.epoch != epoch:
		return fmt.Errorf("%w: %s follows in epoch %d, not %d", kerr.FencedLeaderEpoch, p.tp, r.epoch, epoch)
	}
	return nil
}
