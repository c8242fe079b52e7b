package replica

import (
	"context"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// world is a manager that follows a metadata store in memory.
type world struct {
	*metatest.World
	t    *testing.T
	fs   vfs.FS
	logs *storage.Manager
	m    *Manager
	stop func()
}

func newWorld(t *testing.T, fs vfs.FS, w *metatest.World) *world {
	t.Helper()
	logs, stop := logsOn(t, fs, "/data")
	m := NewManager(self, logs, func(img *meta.Image, topic string) (storage.Config, Rules) {
		cfg, rules := storage.DefaultConfig(), testRules()
		cfg.Durable = false
		if img.TopicConfig(topic)["max.message.bytes"] == "100" {
			rules.Batch.MaxMessageBytes = 100
		}
		return cfg, rules
	}, quiet)
	out := &world{World: w, t: t, fs: fs, logs: logs, m: m, stop: stop}
	return out
}

// begin registers the broker and takes over the whole image, as at a start.
func (w *world) begin(startID string) {
	w.t.Helper()
	b := &meta.Broker{ID: self, StartID: startID, Dirs: []kafka.DirID{w.logs.Dirs()[0].ID}}
	b.Listeners = []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: 1}}
	if err := w.RegisterBroker(b); err != nil {
		w.t.Fatal(err)
	}
	if err := w.m.Sweep(w.Img); err != nil {
		w.t.Fatal(err)
	}
	d := meta.Diff(meta.Empty(metatest.ClusterID), w.Img)
	w.apply(&d)
	w.settle()
}

// apply takes over a delta, and writes down where new logs are.
func (w *world) apply(d *meta.Delta) {
	w.t.Helper()
	b, _ := w.Img.Broker(self)
	unnamed := w.m.Apply(w.t.Context(), w.Img, d, b.Epoch)
	w.m.Drop(d)
	w.name(unnamed)
}

// name writes down where new logs are.
func (w *world) name(unnamed []Assignment) {
	w.t.Helper()
	if len(unnamed) == 0 {
		return
	}
	b, _ := w.Img.Broker(self)
	for _, l := range w.logs.Logs() {
		_ = l.Sync(w.t.Context()) // from now on its written end counts; or its disk is bad, and a test knows
	}
	var as []plan.Assignment
	for _, a := range unnamed {
		as = append(as, plan.Assignment{Partition: a.Partition, Dir: a.Dir})
	}
	batches, err := plan.AssignDirs(w.Img, self, b.Epoch, as)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, one := range batches {
		w.Do(one.Txn)
		w.apply(&w.Delta)
	}
}

// settle does what the controller would: new leaders for the broker's new life.
func (w *world) settle() {
	w.t.Helper()
	for topic := range w.Img.Topics() {
		for _, p := range topic.Partitions {
			if c, ok := plan.Settle(w.Img, topic, p, plan.Online); ok {
				for _, one := range plan.Batches(w.Img.Keys(), nil, []plan.Change{c}) {
					w.Do(one.Txn)
					w.apply(&w.Delta)
				}
			}
		}
	}
}

