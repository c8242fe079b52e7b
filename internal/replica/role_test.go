package replica

import (
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// two is a world with another broker, 2, that is there in the metadata alone,
// and a topic t that both have a replica of.
type two struct {
	*world
	asked []Proposal
}

var otherDir = kafka.DirID{2, 2}

func newTwo(t *testing.T) *two {
	w := &two{world: newWorld(t, vfs.NewMem(), metatest.New())}
	w.m.Propose = func(p Proposal) { w.asked = append(w.asked, p) }
	w.begin("a")
	w.join("x")
	me, _ := w.Img.Broker(self)
	m, err := plan.CreateTopic(w.Img, plan.NewTopic{
		Name: "t", ID: w.NextID(), Partitions: -1, Factor: -1, Manual: []plan.ManualAssignment{{Partition: 0, Replicas: []kafka.NodeID{self, 2}}},
		Creator: plan.Creator{Node: self, BrokerEpoch: me.Epoch, Token: w.NextID()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Make(m, m.Steps()); err != nil {
		t.Fatal(err)
	}
	w.apply(&w.Delta)
	other, _ := w.Img.Broker(2)
	batches, err := plan.AssignDirs(w.Img, 2, other.Epoch, []plan.Assignment{{Partition: w.state().ID(), Dir: otherDir}})
	if err != nil {
		t.Fatal(err)
	}
	w.Do(batches[0].Txn)
	w.apply(&w.Delta)
	return w
}

// join registers broker 2 anew.
func (w *two) join(start string) {
	w.t.Helper()
	b := &meta.Broker{ID: 2, StartID: start, Dirs: []kafka.DirID{otherDir}}
	b.Listeners = []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: 2}}
	if err := w.RegisterBroker(b); err != nil {
		w.t.Fatal(err)
	}
	w.apply(&w.Delta)
}

// die ends broker 2's registration, and takes it out of the ISR.
func (w *two) die() {
	w.See(w.Store.Revoke(2))
	w.apply(&w.Delta)
	w.settle()
}

func (w *two) state() *meta.Partition {
	topic, _ := w.Img.Topic("t")
	return topic.Partitions[0]
}

// claims has broker 2 fetch at an offset, in an incarnation of its.
func (w *two) claims(brokerEpoch, at int64) error {
	return w.claimsIn(kafka.NoEpoch, brokerEpoch, at)
}

// claimsIn is claims with a leader epoch that it names.
func (w *two) claimsIn(epoch kafka.LeaderEpoch, brokerEpoch, at int64) error {
	return w.partition("t", 0).FollowerAt(time.Now(), epoch, isr.Claim{Node: 2, BrokerEpoch: brokerEpoch, Fetched: at, Counted: at})
}

func (w *two) isr() []kafka.NodeID {
	var out []kafka.NodeID
	for _, r := range w.state().ISR {
		out = append(out, r.Node)
	}
	return out
}

// A replica comes back into the ISR by a proposal that names its present
// registration, of which the leader heard without any change of the partition.
func TestManagerLetsReplicasIn(t *testing.T) {
	w := newTwo(t)
	p := w.partition("t", 0)
	if len(w.isr()) != 2 {
		t.Fatalf("isr %v", w.isr())
	}
	put(t, p, records("a"), 1)
	if p.HighWatermark() != 0 {
		t.Errorf("mark %d before the follower has it", p.HighWatermark())
	}
	b, _ := w.Img.Broker(2)
	if err := w.claims(b.Epoch, 1); err != nil || p.HighWatermark() != 1 {
		t.Errorf("mark %d, %v", p.HighWatermark(), err)
	}
	w.die()
	put(t, p, records("b"), -1)
	if !slices.Equal(w.isr(), []kafka.NodeID{self}) || p.HighWatermark() != 2 {
		t.Fatalf("isr %v, mark %d", w.isr(), p.HighWatermark())
	}

	for _, c := range []struct {
		what   string
		do     func()
		at     int64
		epoch  int64
		come   bool
		refuse error
	}{
		{"not registered", func() {}, 2, b.Epoch, false, nil},
		{"its old incarnation", func() { w.join("y") }, 2, b.Epoch, false, nil},
		{"behind the mark", func() {}, 1, -1, false, nil},
		{"with all", func() {}, 2, -1, true, nil},
	} {
		c.do()
		if now, ok := w.Img.Broker(2); ok && c.epoch < 0 {
			c.epoch = now.Epoch
		}
		if err := w.claims(c.epoch, c.at); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if (len(w.asked) > 0) != c.come {
			t.Errorf("%s: proposals %v", c.what, w.asked)
		}
	}
	if len(w.asked) != 1 || w.asked[0].Base != w.state().PartitionEpoch {
		t.Fatalf("%v at %d", w.asked, w.state().PartitionEpoch)
	}
	change, err := plan.ChangeISR(w.Img, w.asked[0].ISRChange)
	if err != nil {
		t.Fatal(err)
	}
	if !w.Do(plan.Batches(w.Img.Keys(), nil, []plan.Change{change})[0].Txn).Succeeded {
		t.Fatal("it was not carried out")
	}
	put(t, p, records("c"), 1)
	w.apply(&w.Delta)
	if len(w.isr()) != 2 || p.HighWatermark() != 2 {
		t.Errorf("isr %v, mark %d: the member that came in has not got the last record", w.isr(), p.HighWatermark())
	}
}

// A replica that a reassignment is adding does not count for
// min.insync.replicas before it is in the ISR: the leader goes on (safety 30).
func TestManagerDoesNotCountWhoIsAdded(t *testing.T) {
	w := newTwo(t)
	of := w.m.settings
	w.m.settings = func(img *meta.Image, topic string) (storage.Config, Rules) {
		cfg, rules := of(img, topic)
		rules.MinInSync = 2
		return cfg, rules
	}
	w.create("one", 1) // on this broker alone
	w.apply(&w.Delta)
	c, ok, err := plan.Reassign(w.Img, plan.Reassignment{Topic: "one", Replicas: []kafka.NodeID{self, 2}})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.Do(plan.Batches(w.Img.Keys(), nil, []plan.Change{c})[0].Txn)
	w.apply(&w.Delta)
	if topic, _ := w.Img.Topic("one"); len(topic.Partitions[0].Adding) != 1 {
		t.Fatalf("%+v", topic.Partitions[0])
	}
	p := w.partition("one", 0)
	put(t, p, records("a"), -1)
	if hw := p.HighWatermark(); hw != 1 {
		t.Errorf("mark %d", hw)
	}
}

func TestManagerKeepsLeavingReplicasOut(t *testing.T) {
	w := newTwo(t)
	w.die()
	w.join("y")
	b, _ := w.Img.Broker(2)
	leave, err := plan.SetLeaving(w.Img, 2, b.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	w.Do(leave)
	w.apply(&w.Delta)
	if err := w.claims(b.Epoch, 0); err != nil || len(w.asked) != 0 {
		t.Errorf("%v, %v", err, w.asked)
	}
}

// Nor is one proposed whose directory went offline, though it fetches.
func TestManagerKeepsOfflineReplicasOut(t *testing.T) {
	w := newTwo(t)
	w.die()
	w.join("y")
	b, _ := w.Img.Broker(2)
	offline, err := plan.SetOffline(w.Img, 2, b.Epoch, []kafka.DirID{otherDir})
	if err != nil {
		t.Fatal(err)
	}
	w.Do(offline)
	w.apply(&w.Delta)
	if err := w.claims(b.Epoch, 0); err != nil || len(w.asked) != 0 {
		t.Errorf("%v, %v", err, w.asked)
	}
}

// A broker whose registration is gone leads nothing, whatever the states say.
func TestManagerLeadsOnlyRegistered(t *testing.T) {
	w := newTwo(t)
	w.See(w.Store.Revoke(int64(self)))
	w.m.Apply(t.Context(), w.Img, &w.Delta, 0)
	if _, leads := w.partition("t", 0).Leading(); leads {
		t.Error("it leads")
	}
}

// What was reassigned to other brokers is dropped, with its log.
func TestManagerDropsWhatWasReassigned(t *testing.T) {
	w := newTwo(t)
	p := w.partition("t", 0)
	c, ok, err := plan.Reassign(w.Img, plan.Reassignment{Topic: "t", Replicas: []kafka.NodeID{2}})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.Do(plan.Batches(w.Img.Keys(), nil, []plan.Change{c})[0].Txn)
	w.apply(&w.Delta)
	if _, leads := p.Leading(); leads {
		t.Fatalf("%+v", w.state())
	}
	if _, hosted := w.m.Get(testTP); !hosted {
		t.Fatal("it is dropped before its leader let it go")
	}
	s := w.state()
	c, err = plan.ChangeISR(w.Img, plan.ISRChange{
		Partition: s.ID(), Leader: 2, LeaderBrokerEpoch: s.LeaderBrokerEpoch, LeaderEpoch: s.LeaderEpoch,
		ISR: []plan.Member{{Node: 2, BrokerEpoch: s.LeaderBrokerEpoch}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Do(plan.Batches(w.Img.Keys(), nil, []plan.Change{c})[0].Txn)
	w.apply(&w.Delta)
	if _, stays := w.state().Replica(self); stays {
		t.Fatalf("%+v", w.state())
	}
	if _, hosted := w.m.Get(testTP); hosted {
		t.Error("it is hosted")
	}
	if _, err := p.Append(testAt, records("a"), AppendOpts{Acks: 1}); err != kerr.NotLeaderForPartition {
		t.Error(err)
	}
	w.wantDirs("after it was reassigned", "t-0.-delete")
}

// A log that is missing is given up where nobody counts on it, and no directory
// is offline that could hold it (safety 3).
func TestManagerGivesUpWhatIsWaived(t *testing.T) {
	w := newTwo(t)
	topic, _ := w.Img.Topic("t")
	var fails atomic.Bool
	bad := vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
		if fails.Load() && strings.HasPrefix(op.Name, "/bad") {
			return syscall.EIO
		}
		return nil
	})
	for _, tt := range []struct {
		name  string
		fs    vfs.FS
		isr   int // which of the two members stays
		given bool
	}{
		{"the other leads", vfs.NewMem(), 1, true},
		{"the sole member", vfs.NewMem(), 0, false},
		{"a directory is offline", bad, 1, false},
	} {
		logs, stop := logsOn(t, tt.fs, "/bad", "/data")
		if tt.fs == bad {
			fails.Store(true)
			other := kafka.TopicPartition{Topic: "other"}
			if _, err := logs.Create(other, kafka.TopicID{1}, storage.DefaultConfig()); err == nil || logs.Dirs()[0].Offline == nil {
				t.Fatalf("%v; %v", err, logs.Dirs()[0].Offline)
			}
		}
		m := NewManager(self, logs, w.m.settings, quiet)
		state := w.state().Clone()
		state.ISR = state.ISR[tt.isr : tt.isr+1]
		was, _ := state.Replica(self)
		got := m.applyAll(t.Context(), w.Img, []change{{testTP, topic, state}}, 1)
		want := []Assignment{{Partition: state.ID(), From: was.Dir}}
		if !tt.given {
			want = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, want)
		}
		m.Close()
		stop()
	}
}

// Deletion waits for a replica that may be elected when it returns (safety 17):
// the leader knows which those are.
func TestManagerKnowsEligibleLeaders(t *testing.T) {
	w := newTwo(t)
	topic, _ := w.Img.Topic("t")
	state := w.state().Clone()
	state.ISR = state.ISR[:1]
	for _, eligible := range []bool{false, true} {
		if state.Eligible = nil; eligible {
			state.Eligible = state.Replicas[1:]
		}
		if c := w.m.termOf(w.partition("t", 0), w.Img, topic, state, 1).view.Candidates; len(c) != 1 || c[0].Node != 2 || c[0].Eligible != eligible {
			t.Errorf("eligible %t: %+v", eligible, c)
		}
	}
}
