package storage

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Origin says where appended bytes come from.
type Origin int8

const (
	FromClient Origin = iota
	FromCoordinator
	FromReplication // offsets and epochs are kept as they are
)

// AppendResult of an append. Duplicate: an idempotent producer sent these
// again; then Base and Last are the original's, and nothing was written. Base
// is -1 where the original is too old for its offset to be remembered; it does
// not lie above Last then.
type AppendResult struct {
	Base, Last   int64
	LogStart     int64
	AppendTimeMs int64 // -1 with CreateTime; of a duplicate, the original's largest timestamp
	Duplicate    bool
}

// Txn is what an append of transactional batches or markers needs beside the
// bytes (KIP-890); the zero value is that of all others.
type Txn struct {
	Version             int16            // transaction.version under which a marker was asked for
	Guard               *producers.Guard // from StartVerification
	RequireVerification bool
}

// Append appends whole validated batches as leader in one write: checks
// producer sequences, sets base offset and leader epoch in place. The caller
// serializes calls; the log does not keep buf. It returns *kerr.Error values
// wrapped: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
// KAFKA_STORAGE_ERROR, RECORD_LIST_TOO_LARGE ...
//
// An error means that nothing was appended.
func (l *Log) Append(now time.Time, buf []byte, epoch kafka.LeaderEpoch, origin Origin) (AppendResult, error) {
	return l.AppendTxn(now, buf, epoch, origin, Txn{})
}

// AppendTxn is Append with what transactions need.
func (l *Log) AppendTxn(now time.Time, buf []byte, epoch kafka.LeaderEpoch, origin Origin, txn Txn) (AppendResult, error) {
	l.mu.Lock()
	res, err := l.appendLocked(now, buf, epoch, origin, txn)
	want := err == nil && !res.Duplicate && l.syncDue()
	back := err == nil && l.writebackDue()
	l.mu.Unlock()
	switch {
	case err != nil:
		return AppendResult{LogStart: l.Start(), AppendTimeMs: -1}, l.writeFailed(err)
	case want:
		l.requestSync()
	case back:
		l.requestWriteback()
	}
	return res, nil
}

// AppendAsFollower appends what a leader sent: every batch's CRC is verified,
// offsets must follow on. Base is the first appended offset.
func (l *Log) AppendAsFollower(buf []byte) (AppendResult, error) {
	for rest := buf; len(rest) > 0; {
		b, after, err := batch.Next(rest)
		if err != nil {
			return AppendResult{}, fmt.Errorf("%s: %w: %w", l.tp, err, kerr.CorruptMessage)
		}
		if !b.CRCValid() {
			return AppendResult{}, fmt.Errorf("%s: batch at offset %d came with a wrong checksum: %w", l.tp, b.BaseOffset(), kerr.CorruptMessage)
		}
		rest = after
	}
	return l.Append(time.Now(), buf, kafka.NoEpoch, FromReplication)
}

func (l *Log) appendLocked(now time.Time, buf []byte, epoch kafka.LeaderEpoch, origin Origin, txn Txn) (AppendResult, error) {
	res := AppendResult{LogStart: l.Start(), AppendTimeMs: -1, Base: l.End(), Last: l.End() - 1}
	if err := l.writable(); err != nil {
		return res, err
	}
	if len(buf) == 0 {
		return res, nil
	}
	cfg := l.cfg.Load()
	if int64(len(buf)) > int64(cfg.SegmentBytes) && origin != FromReplication {
		return res, fmt.Errorf("%s: %d bytes of batches exceed segment.bytes %d: %w", l.tp, len(buf), cfg.SegmentBytes, kerr.RecordListTooLarge)
	}
	p, err := l.place(now, buf, epoch, origin, cfg)
	if err != nil {
		return res, err
	}
	u, err := l.prods.Analyze(l.pending, producers.Options{Origin: producers.Origin(origin), Now: now,
		TxnVersion: txn.Version, Guard: txn.Guard, RequireVerification: txn.RequireVerification})
	if err != nil {
		return res, fmt.Errorf("%s: %w", l.tp, err)
	}
	if u.Duplicate {
		res.Base, res.Last, res.Duplicate, res.AppendTimeMs = u.First, u.Last, true, u.TimestampMs
		return res, nil
	}
	if err := l.rollFor(now, p, int64(len(buf)), cfg); err != nil {
		return res, err
	}
	s := l.active()
	if err := s.Append(buf, cfg.IndexIntervalBytes); err != nil {
		return res, err
	}
	if l.firstMs < 0 {
		l.firstMs = p.firstMaxMs
	}
	l.applyProducers(s, u)
	l.noteEpochs(buf)
	l.end.Store(p.next)
	l.unflushed += p.next - p.first
	l.d.wrote(int64(len(buf)))
	res.Base, res.Last = p.first, p.last
	if p.appendTime {
		res.AppendTimeMs = p.firstMaxMs
	}
	return res, nil
}

// placed is what the walk over the batches of an append found.
type placed struct {
	first, last, next int64
	maxMs, firstMaxMs int64
	appendTime        bool
}

