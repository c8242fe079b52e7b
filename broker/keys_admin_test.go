package broker

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// adminBeds are of keys that administration goes by.
func adminBeds() []bed {
	return []bed{
		{name: "paging", set: []string{"max.request.partition.size.limit=2"}, broker: map[string]func(*process){
			"max.request.partition.size.limit": func(p *process) {
				l := p.logUnderTest()
				req := kmsg.NewPtrDescribeTopicPartitionsRequest()
				t := kmsg.NewDescribeTopicPartitionsRequestTopic()
				t.Topic = l.name
				req.Topics = append(req.Topics, t)
				out := ask[*kmsg.DescribeTopicPartitionsResponse](groupClient{p}, req)
				if n := len(out.Topics[0].Partitions); n != 2 || out.NextCursor == nil || out.NextCursor.Partition != 2 {
					p.t.Errorf("%d partitions, and then %+v", n, out.NextCursor)
				}
			},
		}},
		{name: "telemetry", set: []string{"telemetry.max.bytes=1000"}, broker: map[string]func(*process){
			"telemetry.max.bytes": func(p *process) {
				asked := p.asked()
				push := kmsg.NewPtrPushTelemetryRequest()
				push.ClientInstanceID, push.SubscriptionID, push.Metrics = asked.ClientInstanceID, asked.SubscriptionID, make([]byte, 1001)
				err := kerr.ErrorForCode(ask[*kmsg.PushTelemetryResponse](groupClient{p}, push).ErrorCode)
				if asked.TelemetryMaxBytes != 1000 || !errors.Is(err, kerr.TelemetryTooLarge) {
					p.t.Errorf("told %d, and 1001 bytes: %v", asked.TelemetryMaxBytes, err)
				}
			},
		}, metrics: map[string]func(*process){
			"metrics": func(p *process) {
				defer p.subscribe("metrics=org.apache.kafka.producer,org.apache.kafka.consumer")()
				if got := p.asked().RequestedMetrics; !slices.Equal(got, []string{"org.apache.kafka.consumer", "org.apache.kafka.producer"}) {
					p.t.Errorf("asked for %v", got)
				}
			},
			"interval.ms": func(p *process) {
				defer p.subscribe("metrics=*", "interval.ms=12345")()
				if got := p.asked().PushIntervalMillis; got != 12345 {
					p.t.Errorf("every %d ms", got)
				}
			},
			"match": func(p *process) {
				for pattern, want := range map[string]int{"client_source_address=127\\..*": 1, "client_source_address=128\\..*": 0} {
					end := p.subscribe("metrics=*", "match="+pattern)
					if got := p.asked().RequestedMetrics; len(got) != want {
						p.t.Errorf("%s: asked for %v", pattern, got)
					}
					end()
				}
			},
		}},
	}
}

// asked is what a new client is asked for.
func (p *process) asked() *kmsg.GetTelemetrySubscriptionsResponse {
	p.t.Helper()
	return ask[*kmsg.GetTelemetrySubscriptionsResponse](groupClient{p}, kmsg.NewPtrGetTelemetrySubscriptionsRequest())
}

// subscribe sets a subscription to client metrics, until end.
func (p *process) subscribe(set ...string) (end func()) {
	p.t.Helper()
	alter := func(op kmsg.IncrementalAlterConfigOp) {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeClientMetrics, "under test"
		for _, s := range set {
			k, v, _ := strings.Cut(s, "=")
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Value, c.Op = k, &v, op
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
		if out := ask[*kmsg.IncrementalAlterConfigsResponse](groupClient{p}, req).Resources[0]; out.ErrorCode != 0 {
			p.t.Fatal(*out.ErrorMessage)
		}
	}
	alter(kmsg.IncrementalAlterConfigOpSet)
	return func() { alter(kmsg.IncrementalAlterConfigOpDelete) }
}

// adminProofs need loggers or log directories of their own.
func adminProofs() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"barnabas.log.level":                             logsByPart,
		"barnabas.log.format":                            logsJSON,
		"cordoned.log.dirs":                              leavesCordoned,
		"num.replica.alter.log.dirs.threads":             movesTogether,
		"replica.alter.log.dirs.io.max.bytes.per.second": movesSlowly,
	}
}

func logsByPart(t *testing.T) {
	var out bytes.Buffer
	b, err := New(Options{Set: []string{"barnabas.log.level=error,storage=debug"}, Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	b.log.Info("no part")
	b.log.With("part", "api").Warn("another part")
	b.log.With("part", "storage").Debug("the part")
	b.log.Error("an error")
	if got := strings.Count(out.String(), "\n"); got != 2 || !strings.Contains(out.String(), "the part") || !strings.Contains(out.String(), "an error") {
		t.Errorf("logged:\n%s", &out)
	}
}

// logsJSON: TestLogFormat of package cli shows the lines that this makes.
func logsJSON(t *testing.T) {
	for format, want := range map[string]bool{"json": true, "text": false} {
		b, err := New(Options{Set: []string{"barnabas.log.format=" + format}})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.cfg.LogJSON(); got != want {
			t.Errorf("%s: JSON is %v", format, got)
		}
	}
}

func leavesCordoned(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	startBroker(t, nil, "log.dirs="+a+","+b, "cordoned.log.dirs="+a).createTopic("t", 4)
	if holdsPartitions(t, a) != 0 || holdsPartitions(t, b) != 4 {
		t.Errorf("%d partitions in the cordoned directory, %d in the other one", holdsPartitions(t, a), holdsPartitions(t, b))
	}
}

// inOne is a broker with a topic whose eight partitions are in the first of two
// directories, the second one empty.
func inOne(t *testing.T, files vfs.FS, set ...string) (p *process, l *logUnderTest, two string) {
	t.Helper()
	one, two := t.TempDir(), t.TempDir()
	p = startBroker(t, files, append(set, "log.dirs="+one+","+two)...)
	p.b.parts.setCordoned([]string{two})
	l = p.logUnderTest()
	p.b.parts.setCordoned(nil)
	return p, l, two
}

func (p *process) move(l *logUnderTest, partition int32, to string) {
	p.t.Helper()
	if err := p.b.parts.logs.Move(kafka.TopicPartition{Topic: l.name, Partition: partition}, to); err != nil {
		p.t.Fatal(err)
	}
}

// movesTogether: by default as many logs move at once as there are directories.
func movesTogether(t *testing.T) {
	g := newGate(4, func(op vfs.Op) bool {
		return op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".log") && strings.HasSuffix(filepath.Dir(op.Name), "-future")
	})
	p, l, two := inOne(t, vfs.Wrap(vfs.Real, vfs.Hooks{Before: g.before}), fmt.Sprintf("num.replica.alter.log.dirs.threads=%d", g.want))
	for i := range int32(g.want) {
		p.fill(l, i, 1, 10, time.Now())
	}
	for i := range int32(g.want) {
		p.move(l, i, two)
	}
	p.until("the moves", func() bool { return holdsPartitions(t, two) == g.want })
}

// movesSlowly: at a million bytes a second, of 1.8 million the first 1 MiB has to be paid for.
func movesSlowly(t *testing.T) {
	p, l, two := inOne(t, nil, "replica.alter.log.dirs.io.max.bytes.per.second=1000000")
	p.fill(l, 0, 3, 600_000, time.Now())
	began := time.Now()
	p.move(l, 0, two)
	p.until("the move", func() bool { return holdsPartitions(t, two) == 1 })
	if d := time.Since(began); d < time.Second {
		t.Errorf("1.8 MB moved in %v", d)
	}
}
