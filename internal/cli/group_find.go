package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// findGroups describes groups of either protocol: first as consumer groups,
// and those that are none as classic ones. Each name is found or has an error.
func findGroups(ctx context.Context, k *kgo.Client, names []string) (map[string]describedGroup, []error) {
	found := map[string]describedGroup{}
	if len(names) == 0 {
		return found, nil
	}
	adm := kadm.NewClient(k)
	ok, err := answers(ctx, adm, kmsg.NewPtrConsumerGroupDescribeRequest())
	if err != nil {
		return found, []error{err}
	}
	var errs []error
	classic := names
	if ok {
		classic, errs = findConsumerGroups(ctx, k, names, found)
	}
	if len(classic) == 0 {
		return found, errs
	}
	if err := needs(ctx, adm, kmsg.NewPtrDescribeGroupsRequest()); err != nil {
		return found, append(errs, err)
	}
	all, err := adm.DescribeGroups(ctx, classic...)
	for _, name := range classic {
		switch d, there := all[name]; {
		case !there:
			errs = append(errs, groupRefusal("describe", name, cmp.Or(err, errNoAnswer), ""))
		case d.Err == nil && d.State == "Dead": // so says DescribeGroups before version 6
			errs = append(errs, groupRefusal("describe", name, kerr.GroupIDNotFound, ""))
		case d.Err == nil:
			found[name] = classicGroup(d)
		default:
			errs = append(errs, groupRefusal("describe", name, d.Err, d.ErrMessage))
		}
	}
	return found, errs
}

var errNoAnswer = errors.New("the brokers did not answer for it")

// findConsumerGroups adds those that are consumer groups to found, and returns
// the names of those that are not. kadm would lose topics that a broker names by id.
func findConsumerGroups(ctx context.Context, k *kgo.Client, names []string, found map[string]describedGroup) (others []string, errs []error) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = names
	failed := map[string]error{}
	topics := topicNames{k: k}
	for _, shard := range k.RequestSharded(ctx, req) {
		if shard.Err != nil {
			for _, name := range shard.Req.(*kmsg.ConsumerGroupDescribeRequest).Groups {
				failed[name] = shard.Err
			}
			continue
		}
		for _, d := range shard.Resp.(*kmsg.ConsumerGroupDescribeResponse).Groups {
			err := kerr.ErrorForCode(d.ErrorCode)
			switch {
			case err == nil:
				found[d.Group] = consumerGroup(ctx, d, at(shard.Meta), &topics)
			case errors.Is(err, kerr.GroupIDNotFound), errors.Is(err, kerr.UnsupportedVersion):
				others = append(others, d.Group)
			default:
				failed[d.Group] = groupRefusal("describe", d.Group, err, orEmpty(d.ErrorMessage))
			}
		}
	}
	for _, name := range names {
		if _, ok := found[name]; !ok && !slices.Contains(others, name) {
			errs = append(errs, cmp.Or(failed[name], groupRefusal("describe", name, errNoAnswer, "")))
		}
	}
	return others, errs
}

func consumerGroup(ctx context.Context, d kmsg.ConsumerGroupDescribeResponseGroup, at coordinator, topics *topicNames) describedGroup {
	out := describedGroup{Group: d.Group, State: d.State, Type: "consumer", ProtocolType: "consumer", Coordinator: at,
		Assignor: d.AssignorName, Epoch: &d.Epoch, AssignEpoch: &d.AssignmentEpoch, Members: []groupMember{}}
	for _, m := range d.Members {
		member := groupMember{
			ID: m.MemberID, Instance: orEmpty(m.InstanceID), Client: m.ClientID, Host: m.ClientHost, Rack: orEmpty(m.RackID), Epoch: &m.MemberEpoch,
			Topics: slices.Sorted(slices.Values(m.SubscribedTopics)), Regex: orEmpty(m.SubscribedTopicRegex),
			Assigned: map[string][]int32{}, Target: map[string][]int32{},
		}
		for _, t := range m.Assignment.TopicPartitions {
			member.Assigned[topics.name(ctx, t.Topic, t.TopicID)] = slices.Sorted(slices.Values(t.Partitions))
		}
		for _, t := range m.TargetAssignment.TopicPartitions {
			member.Target[topics.name(ctx, t.Topic, t.TopicID)] = slices.Sorted(slices.Values(t.Partitions))
		}
		out.Members = append(out.Members, member)
	}
	byMember(out.Members)
	return out
}

// topicNames finds names of topics by their ids, which it asks for once.
type topicNames struct {
	k     *kgo.Client
	names map[kafka.TopicID]string
}

// name is the name, or where there is none the id.
func (t *topicNames) name(ctx context.Context, name string, id kafka.TopicID) string {
	if name != "" {
		return name
	}
	if t.names == nil {
		t.names = map[kafka.TopicID]string{}
		all, _ := kadm.NewClient(t.k).ListTopicsWithInternal(ctx) // without an answer there are ids
		for _, d := range all {
			t.names[kafka.TopicID(d.ID)] = d.Topic
		}
	}
	return cmp.Or(t.names[id], id.String())
}

func classicGroup(d kadm.DescribedGroup) describedGroup {
	out := describedGroup{Group: d.Group, State: d.State, Type: "classic", ProtocolType: d.ProtocolType, Coordinator: at(d.Coordinator),
		Assignor: d.Protocol, Members: []groupMember{}}
	for _, m := range d.Members {
		member := groupMember{ID: m.MemberID, Instance: orEmpty(m.InstanceID), Client: m.ClientID, Host: m.ClientHost, Topics: []string{}, Assigned: map[string][]int32{}}
		if join, ok := m.Join.AsConsumer(); ok {
			member.Topics = slices.Sorted(slices.Values(join.Topics))
			member.Rack = orEmpty(join.Rack)
		}
		if got, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range got.Topics {
				member.Assigned[t.Topic] = slices.Sorted(slices.Values(t.Partitions))
			}
		}
		out.Members = append(out.Members, member)
	}
	byMember(out.Members)
	return out
}

// byMember puts static members first, by instance id.
func byMember(all []groupMember) {
	slices.SortFunc(all, func(x, y groupMember) int {
		if (x.Instance == "") != (y.Instance == "") {
			return cmp.Compare(y.Instance, x.Instance)
		}
		return cmp.Or(cmp.Compare(x.Instance, y.Instance), cmp.Compare(x.ID, y.ID))
	})
}

func at(b kgo.BrokerMetadata) coordinator { return coordinator{b.NodeID, b.Host, b.Port} }

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
