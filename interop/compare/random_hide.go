//go:build interop

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetsTopic holds what a broker thinks of its groups, in its own words.
const offsetsTopic = "__consumer_offsets"

// brokerOwn are topics that a broker makes for itself.
func brokerOwn(name string) bool {
	return name == "__transaction_state" || name == "__share_group_state"
}

// hide takes out of an answer what tells of the machine, the clock and the
// wording, and nothing else.
func (s *side) hide(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		r.Topics = slices.DeleteFunc(r.Topics, func(t kmsg.MetadataResponseTopic) bool { return t.Topic != nil && brokerOwn(*t.Topic) })
	case *kmsg.DescribeTopicPartitionsResponse:
		r.Topics = slices.DeleteFunc(r.Topics, func(t kmsg.DescribeTopicPartitionsResponseTopic) bool { return t.Topic != nil && brokerOwn(*t.Topic) })
	case *kmsg.ListConfigResourcesResponse:
		r.ConfigResources = slices.DeleteFunc(r.ConfigResources, func(c kmsg.ListConfigResourcesResponseConfigResource) bool { return brokerOwn(c.Name) })
	case *kmsg.DescribeLogDirsResponse:
		s.hideDirs(r)
	case *kmsg.DescribeConfigsResponse:
		for i := range r.Resources {
			hideConfigs(&r.Resources[i])
		}
	case *kmsg.ListOffsetsResponse:
		for _, t := range r.Topics {
			for i := range t.Partitions {
				if p := &t.Partitions[i]; t.Topic == offsetsTopic && p.Offset >= 0 {
					p.Offset, p.Timestamp = 1, 1
				}
			}
		}
	case *kmsg.GetTelemetrySubscriptionsResponse:
		// A client without an id is given a random one.
		s.ids[r.ClientInstanceID] = "client"
		// What a subscription is called by is the broker's affair.
		if r.SubscriptionID != 0 {
			r.SubscriptionID = 1
		}
	}
}

// hideDirs keeps which topics are where, and how large they are; but for the
// topic of offsets, which holds what a broker thinks of its groups.
// Which of two directories a partition is put into is left out too: where they
// hold as many, either is right.
func (s *side) hideDirs(r *kmsg.DescribeLogDirsResponse) {
	whole := map[string]kmsg.DescribeLogDirsResponseDirTopic{}
	for _, d := range r.Dirs {
		for _, t := range d.Topics {
			t.Partitions = append(whole[t.Topic].Partitions, t.Partitions...)
			whole[t.Topic] = t
		}
	}
	slices.SortFunc(r.Dirs, func(a, b kmsg.DescribeLogDirsResponseDir) int { return strings.Compare(a.Dir, b.Dir) })
	for i := range r.Dirs {
		r.Dirs[i].Topics = nil
	}
	if len(r.Dirs) > 0 && len(whole) > 0 {
		r.Dirs[0].Topics = slices.Collect(maps.Values(whole))
	}
	for i := range r.Dirs {
		d := &r.Dirs[i]
		if d.TotalBytes > 0 {
			d.TotalBytes = 1
		}
		if d.UsableBytes > 0 {
			d.UsableBytes = 1
		}
		d.Topics = slices.DeleteFunc(d.Topics, func(t kmsg.DescribeLogDirsResponseDirTopic) bool { return brokerOwn(t.Topic) })
		for j := range d.Topics {
			for k := range d.Topics[j].Partitions {
				if d.Topics[j].Topic == offsetsTopic {
					d.Topics[j].Partitions[k].Size = 1
				}
			}
		}
	}
}

// installed are keys whose values the two brokers were started with.
var installed = []string{
	"listeners", "advertised.listeners", "listener.security.protocol.map", "log.dirs", "log.dir", "metadata.log.dir", "process.roles",
	"node.id", "broker.id", "controller.quorum.voters", "controller.quorum.bootstrap.servers", "controller.listener.names", "metric.reporters", "log.cleaner.enable",
	"log.retention.check.interval.ms", "log.initial.task.delay.ms", "group.consumer.assignor.offload.enable",
	"offsets.topic.replication.factor", "transaction.state.log.replication.factor", "transaction.state.log.min.isr",
	"share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr",
}

// others are keys that one of the two does not list, or has another default of.
var others = []string{
	"remote.log.manager.task.retry.backoff.max.ms", "remote.log.manager.task.retry.backoff.ms", "remote.log.manager.task.retry.jitter",
	"leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second",
	"sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol", "streams.assignor.name", "consumer.assignor.offload.enable",
}

// hideConfigs leaves out what the brokers were started with, and puts one word
// for every documentation.
func hideConfigs(r *kmsg.DescribeConfigsResponseResource) {
	r.Configs = slices.DeleteFunc(r.Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool {
		return strings.HasPrefix(c.Name, "barnabas.") || slices.Contains(installed, c.Name) || slices.Contains(others, c.Name) ||
			c.Name == "min.insync.replicas" && r.ResourceType == kmsg.ConfigResourceTypeBroker
	})
	if len(r.Configs) == 0 {
		r.Configs = nil
	}
	for i := range r.Configs {
		c := &r.Configs[i]
		if c.Documentation != nil {
			c.Documentation = ptr(fmt.Sprintf("some text: %t", *c.Documentation != ""))
		}
		if c.Name == "flush.messages" && r.ResourceName == barrierTopic {
			c.Value = ptr("<barrier>")
		}
	}
}
