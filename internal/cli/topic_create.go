package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// createFlags are the flags of topic create.
type createFlags struct {
	partitions  int32
	replicas    int16
	assignment  string
	set         []string
	ifNotExists bool
	dryRun      bool
}

// adminMillis bounds how long a broker may work at an administrative request.
const adminMillis = 15_000

func (t *topics) createCommand() *cobra.Command {
	var cf createFlags
	c := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Create topics",
		Long: `Create topics. Without numbers the broker's defaults hold. --replica-assignment names
the brokers of each partition, the preferred leader first: 1:2,2:3 is two partitions
on the brokers 1 and 2, and 2 and 3.`,
		Example: "  barnabas topic create orders -p 6 -c retention.ms=86400000 -c cleanup.policy=delete\n  barnabas topic create orders --if-not-exists\n  barnabas topic create placed --replica-assignment 1,1 --dry-run -o json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			req, err := cf.request(args)
			if err != nil {
				return err
			}
			k, err := t.open(c.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			resp, err := req.RequestWith(c.Context(), k)
			if err != nil {
				return fmt.Errorf("create %s: %w", strings.Join(args, ", "), err)
			}
			return t.created(c, resp, cf)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.Int32VarP(&cf.partitions, "partitions", "p", -1, "number of partitions; -1 is the broker's default")
	f.Int16VarP(&cf.replicas, "replicas", "r", -1, "replicas of each partition; -1 is the broker's default")
	f.StringVar(&cf.assignment, "replica-assignment", "", "the brokers of each partition, in place of the two numbers: 1:2,2:3")
	f.StringArrayVarP(&cf.set, "set", "c", nil, "topic configuration key=value; may be given many times")
	f.BoolVar(&cf.ifNotExists, "if-not-exists", false, "a topic that exists is no failure")
	f.BoolVar(&cf.dryRun, "dry-run", false, "ask whether it could be created, and create nothing")
	_ = c.RegisterFlagCompletionFunc("set", t.completeSet)
	return c
}

func (cf createFlags) request(names []string) (*kmsg.CreateTopicsRequest, error) {
	brokers, err := brokerLists(cf.assignment)
	if err != nil {
		return nil, err
	}
	if len(brokers) > 0 && (cf.partitions != -1 || cf.replicas != -1) {
		return nil, usagef("--replica-assignment says how many partitions and replicas there are: leave out --partitions and --replicas")
	}
	if cf.partitions < 1 && cf.partitions != -1 || cf.replicas < 1 && cf.replicas != -1 {
		return nil, usagef("--partitions and --replicas must be at least 1, or -1 for the broker's default")
	}
	changes, err := parseChanges(cf.set, nil)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.ValidateOnly = adminMillis, cf.dryRun
	for _, name := range names {
		r := kmsg.NewCreateTopicsRequestTopic()
		r.Topic, r.NumPartitions, r.ReplicationFactor = name, cf.partitions, cf.replicas
		for p, list := range brokers {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(p), list
			r.ReplicaAssignment = append(r.ReplicaAssignment, a)
		}
		for _, s := range changes {
			if s.op != kmsg.IncrementalAlterConfigOpSet {
				return nil, usagef("a topic that is to be made has no list to change: write %s=value", s.key)
			}
			e := kmsg.NewCreateTopicsRequestTopicConfig()
			e.Name, e.Value = s.key, s.value
			r.Configs = append(r.Configs, e)
		}
		req.Topics = append(req.Topics, r)
	}
	return req, nil
}

func (t *topics) created(c *cobra.Command, resp *kmsg.CreateTopicsResponse, cf createFlags) error {
	var all []outcome
	var errs []error
	slices.SortFunc(resp.Topics, func(a, b kmsg.CreateTopicsResponseTopic) int { return strings.Compare(a.Topic, b.Topic) })
	for _, r := range resp.Topics {
		o := outcome{Topic: r.Topic, Status: "created", Partitions: max(r.NumPartitions, 0), Replicas: max(r.ReplicationFactor, 0)}
		if r.TopicID != ([16]byte{}) {
			o.ID = kafka.TopicID(r.TopicID).String()
		}
		for _, s := range r.Configs {
			if from := kmsg.ConfigSource(s.Source); from == kmsg.ConfigSourceDynamicTopicConfig {
				o.Configs = append(o.Configs, setting{Key: s.Name, Value: s.Value, Source: sourceWord(from), Sensitive: s.IsSensitive})
			}
		}
		switch err := kerr.ErrorForCode(r.ErrorCode); {
		case err == nil && cf.dryRun:
			o.Status = "could be created"
		case err == nil:
		case cf.ifNotExists && errors.Is(err, kerr.TopicAlreadyExists):
			o.Status = "exists"
		default:
			message := ""
			if r.ErrorMessage != nil {
				message = *r.ErrorMessage
			}
			errs = append(errs, refusal("create", r.Topic, err, message))
			continue
		}
		all = append(all, o)
	}
	return t.report(c, all, errs)
}

func (t *topics) addPartitionsCommand() *cobra.Command {
	var pf partitionFlags
	c := &cobra.Command{
		Use:   "add-partitions TOPIC...",
		Short: "Add partitions to topics; old records stay where they are",
		Long: `Add partitions to topics. Old records stay where they are, and a key may go to
another partition from then on.`,
		Example: "  barnabas topic add-partitions orders -n 2\n  barnabas topic add-partitions orders --to 12 --dry-run",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if (pf.add > 0) == (pf.to > 0) || pf.add < 0 || pf.to < 0 {
				return usagef("give either -n N, how many more, or --to N, how many there shall be")
			}
			brokers, err := brokerLists(pf.assignment)
			if err != nil {
				return err
			}
			if pf.add > 0 && len(brokers) > 0 && len(brokers) != int(pf.add) {
				return usagef("--replica-assignment places %d partitions, and %d are to be added", len(brokers), pf.add)
			}
			return t.addPartitions(c, args, pf, brokers)
		},
		ValidArgsFunction: t.completeTopics,
	}
	f := c.Flags()
	f.Int32VarP(&pf.add, "add", "n", 0, "how many more")
	f.Int32Var(&pf.to, "to", 0, "how many there shall be")
	f.StringVar(&pf.assignment, "replica-assignment", "", "the brokers of each new partition: 1:2,2:3")
	f.BoolVar(&pf.dryRun, "dry-run", false, "ask whether they could be added, and add none")
	return c
}

