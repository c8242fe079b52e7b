package storage

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// write makes a file with its directories.
func write(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	if err := fsys.MkdirAll(name[:strings.LastIndexByte(name, '/')]); err != nil {
		t.Fatal(err)
	}
	if err := vfs.ReplaceFile(fsys, name, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

// tree lists everything, with contents, so that two states can be compared.
func tree(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		return dir + " missing\n"
	}
	var out strings.Builder
	for _, n := range names {
		path := dir + "/" + n
		if fi, err := fsys.Stat(path); err == nil && fi.IsDir() {
			out.WriteString(path + "/\n" + tree(t, fsys, path))
			continue
		}
		b, err := vfs.ReadFile(fsys, path, 1<<20)
		fmt.Fprintf(&out, "%s %q %v\n", path, b, err)
	}
	return out.String()
}

func TestRefusals(t *testing.T) {
	const meta = "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=AQIDBAUGBwgJCgsMDQ4PEA\n"
	const format = `{"format":1}`
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"kafka":             {map[string]string{"/d/meta.properties": meta, "/d/t-0/partition.metadata": "x"}, "belongs to Apache Kafka"},
		"kraft":             {map[string]string{"/d/meta.properties": meta, "/d/barnabas.format": format, "/d/__cluster_metadata-0/x": ""}, "belongs to Apache Kafka"},
		"no meta":           {map[string]string{"/d/t-0/partition.metadata": "x"}, "no meta.properties"},
		"newer format":      {map[string]string{"/d/meta.properties": meta, "/d/barnabas.format": `{"format":2}`}, "run the newer build"},
		"other cluster":     {map[string]string{"/d/meta.properties": strings.Replace(meta, "id=c", "id=x", 1), "/d/barnabas.format": format}, "belongs to cluster x"},
		"other node":        {map[string]string{"/d/meta.properties": strings.Replace(meta, "node.id=1", "node.id=2", 1), "/d/barnabas.format": format}, "belongs to node.id 2"},
		"damaged format":    {map[string]string{"/d/meta.properties": meta, "/d/barnabas.format": "{"}, "damaged barnabas.format"},
		"version 0":         {map[string]string{"/d/meta.properties": strings.Replace(meta, "version=1", "version=0", 1), "/d/barnabas.format": format}, "version"},
		"no directory id":   {map[string]string{"/d/meta.properties": meta[:strings.Index(meta, "directory")], "/d/barnabas.format": format}, "directory.id"},
		"the second of two": {map[string]string{"/e/meta.properties": meta}, "belongs to Apache Kafka"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			for path, content := range c.files {
				write(t, fsys, path, content)
			}
			before := tree(t, fsys, "")
			dirs := []string{"/d"}
			if name == "the second of two" {
				dirs = append(dirs, "/e")
			}
			err := New(managerConfig(dirs...), fsys, nil, nil).Open(context.Background())
			var refused *RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one sentence with %q", err, c.want)
			}
			if after := tree(t, fsys, ""); after != before {
				t.Errorf("touched:\n%s\nbefore\n%s", after, before)
			}
		})
	}
	t.Run("in use", func(t *testing.T) {
		fsys := vfs.NewMem()
		b := openBox(t, fsys, managerConfig("/d"), false)
		err := New(managerConfig("/d"), fsys, nil, nil).Open(context.Background())
		if err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("error %v", err)
		}
		b.close()
		openBox(t, fsys, managerConfig("/d"), false).close()
	})
}

