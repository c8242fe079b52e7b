package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// consumeFlags are the flags of consume.
type consumeFlags struct {
	partitions         []int32
	offset             string
	fromTime, toTime   string
	format, output     string
	isolation          string
	exitAtEnd, pattern bool
	count              int64
	group              groupFlags
}

// reading is what consume was asked for, checked.
type reading struct {
	consumeFlags
	topics []string
	bounds bounds
	print  formatter
}

func consumeCommand(cl *client) *cobra.Command {
	var cf consumeFlags
	c := &cobra.Command{
		Use:   "consume TOPIC...",
		Short: "Print the records of topics",
		Long: `Print records as they come, in order within each partition, from the beginning
or from where -O says, until it is interrupted, has printed -n records, or with
-e has reached the end that the topics had at the start. --to-time ends before the
first record of that time or later, and at the latest at the end. With --regex the
arguments are regular expressions that match whole names.

A time is milliseconds since 1970, 2006-01-02, 2006-01-02T15:04:05 of here,
2006-01-02T15:04:05Z, or -1h30m for that long ago.

With -g it joins a consumer group: it prints what the group has not read yet, of
the partitions that the group gives it, and commits what it printed, also when it is
interrupted; then it leaves. What was printed and not committed, because the process
was killed, is printed again by whoever reads on. -O then says where to begin
in partitions that the group has no offset of: beginning, end or @time.

-o json prints a line of JSON per record, as ` + "`produce --input json`" + ` takes them: keys,
values and headers as text, as null, or under keyBase64 and valueBase64 where they
are no UTF-8.

` + formatHelp,
		Example: "  barnabas consume orders -e -f '%p:%o %k=%s\\n'\n  barnabas consume orders -p 0 -O -10 -n 1 -o json\n  barnabas consume orders --from-time -1h --to-time 2100-01-31T12:00:00Z\n  barnabas consume --regex 'ord.*' -O beginning -e --isolation read_committed\n  barnabas consume orders -g billing -e",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := cl.orProperty(c.Flags(), "isolation", "isolation.level"); err != nil {
				return err
			}
			return consume(c, cl, args, cf)
		},
		ValidArgsFunction: cl.completeTopics,
	}
	f := c.Flags()
	f.Int32SliceVarP(&cf.partitions, "partition", "p", nil, "partitions to read, separated by commas (default all)")
	f.StringVarP(&cf.offset, "offset", "O", "beginning", "where to begin: beginning, end, N, -N for the last N, or @time")
	f.StringVar(&cf.fromTime, "from-time", "", "begin at the first record of this time or later: the same as -O @time")
	f.StringVar(&cf.toTime, "to-time", "", "end before the first record of this time or later, or at the end")
	f.StringVarP(&cf.format, "format", "f", `%s\n`, "how to print a record")
	f.StringVarP(&cf.output, "output", "o", "text", "text, as --format says, or json: a line of JSON per record")
	f.StringVar(&cf.isolation, "isolation", "read_uncommitted", "read_committed leaves out what open and aborted transactions wrote")
	f.BoolVarP(&cf.exitAtEnd, "exit", "e", false, "exit at the end of the topics")
	f.BoolVar(&cf.pattern, "regex", false, "the arguments are regular expressions")
	f.Int64VarP(&cf.count, "count", "n", 0, "exit after so many records; 0 means never")
	cf.group.flags(c, cl)
	for flag, words := range map[string][]string{"output": {"text", "json"}, "isolation": {"read_committed", "read_uncommitted"}, "offset": {"beginning", "end"}} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	return c
}

