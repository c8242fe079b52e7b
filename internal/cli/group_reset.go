package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// resetFlags are the flags of reset-offsets.
type resetFlags struct {
	topics             []string
	allTopics          bool
	offset, shift      int64
	datetime, duration string
	file               string
	execute, dryRun    bool
	export             bool

	to     string // the name of the flag that says where to
	timeMs int64  // for to-datetime and by-duration
	scope  scope
	lines  []offsetLine // of the file
}

// resetTo are the flags of which there must be one.
var resetTo = []string{"to-earliest", "to-latest", "to-current", "to-offset", "to-datetime", "shift-by", "by-duration", "from-file"}

func (g *groups) resetCommand() *cobra.Command {
	var rf resetFlags
	c := &cobra.Command{
		Use:   "reset-offsets GROUP (--topic TOPIC[:PARTITION,...]...|--all-topics) --to-...",
		Short: "Set where a group without members goes on reading",
		Long: `Set the committed offsets of a group, so that its consumers go on from there when
they start again. It prints the old and the new offsets and changes nothing until
--execute is given. The group must have no members: stop its consumers first. An
offset beyond what a partition holds is taken to the nearest that it has.`,
		Example: `  barnabas group reset-offsets billing --topic orders --to-earliest
  barnabas group reset-offsets billing --topic orders:0,1 --shift-by -100 --execute
  barnabas group reset-offsets billing --all-topics --to-datetime 2026-01-31T12:00:00.000 --execute
  barnabas group reset-offsets billing --all-topics --to-current --export > offsets.csv
  barnabas group reset-offsets billing --from-file offsets.csv --execute`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := rf.check(c.Flags(), args[0], time.Now()); err != nil {
				return err
			}
			k, err := g.open(c.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			return g.reset(c, k, args[0], rf)
		},
		ValidArgsFunction: g.completeOneGroup,
	}
	f := c.Flags()
	f.StringArrayVar(&rf.topics, "topic", nil, "topic, or topic:partition,...; may be given many times")
	f.BoolVar(&rf.allTopics, "all-topics", false, "every partition that the group has an offset of")
	f.Bool("to-earliest", false, "to the first record that is there")
	f.Bool("to-latest", false, "to the end: only records to come are read")
	f.Bool("to-current", false, "to the committed offset; where there is none, to the end")
	f.Int64Var(&rf.offset, "to-offset", 0, "to this offset")
	f.StringVar(&rf.datetime, "to-datetime", "", "to the first record from this time on, such as 2026-01-31T12:00:00.000; UTC unless it has a zone")
	f.Int64Var(&rf.shift, "shift-by", 0, "by so many offsets from the committed one, back if negative")
	f.StringVar(&rf.duration, "by-duration", "", "to the first record of the last such time, as PT1H30M or P7D")
	f.StringVar(&rf.file, "from-file", "", "to what this CSV file says: topic,partition,offset, or group,topic,partition,offset")
	f.BoolVar(&rf.execute, "execute", false, "do it")
	f.BoolVar(&rf.dryRun, "dry-run", false, "only show what would be done, which is the default")
	f.BoolVar(&rf.export, "export", false, "print the new offsets as CSV, for --from-file")
	return c
}

