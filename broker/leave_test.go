package broker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// pair starts two brokers with a topic of two partitions on both, the first of
// them led by the first broker.
func pair(t *testing.T, store metastore.Store, set ...string) (one, two *process) {
	t.Helper()
	one = startOn(t, store, "1", set...)
	two = startOn(t, store, "2")
	one.awaitImage(func() bool { return one.registered(2) != nil })
	one.placed("t", [][]kafka.NodeID{{1, 2}, {2, 1}})
	one.awaitImage(func() bool { return led(one, 0, 1) && led(one, 1, 2) && named(one) })
	return one, two
}

func partition(p *process, n int32) *meta.Partition {
	t, ok := p.image().Topic("t")
	if !ok {
		return nil
	}
	return t.Partitions[n]
}

func led(p *process, n int32, by kafka.NodeID) bool {
	s := partition(p, n)
	return s != nil && s.Leader == by
}

// named: every replica has named its directory, and can lead.
func named(p *process) bool {
	for n := range int32(2) {
		for _, r := range partition(p, n).Replicas {
			if r.Dir == kafka.DirUnassigned {
				return false
			}
		}
	}
	return true
}

// A broker that stops hands over first: when its registration is gone another
// leads already, and its stop did not wait for a session to end. The
// controller's place goes to those who stay (safety 35).
func TestStopHandsOver(t *testing.T) {
	for _, first := range []string{"the controller", "another"} {
		t.Run(first+" stops", func(t *testing.T) {
			mem := metastore.NewMem()
			one, two := pair(t, mem)
			goes, stays := one, two
			if first == "another" {
				goes, stays = two, one
			}
			away := goes.b.node.NodeID
			var seen, orphaned atomic.Bool
			carryOut := stays.hook(func(img *meta.Image) {
				b, there := img.Broker(away)
				seen.Store(seen.Load() || there && b.Leaving)
				topic, _ := img.Topic("t")
				for _, s := range topic.Partitions {
					_, in := s.InSync(away)
					if !there && (s.Leader == away || in) {
						orphaned.Store(true)
					}
				}
			})
			defer carryOut()
			began := time.Now()
			goes.end()
			if d := time.Since(began); d > 8*time.Second {
				t.Errorf("the stop took %v", d)
			}
			stays.awaitImage(func() bool { return stays.registered(away) == nil })
			if !seen.Load() || orphaned.Load() {
				t.Errorf("it said that it leaves: %v; it went while it led or was in sync: %v", seen.Load(), orphaned.Load())
			}
			if keys := goes.image().Keys(); first == "the controller" {
				if place, reg := deleted(t, mem, keys.Controller()), deleted(t, mem, keys.Broker(away)); place >= reg {
					t.Errorf("the controller's place is free at %d, the registration gone at %d", place, reg)
				}
			}
			stays.awaitImage(func() bool {
				return stays.readyNow() && led(stays, 0, stays.b.node.NodeID) && led(stays, 1, stays.b.node.NodeID)
			})
		})
	}
}

// deleted is the revision of the deletion of a key that is gone.
func deleted(t *testing.T, mem *metastore.Mem, key string) int64 {
	t.Helper()
	w, err := mem.Watch(t.Context(), key, 1)
	if err != nil {
		t.Fatal(err)
	}
	for c := range w.C() {
		for _, e := range c.Events {
			if e.Deleted && e.KV.Key == key {
				return e.KV.ModRev
			}
		}
	}
	t.Fatal(w.Err())
	return 0
}

func (p *process) readyNow() bool { return p.b.readiness() == nil }

// hook has f told of every image before it is published, until the end.
func (p *process) hook(f func(*meta.Image)) (end func()) {
	k := p.b.parts.keeper
	k.turn <- struct{}{}
	before := k.carryOut
	k.carryOut = func(img *meta.Image) { before(img); f(img) }
	<-k.turn
	return func() {
		k.turn <- struct{}{}
		k.carryOut = before
		<-k.turn
	}
}

// All of a cluster's brokers can stop at once: nobody waits for those who go, too.
func TestAllStopAtOnce(t *testing.T) {
	one, two := pair(t, metastore.NewMem())
	one.stop()
	two.stop()
	for _, p := range []*process{one, two} {
		if err := p.wait(); err != nil {
			t.Error(err)
		}
	}
}

