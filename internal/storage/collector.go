package storage

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// logCollector tells the state of every log when it is asked, and costs
// nothing in between: a broker has thousands.
type logCollector struct {
	m                       *Manager
	size, segments          *prometheus.Desc
	start, end, hw, flushed *prometheus.Desc
}

func newLogCollector(m *Manager) logCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("barnabas_log_"+name, help, []string{"topic", "partition"}, nil)
	}
	return logCollector{
		m:        m,
		size:     desc("size_bytes", "Bytes of the log's segments, as readers see them."),
		segments: desc("segments", "Segments of the log."),
		start:    desc("start_offset", "First offset that can be read."),
		end:      desc("end_offset", "Offset that the next record gets."),
		hw:       desc("high_watermark", "Offset below which records are committed."),
		flushed:  desc("flushed_offset", "Offset below which everything is on disk."),
	}
}

// Describe implements prometheus.Collector.
func (c logCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.size, c.segments, c.start, c.end, c.hw, c.flushed} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c logCollector) Collect(ch chan<- prometheus.Metric) {
	for _, l := range c.m.Logs() {
		partition := strconv.Itoa(int(l.tp.Partition))
		tell := func(d *prometheus.Desc, v int64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), l.tp.Topic, partition)
		}
		tell(c.size, l.Size())
		tell(c.segments, int64(l.Segments()))
		tell(c.start, l.Start())
		tell(c.end, l.End())
		tell(c.hw, l.HighWatermark())
		tell(c.flushed, l.FlushedEnd())
	}
}