// place gives the batches their offsets and epoch, or with FromReplication
// checks those they have, and collects what producer state needs of them in
// l.pending.
func (l *Log) place(now time.Time, buf []byte, epoch kafka.LeaderEpoch, origin Origin, cfg *Config) (placed, error) {
	p := placed{next: l.End(), first: -1, firstMaxMs: -1, maxMs: -1}
	lastEpoch := l.epochs.Latest()
	l.pending = l.pending[:0]
	for rest := buf; len(rest) > 0; {
		b, after, err := batch.Next(rest)
		if err != nil {
			return p, fmt.Errorf("%s: %w: %w", l.tp, err, kerr.CorruptMessage)
		}
		rest = after
		if origin == FromReplication {
			e := kafka.LeaderEpoch(b.LeaderEpoch())
			if b.BaseOffset() < p.next || b.LastOffsetDelta() < 0 {
				return p, fmt.Errorf("%s: batch at offset %d does not follow on %d: %w", l.tp, b.BaseOffset(), p.next, kerr.UnknownServerError)
			}
			if e < lastEpoch {
				return p, fmt.Errorf("%s: batch at offset %d has leader epoch %d after %d: %w", l.tp, b.BaseOffset(), e, lastEpoch, kerr.UnknownServerError)
			}
			lastEpoch = e
		} else {
			b.SetBaseOffset(p.next)
			b.SetLeaderEpoch(int32(epoch))
			if cfg.LogAppendTime && origin == FromClient && !b.LogAppendTime() {
				b.SetLogAppendTime(now.UnixMilli())
			}
		}
		l.pending = append(l.pending, producerBatch(b))
		if p.first < 0 {
			p.first, p.firstMaxMs, p.appendTime = b.BaseOffset(), b.MaxTimestamp(), b.LogAppendTime()
		}
		p.maxMs = max(p.maxMs, b.MaxTimestamp())
		p.last, p.next = b.LastOffset(), b.NextOffset()
	}
	return p, nil
}

// noteEpochs assigns the epochs of appended batches.
func (l *Log) noteEpochs(buf []byte) {
	for rest := buf; len(rest) > 0; {
		b, after, err := batch.Next(rest)
		if err != nil {
			return
		}
		rest = after
		if e := kafka.LeaderEpoch(b.LeaderEpoch()); e >= 0 && e > l.epochs.Latest() {
			_, _ = l.epochs.Assign(e, b.BaseOffset()) // fails for negative numbers only
		}
	}
}

// Writable says why nothing can be appended now, or nil: the directory is
// offline or almost full, or the log is being truncated.
func (l *Log) Writable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writable()
}

// writable says why nothing can be appended, or nil. l.mu is held.
func (l *Log) writable() error {
	if err := l.failed(); err != nil {
		return err
	}
	if l.cutting {
		return fmt.Errorf("%s: log is being truncated: %w", l.tp, kerr.KafkaStorageError)
	}
	if l.d.full.Load() || l.d.unstored.Load() {
		return fmt.Errorf("%s: log directory %s is almost full: %w: %w", l.tp, l.d.path, vfs.ErrNoSpace, kerr.KafkaStorageError)
	}
	return nil
}

// rollFor begins a new segment when the active one cannot or should not take
// size more bytes. The rules are Apache Kafka's.
func (l *Log) rollFor(now time.Time, p placed, size int64, cfg *Config) error {
	s := l.active()
	if !l.rollDue(s, now, p, size, cfg) {
		return nil
	}
	base := l.End()
	if p.last-base > math.MaxInt32 {
		base = p.first // a follower of a compacted log: the gap is wider than a segment
	}
	return l.roll(now, base)
}

func (l *Log) rollDue(s *segment.Segment, now time.Time, p placed, size int64, cfg *Config) bool {
	have := s.Size()
	if !s.Fits(p.last) || have > 0 && have+size > int64(cfg.SegmentBytes) {
		return true
	}
	if have == 0 {
		return false
	}
	waited := now.UnixMilli() - l.rolledMs
	if l.firstMs >= 0 {
		waited = p.maxMs - l.firstMs
	}
	return waited > (cfg.SegmentMs-l.jitter).Milliseconds() || s.IndexFull(cfg.IndexBytes)
}

// newJitter is the share of segment.jitter.ms by which a segment rolls earlier.
func newJitter(cfg *Config) time.Duration {
	if bound := min(cfg.SegmentJitter, cfg.SegmentMs); bound > 0 {
		return rand.N(bound)
	}
	return 0
}

// writeFailed gives an error of a write its meaning: a full disk is a storage
// error and passes; a device error takes the directory offline.
func (l *Log) writeFailed(err error) error {
	var ke *kerr.Error
	switch {
	case errors.As(err, &ke):
		return err
	case errors.Is(err, vfs.ErrNoSpace):
		l.d.ranOut()
	case isDeviceError(err):
		l.d.fail(err)
	case errors.Is(err, io.ErrShortWrite):
	}
	return fmt.Errorf("%s: %w: %w", l.tp, err, kerr.KafkaStorageError)
}

// isDeviceError reports errors after which the page cache no longer tells the truth.
func isDeviceError(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS)
}
