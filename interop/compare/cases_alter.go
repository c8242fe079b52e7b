//go:build interop

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func alterCases() []testCase {
	return []testCase{
		{"Alter-topic", alterTopic},
		{"Alter-topic-legacy", alterTopicLegacy},
		{"Alter-resources", alterResources},
		{"Alter-broker", alterBroker},
		{"Alter-broker-refusals", alterBrokerRefusals},
		{"Alter-broker-legacy", alterBrokerLegacy},
		{"Alter-group", alterGroup},
		{"Alter-client-metrics", alterClientMetrics},
		{"Alter-loggers", alterLoggers},
		{"DescribeConfigs-keys", describedKeys},
		{"DescribeConfigs-resources", describedResources},
		{"ListConfigResources", listedResources},
	}
}

const (
	topicKind   = kmsg.ConfigResourceTypeTopic
	brokerKind  = kmsg.ConfigResourceTypeBroker
	loggerKind  = kmsg.ConfigResourceTypeBrokerLogger
	metricsKind = kmsg.ConfigResourceTypeClientMetrics
	groupKind   = kmsg.ConfigResourceTypeGroupConfig
)

// alterOp is one operation: how is SET, DELETE, APPEND or SUBTRACT, or another
// letter for a kind that there is not; "null" stands for no value.
type alterOp struct{ how, name, value string }

func (o alterOp) kind() kmsg.IncrementalAlterConfigOp {
	return kmsg.IncrementalAlterConfigOp(strings.Index("SDAU", o.how))
}

func pointer(value string) *string {
	if value == "null" {
		return nil
	}
	return &value
}

// alteration is what is asked of one resource.
type alteration struct {
	kind kmsg.ConfigResourceType
	name string
	ops  []alterOp
}

func incremental(validate bool, of ...alteration) *kmsg.IncrementalAlterConfigsRequest {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Version, r.ValidateOnly = 1, validate
	for _, a := range of {
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = a.kind, a.name
		for _, o := range a.ops {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Op, c.Value = o.name, o.kind(), pointer(o.value)
			if o.how == "9" {
				c.Op = 9
			}
			res.Configs = append(res.Configs, c)
		}
		r.Resources = append(r.Resources, res)
	}
	return r
}

func legacy(validate bool, of ...alteration) *kmsg.AlterConfigsRequest {
	r := kmsg.NewPtrAlterConfigsRequest()
	r.Version, r.ValidateOnly = 2, validate
	for _, a := range of {
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = a.kind, a.name
		for _, o := range a.ops {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name, c.Value = o.name, pointer(o.value)
			res.Configs = append(res.Configs, c)
		}
		r.Resources = append(r.Resources, res)
	}
	return r
}

func describeConfigs(version int16, kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Version, r.IncludeSynonyms = version, true
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kind, name, keys
	r.Resources = append(r.Resources, res)
	return r
}

func set(name, value string) alterOp { return alterOp{"S", name, value} }
func unset(name string) alterOp      { return alterOp{"D", name, "null"} }

// alter asks for one resource.
func (s *session) alter(label string, kind kmsg.ConfigResourceType, name string, ops ...alterOp) {
	s.ask(label, incremental(false, alteration{kind, name, ops}))
}

