package coord

import "github.com/prometheus/client_golang/prometheus"

// Metrics of one runtime.
type Metrics struct {
	events, records, appends, dropped prometheus.Counter
	load                              prometheus.Histogram
}

// NewMetrics makes the collectors, labelled with what is coordinated, and
// registers them; reg may be nil.
func NewMetrics(reg prometheus.Registerer, name string) *Metrics {
	labels := prometheus.Labels{"coordinator": name}
	counter := func(metric, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: metric, Help: help, ConstLabels: labels})
	}
	m := &Metrics{
		events:  counter("barnabas_coordinator_commands_total", "Commands that machines of the coordinator took."),
		records: counter("barnabas_coordinator_records_total", "Records written to the internal topic."),
		appends: counter("barnabas_coordinator_appends_total", "Appends to the internal topic: records of several commands go together."),
		dropped: counter("barnabas_coordinator_dropped_total", "Times that a shard's state was dropped and loaded again after a failure."),
		load: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "barnabas_coordinator_load_seconds", Help: "Time to load a shard from its log.",
			ConstLabels: labels, Buckets: []float64{.001, .005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60},
		}),
	}
	if reg != nil {
		reg.MustRegister(m.events, m.records, m.appends, m.dropped, m.load)
	}
	return m
}
