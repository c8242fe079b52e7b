//go:build unix

package broker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// slowSync is what a sync takes longer than the disk under it.
const slowSync = 2 * time.Millisecond

// BenchmarkSlowDisk is goal S4: so many partitions with one durable record a
// second each, on a disk whose syncs take 2 ms more. An iteration is a second of
// it; -benchtime=30x is half a minute. It tells the median and the 99th hundredth
// of the acknowledgements, syncs a second, and the CPU of the whole process in
// hundredths of a core: with the client's, which takes part of it.
func BenchmarkSlowDisk(b *testing.B) {
	for _, partitions := range []int{10, 1000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) { slowDisk(b, partitions) })
	}
}

func slowDisk(b *testing.B, partitions int) {
	var syncs atomic.Int64
	files := vfs.Faulty(vfs.Real, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir {
			syncs.Add(1)
			<-time.After(slowSync)
		}
		return nil
	})
	cl := benchBroker(b, files)
	ctx := b.Context()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, int32(partitions), 1, nil, "t"); err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	var took []time.Duration // under mu
	send := func(partition int) {
		began := time.Now()
		cl.Produce(ctx, &kgo.Record{Topic: "t", Partition: int32(partition), Value: make([]byte, 100)}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
		})
	}
	second := func() { // each partition has a moment of its own in it
		tick := time.NewTicker(time.Second / time.Duration(partitions))
		defer tick.Stop()
		for p := range partitions {
			<-tick.C
			send(p)
		}
	}
	second() // the first opens every log
	if err := cl.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	took = nil
	syncs.Store(0)
	began, cpu := time.Now(), processCPU(b)
	for b.Loop() {
		second()
	}
	if err := cl.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	wall, cpu := time.Since(began), processCPU(b)-cpu
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(float64(syncs.Load())/wall.Seconds(), "syncs/s")
	b.ReportMetric(100*cpu.Seconds()/wall.Seconds(), "%core")
	b.ReportMetric(0, "ns/op")
}

// benchBroker is a client of a broker on those files, with default settings.
func benchBroker(b *testing.B, files vfs.FS) *kgo.Client {
	b.Helper()
	br, err := New(Options{files: files, Set: []string{"listeners=PLAINTEXT://127.0.0.1:0", "barnabas.admin.listener=", "log.dirs=" + b.TempDir()}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- br.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	select {
	case <-br.Ready():
	case err := <-done:
		done <- err
		b.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(br.Addr("PLAINTEXT")), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cl.Close)
	return cl
}

func processCPU(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
