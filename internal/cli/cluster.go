package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func clusterCommand(cl *client) *cobra.Command {
	g := &cluster{client: cl}
	c := &cobra.Command{Use: "cluster", Short: "Show brokers, features and log directories; elect leaders, move partitions, change voters", Example: "  barnabas cluster status"}
	g.output.flag(c)
	features := &cobra.Command{Use: "features", Short: "Show and change the feature levels of the cluster", Example: "  barnabas cluster features get"}
	features.AddCommand(g.featuresGetCommand(), g.featuresSetCommand())
	c.AddCommand(g.statusCommand(), features, g.logDirsCommand(), g.electCommand(), g.reassignCommand(), g.drainCommand(), g.quorumCommand())
	return c
}

// cluster are the commands on the cluster as a whole.
type cluster struct {
	*client
	output output
}

// clusterStatus is what `cluster status` says.
type clusterStatus struct {
	ID         string         `json:"id"`
	Controller int32          `json:"controller"`
	Brokers    []brokerStatus `json:"brokers"`
	Features   []feature      `json:"features"`
	Topics     int            `json:"topics"`
	Partitions int            `json:"partitions"`
	Under      int            `json:"underReplicatedPartitions"`
	Offline    int            `json:"offlinePartitions"`
	Moving     *int           `json:"reassignments"` // nil: not told
	Quorum     *quorumState   `json:"quorum,omitempty"`
}

type brokerStatus struct {
	ID   int32       `json:"id"`
	Host string      `json:"host"`
	Port int32       `json:"port"`
	Rack *string     `json:"rack"`
	Dirs []logDirUse `json:"logDirs,omitempty"`
}

// logDirUse is how full a log directory is.
type logDirUse struct {
	Broker   int32  `json:"broker"`
	Dir      string `json:"dir"`
	Logs     int    `json:"logs"`
	Size     int64  `json:"size"`             // of the logs
	Total    *int64 `json:"total"`            // of the file system; nil: not told
	Usable   *int64 `json:"usable"`           // free for the broker; nil: not told
	Cordoned bool   `json:"cordoned"`         // takes no new partitions
	Future   int    `json:"future,omitempty"` // logs that are moving here
	Error    string `json:"error,omitempty"`
}

func (g *cluster) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show cluster id, controller, brokers, features and how full the log directories are",
		Example: "  barnabas cluster status\n  barnabas cluster status -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			k, err := g.open(c.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			s, err := statusOf(c.Context(), k)
			if err != nil {
				return err
			}
			return g.output.print(c.OutOrStdout(), s, func(tab *table) { drawStatus(tab, s) })
		},
	}
}

func statusOf(ctx context.Context, k *kgo.Client) (clusterStatus, error) {
	adm := kadm.NewClient(k)
	m, err := adm.Metadata(ctx)
	if err != nil {
		return clusterStatus{}, err
	}
	s := clusterStatus{ID: m.Cluster, Controller: m.Controller}
	for _, t := range m.Topics {
		s.Topics++
		for _, p := range t.Partitions {
			s.Partitions++
			if p.Leader < 0 {
				s.Offline++
			} else if len(p.ISR) < len(p.Replicas) {
				s.Under++
			}
		}
	}
	dirs, _ := logDirs(ctx, adm, nil) // a broker that is away tells none
	for _, b := range m.Brokers {
		row := brokerStatus{ID: b.NodeID, Host: b.Host, Port: b.Port, Rack: b.Rack}
		for _, d := range dirs {
			if d.Broker == b.NodeID {
				row.Dirs = append(row.Dirs, d)
			}
		}
		s.Brokers = append(s.Brokers, row)
	}
	if ok, err := answers(ctx, adm, kmsg.NewPtrListPartitionReassignmentsRequest()); err == nil && ok {
		if running, err := reassignments(ctx, k); err == nil { // told, where it may be asked
			n := len(running)
			s.Moving = &n
		}
	}
	if q, err := quorumOf(ctx, k); err == nil {
		s.Quorum = &q
	}
	s.Features, err = featuresOf(ctx, k)
	return s, err
}

func drawStatus(tab *table, s clusterStatus) {
	tab.row("CLUSTER", s.ID)
	tab.row("CONTROLLER", s.Controller)
	if s.Quorum != nil {
		tab.row("QUORUM", s.Quorum.line())
	}
	tab.row("TOPICS", fmt.Sprintf("%d with %d partitions", s.Topics, s.Partitions))
	state := "ok"
	if s.Offline+s.Under > 0 {
		state = fmt.Sprintf("%d partitions OFFLINE, %d under-replicated", s.Offline, s.Under)
	}
	tab.row("STATE", state)
	if s.Moving != nil && *s.Moving > 0 {
		tab.row("MOVING", fmt.Sprintf("%d partitions to other brokers", *s.Moving))
	}
	tab.row("")
	tab.row("BROKER", "ADDRESS", "RACK", "LOG DIRECTORIES")
	for _, b := range s.Brokers {
		rack := "-"
		if b.Rack != nil {
			rack = *b.Rack
		}
		tab.row(b.ID, fmt.Sprintf("%s:%d", b.Host, b.Port), rack, dash(strings.Join(dirTexts(b.Dirs), ", ")))
	}
	if len(s.Features) > 0 {
		tab.row("")
		drawFeatures(tab, s.Features)
	}
}

