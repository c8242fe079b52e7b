package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func groupCommand(cl *client) *cobra.Command {
	g := &groups{client: cl}
	c := &cobra.Command{
		Use:     "group",
		Short:   "List, describe, reset and delete consumer groups",
		Example: "  barnabas group list",
		Long:    "What consumer groups are, and what their offsets and lag mean, is told in docs/groups.md.",
	}
	g.output.flag(c)
	c.AddCommand(g.listCommand(), g.describeCommand(), g.resetCommand(), g.deleteCommand(), g.deleteOffsetsCommand())
	return c
}

// groups are the commands on consumer groups.
type groups struct {
	*client
	output output
}

// groupRefusal words a broker's refusal about a group.
func groupRefusal(verb, group string, err error, message string) error {
	if err == nil {
		return nil
	}
	says := ""
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		says = "there is no such group; `barnabas group list` shows what there is"
	case errors.Is(err, kerr.NonEmptyGroup):
		says = "the group has members; stop its consumers first"
	case errors.Is(err, kerr.GroupSubscribedToTopic):
		says = "members of the group read the topic; stop them first"
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.RebalanceInProgress):
		says = "a consumer has joined the group meanwhile; stop it first"
	default:
		return refusal(verb, group, err, message)
	}
	var ke *kerr.Error
	_ = errors.As(err, &ke)
	return worded{fmt.Sprintf("%s %s: %s (%s)", verb, group, says, ke.Message), err}
}

// worded is an error in other words.
type worded struct {
	text string
	err  error
}

func (w worded) Error() string { return w.text }
func (w worded) Unwrap() error { return w.err }

// The states and types that a group can have, in any protocol.
var (
	groupStates = []string{"Assigning", "CompletingRebalance", "Dead", "Empty", "NotReady", "PreparingRebalance", "Reconciling", "Stable", "Unknown"}
	groupTypes  = []string{"classic", "consumer", "share", "streams"}
)

// oneOf refuses what is not in the list; case does not matter.
func oneOf(flag string, given, known []string) error {
	for _, v := range given {
		if !containsFold(known, v) {
			return usagef("--%s: %q is none of %s", flag, v, strings.Join(known, ", "))
		}
	}
	return nil
}

func containsFold(list []string, v string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, v) })
}

