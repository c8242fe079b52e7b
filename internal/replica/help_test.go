package replica

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

const self kafka.NodeID = 1

var (
	testTP = kafka.TopicPartition{Topic: "t", Partition: 0}
	testAt = time.UnixMilli(1_700_000_000_000)
	alone  = isr.View{Committed: []kafka.NodeID{self}, Replicas: 1, MinInSync: 1}
	pair   = isr.View{Committed: []kafka.NodeID{self, 2}, Replicas: 2, MinInSync: 1}
)

const patience = 20 * time.Second

// disk is a file system in memory whose syncs of data can be held back or made
// to fail.
type disk struct {
	vfs.FS
	mu    sync.Mutex
	held  chan struct{} // not nil: syncs wait for it
	stuck chan struct{} // told of one that does
	fails error
}

func newDisk() *disk {
	d := &disk{stuck: make(chan struct{}, 1)}
	d.FS = vfs.Faulty(vfs.NewMem(), d.before)
	return d
}

func (d *disk) before(op vfs.Op) error {
	if op.Kind != vfs.OpSync && op.Kind != vfs.OpSyncAll {
		return nil
	}
	d.mu.Lock()
	held := d.held
	d.mu.Unlock()
	if held != nil {
		select {
		case d.stuck <- struct{}{}:
		default:
		}
		<-held
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fails
}

// hold keeps syncs from ending until release.
func (d *disk) hold() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make(chan struct{})
	d.held = held
	return sync.OnceFunc(func() {
		d.mu.Lock()
		d.held = nil
		d.mu.Unlock()
		close(held)
	})
}

func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = err
}

// logsOn opens a log manager, runs it, and stops it with the test.
func logsOn(t testing.TB, fsys vfs.FS, dirs ...string) (m *storage.Manager, stop func()) {
	t.Helper()
	m = storage.New(storage.ManagerConfig{Dirs: dirs, NodeID: self, ClusterID: "c"}, fsys, nil, nil)
	if err := m.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		_ = m.Close(1) // an offline directory has nothing to close
	})
	t.Cleanup(stop)
	return m, stop
}

// relax has the first sync, from which on the written end counts where the log is
// not durable.
func relax(t testing.TB, log *storage.Log) {
	t.Helper()
	if err := log.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func testRules() Rules {
	return Rules{Batch: batch.Rules{MaxMessageBytes: 1 << 20, TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 1 << 60}, MinInSync: 1}
}

// partitionOn makes a partition that leads in epoch 0.
func partitionOn(t testing.TB, d *disk, durable bool) *Partition {
	t.Helper()
	logs, _ := logsOn(t, d, "/data")
	cfg := storage.DefaultConfig()
	cfg.Durable = durable
	log, err := logs.Create(testTP, kafka.TopicID{1}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	relax(t, log)
	p := newPartition(testTP, self, log, testRules())
	lead(t, p, 0, alone)
	return p
}

func lead(t testing.TB, p *Partition, epoch kafka.LeaderEpoch, v isr.View) {
	t.Helper()
	p.mu.Lock()
	now := p.state
	p.mu.Unlock()
	if err := p.enter(term{epoch: epoch, leader: true, of: p.self, view: v, stated: now}); err != nil {
		t.Fatal(err)
	}
}

func follow(t testing.TB, p *Partition, epoch kafka.LeaderEpoch) {
	t.Helper()
	if err := p.enter(term{epoch: epoch, view: pair}); err != nil {
		t.Fatal(err)
	}
}

func records(values ...string) []byte { return from(nil, values...) }

func from(p *batch.Producer, values ...string) []byte {
	var b batch.Builder
	b.Reset(batch.Options{Producer: p})
	for _, v := range values {
		b.Append(testAt.UnixMilli(), nil, []byte(v))
	}
	out, _, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	return out
}

func put(t testing.TB, p *Partition, buf []byte, acks int16) AppendResult {
	t.Helper()
	res, err := p.Append(testAt, buf, AppendOpts{Acks: acks})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// valuesAt reads records from an offset on.
func valuesAt(t testing.TB, p *Partition, offset int64, iso Isolation) []string {
	t.Helper()
	res, err := p.Read(testAt, ReadReq{Offset: offset, Epoch: -1, LastEpoch: -1, Max: 1 << 20, Isolation: iso})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Release()
	var out []string
	for _, s := range res.Slices {
		buf := make([]byte, s.Len())
		if err := s.ReadAt(buf, 0); err != nil {
			t.Fatal(err)
		}
		for len(buf) > 0 {
			b, rest, err := batch.Next(buf)
			if err != nil {
				t.Fatal(err)
			}
			it := batch.Records(b, 1<<20)
			for it.Next() {
				out = append(out, string(it.Record().Value))
			}
			it.Close()
			buf = rest
		}
	}
	return out
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

var quiet = slog.New(slog.DiscardHandler)
