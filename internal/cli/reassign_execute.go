package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The settings that bound replication for a reassignment, as in Apache Kafka.
const (
	leaderRate       = "leader.replication.throttled.rate"
	followerRate     = "follower.replication.throttled.rate"
	leaderReplicas   = "leader.replication.throttled.replicas"
	followerReplicas = "follower.replication.throttled.replicas"
)

// execution is how a plan is carried out.
type execution struct {
	yes, dryRun, additional bool
	throttle                int64
}

func (e *execution) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVarP(&e.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&e.dryRun, "dry-run", false, "show what would move, and change nothing")
	f.Int64Var(&e.throttle, "throttle", 0, "bytes a second at most that each broker sends and receives for it; 0: no bound")
}

func (g *cluster) executeCommand() *cobra.Command {
	var e execution
	c := &cobra.Command{
		Use:   "execute FILE",
		Short: "Begin the reassignments of a file",
		Long: `Begin the reassignments of a file, as generate and Apache Kafka's tools write them. What
moves is shown first and, on a terminal, asked about; with it the file that goes
back. While something moves already, --additional is needed: a partition that moves
goes to the new place then. --throttle bounds the bytes that brokers send and
receive for it, until verify finds that all is done. FILE - is the standard input.`,
		Example: "  barnabas cluster reassign generate --topic orders --brokers 1 > plan.json\n  barnabas cluster reassign execute plan.json --dry-run\n  barnabas cluster reassign execute plan.json --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			wanted, err := readMoves(c, args[0])
			if err != nil {
				return err
			}
			if e.throttle < 0 {
				return usagef("--throttle cannot be negative")
			}
			return g.withLayout(c, func(k *kgo.Client, l *layout) error {
				if err := l.unknown(wanted); err != nil {
					return err
				}
				if n := len(l.running); n > 0 && !e.additional {
					return fmt.Errorf("%d partitions are moving already, %s among them; --additional goes on all the same", n, sortedPartitions(l.running)[0])
				}
				return g.execute(c, k, l, wanted, e)
			})
		},
	}
	e.flags(c)
	c.Flags().BoolVar(&e.additional, "additional", false, "begin them although something moves already")
	return c
}

// execute shows what moves, and carries it out.
func (g *cluster) execute(c *cobra.Command, k *kgo.Client, l *layout, wanted map[partitionName][]int32, e execution) error {
	rows, moves := []moved{}, map[partitionName][]int32{}
	for _, at := range sortedPartitions(wanted) {
		m := moved{Topic: at.topic, Partition: at.partition, From: l.target(at), To: wanted[at], Status: "is there"}
		if !slices.Equal(m.From, m.To) {
			m.Status = "would be moved"
			moves[at] = m.To
		}
		rows = append(rows, m)
	}
	if e.dryRun || len(moves) == 0 {
		return g.output.print(c.OutOrStdout(), rows, func(tab *table) { drawMoved(tab, rows) })
	}
	rows = slices.DeleteFunc(rows, func(m moved) bool { return m.Status == "is there" })
	if err := errors.Join(preview(c.ErrOrStderr(), rows), showCurrent(c.ErrOrStderr(), l, moves)); err != nil {
		return err
	}
	if err := confirm(c, e.yes, fmt.Sprintf("move %d partitions", len(moves))); err != nil {
		return err
	}
	if e.throttle > 0 {
		if err := setThrottles(c.Context(), k, l, moves, e.throttle); err != nil {
			return fmt.Errorf("nothing was moved: throttle: %w", err)
		}
	}
	return g.carryOut(c, k, rows, moves, "begun")
}

// setThrottles bounds what the moves may take: on every broker that has a part
// in them, for the replicas that are copied from, and to.
func setThrottles(ctx context.Context, k *kgo.Client, l *layout, moves map[partitionName][]int32, rate int64) error {
	leaders, followers := map[string][]string{}, map[string][]string{}
	var brokers []int32
	for _, at := range sortedPartitions(moves) {
		from := l.replicas[at]
		for _, n := range from {
			leaders[at.topic] = append(leaders[at.topic], fmt.Sprintf("%d:%d", at.partition, n))
		}
		for _, n := range moves[at] {
			if !slices.Contains(from, n) {
				followers[at.topic] = append(followers[at.topic], fmt.Sprintf("%d:%d", at.partition, n))
			}
		}
		brokers = append(brokers, slices.Concat(from, moves[at])...)
	}
	text := strconv.FormatInt(rate, 10)
	err := changeAll(ctx, k, brokerResources(brokers), []keyChange{set(leaderRate, text), set(followerRate, text)})
	for _, topic := range topicsOf(moves) {
		changes := []keyChange{set(leaderReplicas, strings.Join(leaders[topic], ","))}
		if f := followers[topic]; len(f) > 0 {
			changes = append(changes, set(followerReplicas, strings.Join(f, ",")))
		}
		if err == nil {
			err = changeAll(ctx, k, []resource{{kmsg.ConfigResourceTypeTopic, topic}}, changes)
		}
	}
	return err
}

// clearThrottles takes away what setThrottles sets: on every broker, since nobody
// knows which had a part in it, and on the topics of the file.
func clearThrottles(c *cobra.Command, k *kgo.Client, l *layout, of map[partitionName][]int32) error {
	var brokers []int32
	for n := range l.racks {
		brokers = append(brokers, n)
	}
	err := changeAll(c.Context(), k, brokerResources(brokers), []keyChange{unset(leaderRate), unset(followerRate)})
	var topics []resource
	for _, topic := range topicsOf(of) {
		if slices.ContainsFunc(sortedPartitions(l.replicas), func(at partitionName) bool { return at.topic == topic }) {
			topics = append(topics, resource{kmsg.ConfigResourceTypeTopic, topic})
		}
	}
	if err == nil && len(topics) > 0 {
		err = changeAll(c.Context(), k, topics, []keyChange{unset(leaderReplicas), unset(followerReplicas)})
	}
	if err != nil {
		return fmt.Errorf("take throttles away: %w", err)
	}
	return nil
}

func topicsOf(of map[partitionName][]int32) []string {
	var out []string
	for _, at := range sortedPartitions(of) {
		out = append(out, at.topic)
	}
	return slices.Compact(out)
}

func brokerResources(brokers []int32) []resource {
	slices.Sort(brokers)
	var out []resource
	for _, n := range slices.Compact(brokers) {
		out = append(out, resource{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(n))})
	}
	return out
}

func set(key, value string) keyChange {
	return keyChange{key, kmsg.IncrementalAlterConfigOpSet, &value}
}

func unset(key string) keyChange { return keyChange{key, kmsg.IncrementalAlterConfigOpDelete, nil} }

// changeAll makes changes of settings, of brokers by a request to each: it is
// the broker itself that is asked.
func changeAll(ctx context.Context, k *kgo.Client, all []resource, changes []keyChange) error {
	var errs []error
	for _, r := range all {
		refused, err := alterConfigs(ctx, k, []resource{r}, changes, false)
		errs = append(errs, err, refused[r])
	}
	return errors.Join(errs...)
}
