//go:build interop

package main

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describedKeys shows what there is to be set: names, types, what can change.
func describedKeys(s *session) {
	s.create("dk", 1)
	s.dropDynamic(s.node())
	for _, of := range []struct {
		kind kmsg.ConfigResourceType
		name string
	}{{brokerKind, s.node()}, {topicKind, s.topic("dk")}, {groupKind, "dk"}, {metricsKind, "dk"}} {
		s.shown()
		r := describeConfigs(4, of.kind, of.name)
		r.IncludeDocumentation = true
		all := s.do(r).(*kmsg.DescribeConfigsResponse).Resources[0]
		slices.SortFunc(all.Configs, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(a.Name, b.Name) })
		for _, c := range all.Configs {
			s.note("%v %s: type %v, read-only %t, sensitive %t, value hidden %t, documented %t",
				of.kind, c.Name, c.ConfigType, c.ReadOnly, c.IsSensitive, c.IsSensitive && c.Value == nil, c.Documentation != nil && *c.Documentation != "")
		}
	}
}

func describedResources(s *session) {
	s.sorted = true
	s.create("dr", 1, "segment.ms", "60000")
	n, t := s.node(), s.topic("dr")
	for v := int16(1); v <= 4; v++ {
		s.ask("topic", describeConfigs(v, topicKind, t, "segment.ms", "retention.bytes", "leader.replication.throttled.replicas", "nosuch", "segment.ms"))
		s.ask("broker", describeConfigs(v, brokerKind, n, "auto.create.topics.enable", "default.replication.factor", "log.retention.bytes",
			"message.max.bytes", "offsets.retention.minutes", "ssl.keystore.password", "node.id", "log.flush.interval.ms", "log.roll.ms", "log.roll.hours"))
	}
	s.ask("another broker", describeConfigs(4, brokerKind, "77", "node.id"))
	s.ask("no number", describeConfigs(4, brokerKind, "one", "node.id"))
	s.ask("zeros before it", describeConfigs(4, brokerKind, "0"+n, "broker.rack"))
	s.ask("unknown topic", describeConfigs(4, topicKind, s.topic("nosuch")))
	s.ask("bad topic", describeConfigs(4, topicKind, "a b"))
	s.ask("no topic", describeConfigs(4, topicKind, ""))
	s.ask("unknown group", describeConfigs(4, groupKind, s.topic("nosuch"), "consumer.session.timeout.ms", "share.record.lock.duration.ms"))
	twice := describeConfigs(4, topicKind, t, "segment.ms")
	twice.Resources = append(twice.Resources, twice.Resources[0])
	s.ask("twice", twice)
	nothing := describeConfigs(4, topicKind, t)
	nothing.Resources = nil
	s.ask("nothing", nothing)
	for _, kind := range []kmsg.ConfigResourceType{0, 1, 3, 64, -1} {
		s.ask("a type that is none", describeConfigs(4, kind, "x"))
	}
}

func listedResources(s *session) {
	s.sorted = true
	g, m, n := s.topic("lg"), s.topic("lm"), s.node()
	s.create("lt", 1)
	s.dropDynamic(n)
	s.do(incremental(false,
		alteration{groupKind, g, []alterOp{set("consumer.session.timeout.ms", "50000")}},
		alteration{metricsKind, m, []alterOp{set("interval.ms", "1000")}}))
	list := func(label string, version int16, types ...int8) {
		r := kmsg.NewPtrListConfigResourcesRequest()
		r.Version, r.ResourceTypes = version, types
		s.shown()
		resp, err := s.c().Do(r)
		if err != nil {
			s.hangUp()
			s.note("%s: %s", label, answerError(err))
			return
		}
		a := resp.(*kmsg.ListConfigResourcesResponse)
		var of []string
		for _, c := range a.ConfigResources {
			if strings.Contains(c.Name, s.suffix) || c.Type == int8(brokerKind) || c.Type == int8(loggerKind) {
				of = append(of, kmsg.ConfigResourceType(c.Type).String()+" "+s.plain(c.Name))
			}
		}
		slices.Sort(of)
		s.note("%s v%d: %s %v", label, version, errName(a.ErrorCode), of)
	}
	list("client metrics", 0)
	list("everything", 1)
	for _, kind := range []int8{2, 4, 8, 16, 32} {
		list("one type", 1, kind)
	}
	list("two types", 1, 2, 32)
	list("a type twice", 1, 32, 32)
	list("an unknown type", 1, 3)
	list("type 0", 1, 0)
	list("a known and an unknown type", 1, 2, 64)
	s.alter("of the broker", brokerKind, n, set("log.retention.ms", "60000"))
	list("with a broker's", 1, 4)
	s.alter("of all", brokerKind, "", set("log.retention.ms", "60000"))
	list("with all brokers'", 1, 4)
	s.dropDynamic(n)
	s.alter("metrics go", metricsKind, m, unset("interval.ms"))
	s.alter("group goes", groupKind, g, unset("consumer.session.timeout.ms"))
	list("afterwards", 1)
}
