package producers_test

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/storage/producers"
)

// model keeps nothing but the log and answers every question by walking it.
type model struct {
	log []producers.Batch
	// from is where the batches of a producer begin that the state has heard of:
	// of what lies below a snapshot it knows the last one alone, or what was
	// recalled.
	from map[int64]int64
	// gone is how much of the log a producer was forgotten after.
	gone map[int64]int
}

func (m *model) end() int64 {
	if len(m.log) == 0 {
		return 0
	}
	return m.log[len(m.log)-1].LastOffset + 1
}

// of returns the producer's epoch, its coordinator's epoch, its open
// transaction, and the batches of that epoch that are known.
func (m *model) of(pid int64) (epoch int16, coordinator int32, txn int64, data []producers.Batch) {
	return m.below(pid, math.MaxInt64)
}

func (m *model) below(pid, end int64) (epoch int16, coordinator int32, txn int64, data []producers.Batch) {
	epoch, coordinator, txn = -1, -1, -1
	for i, b := range m.log {
		if b.ProducerID != pid || i < m.gone[pid] || b.LastOffset >= end {
			continue
		}
		epoch = b.Epoch
		if b.Control {
			coordinator, txn = b.Marker.CoordinatorEpoch, -1
		} else if b.Transactional && txn < 0 {
			txn = b.FirstOffset
		}
	}
	for _, b := range m.sent(pid) {
		if b.Epoch == epoch && b.FirstOffset >= m.from[pid] && b.LastOffset < end {
			data = append(data, b)
		}
	}
	return epoch, coordinator, txn, data
}

// sent is every batch of a producer, whatever was forgotten.
func (m *model) sent(pid int64) (data []producers.Batch) {
	for _, b := range m.log {
		if b.ProducerID == pid && !b.Control {
			data = append(data, b)
		}
	}
	return data
}

func next(b producers.Batch) int32 { return plus(b.LastSeq, 1) }

// older says where the sequences are that lead, one after the other, to the
// remembered batches.
func older(data []producers.Batch) map[int32]int64 {
	at := map[int32]int64{}
	for i := len(data) - 1; i > 0 && next(data[i-1]) == data[i].FirstSeq; i-- {
		if len(data)-i < producers.KeptBatches {
			continue
		}
		b := data[i-1]
		for o := b.FirstOffset; o <= b.LastOffset; o++ {
			at[plus(b.FirstSeq, int32(o-b.FirstOffset))] = o
		}
	}
	return at
}

// written reports that each sequence of the batch is among the older ones.
func written(at map[int32]int64, b producers.Batch) bool {
	for seq := b.FirstSeq; ; seq = plus(seq, 1) {
		if _, ok := at[seq]; !ok {
			return false
		}
		if seq == b.LastSeq {
			return true
		}
	}
}

// judge says what becomes of a client's batch or a coordinator's marker: it is
// a duplicate, of a remembered batch or of one before below, refused, or written.
func (m *model) judge(b producers.Batch) (dup *producers.Batch, below int64, code *kerr.Error) {
	epoch, coordinator, txn, data := m.of(b.ProducerID)
	if b.Control {
		switch {
		case b.Epoch < epoch:
			return nil, -1, kerr.InvalidProducerEpoch
		case b.Marker.CoordinatorEpoch < coordinator:
			return nil, -1, kerr.TransactionCoordinatorFenced
		}
		return nil, -1, nil
	}
	if b.Epoch == epoch {
		remembered := data[max(len(data)-producers.KeptBatches, 0):]
		for _, d := range remembered {
			if d.FirstSeq == b.FirstSeq && d.LastSeq == b.LastSeq {
				return &d, -1, nil
			}
		}
		if written(older(data), b) {
			return nil, remembered[0].FirstOffset, nil
		}
	}
	want := int32(0)
	if b.Epoch == epoch && len(data) > 0 {
		want = next(data[len(data)-1])
	}
	switch {
	case b.Epoch < epoch:
		return nil, -1, kerr.InvalidProducerEpoch
	case epoch >= 0 && b.FirstSeq != want:
		return nil, -1, kerr.OutOfOrderSequenceNumber
	case txn >= 0 && !b.Transactional:
		return nil, -1, kerr.InvalidTxnState
	}
	return nil, -1, nil
}

// firstUnstable walks all transactions.
func (m *model) firstUnstable(hw int64) int64 {
	open, first := map[int64]int64{}, int64(math.MaxInt64)
	for _, b := range m.log {
		at, ongoing := open[b.ProducerID]
		switch {
		case b.Control && ongoing:
			delete(open, b.ProducerID)
			if b.LastOffset >= hw {
				first = min(first, at)
			}
		case !b.Control && b.Transactional && !ongoing:
			open[b.ProducerID] = b.FirstOffset
		}
	}
	for _, at := range open {
		first = min(first, at)
	}
	if first == math.MaxInt64 {
		return -1
	}
	return first
}

func plus(seq, n int32) int32 { return int32((int64(seq) + int64(n)) % (math.MaxInt32 + 1)) }
