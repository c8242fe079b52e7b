package fetcher

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

const aSession = 7

// A follower asks for what comes next, and claims what it has flushed, as soon
// as it has and not before; then it waits at the leader.
func TestFollowerFetchesAndClaims(t *testing.T) {
	r := newRig(t, 2)
	e := r.accept(1)
	first := e.next()
	if listed, _ := first.lists(); !slices.Equal(listed, []int32{0, 1}) || first.SessionEpoch != 0 || first.MaxWaitMillis != 500 {
		t.Fatalf("the first fetch: %v, epoch %d, wait %d", listed, first.SessionEpoch, first.MaxWaitMillis)
	}
	if first.ReplicaState.ID != int32(self) || first.ReplicaState.Epoch != r.epoch(self) {
		t.Errorf("it says that it is %+v", first.ReplicaState)
	}
	free := r.disk.hold()
	defer free()
	first.answer(aSession, of(0, 0, at(0, 0, "a"), at(1, 0, "b")), of(1, 0))

	second := e.next()
	p := second.one()
	if second.SessionID != aSession || second.SessionEpoch != 1 || second.MaxWaitMillis != 0 {
		t.Errorf("the second fetch is of session %d at %d, and waits %d ms", second.SessionID, second.SessionEpoch, second.MaxWaitMillis)
	}
	if p.Partition != 0 || p.FetchOffset != 2 || p.LastFetchedEpoch != 0 || wire.Claim(&p) != 0 {
		t.Errorf("it asks for %+v, and claims %d", p, wire.Claim(&p))
	}
	second.answer(aSession)
	// A sync that takes long keeps nobody from other records.
	again := e.next()
	if len(again.Topics) != 0 || again.MaxWaitMillis != 0 {
		t.Errorf("while the sync goes on it lists %v and waits %d ms", again.Topics, again.MaxWaitMillis)
	}
	again.answer(aSession)
	free()

	third := e.until(func(a *asked) bool { return len(a.Topics) > 0 })
	p = third.one()
	if p.FetchOffset != 2 || wire.Claim(&p) != 2 || third.MaxWaitMillis != 500 {
		t.Errorf("once it is flushed it asks for %d, claims %d and waits %d ms", p.FetchOffset, wire.Claim(&p), third.MaxWaitMillis)
	}
	third.answer(aSession, of(0, 2))
	if fourth := e.next(); len(fourth.Topics) != 0 || r.partition(0).HighWatermark() != 2 {
		t.Errorf("then it lists %v, with a mark of %d", fourth.Topics, r.partition(0).HighWatermark())
	}
}

// A log that parts from the leader's is cut where the leader says.
func TestFollowerIsCut(t *testing.T) {
	r := newRig(t, 1)
	e := r.accept(1)
	e.next().answer(aSession, of(0, 1, at(0, 0, "a"), at(1, 0, "b"), at(2, 0, "c")))
	// The same partition again, in whichever order syncs and fetches come.
	a := e.until(func(a *asked) bool { return len(a.Topics) > 0 })
	d := of(0, 1)
	d.DivergingEpoch.Epoch, d.DivergingEpoch.EndOffset = 0, 1
	a.answer(aSession, d)
	a = e.until(func(a *asked) bool { return len(a.Topics) > 0 && a.one().FetchOffset != 3 })
	if p := a.one(); p.FetchOffset != 1 || r.partition(0).Log().End() != 1 || r.partition(0).HighWatermark() != 1 {
		t.Errorf("it goes on at %d; the log ends at %d, the mark is %d", p.FetchOffset, r.partition(0).Log().End(), r.partition(0).HighWatermark())
	}
}

// Where the leader has nothing of what comes next, the log begins anew.
func TestFollowerBeginsAnew(t *testing.T) {
	r := newRig(t, 1)
	e := r.accept(1)
	gone := of(0, -1)
	gone.ErrorCode, gone.LogStartOffset = kerr.OffsetOutOfRange.Code, 9
	e.next().answer(aSession, gone)
	a := e.until(func(a *asked) bool { return len(a.Topics) > 0 })
	if p := a.one(); p.FetchOffset != 9 || p.LogStartOffset != 9 || r.partition(0).Log().Start() != 9 {
		t.Errorf("it goes on at %d, of a log that starts at %d", p.FetchOffset, r.partition(0).Log().Start())
	}
}

