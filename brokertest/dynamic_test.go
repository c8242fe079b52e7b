package brokertest_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

const (
	ofTopic   = kmsg.ConfigResourceTypeTopic
	ofBroker  = kmsg.ConfigResourceTypeBroker
	ofLogger  = kmsg.ConfigResourceTypeBrokerLogger
	ofMetrics = kmsg.ConfigResourceTypeClientMetrics
	ofGroup   = kmsg.ConfigResourceTypeGroupConfig
)

func text(s string) *string { return &s }

// change sets a key of a resource, or takes it away, which must work.
func (p *peer) change(kind kmsg.ConfigResourceType, resource, key string, value *string) {
	p.t.Helper()
	if out := p.alter(kind, resource, key, value, false); out.ErrorCode != 0 {
		p.t.Fatalf("%s of %q: %s %s", key, resource, name(out.ErrorCode), *out.ErrorMessage)
	}
}

// A live key changes what the broker does at once, for all brokers or for one,
// and still after a restart; without it the broker is as it was.
func TestDynamicSettings(t *testing.T) {
	b := brokertest.Start(t)
	for _, c := range []struct {
		key, value string
		has        func(t *testing.T, p *peer) bool
	}{
		{"message.max.bytes", "1000", func(t *testing.T, p *peer) bool {
			out := p.produce(produceTo(9, -1, "t", records(strings.Repeat("x", 2000))))
			return out[0].ErrorCode == kerr.MessageTooLarge.Code
		}},
		{"compression.type", "zstd", func(t *testing.T, p *peer) bool { return p.last("t").Codec() == batch.Zstd }},
		{"log.message.timestamp.type", "LogAppendTime", func(t *testing.T, p *peer) bool { return p.last("t").LogAppendTime() }},
		{"log.segment.bytes", "1048576", func(t *testing.T, p *peer) bool {
			segments := func() int {
				files, err := filepath.Glob(filepath.Join(b.LogDir("t-0"), "*.log"))
				if err != nil {
					t.Fatal(err)
				}
				return len(files)
			}
			before := segments()
			for range 3 {
				p.write("t", records(strings.Repeat("x", 600_000)))
			}
			return segments() > before+1
		}},
		{"log.message.timestamp.before.max.ms", "1000", func(t *testing.T, p *peer) bool {
			return p.produce(produceTo(9, -1, "t", records("old")))[0].ErrorCode == kerr.InvalidTimestamp.Code
		}},
		{"barnabas.produce.validation", "full", func(t *testing.T, p *peer) bool {
			broken := batchOf(batch.Options{Encoding: batch.Encoding{Codec: batch.Gzip}}, "x")
			broken[len(broken)-1] ^= 0xff
			fixCRC(broken)
			return p.produce(produceTo(9, -1, "t", broken))[0].ErrorCode != 0
		}},
		{"max.connections.per.ip.overrides", "127.0.0.1:1", func(t *testing.T, p *peer) bool { return !answers(t, b) }},
		{"max.connections.per.ip", "1", func(t *testing.T, p *peer) bool { return !answers(t, b) }},
		{"log.retention.ms", "3600000", topicHas("retention.ms", "3600000")},
		{"log.cleanup.policy", "compact", func(t *testing.T, p *peer) bool { // which wants keys
			return p.produce(produceTo(9, -1, "t", records("no key")))[0].ErrorCode == kerr.InvalidRecord.Code
		}},
		{"barnabas.durable.acks", "true", topicHas("barnabas.durable.acks", "true")},
	} {
		for _, of := range []string{"", "1"} {
			t.Run(c.key+" of "+map[string]string{"": "all", "1": "one"}[of], func(t *testing.T) {
				p := dial(t, b)
				p.create("t", 1)
				if c.has(t, p) {
					t.Fatal("it has an effect before it is set")
				}
				p.change(ofBroker, of, c.key, &c.value)
				if !c.has(t, p) {
					t.Error("no effect")
				}
				_ = p.c.Close()
				b.Restart()
				p = dial(t, b)
				if !c.has(t, p) {
					t.Error("no effect after a restart")
				}
				p.change(ofBroker, of, c.key, nil)
				if c.has(t, p) {
					t.Error("the effect stays when it is taken away")
				}
				p.remove("t")
				_ = p.c.Close()
			})
		}
	}
}

// last is a new batch as it is stored.
func (p *peer) last(topic string) batch.Batch {
	p.t.Helper()
	out := p.write(topic, records("some", "some", "some", "some"))
	bs := p.read(topic, 0, out[0].BaseOffset)
	return bs[len(bs)-1]
}

func topicHas(key, value string) func(*testing.T, *peer) bool {
	return func(t *testing.T, p *peer) bool {
		got, code := p.setting(4, ofTopic, "t", key)
		return code == 0 && *got.Value == value
	}
}

// answers tells whether the broker takes a connection.
func answers(t *testing.T, b *brokertest.Broker) bool {
	c, err := wire.Dial(t.Context(), b.Addr(), wire.ClientOptions{ClientID: "case"})
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = c.Do(ctx, kmsg.NewPtrApiVersionsRequest())
	return err == nil
}

