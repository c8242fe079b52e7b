package etcdstore

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// metrics of a Store.
type metrics struct {
	txns      *prometheus.HistogramVec // by outcome
	noSpace   prometheus.Gauge
	defrags   prometheus.Counter
	ballast   prometheus.Gauge
	syncP99   prometheus.Gauge
	walSync   prometheus.Metric // etcd's own histogram; nil when this etcd has none by that name
	dbSize    prometheus.GaugeFunc
	dbInUse   prometheus.GaugeFunc
	collector syncCollector
}

func newMetrics(s *Store, reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	ofMember := func(name, help string, read func(*member) int64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			m := s.member.Load()
			if m == nil {
				return 0
			}
			return float64(read(m))
		})
	}
	m := &metrics{
		txns: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "barnabas_metadata_transaction_seconds",
			Help:    "Time of metadata transactions by outcome: done, refused, maybe.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"outcome"}),
		noSpace: gauge("barnabas_metadata_quota_alarm", "1 while the metadata store refuses writes because it is over its quota."),
		defrags: prometheus.NewCounter(prometheus.CounterOpts{Name: "barnabas_metadata_defrags_total", Help: "Times the metadata file was rewritten without its holes."}),
		ballast: gauge("barnabas_metadata_ballast_bytes", "Size of the file kept against a full disk; 0 when it was given up."),
		syncP99: gauge("barnabas_metadata_wal_sync_p99_seconds", "99th percentile of the metadata log's syncs in the last round of care."),
		dbSize:  ofMember("barnabas_metadata_file_bytes", "Size of the metadata file.", func(m *member) int64 { return m.etcd.Server.Backend().Size() }),
		dbInUse: ofMember("barnabas_metadata_file_used_bytes", "Bytes in use in the metadata file.", func(m *member) int64 { return m.etcd.Server.Backend().SizeInUse() }),
		walSync: etcdSyncHistogram(),
	}
	m.collector = syncCollector{source: m.walSync, desc: prometheus.NewDesc("barnabas_metadata_wal_sync_seconds", "Time of the metadata log's syncs.", nil, nil)}
	if reg != nil {
		reg.MustRegister(m.txns, m.noSpace, m.defrags, m.ballast, m.syncP99, m.dbSize, m.dbInUse, m.collector)
	}
	return m
}

func (m *metrics) observe(start time.Time, err error) {
	outcome := "done"
	switch {
	case errors.Is(err, metastore.ErrMaybe):
		outcome = "maybe"
	case err != nil:
		outcome = "refused"
	}
	m.txns.WithLabelValues(outcome).Observe(time.Since(start).Seconds())
}

// etcdSyncHistogram finds the histogram that etcd registered with the default
// registry: registering one of the same description hands out the existing one.
func etcdSyncHistogram() prometheus.Metric {
	probe := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "etcd_disk_wal_fsync_duration_seconds",
		Help: "The latency distributions of fsync called by WAL.",
	})
	err := prometheus.DefaultRegisterer.Register(probe)
	var dup prometheus.AlreadyRegisteredError
	if errors.As(err, &dup) {
		if m, ok := dup.ExistingCollector.(prometheus.Metric); ok {
			return m
		}
	}
	if err == nil {
		prometheus.DefaultRegisterer.Unregister(probe)
	}
	return nil
}

// syncState is a histogram at an instant.
type syncState struct {
	count   uint64
	sum     float64
	buckets map[float64]uint64 // cumulative
}

func readHistogram(m prometheus.Metric) (syncState, bool) {
	var d dto.Metric
	if m == nil || m.Write(&d) != nil || d.Histogram == nil {
		return syncState{}, false
	}
	st := syncState{count: d.Histogram.GetSampleCount(), sum: d.Histogram.GetSampleSum(), buckets: map[float64]uint64{}}
	for _, b := range d.Histogram.Bucket {
		st.buckets[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	return st, true
}

// syncCollector shows etcd's histogram under our name.
type syncCollector struct {
	source prometheus.Metric
	desc   *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c syncCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c syncCollector) Collect(ch chan<- prometheus.Metric) {
	if st, ok := readHistogram(c.source); ok {
		ch <- prometheus.MustNewConstHistogram(c.desc, st.count, st.sum, st.buckets)
	}
}