func TestFilesOfManager(t *testing.T) {
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/d"), false)
	l := b.log(testConfig())
	b.append(l, values(3, "v")...)
	l.SetHighWatermark(2)
	if err := b.m.SetRevision("meta", 42); err != nil {
		t.Fatal(err)
	}
	id := b.m.Dirs()[0].ID
	b.close()
	for name, want := range map[string]string{
		"/d/t-0/partition.metadata":           "version: 0\ntopic_id: AQIDAAAAAAAAAAAAAAAAAA",
		"/d/recovery-point-offset-checkpoint": "0\n1\nt 0 3\n",
		"/d/replication-offset-checkpoint":    "0\n1\nt 0 2\n",
		"/d/log-start-offset-checkpoint":      "0\n0\n",
		"/d/t-0/leader-epoch-checkpoint":      "0\n1\n0 0\n",
		"/d/.kafka_cleanshutdown":             `{"version":0,"brokerEpoch":7,"directoryId":"` + id.String() + `"}`,
		"/d/barnabas.format":                  `{"format":1,"metadata_cluster":"meta","highest_revision":42}` + "\n",
	} {
		if got, err := vfs.ReadFile(fsys, name, 1<<20); string(got) != want {
			t.Errorf("%s: %q %v, want %q", name, got, err, want)
		}
	}
	props, _ := vfs.ReadFile(fsys, "/d/meta.properties", 1<<20)
	for _, line := range []string{"version=1\n", "node.id=1\n", "cluster.id=c\n", "directory.id=" + id.String() + "\n"} {
		if !strings.Contains(string(props), line) {
			t.Errorf("meta.properties lacks %q:\n%s", line, props)
		}
	}
	b = openBox(t, fsys, managerConfig("/d"), false)
	if s := b.m.Dirs()[0]; !s.Clean || s.CleanEpoch != 7 || s.ID != id || s.Partitions != 1 {
		t.Errorf("status %+v", s)
	}
	if c, rev := b.m.Format(); c != "meta" || rev != 42 {
		t.Errorf("format %s %d", c, rev)
	}
	if l, _ = b.m.Get(testTP); l.HighWatermark() != 2 || l.TopicID() != testID {
		t.Errorf("high watermark %d, topic %s", l.HighWatermark(), l.TopicID())
	}
	if ok, _ := vfs.Exists(fsys, "/d/.kafka_cleanshutdown"); ok {
		t.Error("the clean mark is still there")
	}
	b.crash()
	b = openBox(t, fsys, managerConfig("/d"), false)
	if b.m.Dirs()[0].Clean {
		t.Error("clean after a crash")
	}
	b.close()
}

// A topic made again under the same name never sees the old one's directory.
func TestCreateDeleteStray(t *testing.T) {
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/d"), false)
	l := b.log(testConfig())
	b.append(l, values(3, "old")...)
	other := kafka.TopicID{9}
	if err := b.m.Delete(testTP, other); !errors.Is(err, kerr.InconsistentTopicID) {
		t.Errorf("delete with another id: %v", err)
	}
	l2, err := b.m.Create(testTP, other, testConfig())
	if err != nil || l2 == l || l2.End() != 0 || l2.TopicID() != other {
		t.Fatalf("created %v %v", l2, err)
	}
	if _, err := l.Append(testAt, makeBatch(t, plainOptions(), values(1, "v")...), 0, FromClient); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("append to the stray log: %v", err)
	}
	again, err := b.m.Create(testTP, other, testConfig())
	if again != l2 || err != nil {
		t.Errorf("create again: %v %v", again, err)
	}
	b.append(l2, values(2, "new")...)
	if err := b.m.Delete(testTP, other); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.m.Get(testTP); ok {
		t.Error("deleted log is there")
	}
	names, _ := fsys.List("/d")
	count := func(suffix string) (n int) {
		for _, name := range names {
			if strings.HasPrefix(name, "t-0.") && strings.HasSuffix(name, suffix) && len(name) == len("t-0.")+32+len(suffix) {
				n++
			}
		}
		return n
	}
	if count("-stray") != 1 || count("-delete") != 1 || slices.Contains(names, "t-0") {
		t.Errorf("directories %v", names)
	}
	b.m.dirs[0].deleteDue(time.Now().Add(time.Hour))
	if names, _ = fsys.List("/d"); count("-stray") != 1 || count("-delete") != 0 {
		t.Errorf("directories after an hour %v", names)
	}
	b.m.dirs[0].deleteDue(time.Now().Add(8 * 24 * time.Hour))
	if names, _ = fsys.List("/d"); count("-stray") != 0 {
		t.Errorf("directories after 8 days %v", names)
	}
	b.close()
}

