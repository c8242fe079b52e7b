package replica

import "github.com/prometheus/client_golang/prometheus"

// metrics are counted when they are asked for: a partition costs nothing until
// then. The state of its log is told by storage.
type metrics struct {
	m                           *Manager
	hosted, leading, below, bad *prometheus.Desc
}

// Collector tells what the partitions of this broker are at.
func (m *Manager) Collector() prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &metrics{
		m:       m,
		hosted:  desc("barnabas_partitions", "Partitions that this broker has a replica of."),
		leading: desc("barnabas_partitions_leading", "Partitions that this broker leads."),
		below:   desc("barnabas_partitions_under_min_isr", "Partitions led here whose in-sync replicas are fewer than min.insync.replicas."),
		bad:     desc("barnabas_partitions_offline", "Partitions here whose log directory is offline."),
	}
}

// Describe implements prometheus.Collector.
func (c *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.hosted, c.leading, c.below, c.bad} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *metrics) Collect(out chan<- prometheus.Metric) {
	var hosted, leading, below, bad float64
	for _, p := range c.m.All() {
		hosted++
		r := p.role.Load()
		switch {
		case r.failed != nil:
			bad++
		case r.leader:
			leading++
			p.mu.Lock()
			if !p.view.Enough() {
				below++
			}
			p.mu.Unlock()
		}
	}
	for d, v := range map[*prometheus.Desc]float64{c.hosted: hosted, c.leading: leading, c.below: below, c.bad: bad} {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
}
