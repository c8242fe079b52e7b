package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func load(t *testing.T, text string, o Options) (*Config, []string, error) {
	t.Helper()
	o.File = filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(o.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(o)
}

func must(t *testing.T, set map[string]string) *Config {
	t.Helper()
	c, err := New(set)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOrder(t *testing.T) {
	env := []string{"BARNABAS_NUM_PARTITIONS=3", "BARNABAS_DURABLE_ACKS=false", "BARNABAS_BOOTSTRAP=x:1", "HOME=/", "BARNABAS_BROKER_RACK=east"}
	for _, c := range []struct {
		name string
		file string
		o    Options
		want int64
	}{
		{"default", "", Options{}, 1},
		{"file", "num.partitions=2", Options{}, 2},
		{"environment over file", "num.partitions=2", Options{Environ: env}, 3},
		{"set over environment", "num.partitions=2", Options{Environ: env, Set: []string{"num.partitions=4"}}, 4},
		{"the last set", "", Options{Set: []string{"num.partitions=4", "num.partitions = 5 "}}, 5},
	} {
		got, warnings, err := load(t, c.file, c.o)
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%s: %v %q", c.name, err, warnings)
		}
		if n := got.Int("num.partitions"); n != c.want {
			t.Errorf("%s: num.partitions=%d, want %d", c.name, n, c.want)
		}
	}
	got, _, _ := load(t, "", Options{Environ: env})
	if got.Bool("barnabas.durable.acks") || got.Text("broker.rack") != "east" {
		t.Error("the environment did not reach barnabas.durable.acks and broker.rack")
	}
}

// Java's format: continued lines, escapes, colon or blank for the equals sign,
// the last of two, nothing expanded.
func TestPropertiesFormat(t *testing.T) {
	_, _, err := load(t, "! a comment\nlog.dirs = /a,\\\n    /b\nbroker.rack: r\\u00e4ck\nnum.partitions 2\nnum.partitions=7\nlistener.name.external.ssl.client.auth=${x}required\n", Options{})
	if err == nil {
		t.Fatal("ssl.client.auth=${x}required must be refused as it stands")
	}
	if !strings.Contains(err.Error(), `listener.name.external.ssl.client.auth: the value "${x}required"`) {
		t.Errorf("%v", err)
	}
	c, warnings, err := load(t, "! a comment\nlog.dirs = /a,\\\n    /b\nbroker.rack: r\\u00e4ck\nnum.partitions 2\nnum.partitions=7\n", Options{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if dirs := c.List("log.dirs"); len(dirs) != 2 || dirs[1] != "/b" || c.Text("broker.rack") != "räck" || c.Int("num.partitions") != 7 {
		t.Errorf("%q %q %d", dirs, c.Text("broker.rack"), c.Int("num.partitions"))
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"log.retention.hour=3", "did you mean log.retention.hours?"},
		{"zookeeper.connect=localhost:2181", "zookeeper.connect (from --set) is not a key of a broker and is ignored"},
		{"retention.ms=5", "it is a topic's; the default for topics is log.retention.ms"},
		{"group.share.session.timeout.ms=50000", "group.share.session.timeout.ms has no effect yet"},
		{"num.io.threads=4", "num.io.threads is accepted and has no effect in Barnabas: " + noThreads},
		{"num.io.threads=8", ""},
		{"num.partitions=4", ""},
		{"metric.reporters=com.example.Reporter", "see barnabas.admin.listener"},
		{"authorizer.class.name=", ""},
		{"remote.log.storage.system.enable=false", ""},
		{"listener.name.a.b.num.partitions=4", ""},
	} {
		_, warnings, err := Load(Options{Set: []string{c.set}})
		if err != nil {
			t.Errorf("%s: %v", c.set, err)
		}
		if got := strings.Join(warnings, "\n"); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: warning %q, want %q", c.set, got, c.want)
		}
	}
}

func TestBadValues(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"num.partitions=many", `num.partitions: the value "many" (from --set) is not allowed: it must be a whole number, at least 1`},
		{"num.partitions=0", "at least 1"},
		{"num.partitions=3000000000", "a whole number"},
		{"log.cleanup.policy=shred", "out of: compact, delete"},
		{"auto.create.topics.enable=yes", "true or false"},
		{"log.cleaner.min.cleanable.ratio=2", "from 0 to 1"},
		{"log.cleaner.min.cleanable.ratio=NaN", "a number"},
		{"compression.gzip.level=0", "from 1 to 9, or -1"},
		{"barnabas.admin.listener=9644", "host:port"},
		{"barnabas.produce.validation=half", "out of: header, full"},
		{"max.connections.per.ip.overrides=10.0.0.1", "address:number"},
		{"log.dirs=/a,,/b", "a list"},
		{"log.retention.hours=0", "-1 for no limit"},
		{"group.min.session.timeout.ms=2000000", "group.min.session.timeout.ms: 2000000 is above group.max.session.timeout.ms, which is 1800000"},
		{"default.replication.factor=0", "at least 1"},
		{"group.coordinator.rebalance.protocols=consumer", "classic must be there"},
		{"group.coordinator.rebalance.protocols=classic,other", "out of: consumer, classic"},
		{"group.consumer.assignors=com.example.Assignor", "out of: uniform, range"},
		{"group.consumer.assignors=range,range", "each once"},
		{"group.consumer.assignors=", "at least one"},
		{"group.consumer.regex.refresh.interval.ms=9999", "at least 10000"},
		{"group.consumer.session.timeout.ms=61000", "group.consumer.session.timeout.ms: 61000 is above group.consumer.max.session.timeout.ms, which is 60000"},
		{"group.consumer.heartbeat.interval.ms=4000", "group.consumer.min.heartbeat.interval.ms: 5000 is above group.consumer.heartbeat.interval.ms, which is 4000"},
		{"authorizer.class.name=StandardAuthorizer", `authorizer.class.name: the value "StandardAuthorizer" (from --set) is refused: this version has no access rules`},
		{"remote.log.storage.system.enable=true", "is refused: this version has no remote store"},
		{"listener.name.external.ssl.keystore.location=x", `listener.name.external.ssl.keystore.location: the value "x" (from --set) is refused: ` + noTLS},
		{"ssl.keystore.password=hunter2", `ssl.keystore.password: the value "[hidden]" (from --set) is refused: ` + noTLS},
		{"replica.selector.class=com.example.Nearest", "out of: org.apache.kafka.common.replica.LeaderSelector"},
		{"nothing", "key=value is expected"},
		{"=1", "key=value is expected"},
	} {
		_, _, err := Load(Options{Set: []string{c.set}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.set, err, c.want)
		}
	}
	_, _, err := Load(Options{Set: []string{"num.partitions=x", "node.id=y", "broker.id=z"}})
	if err == nil || strings.Count(err.Error(), "not allowed") != 3 {
		t.Errorf("every bad value must be named at once: %v", err)
	}
	_, _, err = Load(Options{Set: []string{"broker.id=2", "node.id=3"}})
	if err == nil || !strings.Contains(err.Error(), "broker.id: 2 is not node.id, which is 3") {
		t.Errorf("%v", err)
	}
	_, _, err = Load(Options{Set: []string{"group.consumer.max.heartbeat.interval.ms=50000", "group.consumer.heartbeat.interval.ms=45000"}})
	if err == nil || !strings.Contains(err.Error(), "group.consumer.heartbeat.interval.ms: 45000 is not below group.consumer.session.timeout.ms, which is 45000") {
		t.Errorf("%v", err)
	}
	if _, _, err := Load(Options{File: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a missing file must be an error")
	}
}

