package otlp

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/telemetry"
)

func attr(k, v string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: k, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}}
}

func point(v float64, attrs ...*commonpb.KeyValue) *metricspb.NumberDataPoint {
	return &metricspb.NumberDataPoint{Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: v}, Attributes: attrs}
}

func gauge(name string, p ...*metricspb.NumberDataPoint) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: p}}}
}

func sum(name string, delta bool, p ...*metricspb.NumberDataPoint) *metricspb.Metric {
	s := &metricspb.Sum{DataPoints: p, IsMonotonic: true, AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}
	if delta {
		s.AggregationTemporality = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	return &metricspb.Metric{Name: name, Data: &metricspb.Metric_Sum{Sum: s}}
}

func encoded(t testing.TB, m ...*metricspb.Metric) []byte {
	t.Helper()
	b, err := proto.Marshal(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource:     &resourcepb.Resource{Attributes: []*commonpb.KeyValue{attr("client_rack", "r1"), attr("client_id", "a lie")}},
		ScopeMetrics: []*metricspb.ScopeMetrics{{Metrics: m}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type rig struct {
	t   *testing.T
	now time.Time
	*Store
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: time.Unix(1_000_000, 0)}
	r.Store = NewStore(1<<20, func() time.Time { return r.now })
	return r
}

func (r *rig) push(id byte, codec batch.Codec, b []byte, last bool) error {
	return r.Push(Push{
		Client:   telemetry.Client{ID: telemetry.ID{15: id}, ClientID: fmt.Sprint("c", id), SoftwareName: "s", SoftwareVersion: "1"},
		Interval: 30 * time.Second, Terminating: last, Codec: codec, Metrics: b,
	})
}

func (r *rig) take(id byte, m ...*metricspb.Metric) {
	r.t.Helper()
	if err := r.push(id, batch.None, encoded(r.t, m...), false); err != nil {
		r.t.Fatal(err)
	}
}

// shown is what a scrape shows, by name and labels.
func (r *rig) shown() map[string]float64 {
	r.t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(r.Store)
	fams, err := reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range fams {
		for _, m := range f.GetMetric() {
			key := strings.TrimPrefix(f.GetName(), "barnabas_")
			for _, l := range m.GetLabel() {
				if n := l.GetName(); n != "client_instance_id" && !strings.HasPrefix(n, "client_software") {
					key += " " + n + "=" + l.GetValue()
				}
			}
			out[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if f.GetType() != dto.MetricType_GAUGE && f.GetType() != dto.MetricType_COUNTER {
				r.t.Errorf("%s is a %v", f.GetName(), f.GetType())
			}
		}
	}
	return out
}

func (r *rig) want(key string, value float64) {
	r.t.Helper()
	all := r.shown()
	if got, there := all[key]; !there || got != value {
		r.t.Errorf("%s: %v, there %t; all: %v", key, got, there, all)
	}
}

func TestShown(t *testing.T) {
	r := newRig(t)
	r.take(1,
		gauge("org.apache.kafka.producer.record.queue-time.avg", point(1.5), point(2.5, attr("topic", "a"), attr("9.x", "y"))),
		sum("org.apache.kafka.producer.record.send.total", true, point(3)),
		sum("io.example.calls", false, point(7)),
	)
	r.take(1,
		gauge("org.apache.kafka.producer.record.queue-time.avg", point(4)),
		sum("org.apache.kafka.producer.record.send.total", true, point(2)),
		sum("io.example.calls", false, point(9)),
	)
	r.take(2, gauge("org.apache.kafka.producer.record.queue-time.avg", point(5)))
	r.want("client_producer_record_queue_time_avg client_id=c1 client_rack=r1", 4)
	r.want("client_producer_record_queue_time_avg attribute_9_x=y client_id=c1 client_rack=r1 topic=a", 2.5)
	r.want("client_producer_record_queue_time_avg client_id=c2 client_rack=r1", 5)
	r.want("client_producer_record_send_total client_id=c1 client_rack=r1", 5)
	r.want("client_io_example_calls_total client_id=c1 client_rack=r1", 9)
	r.want("telemetry_clients", 2)
	r.want("telemetry_series", 5)
}

// Series go when their client does, and its last values stay for a scrape.
func TestExpiry(t *testing.T) {
	r := newRig(t)
	r.take(1, gauge("a", point(1)), gauge("b", point(1)))
	r.take(2, gauge("a", point(1)))
	if err := r.push(2, batch.None, encoded(t, gauge("a", point(8))), true); err != nil {
		t.Fatal(err)
	}
	r.want("client_a client_id=c2 client_rack=r1", 8)
	r.now = r.now.Add(keepLeast)
	r.take(1, gauge("a", point(2)))
	r.want("telemetry_series", 2)
	r.now = r.now.Add(30 * time.Second)
	r.want("telemetry_series", 1) // b was not pushed again
	r.now = r.now.Add(keepLeast)
	r.want("telemetry_clients", 0)
	if len(r.kinds)+len(r.shapes)+len(r.clients)+r.series+r.text != 0 {
		t.Errorf("left: %d kinds, %d shapes, %d clients, %d series, %d bytes", len(r.kinds), len(r.shapes), len(r.clients), r.series, r.text)
	}
}

func TestDropped(t *testing.T) {
	r := newRig(t)
	r.take(1,
		gauge("x_total", point(1)), sum("x", true, point(1)), // two types, one name
		&metricspb.Metric{Name: "h", Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{}}},
		gauge("", point(1)), gauge(strings.Repeat("n", maxName+1), point(1)),
		sum("falls", true, point(-1)), gauge("empty", &metricspb.NumberDataPoint{}),
	)
	for reason, n := range map[string]float64{dropConflict: 1, dropType: 1, dropName: 2, dropValue: 2} {
		r.want("telemetry_dropped_total reason="+reason, n)
	}
	r.want("telemetry_series", 1)
}

func TestRoom(t *testing.T) {
	r := newRig(t)
	var ps []*metricspb.NumberDataPoint
	for i := range 9000 {
		ps = append(ps, point(1, attr("n", fmt.Sprint(i))))
	}
	r.take(1, gauge("a", ps...))
	r.take(1, gauge("b", ps...))
	r.want("telemetry_series", maxClientSeries)
	r.want("telemetry_dropped_total reason="+dropRoom, 8000)
	for id := range byte(12) {
		r.take(2+id, gauge("a", ps...))
	}
	if r.series > maxSeries || r.text > maxText {
		t.Errorf("%d series, %d bytes", r.series, r.text)
	}
	long := attr("long", strings.Repeat("ü", 10_000))
	r2 := newRig(t)
	r2.take(1, gauge("a", point(1, long)))
	for key := range r2.shown() {
		if len(key) > 2*maxValue {
			t.Errorf("a label of %d bytes", len(key))
		}
	}
}

func TestHostile(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	_, _ = w.Write(make([]byte, 64<<20))
	_ = w.Close()
	deep := &commonpb.AnyValue{}
	for range 30 {
		deep = &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{deep}}}}
	}
	many := bytes.Repeat([]byte{0x0a, 0}, maxMessages+1) // empty ResourceMetrics
	r := newRig(t)
	for name, c := range map[string]struct {
		codec batch.Codec
		b     []byte
	}{
		"bomb":           {batch.Gzip, bomb.Bytes()},
		"not compressed": {batch.Zstd, []byte("plain")},
		"no codec":       {batch.Codec(9), []byte("plain")},
		"garbage":        {batch.None, []byte{0xff, 0xff, 0xff}},
		"group":          {batch.None, []byte{0x0b, 0x0c}},
		"long promise":   {batch.None, []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}},
		"messages":       {batch.None, many},
		"depth":          {batch.None, encoded(t, gauge("a", point(1, &commonpb.KeyValue{Key: "d", Value: deep})))},
		"not UTF-8":      {batch.None, []byte{0x0a, 6, 0x12, 4, 0x12, 2, 0x0a, 0, 0x0a, 7, 0x12, 5, 0x12, 3, 0x0a, 1, 0xff}},
	} {
		if err := r.push(1, c.codec, c.b, false); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	r.want("telemetry_pushes_total result=unreadable", 9)
	r.want("telemetry_clients", 0)
}

// FuzzPush: whatever is pushed, a scrape works.
func FuzzPush(f *testing.F) {
	f.Add(encoded(f, gauge("a", point(1, attr("k", "v"))), sum("b", true, point(2))))
	f.Add([]byte{0x0a, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRig(t)
		_ = r.push(1, batch.None, b, false)
		r.shown()
	})
}
