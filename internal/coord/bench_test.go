package coord

import (
	"context"
	"encoding/binary"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// counter is a machine that costs next to nothing: what is measured is the runtime.
type counter struct {
	n       uint64
	key     []byte
	value   [100]byte
	records [1]Record
	replies [1]Reply
}

type (
	add  struct{}
	read struct{}
)

func (read) Query() {}

func (c *counter) Step(_ time.Time, to Token, cmd Command) (out Out) {
	if _, writes := cmd.(*add); writes {
		c.n++
		binary.BigEndian.PutUint64(c.value[:], c.n)
		c.records[0] = Record{Key: c.key, Value: c.value[:]}
		out.Records = c.records[:]
	}
	c.replies[0] = Reply{To: to}
	out.Replies = c.replies[:]
	return out
}

func (c *counter) Fire(time.Time, TimerKey) Out { return Out{} }
func (c *counter) Apply(Record, Meta) error     { return nil }
func (c *counter) ApplyMarker(Producer, bool)   {}
func (c *counter) Loaded(time.Time) Out         { return Out{} }

// null is a partition that takes everything and keeps nothing. Late: nothing is
// committed before somebody waits for it.
type null struct {
	late bool
	end  int64 // of the run alone
	mark atomic.Int64
}

func (n *null) Leading() (kafka.LeaderEpoch, bool) { return 0, true }
func (n *null) Admit() error                       { return nil }
func (n *null) Bounds() (start, end int64)         { return 0, 0 }
func (n *null) HighWatermark() int64               { return n.mark.Load() }
func (n *null) Append(_ time.Time, _ []byte, _ replica.AppendOpts) (replica.AppendResult, error) {
	n.end++
	if !n.late {
		n.mark.Store(n.end)
	}
	return replica.AppendResult{Base: n.end - 1, Last: n.end - 1}, nil
}

func (n *null) AwaitCommitted(_ context.Context, _ kafka.LeaderEpoch, offset int64) error {
	n.mark.Store(offset)
	return nil
}

func (n *null) Read(time.Time, replica.ReadReq) (replica.ReadResult, error) {
	return replica.ReadResult{}, kerr.OffsetOutOfRange
}

// BenchmarkDo is one command on one shard, by one caller and by many at once:
// over nothing, and over a log whose acknowledgements do not wait for the disk.
func BenchmarkDo(b *testing.B) {
	for _, c := range []struct {
		name    string
		over    string
		callers int
		cmd     Command
	}{
		{"read/1", "nothing", 1, &read{}},
		{"read/64", "nothing", 64, &read{}},
		{"add/1", "nothing", 1, &add{}},
		{"add/64", "nothing", 64, &add{}},
		{"add/1/late", "late", 1, &add{}},
		{"add/64/late", "late", 64, &add{}},
		{"add/1/log", "log", 1, &add{}},
		{"add/64/log", "log", 64, &add{}},
		{"add/1024/log", "log", 1024, &add{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var epoch kafka.LeaderEpoch
			find := func(int32) (Partition, bool) { return &null{late: c.over == "late"}, true }
			if c.over == "log" {
				host := newBroker(b, false, 64<<20)
				host.dir = b.TempDir()
				host.open(vfs.Real)
				host.create()
				find = host.partition
				p, _ := host.partition(0)
				epoch, _ = p.Leading()
			}
			r := New(Config{
				Name: "counter", Workers: runtime.GOMAXPROCS(0), MaxBatchBytes: 1 << 20, LoadBytes: 1 << 20, MaxQueued: 1 << 20,
				Log: slog.New(slog.DiscardHandler), Partition: find,
				Machine: func(int32) Machine { return &counter{key: []byte("key")} },
			})
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			r.Elected(0, epoch)
			for r.Ready(0) != nil {
				runtime.Gosched()
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range c.callers {
				n := (b.N + i) / c.callers // b.N of them all together
				wg.Go(func() {
					for range n {
						if _, err := r.Do(ctx, 0, c.cmd); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			cancel()
			<-done
		})
	}
}
