package replica

import (
	"bytes"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// rounds has followers fetch until what is written is flushed, claimed, and known
// to be committed.
func (c *cluster) rounds(followers ...*member) {
	c.t.Helper()
	for range 3 {
		for _, m := range followers {
			c.fetch(m)
			if err := m.p.Log().Sync(c.t.Context()); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

func (c *cluster) leader() *member { return c.member(c.state.leader) }

// others are the members but some.
func (c *cluster) others(but ...*member) []*member {
	return slices.DeleteFunc(slices.Clone(c.members), func(m *member) bool { return slices.Contains(but, m) })
}

func (c *cluster) know(ms ...*member) {
	for _, m := range ms {
		c.deliver(m)
	}
}

// write has a leader take a record, without waiting for anybody.
func (c *cluster) write(m *member) {
	c.t.Helper()
	n := len(m.wrote)
	if c.produce(m); len(m.wrote) != n+1 {
		c.t.Fatalf("broker %d takes no records", m.id)
	}
	if err := m.p.Log().Sync(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// together ends a situation: all have the same log, with all that was acknowledged.
func (c *cluster) together(acked int) {
	c.t.Helper()
	c.settle()
	for _, m := range c.members {
		c.acknowledge(m)
	}
	if len(c.acked) != acked {
		c.t.Errorf("acknowledged: %v, want %d records", c.acked, acked)
	}
	want := valuesAt(c.t, c.leader().p, 0, ReadUncommitted)
	for at, value := range c.acked {
		if int(at) >= len(want) || want[at] != value {
			c.t.Errorf("%s was acknowledged at %d, and there is %v", value, at, want)
		}
	}
	for _, m := range c.others(c.leader()) {
		if got := copied(c.t, m.p); !bytes.Equal(got, copied(c.t, c.leader().p)) {
			c.t.Errorf("broker %d has another log than the leader: it ends at %d", m.id, m.p.Log().End())
		}
	}
}

// copied is all that a replica's log holds.
func copied(t *testing.T, p *Partition) (all []byte) {
	t.Helper()
	data, err := p.Log().Read(0, p.Log().End(), 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range data.Slices {
		b := make([]byte, s.Len())
		if err := s.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		s.Release()
		all = append(all, b...)
	}
	return all
}

// begun is a cluster that has acknowledged two records.
func begun(t *testing.T) (c *cluster, leader *member) {
	c = newCluster(t, 0)
	c.know(c.members...)
	leader = c.leader()
	c.write(leader)
	c.write(leader)
	c.rounds(c.others(leader)...)
	if c.acknowledge(leader); len(c.acked) != 2 {
		t.Fatalf("acknowledged: %v", c.acked)
	}
	return c, leader
}

// lost ends a member's session while its process goes on: another is elected.
func (c *cluster) lost(m *member) {
	m.up = false
	c.elect()
	m.up = true
}

// found registers a member anew that knows that it was gone.
func (c *cluster) found(m *member) {
	c.epoch++
	m.epoch = c.epoch
}

// A leader that is cut off goes on writing, and a follower that has not heard of
// the election goes on copying it. Nothing of that is acknowledged, and all of
// it goes when they hear of the next leader.
func TestStaleLeaderStillWrites(t *testing.T) {
	c, old := begun(t)
	c.lost(old)
	next := c.leader()
	late := c.others(old, next)[0]
	c.know(next)
	c.write(old)
	c.write(old)
	c.rounds(late, next)
	if late.p.Log().End() != 4 || next.p.Log().End() != 2 {
		t.Fatalf("the one that has not heard ends at %d, the next leader at %d", late.p.Log().End(), next.p.Log().End())
	}
	if c.acknowledge(old); len(c.acked) != 2 || old.p.HighWatermark() != 2 {
		t.Fatalf("a stale leader acknowledges: %v, its mark is %d", c.acked, old.p.HighWatermark())
	}
	c.write(next)
	c.know(late)
	c.rounds(late)
	if c.acknowledge(next); len(c.acked) != 3 {
		t.Fatalf("acknowledged by the next leader: %v", c.acked)
	}
	c.found(old)
	c.together(3)
}

// A leader is stopped while a record waits for the others, and another is
// elected. When it goes on, its claim to lead is served by nobody: who waited
// is told to ask another, however many records stand at that offset by then.
func TestPausedLeaderComesBack(t *testing.T) {
	c, old := begun(t)
	c.write(old)
	waits := awaitAsync(t, old.p, AppendResult{Epoch: old.wrote[0].epoch, Last: old.wrote[0].last})
	old.wrote = nil
	c.lost(old)
	next := c.leader()
	c.know(c.others(old)...)
	c.write(next)
	c.write(next)
	c.rounds(c.others(old, next)...)
	if c.acknowledge(next); len(c.acked) != 4 {
		t.Fatalf("acknowledged: %v", c.acked)
	}
	c.write(old) // the first thing that it does is a request that was waiting
	old.wrote = nil
	c.found(old)
	c.know(old)
	wantErr(t, "who waited", <-waits, kerr.NotLeaderForPartition)
	c.together(4)
}

// The power goes on three brokers whose logs end differently, and the one that
// has least comes back first. It leads, for it has all that was acknowledged;
// what the others have more is cut, though their disks kept it.
func TestDivergentLogsAfterACrash(t *testing.T) {
	c, old := begun(t)
	some, least := c.others(old)[0], c.others(old)[1]
	c.write(old)
	c.rounds(some)
	c.write(old)
	if old.p.Log().End() != 4 || some.p.Log().End() != 3 || least.p.Log().End() != 2 {
		t.Fatalf("ends %d, %d, %d", old.p.Log().End(), some.p.Log().End(), least.p.Log().End())
	}
	for _, m := range c.members {
		c.crash(m)
	}
	c.state.isr = []kafka.NodeID{least.id, old.id, some.id} // all are gone, so all stay: whoever comes first leads
	c.start(least)
	c.elect()
	if c.state.leader != least.id {
		t.Fatalf("broker %d leads", c.state.leader)
	}
	c.know(least)
	least.p.mu.Lock()
	least.p.view.MinInSync = 1 // its records are not to be acknowledged, but to be there
	least.p.mu.Unlock()
	c.write(least)
	least.wrote = nil
	c.together(2)
}

// KIP-101: a follower has two records that are acknowledged, and has not heard
// that they are. It starts again, and the leader dies; or all die, and it is
// back first. What is above the mark that it knows stays.
func TestREP02FollowerKeepsWhatIsAboveItsMark(t *testing.T) {
	for _, all := range []bool{false, true} {
		c := newCluster(t, 0)
		c.know(c.members...)
		old := c.leader()
		a, b := c.others(old)[0], c.others(old)[1]
		c.write(old)
		c.write(old)
		for range 2 { // the second fetch claims, and its answer is lost
			for _, m := range []*member{a, b} {
				c.fetch(m)
				if err := m.p.Log().Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.acknowledge(old); len(c.acked) != 2 {
			t.Fatalf("acknowledged: %v", c.acked)
		}
		c.crash(a)
		if all {
			c.crash(b)
		} else {
			c.start(a)
		}
		c.crash(old)
		if all {
			c.start(a)
			c.state.isr = []kafka.NodeID{a.id}
		} else {
			c.crash(b)
		}
		c.elect()
		if c.state.leader != a.id {
			t.Fatalf("broker %d leads", c.state.leader)
		}
		if c.know(a); a.p.Log().End() != 2 {
			t.Errorf("all died %v: the next leader ends at %d", all, a.p.Log().End())
		}
		c.together(2)
	}
}

// A follower that was filled from nothing knows what producers sent, and takes
// no batch twice when it leads.
func TestREP06FilledFollowerKnowsProducers(t *testing.T) {
	l, f := replicaOf(t, 1), replicaOf(t, 2)
	see(t, l, 0, 1, pair)
	sent := func() []byte { return from(&batch.Producer{ID: 7, Epoch: 1, Sequence: 3}, "a", "b") }
	put(t, l, from(&batch.Producer{ID: 7, Epoch: 1, Sequence: 0}, "x", "y", "z"), 1)
	put(t, l, sent(), 1)
	see(t, f, 0, 1, pair)
	for range 2 {
		if s := round(t, l, f); s != "ok" {
			t.Fatal(s)
		}
	}
	see(t, f, 1, 2, pair)
	if res := put(t, f, sent(), 1); !res.Duplicate || res.Base != 3 || res.Last != 4 {
		t.Errorf("sent again: %+v", res)
	}
	if res := put(t, f, from(&batch.Producer{ID: 7, Epoch: 1, Sequence: 5}, "c"), 1); res.Duplicate || res.Base != 5 {
		t.Errorf("the next one: %+v", res)
	}
	_, err := f.Append(testAt, from(&batch.Producer{ID: 7, Epoch: 0, Sequence: 0}, "old"), AppendOpts{Acks: 1})
	wantErr(t, "an older epoch", err, kerr.InvalidProducerEpoch)
}
