package brokertest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// incremental asks for changes of one resource: each is how (S, D, A or U, or
// another letter for a kind that there is not), key and value; "null" is none.
func incremental(kind kmsg.ConfigResourceType, resource string, ops ...[3]string) kmsg.IncrementalAlterConfigsRequestResource {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, resource
	for _, op := range ops {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Op, c.Name, c.Value = kmsg.IncrementalAlterConfigOp(strings.Index("SDAU.....9", op[0])), op[1], &op[2]
		if op[2] == "null" {
			c.Value = nil
		}
		r.Configs = append(r.Configs, c)
	}
	return r
}

func (p *peer) incremental(rs ...kmsg.IncrementalAlterConfigsRequestResource) []kmsg.IncrementalAlterConfigsResponseResource {
	p.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.Resources = 1, rs
	return ask[*kmsg.IncrementalAlterConfigsResponse](p, req).Resources
}

// ADM-07, and what of brokers, groups, subscriptions and loggers is refused.
func TestIncrementalAlterConfigs(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("t", 1)
	invalid, request := kerr.InvalidConfig, kerr.InvalidRequest
	for _, c := range []struct {
		what string
		kind kmsg.ConfigResourceType
		name string
		ops  [][3]string
		want *kerr.Error
	}{
		{"append", ofTopic, "t", [][3]string{{"A", "cleanup.policy", "compact"}}, nil},
		{"append again", ofTopic, "t", [][3]string{{"A", "cleanup.policy", "compact"}}, nil},
		{"subtract", ofTopic, "t", [][3]string{{"U", "cleanup.policy", "delete"}}, nil},
		{"append to a number", ofTopic, "t", [][3]string{{"A", "retention.ms", "1"}}, invalid},
		{"same key twice", ofTopic, "t", [][3]string{{"S", "retention.ms", "1"}, {"S", "retention.ms", "2"}}, request},
		{"null", ofTopic, "t", [][3]string{{"S", "retention.ms", "null"}}, request},
		{"kind 9", ofTopic, "t", [][3]string{{"9", "retention.ms", "1"}}, request},
		{"delete what is not set", ofTopic, "t", [][3]string{{"D", "retention.ms", "null"}}, nil},
		{"no topic's name", ofTopic, "", [][3]string{{"S", "retention.ms", "1"}}, request},
		{"no topic's name, append to a number", ofTopic, "", [][3]string{{"A", "retention.ms", "1"}}, invalid},
		{"a bad name, append to a number", ofTopic, "a b", [][3]string{{"A", "retention.ms", "1"}}, invalid},
		{"too long", ofTopic, "t", [][3]string{{"S", "leader.replication.throttled.replicas", strings.Repeat("1:1,", 9000) + "1:1"}}, invalid},
		{"a type that is none", 3, "t", nil, request},

		{"read-only", ofBroker, "1", [][3]string{{"S", "num.partitions", "1"}}, request},
		{"listeners", ofBroker, "1", [][3]string{{"S", "listeners", "PLAINTEXT://:9092"}}, invalid},
		{"listeners of all", ofBroker, "", [][3]string{{"S", "listeners", "PLAINTEXT://:9092"}}, request},
		{"of one listener", ofBroker, "1", [][3]string{{"S", "listener.name.plaintext.max.connections", "5"}}, invalid},
		{"ignored", ofBroker, "1", [][3]string{{"S", "num.io.threads", "9"}}, invalid},
		{"ssl", ofBroker, "1", [][3]string{{"S", "ssl.keystore.location", "/x"}}, request},
		{"bad value", ofBroker, "1", [][3]string{{"S", "log.retention.ms", "x"}}, request},
		{"no connections", ofBroker, "1", [][3]string{{"S", "max.connections", "0"}}, request},
		{"against another key", ofBroker, "", [][3]string{{"S", "group.consumer.assignment.interval.ms", "99999999"}}, request},
		{"threads above double", ofBroker, "1", [][3]string{{"S", "num.recovery.threads.per.data.dir", "5"}}, request},
		{"min.insync.replicas of one", ofBroker, "1", [][3]string{{"S", "min.insync.replicas", "1"}}, invalid},
		{"min.insync.replicas of all", ofBroker, "", [][3]string{{"S", "min.insync.replicas", "1"}}, nil},
		{"append to an unknown key", ofBroker, "1", [][3]string{{"A", "nosuch", "1"}}, invalid},
		{"unknown key", ofBroker, "1", [][3]string{{"S", "nosuch", "1"}}, nil},
		{"kind 9 of a broker", ofBroker, "1", [][3]string{{"9", "log.retention.ms", "1"}}, request},
		{"another broker", ofBroker, "7", nil, request},
		{"a broker's name", ofBroker, "one", nil, request},

		{"no group's name", ofGroup, "", [][3]string{{"S", "consumer.session.timeout.ms", "50000"}}, request},
		{"unknown of a group", ofGroup, "g", [][3]string{{"S", "nosuch", "50000"}}, invalid},

		{"interval", ofMetrics, "m", [][3]string{{"S", "interval.ms", "99"}}, request},
		{"match", ofMetrics, "m", [][3]string{{"S", "match", "client_id=["}}, invalid},
		{"unknown of a subscription", ofMetrics, "m", [][3]string{{"S", "nosuch", "1"}}, request},
		{"no subscription's name", ofMetrics, "", [][3]string{{"S", "interval.ms", "100"}}, request},

		{"level", ofLogger, "1", [][3]string{{"S", "root", "LOUD"}}, invalid},
		{"logger", ofLogger, "1", [][3]string{{"S", "nosuch", "INFO"}}, invalid},
		{"root's level", ofLogger, "1", [][3]string{{"D", "root", "null"}}, request},
		{"append a level", ofLogger, "1", [][3]string{{"A", "root", "INFO"}}, request},
		{"another's logger", ofLogger, "7", [][3]string{{"S", "root", "INFO"}}, request},
	} {
		out := p.incremental(incremental(c.kind, c.name, c.ops...))[0]
		wantCode(t, c.what, out.ErrorCode, c.want)
		if (out.ErrorMessage == nil) != (c.want == nil) {
			t.Errorf("%s: a sentence is missing, or too much: %v", c.what, out.ErrorMessage)
		}
	}
	if got, _ := p.setting(4, ofTopic, "t", "cleanup.policy"); *got.Value != "compact" {
		t.Errorf("cleanup.policy: %s", *got.Value)
	}
	if got, _ := p.setting(4, ofBroker, "1", "nosuch"); got.Value != nil || !got.IsSensitive || got.Source != 2 {
		t.Errorf("an unknown key is shown as %+v", got)
	}
	one, other := incremental(ofTopic, "t", [3]string{"S", "retention.ms", "5"}), incremental(ofGroup, "t", [3]string{"S", "consumer.session.timeout.ms", "50000"})
	out := p.incremental(one, other, one)
	if len(out) != 3 || out[0].ErrorCode != request.Code || out[1].ErrorCode != 0 || out[2].ErrorCode != request.Code {
		t.Errorf("a resource twice: %+v", out)
	}
}

