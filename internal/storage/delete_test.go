package storage

import (
	"sync"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Partitions that are deleted and made again under the same name while their
// logs are being flushed neither fail the directory nor write into each other.
func TestDeleteBesideFlush(t *testing.T) {
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/d"), true)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			tp := kafka.TopicPartition{Topic: "t", Partition: int32(w)}
			for round := range 60 {
				id := kafka.TopicID{byte(w + 1), byte(round + 1)}
				l, err := b.m.Create(tp, id, testConfig())
				if err != nil {
					t.Errorf("create %s, round %d: %v", tp, round, err)
					return
				}
				epoch := kafka.LeaderEpoch(round)
				if err := l.AssignEpoch(epoch, 0); err != nil {
					t.Errorf("epoch: %v", err)
				}
				if _, err := l.Append(testAt, makeBatch(t, plainOptions(), values(3, "v")...), epoch, FromClient); err != nil {
					t.Errorf("append to %s, round %d: %v", tp, round, err)
				}
				if got := l.LatestEpoch(); got != epoch {
					t.Errorf("%s, round %d: latest epoch %d, want %d", tp, round, got, epoch)
				}
				if err := b.m.Delete(tp, id); err != nil {
					t.Errorf("delete %s, round %d: %v", tp, round, err)
				}
			}
		})
	}
	wg.Wait()
	for _, d := range b.m.Dirs() {
		if d.Offline != nil {
			t.Errorf("directory went offline: %v", d.Offline)
		}
	}
	b.close()
}
