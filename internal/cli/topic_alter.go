package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

func (t *topics) alterCommand() *cobra.Command {
	var set, unset []string
	var dryRun bool
	c := &cobra.Command{
		Use:   "alter TOPIC...",
		Short: "Change the configuration of topics",
		Long: `Change the configuration of topics: --set key=value sets, key+=value adds to a
list, key-=value takes out of it, and --unset key goes back to the default.`,
		Example: "  barnabas topic alter orders --set retention.ms=3600000 --unset segment.bytes\n  barnabas topic alter orders --set cleanup.policy+=compact --dry-run",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			changes, err := parseChanges(set, unset)
			if err != nil {
				return err
			}
			if len(changes) == 0 {
				return usagef("nothing to change: give --set key=value or --unset key")
			}
			done := "altered"
			if dryRun {
				done = "could be altered"
			}
			return t.each(c, kmsg.NewPtrIncrementalAlterConfigsRequest(), "alter", done, args, func(ctx context.Context, k *kgo.Client) (map[string]result, error) {
				var all []resource
				for _, name := range args {
					all = append(all, resource{kmsg.ConfigResourceTypeTopic, name})
				}
				refused, err := alterConfigs(ctx, k, all, changes, dryRun)
				out := map[string]result{}
				for r, err := range refused {
					out[r.name] = result{err: err, worded: true}
				}
				return out, err
			})
		},
		ValidArgsFunction: t.completeTopics,
	}
	f := c.Flags()
	f.StringArrayVarP(&set, "set", "c", nil, "set key=value; may be given many times")
	f.StringArrayVarP(&unset, "unset", "u", nil, "take key back to its default; may be given many times")
	f.BoolVar(&dryRun, "dry-run", false, "check it, and change nothing")
	_ = c.RegisterFlagCompletionFunc("set", t.completeSet)
	_ = c.RegisterFlagCompletionFunc("unset", t.completeUnset)
	return c
}

func (t *topics) deleteCommand() *cobra.Command {
	var byID, match, yes bool
	c := &cobra.Command{
		Use:   "delete TOPIC...",
		Short: "Delete topics with everything in them",
		Long: `Delete topics with everything in them. With --regex the arguments are regular
expressions that match whole names; the topics are named and, on a terminal, asked about. With --id
the arguments are topic ids, which never mean a later topic of the same name.`,
		Example: "  barnabas topic delete orders\n  barnabas topic delete --regex 'test-.*' --yes",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if byID && match {
				return usagef("--id and --regex exclude each other")
			}
			return t.delete(c, args, byID, match, yes)
		},
		ValidArgsFunction: t.completeTopics,
	}
	f := c.Flags()
	f.BoolVar(&byID, "id", false, "the arguments are topic ids, as topic list -o json shows them")
	f.BoolVar(&match, "regex", false, "the arguments are regular expressions")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func (t *topics) delete(c *cobra.Command, args []string, byID, match, yes bool) error {
	ids := map[string][16]byte{}
	if byID {
		for _, a := range args {
			id, err := kafka.ParseUUID(a)
			if err != nil {
				return usagef("%q is not a topic id; `barnabas topic list -o json` shows them", a)
			}
			ids[a] = id
		}
	}
	if match {
		all, err := t.matching(c, args)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fmt.Errorf("no topic matches %s", strings.Join(args, " or "))
		}
		if err := confirm(c, yes, fmt.Sprintf("delete %s with everything in them", strings.Join(all, ", "))); err != nil {
			return err
		}
		args = all
	}
	return t.each(c, kmsg.NewPtrDeleteTopicsRequest(), "delete", "deleted", args, func(ctx context.Context, k *kgo.Client) (map[string]result, error) {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = adminMillis
		for _, a := range args {
			in := kmsg.NewDeleteTopicsRequestTopic()
			if byID {
				in.TopicID = ids[a]
			} else {
				in.Topic = &a
				req.TopicNames = append(req.TopicNames, a)
			}
			req.Topics = append(req.Topics, in)
		}
		resp, err := req.RequestWith(ctx, k)
		if err != nil {
			return nil, err
		}
		out := map[string]result{}
		for _, r := range resp.Topics {
			name := kafka.TopicID(r.TopicID).String()
			if !byID && r.Topic != nil {
				name = *r.Topic
			}
			out[name] = answered(r.ErrorCode, r.ErrorMessage)
		}
		return out, nil
	})
}

// matching lists the topics whose whole name matches one of the expressions;
// the broker's own are not among them.
func (t *topics) matching(c *cobra.Command, patterns []string) ([]string, error) {
	match, err := wholeName(patterns)
	if err != nil {
		return nil, err
	}
	adm, err := t.admin(c.Context())
	if err != nil {
		return nil, err
	}
	defer adm.Close()
	found, err := adm.ListTopics(c.Context())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found.Names(), func(n string) bool { return !match.MatchString(n) }), nil
}

// wholeName is one expression for names that match any of several.
func wholeName(patterns []string) (*regexp.Regexp, error) {
	for _, p := range patterns {
		if _, err := regexp.Compile(p); err != nil {
			return nil, usageError{err}
		}
	}
	return regexp.Compile("^(?:(?:" + strings.Join(patterns, ")|(?:") + "))$")
}

// result is a broker's answer about one topic. An error that is worded already
// says what was refused.
type result struct {
	err     error
	message string
	worded  bool
}

func answered(code int16, message *string) result {
	r := result{err: kerr.ErrorForCode(code)}
	if message != nil {
		r.message = *message
	}
	return r
}

// each runs a request r about several topics and reports on each.
func (t *topics) each(c *cobra.Command, r kmsg.Request, verb, done string, args []string, run func(context.Context, *kgo.Client) (map[string]result, error)) error {
	k, err := t.open(c.Context())
	if err != nil {
		return err
	}
	defer k.Close()
	what := verb + " " + strings.Join(args, ", ")
	if err := needs(c.Context(), kadm.NewClient(k), r); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	results, err := run(c.Context(), k)
	if err != nil && len(results) == 0 {
		return fmt.Errorf("%s: %w", what, err)
	}
	var all []outcome
	var errs []error
	for _, name := range args {
		switch r, ok := results[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s %s: the broker did not say what became of it", verb, name))
		case r.err == nil:
			all = append(all, outcome{Topic: name, Status: done})
		case r.worded:
			errs = append(errs, r.err)
		default:
			errs = append(errs, refusal(verb, name, r.err, r.message))
		}
	}
	return t.report(c, all, errs)
}