func (g *groups) listCommand() *cobra.Command {
	var states, types []string
	c := &cobra.Command{
		Use:     "list [PATTERN]",
		Short:   "List groups, or those whose name matches a regular expression",
		Example: "  barnabas group list --state Empty\n  barnabas group list --type consumer '^billing-'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			match, err := regexp.Compile(strings.Join(args, ""))
			if err != nil {
				return usageError{err}
			}
			if err := errors.Join(oneOf("state", states, groupStates), oneOf("type", types, groupTypes)); err != nil {
				return err
			}
			adm, err := g.admin(c.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			found, err := listGroups(c.Context(), adm, types, states)
			if err != nil && len(found) == 0 {
				return err
			}
			return errors.Join(g.printList(c, found, match), err)
		},
	}
	c.Flags().StringSliceVar(&states, "state", nil, "only groups in these states, such as Stable or Empty, separated by commas")
	c.Flags().StringSliceVar(&types, "type", nil, "only groups of these types: classic or consumer, separated by commas")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(groupStates, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(groupTypes, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// listGroups lists the groups of all brokers, in order. Where some brokers did
// not answer there are both groups and an error. A broker that is too old to
// filter is filtered for.
func listGroups(ctx context.Context, adm *kadm.Client, types, states []string) ([]kadm.ListedGroup, error) {
	if err := needs(ctx, adm, kmsg.NewPtrListGroupsRequest()); err != nil {
		return nil, err
	}
	found, err := adm.ListGroupsByType(ctx, types, states...)
	all := slices.DeleteFunc(found.Sorted(), func(l kadm.ListedGroup) bool {
		return len(states) > 0 && !containsFold(states, l.State) || len(types) > 0 && !containsFold(types, l.GroupType)
	})
	if err != nil {
		err = fmt.Errorf("list groups: %w", err)
	}
	return all, err
}

func (g *groups) printList(c *cobra.Command, found []kadm.ListedGroup, match *regexp.Regexp) error {
	type entry struct {
		Group        string `json:"group"`
		Type         string `json:"type"`
		State        string `json:"state"`
		ProtocolType string `json:"protocolType"`
		Coordinator  int32  `json:"coordinator"`
	}
	all := []entry{}
	for _, l := range found {
		if match.MatchString(l.Group) {
			all = append(all, entry{l.Group, l.GroupType, l.State, l.ProtocolType, l.Coordinator})
		}
	}
	return g.output.print(c.OutOrStdout(), all, func(tab *table) {
		tab.row("GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR")
		for _, e := range all {
			tab.row(e.Group, dash(e.Type), dash(e.State), dash(e.ProtocolType), e.Coordinator)
		}
	})
}

// dash stands for what is not there.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// dashed is dash for a number.
func dashed(n *int64) any {
	if n == nil {
		return "-"
	}
	return *n
}

func (g *groups) deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "delete GROUP...",
		Short:   "Delete groups that have no members, with their offsets",
		Example: "  barnabas group delete billing-test",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			adm, err := g.admin(c.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			if err := needs(c.Context(), adm, kmsg.NewPtrDeleteGroupsRequest()); err != nil {
				return err
			}
			gone, err := adm.DeleteGroups(c.Context(), args...)
			if err != nil && len(gone) == 0 {
				return fmt.Errorf("delete %s: %w", strings.Join(args, ", "), err)
			}
			type row struct {
				Group  string `json:"group"`
				Status string `json:"status"`
			}
			all, errs := []row{}, []error{err}
			for _, name := range args {
				switch r, ok := gone[name]; {
				case ok && r.Err == nil:
					all = append(all, row{name, "deleted"})
				case ok:
					errs = append(errs, groupRefusal("delete", name, r.Err, r.ErrMessage))
				}
			}
			if g.output.draws(len(all)) {
				errs = append(errs, g.output.print(c.OutOrStdout(), all, func(tab *table) {
					for _, r := range all {
						tab.row(r.Group, r.Status)
					}
				}))
			}
			return errors.Join(errs...)
		},
		ValidArgsFunction: g.completeGroups,
	}
}

func (g *groups) deleteOffsetsCommand() *cobra.Command {
	var topics []string
	c := &cobra.Command{
		Use:   "delete-offsets GROUP --topic TOPIC[:PARTITION,...]...",
		Short: "Forget a group's offsets of topics that it does not read any more",
		Long: `Forget the offsets that a group has committed for topics, or for some of their
partitions. Whoever reads them next begins where its own settings say. Topics
that members of the group subscribe to are refused.`,
		Example: "  barnabas group delete-offsets billing --topic orders\n  barnabas group delete-offsets billing --topic orders:0,1",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			scope, err := parseScope(topics)
			if err != nil {
				return err
			}
			if len(scope) == 0 {
				return usagef("name the topics with --topic TOPIC or --topic TOPIC:PARTITION,...")
			}
			adm, err := g.admin(c.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			if err := needs(c.Context(), adm, kmsg.NewPtrOffsetDeleteRequest()); err != nil {
				return err
			}
			return g.deleteOffsets(c, adm, args[0], scope)
		},
		ValidArgsFunction: g.completeOneGroup,
	}
	c.Flags().StringArrayVar(&topics, "topic", nil, "topic, or topic:partition,...; may be given many times")
	return c
}

func (g *groups) deleteOffsets(c *cobra.Command, adm *kadm.Client, group string, scope scope) error {
	committed, err := committedOffsets(c.Context(), adm, group)
	if err != nil {
		return err
	}
	set := kadm.TopicsSet{}
	for _, topic := range scope.names() {
		for _, p := range scope[topic] {
			set.Add(topic, p)
		}
		if scope[topic] == nil {
			for p := range committed[topic] {
				set.Add(topic, p)
			}
		}
		if len(set[topic]) == 0 {
			return fmt.Errorf("the group %s has no offsets of %s", group, topic)
		}
	}
	gone, err := adm.DeleteOffsets(c.Context(), group, set)
	if err != nil {
		return groupRefusal("delete offsets of", group, err, "")
	}
	type row struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Status    string `json:"status"`
	}
	var errs []error
	all := []row{}
	for _, ps := range set.Sorted() {
		for _, p := range ps.Partitions {
			if err, ok := gone.Lookup(ps.Topic, p); ok && err != nil {
				errs = append(errs, groupRefusal("delete offset of", fmt.Sprintf("%s:%d", ps.Topic, p), err, ""))
				continue
			}
			all = append(all, row{ps.Topic, p, "deleted"})
		}
	}
	if g.output.draws(len(all)) {
		errs = append(errs, g.output.print(c.OutOrStdout(), all, func(tab *table) {
			tab.row("TOPIC", "PARTITION", "STATUS")
			for _, r := range all {
				tab.row(r.Topic, r.Partition, r.Status)
			}
		}))
	}
	return errors.Join(errs...)
}
