package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// unsure makes a store of which no answer can be relied on: requests and
// answers get lost, and some transactions come late, or after others.
func unsure(seed uint64) func(metastore.Txn) metastore.Fault {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 7))
	return func(metastore.Txn) metastore.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch r.IntN(8) {
		case 0:
			return metastore.Fault{Kind: metastore.LostRequest}
		case 1:
			return metastore.Fault{Kind: metastore.LostAnswer}
		case 2:
			return metastore.Fault{Kind: metastore.Refused}
		case 3:
			return metastore.Fault{Kind: metastore.Late, Delay: time.Duration(r.IntN(80)) * time.Millisecond}
		}
		return metastore.Fault{}
	}
}

// A topic whose creation was answered is there, whole, with the id and the size
// that were told, and serves; whatever became of the transactions.
func TestCreateTopicThroughAmbiguity(t *testing.T) {
	for seed := range uint64(3) {
		r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
		r.store.OnTxn(unsure(seed))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var all sync.WaitGroup
		for n := range int32(12) {
			all.Go(func() {
				topic := fmt.Sprintf("t%d", n)
				made, err := r.create(ctx, topic, 1+n*20) // up to several transactions each
				if err != nil {
					t.Errorf("seed %d: %s: %v", seed, topic, err)
					return
				}
				img, ok := r.keeper.Image().Topic(topic)
				if !ok || img.ID != made.ID || len(img.Partitions) != int(1+n*20) || made.Partitions != 1+n*20 {
					t.Errorf("seed %d: %s was told as %+v and is %+v", seed, topic, made, img)
					return
				}
				if got := r.keeper.Image().TopicConfig(topic)["segment.bytes"]; got != "2000000" {
					t.Errorf("seed %d: %s has segment.bytes %q", seed, topic, got)
				}
				for p := range made.Partitions {
					if !r.leads(topic, p) {
						t.Errorf("seed %d: %s-%d does not serve", seed, topic, p)
					}
				}
				_, err = r.create(ctx, topic, 1)
				if !errors.Is(err, kerr.TopicAlreadyExists) {
					t.Errorf("seed %d: %s again: %v", seed, topic, err)
				}
			})
		}
		all.Wait()
		r.store.OnTxn(nil)
		r.stop()
	}
}

// Of many who create one name, one does.
func TestCreateTopicOnce(t *testing.T) {
	r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
	r.store.OnTxn(unsure(9))
	var mu sync.Mutex
	made := 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := r.create(t.Context(), "one", 3)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case !errors.Is(err, kerr.TopicAlreadyExists):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("%d creators were told that they made it", made)
	}
}

func TestDeleteTopicThroughAmbiguity(t *testing.T) {
	r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
	made, err := r.create(t.Context(), "gone", 3)
	if err != nil {
		t.Fatal(err)
	}
	r.store.OnTxn(unsure(4))
	if err := r.wishes.DeleteTopic(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if _, there := r.keeper.Image().TopicByID(made.ID); there {
		t.Error("the image still has it")
	}
	if err := r.wishes.DeleteTopic(t.Context(), made.ID); !errors.Is(err, kerr.UnknownTopicID) {
		t.Errorf("deleted again: %v", err)
	}
}

// No producer id is handed out twice: not to callers at once, not after lost
// answers or late transactions, not by the broker's next lives (REC-07).
func TestREC07ProducerIDs(t *testing.T) {
	mem, disk := metastore.NewMem(), vfs.NewMem()
	var mu sync.Mutex
	seen := map[int64]bool{}
	for life := range uint64(6) {
		r := startRig(t, mem, disk, fmt.Sprintf("life %d", life))
		r.store.OnTxn(unsure(life))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 600 { // more than a block
					id, err := r.wishes.ProducerID(t.Context())
					if err != nil {
						t.Errorf("life %d: %v", life, err)
						return
					}
					mu.Lock()
					if seen[id] {
						t.Errorf("life %d: %d was handed out before", life, id)
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if life%2 == 0 {
			r.store.OnTxn(nil)
		}
		r.stop()
	}
}

// Whoever waits for an id does so for as long as it said itself, also behind
// somebody who is more patient (R11).
func TestProducerIDWithoutAStore(t *testing.T) {
	r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
	r.store.Cut(true)
	defer r.store.Cut(false)
	patient, give := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := r.wishes.ProducerID(patient)
		got <- err
	}()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := r.wishes.ProducerID(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a store: %v", err)
		}
		cancel()
	}
	give()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("who was patient: %v", err)
	}
}

// What a published image shows has been carried out on this broker.
func TestPublishedMeansDone(t *testing.T) {
	r := startRig(t, metastore.NewMem(), vfs.NewMem(), "a")
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for {
			changed := r.keeper.Changed()
			img := r.keeper.Image()
			for topic := range img.Topics() {
				for _, s := range topic.Partitions {
					p, ok := r.replicas.Get(kafka.TopicPartition{Topic: topic.Name, Partition: s.Partition})
					if !ok {
						if _, still := r.keeper.Image().TopicByID(topic.ID); still {
							t.Errorf("%s-%d is in the image and not here", topic.Name, s.Partition)
						}
						continue
					}
					if _, leads := p.Leading(); !leads && s.Replicas[0].Dir != kafka.DirUnassigned {
						if _, still := r.keeper.Image().TopicByID(topic.ID); still {
							t.Errorf("%s-%d leads in the image and not here", topic.Name, s.Partition)
						}
					}
				}
			}
			select {
			case <-changed:
			case <-done:
				return
			}
		}
	})
	for n := range 10 {
		made, err := r.create(t.Context(), fmt.Sprintf("t%d", n), 4)
		if err != nil {
			t.Fatal(err)
		}
		if n%3 == 0 {
			if err := r.wishes.DeleteTopic(t.Context(), made.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	watcher.Wait()
}

// A topic that is made while the disk is full serves once there is room, with
// no further change of metadata (R8).
func TestFullDiskThenRoom(t *testing.T) {
	mem := vfs.NewMem()
	r := startRig(t, metastore.NewMem(), mem, "a")
	mem.SetCapacity(mem.Used() + 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _ = r.create(ctx, "late", 2)
	r.await("the topic", func() bool { _, ok := r.keeper.Image().Topic("late"); return ok })
	if r.leads("late", 0) {
		t.Fatal("it serves without room on the disk")
	}
	mem.SetCapacity(-1)
	r.await("the partitions to serve", func() bool { return r.leads("late", 0) && r.leads("late", 1) })
}