// partitionFlags are the flags of topic add-partitions.
type partitionFlags struct {
	add, to    int32
	assignment string
	dryRun     bool
}

func (t *topics) addPartitions(c *cobra.Command, names []string, pf partitionFlags, brokers [][]int32) error {
	done := "partitions added"
	if pf.dryRun {
		done = "partitions could be added"
	}
	return t.each(c, kmsg.NewPtrCreatePartitionsRequest(), "add partitions to", done, names, func(ctx context.Context, k *kgo.Client) (map[string]result, error) {
		found, err := kadm.NewClient(k).ListTopicsWithInternal(ctx, names...)
		if err != nil {
			return nil, err
		}
		out := map[string]result{}
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis, req.ValidateOnly = adminMillis, pf.dryRun
		for _, name := range names {
			d, ok := found[name]
			if !ok || d.Err != nil {
				out[name] = result{err: cmp.Or(d.Err, error(kerr.UnknownTopicOrPartition))}
				continue
			}
			in := kmsg.NewCreatePartitionsRequestTopic()
			in.Topic, in.Count = name, pf.to
			if pf.add > 0 {
				in.Count = int32(len(d.Partitions)) + pf.add
			}
			for _, list := range brokers {
				a := kmsg.NewCreatePartitionsRequestTopicAssignment()
				a.Replicas = list
				in.Assignment = append(in.Assignment, a)
			}
			req.Topics = append(req.Topics, in)
		}
		if len(req.Topics) == 0 {
			return out, nil
		}
		resp, err := req.RequestWith(ctx, k)
		if err != nil {
			return nil, err
		}
		for _, r := range resp.Topics {
			out[r.Topic] = answered(r.ErrorCode, r.ErrorMessage)
		}
		return out, nil
	})
}
