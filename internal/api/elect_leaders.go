package api

// ElectLeaders, key 43, versions 0-2 (KIP-183): the preferred replica leads, if
// it can, or anybody who is there, at the price of what only others have.
//
//	v1   the kind of election (KIP-460); before, the preferred replica
//
// Without topics every partition is meant, and those are not named that need no
// election.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) electLeaders(ctx context.Context, r *server.Request, req *kmsg.ElectLeadersRequest, resp *kmsg.ElectLeadersResponse) error {
	if req.Topics != nil && len(req.Topics) == 0 {
		return nil
	}
	how := plan.Preferred
	var refused error
	switch {
	case !a.allow(r, acl.Alter, acl.Cluster, acl.ClusterName):
		refused = kerr.ClusterAuthorizationFailed
	case req.TimeoutMillis <= 0:
		refused = kerr.RequestTimedOut
	case req.ElectionType == 1:
		how = plan.Unclean
	case req.ElectionType != 0:
		refused = refusal(kerr.InvalidRequest, fmt.Sprintf("Unknown election type %d", req.ElectionType))
	}
	resp.ErrorCode = a.code(refused)
	all := req.Topics == nil
	asked := req.Topics
	if all && refused == nil {
		asked = a.everyPartition()
	}
	errs := make([][]error, len(asked))
	if refused == nil {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(req.TimeoutMillis)*time.Millisecond)
		defer cancel()
		errs = a.elect(ctx, asked, how)
	}
	var text sentences
	for i := range asked {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = asked[i].Topic
		for j, n := range asked[i].Partitions {
			err := refused
			if err == nil {
				err = errs[i][j]
			}
			if all && errors.Is(err, kerr.ElectionNotNeeded) {
				continue
			}
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = n, a.code(err), text.of(err)
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return nil
}

func (a *API) everyPartition() []kmsg.ElectLeadersRequestTopic {
	var out []kmsg.ElectLeadersRequestTopic
	for t := range a.Image().Topics() {
		one := kmsg.NewElectLeadersRequestTopic()
		one.Topic = t.Name
		for _, p := range t.Partitions {
			one.Partitions = append(one.Partitions, p.Partition)
		}
		out = append(out, one)
	}
	return out
}

// elect holds the elections, and tells of each how it went.
func (a *API) elect(ctx context.Context, topics []kmsg.ElectLeadersRequestTopic, how plan.Election) [][]error {
	var wishes []kafka.TopicPartition
	errs := make([][]error, len(topics))
	for i := range topics {
		t := &topics[i]
		errs[i] = make([]error, len(t.Partitions))
		if _, there := a.Image().Topic(t.Topic); !there {
			fill(errs[i], refusal(kerr.UnknownTopicOrPartition, "No such topic as "+t.Topic))
			continue
		}
		for _, n := range t.Partitions {
			wishes = append(wishes, kafka.TopicPartition{Topic: t.Topic, Partition: n})
		}
	}
	held := timedOut(a.Cluster.ElectLeaders(ctx, wishes, how), "The leader may have been elected, or may yet be.")
	for i := range topics {
		if len(errs[i]) > 0 && errs[i][0] == nil {
			held = held[copy(errs[i], held):]
		}
	}
	return errs
}

// fill gives everyone the same error.
func fill(errs []error, err error) {
	for i := range errs {
		errs[i] = err
	}
}

// timedOut says in Kafka's words, and with a sentence, that a deadline passed.
func timedOut(errs []error, sentence string) []error {
	for i, err := range errs {
		if errors.Is(err, context.DeadlineExceeded) {
			errs[i] = refusal(kerr.RequestTimedOut, sentence)
		}
	}
	return errs
}

// sentences gives errors their messages, up to a MiB in one answer: what comes
// behind has its code alone. A request of few bytes can ask for a million
// refusals.
type sentences int

func (s *sentences) of(err error) *string {
	if err == nil || *s > 1<<20 {
		return nil
	}
	m := message(err)
	if m != nil {
		*s += sentences(len(*m))
	}
	return m
}
