package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// reader prints what a client fetches.
type reader struct {
	k        *kgo.Client
	format   formatter
	out      *bufio.Writer
	progress *progress
	left     int64                         // records still to print; 0 at the start means no limit
	todo     map[kafka.TopicPartition]span // partitions whose end is still to come; nil means no end
	line     []byte
	// printed is the last record of each partition that was printed or passed
	// over; nil where nobody commits.
	printed map[kafka.TopicPartition]*kgo.Record
}

var errEnough = errors.New("all printed")

func (r *reader) run(ctx context.Context) error {
	for {
		fetches := r.k.PollFetches(ctx)
		err := r.print(fetches)
		if flushErr := r.out.Flush(); flushErr != nil {
			return flushErr
		}
		switch {
		case errors.Is(err, errEnough):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return nil // an interrupt is the usual end of a consumer
		}
	}
}

// idle says that a poll ended without records, and nothing is wrong. What is
// wrong with a group's membership is looked at elsewhere.
func idle(e kgo.FetchError) bool {
	var s *kgo.ErrGroupSession
	return errors.Is(e.Err, context.Canceled) || e.Topic == "" && (errors.Is(e.Err, context.DeadlineExceeded) || errors.As(e.Err, &s))
}

func (r *reader) print(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		if !idle(e) {
			return fmt.Errorf("partition %d of %s: %w", e.Partition, e.Topic, e.Err)
		}
	}
	for it := fetches.RecordIter(); !it.Done(); {
		rec := it.Next()
		tp := kafka.TopicPartition{Topic: rec.Topic, Partition: rec.Partition}
		end, open := r.todo[tp]
		if r.todo != nil && (!open || rec.Offset >= end.end) {
			if open { // compaction or an abort left a gap before the end
				delete(r.todo, tp)
			}
			continue
		}
		if r.printed != nil {
			r.printed[tp] = rec
		}
		if !rec.Attrs.IsControl() {
			if err := r.write(rec); err != nil {
				return err
			}
		}
		if open && rec.Offset == end.end-1 {
			delete(r.todo, tp)
		}
	}
	if r.todo != nil && len(r.todo) == 0 {
		return errEnough
	}
	return nil
}

func (r *reader) write(rec *kgo.Record) error {
	r.line = r.format(r.line[:0], rec)
	if _, err := r.out.Write(r.line); err != nil {
		return err
	}
	r.progress.add(len(rec.Key) + len(rec.Value))
	if r.left > 0 {
		if r.left--; r.left == 0 {
			return errEnough
		}
	}
	return nil
}
