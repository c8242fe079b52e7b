package cli

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A quantile is at most a 64th above the true one, and never below it.
func TestHistogramQuantiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	var h histogram
	var all []time.Duration
	for range 10000 {
		d := time.Duration(math.Exp(rnd.Float64() * math.Log(float64(time.Minute))))
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.0001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[int(math.Ceil(q*float64(len(all))))-1]
		if got := h.quantile(q); got < want || float64(got) > float64(want)*(1+1.0/64)+1 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if h.min != all[0] || h.max != all[len(all)-1] || h.count != 10000 {
		t.Errorf("min %v max %v count %d", h.min, h.max, h.count)
	}
	var n int64
	last := time.Duration(0)
	for _, r := range h.rows() {
		if r.UpTo <= last {
			t.Errorf("rows do not rise: %v after %v", r.UpTo, last)
		}
		n, last = n+r.Count, r.UpTo
	}
	if n != 10000 || last < h.max {
		t.Errorf("the rows hold %d up to %v", n, last)
	}
}

func TestHistogramBounds(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 || h.mean() != 0 || len(h.rows()) != 0 {
		t.Error("an empty histogram is not empty")
	}
	for _, d := range []time.Duration{-1, 0, 1, 127, 128, 129, time.Hour, math.MaxInt64} {
		h.add(d)
	}
	if h.count != 8 || h.quantile(1) != math.MaxInt64 || h.quantile(0.125) != 0 {
		t.Errorf("count %d, quantiles %v %v", h.count, h.quantile(1), h.quantile(0.125))
	}
	for i := range bucket(longest) {
		if upper(i) >= upper(i+1) || bucket(upper(i)) != i {
			t.Fatalf("bucket %d ends at %v, which is in bucket %d", i, upper(i), bucket(upper(i)))
		}
	}
}

func TestPerfLine(t *testing.T) {
	m := newMeter()
	m.add(100, 1<<20)
	m.took(2 * time.Millisecond)
	if got := m.line(); !regexp.MustCompile(`^ +0s +[0-9]+ records/s +[0-9.]+ .iB/s  p50 2.0.. ms  p99 2.0.. ms  max 2.000 ms$`).MatchString(got) {
		t.Errorf("%q", got)
	}
	if got := m.line(); !strings.Contains(got, "  0 records/s") || strings.Contains(got, "p50") {
		t.Errorf("a second in which nothing came: %q", got)
	}
}

func TestPerf(t *testing.T) {
	addr := fakeCluster(t)
	measure := func(args ...string) (m measured) {
		t.Helper()
		code, out, errs := run(t, "", append([]string{"perf", "-b", addr, "-o", "json"}, args...)...)
		if code != 0 || errs != "" {
			t.Fatalf("%q: exit %d, %s", args, code, errs)
		}
		if err := json.Unmarshal([]byte(out), &m); err != nil {
			t.Fatal(err)
		}
		var n int64
		for _, r := range m.Rows {
			n += r.Count
		}
		if m.Records > 0 && (n == 0 || m.Latency.P50 <= 0 || m.Latency.Max < m.Latency.P99 || m.RecordRate <= 0) {
			t.Errorf("%q: %+v", args, m)
		}
		return m
	}
	if m := measure("produce", "t", "-n", "500", "-s", "100", "--clients", "3", "-z", "lz4", "--keys", "7"); m.Records != 500 || m.Bytes < 500*104 || m.Clients != 3 {
		t.Errorf("%+v", m)
	}
	if m := measure("produce", "t", "--time", "300ms", "--rate", "100", "-a", "1", "-p", "0"); m.Records < 5 || m.Records > 60 {
		t.Errorf("at 100 a second, %d in 300 ms", m.Records)
	}
	if m := measure("consume", "t", "-n", "400"); m.Records != 400 {
		t.Errorf("%+v", m)
	}
	if m := measure("consume", "t", "--clients", "2"); m.Records < 505 {
		t.Errorf("%+v", m)
	}
	if m := measure("consume", "t", "--follow", "-t", "200ms"); m.Records < 505 || m.Seconds < 0.2 {
		t.Errorf("%+v", m)
	}
	if m := measure("e2e", "t", "-n", "20", "-r", "1000", "-s", "16"); m.Records != 20 || m.Bytes != 20*16 {
		t.Errorf("%+v", m)
	}
	code, out, errs := run(t, "", "perf", "produce", "t", "-n", "50", "-b", addr)
	if code != 0 || errs != "" || !strings.Contains(out, "  50 in ") || !strings.Contains(out, "p99.9 ") || !strings.Contains(out, "###") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	expect(t, 1, []string{"perf", "consume", "none", "-b", addr}, "topic none: ", "UNKNOWN_TOPIC_OR_PARTITION")
	for _, c := range []struct{ args, want string }{
		{"produce t --clients 0", "--clients must be from 1"}, {"produce t -s -1", "--size must be from 0"}, {"e2e t -s 15", "--size must be from 16"},
		{"e2e t --payload x", "leave out --payload"}, {"consume t -o yaml", "--output must be text or json"}, {"produce t --payload none", "no such file"},
		{"produce t -n -1", "must not be negative"}, {"produce t -z best", "the codec must be"}, {"produce t --rate -1", "must not be negative"},
	} {
		expect(t, 2, append([]string{"perf", "-b", addr}, strings.Fields(c.args)...), c.want)
	}
}
