package otlp

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Why points of a push are not shown.
const (
	dropType     = "type"     // a histogram or a summary
	dropName     = "name"     // none, or too long
	dropValue    = "value"    // none, or a counter that falls
	dropConflict = "conflict" // the name is that of another type already
	dropRoom     = "room"     // too many series
)

// stats are the Store's own metrics.
type stats struct {
	taken, unreadable prometheus.Counter
	pushes            *prometheus.CounterVec
	dropped           *prometheus.CounterVec
	clients, series   *prometheus.Desc
}

func newStats() *stats {
	s := &stats{
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "barnabas_telemetry_pushes_total", Help: "Pushes of client metrics that were admitted, by whether they could be read.",
		}, []string{"result"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "barnabas_telemetry_dropped_total", Help: "Points of pushed client metrics that are not shown, by reason.",
		}, []string{"reason"}),
		clients: prometheus.NewDesc("barnabas_telemetry_clients", "Clients whose pushed metrics are shown.", nil, nil),
		series:  prometheus.NewDesc("barnabas_telemetry_series", "Series of pushed client metrics.", nil, nil),
	}
	s.taken, s.unreadable = s.pushes.WithLabelValues("taken"), s.pushes.WithLabelValues("unreadable")
	return s
}

func (s *stats) drop(reason string, n int) {
	if n > 0 {
		s.dropped.WithLabelValues(reason).Add(float64(n))
	}
}

// Describe implements prometheus.Collector: what clients push is not known
// before, so nothing is described.
func (s *Store) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. The lock is not held while the
// scrape reads.
func (s *Store) Collect(out chan<- prometheus.Metric) {
	now := s.now()
	s.mu.Lock()
	s.swept = time.Time{}
	s.sweep(now)
	all := make([]prometheus.Metric, 0, s.series)
	for _, c := range s.clients {
		for _, one := range c.series {
			if m, err := prometheus.NewConstMetric(one.shape.desc, one.kind.typ, one.value, one.vals...); err == nil {
				all = append(all, m)
			}
		}
	}
	clients := len(s.clients)
	s.mu.Unlock()
	for _, m := range all {
		out <- m
	}
	out <- prometheus.MustNewConstMetric(s.stats.clients, prometheus.GaugeValue, float64(clients))
	out <- prometheus.MustNewConstMetric(s.stats.series, prometheus.GaugeValue, float64(len(all)))
	s.stats.pushes.Collect(out)
	s.stats.dropped.Collect(out)
}
