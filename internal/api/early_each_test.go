package api

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// Each request waits for the metadata at the start, but for those that ask a
// broker about itself alone (safety 36).
func TestEachRequestWaits(t *testing.T) {
	itself := []string{"DescribeLogDirs", "GetTelemetrySubscriptions", "PushTelemetry"}
	waits := make(chan struct{}, 1)
	now := time.Now() // it stays early
	a := New(Deps{
		Now:   func() time.Time { return now },
		Image: func() *meta.Image { return meta.Empty("c") }, Log: slog.New(slog.DiscardHandler),
		// What the handler does next is not meant here: the server closes the
		// connection of one that panics.
		Await: func(context.Context, int64) error { waits <- struct{}{}; panic("it waits") },
	})
	ask, stop := serve(t, a)
	defer stop()
	for _, served := range a.Table().Served() {
		name := kmsg.NameForKey(served.Key)
		if slices.Contains(itself, name) {
			itself = slices.DeleteFunc(itself, func(n string) bool { return n == name })
			continue
		}
		req := kmsg.RequestForKey(served.Key)
		req.SetVersion(served.Max)
		if d, ok := req.(interface{ Default() }); ok {
			d.Default()
		}
		if p, ok := req.(*kmsg.ProduceRequest); ok {
			p.Acks = 1 // or no answer comes
		}
		_, err := ask(req)
		select {
		case <-waits:
		default:
			t.Errorf("%s does not wait: %v", name, err)
		}
	}
	if len(itself) > 0 {
		t.Errorf("%v: nobody serves that", itself)
	}
}

// serve has a server answer for a; ask sends a request over a connection of its own.
func serve(t *testing.T, a *API) (ask func(kmsg.Request) (kmsg.Response, error), stop func()) {
	t.Helper()
	pipe := server.NewPipe()
	s := server.New(server.Config{Listeners: []server.Listener{{Name: "PLAINTEXT", Net: pipe}}, Logger: slog.New(slog.DiscardHandler)}, a.Table())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ask = func(req kmsg.Request) (kmsg.Response, error) {
		nc, err := pipe.Dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c := wire.NewClient(nc, wire.ClientOptions{})
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		return c.Do(ctx, req)
	}
	return ask, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