// check refuses what does not go together, and parses the rest.
func (rf *resetFlags) check(f *pflag.FlagSet, group string, now time.Time) (err error) {
	for _, name := range resetTo {
		if !f.Changed(name) || f.Lookup(name).Value.String() == "false" {
			continue
		}
		if rf.to != "" {
			return usagef("--%s and --%s exclude each other", rf.to, name)
		}
		rf.to = name
	}
	switch file := rf.to == "from-file"; {
	case rf.to == "":
		return usagef("say where to: give one of --%s", strings.Join(resetTo, ", --"))
	case rf.execute && rf.dryRun:
		return usagef("--execute and --dry-run exclude each other")
	case file && (rf.allTopics || len(rf.topics) > 0):
		return usagef("the file names the partitions: leave out --topic and --all-topics")
	case rf.allTopics && len(rf.topics) > 0:
		return usagef("--topic and --all-topics exclude each other")
	case !file && !rf.allTopics && len(rf.topics) == 0:
		return usagef("say which partitions: give --topic TOPIC, --topic TOPIC:PARTITION,... or --all-topics")
	case rf.offset < 0:
		return usagef("--to-offset must not be negative")
	}
	switch rf.to {
	case "from-file":
		rf.lines, err = readOffsets(rf.file, group)
		return err
	case "to-datetime":
		t, err := parseDatetime(rf.datetime)
		if err != nil {
			return usagef("--to-datetime: %w", err)
		}
		rf.timeMs = t.UnixMilli()
	case "by-duration":
		d, err := parseDuration(rf.duration)
		if err != nil {
			return usagef("--by-duration: %w", err)
		}
		rf.timeMs = max(0, now.Add(-d).UnixMilli())
	}
	rf.scope, err = parseScope(rf.topics)
	return err
}

// move is one offset, before and after.
type move struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Old       *int64 `json:"old"`
	New       int64  `json:"new"`
}

func (g *groups) reset(c *cobra.Command, k *kgo.Client, group string, rf resetFlags) error {
	ctx := c.Context()
	if rf.execute || !rf.export { // a look at an active group is fine for a backup
		if err := idleGroup(ctx, k, group); err != nil {
			return err
		}
	}
	adm := kadm.NewClient(k)
	moves, notes, err := planReset(ctx, adm, group, rf)
	if err != nil {
		return err
	}
	for _, n := range notes {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "barnabas: %s\n", n)
	}
	var failed error
	if rf.execute {
		if moves, failed = commitMoves(ctx, adm, group, moves); len(moves) == 0 {
			return failed
		}
	}
	if rf.export {
		return errors.Join(writeOffsets(c.OutOrStdout(), moves), failed)
	}
	if err := g.output.print(c.OutOrStdout(), moves, func(tab *table) {
		tab.row("TOPIC", "PARTITION", "OLD", "NEW")
		for _, m := range moves {
			tab.row(m.Topic, m.Partition, dashed(m.Old), m.New)
		}
	}); err != nil {
		return err
	}
	if !rf.execute {
		_, _ = fmt.Fprintln(c.ErrOrStderr(), "barnabas: nothing was changed; --execute does it")
	}
	return failed
}

// idleGroup refuses a group that has members. One that does not exist has none.
func idleGroup(ctx context.Context, k *kgo.Client, group string) error {
	found, errs := findGroups(ctx, k, []string{group})
	if err := errors.Join(errs...); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return err
	}
	if n := len(found[group].Members); n > 0 {
		members := "a member"
		if n > 1 {
			members = fmt.Sprintf("%d members", n)
		}
		return fmt.Errorf("the group %s has %s and is %s: stop its consumers, then reset its offsets (`barnabas group describe %s --members` shows them)",
			group, members, found[group].State, group)
	}
	return nil
}

// commitMoves commits, and returns those that were.
func commitMoves(ctx context.Context, adm *kadm.Client, group string, moves []move) ([]move, error) {
	var offsets kadm.Offsets
	for _, m := range moves {
		offsets.Add(kadm.Offset{Topic: m.Topic, Partition: m.Partition, At: m.New, LeaderEpoch: -1})
	}
	answer, err := adm.CommitOffsets(ctx, group, offsets)
	if err != nil {
		return nil, groupRefusal("reset offsets of", group, err, "")
	}
	var done []move
	var errs []error
	for _, m := range moves {
		if o, ok := answer.Lookup(m.Topic, m.Partition); ok && o.Err != nil {
			errs = append(errs, groupRefusal("reset offset of", fmt.Sprintf("%s:%d", m.Topic, m.Partition), o.Err, ""))
			continue
		}
		done = append(done, m)
	}
	return done, errors.Join(errs...)
}
