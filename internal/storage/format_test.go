package storage

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// testdata/format-N holds log directories as a build that wrote format N left
// them: clean after a stop in order, killed in the middle of writing, with
// expect.txt, what is in both. A directory is written once, with the build
// that brings the format, and never changed: whoever has one on disk is to be
// served by every later build.
var writeFormat = flag.Bool("write-format", false, "write testdata/format-N of the present format, which must not be there")

var formatTPs = []kafka.TopicPartition{{Topic: "orders", Partition: 0}, {Topic: "orders", Partition: 1}}

var formatID = kafka.TopicID{0x8a, 1, 2, 3, 4, 5, 0x46, 7, 0x88, 9, 10, 11, 12, 13, 14, 15}

func formatConfig() Config {
	c := testConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.RetentionMs = 2000, 300, -1
	return c
}

// formatBatches are the batches of a partition, in order, with their epochs.
func formatBatches(t *testing.T, tp kafka.TopicPartition) (out [][]byte, epochs []kafka.LeaderEpoch, origins []Origin) {
	t.Helper()
	add := func(epoch kafka.LeaderEpoch, origin Origin, raw []byte) {
		out, epochs, origins = append(out, raw), append(epochs, epoch), append(origins, origin)
	}
	ms := testAt.UnixMilli()
	text := strings.Repeat("what compresses well ", 8)
	if tp.Partition == 0 { // every codec, plain and idempotent, headers, nulls
		seq := int32(0)
		for i := range 20 {
			codec := []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd}[i%5]
			o := batch.Options{Encoding: batch.Encoding{Codec: codec}}
			n := int32(1 + i%4)
			if i%3 == 0 {
				o.Producer = &batch.Producer{ID: 1000, Epoch: 2, Sequence: seq}
				seq += n
			}
			var b batch.Builder
			b.Reset(o)
			for j := range n {
				value := fmt.Appendf(nil, "%s%d.%d", text, i, j)
				if i == 7 {
					value = nil
				}
				b.Append(ms+int64(1000*i)+int64(j), fmt.Appendf(nil, "key-%d", i), value, batch.Header{Key: "trace", Value: []byte{byte(i)}}, batch.Header{Key: "none"})
			}
			raw, _, err := b.Build(nil)
			if err != nil {
				t.Fatal(err)
			}
			add(kafka.LeaderEpoch(i/8), FromClient, raw)
		}
		return out, epochs, origins
	}
	seqs := map[int64]int32{} // transactions: committed, aborted, and one that stays open
	for i := range 18 {
		id := int64(2000 + i%3)
		p := &batch.Producer{ID: id, Epoch: 0, Sequence: seqs[id]}
		seqs[id] += 2
		recs := []rec{{ts: ms + int64(100*i), key: "k", value: fmt.Sprint("txn ", i)}, {ts: ms + int64(100*i) + 1, value: text}}
		add(4, FromClient, makeBatch(t, batch.Options{Producer: p, Transactional: true}, recs...))
		if id != 2002 && i%6 > 2 {
			add(4, FromCoordinator, batch.AppendMarker(nil, batch.Marker{ProducerID: id, Commit: id == 2000, CoordinatorEpoch: 9}, ms+int64(100*i)+2))
		}
	}
	return out, epochs, origins
}

