package server

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a handler for each of a few keys; nil fields answer with defaults.
type fake struct {
	table    Table
	produce  func(ctx context.Context, r *Request, req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) error
	fetch    func(ctx context.Context, r *Request, req *kmsg.FetchRequest, resp *kmsg.FetchResponse) error
	metadata func(ctx context.Context, r *Request, req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) error
}

func (f *fake) apiVersions(_ context.Context, r *Request, req *kmsg.ApiVersionsRequest, resp *kmsg.ApiVersionsResponse) error {
	r.Conn.SoftwareName = req.ClientSoftwareName
	for _, a := range f.table.Advertised() {
		row := kmsg.NewApiVersionsResponseApiKey()
		row.ApiKey, row.MinVersion, row.MaxVersion = a.Key, a.Min, a.Max
		resp.ApiKeys = append(resp.ApiKeys, row)
	}
	return nil
}

func (f *fake) onProduce(ctx context.Context, r *Request, req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) error {
	if f.produce == nil {
		return nil
	}
	return f.produce(ctx, r, req, resp)
}

func (f *fake) onFetch(ctx context.Context, r *Request, req *kmsg.FetchRequest, resp *kmsg.FetchResponse) error {
	if f.fetch == nil {
		return nil
	}
	return f.fetch(ctx, r, req, resp)
}

func (f *fake) onMetadata(ctx context.Context, r *Request, req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) error {
	if f.metadata == nil {
		id := "fake"
		resp.ClusterID = &id
		return nil
	}
	return f.metadata(ctx, r, req, resp)
}

func (f *fake) Table() Table {
	f.table = NewTable(
		On(3, 13, f.onProduce),
		On(4, 18, f.onFetch),
		On(0, 13, f.onMetadata),
		On(0, 4, f.apiVersions),
	)
	return f.table
}

// start runs a server for the test and returns it; it is stopped at the end.
func start(t testing.TB, f *fake, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{Listeners: []Listener{{Name: "PLAINTEXT", Address: "127.0.0.1:0"}}}
	if change != nil {
		change(&cfg)
	}
	s := New(cfg, f.Table())
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	t.Cleanup(func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	})
	return s
}

func dial(t testing.TB, s *Server) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr("PLAINTEXT").String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	return nc
}

func write(t testing.TB, nc net.Conn, frames ...[]byte) {
	t.Helper()
	if _, err := nc.Write(slices.Concat(frames...)); err != nil {
		t.Fatal(err)
	}
}

func frame(req kmsg.Request, version int16, correlation int32) []byte {
	req.SetVersion(version)
	return wire.AppendRequest(nil, req, correlation, nil)
}

// expect reads one answer to a request of a version.
func expect[R kmsg.Response](t testing.TB, nc net.Conn, version int16, correlation int32, resp R) R {
	t.Helper()
	b, err := wire.ReadFrame(nc, 1<<20, nil)
	if err != nil {
		t.Fatalf("answer %d: %v", correlation, err)
	}
	resp.SetVersion(version)
	got, err := wire.ParseResponse(b, resp)
	if err != nil {
		t.Fatal(err)
	}
	if got != correlation {
		t.Fatalf("answer %d where %d was due", got, correlation)
	}
	return resp
}

// expectEnd demands that the server closes without another byte.
func expectEnd(t testing.TB, nc net.Conn) {
	t.Helper()
	n, err := nc.Read(make([]byte, 1))
	if n > 0 || err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %d bytes and %v where the end was due", n, err)
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		t.Fatal("the connection stayed open")
	}
}

func TestApiVersionsAnswersAtEveryVersion(t *testing.T) {
	s := start(t, &fake{}, nil)
	nc := dial(t, s)
	for v := int16(0); v <= 4; v++ {
		write(t, nc, frame(kmsg.NewPtrApiVersionsRequest(), v, int32(v)))
		resp := expect(t, nc, v, int32(v), kmsg.NewPtrApiVersionsResponse())
		if len(resp.ApiKeys) != 4 || resp.ApiKeys[0].MinVersion != 0 || resp.ApiKeys[0].MaxVersion != 13 {
			t.Fatalf("v%d: %+v", v, resp.ApiKeys)
		}
	}
}

// value reads a counter or gauge.
func value(t testing.TB, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}
