package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// described is what `topic describe` says of one topic.
type described struct {
	Topic      string      `json:"topic"`
	ID         string      `json:"id"`
	Internal   bool        `json:"internal,omitempty"`
	Replicas   int         `json:"replicas"`
	Size       *int64      `json:"size"` // of the leaders' logs; nil: not known
	Partitions []partition `json:"partitions"`
	Configs    []setting   `json:"configs,omitempty"`
}

type partition struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Epoch     int32   `json:"epoch"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
	Offline   []int32 `json:"offline,omitempty"`
	Start     *int64  `json:"start"` // nil: no leader to ask
	End       *int64  `json:"end"`
	Size      *int64  `json:"size"` // bytes of the leader's log; nil: not known
	State     string  `json:"state"`
	Error     string  `json:"error,omitempty"`
}

// state marks what somebody should look at.
func (p partition) state() string {
	switch {
	case p.Leader < 0:
		return "OFFLINE"
	case len(p.ISR) < len(p.Replicas):
		return "under-replicated"
	case len(p.Offline) > 0:
		return "replicas offline"
	}
	return "ok"
}

func (t *topics) describeCommand() *cobra.Command {
	var all, bad bool
	c := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show partitions, replicas, offsets, sizes and configuration of topics",
		Long: `Show of each topic the partitions with leader, replicas in sync, first offset, the
offset after the last, and the bytes of the leader's log; and the configuration
that was set, with --all every key and where its value comes from. A dash stands
for what is not known. STATE marks partitions without a leader (OFFLINE) and those
whose replicas are not all in sync (under-replicated).`,
		Example: "  barnabas topic describe orders\n  barnabas topic describe orders --all -o json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			k, err := t.open(c.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			out := []described{}
			var errs []error
			for _, name := range args {
				d, err := describeTopic(c.Context(), k, name, all)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if bad {
					d.Partitions = wanting(d.Partitions)
				}
				out = append(out, d)
			}
			if t.output.draws(len(out)) {
				errs = append(errs, t.output.print(c.OutOrStdout(), out, func(tab *table) { drawTopics(tab, out) }))
			}
			return errors.Join(errs...)
		},
		ValidArgsFunction: t.completeTopics,
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "show every key of the configuration, not only what was set")
	c.Flags().BoolVar(&bad, "problems", false, "show only partitions that are offline or under-replicated")
	return c
}

// wanting are the partitions that are not well.
func wanting(all []partition) []partition {
	out := []partition{}
	for _, p := range all {
		if p.State != "ok" {
			out = append(out, p)
		}
	}
	return out
}

func describeTopic(ctx context.Context, k *kgo.Client, name string, all bool) (described, error) {
	adm := kadm.NewClient(k)
	d, err := oneTopic(ctx, k, "describe", name)
	if err != nil {
		return described{}, err
	}
	starts, err := adm.ListStartOffsets(ctx, name)
	if err != nil && len(starts) == 0 {
		return described{}, err
	}
	ends, err := adm.ListEndOffsets(ctx, name)
	if err != nil && len(ends) == 0 {
		return described{}, err
	}
	sizes := logSizes(ctx, adm, d)
	out := described{Topic: name, ID: kafka.TopicID(d.ID).String(), Internal: d.IsInternal, Replicas: d.Partitions.NumReplicas()}
	for _, p := range d.Partitions.Sorted() {
		row := partition{Partition: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Offline: p.OfflineReplicas,
			Start: listed(starts, name, p.Partition), End: listed(ends, name, p.Partition)}
		if size, ok := sizes[p.Partition]; ok {
			row.Size = &size
			total := size
			if out.Size != nil {
				total += *out.Size
			}
			out.Size = &total
		}
		if p.Err != nil {
			row.Error = p.Err.Error()
		}
		row.State = row.state()
		out.Partitions = append(out.Partitions, row)
	}
	out.Configs, err = topicConfigs(ctx, k, name, all)
	return out, err
}

// logSizes are the bytes of the leaders' logs; none where the broker does not tell.
func logSizes(ctx context.Context, adm *kadm.Client, d kadm.TopicDetail) map[int32]int64 {
	if ok, err := answers(ctx, adm, kmsg.NewPtrDescribeLogDirsRequest()); err != nil || !ok {
		return nil
	}
	set := kadm.TopicsSet{}
	set.Add(d.Topic, d.Partitions.Numbers()...)
	dirs, _ := adm.DescribeAllLogDirs(ctx, set) // a broker that is away tells no sizes
	out := map[int32]int64{}
	dirs.Each(func(dir kadm.DescribedLogDir) {
		dir.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if p.Topic == d.Topic && !p.IsFuture && p.Broker == d.Partitions[p.Partition].Leader {
				out[p.Partition] = p.Size
			}
		})
	})
	return out
}

// topicConfigs are the settings of a topic, or those that were set on it; none
// where the broker does not tell.
func topicConfigs(ctx context.Context, k *kgo.Client, name string, all bool) ([]setting, error) {
	if ok, err := answers(ctx, kadm.NewClient(k), kmsg.NewPtrDescribeConfigsRequest()); err != nil || !ok {
		return nil, err
	}
	found, err := settingsOf(ctx, k, resource{kmsg.ConfigResourceTypeTopic, name}, nil)
	if err != nil {
		return nil, err
	}
	var out []setting
	for _, s := range found {
		if all || s.set {
			s.Synonyms, s.Doc, s.Type = nil, "", ""
			out = append(out, s)
		}
	}
	return out, nil
}

// listed is an offset that was listed without an error.
func listed(l kadm.ListedOffsets, topic string, p int32) *int64 {
	if o, ok := l.Lookup(topic, p); ok && o.Err == nil && o.Offset >= 0 {
		return &o.Offset
	}
	return nil
}

func drawTopics(tab *table, all []described) {
	for i, d := range all {
		if i > 0 {
			tab.row("")
		}
		tab.row("TOPIC", d.Topic)
		tab.row("ID", d.ID)
		if d.Internal {
			tab.row("INTERNAL", "yes: the broker's own")
		}
		if d.Size != nil {
			tab.row("SIZE", byteSize(*d.Size))
		}
		for _, s := range d.Configs {
			tab.row("CONFIG", fmt.Sprintf("%s=%s (%s)", s.Key, s.text(), s.Source))
		}
		tab.row("")
		tab.row("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END", "SIZE", "STATE")
		for _, p := range d.Partitions {
			var leader any = p.Leader
			if p.Leader < 0 {
				leader = "none"
			}
			size := "-"
			if p.Size != nil {
				size = byteSize(*p.Size)
			}
			tab.row(p.Partition, leader, p.Epoch, ids(p.Replicas), dash(ids(p.ISR)), dashed(p.Start), dashed(p.End), size, p.State)
		}
	}
}

// byteSize prints bytes for people.
func byteSize(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	unit := 0
	for v >= 1024 && unit < 5 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, " KMGTP"[unit])
}
