package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

func (g *cluster) quorumCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "quorum",
		Short:   "Show, add and remove the voters of the metadata",
		Example: "  barnabas cluster quorum describe",
		Args:    cobra.NoArgs,
	}
	c.AddCommand(g.quorumDescribeCommand(), g.quorumAddCommand(), g.quorumRemoveCommand())
	return c
}

// quorumMember is one of those who carry the metadata.
type quorumMember struct {
	Node      int32      `json:"node"`
	Role      string     `json:"role"` // leader, follower or observer
	Addresses []string   `json:"addresses"`
	Directory kafka.UUID `json:"directory"`
	End       int64      `json:"end"` // of its log; -1: not told
	Lag       int64      `json:"lag"` // -1: not told
	Heard     *time.Time `json:"heard"`
}

// quorumState is what `cluster quorum describe` says.
type quorumState struct {
	Cluster  string         `json:"cluster"`
	Leader   int32          `json:"leader"` // -1: nobody
	Epoch    int32          `json:"epoch"`
	Mark     int64          `json:"highWatermark"`
	Members  []quorumMember `json:"members"`
	listener string
}

func (g *cluster) quorumDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "describe",
		Short: "Show who votes on the metadata, who leads, and who is behind",
		Long: `Show who votes on the metadata, who leads, and who is behind. An observer has been
added and does not vote yet. A voter that does not answer has no position: END and
LAG are -. DIRECTORY tells a voter from the one that it was before it lost its disk.`,
		Example: "  barnabas cluster quorum describe\n  barnabas cluster quorum describe -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			k, err := g.open(c.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			s, err := quorumOf(c.Context(), k)
			if err != nil {
				return err
			}
			return g.output.print(c.OutOrStdout(), s, func(tab *table) { drawQuorum(tab, s) })
		},
	}
}

func quorumOf(ctx context.Context, k *kgo.Client) (quorumState, error) {
	adm := kadm.NewClient(k)
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 2
	if err := needs(ctx, adm, req); err != nil {
		return quorumState{}, err
	}
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic, t.Partitions = "__cluster_metadata", append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := askQuorum(ctx, k, req)
	if err != nil {
		return quorumState{}, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return quorumState{}, errors.New("describe the quorum: the answer is of something else")
	}
	p := resp.Topics[0].Partitions[0]
	s := quorumState{Leader: p.LeaderID, Epoch: p.LeaderEpoch, Mark: p.HighWatermark, listener: "CONTROLLER"}
	at := map[int32][]string{}
	for _, n := range resp.Nodes {
		for _, l := range n.Listeners {
			s.listener = l.Name
			at[n.NodeID] = append(at[n.NodeID], net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))))
		}
	}
	for _, v := range p.CurrentVoters {
		role := "follower"
		if v.ReplicaID == p.LeaderID {
			role = "leader"
		}
		s.Members = append(s.Members, s.member(v, role, at[v.ReplicaID]))
	}
	for _, o := range p.Observers {
		s.Members = append(s.Members, s.member(o, "observer", at[o.ReplicaID]))
	}
	m, err := patiently(ctx, func(ctx context.Context) (kadm.Metadata, bool, error) {
		m, err := adm.BrokerMetadata(ctx)
		return m, true, err
	})
	s.Cluster = m.Cluster
	return s, err
}

// askQuorum asks again while a leader is being elected.
func askQuorum(ctx context.Context, k *kgo.Client, req *kmsg.DescribeQuorumRequest) (*kmsg.DescribeQuorumResponse, error) {
	return patiently(ctx, func(ctx context.Context) (resp *kmsg.DescribeQuorumResponse, again bool, err error) {
		if resp, err = req.RequestWith(ctx, k); err != nil {
			return nil, true, fmt.Errorf("describe the quorum: %w", err)
		}
		code := kerr.ErrorForCode(resp.ErrorCode)
		return resp, kerr.IsRetriable(code), refusal("describe", "the quorum", code, orEmpty(resp.ErrorMessage))
	})
}