// What a secret was set to stands in no message.
func TestSecretsStaySecret(t *testing.T) {
	c := &Config{layers: []layer{{Static, map[string]string{"ssl.keystore.password": "hunter2"}}}}
	for _, e := range c.DescribeBroker(nil) {
		if e.Value != nil && strings.Contains(*e.Value, "hunter2") {
			t.Errorf("%s shows the secret", e.Name)
		}
		for _, s := range e.Synonyms {
			if s.Value != nil && strings.Contains(*s.Value, "hunter2") {
				t.Errorf("%s shows the secret in a synonym", e.Name)
			}
		}
	}
	e := c.DescribeBroker([]string{"ssl.keystore.password"})
	if len(e) != 1 || !e[0].Sensitive || e[0].Source != Static {
		t.Errorf("%+v", e)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want time.Duration
	}{
		{nil, 168 * time.Hour},
		{map[string]string{"log.retention.hours": "2"}, 2 * time.Hour},
		{map[string]string{"log.retention.hours": "2", "log.retention.minutes": "3"}, 3 * time.Minute},
		{map[string]string{"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4 * time.Millisecond},
		{map[string]string{"log.retention.ms": "-1", "log.retention.hours": "2"}, -1},
		{map[string]string{"log.retention.hours": "-1"}, -1},
		{map[string]string{"log.retention.ms": "9223372036854775807"}, 1<<63 - 1},
	} {
		cfg := must(t, c.set)
		if got := cfg.Duration("log.retention.ms"); got != c.want {
			t.Errorf("%v: broker %v, want %v", c.set, got, c.want)
		}
		if got := cfg.Topic(nil).RetentionAge; got != c.want {
			t.Errorf("%v: topic %v, want %v", c.set, got, c.want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	shipped, err := os.ReadFile("testdata/server.properties")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shipped)
	f.Add([]byte("listeners=A://[::1]:0,B://:1\nlistener.security.protocol.map=A:PLAINTEXT,B:SSL\nadvertised.listeners=A://x:2"))
	f.Add([]byte("controller.quorum.voters=1@a:1,2@b:2,3@[::1]:3\nmax.connections.per.ip.overrides=[::1]:3"))
	f.Add([]byte("log.retention.ms=9223372036854775807\nlog.cleanup.policy=\\\n compact\nx\\u00zz=1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := Parse("fuzz", text)
		if err != nil {
			return
		}
		b, err := c.Broker(func() string { return "host" })
		if err == nil {
			for _, l := range b.Advertised {
				if l.wildcard() {
					t.Fatalf("advertises %s", l)
				}
			}
		}
		topic := c.Topic(nil)
		if topic.SegmentBytes < 1 || topic.MinInsync < 1 {
			t.Fatalf("%+v", topic)
		}
		c.DescribeBroker(nil)
		c.DescribeTopic(nil, nil)
	})
}
