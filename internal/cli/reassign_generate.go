package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// generation is what a plan is made of.
type generation struct {
	topics, brokers []string
	file            string
	flat            bool
	drain           int32
	replicas        int // of each partition; 0: as many as it has
}

func (g *cluster) generateCommand() *cobra.Command {
	gen := generation{drain: -1}
	c := &cobra.Command{
		Use:   "generate",
		Short: "Make a plan that spreads topics over brokers, or takes one broker's partitions away",
		Long: `Make a plan that spreads topics over brokers as a new topic would be: leaders and replicas
even, and racks apart. --replicas gives their partitions another number of replicas, as where
a cluster has grown from one broker. With --drain it moves what a broker holds to the others, and
nothing else. The plan is printed in the format of kafka-reassign-partitions, and
where the partitions are now on the standard error, as a file to go back. Nothing is
changed.`,
		Example: "  barnabas cluster reassign generate --topic orders --brokers 1 > plan.json\n  barnabas cluster reassign generate --topic orders --replicas 1 > plan.json\n  barnabas cluster reassign generate --drain 4 > plan.json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := gen.check(c); err != nil {
				return err
			}
			return g.withLayout(c, func(_ *kgo.Client, l *layout) error { return g.generate(c, l, &gen) })
		},
	}
	f := c.Flags()
	f.StringSliceVar(&gen.topics, "topic", nil, "topics to spread, separated by commas")
	f.StringVar(&gen.file, "topics-file", "", `file that names the topics: {"version":1,"topics":[{"topic":"orders"}]}`)
	f.StringSliceVar(&gen.brokers, "brokers", nil, "ids of the brokers to spread them over, separated by commas (default all)")
	f.BoolVar(&gen.flat, "no-racks", false, "do not look at racks")
	f.IntVar(&gen.replicas, "replicas", 0, "how many replicas each partition gets (default as many as it has)")
	f.Int32Var(&gen.drain, "drain", -1, "id of the broker whose partitions are to go elsewhere")
	_ = c.RegisterFlagCompletionFunc("topic", func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return g.completeTopics(c, nil, prefix)
	})
	return c
}

func (gen *generation) check(c *cobra.Command) error {
	drains := c.Flags().Changed("drain")
	if gen.file != "" {
		var f topicsFile
		if err := readFile(c, gen.file, &f); err != nil {
			return err
		}
		for _, t := range f.Topics {
			gen.topics = append(gen.topics, t.Topic)
		}
	}
	switch {
	case drains && len(gen.topics) > 0:
		return usagef("--drain takes the partitions of every topic away: it does not go with --topic and --topics-file")
	case drains && gen.replicas != 0:
		return usagef("--replicas goes with topics, and not with --drain")
	case gen.replicas < 0 || c.Flags().Changed("replicas") && gen.replicas == 0:
		return usagef("--replicas: %d; at least 1 is needed", gen.replicas)
	case drains && gen.drain < 0:
		return usagef("--drain takes the id of a broker")
	case !drains && len(gen.topics) == 0:
		return usagef("name the topics: --topic, --topics-file, or --drain BROKER")
	}
	return nil
}

func (g *cluster) generate(c *cobra.Command, l *layout, gen *generation) error {
	hosts, err := l.hosts(gen)
	if err != nil {
		return err
	}
	var wanted map[partitionName][]int32
	if gen.drain >= 0 {
		wanted, err = l.drain(hosts, gen.drain)
	} else {
		wanted, err = l.spread(hosts, gen)
	}
	if err != nil {
		return err
	}
	if err := showCurrent(c.ErrOrStderr(), l, wanted); err != nil {
		return err
	}
	format := g.output
	if format == "table" {
		format = "json" // a file, whatever else is printed as a table
	}
	return format.print(c.OutOrStdout(), writeMoves(wanted), nil)
}

// hosts are the brokers that were named, or all.
func (l *layout) hosts(gen *generation) ([]plan.Host, error) {
	named := map[int32]bool{}
	for _, s := range gen.brokers {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return nil, usagef("--brokers: %q is not the id of a broker", s)
		}
		if _, there := l.racks[int32(n)]; !there {
			return nil, fmt.Errorf("there is no broker %d; `barnabas cluster status` shows them", n)
		}
		named[int32(n)] = true
	}
	var out []plan.Host
	for n, rack := range l.racks {
		if len(named) > 0 && !named[n] {
			continue
		}
		if gen.flat {
			rack = ""
		}
		out = append(out, plan.Host{Node: kafka.NodeID(n), Rack: rack})
	}
	return out, nil
}

