package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/config"
)

func configCommand(cl *client) *cobra.Command {
	g := &configs{client: cl}
	c := &cobra.Command{
		Use:   "config",
		Short: "Show, change and explain the configuration of topics, brokers and groups",
		Long: `Show, change and explain configuration. A resource is
  topic/NAME           a topic
  broker/ID, broker/   one broker; what all brokers take that have no value of their own
  group/NAME           a consumer group
  client-metrics/NAME  a subscription to metrics of clients
  logger/ID            the log levels of one broker`,
		Example: "  barnabas config get topic/orders",
	}
	g.output.flag(c)
	c.AddCommand(g.getCommand(), g.setCommand(), g.unsetCommand(), g.docsCommand())
	return c
}

// configs are the commands on configuration.
type configs struct {
	*client
	output output
}

// detail is how much of a configuration is shown.
type detail struct{ all, synonyms, docs bool }

func (g *configs) getCommand() *cobra.Command {
	var show detail
	c := &cobra.Command{
		Use:   "get RESOURCE [KEY...]",
		Short: "Show what is set on a resource, or the keys that are named",
		Long: `Show what is set on a resource, or the keys that are named, with --all every key.
SOURCE says where the value in effect comes from. Values of passwords are hidden.`,
		Example: "  barnabas config get topic/orders\n  barnabas config get topic/orders retention.ms --synonyms\n  barnabas config get broker/1 --all\n  barnabas config get topic/orders cleanup.policy --docs -o json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := parseResource(args[0])
			if err != nil {
				return err
			}
			if show.all && len(args) > 1 {
				return usagef("name keys or give --all, not both")
			}
			return g.get(c, r, args[1:], show)
		},
		ValidArgsFunction: g.completeKeys,
	}
	f := c.Flags()
	f.BoolVarP(&show.all, "all", "a", false, "show every key, not only what was set")
	f.BoolVarP(&show.synonyms, "synonyms", "s", false, "show the values that would be in effect next, one after the other")
	f.BoolVar(&show.docs, "docs", false, "show type and meaning of each key")
	return c
}

func (g *configs) get(c *cobra.Command, r resource, keys []string, show detail) error {
	k, err := g.open(c.Context())
	if err != nil {
		return err
	}
	defer k.Close()
	var ask []string // nil asks for all
	if len(keys) > 0 {
		ask = keys
	}
	found, err := settingsOf(c.Context(), k, r, ask)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		if !slices.ContainsFunc(found, func(s setting) bool { return s.Key == key }) {
			errs = append(errs, fmt.Errorf("%s has no key %s; `barnabas config get %s --all` shows them", r, key, r))
		}
	}
	out := []setting{}
	for _, s := range found {
		if !show.all && len(keys) == 0 && !s.set {
			continue
		}
		if !show.synonyms {
			s.Synonyms = nil
		}
		if !show.docs {
			s.Doc, s.Type = "", ""
		}
		out = append(out, s)
	}
	if g.output.draws(len(out)) || len(errs) == 0 {
		errs = append(errs, g.output.print(c.OutOrStdout(), out, func(tab *table) { drawSettings(tab, out, show) }))
	}
	return errors.Join(errs...)
}

func drawSettings(tab *table, all []setting, show detail) {
	head := []any{"KEY", "VALUE", "SOURCE"}
	if show.docs {
		head = append(head, "TYPE", "MEANING")
	}
	tab.row(head...)
	for _, s := range all {
		cells := []any{s.Key, s.text(), s.Source}
		if show.docs {
			cells = append(cells, dash(s.Type), dash(strings.Join(strings.Fields(s.Doc), " ")))
		}
		tab.row(cells...)
		for _, o := range s.Synonyms {
			tab.row("  "+o.Key, settingText(o.Value, s.Sensitive), o.Source)
		}
	}
}

func (g *configs) setCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "set RESOURCE KEY=VALUE...",
		Short: "Set keys of a resource; += adds to a list, -= takes out of it",
		Long: `Set keys of a resource, all or none. KEY+=VALUE adds to a key that is a list, and
KEY-=VALUE takes out of it. With --dry-run the broker checks it, and nothing changes.`,
		Example: "  barnabas config set topic/orders retention.ms=86400000\n  barnabas config set topic/orders cleanup.policy+=compact\n  barnabas config set broker/ log.retention.ms=604800000 --dry-run\n  barnabas config set group/billing consumer.session.timeout.ms=50000 --dry-run",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			changes, err := parseChanges(args[1:], nil)
			if err != nil {
				return err
			}
			return g.alter(c, args[0], changes, dryRun)
		},
		ValidArgsFunction: g.completeValues,
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check it, and change nothing")
	return c
}

