package storage

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	syncSeconds  prometheus.Histogram
	offlineDirs  prometheus.Gauge
	fullDirs     prometheus.Gauge
	logs         prometheus.Gauge
	openFiles    prometheus.GaugeFunc
	deletedFiles prometheus.Counter
	cutBytes     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, open func() float64) *metrics {
	m := &metrics{
		syncSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "barnabas_log_sync_seconds",
			Help: "Time from the start of a log's group sync to its end.", Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12)}),
		offlineDirs: prometheus.NewGauge(prometheus.GaugeOpts{Name: "barnabas_log_directories_offline",
			Help: "Log directories taken offline by an I/O error."}),
		fullDirs: prometheus.NewGauge(prometheus.GaugeOpts{Name: "barnabas_log_directories_full",
			Help: "Log directories below the low-water mark, which refuse writes."}),
		logs: prometheus.NewGauge(prometheus.GaugeOpts{Name: "barnabas_logs", Help: "Open partition logs."}),
		openFiles: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "barnabas_log_open_files",
			Help: "Open data files of segments."}, open),
		deletedFiles: prometheus.NewCounter(prometheus.CounterOpts{Name: "barnabas_log_segments_deleted_total",
			Help: "Segments whose files were deleted."}),
		cutBytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "barnabas_log_recovery_cut_bytes_total",
			Help: "Bytes cut from the ends of logs by recovery."}),
	}
	if reg != nil {
		reg.MustRegister(m.syncSeconds, m.offlineDirs, m.fullDirs, m.logs, m.openFiles, m.deletedFiles, m.cutBytes)
	}
	return m
}