func dirTexts(dirs []logDirUse) (out []string) {
	for _, d := range dirs {
		text := d.Dir + ": " + byteSize(d.Size)
		if d.Usable != nil {
			text += ", " + byteSize(*d.Usable) + " free"
		}
		if d.Cordoned {
			text += ", cordoned"
		}
		if d.Error != "" {
			text += " (" + d.Error + ")"
		}
		out = append(out, text)
	}
	return out
}

func (g *cluster) logDirsCommand() *cobra.Command {
	var topics []string
	c := &cobra.Command{
		Use:   "log-dirs",
		Short: "Show the log directories of every broker, and how full they are",
		Long: `Show the log directories of every broker: how many logs they hold, how large these
are, and how much room their file system has. --topic counts the logs of topics only.`,
		Example: "  barnabas cluster log-dirs\n  barnabas cluster log-dirs --topic orders -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			k, err := g.open(c.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			adm := kadm.NewClient(k)
			if err := needs(c.Context(), adm, kmsg.NewPtrDescribeLogDirsRequest()); err != nil {
				return err
			}
			var set kadm.TopicsSet
			for _, name := range topics {
				d, err := oneTopic(c.Context(), k, "topic", name)
				if err != nil {
					return err
				}
				set.Add(name, d.Partitions.Numbers()...)
			}
			dirs, err := logDirs(c.Context(), adm, set)
			if err != nil && len(dirs) == 0 {
				return err
			}
			return errors.Join(err, g.output.print(c.OutOrStdout(), dirs, func(tab *table) { drawDirs(tab, dirs) }))
		},
	}
	c.Flags().StringSliceVar(&topics, "topic", nil, "count only the logs of these topics, separated by commas")
	_ = c.RegisterFlagCompletionFunc("topic", func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return g.completeTopics(c, nil, prefix)
	})
	return c
}

func drawDirs(tab *table, dirs []logDirUse) {
	tab.row("BROKER", "DIRECTORY", "LOGS", "SIZE", "TOTAL", "USABLE", "STATE")
	for _, d := range dirs {
		state := "ok"
		switch {
		case d.Error != "":
			state = d.Error
		case d.Cordoned:
			state = "cordoned"
		case d.Future > 0:
			state = fmt.Sprintf("%d logs are moving here", d.Future)
		}
		size := func(n *int64) string {
			if n == nil {
				return "-"
			}
			return byteSize(*n)
		}
		tab.row(d.Broker, d.Dir, d.Logs, byteSize(d.Size), size(d.Total), size(d.Usable), state)
	}
}

// logDirs asks every broker; set chooses partitions, nil means all.
func logDirs(ctx context.Context, adm *kadm.Client, set kadm.TopicsSet) ([]logDirUse, error) {
	if ok, err := answers(ctx, adm, kmsg.NewPtrDescribeLogDirsRequest()); err != nil || !ok {
		return nil, err
	}
	found, err := adm.DescribeAllLogDirs(ctx, set)
	if err != nil {
		err = fmt.Errorf("describe log directories: %w", err)
	}
	out := []logDirUse{}
	found.Each(func(d kadm.DescribedLogDir) {
		use := logDirUse{Broker: d.Broker, Dir: d.Dir, Cordoned: d.IsCordoned}
		if d.TotalBytes >= 0 {
			use.Total, use.Usable = &d.TotalBytes, &d.UsableBytes
		}
		if d.Err != nil {
			use.Error = d.Err.Error()
		}
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			use.Logs++
			use.Size += p.Size
			if p.IsFuture {
				use.Future++
			}
		})
		out = append(out, use)
	})
	slices.SortFunc(out, func(a, b logDirUse) int {
		return cmp.Or(cmp.Compare(a.Broker, b.Broker), cmp.Compare(a.Dir, b.Dir))
	})
	return out, err
}

// feature is a level that the cluster has agreed on, and what its brokers can.
type feature struct {
	Name  string `json:"name"`
	Level int16  `json:"level"` // 0: off
	Min   int16  `json:"min"`   // that every broker supports
	Max   int16  `json:"max"`
}

// featuresOf asks one broker, which knows those of all.
func featuresOf(ctx context.Context, k *kgo.Client) ([]feature, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "barnabas", "1"
	resp, err := req.RequestWith(ctx, k)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for features: %w", err)
	}
	all := map[string]feature{}
	for _, f := range resp.SupportedFeatures {
		all[f.Name] = feature{Name: f.Name, Min: f.MinVersion, Max: f.MaxVersion}
	}
	for _, f := range resp.FinalizedFeatures {
		e := all[f.Name]
		e.Name, e.Level = f.Name, f.MaxVersionLevel
		all[f.Name] = e
	}
	out := []feature{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out, nil
}

