package replica

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A high watermark that was told before a restart is not told lower after it:
// whoever finds the partition leading finds the mark of a single replica at
// what it has on disk, not at the checkpoint's.
func TestMarkBeforeRole(t *testing.T) {
	m := storage.New(storage.ManagerConfig{Dirs: []string{"/d"}, NodeID: 1}, vfs.NewMem(), nil, nil)
	if err := m.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw := batchOf(t, "v")
	for i := range int32(300) {
		tp := kafka.TopicPartition{Topic: "t", Partition: i}
		log, err := m.Create(tp, kafka.TopicID{1}, storage.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(time.Now(), append([]byte(nil), raw...), 0, storage.FromClient); err != nil {
			t.Fatal(err)
		}
		if err := log.Sync(context.Background()); err != nil {
			t.Fatal(err)
		}
		p := newPartition(tp, 1, log, Rules{MinInSync: 1, Durable: true})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					if _, leads := p.Leading(); leads {
						break
					}
				}
				if res, err := p.Read(time.Now(), ReadReq{Offset: 1, Epoch: -1, LastEpoch: -1}); err != nil || res.HW != 1 {
					t.Errorf("high watermark %d, want 1: %v", res.HW, err)
				}
			})
		}
		view := isr.View{Committed: []kafka.NodeID{1}, Replicas: 1, MinInSync: 1}
		if err := p.enter(term{epoch: 1, leader: true, view: view}); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
	if err := m.Close(0); err != nil {
		t.Fatal(err)
	}
}

func batchOf(t *testing.T, value string) []byte {
	t.Helper()
	var b batch.Builder
	b.Reset(batch.Options{})
	b.Append(1, nil, []byte(value))
	raw, _, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