// A directory that is in no list, of another topic of the name, holds records
// that must not appear in the new one.
func TestCreateOverALeftDirectory(t *testing.T) {
	fsys := vfs.NewMem()
	cfg := managerConfig("/d")
	b := openBox(t, fsys, cfg, false)
	l := b.log(testConfig())
	b.append(l, values(3, "old")...)
	b.close()
	b = openBox(t, fsys, cfg, false)
	l, _ = b.m.Get(testTP)
	b.m.forget(l) // as if its renaming had failed
	l.release()
	l2, err := b.m.Create(testTP, kafka.TopicID{9}, testConfig())
	if err != nil || l2.End() != 0 || l2.TopicID() != (kafka.TopicID{9}) {
		t.Fatalf("created %v with end %d: %v", l2, l2.End(), err)
	}
	b.append(l2, values(1, "new")...)
	names, _ := fsys.List("/d")
	stray := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "t-0.") && strings.HasSuffix(n, "-stray") })
	if stray < 0 {
		t.Fatalf("directories %v", names)
	}
	if kept, _ := fsys.List("/d/" + names[stray]); !slices.Contains(kept, "00000000000000000000.log") {
		t.Errorf("the old log's files: %v", kept)
	}
	b.close()
	b = openBox(t, fsys, cfg, false)
	if l, ok := b.m.Get(testTP); !ok || l.End() != 1 || l.TopicID() != (kafka.TopicID{9}) {
		t.Errorf("after a restart: %v %v", l, ok)
	}
	b.close()
}

