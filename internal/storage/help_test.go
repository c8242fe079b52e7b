package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

var (
	testTP = kafka.TopicPartition{Topic: "t", Partition: 0}
	testID = kafka.TopicID{1, 2, 3}
	testAt = time.UnixMilli(1_700_000_000_000)
)

func testConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes = 1 << 20
	return c
}

// box is a manager over a file system, with its Run.
type box struct {
	tb   testing.TB
	m    *Manager
	stop func()
}

type bytesWriter struct{ tb testing.TB }

func (w bytesWriter) Write(p []byte) (int, error) { w.tb.Logf("%s", p); return len(p), nil }

func testLogger(tb testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return slog.New(slog.NewTextHandler(bytesWriter{tb}, nil))
}

func managerConfig(dirs ...string) ManagerConfig {
	return ManagerConfig{Dirs: dirs, Defaults: testConfig(), NodeID: 1, ClusterID: "c"}
}

// openBox opens a manager; run says whether its Run is started.
func openBox(tb testing.TB, fsys vfs.FS, cfg ManagerConfig, run bool) *box {
	tb.Helper()
	b := &box{tb: tb, m: New(cfg, fsys, testLogger(tb), nil)}
	if err := b.m.Open(context.Background()); err != nil {
		tb.Fatalf("open: %v", err)
	}
	b.stop = func() {}
	if run {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = b.m.Run(ctx)
		}()
		b.stop = func() {
			cancel()
			<-done
		}
		tb.Cleanup(b.stop)
	}
	return b
}

func (b *box) log(cfg Config) *Log {
	b.tb.Helper()
	l, err := b.m.Create(testTP, testID, cfg)
	if err != nil {
		b.tb.Fatalf("create: %v", err)
	}
	return l
}

// close stops Run and closes in order.
func (b *box) close() {
	b.tb.Helper()
	b.stop()
	if err := b.m.Close(7); err != nil {
		b.tb.Fatalf("close: %v", err)
	}
}

// crash stops Run and lets go of the locks, as a dying process would, without
// writing anything.
func (b *box) crash() {
	b.stop()
	b.m.unlock()
}

func isErr(err, target error) bool { return errors.Is(err, target) }

type rec struct {
	ts         int64
	key, value string
}

// makeBatch builds a batch of records.
func makeBatch(tb testing.TB, o batch.Options, recs ...rec) []byte {
	tb.Helper()
	var bl batch.Builder
	bl.Reset(o)
	for _, r := range recs {
		var key []byte
		if r.key != "" {
			key = []byte(r.key)
		}
		bl.Append(r.ts, key, []byte(r.value))
	}
	out, _, err := bl.Build(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func values(n int, prefix string) []rec {
	out := make([]rec, n)
	for i := range out {
		out[i] = rec{ts: testAt.UnixMilli() + int64(i), value: fmt.Sprintf("%s-%d", prefix, i)}
	}
	return out
}

func plainOptions() batch.Options { return batch.Options{} }

func (b *box) append(l *Log, recs ...rec) AppendResult {
	b.tb.Helper()
	res, err := l.Append(testAt, makeBatch(b.tb, plainOptions(), recs...), 0, FromClient)
	if err != nil {
		b.tb.Fatalf("append: %v", err)
	}
	return res
}

// readAll reads every record from offset to maxOffset, "offset:value" each.
func readAll(tb testing.TB, l *Log, from, maxOffset int64) []string {
	tb.Helper()
	var out []string
	for at := from; at < maxOffset; {
		r, err := l.Read(at, maxOffset, 1<<20, true)
		if err != nil {
			tb.Fatalf("read at %d: %v", at, err)
		}
		if r.SizeBytes == 0 {
			break
		}
		for _, s := range r.Slices {
			p := make([]byte, s.Len())
			if err := s.ReadAt(p, 0); err != nil {
				tb.Fatal(err)
			}
			for len(p) > 0 {
				bt, rest, err := batch.Next(p)
				if err != nil {
					tb.Fatalf("read at %d: %v", at, err)
				}
				if !bt.CRCValid() {
					tb.Fatalf("checksum of batch at %d", bt.BaseOffset())
				}
				it := batch.Records(bt, 0)
				for it.Next() {
					if o := bt.Offset(it.Record()); o >= from {
						out = append(out, fmt.Sprintf("%d:%s", o, it.Record().Value))
					}
				}
				if it.Err() != nil {
					tb.Fatal(it.Err())
				}
				it.Close()
				at = bt.NextOffset()
				p = rest
			}
		}
		r.Release()
	}
	return out
}

// readSlices returns the offsets in a result.
func readSlices(tb testing.TB, r ReadResult) (offsets []int64) {
	tb.Helper()
	for _, s := range r.Slices {
		p := make([]byte, s.Len())
		if err := s.ReadAt(p, 0); err != nil {
			tb.Fatal(err)
		}
		for len(p) > 0 {
			b, rest, err := batch.Next(p)
			if err != nil {
				tb.Fatal(err)
			}
			for o := b.BaseOffset(); o <= b.LastOffset(); o++ {
				offsets = append(offsets, o)
			}
			p = rest
		}
	}
	return offsets
}
