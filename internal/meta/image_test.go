package meta_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// shadow is what somebody knows who sees deltas alone.
type shadow struct {
	topics  map[string]kafka.TopicID
	parts   map[meta.PartitionID]string
	brokers map[kafka.NodeID]string
}

func newShadow() *shadow {
	return &shadow{map[string]kafka.TopicID{}, map[meta.PartitionID]string{}, map[kafka.NodeID]string{}}
}

func (s *shadow) see(d meta.Delta) {
	for _, t := range d.Deleted {
		delete(s.topics, t.Name)
	}
	for _, t := range d.Created {
		s.topics[t.Name] = t.ID
	}
	for _, p := range d.Partitions {
		if p.Old != nil {
			delete(s.parts, p.Old.ID())
		}
		if p.New != nil {
			s.parts[p.New.ID()] = fmt.Sprint(p.New.PartitionEpoch, metatest.State(p.New))
		}
	}
	for _, b := range d.BrokersDown {
		delete(s.brokers, b.ID)
	}
	for _, b := range d.BrokersUp {
		s.brokers[b.ID] = metatest.BrokerLine(b)
	}
	for _, b := range d.BrokersChanged {
		s.brokers[b.New.ID] = metatest.BrokerLine(b.New)
	}
}

func (s *shadow) equal(o *shadow) bool {
	return maps.Equal(s.topics, o.topics) && maps.Equal(s.parts, o.parts) && maps.Equal(s.brokers, o.brokers)
}

// TestRandomPlans carries out random plans and demands that the image made of
// events equals that of a listing and that each delta equals the difference of
// the images (metatest does so at every step); that the deltas together say
// what one difference from the first image to the last says; that several
// revisions in one change, and the events of a revision in any order, give the
// same.
func TestRandomPlans(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := metatest.New()
		first, all := w.Img, newShadow()
		batched, pendingCh := w.Img, kv.Change{}
		var changes []kv.Change
		note := func(ch kv.Change) {
			w.See(ch)
			if ch.Rev == 0 {
				return
			}
			all.see(w.Delta)
			changes = append(changes, ch)
		}
		for range rapid.IntRange(1, 25).Draw(rt, "plans") {
			for _, txn := range randomPlan(rt, w) {
				_, ch, err := w.Store.Do(txn)
				if err != nil {
					rt.Fatal(err)
				}
				note(ch)
			}
		}
		once := newShadow()
		once.see(meta.Diff(first, w.Img))
		if !once.equal(all) {
			rt.Fatalf("the deltas together:\n%v\none difference:\n%v", all, once)
		}
		for _, ch := range changes {
			pendingCh.Events = append(pendingCh.Events, rapid.Permutation(ch.Events).Draw(rt, "order")...)
			pendingCh.Rev = ch.Rev
			if rapid.Bool().Draw(rt, "deliver") {
				batched, _ = batched.Apply(pendingCh)
				pendingCh = kv.Change{}
			}
		}
		if pendingCh.Rev != 0 {
			batched, _ = batched.Apply(pendingCh)
		}
		if got, want := metatest.Describe(batched), metatest.Describe(w.Img); got != want {
			rt.Fatalf("in other portions:\n%s\none by one:\n%s", got, want)
		}
		if d := meta.Diff(batched, w.Img); !d.Empty() {
			rt.Fatalf("difference of equal images:\n%s", metatest.DescribeDelta(d))
		}
	})
}

var names = []string{"a", "b.c", "b_c", "d"}