// shown waits until the broker shows what was changed before: it shows changes
// in their order, and here is one that can be told from all others.
func (s *session) shown() {
	s.altered = false
	s.counts["settled"]++
	mark := fmt.Sprint(20000 + s.counts["settled"])
	s.do(incremental(false, alteration{brokerKind, "", []alterOp{set("log.cleaner.backoff.ms", mark)}}))
	for deadline := time.Now().Add(10 * time.Second); ; {
		r := s.do(describeConfigs(4, brokerKind, "", "log.cleaner.backoff.ms")).(*kmsg.DescribeConfigsResponse)
		if of := r.Resources[0].Configs; len(of) == 1 && *of[0].Value == mark {
			return
		}
		if time.Now().After(deadline) {
			s.fail("a setting is not shown")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func alterTopic(s *session) {
	s.sorted = true
	s.create("at", 1)
	t := s.topic("at")
	show := func(label string, keys ...string) { s.ask(label, describeConfigs(4, topicKind, t, keys...)) }
	s.alter("append", topicKind, t, alterOp{"A", "cleanup.policy", "compact"})
	show("appended", "cleanup.policy")
	s.alter("append again", topicKind, t, alterOp{"A", "cleanup.policy", "compact"})
	s.alter("append two", topicKind, t, alterOp{"A", "cleanup.policy", "compact,delete"})
	show("the same", "cleanup.policy")
	s.alter("subtract", topicKind, t, alterOp{"U", "cleanup.policy", "delete"})
	show("subtracted", "cleanup.policy")
	s.alter("subtract what is not there", topicKind, t, alterOp{"U", "cleanup.policy", "delete"})
	s.alter("subtract all", topicKind, t, alterOp{"U", "cleanup.policy", "compact"})
	show("nothing left", "cleanup.policy")
	s.alter("append to a number", topicKind, t, alterOp{"A", "retention.ms", "5"})
	s.alter("subtract from a number", topicKind, t, alterOp{"U", "retention.ms", "5"})
	s.alter("append to an unknown key", topicKind, t, alterOp{"A", "nosuch", "5"})
	s.alter("one key twice", topicKind, t, set("retention.ms", "5"), set("retention.ms", "6"))
	s.alter("set and delete", topicKind, t, set("retention.ms", "5"), unset("retention.ms"))
	s.alter("null", topicKind, t, set("retention.ms", "null"), set("segment.ms", "null"))
	s.alter("append null", topicKind, t, alterOp{"A", "cleanup.policy", "null"})
	s.alter("delete what is not set", topicKind, t, unset("segment.ms"))
	s.alter("delete with a value", topicKind, t, alterOp{"D", "segment.ms", "9"})
	s.alter("delete an unknown key", topicKind, t, unset("nosuch"))
	s.alter("unknown key", topicKind, t, set("nosuch", "1"))
	s.alter("a broker's key", topicKind, t, set("log.retention.ms", "1"))
	s.alter("not a number", topicKind, t, set("retention.ms", "abc"))
	s.alter("too small", topicKind, t, set("min.insync.replicas", "0"))
	s.alter("one good, one bad", topicKind, t, set("segment.ms", "7777"), set("retention.bytes", "x"))
	show("none was taken", "segment.ms", "retention.bytes")
	s.alter("conflict", topicKind, t, set("min.compaction.lag.ms", "10"), set("max.compaction.lag.ms", "5"))
	s.alter("nothing", topicKind, t)
	s.alter("blanks", topicKind, t, set("retention.ms", " 8888 "))
	show("blanks", "retention.ms")
	s.ask("validate only", incremental(true, alteration{topicKind, t, []alterOp{set("retention.ms", "1234")}}))
	s.ask("validate only, bad", incremental(true, alteration{topicKind, t, []alterOp{set("retention.ms", "x")}}))
	show("still", "retention.ms")
	s.alter("too long", topicKind, t, set("leader.replication.throttled.replicas", strings.Repeat("1:1,", 9000)+"1:1"))
	s.alter("unknown topic", topicKind, s.topic("nosuch"), set("retention.ms", "5"))
	s.alter("unknown topic and key", topicKind, s.topic("nosuch"), set("nosuch", "5"))
	s.alter("no name", topicKind, "", set("retention.ms", "5"))
	s.alter("bad name", topicKind, "a b", set("retention.ms", "5"))
}

func alterTopicLegacy(s *session) {
	s.sorted = true
	s.create("al", 1, "segment.ms", "60000")
	t := s.topic("al")
	show := func(label string) { s.ask(label, describeConfigs(4, topicKind, t, "retention.ms", "segment.ms")) }
	ask := func(label string, ops ...alterOp) { s.ask(label, legacy(false, alteration{topicKind, t, ops})) }
	ask("one key", set("retention.ms", "5000"))
	show("the other is gone")
	ask("bad value", set("retention.ms", "x"))
	ask("unknown key", set("nosuch", "x"))
	ask("null", set("retention.ms", "null"))
	ask("twice", set("retention.ms", "5"), set("retention.ms", "6"))
	show("unchanged")
	s.ask("validate only", legacy(true, alteration{topicKind, t, nil}))
	show("unchanged still")
	ask("nothing")
	show("all gone")
	s.ask("unknown topic", legacy(false, alteration{topicKind, s.topic("nosuch"), nil}))
	s.hangUp() // Apache Kafka never answers the next
	s.ask("twice a topic", legacy(false, alteration{topicKind, t, nil}, alteration{topicKind, t, []alterOp{set("retention.ms", "1")}}))
	s.ask("a type that is none", legacy(false, alteration{3, t, nil}))
	s.ask("loggers", legacy(false, alteration{loggerKind, s.node(), []alterOp{set("root", "INFO")}}))
	for v := int16(0); v <= 2; v++ {
		r := legacy(false, alteration{topicKind, t, []alterOp{set("retention.ms", "5000")}})
		r.Version = v
		s.ask("version", r)
	}
}

func alterResources(s *session) {
	s.sorted = true
	s.create("ar", 1)
	s.create("as", 1)
	one := alteration{topicKind, s.topic("ar"), []alterOp{set("retention.ms", "5000")}}
	two := alteration{topicKind, s.topic("as"), []alterOp{set("retention.ms", "x")}}
	s.ask("good and bad", incremental(false, one, two))
	s.ask("twice", incremental(false, one, one))
	s.ask("three times and another", incremental(false, one, alteration{topicKind, s.topic("as"), nil}, one, one))
	s.ask("a type that is none", incremental(false, alteration{3, "x", nil}, one))
	s.ask("type 0", incremental(false, alteration{0, "x", nil}))
	s.ask("a kind that is none", incremental(false, alteration{topicKind, s.topic("ar"), []alterOp{{"9", "retention.ms", "1"}}}))
	s.ask("a kind that is none, of a broker", incremental(false, alteration{brokerKind, s.node(), []alterOp{{"9", "log.retention.ms", "1"}}}))
	s.ask("no resources", incremental(false))
	r := incremental(false, one)
	r.Version = 0
	s.ask("version 0", r)
}

// node is the broker's own id.
func (s *session) node() string {
	r := s.do(metadata(9, false)).(*kmsg.MetadataResponse)
	if len(r.Brokers) != 1 {
		s.fail("%d brokers", len(r.Brokers))
	}
	return string(rune('0' + r.Brokers[0].NodeID))
}

func alterBroker(s *session) {
	s.sorted = true
	s.create("ab", 1)
	n := s.node()
	s.dropDynamic(n)
	defer s.dropDynamic(n)
	show := func(label string, keys ...string) {
		s.ask(label+", broker", describeConfigs(4, brokerKind, n, keys...))
		s.ask(label+", all brokers", describeConfigs(4, brokerKind, "", keys...))
	}
	s.alter("of all", brokerKind, "", set("log.segment.ms", "1"), set("log.retention.ms", "70000"))
	s.alter("of all", brokerKind, "", set("log.retention.ms", "70000"))
	show("of all", "log.retention.ms")
	s.alter("of one", brokerKind, n, set("log.retention.ms", "60000"))
	show("of one", "log.retention.ms", "log.retention.hours")
	s.ask("the topic", describeConfigs(4, topicKind, s.topic("ab"), "retention.ms", "segment.bytes", "max.message.bytes", "compression.type"))
	s.alter("hours", brokerKind, n, set("log.retention.hours", "1"))
	s.alter("more of one", brokerKind, n, set("message.max.bytes", "2000000"), set("compression.type", "lz4"))
	show("more", "message.max.bytes", "compression.type", "log.retention.ms")
	s.ask("the topic", describeConfigs(4, topicKind, s.topic("ab"), "retention.ms", "max.message.bytes", "compression.type"))
	s.alter("back to all", brokerKind, n, unset("log.retention.ms"))
	show("back to all", "log.retention.ms")
	s.alter("of nobody", brokerKind, "", unset("log.retention.ms"))
	show("of nobody", "log.retention.ms")
	s.alter("delete what is not set", brokerKind, "", unset("log.retention.ms"))
	s.alter("delete an unknown key", brokerKind, n, unset("nosuch"))
	s.alter("append", brokerKind, n, alterOp{"A", "log.cleanup.policy", "compact"})
	show("append", "log.cleanup.policy")
	s.alter("subtract", brokerKind, n, alterOp{"U", "log.cleanup.policy", "delete"})
	show("subtract", "log.cleanup.policy")
	s.alter("unknown key", brokerKind, n, set("nosuch", "x"))
	show("unknown key", "nosuch")
	s.alter("unknown key of all", brokerKind, "", set("nosuch", "x"))
	show("unknown key of all", "nosuch")
	s.alter("min.insync.replicas of all", brokerKind, "", set("min.insync.replicas", "1"))
	s.alter("min.insync.replicas of one", brokerKind, n, set("min.insync.replicas", "1"))
	s.alter("min.insync.replicas of one, gone", brokerKind, n, unset("min.insync.replicas"))
	s.alter("min.insync.replicas of all, gone", brokerKind, "", unset("min.insync.replicas"))
	s.alter("blanks", brokerKind, n, set("log.retention.ms", " 50000 "))
	show("blanks", "log.retention.ms")
	s.ask("validate only", incremental(true, alteration{brokerKind, n, []alterOp{set("log.retention.ms", "1234")}}))
	show("still", "log.retention.ms")
}

// dropDynamic gives a broker back what its file says; min.insync.replicas stays.
func (s *session) dropDynamic(n string) {
	for _, name := range []string{n, ""} {
		var ops []alterOp
		for _, key := range []string{"log.retention.ms", "message.max.bytes", "compression.type", "log.cleanup.policy", "nosuch", "max.connections"} {
			ops = append(ops, unset(key))
		}
		s.do(incremental(false, alteration{brokerKind, name, ops}))
	}
}

func alterBrokerRefusals(s *session) {
	s.sorted = true
	n := s.node()
	s.dropDynamic(n)
	defer s.dropDynamic(n)
	for _, c := range []struct {
		label, name string
		ops         []alterOp
	}{
		{"read-only", n, []alterOp{set("node.id", "5")}},
		{"two read-only", n, []alterOp{set("log.dirs", "/tmp"), set("broker.rack", "r")}},
		{"read-only of all", "", []alterOp{set("num.partitions", "5")}},
		{"delete read-only", n, []alterOp{unset("num.partitions")}},
		{"per broker, of all", "", []alterOp{set("listeners", "PLAINTEXT://:9092")}},
		{"security without a listener", n, []alterOp{set("ssl.keystore.location", "/x")}},
		{"security without a listener, of all", "", []alterOp{set("ssl.keystore.location", "/x")}},
		{"security of a listener, of all", "", []alterOp{set("listener.name.external.ssl.keystore.location", "/x")}},
		{"not a number", n, []alterOp{set("log.retention.ms", "abc")}},
		{"not a boolean", n, []alterOp{set("unclean.leader.election.enable", "maybe")}},
		{"out of range", n, []alterOp{set("log.segment.bytes", "1")}},
		{"not in the list", n, []alterOp{set("compression.type", "none")}},
		{"bad list", n, []alterOp{set("log.cleanup.policy", "sweep")}},
		{"bad overrides", n, []alterOp{set("max.connections.per.ip.overrides", "nohost")}},
		{"zero", n, []alterOp{set("max.connections", "0")}},
		{"below zero", n, []alterOp{set("max.connections", "-1")}},
		{"retention 0", n, []alterOp{set("log.retention.ms", "0")}},
		{"threads to 0", n, []alterOp{set("num.io.threads", "0")}},
		{"threads below half", n, []alterOp{set("num.io.threads", "3")}},
		{"threads above double", n, []alterOp{set("num.io.threads", "17")}},
		{"network threads above double", n, []alterOp{set("num.network.threads", "7")}},
		{"recovery threads above double", n, []alterOp{set("num.recovery.threads.per.data.dir", "5")}},
		{"bounds of groups", n, []alterOp{set("group.consumer.assignment.interval.ms", "99999999")}},
		{"append to a number", n, []alterOp{{"A", "log.retention.ms", "5"}}},
		{"append to an unknown key", n, []alterOp{{"A", "nosuch", "5"}}},
		{"subtract from an unknown key", n, []alterOp{{"U", "nosuch", "5"}}},
		{"null", n, []alterOp{set("log.retention.ms", "null")}},
		{"twice", n, []alterOp{set("log.retention.ms", "5"), set("log.retention.ms", "6")}},
		{"good and bad", n, []alterOp{set("log.retention.ms", "5000"), set("message.max.bytes", "x")}},
		{"another broker", "77", []alterOp{set("log.retention.ms", "5")}},
		{"another broker, nothing asked", "77", nil},
		{"not a number for a name", "one", []alterOp{set("log.retention.ms", "5")}},
		{"below zero for a name", "-1", []alterOp{set("log.retention.ms", "5")}},
		{"zeros before the name", "00" + n, []alterOp{set("message.max.bytes", "1000000")}},
		{"too long", n, []alterOp{set("max.connections.per.ip.overrides", strings.Repeat("127.0.0.1:1,", 2800)+"127.0.0.1:1")}},
		{"compaction lags", n, []alterOp{set("log.cleaner.min.compaction.lag.ms", "10"), set("log.cleaner.max.compaction.lag.ms", "5")}},
		{"nothing", n, nil},
		{"nothing of all", "", nil},
	} {
		s.alter(c.label, brokerKind, c.name, c.ops...)
	}
	s.ask("nothing was taken", describeConfigs(4, brokerKind, n, "log.retention.ms", "message.max.bytes"))
}

func alterBrokerLegacy(s *session) {
	s.sorted = true
	n := s.node()
	s.dropDynamic(n)
	defer s.dropDynamic(n)
	show := func(label string) {
		s.ask(label, describeConfigs(4, brokerKind, n, "log.retention.ms", "message.max.bytes"))
	}
	ask := func(label, name string, ops ...alterOp) {
		s.ask(label, legacy(false, alteration{brokerKind, name, ops}))
	}
	ask("two", n, set("log.retention.ms", "60000"), set("message.max.bytes", "2000000"))
	show("two")
	ask("one", n, set("log.retention.ms", "70000"))
	show("one")
	ask("read-only", n, set("node.id", "4"))
	ask("bad", n, set("log.retention.ms", "x"))
	ask("null", n, set("log.retention.ms", "null"))
	ask("another broker", "77")
	ask("nothing", n)
	show("nothing")
	ask("per broker, of all", "", set("listeners", "PLAINTEXT://:9092"))
}

func alterGroup(s *session) {
	s.sorted = true
	g := s.topic("ag")
	show := func(label string) {
		s.ask(label, describeConfigs(4, groupKind, g, "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "share.auto.offset.reset"))
	}
	show("before")
	s.alter("set", groupKind, g, set("consumer.session.timeout.ms", "50000"))
	show("set")
	s.alter("out of the broker's range", groupKind, g, set("consumer.session.timeout.ms", "5"))
	s.alter("unknown", groupKind, g, set("nosuch", "5"))
	s.alter("bad", groupKind, g, set("consumer.session.timeout.ms", "x"))
	s.alter("null", groupKind, g, set("consumer.session.timeout.ms", "null"))
	s.alter("append to a number", groupKind, g, alterOp{"A", "consumer.session.timeout.ms", "5"})
	s.alter("enumeration", groupKind, g, set("share.auto.offset.reset", "sometimes"))
	s.ask("legacy", legacy(false, alteration{groupKind, g, []alterOp{set("consumer.heartbeat.interval.ms", "6000")}}))
	show("legacy")
	s.alter("delete", groupKind, g, unset("consumer.heartbeat.interval.ms"))
	show("deleted")
	s.alter("no name", groupKind, "", set("consumer.session.timeout.ms", "50000"))
	s.ask("describe no name", describeConfigs(4, groupKind, ""))
}

func alterClientMetrics(s *session) {
	s.sorted = true
	m := s.topic("am")
	show := func(label string) { s.ask(label, describeConfigs(4, metricsKind, m)) }
	show("before")
	s.alter("set", metricsKind, m, set("metrics", "org.apache.kafka."), set("interval.ms", "1000"))
	show("set")
	s.ask("one key", describeConfigs(4, metricsKind, m, "interval.ms", "nosuch"))
	s.alter("append", metricsKind, m, alterOp{"A", "metrics", "one.more"}, alterOp{"A", "match", "client_id=a.*"})
	show("append")
	s.alter("subtract", metricsKind, m, alterOp{"U", "metrics", "one.more"})
	s.alter("least", metricsKind, m, set("interval.ms", "100"))
	s.alter("below", metricsKind, m, set("interval.ms", "99"))
	s.alter("most", metricsKind, m, set("interval.ms", "3600000"))
	s.alter("above", metricsKind, m, set("interval.ms", "3600001"))
	s.alter("not a number", metricsKind, m, set("interval.ms", "x"))
	s.alter("append to a number", metricsKind, m, alterOp{"A", "interval.ms", "5"})
	s.alter("unknown", metricsKind, m, set("nosuch", "5"))
	s.alter("no name", metricsKind, "", set("interval.ms", "100"))
	s.ask("describe no name", describeConfigs(4, metricsKind, ""))
	for _, match := range []string{
		"", "client_id=.*", "client_id", "client_id=", "=x", "nosuch=x", "client_id=[", "client_id=a=b", " client_id = b ", "client_id=a,client_id=b",
		"client_software_name=apache-kafka-.*,client_software_version=3.5.*", "client_source_address=127.0.0.1,client_source_port=10",
		"client_instance_id=x", "client_id=(?<name>a)", "client_id=a{1,2}", "client_id=a,,",
	} {
		s.alter("match "+match, metricsKind, m, set("match", match))
	}
	for _, metrics := range []string{"", "*", "a,b", "a,a", "a,,b", ",", " a , b "} {
		s.alter("metrics "+metrics, metricsKind, m, set("metrics", metrics))
	}
	show("after all")
	s.ask("validate only", incremental(true, alteration{metricsKind, m, []alterOp{set("interval.ms", "5000")}}))
	s.ask("legacy", legacy(false, alteration{metricsKind, m, []alterOp{set("interval.ms", "700")}}))
	show("legacy")
	s.alter("delete", metricsKind, m, unset("interval.ms"))
	show("deleted")
}

func alterLoggers(s *session) {
	s.sorted = true
	n := s.node()
	defer s.do(incremental(false, alteration{loggerKind, n, []alterOp{set("root", "INFO")}}))
	show := func(label string) { s.ask(label, describeConfigs(4, loggerKind, n, "root", "nosuch")) }
	show("before")
	for _, level := range []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF", "info", ""} {
		s.alter("level "+level, loggerKind, n, set("root", level))
		show("level " + level)
	}
	s.alter("null", loggerKind, n, set("root", "null"))
	s.alter("delete the root", loggerKind, n, unset("root"))
	s.alter("append", loggerKind, n, alterOp{"A", "root", "INFO"})
	s.alter("subtract", loggerKind, n, alterOp{"U", "root", "INFO"})
	s.alter("operation 9", loggerKind, n, alterOp{"9", "root", "INFO"})
	s.alter("no such logger", loggerKind, n, set("nosuch", "INFO"))
	s.alter("delete no such logger", loggerKind, n, unset("nosuch"))
	s.alter("good and bad", loggerKind, n, set("root", "ERROR"), set("nosuch", "INFO"))
	show("good and bad")
	s.ask("validate only", incremental(true, alteration{loggerKind, n, []alterOp{set("root", "TRACE")}}))
	show("unchanged")
	for _, name := range []string{"", "77", "one"} {
		s.alter("of broker "+name, loggerKind, name, set("root", "INFO"))
		s.ask("describe broker "+name, describeConfigs(4, loggerKind, name, "root"))
	}
	for v := int16(1); v <= 4; v++ {
		s.ask("version", describeConfigs(v, loggerKind, n, "root"))
	}
}
