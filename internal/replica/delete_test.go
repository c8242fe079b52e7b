package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/storage/checkpoint"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// deleteAll deletes, and waits for the replicas.
func deleteAll(ctx context.Context, p *Partition, offset int64) (low int64, err error) {
	d, err := p.DeleteRecords(offset)
	if err != nil {
		return -1, err
	}
	return p.AwaitDeleted(ctx, d)
}

func TestADM12DeleteRecords(t *testing.T) {
	p := partitionOn(t, newDisk(), false)
	for range 10 {
		put(t, p, records("x"), 1)
	}
	lead(t, p, 0, pair) // the high watermark waits for the other replica
	put(t, p, records("x"), 1)
	for _, c := range []struct {
		offset, start int64
		want          error
	}{
		{-2, 0, kerr.OffsetOutOfRange}, {11, 0, kerr.OffsetOutOfRange}, {3, 3, nil}, {1, 3, nil}, {DeleteToHighWatermark, 10, nil},
	} {
		_, err := p.DeleteRecords(c.offset)
		wantErr(t, "delete", err, c.want)
		if at := p.Log().Start(); at != c.start {
			t.Errorf("up to %d: the log starts at %d, want %d", c.offset, at, c.start)
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
	cfg := storage.DefaultConfig()
	cfg.Durable = false
	log, err := logs.Create(testTP, kafka.TopicID{1}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	relax(t, log)
	p := newPartition(testTP, self, log, testRules())
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
		low, err := deleteAll(t.Context(), p, 2)
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
	low, err := deleteAll(t.Context(), p, 1)
	wantErr(t, "room again", err, nil)
	if low != 1 {
		t.Errorf("low watermark %d", low)
	}
}

// Records are deleted when no live replica has them any more: neither one in
// sync nor one that catches up, but one whose broker is gone is not waited for.
func TestDeleteRecordsOnEveryReplica(t *testing.T) {
	p := replicaOf(t, 1)
	v := isr.View{Committed: []kafka.NodeID{1, 2}, Replicas: 4, MinInSync: 1, Candidates: []isr.Candidate{
		{Node: 3, BrokerEpoch: 7}, {Node: 4},
	}}
	see(t, p, 0, 1, v)
	put(t, p, records("0", "1", "2", "3"), 1)
	put(t, p, records("4"), 1)
	claim := func(n kafka.NodeID, start int64) {
		t.Helper()
		wantErr(t, "claim", p.FollowerAt(testAt, 0, isr.Claim{Node: n, BrokerEpoch: 7, Fetched: 5, Counted: 5, LogStart: start}), nil)
	}
	claim(2, 0)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	low, err := deleteAll(over, p, 4)
	if low != -1 || !errors.Is(err, context.Canceled) {
		t.Errorf("a replica has said nothing: low watermark %d, %v", low, err)
	}
	claim(3, 1)
	if low, err = deleteAll(over, p, 4); low != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("one has everything, another nearly so: low watermark %d, %v", low, err)
	}

	w := NewWaiter() // a follower's long poll, which is told
	p.AddWaiter(w)
	done, start := make(chan error, 1), p.Log().Start()
	go func() {
		low, err := deleteAll(t.Context(), p, 5)
		if err == nil && low != 5 {
			err = fmt.Errorf("low watermark %d", low)
		}
		done <- err
	}()
	for p.Log().Start() == start {
		<-w.C
	}
	claim(2, 5)
	claim(3, 4)
	select {
	case err := <-done:
		t.Fatalf("answered while broker 3 starts at 4: %v", err)
	default:
	}
	claim(3, 5)
	wantErr(t, "delete", <-done, nil)

	d, err := p.DeleteRecords(5)
	wantErr(t, "again", err, nil)
	see(t, p, 1, 2, v)
	_, err = p.AwaitDeleted(t.Context(), d)
	wantErr(t, "follower", err, kerr.NotLeaderForPartition)
	see(t, p, 2, 1, v)
	_, err = p.AwaitDeleted(t.Context(), d)
	wantErr(t, "another term", err, kerr.NotLeaderForPartition)
}
