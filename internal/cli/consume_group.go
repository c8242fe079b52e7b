package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// groupFlags are the flags of consume for a consumer group.
type groupFlags struct {
	name, static, protocol string
}

func (gf *groupFlags) flags(c *cobra.Command, cl *client) {
	f := c.Flags()
	f.StringVarP(&gf.name, "group", "g", "", "read as a member of this consumer group, and commit what was printed")
	f.StringVar(&gf.static, "static", "", "be the group's static member of this id: its partitions wait for it while it restarts")
	f.StringVar(&gf.protocol, "group-protocol", "", "group protocol: classic or consumer (default consumer where the broker offers it)")
	_ = c.RegisterFlagCompletionFunc("group", (&groups{client: cl}).completeFlag)
	_ = c.RegisterFlagCompletionFunc("group-protocol", cobra.FixedCompletions([]string{"classic", "consumer"}, cobra.ShellCompDirectiveNoFileComp))
}

// completeFlag offers group names for a flag.
func (g *groups) completeFlag(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return g.completeGroups(c, nil, prefix)
}

// check refuses what does not go together.
func (gf *groupFlags) check(cf consumeFlags, pos position) error {
	switch {
	case gf.name == "" && gf.static != "":
		return usagef("--static needs --group")
	case gf.name == "" && gf.protocol != "":
		return usagef("--group-protocol needs --group")
	case gf.protocol != "" && gf.protocol != "classic" && gf.protocol != "consumer":
		return usagef("--group-protocol must be classic or consumer")
	case gf.name == "":
		return nil
	case len(cf.partitions) > 0:
		return usagef("a group shares out the partitions itself: leave out --partition or --group")
	case cf.toTime != "":
		return usagef("a group commits what it was given: leave out --to-time or --group")
	case pos.kind == atOffset, pos.kind == beforeEnd:
		return usagef("a group goes on where it was: with --group, --offset may be beginning, end or @time; `barnabas group reset-offsets` moves a group")
	}
	return nil
}

// commitEvery bounds how much is printed again after a crash.
const commitEvery = time.Second

func (gf *groupFlags) options(what reading) []kgo.Opt {
	pos := what.bounds.from
	start := kgo.NewOffset().AtStart()
	switch pos.kind {
	case atEnd:
		start = kgo.NewOffset().AtEnd()
	case atTime:
		start = kgo.NewOffset().AfterMilli(pos.n)
	}
	// Marks, and no rebalance between poll and mark: what is committed was
	// printed, and the new owner of a partition begins after it.
	opts := []kgo.Opt{
		kgo.ConsumerGroup(gf.name), kgo.FetchIsolationLevel(what.level()), kgo.ConsumeResetOffset(start), kgo.KeepControlRecords(), kgo.BrokerMaxReadBytes(1 << 30),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(commitEvery), kgo.BlockRebalanceOnPoll(),
	}
	if what.pattern {
		whole := make([]string, len(what.topics))
		for i, p := range what.topics {
			whole[i] = "^(?:" + p + ")$"
		}
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(whole...))
	} else {
		opts = append(opts, kgo.ConsumeTopics(what.topics...))
	}
	if gf.static != "" {
		opts = append(opts, kgo.InstanceID(gf.static))
	}
	if gf.protocol != "classic" {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	return opts
}

// joins is the request that the broker must know.
func (gf *groupFlags) joins() kmsg.Request {
	if gf.protocol != "consumer" {
		return kmsg.NewPtrJoinGroupRequest()
	}
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.SetVersion(1) // the first that clients may join with by a name of their own
	return r
}

