package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/config"
)

// completePatience is how long somebody who pressed the tabulator waits.
const completePatience = 2 * time.Second

// offered is what a broker that answers offers for completion; a broker that
// does not offers nothing, and nobody is told why.
func (cl *client) offered(c *cobra.Command, ask func(ctx context.Context, k *kgo.Client) []string) []string {
	ctx, cancel := context.WithTimeout(c.Context(), completePatience)
	defer cancel()
	quiet := *cl
	quiet.app.Err = discard{}
	k, err := quiet.open(ctx)
	if err != nil {
		return nil
	}
	defer k.Close()
	return ask(ctx, k)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// offer keeps the names that begin so and are not there yet, in order.
func offer(names, args []string, prefix string) []string {
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) || slices.Contains(args, n) })
	slices.Sort(names)
	return slices.Compact(names)
}

func everyTopicName(ctx context.Context, k *kgo.Client) []string {
	found, err := kadm.NewClient(k).ListTopicsWithInternal(ctx)
	if err != nil {
		return nil
	}
	return found.Names()
}

func everyGroupName(ctx context.Context, k *kgo.Client) (names []string) {
	found, _ := listGroups(ctx, kadm.NewClient(k), nil, nil) // no answer, no names
	for _, l := range found {
		names = append(names, l.Group)
	}
	return names
}

func brokerIDs(ctx context.Context, k *kgo.Client) (names []string) {
	found, _ := kadm.NewClient(k).ListBrokers(ctx) // no answer, no names
	for _, id := range found.NodeIDs() {
		names = append(names, ids([]int32{id}))
	}
	return names
}

// completeTopics offers topic names.
func (cl *client) completeTopics(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return offer(cl.offered(c, everyTopicName), args, prefix), cobra.ShellCompDirectiveNoFileComp
}

// completeOneTopic is completeTopics for commands that take one.
func (cl *client) completeOneTopic(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cl.completeTopics(c, args, prefix)
}

// completeGroups offers group names.
func (g *groups) completeGroups(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return offer(g.offered(c, everyGroupName), args, prefix), cobra.ShellCompDirectiveNoFileComp
}

func (g *groups) completeOneGroup(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return g.completeGroups(c, args, prefix)
}

// completeResource offers topic/, broker/ and so on, and then what there is of it.
func (cl *client) completeResource(c *cobra.Command, prefix string) ([]string, cobra.ShellCompDirective) {
	word, _, ok := strings.Cut(prefix, "/")
	kind, known := resourceKinds[word]
	if !ok || !known {
		var words []string
		for w := range resourceKinds {
			words = append(words, w+"/")
		}
		return offer(words, nil, prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	names := map[kmsg.ConfigResourceType]func(context.Context, *kgo.Client) []string{
		kmsg.ConfigResourceTypeTopic: everyTopicName, kmsg.ConfigResourceTypeGroupConfig: everyGroupName,
		kmsg.ConfigResourceTypeBroker: brokerIDs, kmsg.ConfigResourceTypeBrokerLogger: brokerIDs,
		kmsg.ConfigResourceTypeClientMetrics: func(context.Context, *kgo.Client) []string { return nil },
	}[kind]
	var out []string
	for _, n := range cl.offered(c, names) {
		out = append(out, word+"/"+n)
	}
	if kind == kmsg.ConfigResourceTypeBroker {
		out = append(out, "broker/")
	}
	return offer(out, nil, prefix), cobra.ShellCompDirectiveNoFileComp
}

// keysOf offers the keys of a resource, as the broker tells them.
func (cl *client) keysOf(c *cobra.Command, r resource) []setting {
	var found []setting
	cl.offered(c, func(ctx context.Context, k *kgo.Client) []string {
		found, _ = settingsOf(ctx, k, r, nil) // no answer, no keys
		return nil
	})
	return found
}

// completeKeys offers a resource and then its keys.
func (g *configs) completeKeys(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return g.completeResource(c, prefix)
	}
	r, err := parseResource(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, s := range g.keysOf(c, r) {
		names = append(names, s.Key)
	}
	return offer(names, args[1:], prefix), cobra.ShellCompDirectiveNoFileComp
}

// completeValues offers a resource, then key=, then values of the key.
func (g *configs) completeValues(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return g.completeResource(c, prefix)
	}
	r, err := parseResource(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return g.completeAssignment(c, r, prefix)
}

// completeAssignment offers key=, and after that values: what the key may be
// where that is a short list, and what it is.
func (cl *client) completeAssignment(c *cobra.Command, r resource, prefix string) ([]string, cobra.ShellCompDirective) {
	found := cl.keysOf(c, r)
	key, _, ok := strings.Cut(prefix, "=")
	var out []string
	if !ok {
		for _, s := range found {
			if !s.ReadOnly {
				out = append(out, s.Key+"=")
			}
		}
		return offer(out, nil, prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	s := setting{Key: strings.TrimRight(key, "+-")}
	if i := slices.IndexFunc(found, func(f setting) bool { return f.Key == s.Key }); i >= 0 {
		s = found[i]
	}
	values := choices(r, s)
	if s.Value != nil && *s.Value != "" {
		values = append(values, *s.Value)
	}
	for _, v := range values {
		out = append(out, key+"="+v)
	}
	return offer(out, nil, prefix), cobra.ShellCompDirectiveNoFileComp
}

// choices are the values that a key may have, where there are few.
func choices(r resource, s setting) []string {
	if s.Type == "boolean" {
		return []string{"true", "false"}
	}
	if r.kind == kmsg.ConfigResourceTypeBrokerLogger {
		return []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
	}
	scope, ok := scopes[r.kind]
	if !ok {
		return nil
	}
	if k, ok := config.Lookup(scope, s.Key); ok {
		return k.Choices()
	}
	return nil
}

// completeSet offers key=value for flags about topics that are named before, or that are to be made.
func (t *topics) completeSet(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	for _, name := range args {
		if out, d := t.completeAssignment(c, resource{kmsg.ConfigResourceTypeTopic, name}, prefix); len(out) > 0 {
			return out, d
		}
	}
	var out []string
	key, _, ok := strings.Cut(prefix, "=")
	for _, k := range config.Keys(config.TopicScope) {
		switch {
		case !ok:
			out = append(out, k.Name+"=")
		case k.Name == key:
			for _, v := range k.Choices() {
				out = append(out, key+"="+v)
			}
		}
	}
	return offer(out, nil, prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeUnset offers the keys that are set on the topics named before.
func (t *topics) completeUnset(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, name := range args {
		for _, s := range t.keysOf(c, resource{kmsg.ConfigResourceTypeTopic, name}) {
			if s.set {
				out = append(out, s.Key)
			}
		}
	}
	return offer(out, nil, prefix), cobra.ShellCompDirectiveNoFileComp
}
