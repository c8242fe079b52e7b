package replica

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
)

// DeleteToHighWatermark is the offset of DeleteRecords that stands for all that
// is committed.
const DeleteToHighWatermark int64 = -1

// Deleted is what the other replicas are still to delete.
type Deleted struct {
	Epoch  kafka.LeaderEpoch
	Offset int64
}

// DeleteRecords raises the log start to offset, as leader. It is durable here
// when this returns; AwaitDeleted waits for the other replicas. Records below
// it are never read again, and segments that hold nothing else are removed.
// Errors: NOT_LEADER_OR_FOLLOWER, POLICY_VIOLATION for a log that is only
// compacted, OFFSET_OUT_OF_RANGE above the high watermark and below 0,
// KAFKA_STORAGE_ERROR.
func (p *Partition) DeleteRecords(offset int64) (Deleted, error) {
	before := p.role.Load()
	if err := before.err(); err != nil {
		return Deleted{}, err
	}
	if c := p.Log().Config(); c.Compact && !c.Delete {
		return Deleted{}, fmt.Errorf("%w: records of %s are not to be deleted, by its cleanup.policy", kerr.PolicyViolation, p.tp)
	}
	if offset == DeleteToHighWatermark {
		offset = p.hw.Load()
	}
	if offset < 0 {
		return Deleted{}, fmt.Errorf("%w: no offset of %s: %d", kerr.OffsetOutOfRange, p.tp, offset)
	}
	err := p.deleteBefore(offset)
	// Who does not lead any more answers for nobody; a deleted partition's log
	// fails for that reason alone.
	if after := p.role.Load(); after.epoch != before.epoch || after.err() != nil {
		if lost := after.err(); lost != nil {
			return Deleted{}, lost
		}
		return Deleted{}, kerr.NotLeaderForPartition
	}
	if err != nil {
		return Deleted{}, fmt.Errorf("delete records: %w", err)
	}
	return Deleted{before.epoch, offset}, nil
}

// AwaitDeleted waits until every replica that is alive, or may lead when it returns, has deleted d for good (safety
// 17), and returns the least log start of them: d's offset, or one that was
// higher already. Errors: NOT_LEADER_OR_FOLLOWER when the term ended first,
// KAFKA_STORAGE_ERROR, and ctx's own; with that one the log start is where they
// are by then, -1 where one of them has not said it.
func (p *Partition) AwaitDeleted(ctx context.Context, d Deleted) (lowWatermark int64, err error) {
	if low, err := p.lowWatermark(d.Epoch); err != nil || low >= d.Offset {
		return low, err
	}
	w := NewWaiter()
	p.AddWaiter(w)
	defer p.RemoveWaiter(w)
	for {
		low, err := p.lowWatermark(d.Epoch)
		if err != nil || low >= d.Offset {
			return low, err
		}
		select {
		case <-w.C:
		case <-ctx.Done():
			return low, ctx.Err()
		}
	}
}

// lowWatermark is that of a leader in its term.
func (p *Partition) lowWatermark(epoch kafka.LeaderEpoch) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.role.Load()
	if err := r.err(); err != nil {
		return -1, err
	}
	if r.epoch != epoch {
		return -1, kerr.NotLeaderForPartition
	}
	return isr.LowWatermark(p.view, p.Log().Start(), p.followers), nil
}

// deleteBefore raises the start of the log that serves the partition: of its
// copy in another directory when that took its place meanwhile, for the one
// before is no one's any more.
func (p *Partition) deleteBefore(offset int64) error {
	for {
		log := p.Log()
		err := log.DeleteBefore(offset)
		p.mu.Lock() // under which a log is swapped
		moved := p.Log() != log
		p.mu.Unlock()
		if !moved {
			return err
		}
	}
}
