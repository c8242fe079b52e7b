package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

func topicCommand(cl *client) *cobra.Command {
	t := &topics{client: cl}
	c := &cobra.Command{Use: "topic", Short: "Create, list, describe, alter and delete topics", Example: "  barnabas topic list"}
	t.output.flag(c)
	c.AddCommand(t.createCommand(), t.listCommand(), t.describeCommand(), t.alterCommand(), t.deleteCommand(), t.addPartitionsCommand(), t.deleteRecordsCommand())
	return c
}

// topics are the commands on topics.
type topics struct {
	*client
	output output
}

// outcome is what happened to one topic.
type outcome struct {
	Topic      string    `json:"topic"`
	Status     string    `json:"status"`
	ID         string    `json:"id,omitempty"`
	Partitions int32     `json:"partitions,omitempty"`
	Replicas   int16     `json:"replicas,omitempty"`
	Configs    []setting `json:"configs,omitempty"`
}

// report prints the outcomes, and returns the errors in one.
func (t *topics) report(c *cobra.Command, all []outcome, errs []error) error {
	if t.output.draws(len(all)) {
		all = append([]outcome{}, all...) // an empty list is not null
		if err := t.output.print(c.OutOrStdout(), all, func(tab *table) {
			for _, o := range all {
				tab.row(o.Topic, o.Status)
			}
		}); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// refusal words a broker's refusal: its own message where it gave one.
func refusal(what, topic string, err error, message string) error {
	if err == nil {
		return nil
	}
	code := err.Error()
	var ke *kerr.Error
	if errors.As(err, &ke) {
		code = ke.Message
		if message == "" {
			message = strings.TrimSuffix(ke.Description, ".")
		}
	}
	hint := ""
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		hint = "; --if-not-exists accepts that"
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		hint = "; `barnabas topic list` shows what there is"
	}
	if message != "" && message != code {
		return worded{fmt.Sprintf("%s %s: %s (%s)%s", what, topic, message, code, hint), err}
	}
	return worded{fmt.Sprintf("%s %s: %s%s", what, topic, code, hint), err}
}

// brokerLists parses brokers as Apache Kafka's tools take them: those of a
// partition separated by colons, partitions by commas.
func brokerLists(s string) ([][]int32, error) {
	if s == "" {
		return nil, nil
	}
	var out [][]int32
	for part := range strings.SplitSeq(s, ",") {
		var brokers []int32
		for b := range strings.SplitSeq(part, ":") {
			id, err := strconv.ParseInt(strings.TrimSpace(b), 10, 32)
			if err != nil || id < 0 {
				return nil, usagef("--replica-assignment %s: %q is not the id of a broker; write 1:2,2:3 for two partitions with two replicas each", s, b)
			}
			brokers = append(brokers, int32(id))
		}
		out = append(out, brokers)
	}
	return out, nil
}

// confirm asks on a terminal whether to go on; elsewhere only --yes goes on.
func confirm(c *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if !terminal(c.InOrStdin()) {
		return usagef("%s: nobody is there to be asked; --yes does it", question)
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "%s? [y/N] ", question)
	answer, _ := bufio.NewReader(c.InOrStdin()).ReadString('\n') // the end of input is a no
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}

func (t *topics) listCommand() *cobra.Command {
	var internal bool
	c := &cobra.Command{
		Use:     "list [PATTERN]",
		Short:   "List topics, or those whose name matches a regular expression",
		Example: "  barnabas topic list\n  barnabas topic list '^ord' -o json\n  barnabas topic list --internal",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			match, err := regexp.Compile(strings.Join(args, ""))
			if err != nil {
				return usageError{err}
			}
			adm, err := t.admin(c.Context())
			if err != nil {
				return err
			}
			defer adm.Close()
			list := adm.ListTopics
			if internal {
				list = adm.ListTopicsWithInternal
			}
			found, err := list(c.Context())
			if err != nil {
				return err
			}
			return t.printList(c, found, match)
		},
		ValidArgsFunction: t.completeOneTopic,
	}
	c.Flags().BoolVarP(&internal, "internal", "i", false, "list the broker's own topics too")
	return c
}

func (t *topics) printList(c *cobra.Command, found kadm.TopicDetails, match *regexp.Regexp) error {
	type entry struct {
		Topic      string `json:"topic"`
		ID         string `json:"id"`
		Partitions int    `json:"partitions"`
		Replicas   int    `json:"replicas"`
		Internal   bool   `json:"internal,omitempty"`
	}
	all := []entry{}
	for _, d := range found.Sorted() {
		if match.MatchString(d.Topic) {
			all = append(all, entry{d.Topic, kafka.TopicID(d.ID).String(), len(d.Partitions), d.Partitions.NumReplicas(), d.IsInternal})
		}
	}
	return t.output.print(c.OutOrStdout(), all, func(tab *table) {
		tab.row("TOPIC", "PARTITIONS", "REPLICAS")
		for _, e := range all {
			tab.row(e.Topic, e.Partitions, e.Replicas)
		}
	})
}

// oneTopic asks about a topic that must be there.
func oneTopic(ctx context.Context, c *kgo.Client, verb, name string) (kadm.TopicDetail, error) {
	found, err := kadm.NewClient(c).ListTopicsWithInternal(ctx, name)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	d, ok := found[name]
	if !ok {
		return d, refusal(verb, name, kerr.UnknownTopicOrPartition, "")
	}
	return d, refusal(verb, name, d.Err, "")
}
