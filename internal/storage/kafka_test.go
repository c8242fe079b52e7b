package storage

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// TestDumpLogSegments lets Apache Kafka's own tool read the files. It needs
// its jars: BARNABAS_KAFKA_CLASSPATH, as java -cp takes it.
func TestDumpLogSegments(t *testing.T) {
	cp := os.Getenv("BARNABAS_KAFKA_CLASSPATH")
	if cp == "" {
		t.Skip("BARNABAS_KAFKA_CLASSPATH is not set")
	}
	dir := t.TempDir()
	b := openBox(t, vfs.Real, managerConfig(dir), true)
	cfg := testConfig()
	cfg.SegmentBytes, cfg.IndexIntervalBytes = 8_000, 500
	l := b.log(cfg)
	producer := func(seq int32) *batch.Producer { return &batch.Producer{ID: 9, Epoch: 1, Sequence: seq} }
	for i := range int32(120) {
		o := batch.Options{Producer: producer(2 * i), Transactional: true, Encoding: batch.Encoding{Codec: batch.Codec(i % 5)}}
		recs := values(2, strings.Repeat("v", 300))
		recs[0].ts, recs[1].ts = int64(1000+10*i), int64(1000+9*i)
		if _, err := l.Append(testAt, makeBatch(t, o, recs...), 3, FromClient); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			m := batch.AppendMarker(nil, batch.Marker{ProducerID: 9, ProducerEpoch: 1, Commit: i%20 == 9}, int64(1000+10*i))
			if _, err := l.Append(testAt, m, 3, FromCoordinator); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Truncate(l.End() - 4); err != nil {
		t.Fatal(err)
	}
	if err := l.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	end := l.End()
	b.close()
	names, err := filepath.Glob(filepath.Join(dir, "t-0", "0*"))
	if err != nil || len(names) < 15 {
		t.Fatalf("files %v %v", names, err)
	}
	dump := func(args ...string) string {
		args = append([]string{"-cp", cp, "org.apache.kafka.tools.DumpLogSegments"}, args...)
		out, err := exec.Command("java", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	out := dump("--deep-iteration", "--files", strings.Join(names, ","))
	for _, bad := range []string{"ismatch", "not found", "xception", "corrupt", "isvalid: false", "Found timestamp", "must"} {
		if i := strings.Index(out, bad); i >= 0 {
			t.Errorf("the tool complains: %s", out[max(0, i-300):min(len(out), i+300)])
		}
	}
	if n := strings.Count(out, "isvalid: true"); n < 125 {
		t.Errorf("%d batches found", n)
	}
	for _, want := range []string{"producerId: 9 producerEpoch: 1", "endTxnMarker: ABORT", "version: 0 producerId: 9", "timestamp: "} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing of %q in the output", want)
		}
	}
	if out := dump("--index-sanity-check", "--files", strings.Join(names, ",")); !strings.Contains(out, "passed sanity check") {
		t.Errorf("sanity check: %s", out)
	}
	b = openBox(t, vfs.Real, managerConfig(dir), false)
	if l, _ := b.m.Get(testTP); l.End() != end {
		t.Errorf("end %d, want %d: %v", l.End(), end, kerr.UnknownServerError)
	}
	b.close()
}
