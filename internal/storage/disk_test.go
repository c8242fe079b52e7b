package storage

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// DISK-01: a full disk refuses writes with a storage error, reads go on, and
// writes resume when there is room.
func TestDiskFull(t *testing.T) {
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/d"), false)
	cfg := testConfig()
	cfg.SegmentBytes = 20_000
	l := b.log(cfg)
	var want int64
	fsys.SetCapacity(fsys.Used() + 50_000)
	write := func() error {
		_, err := l.Append(testAt, makeBatch(t, plainOptions(), rec{ts: 1, value: strings.Repeat("v", 700)}), 0, FromClient)
		return err
	}
	fill := func() {
		for range 200 {
			err := write()
			if err == nil {
				want++
				continue
			}
			if !errors.Is(err, kerr.KafkaStorageError) || !errors.Is(err, vfs.ErrNoSpace) {
				t.Fatalf("full disk: %v", err)
			}
		}
	}
	fill()
	if want == 0 || want > 80 {
		t.Fatalf("%d appends fit", want)
	}
	if l.End() != want || len(readAll(t, l, 0, l.End())) != int(want) {
		t.Fatalf("end %d, want %d", l.End(), want)
	}
	if err := l.Sync(context.Background()); err != nil {
		t.Fatalf("sync on a full disk: %v", err)
	}
	fsys.SetCapacity(-1)
	if err := write(); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	want++
	b.crash()
	b = openBox(t, fsys, managerConfig("/d"), false)
	l = b.log(cfg)
	if got := len(readAll(t, l, 0, l.End())); got != int(want) {
		t.Fatalf("%d records after a restart, want %d", got, want)
	}
	b.close()
}

func TestLowWater(t *testing.T) {
	fsys := vfs.NewMem()
	cfg := managerConfig("/d")
	cfg.LowWaterBytes = 10_000
	b := openBox(t, fsys, cfg, false)
	l := b.log(testConfig())
	b.append(l, values(1, "v")...)
	fsys.SetCapacity(fsys.Used() + 9_000)
	b.m.tick()
	if _, err := l.Append(testAt, makeBatch(t, plainOptions(), values(1, "v")...), 0, FromClient); !errors.Is(err, kerr.KafkaStorageError) {
		t.Fatalf("below the low-water mark: %v", err)
	}
	if got := readAll(t, l, 0, l.End()); len(got) != 1 {
		t.Fatalf("reads: %v", got)
	}
	fsys.SetCapacity(-1)
	b.m.tick()
	b.append(l, values(1, "v")...)
	b.close()
}

