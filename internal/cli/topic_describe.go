package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// described is what `topic describe` says of one topic.
type described struct {
	Topic      string      `json:"topic"`
	ID         string      `json:"id"`
	Internal   bool        `json:"internal,omitempty"`
	Replicas   int         `json:"replicas"`
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
	Error     string  `json:"error,omitempty"`
}

type setting struct {
	Key    string  `json:"key"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

func (t *topics) describeCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show partitions, replicas, offsets and configuration of topics",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			adm, err := t.admin(c.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			var out []described
			var errs []error
			for _, name := range args {
				d, err := t.describe(c, adm, name, all)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				out = append(out, d)
			}
			if len(out) > 0 {
				if err := t.output.print(c.OutOrStdout(), out, func(tab *table) { drawTopics(tab, out) }); err != nil {
					return err
				}
			}
			return errors.Join(errs...)
		},
		ValidArgsFunction: t.completeTopics,
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "show every key of the configuration, not only what was set")
	return c
}

func (t *topics) describe(c *cobra.Command, adm *kadm.Client, name string, all bool) (described, error) {
	found, err := adm.ListTopicsWithInternal(c.Context(), name)
	if err != nil {
		return described{}, err
	}
	d := found[name]
	if err := refusal("describe", name, d.Err, ""); err != nil {
		return described{}, err
	}
	starts, err := adm.ListStartOffsets(c.Context(), name)
	if err != nil && len(starts) == 0 {
		return described{}, err
	}
	ends, err := adm.ListEndOffsets(c.Context(), name)
	if err != nil && len(ends) == 0 {
		return described{}, err
	}
	out := described{Topic: name, ID: kafka.TopicID(d.ID).String(), Internal: d.IsInternal, Replicas: d.Partitions.NumReplicas()}
	for _, p := range d.Partitions.Sorted() {
		row := partition{Partition: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Offline: p.OfflineReplicas,
			Start: listed(starts, name, p.Partition), End: listed(ends, name, p.Partition)}
		if p.Err != nil {
			row.Error = p.Err.Error()
		}
		out.Partitions = append(out.Partitions, row)
	}
	out.Configs, err = topicConfigs(c.Context(), adm, name, all)
	return out, err
}

// topicConfigs are the settings of a topic, or those that were set on it; none
// where the broker does not tell.
func topicConfigs(ctx context.Context, adm *kadm.Client, name string, all bool) ([]setting, error) {
	if ok, err := answers(ctx, adm, kmsg.NewPtrDescribeConfigsRequest()); err != nil || !ok {
		return nil, err
	}
	configs, err := adm.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return nil, err
	}
	var out []setting
	for _, r := range configs {
		for _, k := range r.Configs {
			if all || k.Source == kmsg.ConfigSourceDynamicTopicConfig {
				out = append(out, setting{k.Key, k.Value, k.Source.String()})
			}
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
	offset := func(o *int64) any {
		if o == nil {
			return "-"
		}
		return *o
	}
	for i, d := range all {
		if i > 0 {
			tab.row("")
		}
		tab.row("TOPIC", d.Topic)
		tab.row("ID", d.ID)
		for _, s := range d.Configs {
			v := "(hidden or unset)"
			if s.Value != nil {
				v = *s.Value
			}
			tab.row("CONFIG", s.Key+"="+v)
		}
		tab.row("")
		tab.row("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END")
		for _, p := range d.Partitions {
			tab.row(p.Partition, p.Leader, p.Epoch, ids(p.Replicas), ids(p.ISR), offset(p.Start), offset(p.End))
		}
	}
}
