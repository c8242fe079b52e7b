//go:build interop

package main

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// settings are keys of a kind of resource, and values that make sense there.
// Values at, below and above bounds, and nonsense, come for every key.
type settings map[string][]string

var topicSettings = settings{
	"cleanup.policy":                          {"delete", "compact", "delete,compact", "compact, delete", "", "delete,delete", "none"},
	"compression.type":                        {"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd", "none", "GZIP"},
	"compression.gzip.level":                  {"-1", "1", "9", "0", "10"},
	"compression.lz4.level":                   {"1", "17", "0", "18"},
	"compression.zstd.level":                  {"-131072", "22", "3", "-131073", "23"},
	"delete.retention.ms":                     {"0", "1", "86400000", "-1"},
	"file.delete.delay.ms":                    {"0", "60000", "-1"},
	"flush.messages":                          {"1", "9223372036854775807", "0"},
	"flush.ms":                                {"0", "1000", "-1"},
	"follower.replication.throttled.replicas": {"*", "", "0:1", "0:1,1:1", "a", "none"},
	"leader.replication.throttled.replicas":   {"*", "", "0:1", "0:1,1:1", "0:a", ":"},
	"index.interval.bytes":                    {"0", "4096", "-1"},
	"local.retention.bytes":                   {"-2", "-1", "0", "1000", "-3"},
	"local.retention.ms":                      {"-2", "-1", "0", "1000", "-3"},
	"max.compaction.lag.ms":                   {"1", "9223372036854775807", "0"},
	"max.message.bytes":                       {"0", "100", "1048588", "2147483647", "-1"},
	"message.timestamp.after.max.ms":          {"0", "3600000", "-1"},
	"message.timestamp.before.max.ms":         {"0", "9223372036854775807", "-1"},
	"message.timestamp.type":                  {"CreateTime", "LogAppendTime", "createtime"},
	"min.cleanable.dirty.ratio":               {"0", "0.5", "1", "-0.1", "1.1"},
	"min.compaction.lag.ms":                   {"0", "1000", "-1"},
	"min.insync.replicas":                     {"1", "2", "0"},
	"preallocate":                             {"false", "FALSE", "no"},
	"remote.storage.enable":                   {"false", "true"},
	"remote.copy.disable":                     {"false", "true"},
	"remote.log.copy.disable":                 {"false", "true"},
	"remote.log.delete.on.disable":            {"false", "true"},
	"retention.bytes":                         {"-1", "0", "1000000000", "-2"},
	"retention.ms":                            {"-1", "604800000", "0", "-2"},
	"segment.bytes":                           {"1048576", "1073741824", "1048575", "14"},
	"segment.index.bytes":                     {"10485760", "4096", "3"}, // below 12 Apache Kafka has no partition that can be made
	"segment.jitter.ms":                       {"0", "-1"},
	"segment.ms":                              {"604800000", "3600000", "0"},
	"unclean.leader.election.enable":          {"true", "false", "yes"},
	"errors.deadletterqueue.group.enable":     {"true", "false"},
	"message.format.version":                  {"3.0"},
	"message.downconversion.enable":           {"true"},
	"log.retention.ms":                        {"1000"},
	"no.such.key":                             {"x"},
	"":                                        {"", "1"},
}

// brokerSettings are those whose change does not hinder the test.
var brokerSettings = settings{
	"log.retention.ms":                               {"604800000", "-1", "0", "-2"},
	"log.retention.bytes":                            {"-1", "1000000000", "0"},
	"log.segment.bytes":                              {"1048576", "1073741824", "1048575"},
	"log.cleanup.policy":                             {"delete", "compact", "compact,delete", ""},
	"log.flush.interval.messages":                    {"1", "9223372036854775807", "0"},
	"log.index.interval.bytes":                       {"4096", "0", "-1"},
	"log.message.timestamp.type":                     {"CreateTime", "LogAppendTime", "x"},
	"log.cleaner.delete.retention.ms":                {"86400000", "-1"},
	"log.cleaner.min.cleanable.ratio":                {"0.5", "1.1"},
	"log.cleaner.threads":                            {"1", "2", "0", "100"},
	"log.cleaner.io.buffer.size":                     {"524288", "-1"},
	"compression.type":                               {"producer", "gzip", "x"},
	"compression.gzip.level":                         {"-1", "9", "0"},
	"min.insync.replicas":                            {"1", "0"},
	"unclean.leader.election.enable":                 {"true", "false", "x"},
	"num.io.threads":                                 {"8", "9", "3", "17", "0"},
	"num.network.threads":                            {"3", "0"},
	"num.replica.fetchers":                           {"1", "2", "0", "3"},
	"num.recovery.threads.per.data.dir":              {"2", "3", "0", "9"},
	"background.threads":                             {"10", "11", "4", "21"},
	"leader.replication.throttled.rate":              {"1000000", "0", "-1"},
	"follower.replication.throttled.rate":            {"1000000", "0", "-1"},
	"replica.alter.log.dirs.io.max.bytes.per.second": {"100000000", "0", "-1"},
	"producer.id.expiration.ms":                      {"86400000", "0"},
	"transaction.partition.verification.enable":      {"true", "false", "x"},
	"log.local.retention.ms":                         {"-2", "-1", "-3"},
	"remote.fetch.max.wait.ms":                       {"500", "0"},
	"message.max.bytes":                              {"1048588", "-1"},
	"group.max.size":                                 {"4"},
	"num.partitions":                                 {"2", "0"},
	"default.replication.factor":                     {"1"},
	"auto.create.topics.enable":                      {"true"},
	"node.id":                                        {"1", "2"},
	"broker.id":                                      {"1"},
	"log.dirs":                                       {"/nosuch"},
	"log.retention.hours":                            {"1"},
	"zookeeper.connect":                              {"x"},
	"no.such.key":                                    {"x", ""},
	"":                                               {"1"},
}

