package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (g *cluster) reassignCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "reassign",
		Short: "Move partitions to other brokers",
		Long: `Move partitions to other brokers, in the manner of Apache Kafka's kafka-reassign-partitions
and with its files: generate a plan, execute it, verify how far it is, and cancel
what is under way.`,
		Example: "  barnabas cluster reassign list",
	}
	c.AddCommand(g.generateCommand(), g.executeCommand(), g.verifyCommand(), g.cancelCommand(), g.listCommand())
	return c
}

type partitionName struct {
	topic     string
	partition int32
}

func (p partitionName) String() string { return fmt.Sprintf("%s-%d", p.topic, p.partition) }

func sortedPartitions[V any](m map[partitionName]V) []partitionName {
	return slices.SortedFunc(maps.Keys(m), func(a, b partitionName) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
}

// layout is where partitions are, and where they are going.
type layout struct {
	racks    map[int32]string // of every broker; "": none
	replicas map[partitionName][]int32
	running  map[partitionName]kmsg.ListPartitionReassignmentsResponseTopicPartition
}

// layoutOf reads it. The controller is asked, which knows first where partitions
// are, and for what is under way before and after: what begins or ends meanwhile
// shows replicas of both ends, and would be taken for a partition that has as many.
func layoutOf(ctx context.Context, k *kgo.Client) (*layout, error) {
	running, err := reassignments(ctx, k)
	if err != nil {
		return nil, err
	}
	some, err := kadm.NewClient(k).BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	m, err := req.RequestWith(ctx, k.Broker(int(some.Controller)))
	if err != nil {
		return nil, err
	}
	l := &layout{racks: map[int32]string{}, replicas: map[partitionName][]int32{}, running: running}
	for _, b := range m.Brokers {
		l.racks[b.NodeID] = ""
		if b.Rack != nil {
			l.racks[b.NodeID] = *b.Rack
		}
	}
	for _, t := range m.Topics {
		if t.Topic == nil {
			continue // a request for all has names
		}
		for _, p := range t.Partitions {
			l.replicas[partitionName{*t.Topic, p.Partition}] = p.Replicas
		}
	}
	after, err := reassignments(ctx, k)
	maps.Copy(l.running, after)
	return l, err
}

// reassignments lists what is under way.
func reassignments(ctx context.Context, k *kgo.Client) (map[partitionName]kmsg.ListPartitionReassignmentsResponseTopicPartition, error) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = adminMillis
	resp, err := req.RequestWith(ctx, k)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("list reassignments: %w", err)
	}
	out := map[partitionName]kmsg.ListPartitionReassignmentsResponseTopicPartition{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out[partitionName{t.Topic, p.Partition}] = p
		}
	}
	return out, nil
}

// target is where a partition is, or will be when its reassignment is over.
func (l *layout) target(at partitionName) []int32 {
	r, ok := l.running[at]
	if !ok {
		return l.replicas[at]
	}
	return slices.DeleteFunc(slices.Clone(r.Replicas), func(n int32) bool { return slices.Contains(r.RemovingReplicas, n) })
}

// unknown refuses partitions that are not there.
func (l *layout) unknown(wanted map[partitionName][]int32) error {
	for _, at := range sortedPartitions(wanted) {
		if _, ok := l.replicas[at]; !ok {
			return fmt.Errorf("there is no partition %s; `barnabas topic list` shows what there is", at)
		}
	}
	return nil
}

// moved is one partition of a plan, and what became of it.
type moved struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	From      []int32 `json:"from"`
	To        []int32 `json:"to"`
	Status    string  `json:"status"`
}

func drawMoved(tab *table, all []moved) {
	tab.row("TOPIC", "PARTITION", "FROM", "TO", "STATUS")
	for _, m := range all {
		tab.row(m.Topic, m.Partition, ids(m.From), ids(m.To), m.Status)
	}
}

