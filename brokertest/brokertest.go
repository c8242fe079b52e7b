// Package brokertest gives a Go test a broker of its own: the real one, with
// its own port and its own temporary directory, gone with the test.
//
//	func TestMine(t *testing.T) {
//		b := brokertest.Start(t)
//		client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
//		...
//
// Nothing needs to be installed beside it, and tests may start as many as they
// like, in parallel.
package brokertest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/broker"
)

// startTimeout bounds how long a broker may take to serve, on a machine that
// runs many tests at once.
const startTimeout = time.Minute

// Broker is a broker that runs within a test. Its methods may be called from
// any goroutine; those that fail the test, from the test's own.
type Broker struct {
	t   testing.TB
	dir string
	set []string
	log *slog.Logger

	b      *broker.Broker
	cancel context.CancelFunc
	done   chan error
}

// Option changes how Start starts a broker.
type Option func(*Broker)

// Set gives a broker a setting, as in a properties file.
func Set(key, value string) Option {
	return func(b *Broker) { b.set = append(b.set, key+"="+value) }
}

// Dir puts a broker's data into a directory that outlives the test's broker.
func Dir(path string) Option { return func(b *Broker) { b.dir = path } }

// Log has a broker log there instead of nowhere.
func Log(l *slog.Logger) Option { return func(b *Broker) { b.log = l } }

// Start starts a broker that stops with the test. Its settings are the
// defaults, but for a free port, a temporary directory, no admin listener, no
// delay before a group's first rebalance, and page-cache acks: a test's data
// need not survive the machine. Set brings any of it back.
func Start(t testing.TB, opts ...Option) *Broker {
	t.Helper()
	b := prepare(t, opts)
	b.start()
	return b
}

// prepare is all of Start but starting.
func prepare(t testing.TB, opts []Option) *Broker {
	t.Helper()
	b := &Broker{t: t, log: slog.New(slog.DiscardHandler)}
	b.set = []string{
		"listeners=PLAINTEXT://127.0.0.1:0",
		"barnabas.admin.listener=",
		"barnabas.durable.acks=false",
		"group.initial.rebalance.delay.ms=0",
	}
	for _, o := range opts {
		o(b)
	}
	if b.dir == "" {
		b.dir = tempDir(t)
	}
	if strings.Contains(b.dir, ",") {
		t.Fatalf("brokertest: %s: a comma ends a directory's name in log.dirs", b.dir)
	}
	b.set = append(b.set, "log.dirs="+b.dir)
	t.Cleanup(b.Stop)
	return b
}

// tempDir is t.TempDir, whose name has that of the test in it, without what a
// subtest's name may bring along.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "barnabas-test-")
	if err != nil {
		t.Fatalf("brokertest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("brokertest: %v", err)
		}
	})
	return dir
}

func (b *Broker) start() {
	b.t.Helper()
	b.launch()
	b.Await()
}

// launch begins to start it.
func (b *Broker) launch() {
	b.t.Helper()
	br, err := broker.New(broker.Options{Set: b.set, Logger: b.log})
	if err != nil {
		b.t.Fatalf("brokertest: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.b, b.cancel, b.done = br, cancel, make(chan error, 1)
	go func(done chan<- error) { done <- br.Run(ctx) }(b.done)
}

// Await waits until a broker serves that was launched.
func (b *Broker) Await() {
	b.t.Helper()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-b.b.Ready():
	case err := <-b.done:
		b.cancel()
		b.cancel = nil
		b.t.Fatalf("brokertest: the broker ended at its start: %v", err)
	case <-timeout.C:
		b.t.Fatalf("brokertest: the broker was not ready within %v", startTimeout)
	}
}

// Addr is the host:port to give to clients.
func (b *Broker) Addr() string { return b.b.Addr("PLAINTEXT") }

// DataDir is where the broker's data is.
func (b *Broker) DataDir() string { return b.dir }

// LogDir is where the log of a partition is.
func (b *Broker) LogDir(topicPartition string) string { return filepath.Join(b.dir, topicPartition) }

// Broker is the broker itself.
func (b *Broker) Broker() *broker.Broker { return b.b }

// Stop stops the broker in order: its data is flushed and marked clean. Its
// end with an error fails the test. Stopping twice does nothing.
func (b *Broker) Stop() {
	b.t.Helper()
	if b.cancel == nil {
		return
	}
	b.cancel()
	b.cancel = nil
	if err := <-b.done; err != nil && !errors.Is(err, os.ErrClosed) {
		b.t.Errorf("brokertest: the broker ended with: %v", err)
	}
}

// Wait waits until the broker ends by itself, and gives the reason.
func (b *Broker) Wait() error {
	b.t.Helper()
	select {
	case err := <-b.done:
		b.cancel()
		b.cancel = nil
		return err
	case <-time.After(startTimeout):
		b.t.Fatalf("brokertest: the broker goes on after %v", startTimeout)
		return nil
	}
}

// Restart stops the broker in order and starts it again on the same data, at
// another port.
func (b *Broker) Restart() {
	b.t.Helper()
	b.Stop()
	b.start()
}
