package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// describedGroup is what `group describe` says of one group. A list that was
// not asked for is nil.
type describedGroup struct {
	Group        string        `json:"group"`
	State        string        `json:"state"`
	Type         string        `json:"type"`
	ProtocolType string        `json:"protocolType"`
	Coordinator  coordinator   `json:"coordinator"`
	Assignor     string        `json:"assignor"`
	Epoch        *int32        `json:"epoch,omitempty"`           // consumer groups
	AssignEpoch  *int32        `json:"assignmentEpoch,omitempty"` // consumer groups
	Members      []groupMember `json:"members,omitzero"`
	Offsets      []groupOffset `json:"offsets,omitzero"`
}

type coordinator struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

type groupMember struct {
	ID       string             `json:"id"`
	Instance string             `json:"instance,omitempty"`
	Client   string             `json:"client"`
	Host     string             `json:"host"`
	Rack     string             `json:"rack,omitempty"`
	Epoch    *int32             `json:"epoch,omitempty"` // classic groups do not tell a generation
	Topics   []string           `json:"topics"`
	Regex    string             `json:"regex,omitempty"`
	Assigned map[string][]int32 `json:"assigned"`
	Target   map[string][]int32 `json:"target,omitempty"` // consumer groups
}

// sections are the parts of the answer.
type sections struct{ state, members, offsets bool }

func (g *groups) describeCommand() *cobra.Command {
	var all bool
	var show sections
	c := &cobra.Command{
		Use:   "describe [GROUP...]",
		Short: "Show state, members, offsets and lag of groups",
		Long: `Show the state, the members and, for each partition, how far the group has come:
LAG is the number of offsets from the committed one to the end, and LAG-SECONDS
the age of the oldest record among them, which is how late the group is. A dash
stands for what is not known. Without --state, --members or --offsets it shows all three.`,
		Example: "  barnabas group describe billing\n  barnabas group describe --all --offsets -o json",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return usagef("name groups or give --all, not both")
			case !all && len(args) == 0:
				return usagef("name a group, or give --all")
			}
			if show == (sections{}) {
				show = sections{true, true, true}
			}
			k, err := g.open(c.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			if all {
				if args, err = everyGroup(c.Context(), kadm.NewClient(k)); err != nil {
					return err
				}
			}
			return g.describe(c, k, args, show)
		},
		ValidArgsFunction: g.completeGroups,
	}
	f := c.Flags()
	f.BoolVar(&all, "all", false, "describe every group")
	f.BoolVar(&show.state, "state", false, "show state, type, coordinator and assignor")
	f.BoolVar(&show.members, "members", false, "show the members and what is assigned to them")
	f.BoolVar(&show.offsets, "offsets", false, "show offsets and lag of each partition")
	return c
}

// everyGroup names the groups of the two protocols that can be described here.
func everyGroup(ctx context.Context, adm *kadm.Client) (names []string, err error) {
	found, err := listGroups(ctx, adm, nil, nil)
	for _, l := range found {
		if l.GroupType == "" || l.GroupType == "classic" || l.GroupType == "consumer" {
			names = append(names, l.Group)
		}
	}
	return names, err
}

func (g *groups) describe(c *cobra.Command, k *kgo.Client, names []string, show sections) error {
	found, errs := findGroups(c.Context(), k, names)
	out := []describedGroup{}
	for _, name := range names {
		d, ok := found[name]
		if !ok {
			continue
		}
		if show.offsets {
			var err error
			if d.Offsets, err = g.offsets(c.Context(), kadm.NewClient(k), d); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if !show.members {
			d.Members = nil
		}
		out = append(out, d)
	}
	if g.output.draws(len(out)) || len(names) == 0 {
		errs = append(errs, g.output.print(c.OutOrStdout(), out, func(tab *table) { drawGroups(tab, out, show) }))
	}
	return errors.Join(errs...)
}

func drawGroups(tab *table, all []describedGroup, show sections) {
	for i, d := range all {
		if i > 0 {
			tab.row("")
		}
		tab.row("GROUP", d.Group)
		if show.state {
			tab.row("STATE", d.State)
			tab.row("TYPE", d.Type)
			tab.row("PROTOCOL", dash(d.ProtocolType))
			tab.row("COORDINATOR", fmt.Sprintf("%d (%s:%d)", d.Coordinator.ID, d.Coordinator.Host, d.Coordinator.Port))
			tab.row("ASSIGNOR", dash(d.Assignor))
			if d.Epoch != nil {
				tab.row("EPOCH", fmt.Sprintf("%d (assignment %d)", *d.Epoch, *d.AssignEpoch))
			}
		}
		if show.members {
			drawMembers(tab, d)
		}
		if show.offsets {
			drawOffsets(tab, d)
		}
	}
}

func drawMembers(tab *table, d describedGroup) {
	tab.row("")
	if len(d.Members) == 0 {
		tab.row("no members")
		return
	}
	tab.row("MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "ASSIGNED", "TARGET")
	for _, m := range d.Members {
		var epoch any = "-"
		target := "-"
		if m.Epoch != nil {
			epoch, target = *m.Epoch, parts(m.Target)
		}
		tab.row(m.ID, dash(m.Instance), dash(m.Client), dash(m.Host), epoch, parts(m.Assigned), target)
	}
}

// parts prints partitions as topic:0,1 other:2.
func parts(all map[string][]int32) string {
	var out []string
	for _, topic := range slices.Sorted(maps.Keys(all)) {
		out = append(out, topic+":"+ids(all[topic]))
	}
	return dash(strings.Join(out, " "))
}

func drawOffsets(tab *table, d describedGroup) {
	tab.row("")
	if len(d.Offsets) == 0 {
		tab.row("no offsets")
		return
	}
	tab.row("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "LAG-SECONDS", "OWNER")
	for _, o := range d.Offsets {
		late := "-"
		if o.LagSeconds != nil {
			late = fmt.Sprintf("%.0f", *o.LagSeconds)
		}
		tab.row(o.Topic, o.Partition, dashed(o.Committed), dashed(o.End), dashed(o.Lag), late, dash(o.Owner))
	}
}
