package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

func topicCommand(cl *client) *cobra.Command {
	t := &topics{client: cl}
	c := &cobra.Command{Use: "topic", Short: "Create, list, describe, alter and delete topics"}
	t.output.flag(c)
	c.AddCommand(t.createCommand(), t.listCommand(), t.describeCommand(), t.alterCommand(), t.deleteCommand(), t.addPartitionsCommand())
	return c
}

// topics are the commands on topics.
type topics struct {
	*client
	output output
}

// outcome is what happened to one topic.
type outcome struct {
	Topic      string `json:"topic"`
	Status     string `json:"status"`
	ID         string `json:"id,omitempty"`
	Partitions int32  `json:"partitions,omitempty"`
	Replicas   int16  `json:"replicas,omitempty"`
}

// report prints the outcomes, and returns the errors in one.
func (t *topics) report(c *cobra.Command, all []outcome, errs []error) error {
	if len(all) > 0 {
		if err := t.output.print(c.OutOrStdout(), all, func(tab *table) {
			for _, o := range all {
				tab.row(o.Topic, o.Status)
			}
		}); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// refusal words a broker's refusal: its own message where it gave one.
func refusal(what, topic string, err error, message string) error {
	if err == nil {
		return nil
	}
	code := err.Error()
	var ke *kerr.Error
	if errors.As(err, &ke) {
		code = ke.Message
		if message == "" {
			message = strings.TrimSuffix(ke.Description, ".")
		}
	}
	hint := ""
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		hint = "; --if-not-exists accepts that"
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		hint = "; `barnabas topic list` shows what there is"
	}
	if message != "" && message != code {
		return fmt.Errorf("%s %s: %s (%s)%s", what, topic, message, code, hint)
	}
	return fmt.Errorf("%s %s: %s%s", what, topic, code, hint)
}

// settings parses key=value flags.
func settings(list []string) (map[string]*string, error) {
	out := map[string]*string{}
	for _, s := range list {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, usagef("%q is not of the form key=value", s)
		}
		out[k] = &v
	}
	return out, nil
}

func (t *topics) createCommand() *cobra.Command {
	var partitions int32
	var replicas int16
	var set []string
	var ifNotExists, dryRun bool
	c := &cobra.Command{
		Use:     "create TOPIC...",
		Short:   "Create topics",
		Example: "  barnabas topic create orders -p 6 -r 3 -c retention.ms=86400000 -c cleanup.policy=compact",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			configs, err := settings(set)
			if err != nil {
				return err
			}
			if partitions < 1 && partitions != -1 || replicas < 1 && replicas != -1 {
				return usagef("--partitions and --replicas must be at least 1, or -1 for the broker's default")
			}
			adm, err := t.admin(c.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			create := adm.CreateTopics
			if dryRun {
				create = adm.ValidateCreateTopics
			}
			made, err := create(c.Context(), partitions, replicas, configs, args...)
			if err != nil {
				return err
			}
			return t.created(c, made, ifNotExists, dryRun)
		},
	}
	f := c.Flags()
	f.Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 is the broker's default")
	f.Int16VarP(&replicas, "replicas", "r", -1, "replicas of each partition; -1 is the broker's default")
	f.StringArrayVarP(&set, "set", "c", nil, "topic configuration key=value; may be given many times")
	f.BoolVar(&ifNotExists, "if-not-exists", false, "a topic that exists is no failure")
	f.BoolVar(&dryRun, "dry-run", false, "ask whether it could be created, and create nothing")
	return c
}

func (t *topics) created(c *cobra.Command, made kadm.CreateTopicResponses, ifNotExists, dryRun bool) error {
	var all []outcome
	var errs []error
	for _, r := range made.Sorted() {
		o := outcome{Topic: r.Topic, Status: "created", Partitions: max(r.NumPartitions, 0), Replicas: max(r.ReplicationFactor, 0)}
		if r.ID != (kadm.TopicID{}) {
			o.ID = kafka.TopicID(r.ID).String()
		}
		switch {
		case r.Err == nil && dryRun:
			o.Status = "could be created"
		case r.Err == nil:
		case ifNotExists && errors.Is(r.Err, kerr.TopicAlreadyExists):
			o.Status = "exists"
		default:
			errs = append(errs, refusal("create", r.Topic, r.Err, r.ErrMessage))
			continue
		}
		all = append(all, o)
	}
	return t.report(c, all, errs)
}

func (t *topics) listCommand() *cobra.Command {
	var internal bool
	c := &cobra.Command{
		Use:   "list [PATTERN]",
		Short: "List topics, or those whose name matches a regular expression",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			match, err := regexp.Compile(strings.Join(args, ""))
			if err != nil {
				return usageError{err}
			}
			adm, err := t.admin(c.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			list := adm.ListTopics
			if internal {
				list = adm.ListTopicsWithInternal
			}
			found, err := list(c.Context())
			if err != nil {
				return err
			}
			return t.printList(c, found, match)
		},
	}
	c.Flags().BoolVarP(&internal, "internal", "i", false, "list the broker's own topics too")
	return c
}