// handsOverInTime: what nobody takes keeps a stop for barnabas.shutdown.timeout.ms.
func handsOverInTime(t *testing.T) {
	one, _ := besideOther(t, 1, "barnabas.shutdown.timeout.ms=200", "replica.lag.time.max.ms=600", "broker.session.timeout.ms=2000")
	// The other does not fetch, and so is out of sync for ever.
	one.mustBeAlone()
	key, store := one.image().Keys().State(partition(one, 0).Topic, 0), one.b.parts.store
	one.stop()
	if err := one.wait(); err != nil {
		t.Error(err)
	}
	if s, ok := storedKey(t, store, key); !ok || !strings.Contains(string(s.Value), `"leader":1`) && !strings.Contains(string(s.Value), `"leader":-1`) {
		t.Errorf("%s", s.Value)
	}
}

// Where the metadata store is away nobody can be told, and a stop does not wait
// for as long as it may.
func TestStopWithoutTheStore(t *testing.T) {
	mem := metastore.NewMem()
	var watch stopwatch
	one := startWith(t, Options{store: mem, clock: watch.read, Set: []string{"log.dirs=" + t.TempDir(), "broker.session.timeout.ms=2000"}})
	two := startOn(t, mem, "2")
	one.awaitImage(func() bool { return one.registered(2) != nil })
	mem.Stall(true)
	watch.set(time.Hour, time.Hour)
	one.stop()
	if err := one.wait(); err != nil {
		t.Error(err)
	}
	mem.Stall(false)
	two.awaitImage(func() bool { return two.registered(1) == nil }) // the session runs out
}

// placed makes a topic on given brokers.
func (p *process) placed(name string, replicas [][]kafka.NodeID) {
	p.t.Helper()
	wish := api.NewTopic{Name: name, Partitions: -1, ReplicationFactor: -1}
	for i, r := range replicas {
		wish.Assignment = append(wish.Assignment, api.Assigned{Partition: int32(i), Replicas: r})
	}
	if _, err := p.b.parts.cluster.CreateTopic(p.ctx(), wish, false); err != nil {
		p.t.Fatal(err)
	}
}

// revoking is a store that tells of the end of a session before it ends it.
type revoking struct {
	metastore.Store
	before func()
}

func (r *revoking) Revoke(ctx context.Context, lease int64) error {
	r.before()
	return r.Store.Revoke(ctx, lease)
}

// A registration is given up once everything is flushed and marked clean: who
// comes after it finds a log that is whole (safety 35).
func TestMarkedCleanBeforeItGoes(t *testing.T) {
	dir := t.TempDir()
	var marks []bool
	marked := func() {
		_, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown"))
		marks = append(marks, err == nil)
	}
	p := startWith(t, Options{store: &revoking{metastore.NewMem(), marked}, Set: []string{"log.dirs=" + dir}})
	p.createTopic("t", 1)
	p.end()
	if !slices.Equal(marks, []bool{true}) {
		t.Errorf("marked clean when the registration was given up: %v", marks)
	}
}

// A broker that stops waits for the others: while the controller has not heard of
// it yet, it keeps what it leads, and its registration (safety 35).
func TestStopWaitsForTheOthers(t *testing.T) {
	gone, release := make(chan struct{}), make(chan struct{})
	var deaf, early atomic.Bool
	store := &revoking{metastore.NewMem(), sync.OnceFunc(func() {
		early.Store(deaf.Load())
		close(gone)
	})}
	stays, goes := pair(t, store)
	var once sync.Once
	carryOut := stays.hook(func(img *meta.Image) {
		if b, there := img.Broker(2); there && b.Leaving {
			once.Do(func() {
				deaf.Store(true)
				go func() {
					select {
					case <-gone: // it did not wait
					case <-time.After(500 * time.Millisecond):
					}
					close(release)
				}()
				<-release
				deaf.Store(false)
			})
		}
	})
	defer carryOut()
	goes.end()
	stays.awaitImage(func() bool { return stays.registered(2) == nil && led(stays, 0, 1) && led(stays, 1, 1) })
	if early.Load() {
		t.Error("it went before others could take over")
	}
}
