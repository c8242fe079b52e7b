package brokertest_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// max.connections counts for connections to come as soon as it is set, and who
// waited for room is served once it is taken away.
func TestDynamicMaxConnections(t *testing.T) {
	b := brokertest.Start(t)
	for _, of := range []string{"", "1"} {
		p := dial(t, b)
		if !answers(t, b) {
			t.Fatal("a second connection is not served before it is set")
		}
		p.change(ofBroker, of, "max.connections", text("1"))
		r := dialRaw(t, b)
		r.send(request(kmsg.NewPtrApiVersionsRequest(), 1))
		if err := r.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a second connection is answered, or ended: %v", err)
		}
		p.change(ofBroker, of, "max.connections", nil)
		if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if id, _ := r.answer(); id != 1 {
			t.Errorf("answer to %d", id)
		}
		_ = p.c.Close()
	}
}

func TestDynamicConnectionRate(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	took := func(n int) time.Duration {
		began := time.Now()
		for range n {
			if !answers(t, b) {
				t.Fatal("not answered")
			}
		}
		return time.Since(began)
	}
	p.change(ofBroker, "", "max.connection.creation.rate", text("5"))
	if d := took(15); d < time.Second {
		t.Errorf("15 connections at 5 a second took %v", d)
	}
	p.change(ofBroker, "1", "max.connection.creation.rate", text("10000")) // this broker's own is the stronger
	if d := took(50); d > 5*time.Second {
		t.Errorf("50 connections at 10000 a second took %v", d)
	}
	p.change(ofBroker, "1", "max.connection.creation.rate", nil)
	if d := took(15); d < time.Second {
		t.Errorf("15 connections at 5 a second again took %v", d)
	}
}

// Records that were to be kept for ever are deleted once the retention of all
// topics is another one; a topic of its own mind keeps them.
func TestDynamicRetention(t *testing.T) {
	for key, value := range map[string]string{"log.retention.ms": "3600000", "log.retention.bytes": "1000"} {
		b := brokertest.Start(t, brokertest.Set("log.retention.check.interval.ms", "50"), brokertest.Set("log.segment.bytes", "1048576"),
			brokertest.Set("log.retention.ms", "-1"))
		p := dial(t, b)
		p.create("t", 1)
		p.create("kept", 1, "retention.ms=-1", "retention.bytes=-1")
		p.create("short", 1, "retention.ms=1000")
		for _, topic := range []string{"t", "kept", "short"} {
			for range 4 {
				p.write(topic, records(strings.Repeat("x", 600_000)))
			}
		}
		start := func(topic string) int64 { return p.list(topic, 0, -2).Offset }
		until(t, "the deletion of what is kept for a second", func() bool { return start("short") > 0 })
		if at := start("t"); at != 0 {
			t.Fatalf("deleted to %d before %s is set", at, key)
		}
		p.change(ofBroker, "", key, &value)
		until(t, "the deletion by "+key, func() bool { return start("t") > 0 })
		if at := start("kept"); at != 0 {
			t.Errorf("%s: deleted to %d against the topic's own setting", key, at)
		}
	}
}