func (t *topics) printList(c *cobra.Command, found kadm.TopicDetails, match *regexp.Regexp) error {
	type entry struct {
		Topic      string `json:"topic"`
		ID         string `json:"id"`
		Partitions int    `json:"partitions"`
		Replicas   int    `json:"replicas"`
	}
	all := []entry{}
	for _, d := range found.Sorted() {
		if match.MatchString(d.Topic) {
			all = append(all, entry{d.Topic, kafka.TopicID(d.ID).String(), len(d.Partitions), d.Partitions.NumReplicas()})
		}
	}
	return t.output.print(c.OutOrStdout(), all, func(tab *table) {
		tab.row("TOPIC", "PARTITIONS", "REPLICAS")
		for _, e := range all {
			tab.row(e.Topic, e.Partitions, e.Replicas)
		}
	})
}

func (t *topics) alterCommand() *cobra.Command {
	var set, reset []string
	c := &cobra.Command{
		Use:     "alter TOPIC...",
		Short:   "Change the configuration of topics",
		Example: "  barnabas topic alter orders --set retention.ms=3600000 --delete cleanup.policy",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			values, err := settings(set)
			if err != nil {
				return err
			}
			var changes []kadm.AlterConfig
			for k, v := range values {
				changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: v})
			}
			for _, k := range reset {
				changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: k})
			}
			if len(changes) == 0 {
				return usagef("nothing to change: give --set key=value or --delete key")
			}
			return t.each(c, kmsg.NewPtrIncrementalAlterConfigsRequest(), "alter", "altered", args, func(ctx context.Context, adm *kadm.Client) (map[string]result, error) {
				rs, err := adm.AlterTopicConfigs(ctx, changes, args...)
				out := map[string]result{}
				for _, r := range rs {
					out[r.Name] = result{r.Err, r.ErrMessage}
				}
				return out, err
			})
		},
		ValidArgsFunction: t.completeTopics,
	}
	c.Flags().StringArrayVarP(&set, "set", "c", nil, "set key=value; may be given many times")
	c.Flags().StringArrayVar(&reset, "delete", nil, "take key back to its default; may be given many times")
	return c
}

func (t *topics) deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "delete TOPIC...",
		Short: "Delete topics with everything in them",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return t.each(c, kmsg.NewPtrDeleteTopicsRequest(), "delete", "deleted", args, func(ctx context.Context, adm *kadm.Client) (map[string]result, error) {
				rs, err := adm.DeleteTopics(ctx, args...)
				out := map[string]result{}
				for name, r := range rs {
					out[name] = result{r.Err, r.ErrMessage}
				}
				return out, err
			})
		},
		ValidArgsFunction: t.completeTopics,
	}
}

func (t *topics) addPartitionsCommand() *cobra.Command {
	var add, to int
	c := &cobra.Command{
		Use:     "add-partitions TOPIC...",
		Short:   "Add partitions to topics; old records stay where they are",
		Example: "  barnabas topic add-partitions orders --to 12",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if (add > 0) == (to > 0) {
				return usagef("give either --add N or --to N")
			}
			return t.each(c, kmsg.NewPtrCreatePartitionsRequest(), "add partitions to", "partitions added", args, func(ctx context.Context, adm *kadm.Client) (map[string]result, error) {
				change, n := adm.UpdatePartitions, to
				if add > 0 {
					change, n = adm.CreatePartitions, add
				}
				rs, err := change(ctx, n, args...)
				out := map[string]result{}
				for name, r := range rs {
					out[name] = result{r.Err, r.ErrMessage}
				}
				return out, err
			})
		},
		ValidArgsFunction: t.completeTopics,
	}
	c.Flags().IntVar(&add, "add", 0, "how many more")
	c.Flags().IntVar(&to, "to", 0, "how many there shall be")
	return c
}

// result is a broker's answer about one topic.
type result struct {
	err     error
	message string
}

// each runs a request r about several topics and reports on each.
func (t *topics) each(c *cobra.Command, r kmsg.Request, verb, done string, args []string, run func(context.Context, *kadm.Client) (map[string]result, error)) error {
	adm, err := t.admin(c.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	if err := needs(c.Context(), adm, r); err != nil {
		return fmt.Errorf("%s %s: %w", verb, strings.Join(args, ", "), err)
	}
	results, err := run(c.Context(), adm)
	if err != nil && len(results) == 0 {
		return fmt.Errorf("%s %s: %w", verb, strings.Join(args, ", "), err)
	}
	var all []outcome
	var errs []error
	for _, name := range args {
		if r := results[name]; r.err != nil {
			errs = append(errs, refusal(verb, name, r.err, r.message))
		} else {
			all = append(all, outcome{Topic: name, Status: done})
		}
	}
	return t.report(c, all, errs)
}

// oneTopic asks about a topic that must be there.
func oneTopic(ctx context.Context, c *kgo.Client, name string) (kadm.TopicDetail, error) {
	found, err := kadm.NewClient(c).ListTopicsWithInternal(ctx, name)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	d, ok := found[name]
	if !ok {
		return d, refusal("topic", name, kerr.UnknownTopicOrPartition, "")
	}
	return d, refusal("topic", name, d.Err, "")
}
