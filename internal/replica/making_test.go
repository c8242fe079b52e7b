package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// makeAll makes what was left to be made, in batches, and says how many.
func (w *world) makeAll(again bool) (batches int) {
	w.t.Helper()
	for batch := w.m.Next(w.Img, again); len(batch) > 0; batch = w.m.Next(w.Img, false) {
		batches++
		w.m.Make(w.t.Context(), batch)
		w.finish(batch)
	}
	return batches
}

func (w *world) finish(batch []*Making) {
	w.t.Helper()
	b, _ := w.Img.Broker(self)
	w.name(w.m.Finish(w.t.Context(), w.Img, batch, b.Epoch))
}

func (w *world) leading() (n int) {
	for _, p := range w.m.All() {
		if _, leads := p.Leading(); leads {
			n++
		}
	}
	return n
}

// A topic of many partitions holds nobody up: Apply makes none of it, later ones
// of a few partitions come before it, and in the end all lead.
func TestManyNewLogsAreMadeBehind(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.create("many", 5*makeAtOnce/2)
	w.apply(&w.Delta)
	if n := len(w.logs.Logs()); n != 0 {
		t.Fatalf("Apply made %d logs", n)
	}
	first := w.m.Next(w.Img, false)
	w.create("few", 2)
	w.apply(&w.Delta)
	w.m.Make(t.Context(), first)
	w.finish(first)
	second := w.m.Next(w.Img, false)
	for n, k := range second[:2] {
		if k.tp != (kafka.TopicPartition{Topic: "few", Partition: int32(n)}) {
			t.Errorf("number %d after the first batch is %v", n, k.tp)
		}
	}
	w.m.Make(t.Context(), second)
	w.finish(second)
	if n := w.leading(); len(first) != makeAtOnce || len(second) != makeAtOnce || n != 2*makeAtOnce {
		t.Errorf("batches of %d and %d, %d lead", len(first), len(second), n)
	}
	if n := w.makeAll(false); n != 1 {
		t.Errorf("%d more batches", n)
	}
	if n := w.leading(); n != 5*makeAtOnce/2+2 || len(w.m.waits) != 0 || w.m.Unmade() != 0 {
		t.Errorf("%d lead in the end, %d wait, %d are not made", n, len(w.m.waits), w.m.Unmade())
	}
	w.create("next", makeAtOnce)
	w.apply(&w.Delta)
	if len(w.m.waits) != 0 || w.leading() != 5*makeAtOnce/2+2+makeAtOnce {
		t.Error("a topic of a few partitions is not made at once")
	}
}

// Who comes first is made first, however many come after, and of the many some in
// each batch.
func TestNewLogsAreMadeInTurn(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.create("many", makeAtOnce+1)
	w.apply(&w.Delta)
	w.create("first", 1)
	w.apply(&w.Delta)
	for n := range 4 {
		w.create(fmt.Sprint("later", n), makeAtOnce)
		w.apply(&w.Delta)
		batch := w.m.Next(w.Img, false)
		w.m.Make(t.Context(), batch)
		w.finish(batch)
		switch n {
		case 0:
			w.partition("first", 0)
			w.partition("many", 0)
		case 3:
			w.partition("many", makeAtOnce)
		}
	}
}

