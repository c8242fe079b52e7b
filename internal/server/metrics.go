package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kinds of faults, the label of barnabas_server_faults_total.
const (
	faultTooLarge    = "frame_size"
	faultMalformed   = "malformed"
	faultUnsupported = "unsupported"
	faultEarly       = "before_authentication"
	faultStalled     = "stalled"
	faultIdle        = "idle"
	faultSlow        = "slow_reader"
	faultShort       = "short_answer"
	faultHandler     = "handler_error"
	faultPanic       = "panic"
	faultAccept      = "accept"
	faultRefused     = "refused"
	faultRead        = "read"
	faultWrite       = "write"
)

type metrics struct {
	requests                   *prometheus.CounterVec
	latency                    *prometheus.HistogramVec
	bytesIn, bytesOut          prometheus.Counter
	sendfileCalls              prometheus.Counter
	sendfileBytes, copiedBytes prometheus.Counter
	connections                *prometheus.GaugeVec
	accepted                   *prometheus.CounterVec
	faults                     *prometheus.CounterVec
	throttled                  prometheus.Counter

	byKey []perKey // resolved once: no label look-up for each request
}

type perKey struct {
	requests prometheus.Counter
	latency  prometheus.Observer
}

func newMetrics(reg prometheus.Registerer, t Table, held func() float64) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "barnabas", Subsystem: "server", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "barnabas", Subsystem: "server", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		requests: vec("requests_total", "Requests answered, by API.", "api"),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "barnabas", Subsystem: "server", Name: "request_seconds",
			Help:    "Time from a request's arrival to the end of writing its answer, by API.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 2.5, 14), // 50 us to 7.5 s
		}, []string{"api"}),
		bytesIn:       counter("received_bytes_total", "Bytes of request frames."),
		bytesOut:      counter("sent_bytes_total", "Bytes of answers."),
		sendfileCalls: counter("sendfile_calls_total", "Calls of sendfile(2)."),
		sendfileBytes: counter("sendfile_bytes_total", "Bytes sent from files without passing through memory."),
		copiedBytes:   counter("copied_file_bytes_total", "Bytes sent from files through memory."),
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "barnabas", Subsystem: "server", Name: "connections", Help: "Open connections, by listener.",
		}, []string{"listener"}),
		accepted:  vec("accepted_connections_total", "Connections accepted, by listener.", "listener"),
		faults:    vec("faults_total", "What ended a connection or a request badly, by kind.", "kind"),
		throttled: counter("throttle_seconds_total", "Time for which connections were muted."),
	}
	budget := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "barnabas", Subsystem: "server", Name: "inflight_bytes", Help: "Budgeted bytes of frames in flight.",
	}, held)
	if reg != nil {
		reg.MustRegister(m.requests, m.latency, m.bytesIn, m.bytesOut, m.sendfileCalls, m.sendfileBytes, m.copiedBytes,
			m.connections, m.accepted, m.faults, m.throttled, budget)
	}
	m.byKey = make([]perKey, len(t.entries))
	for key, e := range t.entries {
		if e != nil {
			name := kmsg.NameForKey(int16(key))
			m.byKey[key] = perKey{m.requests.WithLabelValues(name), m.latency.WithLabelValues(name)}
		}
	}
	return m
}

func (m *metrics) answered(e *Entry, d time.Duration) {
	if e == nil {
		return
	}
	m.byKey[e.key].requests.Inc()
	m.byKey[e.key].latency.Observe(d.Seconds())
}

func (m *metrics) fault(kind string) { m.faults.WithLabelValues(kind).Inc() }