// Also when all the logs of a topic are made at once.
func TestSpreadOverDirectories(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/a", "/b", "/c"), false)
	var wg sync.WaitGroup
	for i := range 9 {
		wg.Go(func() {
			if _, err := b.m.Create(kafka.TopicPartition{Topic: "t", Partition: int32(i)}, testID, testConfig()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, d := range b.m.Dirs() {
		if d.Partitions != 3 {
			t.Errorf("%s holds %d", d.Path, d.Partitions)
		}
	}
	b.close()
}

// DISK-04: files stay the same however often the manager restarts; M2: idle
// logs hold no file open.
func TestRestartsAreFlat(t *testing.T) {
	fsys := vfs.NewMem()
	n := 50
	for round := range 6 {
		b := openBox(t, fsys, managerConfig("/d"), false)
		for i := range n {
			l, err := b.m.Create(kafka.TopicPartition{Topic: "t", Partition: int32(i)}, testID, testConfig())
			if err != nil {
				t.Fatal(err)
			}
			if round == 0 {
				b.append(l, values(1, "v")...)
			}
		}
		if open := b.m.files.Open(); round > 0 && open != 0 {
			t.Errorf("round %d: %d files open", round, open)
		}
		if got := len(b.m.Logs()); got != n {
			t.Errorf("%d logs", got)
		}
		if round%2 == 1 {
			b.crash()
		} else {
			b.close()
		}
	}
	for i := range n {
		// log, index, timeindex, snapshot, epochs, partition.metadata
		if names, _ := fsys.List(fmt.Sprintf("/d/t-%d", i)); len(names) != 6 {
			t.Fatalf("files %v", names)
		}
	}
}

// CMP-05, CMP-06: retention by size and time.
func TestRetention(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/d"), false)
	cfg := testConfig()
	cfg.SegmentBytes, cfg.FileDeleteDelay = 2000, 0
	l := b.log(cfg)
	at := testAt.UnixMilli()
	for i := range int64(20) {
		b.append(l, rec{ts: at + i*1000, value: strings.Repeat("v", 800)})
	}
	_ = l.Sync(context.Background())
	size, segs := l.Size(), l.Segments()
	if segs != 10 {
		t.Fatalf("%d segments", segs)
	}
	retain := func(now time.Time, set func(*Config)) {
		c := cfg
		set(&c)
		l.SetConfig(c)
		b.m.Retain(now)
		_ = l.Sync(context.Background())
	}
	far := testAt.Add(1000 * time.Hour)
	retain(far, func(c *Config) { c.RetentionMs = 1 })
	if l.Start() != 0 {
		t.Fatalf("start %d with high watermark 0", l.Start())
	}
	l.SetHighWatermark(l.End())
	retain(far, func(c *Config) { c.Delete, c.Compact, c.RetentionMs, c.RetentionBytes = false, true, 1, 1 })
	retain(far, func(c *Config) { c.RetentionMs = -1 })
	if l.Start() != 0 {
		t.Fatalf("start %d with compaction, then without limits", l.Start())
	}
	retain(far, func(c *Config) { c.RetentionMs, c.RetentionBytes = -1, size*3/10 })
	if l.Start() != 14 || l.Size() < size*3/10 {
		t.Errorf("start %d, %d bytes left", l.Start(), l.Size())
	}
	retain(testAt.Add(16500*time.Millisecond), func(c *Config) { c.RetentionMs = time.Second })
	if l.Start() != 16 {
		t.Errorf("start %d after retention by time", l.Start())
	}
	retain(far, func(c *Config) { c.RetentionMs = time.Second })
	if l.Start() != 20 || l.End() != 20 || l.Segments() != 1 || l.HighWatermark() != 20 {
		t.Errorf("log [%d, %d), %d segments after all expired", l.Start(), l.End(), l.Segments())
	}
	if res := b.append(l, values(1, "v")...); res.Base != 20 {
		t.Errorf("next offset %d", res.Base)
	}
	// One record of the future keeps its segment and those behind it.
	b.append(l, rec{ts: far.UnixMilli() * 2, value: strings.Repeat("v", 1500)})
	b.append(l, rec{ts: 0, value: strings.Repeat("v", 1500)})
	b.append(l, rec{ts: at, value: strings.Repeat("v", 1500)})
	_ = l.Sync(context.Background())
	l.SetHighWatermark(l.End())
	retain(far, func(c *Config) { c.RetentionMs = time.Second })
	if start := l.Start(); start > 21 {
		t.Errorf("start %d passed a record of the future", start)
	}
	b.close()
}

// Rolling by segment.ms counts record time from the first batch.
func TestRollByTime(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/d"), false)
	cfg := testConfig()
	cfg.SegmentMs = 10 * time.Second
	l := b.log(cfg)
	for _, c := range []struct {
		ts   int64
		segs int
	}{{1000, 1}, {11000, 1}, {11001, 2}, {500, 2}, {21001, 2}, {21002, 3}} {
		b.append(l, rec{ts: c.ts, value: "v"})
		if l.Segments() != c.segs {
			t.Errorf("at %d: %d segments, want %d", c.ts, l.Segments(), c.segs)
		}
	}
	b.close()
}

// A full index begins a new segment, too.
func TestRollByIndex(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/d"), false)
	cfg := testConfig()
	cfg.IndexBytes, cfg.IndexIntervalBytes = 80, 0
	l := b.log(cfg)
	for i := range int64(60) {
		b.append(l, rec{ts: i, value: "v"})
	}
	if n := l.Segments(); n < 6 || n > 12 {
		t.Errorf("%d segments", n)
	}
	if got := readAll(t, l, 0, l.End()); len(got) != 60 {
		t.Errorf("%d records", len(got))
	}
	b.close()
}

// One write of recovery points serves all truncations of a fetch answer.
func TestTruncateMany(t *testing.T) {
	trace := &vfs.Trace{Base: "/d", Filter: func(op vfs.Op) bool {
		return op.Kind == vfs.OpRename && strings.HasSuffix(op.NewName, "recovery-point-offset-checkpoint")
	}}
	b := openBox(t, trace.Wrap(vfs.NewMem()), managerConfig("/d"), false)
	cuts := map[*Log]int64{}
	for i := range 5 {
		l, err := b.m.Create(kafka.TopicPartition{Topic: "t", Partition: int32(i)}, testID, testConfig())
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			b.append(l, values(3, "v")...)
		}
		cuts[l] = int64(2*i + 1)
	}
	if err := b.m.Checkpoint(context.Background()); err != nil {
		t.Fatal(err)
	}
	trace.Take()
	if err := b.m.Truncate(cuts); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(trace.Take(), "\n"); got != 1 {
		t.Errorf("%d writes of recovery points", got)
	}
	for l, to := range cuts {
		if l.End() != to/3*3 {
			t.Errorf("%s ends at %d after a truncation to %d", l.Partition(), l.End(), to)
		}
	}
	b.close()
}

// M2: what an idle log costs after a start.
func TestIdleMemory(t *testing.T) {
	fsys := vfs.NewMem()
	const n = 500
	b := openBox(t, fsys, managerConfig("/d"), false)
	for i := range n {
		l, err := b.m.Create(kafka.TopicPartition{Topic: "t", Partition: int32(i)}, testID, testConfig())
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			b.append(l, values(20, "v")...)
		}
	}
	b.close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b = openBox(t, fsys, managerConfig("/d"), false)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	t.Logf("%d bytes a log", each)
	if each > 4096 {
		t.Errorf("an idle log takes %d bytes", each)
	}
	b.close()
}
