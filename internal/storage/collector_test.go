package storage

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// The state of a log is told under its topic and partition.
func TestLogMetrics(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/d"), true)
	l := b.log(testConfig())
	b.append(l, values(3, "v")...)
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(newLogCollector(b.m))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if n := len(m.Label); n != 2 {
				t.Errorf("%s has %d labels", f.GetName(), n)
			}
			got[f.GetName()] = m.Gauge.GetValue()
		}
	}
	for name, want := range map[string]float64{
		"barnabas_log_size_bytes": float64(l.Size()), "barnabas_log_segments": 1, "barnabas_log_start_offset": 0,
		"barnabas_log_end_offset": 3, "barnabas_log_flushed_offset": 3, "barnabas_log_high_watermark": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
}