// A refused partition leaves the session and comes back; the others go on.
func TestFollowerIsRefused(t *testing.T) {
	r := newRig(t, 2)
	e := r.accept(1)
	refused := of(0, -1)
	refused.ErrorCode = kerr.UnknownLeaderEpoch.Code
	e.next().answer(aSession, refused, of(1, 0))
	a := e.next()
	if listed, forgotten := a.lists(); len(listed) != 0 || !slices.Equal(forgotten, []int32{0}) {
		t.Errorf("after the refusal it lists %v and forgets %v", listed, forgotten)
	}
	if a.MaxWaitMillis >= 500 {
		t.Errorf("it waits %d ms, and has to come back", a.MaxWaitMillis)
	}
	a.answer(aSession)
	a = e.until(func(a *asked) bool { return len(a.Topics) > 0 })
	if p := a.one(); p.Partition != 0 {
		t.Errorf("partition %d comes back", p.Partition)
	}
}

// A leader that has no session to spare is asked for everything each time.
func TestFollowerWithoutSession(t *testing.T) {
	r := newRig(t, 2)
	e := r.accept(1)
	for range 3 {
		a := e.next()
		if listed, _ := a.lists(); len(listed) != 2 || a.SessionEpoch != 0 {
			t.Errorf("it lists %v at epoch %d", listed, a.SessionEpoch)
		}
		a.answer(0, of(0, 0), of(1, 0))
	}
}

// A session that the leader forgot, and a connection that broke, cost a new one.
func TestFollowerStartsOver(t *testing.T) {
	r := newRig(t, 2)
	e := r.accept(1)
	e.next().answer(aSession, of(0, 0), of(1, 0))
	e.next().refuse(kerr.FetchSessionIDNotFound.Code)
	e = r.accept(1)
	a := e.next()
	if listed, _ := a.lists(); len(listed) != 2 || a.SessionEpoch != 0 || a.SessionID != aSession {
		t.Errorf("it lists %v at epoch %d of session %d", listed, a.SessionEpoch, a.SessionID)
	}
	_ = e.nc.Close()
	r.accept(1).next()
}

// A session is of one incarnation: under another broker epoch everything is
// listed again, for the leader knows nothing of that one (safety 19).
func TestNewIncarnationListsEverything(t *testing.T) {
	r := newRig(t, 2)
	e := r.accept(1)
	first := e.next()
	r.See(r.Store.Revoke(int64(self)))
	b := &meta.Broker{ID: self, StartID: "again", Dirs: []kafka.DirID{r.dirs[self]}}
	b.Listeners = []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: int32(self)}}
	if err := r.RegisterBroker(b); err != nil {
		t.Fatal(err)
	}
	r.seen.Store(r.Img)
	first.answer(aSession, of(0, 0), of(1, 0))
	a := e.next()
	if listed, _ := a.lists(); len(listed) != 2 || a.SessionEpoch != 0 || a.ReplicaState.Epoch != r.epoch(self) {
		t.Errorf("it lists %v at epoch %d, as of broker epoch %d", listed, a.SessionEpoch, a.ReplicaState.Epoch)
	}
	a.answer(aSession, of(0, 0), of(1, 0))
	e.next()
}

// A new leader does not wait for a fetch that waits at the old one.
func TestFollowerTurnsToTheNewLeader(t *testing.T) {
	r := newRig(t, 2)
	e := r.accept(1)
	e.next().answer(aSession, of(0, 0), of(1, 0))
	e.next() // waits there
	r.die(1)
	e.gone()
	if a := r.all(3, 2); a.Topics[0].Partitions[0].CurrentLeaderEpoch != 1 {
		t.Errorf("it lists %+v", a.Topics)
	}
}

// Nor for one that was to be answered at once, by a leader whose machine is lost.
func TestFollowerLeavesASilentLeader(t *testing.T) {
	r := newRig(t, 1)
	free := r.disk.hold()
	defer free()
	e := r.accept(1)
	e.next().answer(aSession, of(0, 1, at(0, 0, "a")))
	if a := e.next(); a.MaxWaitMillis != 0 {
		t.Fatalf("it waits for %d ms, and has what it could not claim yet", a.MaxWaitMillis)
	}
	r.die(1)
	e.gone()
	r.all(3, 1)
}

// What is led here, or is of nobody, is fetched from nobody.
func TestFollowerEnds(t *testing.T) {
	r := newRig(t, 1)
	e := r.accept(1)
	e.next().answer(aSession, of(0, 0))
	r.die(3)
	r.die(1) // broker 2 is elected
	e.gone()
	if _, leads := r.partition(0).Leading(); !leads {
		t.Error("it does not lead")
	}
	select {
	case e := <-r.ends:
		t.Errorf("there is a connection to broker %d", e.leader)
	default:
	}
}