var groupSettings = settings{
	"consumer.session.timeout.ms":        {"45000", "60000", "44999", "60001", "0"},
	"consumer.heartbeat.interval.ms":     {"5000", "15000", "4999", "15001", "0"},
	"consumer.assignment.interval.ms":    {"0", "1000", "15001", "-1"},
	"consumer.assignor.offload.enable":   {"true", "false", "x"},
	"share.session.timeout.ms":           {"45000", "60000", "60001"},
	"share.heartbeat.interval.ms":        {"5000", "15001"},
	"share.record.lock.duration.ms":      {"30000", "15000", "60000", "14999", "60001"},
	"share.auto.offset.reset":            {"latest", "earliest", "by_duration:PT1H", "by_duration:-PT1H", "by_duration:x", "none", ""},
	"share.isolation.level":              {"read_committed", "read_uncommitted", "x"},
	"share.delivery.count.limit":         {"5", "1", "11", "2", "10"},
	"share.partition.max.record.locks":   {"2000", "99", "100", "10001"},
	"share.renew.acknowledge.enable":     {"true", "x"},
	"streams.session.timeout.ms":         {"45000", "60001"},
	"streams.heartbeat.interval.ms":      {"5000", "15001"},
	"streams.num.standby.replicas":       {"0", "2", "3", "-1"},
	"streams.initial.rebalance.delay.ms": {"3000", "-1"},
	"streams.assignor.name":              {"sticky", "x"},
	"errors.deadletterqueue.topic.name":  {"", "dlq", "a b"},
	"no.such.key":                        {"x"},
}

var metricsSettings = settings{
	"metrics":     {"*", "", "org.apache.kafka.consumer.", "a,b", "a,a"},
	"interval.ms": {"1000", "100", "99", "3600000", "3600001", "0"},
	"match":       {"client_id=.*", "client_id=a,client_source_port=1", "", "client_instance_id=x", "nosuch=x", "client_id", "client_id=[", "client_software_name=interop"},
	"no.such.key": {"x"},
}

var loggerSettings = settings{
	"kafka.server.KafkaApis": {"INFO", "DEBUG", "WARN", "ERROR", "FATAL", "TRACE", "info", "x", ""},
	"kafka.request.logger":   {"INFO", "WARN"},
	"org.apache.kafka":       {"INFO"},
	"root":                   {"INFO", "x"},
	"ROOT":                   {"INFO"},
	"no.such.logger":         {"INFO"},
}

// nonsense comes for every key.
var nonsense = []string{
	"", "0", "1", "-1", "-2", "2147483647", "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808",
	"abc", "true", "TRUE", " 5 ", "1.5", "1e3", "+5", "0x10", "1,2", "é", "5L",
}

// tooGood are values of nonsense that are no nonsense for a key, and would
// make the brokers do something in their own time, or hinder the test.
func tooGood(name, value string) bool {
	switch name {
	case "preallocate", "auto.create.topics.enable":
		return true
	case "segment.ms", "segment.jitter.ms", "num.io.threads", "num.network.threads", "background.threads", "message.max.bytes", "log.cleaner.threads",
		"follower.replication.throttled.rate", "leader.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second",
		"producer.id.expiration.ms", "log.flush.interval.messages", "log.cleaner.io.buffer.size", "num.recovery.threads.per.data.dir", "num.replica.fetchers":
		return strings.ContainsAny(value, "0123456789")
	}
	return false
}