// Of many, those come first that this broker is to lead.
func TestPreferredLeadersAreMadeFirst(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.Register(2, "")
	b, _ := w.Img.Broker(self)
	var manual []plan.ManualAssignment
	for n := range int32(2 * makeAtOnce) {
		nodes := []kafka.NodeID{2, self}
		if n%2 == 1 {
			nodes = []kafka.NodeID{self, 2}
		}
		manual = append(manual, plan.ManualAssignment{Partition: n, Replicas: nodes})
	}
	m, err := plan.CreateTopic(w.Img, plan.NewTopic{
		Name: "t", ID: w.NextID(), Partitions: -1, Factor: -1, Manual: manual, Creator: plan.Creator{Node: self, BrokerEpoch: b.Epoch, Token: w.NextID()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Make(m, m.Steps()); err != nil {
		t.Fatal(err)
	}
	w.apply(&w.Delta)
	for i, k := range w.m.Next(w.Img, false) {
		if k.tp.Partition != int32(2*i+1) {
			t.Fatalf("number %d is partition %d", i, k.tp.Partition)
		}
	}
}

// What goes before or while it is made leaves no log, and what comes under its
// name gets one of its own.
func TestTopicGoesWhileItsLogsAreMade(t *testing.T) {
	for _, when := range []string{"queued", "begun", "made"} {
		for _, again := range []int32{0, 1, makeAtOnce + 1} {
			w := newWorld(t, vfs.NewMem(), metatest.New())
			w.begin("a")
			id := w.create("t", makeAtOnce+1)
			w.apply(&w.Delta)
			var batch []*Making
			if when != "queued" {
				batch = w.m.Next(w.Img, false)
			}
			if when == "made" {
				w.m.Make(t.Context(), batch)
			}
			w.delete(id)
			w.apply(&w.Delta)
			if again > 0 {
				id = w.create("t", again)
				w.apply(&w.Delta)
			}
			if when == "begun" {
				w.m.Make(t.Context(), batch)
			}
			if batch != nil {
				w.finish(batch)
			}
			w.makeAll(false)
			if n := w.leading(); n != int(again) || len(w.logs.Logs()) != n || len(w.m.waits) != 0 || w.m.Unmade() != 0 {
				t.Errorf("%s, then %d: %d lead, %d logs, %d wait, %d not made", when, again, n, len(w.logs.Logs()), len(w.m.waits), w.m.Unmade())
			}
			for _, l := range w.logs.Logs() {
				if l.TopicID() != id {
					t.Errorf("%s, then %d: log %v is of topic %v", when, again, l.Partition(), l.TopicID())
				}
			}
		}
	}
}

// A partition that is given to other brokers before its log is made leaves none.
func TestPartitionGoesElsewhereWhileItsLogIsMade(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.create("t", makeAtOnce+2)
	w.apply(&w.Delta)
	batch := w.m.Next(w.Img, false)
	topic, _ := w.Img.Topic("t")
	for _, n := range []int{0, makeAtOnce} { // one that was begun, one that waits
		p := topic.Partitions[n].Clone()
		p.Replicas = []meta.Replica{{Node: 2, Dir: kafka.DirID{7}}}
		p.ISR, p.Leader, p.LeaderBrokerEpoch = p.Replicas, 2, 1
		w.Do(plan.Batches(w.Img.Keys(), nil, []plan.Change{{Next: p}})[0].Txn)
		w.apply(&w.Delta)
	}
	w.m.Make(t.Context(), batch)
	w.finish(batch)
	w.makeAll(false)
	if n := w.leading(); n != makeAtOnce || len(w.logs.Logs()) != n || len(w.m.waits) != 0 {
		t.Errorf("%d lead, %d logs, %d wait", n, len(w.logs.Logs()), len(w.m.waits))
	}
}

// What cannot be made in the background is told of once, keeps nobody waiting, and
// is made when it can be.
func TestManyNewLogsOnBadDisk(t *testing.T) {
	full := errors.Join(errors.New("there is no room"), vfs.ErrNoSpace)
	var mu sync.Mutex
	fails := true
	w := newWorld(t, vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if fails && op.Kind == vfs.OpCreate && strings.Contains(op.Name, "/many-") {
			return full
		}
		return nil
	}), metatest.New())
	w.begin("a")
	var said strings.Builder
	w.m.log = slog.New(slog.NewTextHandler(&said, nil))
	w.create("many", 3*makeAtOnce)
	w.apply(&w.Delta)
	w.makeAll(false)
	if w.m.Unmade() != 3*makeAtOnce || len(w.m.waits) != 0 {
		t.Fatalf("%d are not made, %d wait", w.m.Unmade(), len(w.m.waits))
	}
	told := strings.Count(said.String(), "\n")
	w.create("few", 2)
	w.apply(&w.Delta)
	var batches [][]*Making
	seen := map[kafka.TopicPartition]bool{}
	for range 4 { // the fourth finds nothing: all are begun
		batch := w.m.Next(w.Img, true)
		for _, k := range batch {
			if seen[k.tp] {
				t.Errorf("%v is made twice", k.tp)
			}
			seen[k.tp] = true
		}
		batches = append(batches, batch)
	}
	for _, batch := range batches {
		w.m.Make(t.Context(), batch)
		w.finish(batch)
	}
	w.makeAll(true)
	if n := w.leading(); n != 2 || w.m.Unmade() != 3*makeAtOnce {
		t.Errorf("%d lead, %d are not made", n, w.m.Unmade())
	}
	if told == 0 || strings.Count(said.String(), "\n") != told {
		t.Errorf("told of %d lines, then again:\n%s", told, said.String())
	}
	mu.Lock()
	fails = false
	mu.Unlock()
	w.makeAll(true)
	if n := w.leading(); n != 2+3*makeAtOnce || w.m.Unmade() != 0 || len(w.m.waits) != 0 {
		t.Errorf("%d lead in the end, %d are not made, %d wait", n, w.m.Unmade(), len(w.m.waits))
	}
}

// Making stops with its context, and is gone on with.
func TestMakingStops(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.create("many", makeAtOnce+1)
	w.apply(&w.Delta)
	batch := w.m.Next(w.Img, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.m.Make(ctx, batch)
	if n := len(w.logs.Logs()); n != 0 {
		t.Errorf("%d logs were made after the end", n)
	}
	if !slices.ContainsFunc(batch, func(k *Making) bool { return errors.Is(k.err, context.Canceled) }) {
		t.Error("it does not say why")
	}
	w.finish(batch)
	w.makeAll(false)
	w.makeAll(true)
	if n := w.leading(); n != makeAtOnce+1 {
		t.Errorf("%d lead in the end", n)
	}
}
