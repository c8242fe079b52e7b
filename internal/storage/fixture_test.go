package storage

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// testdata/kafka-4.4.0/small-0 was written and closed by Apache Kafka 4.4.0:
// 200 records of a transactional producer in four transactions,
// internal.segment.bytes=5000, index.interval.bytes=500.
const fixture = "testdata/kafka-4.4.0/small-0"

var fixtureTP = kafka.TopicPartition{Topic: "small"}

func fixtureFiles(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(fixture + "/*")
	if err != nil || len(names) < 20 {
		t.Fatalf("fixture: %d files %v", len(names), err)
	}
	out := map[string][]byte{}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(n)] = b
	}
	return out
}

// A partition directory of Apache Kafka's, put in the place of an empty one
// with its topic id, serves the same records: after a clean stop of ours, after
// a crash, and when Kafka itself was killed and left its preallocated indexes.
func TestKafkaPartition(t *testing.T) {
	files := fixtureFiles(t)
	for _, how := range []string{"clean", "crash", "preallocated"} {
		t.Run(how, func(t *testing.T) {
			fsys := vfs.NewMem()
			b := openBox(t, fsys, managerConfig("/d"), false)
			id, _ := kafka.ParseUUID("M3agsdJ9Tiq550a58u5q2Q")
			if _, err := b.m.Create(fixtureTP, id, testConfig()); err != nil {
				t.Fatal(err)
			}
			if how == "clean" {
				b.close()
			} else {
				b.crash()
			}
			if err := fsys.RemoveAll("/d/small-0"); err != nil {
				t.Fatal(err)
			}
			if err := fsys.MkdirAll("/d/small-0"); err != nil {
				t.Fatal(err)
			}
			for name, data := range files {
				if how == "preallocated" && strings.HasPrefix(name, segment.Name(191, "")) && strings.HasSuffix(name, "index") {
					data = append(bytes.Clone(data), make([]byte, 1<<20-len(data))...)
				}
				if err := vfs.ReplaceFile(fsys, "/d/small-0/"+name, data); err != nil {
					t.Fatal(err)
				}
			}
			b = openBox(t, fsys, managerConfig("/d"), false)
			l, err := b.m.Create(fixtureTP, id, testConfig())
			if err != nil || l.Start() != 0 || l.End() != 204 || l.TopicID() != id || l.LatestEpoch() != 0 {
				t.Fatalf("log [%d, %d) of %s, epoch %d: %v", l.Start(), l.End(), l.TopicID(), l.LatestEpoch(), err)
			}
			if got := readAll(t, l, 0, l.End()); len(got) != 204 {
				t.Errorf("%d records and markers", len(got))
			}
			if l.FirstUnstable(204) >= 0 || len(l.Aborted(0, 204)) > 0 || len(l.Producers()) != 1 {
				t.Errorf("unstable %d, aborted %v, producers %v", l.FirstUnstable(204), l.Aborted(0, 204), l.Producers())
			}
			ts := int64(0)
			for at := int64(0); at >= 0; {
				off, recTs, _, err := l.OffsetForTime(ts, l.End())
				if err != nil || off >= 0 && off < at {
					t.Fatalf("time %d: offset %d %v", ts, off, err)
				}
				at, ts = off, recTs+1
			}
			b.append(l, values(1, "ours")...)
			if err := l.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
			b.close()
		})
	}
}

// The same batches under the same configuration give the same files, byte for
// byte: data, offset index, time index, producer snapshots, epochs.
func TestSameFilesAsKafka(t *testing.T) {
	files := fixtureFiles(t)
	var log []byte
	for _, base := range []int64{0, 31, 63, 94, 126, 158, 191} {
		log = append(log, files[segment.Name(base, segment.LogSuffix)]...)
	}
	for _, run := range []bool{false, true} {
		fsys := vfs.NewMem()
		b := openBox(t, fsys, managerConfig("/d"), run)
		cfg := testConfig()
		cfg.SegmentBytes, cfg.IndexIntervalBytes = 5000, 500
		l, err := b.m.Create(fixtureTP, testID, cfg)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for rest := log; len(rest) > 0; {
			var one batch.Batch
			if one, rest, err = batch.Next(rest); err != nil {
				t.Fatal(err)
			}
			if _, err := l.AppendAsFollower(bytes.Clone(one)); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(10) == 0 {
				if err := b.m.Checkpoint(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Sync(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.close()
		names, _ := fsys.List("/d/small-0")
		got := map[string][]byte{}
		for _, n := range names {
			if got[n], err = vfs.ReadFile(fsys, "/d/small-0/"+n, 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range files {
			if name == partitionName {
				continue
			}
			if !bytes.Equal(got[name], want) {
				t.Errorf("%s differs: %s\nwant %s", name, short(got[name]), short(want))
			}
			delete(got, name)
		}
		delete(got, partitionName)
		for name := range got {
			t.Errorf("%s is not among Apache Kafka's files", name)
		}
	}
}

func short(b []byte) string {
	if len(b) > 80 {
		return fmt.Sprintf("%x... (%d bytes)", b[:80], len(b))
	}
	return fmt.Sprintf("%x", b)
}

// A follower refuses what does not follow on.
func TestFollowerChecks(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/d"), false)
	l := b.log(testConfig())
	at := func(base int64, epoch int32) []byte {
		return makeBatch(t, batch.Options{BaseOffset: base, LeaderEpoch: epoch}, values(2, "v")...)
	}
	if res, err := l.AppendAsFollower(append(at(0, 1), at(2, 2)...)); err != nil || res.Base != 0 || res.Last != 3 {
		t.Fatalf("%+v %v", res, err)
	}
	if _, err := l.AppendAsFollower(at(3, 2)); err == nil {
		t.Error("an overlapping batch was taken")
	}
	if _, err := l.AppendAsFollower(at(4, 1)); err == nil {
		t.Error("a batch of an older leader epoch was taken")
	}
	bad := at(4, 2)
	bad[len(bad)-1] ^= 1
	if _, err := l.AppendAsFollower(bad); !isErr(err, kerr.CorruptMessage) {
		t.Errorf("a batch with a wrong checksum: %v", err)
	}
	if res, err := l.AppendAsFollower(at(10, 2)); err != nil || res.Base != 10 || l.End() != 12 {
		t.Errorf("a gap, as compaction leaves it: %+v %v", res, err)
	}
	if got := readAll(t, l, 4, 12); len(got) != 2 {
		t.Errorf("read across the gap: %v", got)
	}
	if e, end := l.EpochEnd(1); e != 1 || end != 2 {
		t.Errorf("epoch 1 ends at %d", end)
	}
	b.crash()
}
