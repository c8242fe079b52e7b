package storage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// BenchmarkAppend appends one batch a call on the real file system.
func BenchmarkAppend(b *testing.B) {
	for _, durable := range []bool{false, true} {
		for _, size := range []int{1 << 10, 16 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("durable=%v/%dKiB", durable, size>>10), func(b *testing.B) { benchAppend(b, size, durable) })
		}
	}
}

func benchAppend(b *testing.B, size int, durable bool) {
	cfg := DefaultConfig()
	cfg.Durable = durable
	cfg.RetentionBytes = 1 << 30
	x := openBox(b, vfs.Real, managerConfig(b.TempDir()), true)
	l := x.log(cfg)
	raw := makeBatch(b, plainOptions(), rec{ts: testAt.UnixMilli(), value: strings.Repeat("x", size)})
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		res, err := l.Append(testAt, raw, 0, FromClient)
		if err != nil {
			b.Fatal(err)
		}
		if durable {
			if err := l.Sync(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		if res.Last%4096 == 0 { // keep the disk small
			l.SetHighWatermark(l.End())
			if n := l.Size() - 1<<30; n > 0 {
				x.m.Retain(testAt)
			}
		}
	}
	b.StopTimer()
	x.close()
}

// BenchmarkRead reads 64 KiB near the end, as a consumer that keeps up.
func BenchmarkRead(b *testing.B) {
	x := openBox(b, vfs.Real, managerConfig(b.TempDir()), true)
	l := x.log(DefaultConfig())
	for range 1000 {
		x.append(l, rec{ts: 1, value: strings.Repeat("x", 16<<10)})
	}
	b.ReportAllocs()
	i := int64(0)
	for b.Loop() {
		r, err := l.Read(i%990, l.End(), 64<<10, true)
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
		i++
	}
	b.StopTimer()
	x.close()
}

// BenchmarkOpenClose starts and stops with a thousand partitions (S1, S3).
func BenchmarkOpenClose(b *testing.B) {
	dir := b.TempDir()
	x := openBox(b, vfs.Real, managerConfig(dir), false)
	for i := range 1000 {
		tp := testTP
		tp.Partition = int32(i)
		l, err := x.m.Create(tp, testID, testConfig())
		if err != nil {
			b.Fatal(err)
		}
		for range 10 {
			x.append(l, rec{ts: 1, value: strings.Repeat("x", 1000)})
		}
	}
	x.close()
	var open, stop time.Duration
	for b.Loop() {
		began := time.Now()
		x := openBox(b, vfs.Real, managerConfig(dir), false)
		open += time.Since(began)
		began = time.Now()
		x.close()
		stop += time.Since(began)
	}
	b.ReportMetric(float64(open.Milliseconds())/float64(b.N), "ms-open")
	b.ReportMetric(float64(stop.Milliseconds())/float64(b.N), "ms-close")
}

// BenchmarkRawSync is the least that a durable append can cost here.
func BenchmarkRawSync(b *testing.B) {
	f, err := vfs.Real.Create(b.TempDir() + "/f")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, 16<<10)
	off := int64(0)
	for b.Loop() {
		if _, err := f.WriteAt(p, off); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		off += int64(len(p))
	}
}
