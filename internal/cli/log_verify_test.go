package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage"
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
