package api

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the handlers. Requests, bytes and latencies are the server's.
type Metrics struct {
	recordBytesOut prometheus.Counter
	fetchSessions  prometheus.Gauge
}

// NewMetrics makes the collectors and registers them, where there is a registry.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		recordBytesOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "barnabas_fetch_record_bytes_total", Help: "Bytes of record batches in Fetch answers.",
		}),
		fetchSessions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "barnabas_fetch_sessions", Help: "Open incremental fetch sessions.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.recordBytesOut, m.fetchSessions)
	}
	return m
}

func (m *Metrics) fetched(items []*fetchItem, sessions int) {
	n := 0
	for _, it := range items {
		n += it.read.SizeBytes
	}
	m.recordBytesOut.Add(float64(n))
	m.fetchSessions.Set(float64(sessions))
}