func drawFeatures(tab *table, all []feature) {
	tab.row("FEATURE", "LEVEL", "SUPPORTED")
	for _, f := range all {
		tab.row(f.Name, f.Level, fmt.Sprintf("%d-%d", f.Min, f.Max))
	}
}

func (g *cluster) featuresGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "get",
		Short:   "Show the level of each feature, and the levels that the brokers support",
		Example: "  barnabas cluster features get",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			k, err := g.open(c.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			all, err := featuresOf(c.Context(), k)
			if err != nil {
				return err
			}
			return g.output.print(c.OutOrStdout(), all, func(tab *table) { drawFeatures(tab, all) })
		},
	}
}

func (g *cluster) featuresSetCommand() *cobra.Command {
	var downgrade, unsafe, dryRun bool
	c := &cobra.Command{
		Use:   "set FEATURE=LEVEL...",
		Short: "Change the levels of features, all or none",
		Long: `Change the levels of features, all or none; level 0 turns one off. A lower level
needs --downgrade, and where something that exists would be lost, --unsafe as well.`,
		Example: "  barnabas cluster features set group.version=1 --dry-run",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			updates, err := parseLevels(args)
			if err != nil {
				return err
			}
			if unsafe && !downgrade {
				return usagef("--unsafe goes with --downgrade")
			}
			for i := range updates {
				updates[i].UpgradeType, updates[i].AllowDowngrade = 1, downgrade // the second is version 0's
				if downgrade {
					updates[i].UpgradeType = 2
				}
				if unsafe {
					updates[i].UpgradeType = 3
				}
			}
			return g.setFeatures(c, updates, dryRun)
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			names := g.offered(c, func(ctx context.Context, k *kgo.Client) (names []string) {
				all, _ := featuresOf(ctx, k) // no answer, no names
				for _, f := range all {
					names = append(names, f.Name+"=")
				}
				return names
			})
			return offer(names, args, prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
	}
	f := c.Flags()
	f.BoolVar(&downgrade, "downgrade", false, "the levels are lower than the present ones")
	f.BoolVar(&unsafe, "unsafe", false, "go lower although something may be lost")
	f.BoolVar(&dryRun, "dry-run", false, "check it, and change nothing")
	return c
}

func parseLevels(args []string) ([]kmsg.UpdateFeaturesRequestFeatureUpdate, error) {
	var out []kmsg.UpdateFeaturesRequestFeatureUpdate
	for _, a := range args {
		name, level, ok := strings.Cut(a, "=")
		n, err := strconv.ParseInt(level, 10, 16)
		if !ok || name == "" || err != nil || n < 0 {
			return nil, usagef("%q is not of the form FEATURE=LEVEL", a)
		}
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel = name, int16(n)
		out = append(out, u)
	}
	return out, nil
}

func (g *cluster) setFeatures(c *cobra.Command, updates []kmsg.UpdateFeaturesRequestFeatureUpdate, dryRun bool) error {
	k, err := g.open(c.Context())
	if err != nil {
		return err
	}
	defer k.Close()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	if err := needs(c.Context(), kadm.NewClient(k), req); err != nil {
		return err
	}
	req.TimeoutMillis, req.FeatureUpdates, req.ValidateOnly = adminMillis, updates, dryRun
	resp, err := req.RequestWith(c.Context(), k)
	if err != nil {
		return fmt.Errorf("set features: %w", err)
	}
	if err := featuresRefusal(resp); err != nil {
		return fmt.Errorf("%w; `barnabas cluster features get` shows the levels and what the brokers support; a lower level needs --downgrade", err)
	}
	type row struct {
		Feature string `json:"feature"`
		Level   int16  `json:"level"`
		Status  string `json:"status"`
	}
	var out []row
	status := "set"
	if dryRun {
		status = "could be set"
	}
	for _, u := range updates {
		out = append(out, row{u.Feature, u.MaxVersionLevel, status})
	}
	return g.output.print(c.OutOrStdout(), out, func(tab *table) {
		for _, r := range out {
			tab.row(r.Feature, r.Level, r.Status)
		}
	})
}

// featuresRefusal words what a broker refused, of all features or of single ones.
func featuresRefusal(resp *kmsg.UpdateFeaturesResponse) error {
	words := func(what string, code int16, message *string) error {
		if message == nil {
			message = new(string)
		}
		return refusal("set", what, kerr.ErrorForCode(code), *message)
	}
	errs := []error{words("features", resp.ErrorCode, resp.ErrorMessage)}
	for _, r := range resp.Results {
		errs = append(errs, words(r.Feature, r.ErrorCode, r.ErrorMessage))
	}
	return errors.Join(errs...)
}
