package config

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestAlterBroker(t *testing.T) {
	static := must(t, map[string]string{"log.cleanup.policy": "compact", "max.connections": "50"})
	c, _ := static.With(map[string]string{"log.retention.ms": "7"}, nil)
	set := func(name, v string) Op { return Op{name, SetOp, &v} }
	list := func(kind OpKind, name, v string) Op { return Op{name, kind, &v} }
	for _, c1 := range []struct {
		what string
		all  bool
		was  map[string]string
		ops  []Op
		want map[string]string
		err  string
		code *kerr.Error
	}{
		{"set and delete", false, map[string]string{"log.retention.ms": "5", "nosuch": "x"}, []Op{set("message.max.bytes", "9"), {"nosuch", DeleteOp, nil}},
			map[string]string{"log.retention.ms": "5", "message.max.bytes": "9"}, "", nil},
		{"append to the default, not to the file's", false, nil, []Op{list(AppendOp, "log.cleanup.policy", "compact")},
			map[string]string{"log.cleanup.policy": "delete,compact"}, "", nil},
		{"unknown", true, nil, []Op{set("nosuch", "x")}, map[string]string{"nosuch": "x"}, "", nil},
		{"read-only", false, nil, []Op{set("log.dirs", "/x"), set("broker.rack", "r")}, nil, "Cannot update these configs dynamically: [broker.rack, log.dirs]", kerr.InvalidRequest},
		{"per broker, of all", true, nil, []Op{set("listeners", "PLAINTEXT://:1")}, nil, "broker id must be specified: [listeners]", kerr.InvalidRequest},
		{"cannot be changed here", false, nil, []Op{set("listeners", "PLAINTEXT://:1")}, nil, "listeners cannot be changed while this broker runs", kerr.InvalidConfig},
		{"ignored key", false, nil, []Op{set("num.io.threads", "9")}, nil, "num.io.threads has no effect in Barnabas", kerr.InvalidConfig},
		{"value", true, nil, []Op{set("log.retention.ms", "x")}, nil, "Invalid value x for configuration log.retention.ms: Not a number of type LONG", kerr.InvalidRequest},
		{"together", true, nil, []Op{set("group.consumer.assignment.interval.ms", "999999")}, nil, "group.consumer.assignment.interval.ms: 999999 is above", kerr.InvalidRequest},
		{"no list", false, nil, []Op{list(AppendOp, "log.retention.ms", "1")}, nil, "append is not allowed", kerr.InvalidConfig},
		{"unknown list", false, nil, []Op{list(SubtractOp, "nosuch", "1")}, nil, "Unknown config name: nosuch", kerr.InvalidConfig},
		{"half the threads", false, nil, []Op{set("num.recovery.threads.per.data.dir", "5")}, nil, "not be greater than double the current value 2", kerr.InvalidRequest},
		{"no thread", true, nil, []Op{set("log.cleaner.threads", "0")}, nil, "Invalid log.cleaner.threads 0", kerr.InvalidRequest},
		{"min.insync.replicas", false, nil, []Op{{"min.insync.replicas", DeleteOp, nil}}, nil, "Broker-level min.insync.replicas", kerr.InvalidConfig},
		{"min.insync.replicas beside a read-only key", false, nil, []Op{set("min.insync.replicas", "1"), set("broker.id", "1")}, nil, "Cannot update these configs dynamically: [broker.id]", kerr.InvalidRequest},
		{"too long", false, nil, []Op{set("nosuch", strings.Repeat("x", 32768))}, nil, "maximum value size", kerr.InvalidConfig},
		{"as long as can be", false, nil, []Op{set("nosuch", strings.Repeat("x", 32767))}, map[string]string{"nosuch": strings.Repeat("x", 32767)}, "", nil},
	} {
		t.Run(c1.what, func(t *testing.T) {
			before := maps.Clone(c1.was)
			got, err := c.AlterBroker(c1.all, c1.was, c1.ops)
			if !maps.Equal(before, c1.was) {
				t.Error("what there was has changed")
			}
			switch {
			case c1.err != "":
				if err == nil || !strings.Contains(err.Error(), c1.err) || !errors.Is(err, c1.code) {
					t.Errorf("%v, want %v with %q", err, c1.code, c1.err)
				}
			case err != nil:
				t.Error(err)
			case !maps.Equal(got, c1.want):
				t.Errorf("%v, want %v", got, c1.want)
			}
		})
	}
}