// ADM-08, ADM-09: where a value comes from, and what it would be otherwise.
func TestDescribedSources(t *testing.T) {
	b := brokertest.Start(t, brokertest.Set("log.retention.ms", "4"), brokertest.Set("ssl.keystore.password", ""))
	p := dial(t, b)
	p.create("t", 1)
	p.change(ofBroker, "", "log.retention.ms", text("3"))
	p.change(ofBroker, "1", "log.retention.ms", text("2"))
	p.change(ofTopic, "t", "retention.ms", text("1"))
	line := func(kind kmsg.ConfigResourceType, name, key string) string {
		got, code := p.setting(4, kind, name, key)
		wantCode(t, key, code, nil)
		out := fmt.Sprintf("%s %d:", *got.Value, got.Source)
		for _, s := range got.ConfigSynonyms {
			out += fmt.Sprintf(" %s=%s/%d", s.Name, *s.Value, s.Source)
		}
		return out
	}
	for _, c := range []struct {
		kind           kmsg.ConfigResourceType
		name, key, out string
	}{
		{ofTopic, "t", "retention.ms", "1 1: retention.ms=1/1 log.retention.ms=2/2 log.retention.ms=3/3 log.retention.ms=4/4 log.retention.hours=168/5"},
		{ofBroker, "1", "log.retention.ms", "2 2: log.retention.ms=2/2 log.retention.ms=3/3 log.retention.ms=4/4 log.retention.hours=168/5"},
		{ofBroker, "", "log.retention.ms", "3 3: log.retention.ms=3/3"},
		{ofBroker, "1", "log.retention.hours", "168 5: log.retention.hours=168/5"},
		{ofTopic, "t", "segment.bytes", "1073741824 5: log.segment.bytes=1073741824/5"},
		{ofGroup, "g", "consumer.session.timeout.ms", "45000 5: group.consumer.session.timeout.ms=45000/5"},
		{ofLogger, "1", "root", "FATAL 6:"},
		{ofMetrics, "m", "interval.ms", "300000 5:"},
	} {
		if got := line(c.kind, c.name, c.key); got != c.out {
			t.Errorf("%s of %q: %s, want %s", c.key, c.name, got, c.out)
		}
	}
	for _, key := range []string{
		"auto.create.topics.enable", "default.replication.factor", "num.partitions", "min.insync.replicas", "message.max.bytes",
		"log.retention.ms", "offsets.retention.minutes",
	} {
		if got, code := p.setting(4, ofBroker, "1", key); code != 0 || got.Value == nil || *got.Value == "" {
			t.Errorf("%s: %s %+v", key, name(code), got)
		}
	}
	if got, _ := p.setting(4, ofBroker, "1", "ssl.keystore.password"); got.Value != nil || !got.IsSensitive {
		t.Errorf("a password is shown: %+v", got)
	}
	all := kmsg.NewPtrDescribeConfigsRequest()
	all.Version = 4
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = ofBroker, ""
	all.Resources = append(all.Resources, r)
	if got := ask[*kmsg.DescribeConfigsResponse](p, all).Resources[0].Configs; len(got) != 1 || got[0].Name != "log.retention.ms" {
		t.Errorf("settings of all brokers: %+v", got)
	}
}

// A setting that no longer fits the broker's file is left out with a word.
func TestDynamicSettingThatNoLongerFits(t *testing.T) {
	dir := t.TempDir()
	key, most := "group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"
	b := brokertest.Start(t, brokertest.Dir(dir), brokertest.Set(most, "60000"))
	dial(t, b).change(ofBroker, "", key, text("50000"))
	b.Stop()
	var out lockedBuffer
	b = brokertest.Start(t, brokertest.Dir(dir), brokertest.Set(most, "20000"), brokertest.Log(slog.New(slog.NewTextHandler(&out, nil))))
	p := dial(t, b)
	if got, _ := p.setting(4, ofBroker, "1", key); *got.Value != "1000" {
		t.Errorf("%s counts", *got.Value)
	}
	if !strings.Contains(out.String(), "dynamic setting of "+key+" is ignored") {
		t.Errorf("not a word of it:\n%s", out.String())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestLoggers(t *testing.T) {
	var out lockedBuffer
	b := brokertest.Start(t, brokertest.Log(slog.New(slog.NewTextHandler(&out, nil))))
	p := dial(t, b)
	logs := func(topic string) bool {
		t.Helper()
		p.create(topic, 1)
		return strings.Contains(out.String(), `msg="topic created" part=metadata topic=`+topic)
	}
	if !logs("a") {
		t.Fatalf("no line of a topic's creation:\n%s", out.String())
	}
	p.change(ofLogger, "1", "barnabas.metadata", text("WARN"))
	if logs("b") {
		t.Error("INFO of a part whose level is WARN")
	}
	p.change(ofLogger, "1", "barnabas.metadata", nil)
	if !logs("c") {
		t.Error("the root's level does not count again")
	}
	p.change(ofLogger, "1", "root", text("ERROR"))
	if logs("d") {
		t.Error("INFO where the root's level is ERROR")
	}
	if got, _ := p.setting(4, ofLogger, "1", "barnabas.metadata"); *got.Value != "ERROR" {
		t.Errorf("level of a part without one: %s", *got.Value)
	}
	b.Restart()
	p = dial(t, b)
	if got, _ := p.setting(4, ofLogger, "1", "root"); *got.Value != "INFO" {
		t.Errorf("after a restart: %s", *got.Value)
	}
}

// Bounds of what groups may set move with the broker's settings, and the
// coordinator that is loaded goes on under them.
func TestDynamicSettingOfGroups(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("t", 1)
	p.coordinator(3, 0, "g")
	key := "group.consumer.assignment.interval.ms"
	for _, of := range []string{"", "1"} {
		p.change(ofBroker, of, key, text("15000"))
		if got, _ := p.setting(4, ofGroup, "g", "consumer.assignment.interval.ms"); *got.Value != "15000" {
			t.Errorf("a group's interval is %s", *got.Value)
		}
		p.change(ofBroker, of, key, nil)
		if got, _ := p.setting(4, ofGroup, "g", "consumer.assignment.interval.ms"); *got.Value != "1000" {
			t.Errorf("a group's interval stays %s", *got.Value)
		}
	}
}
