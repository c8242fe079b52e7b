package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// elections are those that somebody asks for.
type elections struct {
	preferred, unclean, all, yes bool
	topic                        string
	partitions                   []int32
}

func (g *cluster) electCommand() *cobra.Command {
	var e elections
	c := &cobra.Command{
		Use:   "elect",
		Short: "Elect leaders: preferred replicas, or whoever is there",
		Long: `Elect leaders of a topic's partitions, or of all. --preferred, which is the default, gives
leadership back to the first replica of each where it is in sync. --unclean lets any
replica that is there lead a partition that has no leader: records that only others
have are lost.`,
		Example: "  barnabas cluster elect --topic orders\n  barnabas cluster elect --topic orders --partition 0\n  barnabas cluster elect --all\n  barnabas cluster elect --unclean --topic orders --yes",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case e.preferred && e.unclean:
				return usagef("--preferred and --unclean exclude each other")
			case e.all && e.topic != "":
				return usagef("--all and --topic exclude each other")
			case !e.all && e.topic == "":
				return usagef("say of what: --topic TOPIC, or --all")
			case e.all && len(e.partitions) > 0:
				return usagef("--partition goes with --topic")
			}
			return g.elect(c, e)
		},
	}
	f := c.Flags()
	f.BoolVar(&e.preferred, "preferred", false, "elect the preferred replicas, which is the default")
	f.BoolVar(&e.unclean, "unclean", false, "elect any replica that is there where nobody leads; records may be lost")
	f.StringVar(&e.topic, "topic", "", "topic whose leaders are elected")
	f.Int32SliceVar(&e.partitions, "partition", nil, "only these partitions of the topic")
	f.BoolVar(&e.all, "all", false, "elect the leaders of every partition")
	f.BoolVarP(&e.yes, "yes", "y", false, "do not ask before an unclean election")
	_ = c.RegisterFlagCompletionFunc("topic", func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return g.completeTopics(c, nil, prefix)
	})
	return c
}

func (g *cluster) elect(c *cobra.Command, e elections) error {
	k, err := g.open(c.Context())
	if err != nil {
		return err
	}
	defer k.Close()
	req, err := e.request(c.Context(), k)
	if err != nil {
		return err
	}
	if e.unclean {
		if err := confirm(c, e.yes, "elect leaders that may lack records"); err != nil {
			return err
		}
	}
	resp, err := req.RequestWith(c.Context(), k)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("elect: %w", err)
	}
	type row struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Status    string `json:"status"`
	}
	rows := []row{}
	var errs []error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			err := kerr.ErrorForCode(p.ErrorCode)
			switch {
			case err == nil:
				rows = append(rows, row{t.Topic, p.Partition, "elected"})
			case errors.Is(err, kerr.ElectionNotNeeded):
				rows = append(rows, row{t.Topic, p.Partition, "not needed"})
			default:
				message := ""
				if p.ErrorMessage != nil {
					message = *p.ErrorMessage
				}
				errs = append(errs, refusal("elect", partitionName{t.Topic, p.Partition}.String(), err, message))
			}
		}
	}
	if len(rows)+len(errs) == 0 && g.output == "table" {
		_, err := fmt.Fprintln(c.OutOrStdout(), "no election is needed")
		return err
	}
	if g.output.draws(len(rows)) {
		errs = append(errs, g.output.print(c.OutOrStdout(), rows, func(tab *table) {
			tab.row("TOPIC", "PARTITION", "STATUS")
			for _, r := range rows {
				tab.row(r.Topic, r.Partition, r.Status)
			}
		}))
	}
	return errors.Join(errs...)
}

func (e *elections) request(ctx context.Context, k *kgo.Client) (*kmsg.ElectLeadersRequest, error) {
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = adminMillis
	if err := needs(ctx, kadm.NewClient(k), req); err != nil {
		return nil, err
	}
	if e.unclean {
		req.ElectionType = 1
	}
	if e.all {
		return req, nil
	}
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = e.topic, e.partitions
	if len(t.Partitions) == 0 {
		d, err := oneTopic(ctx, k, "elect", e.topic)
		if err != nil {
			return nil, err
		}
		t.Partitions = d.Partitions.Numbers()
	}
	req.Topics = append(req.Topics, t)
	return req, nil
}