// Every later build opens the log directories of every format, and finds in
// them what was written.
func TestFormats(t *testing.T) {
	dir := fmt.Sprint("testdata/format-", FormatVersion)
	if *writeFormat {
		makeFormat(t, dir)
	}
	dirs, err := filepath.Glob("testdata/format-*")
	if err != nil || len(dirs) != FormatVersion {
		t.Fatalf("%d directories for %d formats: %v", len(dirs), FormatVersion, err)
	}
	for _, dir := range dirs {
		want, err := os.ReadFile(filepath.Join(dir, "expect.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range []string{"clean", "killed"} {
			t.Run(filepath.Base(dir)+"/"+how, func(t *testing.T) {
				data := filepath.Join(t.TempDir(), "logs")
				if err := os.CopyFS(data, os.DirFS(filepath.Join(dir, how))); err != nil {
					t.Fatal(err)
				}
				openFormat(t, data, how == "clean", string(want))
			})
		}
	}
}

func openFormat(t *testing.T, data string, clean bool, want string) {
	cfg := managerConfig(data)
	cfg.Defaults = formatConfig()
	b := openBox(t, vfs.Real, cfg, true)
	if d := b.m.Dirs()[0]; d.Clean != clean || d.Offline != nil || d.Partitions != len(formatTPs) {
		t.Errorf("directory %+v", d)
	}
	if cluster, rev := b.m.Format(); cluster != "metadata-cluster" || rev != 4711 {
		t.Errorf("metadata %q at %d", cluster, rev)
	}
	if got := dumpLogs(t, b); got != want {
		t.Errorf("logs read otherwise than they were written:\n%s", diff(want, got))
	}
	for _, tp := range formatTPs { // each is known as a duplicate, and the log goes on
		l, _ := b.m.Get(tp)
		raws, at, origins := formatBatches(t, tp)
		for i := len(raws) - 1; i >= len(raws)-4; i-- {
			if bt := batch.Batch(raws[i]); origins[i] == FromClient && bt.ProducerID() >= 0 {
				if res, err := l.Append(testAt, raws[i], at[i], FromClient); err != nil || !res.Duplicate {
					t.Errorf("%s: batch %d, sent again: %+v %v", tp, i, res, err)
				}
			}
		}
		end := l.End()
		if res, err := l.Append(testAt, makeBatch(t, plainOptions(), values(3, "new")...), 7, FromClient); err != nil || res.Base != end {
			t.Errorf("%s: append %+v %v", tp, res, err)
		}
		if err := l.Sync(context.Background()); err != nil {
			t.Error(err)
		}
	}
	b.close()
	b = openBox(t, vfs.Real, cfg, false)
	if got := dumpLogs(t, b); !strings.Contains(got, `"new-2"`) {
		t.Errorf("what was written to it is gone:\n%s", got)
	}
	b.close()
}

// dumpLogs writes out what is in the logs.
func dumpLogs(t *testing.T, b *box) string {
	t.Helper()
	var out bytes.Buffer
	for _, tp := range formatTPs {
		l, ok := b.m.Get(tp)
		if !ok {
			t.Fatalf("%s is not there", tp)
		}
		fmt.Fprintf(&out, "%s of %s: [%d, %d), first unstable %d\n", tp, l.TopicID(), l.Start(), l.End(), l.FirstUnstable(l.End()))
		for _, e := range l.epochs.Entries() {
			fmt.Fprintf(&out, "  epoch %d from %d\n", e.Epoch, e.Start)
		}
		for _, p := range l.Producers() {
			fmt.Fprintf(&out, "  producer %d epoch %d: sequence %d at %d, coordinator %d, transaction %d\n", p.ProducerID, p.Epoch, p.LastSeq(), p.LastOffset(), p.CoordinatorEpoch, p.TxnFirstOffset)
		}
		for _, a := range l.Aborted(l.Start(), l.End()) {
			fmt.Fprintf(&out, "  aborted: producer %d from %d\n", a.ProducerID, a.FirstOffset)
		}
		dumpRecords(t, &out, l)
		ts := testAt.UnixMilli() + 2500
		off, at, epoch, err := l.OffsetForTime(ts, l.End())
		fmt.Fprintf(&out, "  at %d: offset %d, %d, epoch %d, %v\n", ts, off, at, epoch, err)
		if _, err := l.Read(l.Start()-1, l.End(), 1, true); !isErr(err, kerr.OffsetOutOfRange) {
			t.Errorf("%s below its start: %v", tp, err)
		}
	}
	return out.String()
}

func dumpRecords(t *testing.T, out io.Writer, l *Log) {
	for at := l.Start(); at < l.End(); {
		r, err := l.Read(at, l.End(), 1, true)
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, r.Slices[0].Len())
		if err := r.Slices[0].ReadAt(p, 0); err != nil {
			t.Fatal(err)
		}
		r.Release()
		b := batch.Batch(p)
		if !b.CRCValid() {
			t.Errorf("checksum at %d", b.BaseOffset())
		}
		fmt.Fprintf(out, "  batch %d..%d epoch %d codec %d producer %d/%d/%d transactional %t control %t\n", b.BaseOffset(), b.LastOffset(),
			b.LeaderEpoch(), b.Codec(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Transactional(), b.Control())
		it := batch.Records(b, 0)
		for it.Next() {
			rec := it.Record()
			fmt.Fprintf(out, "    %d %d %q %q", b.Offset(rec), b.Timestamp(rec), rec.Key, rec.Value)
			for k, v := range rec.Headers() {
				fmt.Fprintf(out, " %s=%q", k, v)
			}
			fmt.Fprintln(out)
		}
		if it.Err() != nil {
			t.Error(it.Err())
		}
		it.Close()
		at = b.NextOffset()
	}
}

// makeFormat writes the directories of the present format.
func makeFormat(t *testing.T, dir string) {
	if _, err := os.Stat(dir); err == nil {
		t.Fatalf("%s is there: a format is written once", dir)
	}
	for _, how := range []string{"clean", "killed"} {
		fsys := vfs.NewMem()
		cfg := managerConfig("/d")
		cfg.Defaults = formatConfig()
		b := openBox(t, fsys, cfg, false)
		if err := b.m.SetRevision("metadata-cluster", 4711); err != nil {
			t.Fatal(err)
		}
		for _, tp := range formatTPs {
			fillFormat(t, b, tp)
		}
		expect := dumpLogs(t, b)
		left := fsys
		if how == "clean" {
			b.close()
		} else {
			left = fsys.CrashClone(nil, vfs.ProcessKill)
			b.crash()
		}
		export(t, left, "/d", filepath.Join(dir, how))
		if err := os.WriteFile(filepath.Join(dir, "expect.txt"), []byte(expect), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fillFormat writes a partition; in the middle a checkpoint, a truncation that
// leaves a dead tail, and a raised log start.
func fillFormat(t *testing.T, b *box, tp kafka.TopicPartition) {
	l, err := b.m.Create(tp, formatID, formatConfig())
	if err != nil {
		t.Fatal(err)
	}
	raws, epochs, origins := formatBatches(t, tp)
	for i, raw := range raws {
		if _, err := l.Append(testAt, raw, epochs[i], origins[i]); err != nil {
			t.Fatal(err)
		}
		switch i {
		case len(raws) / 2:
			if err := b.m.Checkpoint(context.Background()); err != nil {
				t.Fatal(err)
			}
			l.SetHighWatermark(l.FlushedEnd())
			if err := l.DeleteBefore(3); err != nil {
				t.Fatal(err)
			}
		case len(raws) * 3 / 4:
			end := l.End()
			b.appendEpoch(l, epochs[i], rec{ts: testAt.UnixMilli(), value: "cut again"})
			if err := l.Truncate(end); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (b *box) appendEpoch(l *Log, epoch kafka.LeaderEpoch, recs ...rec) {
	b.tb.Helper()
	if _, err := l.Append(testAt, makeBatch(b.tb, plainOptions(), recs...), epoch, FromClient); err != nil {
		b.tb.Fatal(err)
	}
}

// export copies a directory out of a file system in memory.
func export(t *testing.T, fsys vfs.FS, from, to string) {
	t.Helper()
	names, err := fsys.List(from)
	if err == nil {
		err = os.MkdirAll(to, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		src, dst := filepath.Join(from, n), filepath.Join(to, n)
		fi, err := fsys.Stat(src)
		if err != nil {
			t.Fatal(err)
		}
		if fi.IsDir() {
			export(t, fsys, src, dst)
			continue
		}
		if n == lockName {
			continue
		}
		data, err := vfs.ReadFile(fsys, src, 1<<20)
		if err == nil {
			err = os.WriteFile(dst, data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
