package cli

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// logDir makes a log directory with one partition of 30 records in three
// segments, closed in order, and returns it and the segments' names.
func logDir(t *testing.T) (dir string, segments []string) {
	t.Helper()
	dir = t.TempDir()
	m := storage.New(storage.ManagerConfig{Dirs: []string{dir}, NodeID: 7}, vfs.Real, nil, nil)
	if err := m.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := storage.DefaultConfig()
	cfg.SegmentBytes = 1100
	l, err := m.Create(kafka.TopicPartition{Topic: "t"}, kafka.TopicID{1}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var b batch.Builder
	for range 30 {
		b.Reset(batch.Options{})
		b.Append(1000, nil, make([]byte, 30))
		raw, _, err := b.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(time.Now(), raw, 0, storage.FromClient); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(1); err != nil {
		t.Fatal(err)
	}
	segments, err = filepath.Glob(filepath.Join(dir, "t-0", "*.log"))
	if err != nil || len(segments) != 3 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	return dir, segments
}

// change edits a file in place.
func change(t *testing.T, name string, f func(text []byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, f(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// expect runs a command and compares exit code and parts of what it printed.
func expect(t *testing.T, code int, args []string, parts ...string) {
	t.Helper()
	got, out, errs := run(t, "", args...)
	if got != code {
		t.Errorf("%q: exit %d, want %d: %s%s", args, got, code, out, errs)
	}
	for _, p := range parts {
		if !strings.Contains(out+errs, p) {
			t.Errorf("%q: %q is not in %s%s", args, p, out, errs)
		}
	}
}

func TestVerifyAndRepair(t *testing.T) {
	dir, segments := logDir(t)
	expect(t, 0, []string{"log", "verify", dir}, "30       ", "  0      30   ok")
	expect(t, 0, []string{"log", "verify", filepath.Join(dir, "t-0"), "-o", "json"}, `"records": 30`, `"segments": 3`)

	// An interrupted write, and no orderly stop.
	last := segments[len(segments)-1]
	change(t, last, func(text []byte) []byte { return append(text, text[:70]...) })
	if err := os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")); err != nil {
		t.Fatal(err)
	}
	expect(t, 0, []string{"log", "verify", dir}, "is torn at position")
	expect(t, 0, []string{"log", "verify", "--repair", dir}, dir+" is in good order")
	if _, out, _ := run(t, "", "log", "verify", dir); strings.Contains(out, "torn") || !strings.Contains(out, "  0      30   ok") {
		t.Errorf("after the repair: %s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown")); err != nil {
		t.Error("the directory is not marked clean: ", err)
	}

	// Damage in the middle is named, and never cut.
	change(t, segments[1], func(text []byte) []byte { text[len(text)/2] ^= 1; return text })
	expect(t, 1, []string{"log", "verify", dir}, segments[1]+" at position", "damage: the batch's sum is wrong", "1 partitions are damaged")
	before, err := os.ReadFile(segments[1])
	if err != nil {
		t.Fatal(err)
	}
	expect(t, 1, []string{"log", "verify", "--repair", dir}, "nothing was repaired")
	if after, err := os.ReadFile(segments[1]); err != nil || len(after) != len(before) {
		t.Errorf("repair changed a damaged file: %v", err)
	}
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(t *testing.T, segments []string)
		code int
		want string
	}{
		{"dead tail", func(t *testing.T, s []string) { // what a truncation leaves while the broker runs
			change(t, s[0], func(text []byte) []byte { return append(text, "whatever was cut"...) })
		}, 0, "holds a dead tail from position"},
		{"torn in the middle", func(t *testing.T, s []string) {
			change(t, s[0], func(text []byte) []byte { return text[:len(text)-5] })
		}, 1, "the file ends within a batch"},
		{"a length out of bounds", func(t *testing.T, s []string) {
			change(t, s[1], func(text []byte) []byte { copy(text[8:], "\xff\xff\xff\xff"); return text })
		}, 1, "at position 0: damage: a batch of"},
		{"offsets that fall", func(t *testing.T, s []string) {
			change(t, s[2], func(text []byte) []byte { copy(text, make([]byte, 8)); return text })
		}, 1, "damage: a batch at offset 0 after offset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, segments := logDir(t)
			c.edit(t, segments)
			expect(t, c.code, []string{"log", "verify", dir}, c.want)
		})
	}
	expect(t, 2, []string{"log", "verify", t.TempDir()}, "neither a log directory nor a partition's")
	dir, _ := logDir(t)
	expect(t, 2, []string{"log", "verify", "--repair", filepath.Join(dir, "t-0")}, "works on whole log directories")
	expect(t, 1, []string{"log", "verify", filepath.Join(dir, "none")}, "no such file")

	open := storage.New(storage.ManagerConfig{Dirs: []string{dir}, NodeID: 7}, vfs.Real, nil, nil)
	if err := open.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, 1, []string{"log", "verify", "--repair", dir}, "in use by another process")
	if err := open.Close(1); err != nil {
		t.Fatal(err)
	}
}

// index makes one entry of an offset or time index out of 32 bit numbers.
func index(numbers ...uint32) (b []byte) {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// TestVerifyComparesIndexes: an entry that is not that of a batch is named, one
// behind the end is none of it, and --repair has the index made anew.
func TestVerifyComparesIndexes(t *testing.T) {
	for _, c := range []struct {
		name, suffix string
		entries      []byte
		code         int
		want         string
	}{
		{"position within a batch", ".index", index(1, 50), 1, "no batch begins at position 50, which stands for offset 1"},
		{"another batch", ".index", index(7, 98), 1, "position 98 stands for offset 7, and its batch ends at 1"},
		{"sound", ".index", index(1, 98), 0, "ok"},
		{"half an entry", ".index", index(1, 98, 7), 1, "4 bytes after the last entry"},
		{"room of Apache Kafka's", ".index", index(1, 98, 0, 0, 0, 0), 0, "ok"},
		{"behind the end", ".index", index(1, 98, 4000, 98*40), 0, "name 1 batches behind its end"},
		{"another time", ".timeindex", index(0, 999, 1), 1, "offset 1 stands for time 999, and its batch has 1000"},
		{"a time that is right", ".timeindex", index(0, 1000, 0), 0, "ok"},
		{"aborted without a marker", ".txnindex", append([]byte{0, 0}, index(0, 7, 0, 0, 0, 1, 0, 1)...), 1, "no marker of producer 7 ends its transaction at offset 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, segments := logDir(t)
			name := strings.TrimSuffix(segments[0], ".log") + c.suffix
			if err := os.WriteFile(name, c.entries, 0o644); err != nil {
				t.Fatal(err)
			}
			expect(t, c.code, []string{"log", "verify", dir}, c.want)
			switch {
			case c.code == 0:
			case c.suffix == ".txnindex":
				expect(t, 1, []string{"log", "verify", "--repair", dir}, "does not fit its segment: delete the directory")
			default:
				expect(t, 0, []string{"log", "verify", "--repair", dir}, dir+" is in good order")
				expect(t, 0, []string{"log", "verify", dir}, "ok")
			}
		})
	}
}

// TestDumpDirectory: every file of a partition, and the checkpoints beside it.
func TestDumpDirectory(t *testing.T) {
	dir, segments := logDir(t)
	name := strings.TrimSuffix(segments[0], ".log")
	for suffix, b := range map[string][]byte{
		".index": index(1, 98), ".timeindex": index(0, 1000, 1), ".txnindex": append([]byte{0, 0}, index(0, 7, 0, 2, 0, 3, 0, 4)...),
	} {
		if err := os.WriteFile(name+suffix, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	partition := filepath.Join(dir, "t-0")
	snapshot := producers.Encode([]producers.Entry{{ProducerID: 9, Epoch: 2, CoordinatorEpoch: -1, LastTimestampMs: 5, TxnFirstOffset: -1}})
	if err := os.WriteFile(filepath.Join(partition, producers.FileName(30)), snapshot, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, 0, []string{"log", "dump", partition}, name+".log\n", "offset 1 position 98\n", "time 1000 offset 1\n", "producer 7 aborted offsets 2-3 last stable 4\n",
		"producer 9 epoch 2 coordinator epoch -1 time 5 sequences -1--1 last offset -1 open transaction -1\n", "leader epoch 0 from offset 0\n", "offsets 29-29 ")
	expect(t, 0, []string{"log", "dump", filepath.Join(dir, "recovery-point-offset-checkpoint")}, "t-0 offset 30\n")
	expect(t, 0, []string{"log", "dump", filepath.Join(dir, "recovery-point-offset-checkpoint"), "-o", "json"}, `{"topic":"t","partition":0,"offset":30}`)
	expect(t, 0, []string{"log", "dump", partition, "-o", "json", "--producer", "9"}, `"producerEpoch":2`)
	if _, out, _ := run(t, "", "log", "dump", segments[0], "--from-offset", "3", "--to-offset", "4"); strings.Count(out, "position") != 2 || !strings.Contains(out, "offsets 3-3 ") {
		t.Errorf("two batches were asked for: %s", out)
	}
	if _, out, _ := run(t, "", "log", "dump", partition, "--producer", "9"); strings.Contains(out, "producer -1") || strings.Contains(out, "producer 7") {
		t.Errorf("one producer was asked for: %s", out)
	}
	change(t, name+".index", func(b []byte) []byte { return b[:5] })
	expect(t, 1, []string{"log", "dump", name + ".index"}, "damage: 5 bytes after the last entry")
	expect(t, 2, []string{"log", "dump", filepath.Join(dir, "meta.properties")}, "is not a file of a log directory")
	expect(t, 2, []string{"log", "dump", t.TempDir()}, "holds no files of a log")
}
