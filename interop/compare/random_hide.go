//go:build interop

package main

import (
	"fmt"
	"slices"

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
	}
}

// hideDirs keeps which topics are where, and how large they are; but for the
// topic of offsets, which holds what a broker thinks of its groups.
func (s *side) hideDirs(r *kmsg.DescribeLogDirsResponse) {
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

// hideConfigs puts one word for every documentation, and for the values that
// tell of the machine.
func hideConfigs(r *kmsg.DescribeConfigsResponseResource) {
	for i := range r.Configs {
		c := &r.Configs[i]
		if c.Documentation != nil {
			c.Documentation = ptr(fmt.Sprintf("some text: %t", *c.Documentation != ""))
		}
		switch c.Name {
		case "flush.messages":
			if r.ResourceName == barrierTopic {
				c.Value = ptr("<barrier>")
			}
		case "listeners", "advertised.listeners", "log.dirs", "log.dir", "metadata.log.dir", "controller.quorum.voters", "controller.listener.names", "listener.security.protocol.map":
			c.Value = hidden(c.Value)
			for j := range c.ConfigSynonyms {
				c.ConfigSynonyms[j].Value = hidden(c.ConfigSynonyms[j].Value)
			}
		}
	}
}

func hidden(value *string) *string {
	if value == nil {
		return nil
	}
	return ptr("<hidden>")
}