// randomPlan gives the transactions of one plan; creations may stop half way.
func randomPlan(rt *rapid.T, w *metatest.World) []kv.Txn {
	name := rapid.SampledFrom(names).Draw(rt, "topic")
	node := kafka.NodeID(rapid.IntRange(1, 3).Draw(rt, "node"))
	b, up := w.Img.Broker(node)
	t, exists := w.Img.Topic(name)
	switch rapid.IntRange(0, 9).Draw(rt, "what") {
	case 0, 1:
		r, err := plan.Register(w.Img.Keys(), b, &meta.Broker{ID: node, StartID: fmt.Sprint(w.Store.Rev), Dirs: []kafka.DirID{metatest.Dir("d" + node.String())}}, int64(node))
		if err != nil {
			rt.Fatal(err)
		}
		if r.Remove != nil {
			return []kv.Txn{*r.Remove, r.Put}
		}
		return []kv.Txn{r.Put}
	case 2:
		if up {
			return []kv.Txn{plan.Unregister(w.Img.Keys(), node, b.Epoch)}
		}
	case 3, 4:
		return creation(rt, w, name, node, b)
	case 5:
		if exists {
			txn, err := plan.DeleteTopic(w.Img, t.ID, 1)
			if err != nil {
				rt.Fatal(err)
			}
			return []kv.Txn{txn}
		}
	case 6:
		txn, ok, err := plan.ConfigureTopic(w.Img, name, plan.ConfigChange{Set: map[string]string{"k": node.String()}})
		if err == nil && ok {
			return []kv.Txn{txn}
		}
	case 7:
		var cs []plan.Change
		for _, p := range allPartitions(w.Img) {
			tp, _ := w.Img.TopicByID(p.Topic)
			if c, ok := plan.Settle(w.Img, tp, p, plan.Preferred); ok {
				cs = append(cs, c)
			}
		}
		var out []kv.Txn
		for _, b := range plan.Batches(w.Img.Keys(), nil, cs) {
			out = append(out, b.Txn)
		}
		return out
	case 9:
		if txn, ok := plan.ConfigureClientMetrics(w.Img, name, plan.ConfigChange{Set: map[string]string{"k": node.String()}}); ok {
			return []kv.Txn{txn}
		}
	case 8:
		if up {
			txn, err := plan.SetLeaving(w.Img, node, b.Epoch)
			if err != nil {
				rt.Fatal(err)
			}
			return []kv.Txn{txn}
		}
	}
	return nil
}

func creation(rt *rapid.T, w *metatest.World, name string, node kafka.NodeID, b *meta.Broker) []kv.Txn {
	if b == nil {
		return nil
	}
	by := plan.Creator{Node: node, BrokerEpoch: b.Epoch, Lease: int64(node), Token: w.NextID()}
	var m *plan.Making
	var err error
	if t, ok := w.Img.Topic(name); ok {
		more := rapid.SampledFrom([]int32{1, 3, 130}).Draw(rt, "more")
		m, err = plan.AddPartitions(w.Img, plan.MorePartitions{Topic: name, Count: int32(len(t.Partitions)) + more, Creator: by})
	} else {
		m, err = plan.CreateTopic(w.Img, plan.NewTopic{
			Name: name, ID: w.NextID(), Partitions: rapid.SampledFrom([]int32{1, 2, 140}).Draw(rt, "partitions"), Factor: 1, Creator: by,
		})
	}
	if err != nil {
		return nil
	}
	out := []kv.Txn{m.First}
	for n := range rapid.IntRange(0, m.Steps()).Draw(rt, "steps") {
		out = append(out, m.Step(n, w.Store.Rev+1))
	}
	return out
}

func allPartitions(img *meta.Image) []*meta.Partition {
	var out []*meta.Partition
	for t := range img.Topics() {
		out = slices.Concat(out, t.Partitions)
	}
	return out
}

