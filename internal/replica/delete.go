package replica

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/storage"
)

// DeleteToHighWatermark is the offset of DeleteRecords that stands for all that
// is committed.
const DeleteToHighWatermark int64 = -1

// DeleteRecords raises the log start to offset, as leader, and returns the log
// start that is durable then (safety 17): offset, or the one that was higher
// already. Records below it are never read again, and segments that hold
// nothing else are removed. Errors: NOT_LEADER_OR_FOLLOWER, POLICY_VIOLATION for
// a log that is only compacted, OFFSET_OUT_OF_RANGE above the high watermark
// and below 0, KAFKA_STORAGE_ERROR.
func (p *Partition) DeleteRecords(offset int64) (lowWatermark int64, err error) {
	before := p.role.Load()
	if err := before.err(); err != nil {
		return -1, err
	}
	if c := p.Log().Config(); c.Compact && !c.Delete {
		return -1, fmt.Errorf("%w: records of %s are not to be deleted, by its cleanup.policy", kerr.PolicyViolation, p.tp)
	}
	if offset == DeleteToHighWatermark {
		offset = p.hw.Load()
	}
	if offset < 0 {
		return -1, fmt.Errorf("%w: no offset of %s: %d", kerr.OffsetOutOfRange, p.tp, offset)
	}
	log, err := p.deleteBefore(offset)
	// Who does not lead any more answers for nobody; a deleted partition's log
	// fails for that reason alone.
	if after := p.role.Load(); after.epoch != before.epoch || after.err() != nil {
		if lost := after.err(); lost != nil {
			return -1, lost
		}
		return -1, kerr.NotLeaderForPartition
	}
	if err != nil {
		return -1, fmt.Errorf("delete records: %w", err)
	}
	return log.Start(), nil
}

// deleteBefore raises the start of the log that serves the partition: of its
// copy in another directory when that took its place meanwhile, for the one
// before is no one's any more.
func (p *Partition) deleteBefore(offset int64) (*storage.Log, error) {
	for {
		log := p.Log()
		err := log.DeleteBefore(offset)
		p.mu.Lock() // under which a log is swapped
		moved := p.Log() != log
		p.mu.Unlock()
		if !moved {
			return log, err
		}
	}
}