// R7: a failed sync, or EIO, is final for its log directory; the other one
// goes on.
func TestDeviceError(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpSync, vfs.OpWrite, vfs.OpRead, vfs.OpSyncDir} {
		t.Run(string(kind), func(t *testing.T) {
			bad := false
			fsys := vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
				if bad && op.Kind == kind && strings.HasPrefix(op.Name, "/a/t-0") {
					return &fs.PathError{Op: string(kind), Path: op.Name, Err: syscall.EIO}
				}
				return nil
			})
			offline := make(chan int, 1)
			cfg := managerConfig("/a", "/b")
			cfg.DirFailed = func(_ kafka.DirID, _ error, left int) { offline <- left }
			b := openBox(t, fsys, cfg, true)
			conf := testConfig()
			conf.SegmentBytes = 2000
			l := b.log(conf)
			other, err := b.m.Create(kafka.TopicPartition{Topic: "u"}, testID, conf)
			if err != nil {
				t.Fatal(err)
			}
			if l.d == other.d {
				t.Fatal("both logs in one directory")
			}
			failed := make(chan error, 1)
			l.SetHooks(Hooks{Failed: func(err error) { failed <- err }})
			b.append(l, values(1, "v")...)
			if err := l.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
			flushed := l.FlushedEnd()
			bad = true
			for range 40 { // rolls, too
				raw := makeBatch(t, plainOptions(), values(3, "v")...)
				if _, err = l.Append(testAt, raw, 0, FromClient); err != nil {
					break
				}
				if kind == vfs.OpRead {
					l.active().Release()
					_, err = l.Read(1, l.End(), 10, true)
				} else {
					err = l.Sync(context.Background())
				}
				if err != nil {
					break
				}
				flushed = l.FlushedEnd()
			}
			if !errors.Is(err, kerr.KafkaStorageError) {
				t.Fatalf("error %v", err)
			}
			if err := <-failed; !errors.Is(err, syscall.EIO) {
				t.Errorf("hook got %v", err)
			}
			if left := <-offline; left != 1 {
				t.Errorf("%d directories left", left)
			}
			bad = false
			if l.FlushedEnd() > flushed && kind != vfs.OpRead {
				t.Errorf("flushed end rose to %d after the failure", l.FlushedEnd())
			}
			if _, err := l.Append(testAt, makeBatch(t, plainOptions(), values(1, "v")...), 0, FromClient); !errors.Is(err, kerr.KafkaStorageError) {
				t.Errorf("append after the failure: %v", err)
			}
			if err := l.Sync(context.Background()); !errors.Is(err, kerr.KafkaStorageError) {
				t.Errorf("sync after the failure: %v", err)
			}
			b.append(other, values(1, "v")...)
			if err := other.Sync(context.Background()); err != nil {
				t.Errorf("other directory: %v", err)
			}
			b.stop()
			if err := b.m.Close(1); err == nil {
				t.Error("close says nothing of the failed directory")
			}
			if ok, _ := vfs.Exists(fsys, "/a/"+cleanName); ok {
				t.Error("the failed directory was marked clean")
			}
		})
	}
}

// A start on a full disk serves reads, refuses writes, and takes them when
// there is room.
func TestStartOnFullDisk(t *testing.T) {
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/d"), false)
	l := b.log(testConfig())
	for range 20 {
		b.append(l, values(3, "v")...)
	}
	b.crash()
	fsys.SetCapacity(fsys.Used())
	b = openBox(t, fsys, managerConfig("/d"), false)
	l, _ = b.m.Get(testTP)
	if got := readAll(t, l, 0, l.End()); len(got) != 60 {
		t.Fatalf("%d records", len(got))
	}
	raw := makeBatch(t, plainOptions(), values(1, "v")...)
	b.m.tick()
	if _, err := l.Append(testAt, raw, 0, FromClient); !errors.Is(err, kerr.KafkaStorageError) {
		t.Fatalf("append on a full disk: %v", err)
	}
	fsys.SetCapacity(-1)
	b.m.tick()
	b.append(l, values(1, "v")...)
	if err := b.m.Checkpoint(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.crash()
	b = openBox(t, fsys, managerConfig("/d"), false)
	if l, _ = b.m.Get(testTP); l.End() != 61 {
		t.Fatalf("end %d", l.End())
	}
	b.close()
}

// Files that are ready for segments to come are open files too: there are half
// as many as data files at most, and they are counted back as they are used.
func TestSparesAreBounded(t *testing.T) {
	cfg := managerConfig("/d")
	cfg.MaxOpenFiles = 4
	b := openBox(t, vfs.NewMem(), cfg, false)
	big := strings.Repeat("x", 800_000) // above three quarters of a segment
	var logs []*Log
	for i := range int32(6) {
		l, err := b.m.Create(kafka.TopicPartition{Topic: "t", Partition: i}, testID, testConfig())
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
		for range 2 { // the second asks for a spare, or rolls
			if _, err := l.Append(testAt, makeBatch(t, batch.Options{}, rec{testAt.UnixMilli(), "", big}), 0, FromClient); err != nil {
				t.Fatal(err)
			}
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	open := 0
	for _, l := range logs {
		if l.spare.file != nil {
			open++
		}
	}
	if got := b.m.spares.Load(); open > 2 || int64(open) != got || open == 0 {
		t.Errorf("%d spares are open and %d counted, want at most 2", open, got)
	}
	b.close()
	if got := b.m.spares.Load(); got != 0 {
		t.Errorf("%d spares are counted after the end", got)
	}
}