// withLayout opens a client and reads the layout.
func (g *cluster) withLayout(c *cobra.Command, run func(k *kgo.Client, l *layout) error) error {
	k, err := g.open(c.Context())
	if err != nil {
		return err
	}
	defer k.Close()
	for _, r := range []kmsg.Request{kmsg.NewPtrListPartitionReassignmentsRequest(), kmsg.NewPtrAlterPartitionAssignmentsRequest()} {
		if err := needs(c.Context(), kadm.NewClient(k), r); err != nil {
			return err
		}
	}
	l, err := layoutOf(c.Context(), k)
	if err != nil {
		return err
	}
	return run(k, l)
}

// alterReplicas asks for replicas, nil for a cancellation. errs are by partition.
func alterReplicas(ctx context.Context, k *kgo.Client, wanted map[partitionName][]int32) (errs map[partitionName]error, err error) {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = adminMillis
	for _, at := range sortedPartitions(wanted) {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != at.topic {
			t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			t.Topic = at.topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = at.partition, wanted[at]
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	resp, err := req.RequestWith(ctx, k)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("reassign: %w", err)
	}
	errs = map[partitionName]error{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			message := ""
			if p.ErrorMessage != nil {
				message = *p.ErrorMessage
			}
			at := partitionName{t.Topic, p.Partition}
			errs[at] = refusal("reassign", at.String(), kerr.ErrorForCode(p.ErrorCode), message)
		}
	}
	return errs, nil
}

// carryOut asks for what rows say, and reports what became of each.
func (g *cluster) carryOut(c *cobra.Command, k *kgo.Client, rows []moved, wanted map[partitionName][]int32, done string) error {
	refused, err := alterReplicas(c.Context(), k, wanted)
	if err != nil {
		return err
	}
	var told []moved
	var errs []error
	for _, m := range rows {
		switch err, ok := refused[partitionName{m.Topic, m.Partition}]; {
		case !ok:
			errs = append(errs, fmt.Errorf("reassign %s-%d: the broker did not say what became of it", m.Topic, m.Partition))
		case err != nil:
			errs = append(errs, err)
		default:
			m.Status = done
			told = append(told, m)
		}
	}
	if g.output.draws(len(told)) {
		errs = append(errs, g.output.print(c.OutOrStdout(), told, func(tab *table) { drawMoved(tab, told) }))
	}
	return errors.Join(errs...)
}

// preview shows on the standard error what is about to happen.
func preview(w io.Writer, rows []moved) error {
	tab := newTable(w)
	drawMoved(tab, rows)
	return tab.flush()
}

// showCurrent shows the file that goes back to where everything is now.
func showCurrent(w io.Writer, l *layout, of map[partitionName][]int32) error {
	current := map[partitionName][]int32{}
	for at := range of {
		current[at] = l.target(at)
	}
	text, err := json.Marshal(writeMoves(current))
	if err == nil {
		_, err = fmt.Fprintf(w, "where they are now, as a file to go back:\n%s\n", text)
	}
	return err
}