// What is stored and does not fit is left out: alone, or against the file.
func TestWith(t *testing.T) {
	static := must(t, map[string]string{"group.consumer.max.assignment.interval.ms": "20000", "log.retention.ms": "9"})
	c, warnings := static.With(
		map[string]string{"group.consumer.assignment.interval.ms": "15000", "compression.type": "none", "listeners": "x", "nosuch": "x", "log.retention.ms": "8"},
		map[string]string{"group.consumer.assignment.interval.ms": "30000", "node.id": "4", "num.io.threads": "9", "log.retention.ms": "7"})
	if got := c.Int("group.consumer.assignment.interval.ms"); got != 15000 {
		t.Errorf("assignment interval %d: the cluster's fits, the broker's does not", got)
	}
	if got := c.Int("log.retention.ms"); got != 7 {
		t.Errorf("retention %d, want the broker's", got)
	}
	if c.Text("compression.type") != "producer" || c.Int("node.id") != 1 {
		t.Errorf("compression.type %s, node.id %d", c.Text("compression.type"), c.Int("node.id"))
	}
	if len(warnings) != 5 {
		t.Errorf("%d warnings: %q", len(warnings), warnings)
	}
	if e := c.DescribeBroker([]string{"nosuch"}); len(e) != 1 || e[0].Value != nil || !e[0].Sensitive || e[0].Type != 0 || e[0].Source != DynamicDefault {
		t.Errorf("unknown key: %+v", e)
	}
	if e := c.DescribeCluster(nil); len(e) != 3 {
		t.Errorf("settings of all brokers: %+v", e)
	}
}

func TestAlterClientMetrics(t *testing.T) {
	c := must(t, nil)
	for _, of := range []struct {
		key, value string
		code       *kerr.Error
	}{
		{"metrics", "*", nil}, {"metrics", "a,a", nil}, {"metrics", "a,,b", kerr.InvalidConfig},
		{"interval.ms", "100", nil}, {"interval.ms", "3600000", nil}, {"interval.ms", "99", kerr.InvalidRequest}, {"interval.ms", "3600001", kerr.InvalidRequest},
		{"interval.ms", "x", kerr.InvalidConfig}, {"nosuch", "x", kerr.InvalidRequest},
		{"match", "", nil}, {"match", " client_id = a.* ,client_source_port=1", nil}, {"match", "client_id", kerr.InvalidConfig}, {"match", "client_id=", kerr.InvalidConfig},
		{"match", "nosuch=x", kerr.InvalidConfig}, {"match", "client_id=[", kerr.InvalidConfig}, {"match", "client_id=a=b", kerr.InvalidConfig},
	} {
		_, err := c.Alter(ClientMetricsScope, nil, []Op{{of.key, SetOp, &of.value}})
		if (err == nil) != (of.code == nil) || of.code != nil && !errors.Is(err, of.code) {
			t.Errorf("%s=%q: %v, want %v", of.key, of.value, err, of.code)
		}
	}
	if e := c.DescribeClientMetrics(map[string]string{"metrics": "b,a, b"}, []string{"metrics"}); *e[0].Value != "b,a" || *e[0].Synonyms[0].Value != "b,a" {
		t.Errorf("told twice: %+v", e[0])
	}
	const why = ": patterns are RE2's, which takes time in proportion to the text and has no look-around, back-references or possessive quantifiers: "
	for pair, want := range map[string]string{
		"client_id=a(?!b)":   why + "invalid or unsupported Perl syntax `(?!`",
		`client_id=(a)\1`:    why + "invalid escape sequence `\\1`",
		"client_id=a++":      why + "invalid nested repetition operator `++`",
		`client_id=\Qa`:      "",
		"client_id=a)|(?:b":  "",
		"client_id=(a":       "",
		"client_id=[":        "",
		"client_software=ab": "",
	} {
		if _, err := c.Alter(ClientMetricsScope, nil, []Op{{"match", SetOp, &pair}}); err == nil || err.Error() != "Illegal client matching pattern: "+pair+want {
			t.Errorf("%s: %v, want %q", pair, err, want)
		}
	}
	if _, err := c.Alter(ClientMetricsScope, nil, []Op{{"metrics", AppendOp, value("a")}}); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("append: %v", err)
	}
}
