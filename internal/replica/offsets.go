package replica

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/producers"
)

// The timestamps with a meaning of their own in ListOffsets.
const (
	Latest              int64 = -1
	Earliest            int64 = -2
	MaxTimestamp        int64 = -3 // KIP-734
	EarliestLocal       int64 = -4 // KIP-405
	LatestTiered        int64 = -5 // KIP-1005
	EarliestPendingCopy int64 = -6 // KIP-1023
)

// ListResult of ListOffset; Offset -1: there is none.
type ListResult struct {
	Offset, TimestampMs int64
	Epoch               kafka.LeaderEpoch
}

var noOffset = ListResult{Offset: -1, TimestampMs: -1, Epoch: kafka.NoEpoch}

// ListOffset answers ListOffsets for one of the timestamps above, or for the
// first record at or after a time in milliseconds. current is the leader epoch
// that the client knows, -1 none. While the high watermark of a new leader is
// short of its term's start, what was committed before is not known, and the
// answer that could go backwards is OFFSET_NOT_AVAILABLE (KIP-207).
func (p *Partition) ListOffset(ts int64, iso Isolation, current kafka.LeaderEpoch) (ListResult, error) {
	r := p.role.Load()
	if err := r.check(current); err != nil {
		return noOffset, err
	}
	marks := p.marks()
	bound := marks.bound(iso, p.Log().End())
	var behind error
	if iso != ReadLogEnd && marks.HW < r.epochStart {
		behind = fmt.Errorf("%w: high watermark %d of %s is below the start of its term, %d",
			kerr.OffsetNotAvailable, marks.HW, p.tp, r.epochStart)
	}
	switch ts {
	case Earliest, EarliestLocal:
		return ListResult{Offset: marks.LogStart, TimestampMs: -1, Epoch: p.Log().EpochAt(marks.LogStart)}, nil
	case Latest:
		if behind != nil {
			return noOffset, behind
		}
		return ListResult{Offset: bound, TimestampMs: -1, Epoch: r.epoch}, nil
	case LatestTiered, EarliestPendingCopy:
		return noOffset, nil // nothing is tiered
	case MaxTimestamp:
		return p.found(bound, behind)(p.Log().MaxTimestamp(bound))
	}
	if ts < 0 {
		return noOffset, fmt.Errorf("%w: no such special timestamp: %d", kerr.UnsupportedVersion, ts)
	}
	return p.found(bound, behind)(p.Log().OffsetForTime(ts, bound))
}

// found turns a look-up by time into an answer: one below the bound stands,
// and a miss stands only when the bound is not about to move.
func (p *Partition) found(bound int64, behind error) func(int64, int64, kafka.LeaderEpoch, error) (ListResult, error) {
	return func(offset, ts int64, epoch kafka.LeaderEpoch, err error) (ListResult, error) {
		switch {
		case err != nil:
			return noOffset, fmt.Errorf("look up a time in %s: %w", p.tp, err)
		case offset >= 0 && offset < bound:
			return ListResult{Offset: offset, TimestampMs: ts, Epoch: epoch}, nil
		default:
			return noOffset, behind
		}
	}
}

// EpochEnd answers OffsetForLeaderEpoch: the largest epoch at or below asked,
// and the offset where it ended; (-1, -1) when there is none (KIP-320).
func (p *Partition) EpochEnd(current, asked kafka.LeaderEpoch) (kafka.LeaderEpoch, int64, error) {
	r := p.role.Load()
	if err := r.check(current); err != nil {
		return kafka.NoEpoch, -1, err
	}
	if asked == r.epoch {
		return asked, p.Log().End(), nil // also before the term's first record
	}
	epoch, end := p.Log().EpochEnd(asked)
	return epoch, end, nil
}

// Lag is how far a reader at offset is behind: in records below the high
// watermark, and the time since the oldest of them was produced; 0 for both at
// the high watermark.
func (p *Partition) Lag(now time.Time, offset int64) (records int64, age time.Duration, err error) {
	if err := p.role.Load().err(); err != nil {
		return 0, 0, err
	}
	hw := p.hw.Load()
	from := max(offset, p.Log().Start())
	if from >= hw {
		return 0, 0, nil
	}
	ts, err := p.Log().BatchTime(from)
	if err != nil {
		return hw - from, 0, fmt.Errorf("lag in %s at %d: %w", p.tp, from, err)
	}
	if ts < 0 {
		return hw - from, 0, nil // records without timestamps
	}
	return hw - from, max(now.Sub(time.UnixMilli(ts)), 0), nil
}

// Producers are what is known of the partition's producers, sorted by id.
// Followers know them too. Errors: KAFKA_STORAGE_ERROR.
func (p *Partition) Producers() ([]producers.Entry, error) {
	if r := p.role.Load(); r.failed != nil {
		return nil, r.err()
	}
	return p.Log().Producers(), nil
}