// check refuses what cannot be.
func (cf consumeFlags) check(c *cobra.Command, topics []string) (reading, error) {
	r := reading{consumeFlags: cf, topics: topics, bounds: bounds{until: -1, committed: cf.isolation == "read_committed"}}
	var err error
	if cf.fromTime != "" {
		if c.Flags().Changed("offset") {
			return r, usagef("--from-time and --offset exclude each other")
		}
		cf.offset = "@" + cf.fromTime
	}
	if r.bounds.from, err = parsePosition(cf.offset); err != nil {
		return r, usagef("--offset: %w", err)
	}
	if cf.toTime != "" {
		if r.bounds.until, err = parseMoment(cf.toTime, time.Now()); err != nil {
			return r, usagef("--to-time: %w", err)
		}
		r.exitAtEnd = true
	}
	switch cf.output {
	case "text":
		r.print, err = parseFormat(cf.format)
	case "json":
		r.print = formatJSON
		if c.Flags().Changed("format") {
			return r, usagef("--format goes with -o text: -o json has a form of its own")
		}
	default:
		err = errors.New("it must be text or json")
		if _, wrong := parsePosition(cf.output); wrong == nil {
			err = fmt.Errorf("%w; where to begin is -O %s", err, cf.output)
		}
		return r, usagef("--output: %w", err)
	}
	switch {
	case err != nil:
		return r, usagef("--format: %w", err)
	case cf.count < 0:
		return r, usagef("--count must not be negative")
	case cf.isolation != "read_committed" && cf.isolation != "read_uncommitted":
		return r, usagef("--isolation must be read_committed or read_uncommitted")
	case cf.pattern:
		_, err = wholeName(topics)
	}
	return r, errors.Join(err, cf.group.check(cf, r.bounds.from))
}

func (r reading) level() kgo.IsolationLevel {
	if r.bounds.committed {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}

func consume(c *cobra.Command, cl *client, topics []string, cf consumeFlags) error {
	what, err := cf.check(c, topics)
	if err != nil {
		return err
	}
	if cf.group.name != "" {
		return consumeGroup(c, cl, what)
	}
	ctx := c.Context()
	// Control records are asked for so that a log that ends in one is seen to end.
	k, err := cl.open(ctx, kgo.KeepControlRecords(), kgo.BrokerMaxReadBytes(1<<30), kgo.FetchIsolationLevel(what.level()))
	if err != nil {
		return err
	}
	defer k.Close()
	todo, err := what.spans(ctx, k, cf.partitions)
	if err != nil {
		return err
	}
	offsets := map[string]map[int32]kgo.Offset{}
	for tp, s := range todo {
		if what.exitAtEnd && s.start >= s.end {
			delete(todo, tp)
			continue
		}
		if offsets[tp.Topic] == nil {
			offsets[tp.Topic] = map[int32]kgo.Offset{}
		}
		offsets[tp.Topic][tp.Partition] = kgo.NoResetOffset().At(s.start)
	}
	if len(offsets) == 0 {
		return nil
	}
	k.AddConsumePartitions(offsets)
	prog := newProgress(c.ErrOrStderr(), c.OutOrStdout(), "consumed")
	defer prog.stop()
	r := reader{k: k, format: what.print, out: bufio.NewWriterSize(c.OutOrStdout(), 64<<10), progress: prog, left: cf.count}
	if what.exitAtEnd {
		r.todo = todo
	}
	return r.run(ctx)
}

// spans are what there is to read of the topics.
func (r reading) spans(ctx context.Context, k *kgo.Client, partitions []int32) (map[kafka.TopicPartition]span, error) {
	names := r.topics
	adm := kadm.NewClient(k)
	if r.pattern {
		match, err := wholeName(r.topics)
		if err != nil {
			return nil, err
		}
		all, err := adm.ListTopics(ctx)
		if err != nil {
			return nil, err
		}
		if names = slices.DeleteFunc(all.Names(), func(n string) bool { return !match.MatchString(n) }); len(names) == 0 {
			return nil, fmt.Errorf("no topic matches %s; `barnabas topic list` shows what there is", r.topics)
		}
	}
	out := map[kafka.TopicPartition]span{}
	for _, name := range names {
		d, err := oneTopic(ctx, k, "topic", name)
		if err != nil {
			return nil, err
		}
		if err := r.bounds.spans(ctx, adm, d, partitions, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}
