package coord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/replica"
)

// beginLoad starts the load of a term, after a pause; s.mu is held.
func (s *shard) beginLoad(pause time.Duration) {
	if s.r.ctx.Err() != nil {
		return
	}
	s.state = stateLoading
	s.term.load++
	s.ctx, s.cancel = context.WithCancel(s.r.ctx)
	ctx, t := s.ctx, s.term
	s.r.wg.Go(func() {
		if err := s.loadTerm(ctx, t, pause); err != nil && ctx.Err() == nil {
			s.failed(t, fmt.Errorf("load: %w", err))
		}
	})
}

func (s *shard) loadTerm(ctx context.Context, t term, pause time.Duration) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	if pause > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	s.settle()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s.r.load <- struct{}{}:
		defer func() { <-s.r.load }()
	}
	part, ok := s.r.cfg.Partition(s.id)
	if !ok {
		return kerr.NotLeaderForPartition
	}
	if epoch, leads := part.Leading(); !leads || epoch != t.epoch {
		return kerr.NotLeaderForPartition
	}
	l := &live{
		term: t, part: part, machine: s.r.cfg.Machine(s.id), calls: map[Token]*call{}, timers: newTimers(s.key.Wake),
		writer: writer{encoding: s.r.cfg.Encoding, max: s.r.cfg.MaxBatchBytes}, fresh: true, behind: true,
	}
	began := time.Now()
	records, err := l.read(ctx, s.r.cfg.LoadBytes)
	if err != nil {
		return err
	}
	s.r.cfg.Metrics.load.Observe(time.Since(began).Seconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != t {
		return nil
	}
	s.state, s.live, s.since = stateActive, l, time.Now()
	l.closed = s.closed
	level := s.log.Debug
	if records > 0 {
		level = s.log.Info
	}
	level("coordinator started", "of", s.r.cfg.Name, "epoch", t.epoch, "records", records, "took", time.Since(began).Round(time.Millisecond))
	s.key.Wake()
	return nil
}

// settle waits until nothing of an earlier machine goes on. A run could append
// behind the end that the load goes to, where the new machine would never hear
// of it; a release could let an effect out behind those of the new machine.
func (s *shard) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.draining || s.parked.releasing {
		s.quiet.Wait()
	}
}

// read feeds the whole log to the machine.
func (l *live) read(ctx context.Context, chunk int) (records int, err error) {
	at, end := l.part.Bounds()
	l.written = end
	var buf []byte
	empty := false
	for at < end {
		if err := ctx.Err(); err != nil {
			return records, err
		}
		res, err := l.part.Read(time.Now(), replica.ReadReq{
			Offset: at, Epoch: l.term.epoch, LastEpoch: -1, Max: chunk, MinOne: true, Isolation: replica.ReadLogEnd,
		})
		if errors.Is(err, kerr.OffsetOutOfRange) {
			if start, _ := l.part.Bounds(); start > at { // retention or DeleteRecords went by
				at = start
				continue
			}
		}
		if err != nil {
			return records, err
		}
		if res.SizeBytes == 0 { // compaction took the rest; or the role changed beneath the read, and it is made again
			if empty {
				return records, nil
			}
			empty = true
			continue
		}
		empty = false
		if cap(buf) < res.SizeBytes {
			buf = make([]byte, res.SizeBytes)
		}
		buf, err = fill(buf[:res.SizeBytes], res)
		res.Release()
		if err != nil {
			return records, err
		}
		n, next, err := l.apply(buf)
		records += n
		if err != nil {
			return records, err
		}
		if next <= at {
			return records, fmt.Errorf("nothing can be read at offset %d, below the end %d", at, end)
		}
		at = next
	}
	return records, nil
}

// fill copies what a read found into buf.
func fill(buf []byte, res replica.ReadResult) ([]byte, error) {
	n := 0
	for _, s := range res.Slices {
		if err := s.ReadAt(buf[n:n+s.Len()], 0); err != nil {
			return nil, err
		}
		n += s.Len()
	}
	return buf[:n], nil
}

// apply hands the records of whole batches to the machine. next is the offset
// behind the last batch.
func (l *live) apply(buf []byte) (records int, next int64, err error) {
	for {
		b, rest, err := batch.Next(buf)
		if errors.Is(err, io.EOF) {
			return records, next, nil
		}
		if err != nil {
			return records, next, err
		}
		if !b.CRCValid() {
			return records, next, fmt.Errorf("%w: batch at offset %d", batch.ErrCorrupt, b.BaseOffset())
		}
		n, err := l.applyBatch(b)
		records += n
		if err != nil {
			return records, next, err
		}
		buf, next = rest, b.NextOffset()
	}
}

func (l *live) applyBatch(b batch.Batch) (records int, err error) {
	if b.Control() {
		m, ok, err := batch.ParseMarker(b)
		if ok {
			l.machine.ApplyMarker(Producer{m.ProducerID, m.ProducerEpoch}, m.Commit)
		}
		return 0, err
	}
	it := batch.Records(b, 0)
	defer it.Close()
	meta := Meta{Producer: Producer{b.ProducerID(), b.ProducerEpoch()}, Transactional: b.Transactional()}
	for it.Next() {
		r := it.Record()
		meta.Offset = b.Offset(r)
		if err := l.machine.Apply(Record{Key: r.Key, Value: r.Value}, meta); err != nil {
			return records, fmt.Errorf("record at offset %d: %w", meta.Offset, err)
		}
		records++
	}
	return records, it.Err()
}