// patiently asks what changes nothing again for a while: the broker that was asked
// may have just gone, and others are there.
func patiently[R any](ctx context.Context, ask func(context.Context) (r R, again bool, err error)) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for {
		r, again, err := ask(ctx)
		if err == nil || !again {
			return r, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return r, err
		}
	}
}

// line is the quorum in short: who leads, and who is not as it should be.
func (s quorumState) line() string {
	var voters, silent, observers []int32
	for _, m := range s.Members {
		switch {
		case m.Role == "observer":
			observers = append(observers, m.Node)
		case m.End < 0:
			silent = append(silent, m.Node)
			fallthrough
		default:
			voters = append(voters, m.Node)
		}
	}
	leader := "NOBODY leads"
	if s.Leader >= 0 {
		leader = fmt.Sprintf("led by %d", s.Leader)
	}
	out := fmt.Sprintf("voters %s, %s", ids(voters), leader)
	if len(silent) > 0 {
		out += fmt.Sprintf(", NO ANSWER from %s", ids(silent))
	}
	if len(observers) > 0 {
		out += fmt.Sprintf(", joining: %s", ids(observers))
	}
	return out
}

func (s quorumState) member(r kmsg.DescribeQuorumResponseTopicPartitionReplicaState, role string, at []string) quorumMember {
	m := quorumMember{Node: r.ReplicaID, Role: role, Addresses: at, Directory: r.ReplicaDirectoryID, End: r.LogEndOffset, Lag: -1}
	if m.End >= 0 {
		m.Lag = max(s.Mark-m.End, 0)
	}
	if r.LastFetchTimestamp > 0 {
		t := time.UnixMilli(r.LastFetchTimestamp)
		m.Heard = &t
	}
	return m
}

func drawQuorum(tab *table, s quorumState) {
	leader := "NONE"
	if s.Leader >= 0 {
		leader = strconv.Itoa(int(s.Leader))
	}
	tab.row("CLUSTER", s.Cluster)
	tab.row("LEADER", leader)
	tab.row("EPOCH", s.Epoch)
	tab.row("HIGH WATERMARK", s.Mark)
	tab.row("")
	tab.row("NODE", "ROLE", "ADDRESS", "DIRECTORY", "END", "LAG")
	known := func(n int64) any {
		if n < 0 {
			return "-"
		}
		return n
	}
	for _, m := range s.Members {
		node, dir := "?", "-"
		if m.Node >= 0 {
			node = strconv.Itoa(int(m.Node))
		}
		if !m.Directory.IsZero() {
			dir = m.Directory.String()
		}
		tab.row(node, m.Role, dash(strings.Join(m.Addresses, ",")), dir, known(m.End), known(m.Lag))
	}
}

func (g *cluster) quorumAddCommand() *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use:   "add NODE HOST:PORT",
		Short: "Make a node a voter of the metadata",
		Long: `Make a node a voter of the metadata, and wait until it votes. HOST:PORT is its own
address in controller.quorum.voters. Start the node first, as a controller with an
empty metadata directory and with the other voters in controller.quorum.voters: it
waits to be added. A node with controller.quorum.auto.join.enable=true needs no
adding. One that does not come up in the time of --timeout is taken back; one that
does, and has not caught up in it, goes on until it votes.`,
		Example: "  barnabas cluster quorum add 4 node4:9093",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			node, err := nodeNumber(args[0])
			if err != nil {
				return err
			}
			host, text, err := net.SplitHostPort(args[1])
			port, perr := strconv.ParseUint(text, 10, 16)
			if err != nil || perr != nil || host == "" || port == 0 {
				return usagef("%q is not HOST:PORT", args[1])
			}
			k, err := g.open(c.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			return addVoter(c, k, node, host, uint16(port), wait)
		},
	}
	c.Flags().DurationVar(&wait, "timeout", adminMillis*time.Millisecond, "how long to wait until it votes; the broker waits no longer than request.timeout.ms")
	return c
}