func (g *gen) setting(of settings) (string, *string) {
	keys := make([]string, 0, len(of))
	for k := range of {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	name := pick(g, keys...)
	value := pick(g, of[name]...)
	if g.chance(25) {
		if v := pick(g, nonsense...); !tooGood(name, v) {
			value = v
		}
	}
	if g.chance(4) {
		return name, nil
	}
	return name, &value
}

// resource is a thing with configuration, and its keys.
func (g *gen) resource() (configResource, settings) {
	var c configResource
	var of settings
	switch n := g.IntN(100); {
	case n < 45:
		c, of = configResource{kmsg.ConfigResourceTypeTopic, g.ownTopic()}, topicSettings
	case n < 65:
		c, of = configResource{kmsg.ConfigResourceTypeBroker, pick(g, "", "1", "", "1", "", "1", "2", "abc", "-1", " 1")}, brokerSettings
	case n < 75:
		c, of = configResource{kmsg.ConfigResourceTypeGroupConfig, g.group()}, groupSettings
	case n < 85:
		c, of = configResource{kmsg.ConfigResourceTypeClientMetrics, pick(g, "m1", "m2", "m3", "", "a b", "ä")}, metricsSettings
	case n < 93:
		c, of = configResource{kmsg.ConfigResourceTypeBrokerLogger, pick(g, "1", "1", "1", "", "2", "x")}, loggerSettings
	default:
		c, of = configResource{pick[kmsg.ConfigResourceType](g, 0, 1, 3, 5, 64, 127, -1, -128), pick(g, "", "1", "alpha")}, topicSettings
	}
	g.resources = append(g.resources, c)
	return c, of
}

// kinds are those of which things have configuration.
var kinds = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
}

func (g *gen) describeConfigs() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Version, r.IncludeSynonyms, r.IncludeDocumentation = g.version(1, 4), g.chance(40), g.chance(15)
	for range g.few() {
		d := kmsg.NewDescribeConfigsRequestResource()
		c, of := g.resource()
		d.ResourceType, d.ResourceName = c.kind, c.name
		switch g.IntN(4) {
		case 0:
			d.ConfigNames = []string{}
		case 1, 2:
			for range 1 + g.IntN(3) {
				name, _ := g.setting(of)
				d.ConfigNames = append(d.ConfigNames, name)
			}
		}
		r.Resources = append(r.Resources, d)
	}
	return r
}

func (g *gen) alterConfigs() kmsg.Request {
	r := kmsg.NewPtrAlterConfigsRequest()
	r.Version, r.ValidateOnly = g.version(0, 2), g.chance(25)
	seen := map[configResource]bool{}
	for range g.few() {
		a := kmsg.NewAlterConfigsRequestResource()
		c, of := g.resource()
		same := c
		if !slices.Contains(kinds, c.kind) {
			same.kind = 0 // all the same to Apache Kafka
		}
		if seen[same] {
			continue // Apache Kafka never answers
		}
		seen[same] = true
		a.ResourceType, a.ResourceName = c.kind, c.name
		for range g.few() {
			x := kmsg.NewAlterConfigsRequestResourceConfig()
			x.Name, x.Value = g.setting(of)
			a.Configs = append(a.Configs, x)
		}
		r.Resources = append(r.Resources, a)
	}
	g.fragile = g.ofBroker()
	return r
}

func (g *gen) incrementalAlterConfigs() kmsg.Request {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Version, r.ValidateOnly = g.version(0, 1), g.chance(25)
	for range g.few() {
		a := kmsg.NewIncrementalAlterConfigsRequestResource()
		c, of := g.resource()
		a.ResourceType, a.ResourceName = c.kind, c.name
		for range g.few() {
			x := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			x.Name, x.Value = g.setting(of)
			x.Op = pick[kmsg.IncrementalAlterConfigOp](g, 0, 0, 0, 0, 1, 1, 2, 3, 2, 3, 4, -1, 127)
			if x.Op == kmsg.IncrementalAlterConfigOpDelete && g.chance(80) {
				x.Value = nil
			}
			a.Configs = append(a.Configs, x)
		}
		r.Resources = append(r.Resources, a)
	}
	g.fragile = g.ofBroker()
	return r
}

// ofBroker tells whether a byte that is changed could give the broker itself a
// setting that nobody chose.
func (g *gen) ofBroker() bool {
	return slices.ContainsFunc(g.resources, func(c configResource) bool { return c.kind == kmsg.ConfigResourceTypeBroker })
}

func (g *gen) listConfigResources() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrListConfigResourcesRequest()
	r.Version = g.version(0, 1)
	r.ResourceTypes = []int8{}
	for range g.few() {
		r.ResourceTypes = append(r.ResourceTypes, pick[int8](g, 2, 4, 8, 16, 32, 2, 16, 32, 0, 1, 64, -1))
	}
	return r
}
