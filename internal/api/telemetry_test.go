package api

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/telemetry/otlp"
)

// telemetryRig is the two handlers over an image that a test changes.
type telemetryRig struct {
	t      *testing.T
	w      *metatest.World
	a      *API
	now    time.Time
	pushed []otlp.Push
	fail   error
}

func newTelemetryRig(t *testing.T) *telemetryRig {
	r := &telemetryRig{t: t, w: metatest.New(), now: time.Unix(1_000_000, 0)}
	r.a = New(Deps{
		Image: func() *meta.Image { return r.w.Img }, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return r.now },
		Telemetry: Telemetry{MaxBytes: 100, Push: func(p otlp.Push) error {
			r.pushed = append(r.pushed, p)
			return r.fail
		}},
	})
	return r
}

func (r *telemetryRig) subscribe(name string, settings ...string) {
	r.t.Helper()
	c := plan.ConfigChange{Set: map[string]string{}}
	for i := 0; i < len(settings); i += 2 {
		c.Set[settings[i]] = settings[i+1]
	}
	txn, ok := plan.ConfigureClientMetrics(r.w.Img, name, c)
	if !ok || !r.w.Do(txn).Succeeded {
		r.t.Fatalf("subscription %s is not stored", name)
	}
}

func (r *telemetryRig) request(conn uint64) *server.Request {
	return &server.Request{ClientID: "app-1", Conn: &server.Conn{
		ID: conn, SoftwareName: "java", SoftwareVersion: "4.4.0", Remote: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4711},
	}}
}

func (r *telemetryRig) get(id [16]byte) *kmsg.GetTelemetrySubscriptionsResponse {
	r.t.Helper()
	req, resp := kmsg.NewGetTelemetrySubscriptionsRequest(), kmsg.NewPtrGetTelemetrySubscriptionsResponse()
	req.ClientInstanceID = id
	if err := r.a.getTelemetrySubscriptions(r.t.Context(), r.request(1), &req, resp); err != nil {
		r.t.Fatal(err)
	}
	return resp
}

func (r *telemetryRig) push(of *kmsg.GetTelemetrySubscriptionsResponse) error {
	r.t.Helper()
	req, resp := kmsg.NewPushTelemetryRequest(), kmsg.NewPtrPushTelemetryResponse()
	req.ClientInstanceID, req.SubscriptionID, req.CompressionType, req.Metrics = of.ClientInstanceID, of.SubscriptionID, 4, []byte("pushed")
	if err := r.a.pushTelemetry(r.t.Context(), r.request(1), &req, resp); err != nil {
		r.t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// Subscriptions are those of the newest image, each client's its own.
func TestTelemetrySubscriptions(t *testing.T) {
	r := newTelemetryRig(t)
	first := r.get([16]byte{})
	if len(first.RequestedMetrics) != 0 {
		t.Fatalf("asked for %v without a subscription", first.RequestedMetrics)
	}
	r.subscribe("mine", "metrics", "b.,a.", "interval.ms", "500", "match", "client_source_address=10\\..*,client_source_port=4711,client_software_name=java")
	r.subscribe("others", "metrics", "*", "match", "client_id=other")
	r.subscribe("broken", "metrics", "*", "match", "client_id=(?=java)")
	if err := r.push(first); err != kerr.UnknownSubscriptionID {
		t.Errorf("push by the old subscriptions: %v", err)
	}
	now := r.get(first.ClientInstanceID)
	if !slices.Equal(now.RequestedMetrics, []string{"a.", "b."}) || now.PushIntervalMillis != 500 || now.ClientInstanceID != first.ClientInstanceID {
		t.Fatalf("asked %+v", now)
	}
	r.now = r.now.Add(500 * time.Millisecond)
	if err := r.push(now); err != nil || len(r.pushed) != 1 {
		t.Fatalf("push: %v, %d taken", err, len(r.pushed))
	}
	p := r.pushed[0]
	if p.Interval != 500*time.Millisecond || string(p.Metrics) != "pushed" || p.Client.ClientID != "app-1" || p.Client.Address != "10.0.0.1" {
		t.Errorf("pushed %+v", p)
	}
	r.now, r.fail = r.now.Add(time.Second), errors.New("garbage")
	if err := r.push(now); err != kerr.InvalidRecord {
		t.Errorf("push that cannot be read: %v", err)
	}
	end, _ := plan.ConfigureClientMetrics(r.w.Img, "mine", plan.ConfigChange{Remove: []string{"metrics", "interval.ms", "match"}})
	r.w.Do(end)
	if left := r.get(first.ClientInstanceID); left.ErrorCode != 0 || len(left.RequestedMetrics) != 0 || left.PushIntervalMillis != 300000 {
		t.Errorf("after its end %+v", left)
	}
}

func TestAddressAsJavaWritesIt(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "::1": "0:0:0:0:0:0:0:1", "fe80::12:ab": "fe80:0:0:0:0:0:12:ab",
	} {
		if got := javaAddress(netip.MustParseAddr(in)); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}
