package storage

import (
	"strings"
	"sync"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/checkpoint"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
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

// The recovery point of a log that was deleted says nothing of the next one of
// its name (safety 13): what a kill finds of that is checked from its beginning.
func TestRecoveryPointEndsWithItsLog(t *testing.T) {
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/d"), false)
	l := b.log(testConfig())
	for range 10 {
		b.append(l, values(5, "old")...)
	}
	if err := b.m.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.m.Delete(testTP, testID); err != nil {
		t.Fatal(err)
	}
	id := kafka.TopicID{9}
	l, err := b.m.Create(testTP, id, testConfig())
	if err != nil {
		t.Fatal(err)
	}
	good := b.append(l, values(5, "new")...).Last + 1
	at := l.Size()
	b.append(l, values(5, "damaged")...)
	name := l.dir.Join(segment.Name(0, segment.LogSuffix))
	after := fsys.CrashClone(nil, vfs.ProcessKill)
	b.crash()
	f, err := after.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, at+batch.HeaderSize+3); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b = openBox(t, after, managerConfig("/d"), false)
	if l, ok := b.m.Get(testTP); !ok || l.TopicID() != id || l.End() != good {
		t.Errorf("the log ends at %d, want %d", l.End(), good)
	}
	b.crash()
}

// What went is remembered until no checkpoint names it any more, and no longer:
// topics come and go for as long as a broker runs.
func TestRemovedIsForgotten(t *testing.T) {
	var during func()
	fsys := vfs.Wrap(vfs.NewMem(), vfs.Hooks{Before: func(op vfs.Op) error {
		if op.Kind == vfs.OpRename && strings.HasSuffix(op.NewName, checkpoint.RecoveryPoint) && during != nil {
			do := during
			during = nil
			do()
		}
		return nil
	}})
	b := openBox(t, fsys, managerConfig("/d"), false)
	d := b.m.dirs[0]
	late := testTP
	late.Partition = 1
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		b.append(b.log(testConfig()), values(1, "a")...)
		_, err := b.m.Create(late, testID, testConfig())
		must(err)
		must(b.m.Checkpoint(t.Context()))
		must(b.m.Delete(testTP, testID))
		if len(d.removed) != 1 {
			t.Fatalf("remembered while the checkpoints name it: %v", d.removed)
		}
		during = func() { must(b.m.Delete(late, testID)) } // the file that is being written names it
		must(b.m.Checkpoint(t.Context()))
		if _, still := d.removed[late]; len(d.removed) != 1 || !still || during != nil {
			t.Errorf("remembered: %v, want what went meanwhile", d.removed)
		}
		must(b.m.Checkpoint(t.Context()))
		if len(d.removed) != 0 {
			t.Errorf("remembered for nothing: %v", d.removed)
		}
	}
}
