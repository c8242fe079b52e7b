package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPages(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "barnabas_test_total", Help: "A test."})
	reg.MustRegister(c)
	c.Add(3)
	var missing error
	s := New(Config{Gatherer: reg, Ready: func() error { return missing }, Healthy: func() error { return nil }})
	s.Handle("GET /extra", http.RedirectHandler("/", http.StatusFound))
	for _, c := range []struct {
		method, path string
		missing      error
		code         int
		want         string
	}{
		{"GET", "/", nil, 200, "metrics"},
		{"GET", "/healthz", nil, 200, "healthy"},
		{"GET", "/readyz", nil, 200, "ready"},
		{"GET", "/readyz", errors.New("recovering logs: 3 of 10"), 503, "recovering logs: 3 of 10"},
		{"GET", "/healthz", errors.New("not ready"), 200, "healthy"},
		{"GET", "/metrics", nil, 200, "barnabas_test_total 3"},
		{"GET", "/debug/pprof/", nil, 200, "goroutine"},
		{"GET", "/debug/pprof/cmdline", nil, 200, ""},
		{"GET", "/extra", nil, 302, ""},
		{"POST", "/readyz", nil, 405, ""},
		{"GET", "/nothing", nil, 404, ""},
	} {
		missing = c.missing
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, w.Code, w.Body, c.code, c.want)
		}
	}
	w := httptest.NewRecorder()
	New(Config{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 404 {
		t.Errorf("without a gatherer: %d", w.Code)
	}
}

func TestRun(t *testing.T) {
	s := New(Config{Address: "127.0.0.1:0"})
	addr, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	resp, err := http.Get("http://" + addr.String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != 200 || string(body) != "ready\n" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	http.DefaultClient.CloseIdleConnections()

	taken := New(Config{Address: addr.String()})
	if err := taken.Run(ctx); err == nil || !strings.Contains(err.Error(), "barnabas.admin.listener") {
		t.Errorf("a taken port: %v", err)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Errorf("run: %v", err)
	}
	if _, err := http.Get("http://" + addr.String() + "/readyz"); err == nil {
		t.Error("the port is open after Run")
	}
}