func addVoter(c *cobra.Command, k *kgo.Client, node int32, host string, port uint16, wait time.Duration) error {
	s, err := quorumOf(c.Context(), k)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrAddRaftVoterRequest()
	if err := needs(c.Context(), kadm.NewClient(k), req); err != nil {
		return err
	}
	req.ClusterID, req.VoterID, req.TimeoutMillis = &s.Cluster, node, int32(max(1, min(wait.Milliseconds(), math.MaxInt32)))
	_, _ = rand.Read(req.VoterDirectoryID[:]) // there has to be one, and nobody asks which
	l := kmsg.NewAddRaftVoterRequestListener()
	l.Name, l.Host, l.Port = s.listener, host, port
	req.Listeners = append(req.Listeners, l)
	resp, err := req.RequestWith(c.Context(), k)
	if err != nil {
		return fmt.Errorf("add node %d: %w", node, err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return refusal("add", fmt.Sprintf("node %d", node), err, orEmpty(resp.ErrorMessage))
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "node %d votes on the metadata\n", node)
	return err
}

func (g *cluster) quorumRemoveCommand() *cobra.Command {
	var yes bool
	var dir string
	c := &cobra.Command{
		Use:   "remove NODE",
		Short: "Take a voter of the metadata out",
		Long: `Take a voter of the metadata out, or an observer. It never comes back with what it
has on its disk: a voter that runs ends, so stop it first, and start it afterwards
with process.roles=broker, or not at all. --directory tells which one is meant, where
a node stands there twice. A voter without which the others would be no majority is
not removed.`,
		Example: "  barnabas cluster quorum remove 3",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			node, err := nodeNumber(args[0])
			if err != nil {
				return err
			}
			k, err := g.open(c.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			s, err := quorumOf(c.Context(), k)
			if err != nil {
				return err
			}
			m, err := s.find(node, dir)
			if err != nil {
				return err
			}
			if err := confirm(c, yes, fmt.Sprintf("take node %d, %s at %s, out of the quorum", node, m.Role, dash(strings.Join(m.Addresses, ",")))); err != nil {
				return err
			}
			return removeVoter(c, k, s, m)
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask before")
	c.Flags().StringVar(&dir, "directory", "", "the directory that `cluster quorum describe` shows of the one that is meant")
	return c
}

// find is the one member that is meant.
func (s quorumState) find(node int32, dir string) (quorumMember, error) {
	var found []quorumMember
	for _, m := range s.Members {
		if (m.Node == node || m.Node < 0 && dir != "") && (dir == "" || m.Directory.String() == dir) {
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 0:
		return quorumMember{}, fmt.Errorf("node %d is not in the quorum; `barnabas cluster quorum describe` shows who is", node)
	case len(found) > 1:
		return quorumMember{}, usagef("node %d stands in the quorum %d times: say which one, with --directory", node, len(found))
	}
	found[0].Node = node // which is not told of one that never started
	return found[0], nil
}

func removeVoter(c *cobra.Command, k *kgo.Client, s quorumState, m quorumMember) error {
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	if err := needs(c.Context(), kadm.NewClient(k), req); err != nil {
		return err
	}
	req.ClusterID, req.VoterID, req.VoterDirectoryID = &s.Cluster, m.Node, m.Directory
	if m.Directory.IsZero() {
		return fmt.Errorf("node %d carries the metadata alone", m.Node)
	}
	to, err := anotherBroker(c.Context(), k, m.Node)
	if err != nil {
		return err
	}
	resp, err := req.RequestWith(c.Context(), to)
	if err != nil {
		return fmt.Errorf("remove node %d: %w", m.Node, err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return refusal("remove", fmt.Sprintf("node %d", m.Node), err, orEmpty(resp.ErrorMessage))
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "node %d is out of the quorum\n", m.Node)
	return err
}

// anotherBroker is not the one that is about to end, where there is another.
func anotherBroker(ctx context.Context, k *kgo.Client, than int32) (kmsg.Requestor, error) {
	m, err := kadm.NewClient(k).BrokerMetadata(ctx)
	for _, b := range m.Brokers {
		if b.NodeID != than {
			return k.Broker(int(b.NodeID)), nil
		}
	}
	return k, err
}

func nodeNumber(s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0, usagef("%q is no node.id", s)
	}
	return int32(n), nil
}
