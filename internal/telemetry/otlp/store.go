package otlp

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/telemetry"
)

// Bounds of what is kept.
const (
	maxSeries       = 100_000 // of all clients
	maxClientSeries = 10_000
	maxText         = 32 << 20 // bytes of names and labels

	keepLeast  = time.Minute
	keepPushes = 3
	sweepEvery = 10 * time.Second
)

// Push is one PushTelemetry request that was admitted.
type Push struct {
	Client      telemetry.Client
	Interval    time.Duration // between its pushes
	Terminating bool          // it is the client's last
	Codec       batch.Codec
	Metrics     []byte // compressed
}

// Store holds the newest values of pushed series. Make it with NewStore.
type Store struct {
	maxBytes int
	now      func() time.Time
	stats    *stats

	mu      sync.Mutex
	clients map[telemetry.ID]*client
	shapes  map[string]*shape
	kinds   map[string]*kind
	series  int
	text    int
	swept   time.Time
	key     []byte // of the series that is looked for
}

// client is the series of one client, by name and labels.
type client struct{ series map[string]*series }

type series struct {
	kind  *kind
	shape *shape
	vals  []string
	value float64
	until time.Time
	text  int
}

// kind is what all series of a name share: Prometheus allows one type for each.
type kind struct {
	name string
	typ  prometheus.ValueType
	used int
}

// shape is what all series of a name with the same labels share.
type shape struct {
	key  string
	desc *prometheus.Desc
	used int
}

// NewStore returns an empty Store. A push opens to maxBytes at most; now is the
// clock, nil for the real one.
func NewStore(maxBytes int, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{
		maxBytes: maxBytes, now: now, stats: newStats(),
		clients: make(map[telemetry.ID]*client), shapes: make(map[string]*shape), kinds: make(map[string]*kind),
	}
}

// MaxBytes is what a push opens to at most.
func (s *Store) MaxBytes() int { return s.maxBytes }

// Push takes a push over. An error says that it cannot be read; nothing of it
// is kept then.
func (s *Store) Push(p Push) error {
	s.mu.Lock() // so that one at a time takes memory
	defer s.mu.Unlock()
	var data *metricspb.MetricsData
	err := batch.Open(p.Codec, p.Metrics, s.maxBytes, func(plain []byte) (err error) {
		data, err = decode(plain)
		return err
	})
	if err != nil {
		s.stats.unreadable.Inc()
		return err
	}
	s.stats.taken.Inc()
	now := s.now()
	s.sweep(now)
	until := now.Add(max(keepLeast, keepPushes*p.Interval))
	c := s.clients[p.Client.ID]
	if c == nil {
		c = &client{series: make(map[string]*series)}
	}
	if p.Terminating {
		until = now.Add(keepLeast)
		for _, old := range c.series {
			old.until = minTime(old.until, until)
		}
	}
	labels := base(&p.Client)
	for _, r := range data.GetResourceMetrics() {
		mine := with(labels, r.GetResource().GetAttributes())
		for _, scope := range r.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				s.metric(c, m, mine, until)
			}
		}
	}
	if len(c.series) > 0 {
		s.clients[p.Client.ID] = c
	}
	return nil
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// metric takes the points of one metric over.
func (s *Store) metric(c *client, m *metricspb.Metric, labels []label, until time.Time) {
	typ, delta := prometheus.GaugeValue, false
	var points []*metricspb.NumberDataPoint
	switch d := m.GetData().(type) {
	case *metricspb.Metric_Gauge:
		points = d.Gauge.GetDataPoints()
	case *metricspb.Metric_Sum:
		points = d.Sum.GetDataPoints()
		delta = d.Sum.GetAggregationTemporality() == metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
		if d.Sum.GetIsMonotonic() {
			typ = prometheus.CounterValue
		}
	default:
		s.stats.drop(dropType, 1)
		return
	}
	name := family(m.GetName(), typ == prometheus.CounterValue)
	if name == "" {
		s.stats.drop(dropName, len(points))
		return
	}
	for _, p := range points {
		value, ok := number(p)
		if !ok || typ == prometheus.CounterValue && !(value >= 0) {
			s.stats.drop(dropValue, 1)
			continue
		}
		one := s.find(c, name, typ, with(labels, p.GetAttributes()))
		if one == nil {
			continue
		}
		if delta {
			value += one.value
		}
		one.value, one.until = value, until
	}
}

func number(p *metricspb.NumberDataPoint) (float64, bool) {
	switch v := p.GetValue().(type) {
	case *metricspb.NumberDataPoint_AsDouble:
		return v.AsDouble, true
	case *metricspb.NumberDataPoint_AsInt:
		return float64(v.AsInt), true
	}
	return 0, false
}

// find finds a series or makes it; nil when there is no room, or the name is
// that of another type.
func (s *Store) find(c *client, name string, typ prometheus.ValueType, labels []label) *series {
	slices.SortFunc(labels, func(a, b label) int { return strings.Compare(a.name, b.name) })
	s.key = append(s.key[:0], name...)
	for _, l := range labels {
		s.key = append(append(append(append(s.key, 0), l.name...), 0), l.value...)
	}
	if one := c.series[string(s.key)]; one != nil && one.kind.typ == typ {
		return one
	}
	return s.add(c, string(s.key), name, typ, labels)
}

// add makes room for a series.
func (s *Store) add(c *client, key, name string, typ prometheus.ValueType, labels []label) *series {
	k := s.kinds[name]
	if k != nil && k.typ != typ {
		s.stats.drop(dropConflict, 1)
		return nil
	}
	cost := 2 * len(key)
	if s.series >= maxSeries || len(c.series) >= maxClientSeries || s.text+cost > maxText {
		s.stats.drop(dropRoom, 1)
		return nil
	}
	if k == nil {
		k = &kind{name: name, typ: typ}
		s.kinds[name] = k
	}
	names := make([]string, len(labels))
	for i, l := range labels {
		names[i] = l.name
	}
	shapeKey := name + "\x00" + strings.Join(names, "\x00")
	sh := s.shapes[shapeKey]
	if sh == nil {
		sh = &shape{key: shapeKey, desc: prometheus.NewDesc(name, "Pushed by clients (KIP-714).", names, nil)}
		s.shapes[shapeKey] = sh
	}
	one := &series{kind: k, shape: sh, text: cost}
	for _, l := range labels {
		one.vals = append(one.vals, l.value)
	}
	k.used, sh.used = k.used+1, sh.used+1
	s.series, s.text = s.series+1, s.text+cost
	c.series[key] = one
	return one
}

// sweep forgets series that are not pushed any more.
func (s *Store) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	for id, c := range s.clients {
		for key, one := range c.series {
			if now.Before(one.until) {
				continue
			}
			delete(c.series, key)
			s.series, s.text = s.series-1, s.text-one.text
			if one.kind.used--; one.kind.used == 0 {
				delete(s.kinds, one.kind.name)
			}
			if one.shape.used--; one.shape.used == 0 {
				delete(s.shapes, one.shape.key)
			}
		}
		if len(c.series) == 0 {
			delete(s.clients, id)
		}
	}
}