// create makes a topic; unless seen, the manager is not told yet.
func (w *world) create(name string, partitions int32) kafka.TopicID {
	w.t.Helper()
	b, _ := w.Img.Broker(self)
	id := w.NextID()
	m, err := plan.CreateTopic(w.Img, plan.NewTopic{
		Name: name, ID: id, Partitions: partitions, Factor: 1, Creator: plan.Creator{Node: self, BrokerEpoch: b.Epoch, Token: w.NextID()},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.Make(m, m.Steps()); err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) delete(id kafka.TopicID) {
	w.t.Helper()
	txn, err := plan.DeleteTopic(w.Img, id, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	if !w.Do(txn).Succeeded {
		w.t.Fatal("the topic was not deleted")
	}
}

func (w *world) partition(topic string, n int32) *Partition {
	w.t.Helper()
	p, ok := w.m.Get(kafka.TopicPartition{Topic: topic, Partition: n})
	if !ok {
		w.t.Fatalf("%s-%d is not here", topic, n)
	}
	return p
}

// dirs lists the log directories that are there, with their suffix.
func (w *world) dirs() string {
	w.t.Helper()
	names, err := w.fs.List("/data")
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, n := range names {
		if files, err := w.fs.List(path.Join("/data", n)); err == nil && len(files) > 0 {
			if name, suffix, away := strings.Cut(n, "."); away {
				n = name + "." + suffix[strings.LastIndexByte(suffix, '-'):]
			}
			out = append(out, n)
		}
	}
	return strings.Join(out, " ")
}

func (w *world) wantDirs(what, want string) {
	w.t.Helper()
	if got := w.dirs(); got != want {
		w.t.Errorf("%s: log directories %q, want %q", what, got, want)
	}
}

func TestManagerFollowsTheImage(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	old := w.create("t", 2)
	w.apply(&w.Delta)
	p := w.partition("t", 1)
	put(t, p, records("old"), -1)
	if len(w.m.All()) != 2 || w.m.Unmade() != 0 {
		t.Errorf("%d partitions, %d unmade", len(w.m.All()), w.m.Unmade())
	}

	// Configuration reaches a partition that serves.
	txn, ok, err := plan.ConfigureTopic(w.Img, "t", plan.ConfigChange{Set: map[string]string{"max.message.bytes": "100"}})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.Do(txn)
	w.apply(&w.Delta)
	_, err = p.Append(time.Now(), records(strings.Repeat("x", 200)), AppendOpts{Acks: 1})
	wantErr(t, "a batch above the topic's limit", err, kerr.MessageTooLarge)
	put(t, p, records("y"), 1)

	// Deletion wakes and refuses whoever is there still.
	waiter := NewWaiter()
	p.AddWaiter(waiter)
	select {
	case <-waiter.C:
	default:
	}
	w.delete(old)
	w.apply(&w.Delta)
	<-waiter.C
	_, err = p.Append(time.Now(), records("x"), AppendOpts{Acks: 1})
	wantErr(t, "append to a deleted partition", err, kerr.NotLeaderForPartition)
	if len(w.m.All()) != 0 {
		t.Errorf("%d partitions after the deletion", len(w.m.All()))
	}
	w.wantDirs("deleted", "t-0.-delete t-1.-delete")
}

// A topic that is deleted and made again while the broker did not look comes as
// one change: the new one has nothing of the old.
func TestManagerRecreatedTopic(t *testing.T) {
	for _, resync := range []bool{false, true} {
		w := newWorld(t, vfs.NewMem(), metatest.New())
		w.begin("a")
		old := w.create("t", 1)
		w.apply(&w.Delta)
		before := w.partition("t", 0)
		put(t, before, records("old"), -1)
		seen := w.Img
		w.delete(old)
		first := w.Delta
		id := w.create("t", 1)
		if resync {
			first = meta.Diff(seen, w.Img)
		} else {
			first.Partitions = append(first.Partitions, w.Delta.Partitions...)
		}
		w.apply(&first)
		p := w.partition("t", 0)
		if p == before || p.TopicID() != id || p.Log().End() != 0 {
			t.Errorf("resync=%t: the new topic's partition has id %s and end %d", resync, p.TopicID(), p.Log().End())
		}
		put(t, p, records("new"), -1)
		_, err := before.Append(time.Now(), records("x"), AppendOpts{Acks: 1})
		wantErr(t, "append to the old one", err, kerr.NotLeaderForPartition)
		w.wantDirs("recreated", "t-0 t-0.-delete")
	}
}

// restart ends the broker's life in order and begins another on the same disk.
func (w *world) restart(startID string, between func()) *world {
	w.t.Helper()
	w.m.Close()
	w.stop()
	if between != nil {
		between()
	}
	next := newWorld(w.t, w.fs, w.World)
	next.begin(startID)
	return next
}

func TestManagerRestart(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.create("t", 1)
	w.apply(&w.Delta)
	put(t, w.partition("t", 0), records("a"), -1)
	before, _ := w.partition("t", 0).Leading()
	w = w.restart("b", nil)
	p := w.partition("t", 0)
	if epoch, leads := p.Leading(); !leads || epoch != before+1 {
		t.Errorf("after a restart: leads=%t in epoch %d, was %d (safety 2)", leads, epoch, before)
	}
	if got := valuesAt(t, p, 0, ReadUncommitted); len(got) != 1 || got[0] != "a" {
		t.Errorf("after a restart it reads %q", got)
	}
	put(t, p, records("b"), -1)
}

// A log that the metadata counts on, and that is gone, is not made anew: it
// would be an empty copy that passes for a full one (safety 3).
func TestManagerMissingLogIsNotMadeAnew(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.create("lost", 1)
	w.apply(&w.Delta)
	w.create("kept", 1)
	w.apply(&w.Delta)
	put(t, w.partition("lost", 0), records("a"), -1)
	w = w.restart("b", func() {
		if err := w.fs.RemoveAll("/data/lost-0"); err != nil {
			t.Fatal(err)
		}
	})
	if _, ok := w.m.Get(kafka.TopicPartition{Topic: "lost"}); ok {
		t.Error("the lost partition is served")
	}
	w.wantDirs("lost", "kept-0")
	put(t, w.partition("kept", 0), records("a"), -1)
	lost := w.m.Lost(w.Img)
	if len(lost) != 1 || !lost[0].LogMissing {
		t.Errorf("lost: %+v", lost)
	}
	if w.m.Unmade() != 0 {
		t.Error("a log that is gone is tried again and again")
	}
}

// A log that is not durable, and may have lost records with the power, is told of
// until somebody vouches for it; one that was stopped in order is not (safety 11).
func TestManagerDoubtfulLog(t *testing.T) {
	disk := vfs.NewMem()
	w := newWorld(t, disk, metatest.New())
	w.begin("a")
	w.create("t", 1)
	w.apply(&w.Delta)
	put(t, w.partition("t", 0), records("a"), -1)
	left := disk.CrashClone(nil, vfs.CrashOptions{})
	w.stop()
	topic, _ := w.Img.Topic("t")
	for _, c := range []struct {
		fs   vfs.FS
		want []Loss
	}{{disk, nil}, {left, []Loss{{Partition: topic.Partitions[0].ID(), Doubtful: true}}}} {
		again := newWorld(t, c.fs, w.World)
		if lost := again.m.Lost(w.Img); !slices.Equal(lost, c.want) {
			t.Errorf("lost: %+v, want %+v", lost, c.want)
		}
		again.logs.Vouch()
		if lost := again.m.Lost(w.Img); len(lost) != 0 {
			t.Errorf("lost: %+v once somebody vouched", lost)
		}
		again.stop()
	}
}

// A log that stands in another directory than the state names is no copy that
// counts, though it is of that partition (safety 3).
func TestManagerLogElsewhere(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.create("t", 1)
	w.apply(&w.Delta)
	put(t, w.partition("t", 0), records("a"), -1)
	me, _ := w.Img.Broker(self)
	topic, _ := w.Img.Topic("t")
	move := plan.DirMove{Partition: topic.Partitions[0].ID(), From: w.logs.Dirs()[0].ID, To: kafka.DirID{7}}
	w = w.restart("b", func() {
		batches, err := plan.MoveDirs(w.Img, self, me.Epoch, []plan.DirMove{move})
		if err != nil {
			t.Fatal(err)
		}
		w.Do(batches[0].Txn)
	})
	if lost := w.m.Lost(w.Img); len(lost) != 1 || lost[0] != (Loss{Partition: move.Partition}) {
		t.Errorf("lost: %+v", lost)
	}
	if _, leads := w.partition("t", 0).Leading(); leads {
		t.Error("it leads on a log that nobody counts on")
	}
}

// A new replica neither leads nor follows until its directory is written down:
// at the next start its log would be taken for a new one, not for a lost one
// (safety 3).
func TestManagerWaitsToBeNamed(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.create("t", 1)
	me, _ := w.Img.Broker(self)
	if unnamed := w.m.Apply(t.Context(), w.Img, &w.Delta, me.Epoch); len(unnamed) != 1 {
		t.Fatalf("to be named: %+v", unnamed)
	}
	_, leads := w.partition("t", 0).Leading()
	if _, follows := w.partition("t", 0).Following(); leads || follows {
		t.Errorf("before it is named: leads %v, follows %v", leads, follows)
	}
	w.apply(&w.Delta)
	if _, leads := w.partition("t", 0).Leading(); !leads {
		t.Error("it does not lead once it is named")
	}
}

// What the metadata does not know is put aside; what it saw deleted is deleted.
func TestManagerSweep(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	id := w.create("dead", 1)
	w.apply(&w.Delta)
	kept := w.create("kept", 1)
	w.apply(&w.Delta)
	if _, err := w.logs.Create(kafka.TopicPartition{Topic: "unknown", Partition: 3}, kafka.TopicID{9}, storage.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.logs.Create(kafka.TopicPartition{Topic: "kept", Partition: 7}, kafka.TopicID{8}, storage.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.logs.Create(kafka.TopicPartition{Topic: "kept", Partition: 9}, kept, storage.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	w = w.restart("b", func() { w.delete(id) })
	w.wantDirs("swept", "dead-0.-delete kept-0 kept-7.-stray kept-9.-stray unknown-3.-stray")
	put(t, w.partition("kept", 0), records("a"), -1)
}

// A broker whose registration is another's does not lead, whatever the states say.
func TestManagerLeadsOnlyUnderItsOwnRegistration(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.create("t", 1)
	w.apply(&w.Delta)
	b, _ := w.Img.Broker(self)
	d := meta.Diff(meta.Empty(metatest.ClusterID), w.Img)
	for _, epoch := range []int64{0, b.Epoch + 1} {
		w.m.Apply(t.Context(), w.Img, &d, epoch)
		if _, leads := w.partition("t", 0).Leading(); leads {
			t.Errorf("it leads under epoch %d, the state names %d", epoch, b.Epoch)
		}
	}
	w.m.Apply(t.Context(), w.Img, &d, b.Epoch)
	if _, leads := w.partition("t", 0).Leading(); !leads {
		t.Error("it does not lead under its own")
	}
}

func TestMetrics(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	w.create("t", 3)
	w.apply(&w.Delta)
	put(t, w.partition("t", 0), records("a"), 1)
	w.partition("t", 1).close()
	w.partition("t", 2).fail(kerr.KafkaStorageError)
	small := alone
	small.Replicas, small.MinInSync = 2, 2
	lead(t, w.partition("t", 0), w.partition("t", 0).role.Load().epoch, small)
	reg := prometheus.NewRegistry()
	reg.MustRegister(w.m.Collector())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"barnabas_partitions": 3, "barnabas_partitions_leading": 1, "barnabas_partitions_under_min_isr": 1, "barnabas_partitions_offline": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What does not serve is told in a few lines, and at a stop not at all: a start
// that was ended early warned of each of ten thousand partitions.
func TestManagerTellsUnmadeBriefly(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), metatest.New())
	w.begin("a")
	var said strings.Builder
	w.m.log = slog.New(slog.NewTextHandler(&said, nil))
	w.create("many", 20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, _ := w.Img.Broker(self)
	w.m.Apply(ctx, w.Img, &w.Delta, b.Epoch)
	if w.m.Unmade() != 20 || said.Len() != 0 {
		t.Errorf("%d unmade; a manager that stops said %q", w.m.Unmade(), said.String())
	}
	w.m.tellUnmade(t.Context(), nil)
	if n := strings.Count(said.String(), "\n"); n != 6 || !strings.Contains(said.String(), "partitions=15") {
		t.Errorf("%d lines about 20 partitions:\n%s", n, said.String())
	}
}