func (g *cluster) verifyCommand() *cobra.Command {
	var preserve bool
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Show how far the reassignments of a file are",
		Long: `Show how far the reassignments of a file are. Once nothing moves in the cluster any
more, the throttles that execute --throttle set are taken away, unless
--preserve-throttles is given. FILE - is the standard input.`,
		Example: "  barnabas cluster reassign generate --topic orders --brokers 1 > plan.json\n  barnabas cluster reassign verify plan.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			wanted, err := readMoves(c, args[0])
			if err != nil {
				return err
			}
			return g.withLayout(c, func(k *kgo.Client, l *layout) error {
				rows := verified(l, wanted)
				err := g.output.print(c.OutOrStdout(), rows, func(tab *table) { drawMoved(tab, rows) })
				if err == nil && len(l.running) == 0 && !preserve {
					err = clearThrottles(c, k, l, wanted)
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&preserve, "preserve-throttles", false, "leave throttles as they are")
	return c
}

func verified(l *layout, wanted map[partitionName][]int32) []moved {
	rows := []moved{}
	for _, at := range sortedPartitions(wanted) {
		m := moved{Topic: at.topic, Partition: at.partition, From: l.replicas[at], To: wanted[at]}
		_, running := l.running[at]
		there := slices.Equal(l.target(at), wanted[at])
		switch {
		case l.replicas[at] == nil:
			m.Status = "does not exist"
		case running && there:
			m.Status = "moving"
		case running:
			m.Status = "moving to " + ids(l.target(at))
		case there:
			m.Status = "done"
		default:
			m.Status = "not there, and not moving"
		}
		rows = append(rows, m)
	}
	return rows
}

func (g *cluster) cancelCommand() *cobra.Command {
	var yes, preserve bool
	c := &cobra.Command{
		Use:   "cancel FILE",
		Short: "Cancel the reassignments of a file that are under way",
		Long: `Cancel the reassignments of a file that are under way: the partitions stay on the
brokers that they had before. Throttles are taken away, unless --preserve-throttles is
given. FILE - is the standard input.`,
		Example: "  barnabas cluster reassign generate --topic orders --brokers 1 > plan.json\n  barnabas cluster reassign cancel plan.json --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			wanted, err := readMoves(c, args[0])
			if err != nil {
				return err
			}
			return g.withLayout(c, func(k *kgo.Client, l *layout) error { return g.cancel(c, k, l, wanted, yes, preserve) })
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&preserve, "preserve-throttles", false, "leave throttles as they are")
	return c
}

func (g *cluster) cancel(c *cobra.Command, k *kgo.Client, l *layout, wanted map[partitionName][]int32, yes, preserve bool) error {
	rows, back := []moved{}, map[partitionName][]int32{}
	for _, at := range sortedPartitions(wanted) {
		r, running := l.running[at]
		if !running {
			continue
		}
		back[at] = nil
		to := slices.DeleteFunc(slices.Clone(r.Replicas), func(n int32) bool { return slices.Contains(r.AddingReplicas, n) })
		rows = append(rows, moved{Topic: at.topic, Partition: at.partition, From: r.Replicas, To: to, Status: "to be cancelled"})
	}
	if len(rows) == 0 {
		_, _ = fmt.Fprintln(c.ErrOrStderr(), "none of these partitions is moving")
		return g.output.print(c.OutOrStdout(), rows, func(*table) {})
	}
	if err := preview(c.ErrOrStderr(), rows); err != nil {
		return err
	}
	if err := confirm(c, yes, fmt.Sprintf("cancel %d reassignments", len(rows))); err != nil {
		return err
	}
	err := g.carryOut(c, k, rows, back, "cancelled")
	if err == nil && !preserve {
		err = clearThrottles(c, k, l, wanted)
	}
	return err
}

func (g *cluster) listCommand() *cobra.Command {
	type row struct {
		Topic     string  `json:"topic"`
		Partition int32   `json:"partition"`
		Replicas  []int32 `json:"replicas"`
		Adding    []int32 `json:"adding"`
		Removing  []int32 `json:"removing"`
	}
	return &cobra.Command{
		Use:     "list",
		Short:   "List the partitions that are on their way to other brokers",
		Example: "  barnabas cluster reassign list\n  barnabas cluster reassign list -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withLayout(c, func(_ *kgo.Client, l *layout) error {
				rows := []row{}
				for _, at := range sortedPartitions(l.running) {
					r := l.running[at]
					rows = append(rows, row{at.topic, at.partition, r.Replicas, r.AddingReplicas, r.RemovingReplicas})
				}
				return g.output.print(c.OutOrStdout(), rows, func(tab *table) {
					if len(rows) == 0 {
						tab.row("nothing moves")
						return
					}
					tab.row("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING")
					for _, r := range rows {
						tab.row(r.Topic, r.Partition, ids(r.Replicas), dash(ids(r.Adding)), dash(ids(r.Removing)))
					}
				})
			})
		},
	}
}
