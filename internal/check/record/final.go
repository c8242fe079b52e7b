package record

import (
	"context"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/check"
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

func record(r *kgo.Record) check.Record {
	return check.Record{Offset: r.Offset, ID: id(r.Value), Sum: crc32.ChecksumIEEE(r.Value), Epoch: kafka.LeaderEpoch(r.LeaderEpoch)}
}

// commit commits and writes down what became of it. An answer with an error may
// be the one to a second attempt, so it is a maybe too.
func (r *Recorder) commit(ctx context.Context, cl *kgo.Client, next map[int32]kgo.EpochOffset) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	events := map[int32]check.Event{}
	for part, o := range next {
		e := r.event(check.Commit, "-member", part)
		e.Group, e.Offset, e.Out = r.Group(), o.Offset, check.Maybe
		events[part] = e
	}
	cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{r.c.Topic: next},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if e := events[p.Partition]; p.ErrorCode == 0 && e.Op != 0 {
						e.Out = check.OK
						events[p.Partition] = e
					}
				}
			}
		})
	for _, e := range events {
		r.write(e)
	}
}

// offsets asks once for a group's offsets.
func (r *Recorder) offsets(ctx context.Context, adm *kadm.Client, group string, final bool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	begin := r.c.Now()
	got, err := adm.FetchOffsets(ctx, group)
	if err != nil && err != kerr.GroupIDNotFound {
		return err
	}
	for part := range r.c.Partitions {
		e := r.event(check.Fetch, "-watch", part)
		e.Begin, e.Group, e.Final = begin, group, final
		if o, ok := got.Lookup(r.c.Topic, part); ok {
			if o.Err != nil {
				continue
			}
			e.Offset = o.At
		}
		r.write(e)
	}
	return nil
}

// Final reads every partition from its start to its end, and the offsets of the
// groups. All other clients have ended before.
func (r *Recorder) Final(ctx context.Context) error {
	cl, err := r.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for _, g := range append([]string{r.Group()}, r.c.Watch...) {
		if err := r.offsets(ctx, adm, g, true); err != nil {
			return fmt.Errorf("offsets of %s: %w", g, err)
		}
	}
	starts, err := adm.ListStartOffsets(ctx, r.c.Topic)
	if err != nil {
		return err
	}
	ends, err := adm.ListEndOffsets(ctx, r.c.Topic)
	if err != nil {
		return err
	}
	for part := range r.c.Partitions {
		start, _ := starts.Lookup(r.c.Topic, part)
		end, ok := ends.Lookup(r.c.Topic, part)
		if !ok || end.Err != nil || start.Err != nil {
			return fmt.Errorf("partition %d has no start or end: %v, %v", part, start.Err, end.Err)
		}
		if err := r.finalOf(ctx, part, start.Offset, end.Offset); err != nil {
			return fmt.Errorf("partition %d: %w", part, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Recorder) finalOf(ctx context.Context, part int32, start, end int64) error {
	cl, err := r.client(kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.c.Topic: {part: kgo.NewOffset().At(start)}}))
	if err != nil {
		return err
	}
	defer cl.Close()
	begin := r.c.Now()
	for at := start; at < end; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("read to %d of %d: %w", at, end, context.Cause(ctx))
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) == 0 {
				return
			}
			e := r.seen("-final", p, begin, at)
			at, e.Final = e.Next, true
			r.write(e)
		})
	}
	done := check.New(check.Read)
	done.Client, done.Partition, done.Begin = r.c.Client+"-final", part, begin
	done.From, done.Next, done.High, done.Final, done.Done = end, end, end, true, true
	r.write(done)
	return nil
}