// held are the partitions that pass, as they will be when nothing moves any more.
func (l *layout) held(pass func(partitionName) bool) []plan.Held {
	var out []plan.Held
	for _, at := range sortedPartitions(l.replicas) {
		if !pass(at) {
			continue
		}
		h := plan.Held{Topic: at.topic, Partition: at.partition}
		for _, n := range l.target(at) {
			h.Replicas = append(h.Replicas, kafka.NodeID(n))
		}
		out = append(out, h)
	}
	return out
}

func asMoves(held []plan.Held) map[partitionName][]int32 {
	out := map[partitionName][]int32{}
	for _, h := range held {
		var nodes []int32
		for _, n := range h.Replicas {
			nodes = append(nodes, int32(n))
		}
		out[partitionName{h.Topic, h.Partition}] = nodes
	}
	return out
}

func (l *layout) spread(hosts []plan.Host, gen *generation) (map[partitionName][]int32, error) {
	for _, t := range gen.topics {
		if _, ok := l.replicas[partitionName{t, 0}]; !ok {
			return nil, fmt.Errorf("there is no topic %s; `barnabas topic list` shows what there is", t)
		}
	}
	parts := l.held(func(at partitionName) bool { return slices.Contains(gen.topics, at.topic) })
	for n := range parts {
		if gen.replicas > 0 {
			parts[n].Replicas = make([]kafka.NodeID, gen.replicas) // their number alone counts
		}
	}
	got, err := plan.Spread(hosts, parts, gen.flat)
	return asMoves(got), err
}

func (l *layout) drain(hosts []plan.Host, broker int32) (map[partitionName][]int32, error) {
	got, err := plan.Drain(hosts, l.held(func(partitionName) bool { return true }), kafka.NodeID(broker))
	return asMoves(got), err
}

func (g *cluster) drainCommand() *cobra.Command {
	var e execution
	var open bool
	c := &cobra.Command{
		Use:   "drain BROKER",
		Short: "Move everything that a broker holds to the others",
		Long: `Move everything that a broker holds to the others, before it is taken away or rebuilt: to
those that hold least, and racks stay apart. What moves is shown first and, on a
terminal, asked about. The broker gets nothing new from then on (cordoned.log.dirs=*),
unless --keep-open is given; ` + "`barnabas config unset broker/ID cordoned.log.dirs`" + ` lets it
take partitions again. ` + "`barnabas cluster reassign list`" + ` shows what still moves.`,
		Example: "  barnabas cluster drain 4 --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || n < 0 {
				return usagef("%q is not the id of a broker", args[0])
			}
			if e.throttle < 0 {
				return usagef("--throttle cannot be negative")
			}
			return g.withLayout(c, func(k *kgo.Client, l *layout) error { return g.drain(c, k, l, int32(n), e, open) })
		},
	}
	e.flags(c)
	c.Flags().BoolVar(&open, "keep-open", false, "new partitions may still be put on the broker")
	return c
}

func (g *cluster) drain(c *cobra.Command, k *kgo.Client, l *layout, broker int32, e execution, open bool) error {
	hosts, err := l.hosts(&generation{})
	if err != nil {
		return err
	}
	wanted, err := l.drain(hosts, broker)
	if err != nil {
		return err
	}
	if _, there := l.racks[broker]; there && !open && !e.dryRun {
		if len(wanted) > 0 {
			if err := confirm(c, e.yes, fmt.Sprintf("put nothing new on broker %d, and move %d partitions away", broker, len(wanted))); err != nil {
				return err
			}
		}
		if err := changeAll(c.Context(), k, brokerResources([]int32{broker}), []keyChange{set("cordoned.log.dirs", "*")}); err != nil {
			return fmt.Errorf("nothing was moved: %w; --keep-open leaves that out", err)
		}
		e.yes = true
	}
	if len(wanted) == 0 {
		_, err := fmt.Fprintf(c.ErrOrStderr(), "broker %d holds nothing\n", broker)
		return errors.Join(err, g.output.print(c.OutOrStdout(), []moved{}, func(*table) {}))
	}
	return g.execute(c, k, l, wanted, e)
}