func consumeGroup(c *cobra.Command, cl *client, what reading) error {
	ctx := c.Context()
	k, err := cl.open(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	adm := kadm.NewClient(k)
	if err := needs(ctx, adm, what.group.joins()); err != nil {
		return err
	}
	todo, err := what.spans(ctx, k, nil)
	if err != nil {
		return err
	}
	r := groupReader{adm: adm, flags: what.group, notes: c.ErrOrStderr()}
	if what.exitAtEnd {
		r.todo = todo
		names := map[string]bool{}
		for tp := range todo {
			names[tp.Topic] = true
		}
		if r.starts, err = adm.ListStartOffsets(ctx, slices.Collect(maps.Keys(names))...); err != nil {
			return err
		}
	}
	if r.k, err = cl.open(ctx, what.group.options(what)...); err != nil {
		return err
	}
	defer r.k.CloseAllowingRebalance() // which leaves the group
	prog := newProgress(c.ErrOrStderr(), c.OutOrStdout(), "consumed")
	defer prog.stop()
	r.format, r.out, r.progress, r.left = what.print, bufio.NewWriterSize(c.OutOrStdout(), 64<<10), prog, what.count
	r.printed = map[kafka.TopicPartition]*kgo.Record{}
	err = r.run(ctx)
	return errors.Join(err, r.commit(context.WithoutCancel(ctx)))
}

// groupReader prints what the group gives it.
type groupReader struct {
	reader
	adm   *kadm.Client
	flags groupFlags
	notes io.Writer
	// starts are where the partitions begin: an offset before that is at it.
	starts kadm.ListedOffsets
}

// quietTime is how long nothing comes before the reader looks whether the
// group is at the end.
const quietTime = 200 * time.Millisecond

func (r *groupReader) run(ctx context.Context) error {
	for {
		fetches, quiet := r.poll(ctx)
		err := r.session(fetches)
		if err == nil {
			err = r.print(fetches)
		}
		if flushErr := r.out.Flush(); flushErr != nil {
			return flushErr
		}
		r.k.MarkCommitRecords(slices.Collect(maps.Values(r.printed))...)
		clear(r.printed)
		r.k.AllowRebalance()
		if err == nil && quiet && r.todo != nil && ctx.Err() == nil {
			err = r.lookForEnd(ctx)
		}
		switch {
		case errors.Is(err, errEnough):
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		case ctx.Err() != nil:
			return nil // an interrupt is the usual end of a consumer
		}
	}
}

// poll waits for records; where there is an end to look for, not for long.
func (r *groupReader) poll(ctx context.Context) (fetches kgo.Fetches, quiet bool) {
	if r.todo == nil {
		return r.k.PollFetches(ctx), false
	}
	short, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	fetches = r.k.PollFetches(short)
	return fetches, fetches.NumRecords() == 0
}

// lookForEnd strikes off the partitions that the group has read, by whichever member.
func (r *groupReader) lookForEnd(ctx context.Context) error {
	if err := r.commit(ctx); err != nil {
		return err
	}
	committed, err := committedOffsets(ctx, r.adm, r.flags.name)
	if err != nil {
		return err
	}
	for tp, s := range r.todo {
		at := s.start
		if o, ok := committed.Lookup(tp.Topic, tp.Partition); ok && o.Err == nil && o.At >= 0 {
			at = o.At
			if start := listed(r.starts, tp.Topic, tp.Partition); start != nil {
				at = max(at, *start)
			}
		}
		if at >= s.end {
			delete(r.todo, tp)
		}
	}
	if len(r.todo) == 0 {
		return errEnough
	}
	return nil
}

// commitPatience bounds the last commit.
const commitPatience = 10 * time.Second

// commit commits what was printed.
func (r *groupReader) commit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commitPatience)
	defer cancel()
	if err := r.k.CommitMarkedOffsets(ctx); err != nil {
		return fmt.Errorf("what was printed last could not be committed, and will be printed again: %w", err)
	}
	return nil
}

// session looks at the errors of the group's membership: what joining again
// mends is noted, other ones end the command.
func (r *groupReader) session(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		var s *kgo.ErrGroupSession
		if !errors.As(e.Err, &s) {
			continue
		}
		var ke *kerr.Error
		says := ""
		switch {
		case errors.Is(s.Err, kerr.FencedInstanceID):
			says = "another consumer has taken the static id " + r.flags.static
		case errors.Is(s.Err, kerr.UnreleasedInstanceID):
			says = "another consumer holds the static id " + r.flags.static + "; stop it first"
		case errors.Is(s.Err, kerr.GroupMaxSizeReached):
			says = "the group has as many members as the broker allows"
		case !errors.As(s.Err, &ke), ke.Retriable, errors.Is(ke, kerr.UnknownMemberID), errors.Is(ke, kerr.IllegalGeneration), errors.Is(ke, kerr.FencedMemberEpoch):
			_, _ = fmt.Fprintf(r.notes, "barnabas: group %s: %v; joining again\n", r.flags.name, s.Err)
			continue
		default:
			return fmt.Errorf("group %s: %w", r.flags.name, s.Err)
		}
		return fmt.Errorf("group %s: %s", r.flags.name, says)
	}
	return nil
}
