//go:build interop

package interop

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestProducerPerformance runs Apache Kafka's kafka-producer-perf-test, with
// its defaults (idempotent, acks=all), and counts what arrived.
func TestProducerPerformance(t *testing.T) {
	addr := target(t)
	records := 100_000
	if full() {
		records = 1_000_000
	}
	topic := createTopic(t, addr, "perf", partitions, nil)
	out := javaRun(t, "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", strconv.Itoa(records),
		"--record-size", "1000", "--throughput", "-1", "--command-property", "bootstrap.servers="+addr)
	summary := regexp.MustCompile(`(\d+) records sent, .*max latency`).FindAllStringSubmatch(out, -1)
	if len(summary) == 0 {
		t.Fatalf("no summary:\n%s", lastBytes(out))
	}
	t.Log(lastLine(out))
	if n := summary[len(summary)-1][1]; n != strconv.Itoa(records) {
		t.Errorf("%s records sent, want %d", n, records)
	}
	ends, err := admin(t, addr).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	var stored int64
	ends.Each(func(o kadm.ListedOffset) { stored += o.Offset })
	if stored != int64(records) {
		t.Errorf("%d records stored, want %d", stored, records)
	}
}
