//go:build interop

package interop

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

const fixture = "testdata/kafka-4.4.0"

// partitionDir finds the directory of a partition under the data directory.
func partitionDir(t testing.TB, data, topic string, p int) string {
	t.Helper()
	want := fmt.Sprintf("%s-%d", topic, p)
	var found string
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == want {
			found = path
			return fs.SkipAll
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatalf("no directory %s under %s (%v)", want, data, err)
	}
	return found
}

// complaint is what DumpLogSegments prints about a file that it does not like.
// "-1 is followed by" the base offset is what 4.4.0 says of every good segment
// that does not begin at 0, those of Apache Kafka included.
var complaint = regexp.MustCompile(`(?i)mismatch|exception|not found|^\s*\d+ is followed by|found timestamp|corrupt|isvalid: false|index offset: |fail`)

// TestDumpLogSegments lets Apache Kafka's own tool read what our broker wrote:
// many segments, all indexes, producer snapshots.
func TestDumpLogSegments(t *testing.T) {
	needProcess(t)
	need(t, "kcat")
	l := makeLoad(t)
	dir := workDir(t)
	b := startBroker(t, dir)
	topic := createTopic(t, b.Addr, "dump", partitions, map[string]*string{
		"segment.bytes": kadm.StringPtr("1048576"), "index.interval.bytes": kadm.StringPtr("4096"),
	})
	kcatProduce(t, b.Addr, topic, "none", l.input, "-X", "enable.idempotence=true", "-X", "batch.size=16384")
	b.stop()
	var files []string
	for p := range partitions {
		files = append(files, logFiles(t, partitionDir(t, dir, topic, p))...)
	}
	for _, line := range dump(t, files) {
		t.Error(line)
	}
	counts := map[string]int{}
	for _, f := range files {
		counts[filepath.Ext(f)]++
	}
	t.Logf("read by DumpLogSegments: %v", counts)
	for _, ext := range []string{".log", ".index", ".timeindex", ".snapshot"} {
		if counts[ext] < partitions {
			t.Errorf("%d files %s, want at least one for each partition", counts[ext], ext)
		}
	}
}

// TestDumpComplains damages one file after the other, and so shows that the
// silence of DumpLogSegments means something.
func TestDumpComplains(t *testing.T) {
	if got := dump(t, logFiles(t, filepath.Join(fixture, "codecs-0"))); len(got) > 0 {
		t.Fatalf("undamaged: %q", got)
	}
	for _, c := range []struct {
		file string
		at   int
	}{
		{"00000000000000000000.log", 200}, {"00000000000000000000.index", 6}, {"00000000000000000000.timeindex", 11}, {"00000000000000000059.snapshot", 20},
	} {
		dir := filepath.Join(t.TempDir(), "codecs-0")
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(fixture, "codecs-0"))); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, c.file)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data[c.at] ^= 0x15
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		got := dump(t, logFiles(t, dir))
		if len(got) == 0 {
			t.Errorf("%s damaged at byte %d: no complaint", c.file, c.at)
			continue
		}
		t.Logf("%s: %s", c.file, got[0])
	}
}

func logFiles(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".log", ".index", ".timeindex", ".snapshot", ".txnindex":
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files
}

// dump runs DumpLogSegments over files and gives back its complaints.
func dump(t *testing.T, files []string) []string {
	t.Helper()
	var complaints []string
	for _, mode := range []string{"--deep-iteration", "--index-sanity-check"} {
		out, err := javaTry(t, "org.apache.kafka.tools.DumpLogSegments", mode, "--files", strings.Join(files, ","))
		if err != nil {
			complaints = append(complaints, fmt.Sprintf("%s: %v: %s", mode, err, lastLine(out)))
		}
		for line := range strings.Lines(out) {
			if complaint.MatchString(line) && !strings.Contains(line, "SLF4J") {
				complaints = append(complaints, mode+": "+strings.TrimSpace(line))
			}
		}
		for _, f := range files {
			if err == nil && !strings.Contains(out, f) {
				complaints = append(complaints, mode+": no word about "+f)
			}
		}
	}
	return complaints
}

// TestKafkaPartition puts partition directories that Apache Kafka 4.4.0 wrote
// into the place of empty ones, and reads the same batches from them.
func TestKafkaPartition(t *testing.T) {
	needProcess(t)
	dir := workDir(t)
	b := startBroker(t, dir)
	topics := map[string]string{}
	for _, name := range []string{"codecs", "rolled", "txn"} {
		topics[name] = createTopic(t, b.Addr, name, 1, nil)
	}
	b.stop()
	for name, topic := range topics {
		replacePartition(t, filepath.Join(fixture, name+"-0"), partitionDir(t, dir, topic, 0))
	}
	b = startBroker(t, dir)
	for name, topic := range topics {
		want := fixtureBatches(t, name)
		got := servedBatches(t, b.Addr, topic)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes served, want %d", name, len(got), len(want))
		}
	}
	b.stop()
}

// replacePartition keeps the partition.metadata, with the topic's id, and
// nothing else of the empty directory.
func replacePartition(t *testing.T, from, to string) {
	t.Helper()
	old, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range old {
		if e.Name() != "partition.metadata" {
			if err := os.Remove(filepath.Join(to, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "partition.metadata" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func fixtureBatches(t *testing.T, name string) []byte {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(fixture, name+"-0", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no fixture for %s: %v", name, err)
	}
	slices.Sort(logs)
	var all []byte
	for _, f := range logs {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// servedBatches fetches a partition from its start to its end.
func servedBatches(t *testing.T, addr, topic string) []byte {
	t.Helper()
	ends, err := admin(t, addr).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	conn, err := raw.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var all []byte
	for at := int64(0); at < end.Offset; {
		next := at
		if _, err := raw.Walk(fetchAt(t, conn, topic, 0, at), func(h raw.Header, b []byte) error {
			next = h.FirstOffset + int64(h.LastOffsetDelta) + 1
			all = append(all, b...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if next == at {
			t.Fatalf("%s: no progress at %d of %d", topic, at, end.Offset)
		}
		at = next
	}
	return all
}

// TestKafkaDirectoryRefused starts the broker on a data directory of Apache
// Kafka: one sentence, exit code 1, nothing touched.
func TestKafkaDirectoryRefused(t *testing.T) {
	needProcess(t)
	for name, make := range map[string]func(*testing.T, string){
		"with topics": func(t *testing.T, dir string) {
			if err := os.CopyFS(dir, os.DirFS(fixture)); err != nil {
				t.Fatal(err)
			}
		},
		"freshly formatted": formatKafka,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "log")
			make(t, dir)
			before := fingerprint(t, dir)
			out, code := runBroker(t, dir)
			if code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if !strings.Contains(out, "Kafka") {
				t.Errorf("the message does not say that this is Apache Kafka's:\n%s", out)
			}
			t.Logf("refused: %s", lastLine(out))
			if after := fingerprint(t, dir); after != before {
				t.Errorf("the directory was touched:\nbefore:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// formatKafka formats dir with Apache Kafka's own tool.
func formatKafka(t *testing.T, dir string) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "server.properties")
	text := "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\nlisteners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1\ncontroller.listener.names=CONTROLLER\nlog.dirs=" + dir + "\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	javaRun(t, "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", conf)
}

// fingerprint lists names, modes, times and contents of a tree.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s %v %v", path, info.Mode(), info.ModTime().UnixNano())
		if !d.IsDir() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " %d %x", len(data), sha256.Sum256(data))
		}
		out.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
