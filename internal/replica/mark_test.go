package replica

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A high watermark that was told before a restart is not told lower after it:
// whoever finds the partition leading finds the mark of a single replica at
// what it has on disk, not at the checkpoint's. The log is told of the mark under
// a lock of its own, which a write holds here: until then nobody leads.
func TestMarkBeforeRole(t *testing.T) {
	stuck, release := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	fsys := vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && held.CompareAndSwap(true, false) {
			close(stuck)
			<-release
		}
		return nil
	})
	logs, _ := logsOn(t, fsys, "/d")
	log, err := logs.Create(testTP, kafka.TopicID{1}, storage.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	var open batch.Builder
	open.Reset(batch.Options{Transactional: true, Producer: &batch.Producer{ID: 1}})
	open.Append(1, nil, []byte("v"))
	raw, _, err := open.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(testAt, raw, 0, storage.FromClient); err != nil {
		t.Fatal(err)
	}
	if err := log.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := newPartition(testTP, self, log, Rules{MinInSync: 1})
	if hw := p.HighWatermark(); hw != 0 {
		t.Fatalf("mark %d before the term", hw)
	}
	held.Store(true)
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := log.Append(testAt, records("w"), 0, storage.FromClient); err != nil {
			t.Error(err)
		}
	})
	<-stuck
	both.Go(func() {
		if err := p.enter(term{epoch: 1, leader: true, of: self, view: alone}); err != nil {
			t.Error(err)
		}
	})
	for p.HighWatermark() == 0 {
		runtime.Gosched()
	}
	if _, leads := p.Leading(); leads {
		t.Error("it leads before its mark is there")
	}
	close(release)
	both.Wait()
	if _, leads := p.Leading(); !leads || p.HighWatermark() < 1 {
		t.Errorf("it leads %t, with mark %d", leads, p.HighWatermark())
	}
}
