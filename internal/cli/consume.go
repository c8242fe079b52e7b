package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeFlags are the flags of consume.
type consumeFlags struct {
	partitions []int32
	offset     string
	format     string
	exitAtEnd  bool
	count      int64
	group      groupFlags
}

func consumeCommand(cl *client) *cobra.Command {
	var cf consumeFlags
	c := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print the records of a topic",
		Long: `Print records as they come, in order within each partition, from the beginning
or from where -o says, until it is interrupted, has printed -c records, or with
-e has reached the end that the topic had at the start.

With -g it joins a consumer group: it prints what the group has not read yet, of
the partitions that the group gives it, and commits what it printed, also when it is
interrupted; then it leaves. What was printed and not committed, because the process
was killed, is printed again by whoever reads on. -o then says where to begin
in partitions that the group has no offset of: beginning, end or @time.

` + formatHelp,
		Example: "  barnabas consume orders -e -f '%p:%o %k=%s\\n'\n  barnabas consume orders -p 0 -o -10 -c 10\n  barnabas consume orders -o @2026-01-31T12:00:00Z\n  barnabas consume orders -g billing",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return consume(c, cl, args[0], cf)
		},
		ValidArgsFunction: cl.completeOneTopic,
	}
	f := c.Flags()
	f.Int32SliceVarP(&cf.partitions, "partition", "p", nil, "partitions to read, separated by commas (default all)")
	f.StringVarP(&cf.offset, "offset", "o", "beginning", "where to begin: beginning, end, N, -N for the last N, or @time")
	f.StringVarP(&cf.format, "format", "f", `%s\n`, "how to print a record")
	f.BoolVarP(&cf.exitAtEnd, "exit", "e", false, "exit at the end of the topic")
	f.Int64VarP(&cf.count, "count", "c", 0, "exit after so many records; 0 means never")
	cf.group.flags(c, cl)
	return c
}

func consume(c *cobra.Command, cl *client, topic string, cf consumeFlags) error {
	ctx := c.Context()
	pos, err := parsePosition(cf.offset)
	if err != nil {
		return usagef("--offset: %w", err)
	}
	format, err := parseFormat(cf.format)
	if err != nil {
		return usagef("--format: %w", err)
	}
	if cf.count < 0 {
		return usagef("--count must not be negative")
	}
	if err := cf.group.check(cf, pos); err != nil {
		return err
	}
	if cf.group.name != "" {
		return consumeGroup(c, cl, topic, cf, pos, format)
	}
	// Control records are asked for so that a log that ends in one is seen to end.
	k, err := cl.open(ctx, kgo.KeepControlRecords(), kgo.BrokerMaxReadBytes(1<<30))
	if err != nil {
		return err
	}
	defer k.Close()
	d, err := oneTopic(ctx, k, topic)
	if err != nil {
		return err
	}
	todo, err := spans(ctx, kadm.NewClient(k), d, cf.partitions, pos)
	if err != nil {
		return err
	}
	offsets := map[int32]kgo.Offset{}
	for p, s := range todo {
		if cf.exitAtEnd && s.start >= s.end {
			delete(todo, p)
			continue
		}
		offsets[p] = kgo.NoResetOffset().At(s.start)
	}
	if len(offsets) == 0 {
		return nil
	}
	k.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets})
	prog := newProgress(c.ErrOrStderr(), c.OutOrStdout(), "consumed")
	defer prog.stop()
	r := reader{k: k, format: format, out: bufio.NewWriterSize(c.OutOrStdout(), 64<<10), progress: prog, left: cf.count}
	if cf.exitAtEnd {
		r.todo = todo
	}
	return r.run(ctx)
}

// reader prints what a client fetches.
type reader struct {
	k        *kgo.Client
	format   formatter
	out      *bufio.Writer
	progress *progress
	left     int64          // records still to print; 0 at the start means no limit
	todo     map[int32]span // partitions whose end is still to come; nil means no end
	line     []byte
	// printed is the last record of each partition that was printed or passed
	// over; nil where nobody commits.
	printed map[int32]*kgo.Record
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
		end, open := r.todo[rec.Partition]
		if r.todo != nil && (!open || rec.Offset >= end.end) {
			if open { // compaction or an abort left a gap before the end
				delete(r.todo, rec.Partition)
			}
			continue
		}
		if r.printed != nil {
			r.printed[rec.Partition] = rec
		}
		if !rec.Attrs.IsControl() {
			if err := r.write(rec); err != nil {
				return err
			}
		}
		if open && rec.Offset == end.end-1 {
			delete(r.todo, rec.Partition)
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