// AlterConfigs replaces what is set by what it names.
func TestAlterConfigs(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("t", 1)
	for _, c := range []struct {
		kind             kmsg.ConfigResourceType
		name, key, value string
		gone, was        string
	}{
		{ofTopic, "t", "retention.bytes", "7", "segment.bytes", "2000000"},
		{ofBroker, "1", "log.retention.bytes", "7", "message.max.bytes", "6000"},
		{ofBroker, "", "log.retention.bytes", "8", "message.max.bytes", "6000"},
		{ofGroup, "g", "consumer.session.timeout.ms", "50000", "consumer.heartbeat.interval.ms", "6000"},
		{ofMetrics, "m", "interval.ms", "700", "metrics", "a"},
	} {
		p.change(c.kind, c.name, c.gone, &c.was)
		for version := int16(0); version <= 2; version++ {
			for _, validate := range []bool{true, false} {
				req := kmsg.NewPtrAlterConfigsRequest()
				req.Version, req.ValidateOnly = version, validate
				r := kmsg.NewAlterConfigsRequestResource()
				r.ResourceType, r.ResourceName = c.kind, c.name
				of := kmsg.NewAlterConfigsRequestResourceConfig()
				of.Name, of.Value = c.key, &c.value
				r.Configs = append(r.Configs, of)
				req.Resources = append(req.Resources, r)
				wantCode(t, c.key, ask[*kmsg.AlterConfigsResponse](p, req).Resources[0].ErrorCode, nil)
				got, _ := p.setting(4, c.kind, c.name, c.gone)
				set := got.Value != nil && (got.Source <= 3 || got.Source >= 7)
				if version == 0 && validate != set {
					t.Errorf("%s of %s after validate-only %t: %+v", c.gone, c.name, validate, got)
				}
			}
		}
		if got, _ := p.setting(4, c.kind, c.name, c.key); got.Value == nil || *got.Value != c.value {
			t.Errorf("%s of %q: %+v", c.key, c.name, got)
		}
	}
	req := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = ofLogger, "1"
	req.Version, req.Resources = 2, append(req.Resources, r)
	wantCode(t, "loggers", ask[*kmsg.AlterConfigsResponse](p, req).Resources[0].ErrorCode, kerr.InvalidRequest)
}

func TestListConfigResources(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("t", 1)
	p.change(ofGroup, "g", "consumer.session.timeout.ms", text("50000"))
	p.change(ofMetrics, "m/1 %", "metrics", text("*"))
	p.change(ofBroker, "", "log.retention.ms", text("50000"))
	list := func(version int16, types ...int8) (int16, []string) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = version, types
		resp := ask[*kmsg.ListConfigResourcesResponse](p, req)
		var out []string
		for _, r := range resp.ConfigResources {
			out = append(out, kmsg.ConfigResourceType(r.Type).String()+" "+r.Name)
		}
		return resp.ErrorCode, out
	}
	everything := []string{"TOPIC t", "BROKER 1", "BROKER_LOGGER 1", "CLIENT_METRICS m/1 %", "GROUP_CONFIG g"}
	for _, c := range []struct {
		version int16
		types   []int8
		want    []string
		code    *kerr.Error
	}{
		{0, nil, []string{"CLIENT_METRICS m/1 %"}, nil},
		{1, nil, everything, nil},
		{1, []int8{32, 2, 32}, []string{"GROUP_CONFIG g", "TOPIC t"}, nil},
		{1, []int8{4}, []string{"BROKER 1"}, nil},
		{1, []int8{2, 3}, nil, kerr.UnsupportedVersion},
	} {
		code, got := list(c.version, c.types...)
		wantCode(t, "list", code, c.code)
		if !slices.Equal(got, c.want) {
			t.Errorf("v%d %v: %q, want %q", c.version, c.types, got, c.want)
		}
	}
	b.Restart()
	p = dial(t, b)
	if _, got := list(1); !slices.Equal(got, everything) {
		t.Errorf("after a restart: %q", got)
	}
	p.change(ofMetrics, "m/1 %", "metrics", nil)
	if _, got := list(0); len(got) != 0 {
		t.Errorf("a subscription that sets nothing is there: %q", got)
	}
}
