package replica

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/storage/checkpoint"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func TestADM12DeleteRecords(t *testing.T) {
	p := partitionOn(t, newDisk(), false)
	for range 10 {
		put(t, p, records("x"), 1)
	}
	lead(t, p, 0, pair) // the high watermark waits for the other replica
	put(t, p, records("x"), 1)
	for _, c := range []struct {
		offset, low int64
		want        error
	}{
		{-2, -1, kerr.OffsetOutOfRange}, {11, -1, kerr.OffsetOutOfRange}, {3, 3, nil}, {1, 3, nil}, {DeleteToHighWatermark, 10, nil},
	} {
		low, err := p.DeleteRecords(c.offset)
		wantErr(t, "delete", err, c.want)
		if low != c.low {
			t.Errorf("up to %d: low watermark %d, want %d", c.offset, low, c.low)
		}
	}
	cfg := p.Log().Config()
	cfg.Delete, cfg.Compact = false, true
	p.Log().SetConfig(cfg)
	_, err := p.DeleteRecords(1)
	wantErr(t, "compacted", err, kerr.PolicyViolation)
	cfg.Compact = false // cleanup.policy is empty: nothing is deleted by itself
	p.Log().SetConfig(cfg)
	_, err = p.DeleteRecords(1)
	wantErr(t, "no policy", err, nil)
	follow(t, p, 1)
	_, err = p.DeleteRecords(1)
	wantErr(t, "follower", err, kerr.NotLeaderForPartition)
}

// Who stops leading while the log start is written down does not answer for it.
func TestDeleteRecordsLosesItsTerm(t *testing.T) {
	for _, next := range []kafka.LeaderEpoch{1, 2} {
		d := newDisk()
		p := partitionOn(t, d, false)
		put(t, p, records("x"), 1)
		release := d.hold()
		done := make(chan error, 1)
		go func() {
			_, err := p.DeleteRecords(1)
			done <- err
		}()
		<-d.stuck
		if p.Log().Start() != 0 {
			t.Error("the log start is told before it is stored")
		}
		if next == 1 {
			follow(t, p, 1)
		} else {
			p.close()
		}
		release()
		wantErr(t, "delete", <-done, kerr.NotLeaderForPartition)
	}
}

// A log moves to another directory while its start is written down in the one
// before: what is answered is true of the log that took its place.
func TestDeleteRecordsOfALogThatMoves(t *testing.T) {
	writing, swapped := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	mem := vfs.NewMem()
	logs, _ := logsOn(t, vfs.Faulty(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.HasPrefix(op.Name, "/a/"+checkpoint.LogStart) && armed.CompareAndSwap(true, false) {
			close(writing)
			<-swapped
		}
		return nil
	}), "/a", "/b")
	log, err := logs.Create(testTP, kafka.TopicID{1}, storage.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	p := newPartition(testTP, self, log, testRules(false))
	moved := make(chan struct{})
	p.moved = func(*Partition) { close(moved) }
	lead(t, p, 0, alone)
	for range 3 {
		put(t, p, records("x"), 1)
	}
	type answer struct {
		low int64
		err error
	}
	done := make(chan answer, 1)
	armed.Store(true)
	go func() {
		low, err := p.DeleteRecords(2)
		done <- answer{low, err}
	}()
	<-writing
	if err := logs.Move(testTP, "/b"); err != nil {
		t.Fatal(err)
	}
	<-moved
	close(swapped)
	if got := <-done; got.low != 2 || got.err != nil {
		t.Errorf("low watermark %d, %v", got.low, got.err)
	}
	if at := p.Log().Start(); at != 2 {
		t.Errorf("the log begins at %d", at)
	}
}

func TestDeleteRecordsOnABadDisk(t *testing.T) {
	d := newDisk()
	p := partitionOn(t, d, false)
	put(t, p, records("x"), 1)
	d.fail(vfs.ErrNoSpace)
	_, err := p.DeleteRecords(1)
	wantErr(t, "full disk", err, kerr.KafkaStorageError)
	d.fail(nil)
	low, err := p.DeleteRecords(1)
	wantErr(t, "room again", err, nil)
	if low != 1 {
		t.Errorf("low watermark %d", low)
	}
}