func (g *configs) unsetCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:     "unset RESOURCE KEY...",
		Short:   "Take keys of a resource back to their defaults",
		Example: "  barnabas config unset topic/orders retention.ms",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			changes, err := parseChanges(nil, args[1:])
			if err != nil {
				return err
			}
			return g.alter(c, args[0], changes, dryRun)
		},
		ValidArgsFunction: g.completeKeys,
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check it, and change nothing")
	return c
}

func (g *configs) alter(c *cobra.Command, name string, changes []keyChange, dryRun bool) error {
	r, err := parseResource(name)
	if err != nil {
		return err
	}
	k, err := g.open(c.Context())
	if err != nil {
		return err
	}
	defer k.Close()
	refused, err := alterConfigs(c.Context(), k, []resource{r}, changes, dryRun)
	if err != nil {
		return r.unanswered("alter", err)
	}
	if err := refused[r]; err != nil {
		return err
	}
	type row struct {
		Resource string `json:"resource"`
		Status   string `json:"status"`
	}
	out := row{r.String(), "altered"}
	if dryRun {
		out.Status = "could be altered"
	}
	return g.output.print(c.OutOrStdout(), out, func(tab *table) { tab.row(out.Resource, out.Status) })
}

// scopes of the table of keys, by kind of resource.
var scopes = map[kmsg.ConfigResourceType]config.Scope{
	kmsg.ConfigResourceTypeTopic:         config.TopicScope,
	kmsg.ConfigResourceTypeBroker:        config.BrokerScope,
	kmsg.ConfigResourceTypeGroupConfig:   config.GroupScope,
	kmsg.ConfigResourceTypeClientMetrics: config.ClientMetricsScope,
}

func (g *configs) docsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "docs [KEY...]",
		Short: "Explain every key that this version knows, in Markdown, or those that are named",
		Long: `Explain every key that this version knows with type, default and meaning, in
Markdown, or the keys that are named. It asks no broker.`,
		Example: "  barnabas config docs log.retention.hours\n  barnabas config docs\n  barnabas config docs -o json",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && g.output == "table" {
				return config.WriteDocs(c.OutOrStdout())
			}
			if len(args) == 0 {
				args = keyNames()
			}
			return g.explain(c, args)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return offer(keyNames(), args, prefix), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// docScopes are the kinds of resources whose keys are explained, in that order.
var docScopes = []config.Scope{config.BrokerScope, config.TopicScope, config.GroupScope, config.ClientMetricsScope}

// keyNames names every key once.
func keyNames() (names []string) {
	for _, scope := range docScopes {
		for _, k := range config.Keys(scope) {
			if !k.Hidden && !slices.Contains(names, k.Name) {
				names = append(names, k.Name)
			}
		}
	}
	return names
}

// explained is what is known of a key without a broker.
type explained struct {
	Key     string  `json:"key"`
	Scope   string  `json:"scope"`
	Allowed string  `json:"allowed"`
	Default *string `json:"default"`
	Change  string  `json:"change"`
	State   string  `json:"state"`
	Doc     string  `json:"doc"`
}

func (g *configs) explain(c *cobra.Command, names []string) error {
	var out []explained
	for _, name := range names {
		before := len(out)
		for _, scope := range docScopes {
			if k, ok := config.Lookup(scope, name); ok && !k.Hidden {
				out = append(out, explained{k.Name, scope.String(), k.Allowed(), k.Default, k.Mode.String(), k.State.String(), k.Doc})
			}
		}
		if len(out) == before {
			return usagef("there is no key %s; `barnabas config docs` lists them", name)
		}
	}
	return g.output.print(c.OutOrStdout(), out, func(tab *table) {
		for i, e := range out {
			if i > 0 {
				tab.row("")
			}
			tab.row("KEY", e.Key)
			tab.row("SCOPE", e.Scope)
			tab.row("VALUE", e.Allowed)
			tab.row("DEFAULT", settingText(e.Default, false))
			tab.row("CHANGE", e.Change)
			tab.row("STATE", e.State)
			tab.row("MEANING", e.Doc)
		}
	})
}