// An image that was read stays as it was whatever is applied to it.
func TestImagesDoNotChange(t *testing.T) {
	w := metatest.New()
	w.See(w.Store.Set(keys.Broker(1), string(golden[2].value)))
	w.See(w.Store.Set(keys.State(id, 0), string(golden[1].value)))
	w.See(w.Store.Set(keys.Topic("t"), string((&meta.Topic{ID: id}).Encode(1))))
	old, before := w.Img, metatest.Describe(w.Img)
	w.See(w.Store.Set(keys.State(id, 0), string(golden[1].value)))
	w.See(w.Store.Set(keys.State(id, 1), string(golden[1].value)))
	w.See(w.Store.Set(keys.Topic("t"), string((&meta.Topic{ID: id}).Encode(2))))
	w.See(w.Store.Set(keys.Broker(3), string(golden[2].value)))
	w.Do(kv.Txn{Then: []kv.Op{kv.DeleteOp(keys.Broker(1)), kv.DeleteUnder(keys.States(id)), kv.DeleteOp(keys.Topic("t"))}})
	if after := metatest.Describe(old); after != before {
		t.Errorf("the image was:\n%sand became:\n%s", before, after)
	}
}

// The zero Image answers, and a change that is already in it changes nothing.
func TestZeroAndOldChanges(t *testing.T) {
	var img meta.Image
	if n, at := img.Controller(); n != kafka.NoNode || at != 0 || img.TopicCount() != 0 || len(img.Brokers()) != 0 {
		t.Error("the zero image is not empty")
	}
	if _, ok := img.Topic("x"); ok {
		t.Error("the zero image has a topic")
	}
	for range img.Topics() {
		t.Error("the zero image has a topic")
	}
	next, d := meta.Empty("c").Apply(kv.Change{Rev: 9})
	if next.Revision() != 9 || !d.Empty() {
		t.Errorf("progress to %d with %v", next.Revision(), d)
	}
	same, d := next.Apply(kv.Change{Rev: 9, Events: []kv.Event{{KV: kv.KV{Key: "/barnabas/c/controller_epoch", Value: []byte("{}"), ModRev: 9}}}})
	if same != next || !d.Empty() {
		t.Error("an old change was applied")
	}
}

func TestTopicsFrom(t *testing.T) {
	w := metatest.New()
	for n, name := range []string{"a", "c", "e"} {
		tid := kafka.TopicID{0: byte(n + 1)}
		w.See(w.Store.Set(keys.State(tid, 0), string(golden[1].value)))
		w.See(w.Store.Set(keys.Topic(name), string((&meta.Topic{ID: tid}).Encode(1))))
	}
	for from, want := range map[string]string{"": "ace", "a": "ace", "b": "ce", "e": "e", "f": ""} {
		got := ""
		for topic := range w.Img.TopicsFrom(from) {
			got += topic.Name
		}
		if got != want {
			t.Errorf("topics from %q are %q, not %q", from, got, want)
		}
	}
}

// big makes a listing of topics with 10 partitions each.
func big(partitions int) []kv.KV {
	var out []kv.KV
	add := func(key string, value []byte) {
		out = append(out, kv.KV{Key: key, Value: value, CreateRev: 2, ModRev: 2, Version: 1})
	}
	for n := range partitions / 10 {
		tid := kafka.TopicID{0: 1, 1: byte(n >> 16), 2: byte(n >> 8), 3: byte(n)}
		add(keys.Topic(fmt.Sprintf("topic-%06d", n)), (&meta.Topic{ID: tid}).Encode(10))
		for p := range int32(10) {
			add(keys.State(tid, p), golden[0].value)
		}
	}
	return out
}

func BenchmarkFromListing(b *testing.B) {
	kvs := big(10000)
	for b.Loop() {
		if _, errs := meta.FromListing(metatest.ClusterID, kvs, 2); len(errs) != 0 {
			b.Fatal(errs)
		}
	}
}

// One partition of many changes.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			kvs := big(n)
			img, _ := meta.FromListing(metatest.ClusterID, kvs, 2)
			e := kvs[len(kvs)-1]
			b.ReportAllocs()
			for b.Loop() {
				e.ModRev = img.Revision() + 1
				img, _ = img.Apply(kv.Change{Rev: e.ModRev, Events: []kv.Event{{KV: e}}})
			}
		})
	}
}
