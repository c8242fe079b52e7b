package replica

import (
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

// Isolation bounds what a read may see.
type Isolation int8

// The bounds: the high watermark, the last stable offset, the log end.
const (
	ReadUncommitted Isolation = iota
	ReadCommitted
	ReadLogEnd
)

// ReadReq is one partition of a Fetch.
type ReadReq struct {
	Offset    int64
	Epoch     kafka.LeaderEpoch // the partition's, as the client knows it; -1 unknown
	LastEpoch kafka.LeaderEpoch // of the last record the client has; -1 none
	Max       int               // bytes
	MinOne    bool              // the first batch whole, even when larger than Max
	Isolation Isolation
	// Follower: the reader also takes what a follower in sync has (KIP-392).
	Follower bool
}

// Diverging says where the reader's log parts from this one (KIP-595).
type Diverging struct {
	Epoch     kafka.LeaderEpoch
	EndOffset int64
}

// ReadResult of Read. The caller releases Slices.
type ReadResult struct {
	Slices    []storage.Slice
	SizeBytes int
	HW, LSO   int64
	LogStart  int64
	Aborted   []storage.AbortedTxn
	Diverging *Diverging
	// Behind: the high watermark is short of the start of the leader's term, and
	// perhaps of one that the last leader told (KIP-207). It is not to be told to
	// clients, for whom a mark never goes back (safety 18).
	Behind bool

	// What it was read of: see Unchanged.
	role *role
	log  *storage.Log
	end  int64
}

// Release gives back what the result references.
func (r ReadResult) Release() {
	for _, s := range r.Slices {
		s.Release()
	}
}

// Read reads from the batch that holds r.Offset on. It takes no mutex. Errors:
// NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
// OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR; with an offset out of range, the
// marks of the result are set. An offset between the high watermark and the
// log end is no error: there is nothing to read yet. A follower answers
// OFFSET_NOT_AVAILABLE above its own end, which the leader may well have reached.
func (p *Partition) Read(now time.Time, r ReadReq) (ReadResult, error) {
	before := p.role.Load()
	if err := p.admits(before, &r); err != nil {
		return ReadResult{}, err
	}
	res := p.marks()
	res.role = before
	if !before.leader && (r.Offset > p.Log().End() || r.LastEpoch > p.Log().LatestEpoch()) {
		return res, fmt.Errorf("%w: %s is not there yet", kerr.OffsetNotAvailable, p.tp)
	}
	// Or it is of another term.
	res.Behind = before.leader && res.HW < before.epochStart || p.role.Load() != before
	if r.LastEpoch >= 0 {
		d, err := p.diverging(r)
		if err != nil || d != nil {
			res.Diverging = d
			return res, err
		}
	}
	res.log = p.Log()
	end := res.log.End()
	res.end = end
	if r.Offset < res.LogStart || r.Offset > end {
		return res, fmt.Errorf("%w: offset %d of %s is outside [%d, %d]", kerr.OffsetOutOfRange, r.Offset, p.tp, res.LogStart, end)
	}
	bound := res.bound(r.Isolation, end)
	if r.Offset >= bound || r.Max <= 0 && !r.MinOne {
		return res, nil
	}
	log := res.log
	data, err := log.Read(r.Offset, bound, r.Max, r.MinOne)
	if now := p.Log(); err != nil && now != log {
		data, err = now.Read(r.Offset, bound, r.Max, r.MinOne) // it moved meanwhile
	}
	if err != nil {
		return res, fmt.Errorf("read %s at %d: %w", p.tp, r.Offset, err)
	}
	res.Slices, res.SizeBytes = data.Slices, data.SizeBytes
	// The role may have changed while the snapshot was taken.
	if after := p.role.Load(); after != before {
		res.Release()
		res.Slices, res.SizeBytes = nil, 0
		if err := p.admits(after, &r); err != nil {
			return ReadResult{}, err
		}
		return res, nil
	}
	if r.Isolation == ReadCommitted && res.SizeBytes > 0 {
		res.Aborted = p.Log().Aborted(r.Offset, bound)
	}
	return res, nil
}

// admits says why a role cannot serve a reader. A follower serves while it is in
// sync: whoever reads from one that falls behind is sent back to the leader.
func (p *Partition) admits(in *role, r *ReadReq) error {
	if !r.Follower || in.leader || in.failed != nil {
		return in.check(r.Epoch)
	}
	if in.epoch < 0 || in.of < 0 || !p.InSync() {
		return kerr.NotLeaderForPartition
	}
	return in.compare(r.Epoch)
}

// Unchanged reports that Read would give res again: neither role nor marks nor
// log have changed. It costs a few loads, where Read may cost a look-up.
func (p *Partition) Unchanged(res *ReadResult) bool {
	log := p.log.Load()
	if res.role == nil || p.role.Load() != res.role || log != res.log || log.End() != res.end || log.Start() != res.LogStart {
		return false
	}
	if !res.role.leader && !p.InSync() {
		return false
	}
	hw := p.hw.Load()
	return hw == res.HW && p.lso(hw) == res.LSO
}

// Quiet reports that there is no more to read than res has given, and that whatever
// changes that, or res, wakes those who watch. It is so of a leader's partitions alone.
func (p *Partition) Quiet(r ReadReq, res *ReadResult) bool {
	return res.role != nil && res.role.leader && res.SizeBytes == 0 && res.Diverging == nil && r.Offset >= res.bound(r.Isolation, res.end)
}

// Renew takes over into res the marks that have risen since: by what the reader
// itself said, for one.
func (p *Partition) Renew(res *ReadResult) {
	if hw := p.hw.Load(); hw > res.HW {
		res.HW, res.LSO = hw, p.lso(hw)
	}
}

// More reports whether r's limits kept out of res what could be read: waiting
// for more bytes would then be in vain.
func (p *Partition) More(r ReadReq, res ReadResult) bool {
	bound := res.bound(r.Isolation, p.Log().End())
	switch {
	case r.Offset >= bound:
		return false
	case res.SizeBytes >= r.Max:
		return true
	}
	all, err := p.Log().Read(r.Offset, bound, math.MaxInt32, true)
	if err != nil {
		return false
	}
	defer all.Release()
	return all.SizeBytes > res.SizeBytes
}

// marks reads the high watermark before the LSO: the LSO of a later moment can
// only be higher, and is capped by the mark that is reported with it.
func (p *Partition) marks() ReadResult {
	hw := p.hw.Load()
	return ReadResult{HW: hw, LSO: p.lso(hw), LogStart: p.Log().Start()}
}

func (p *Partition) lso(hw int64) int64 {
	if first := p.Log().FirstUnstable(hw); first >= 0 {
		return min(first, hw)
	}
	return hw
}

func (r *ReadResult) bound(i Isolation, end int64) int64 {
	switch i {
	case ReadCommitted:
		return r.LSO
	case ReadLogEnd:
		return end
	default:
		return r.HW
	}
}

// diverging compares the reader's last epoch with this log.
func (p *Partition) diverging(r ReadReq) (*Diverging, error) {
	epoch, end := p.Log().EpochEnd(r.LastEpoch)
	if epoch < 0 || end < 0 {
		return nil, fmt.Errorf("%w: epoch %d of %s is unknown here", kerr.OffsetOutOfRange, r.LastEpoch, p.tp)
	}
	if epoch < r.LastEpoch || end < r.Offset {
		return &Diverging{Epoch: epoch, EndOffset: end}, nil
	}
	return nil, nil
}
