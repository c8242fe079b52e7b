package etcdstore

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/metastore/storetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	code := m.Run()
	if code == 0 {
		code = leaks(10 * time.Second)
	}
	os.Exit(code)
}

// leaks gives etcd's connections between peers time for their own end: one that
// was cut in the middle of a request is read from for another 5 s.
func leaks(patience time.Duration) int {
	deadline := time.Now().Add(patience)
	for {
		err := goleak.Find()
		if err == nil {
			return 0
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			return 1
		}
	}
}

// testMember is a small member: no ballast unless a test is about it.
func testMember(t testing.TB) Member {
	return Member{Dir: t.TempDir(), Ballast: -1}
}

// run runs a store until the test's end and waits until it is ready.
func run(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, stop := runUntil(t, cfg)
	t.Cleanup(stop)
	return s
}

func runUntil(t testing.TB, cfg Config) (s *Store, stop func()) {
	t.Helper()
	s, err := New(cfg, testLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		cancel()
		t.Fatalf("store ended: %v", err)
	case <-time.After(10 * time.Second):
		cancel()
		t.Fatal("store is not ready after 10 s")
	}
	stopped := false
	return s, func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("store ended: %v", err)
		}
	}
}

func testLogger(t testing.TB) *slog.Logger {
	level := slog.LevelWarn
	if os.Getenv("ETCDSTORE_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level}))
}

func TestEmbeddedConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) metastore.Store {
		return run(t, Config{Member: testMember(t)})
	})
}
