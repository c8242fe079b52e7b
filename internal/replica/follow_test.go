package replica

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// replicaOf makes a partition of broker id, in no role yet.
func replicaOf(t *testing.T, id kafka.NodeID) *Partition {
	d := newDisk()
	logs, _ := logsOn(t, d, "/data")
	cfg := storage.DefaultConfig()
	cfg.Durable = false
	log, err := logs.Create(testTP, kafka.TopicID{1}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	relax(t, log)
	r := testRules()
	r.Lag = 30 * time.Second
	return newPartition(testTP, id, log, r)
}

// see shows a state of the partition.
func see(t *testing.T, p *Partition, e kafka.LeaderEpoch, of kafka.NodeID, v isr.View) {
	var others []kafka.NodeID
	for n := kafka.NodeID(1); n <= kafka.NodeID(v.Replicas); n++ {
		if n != p.self {
			others = append(others, n)
		}
	}
	p.mu.Lock()
	s := p.state
	p.mu.Unlock()
	s.epoch++
	if err := p.enter(term{epoch: e, leader: of == p.self, of: of, view: v, others: others, stated: s}); err != nil {
		t.Fatal(err)
	}
}

// round is one fetch of f from l, and what came of it.
func round(t *testing.T, l, f *Partition) string {
	at, _ := f.Following()
	res, err := l.Read(testAt, ReadReq{Offset: at.Offset, Epoch: at.Epoch, LastEpoch: at.LastEpoch, Max: 1 << 20, MinOne: true, Isolation: ReadLogEnd})
	if err != nil {
		return "read: " + err.Error()
	}
	defer res.Release()
	if res.Diverging != nil {
		to := f.Cut(*res.Diverging)
		if err := f.TruncateAsFollower(at.Epoch, to); err != nil {
			return "cut: " + err.Error()
		}
		return "diverging"
	}
	var buf []byte
	for _, s := range res.Slices {
		b := make([]byte, s.Len())
		if err := s.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		buf = append(buf, b...)
	}
	if err := f.AppendAsFollower(at.Epoch, buf, res.HW, res.LogStart); err != nil {
		return "append: " + err.Error()
	}
	return "ok"
}

// A term in which nothing was written leaves an epoch without records; it goes
// when the next leader never had it.
func TestFollowerForgetsEmptyTerms(t *testing.T) {
	a, b := replicaOf(t, 1), replicaOf(t, 2)
	see(t, a, 0, 1, pair)
	see(t, b, 0, 1, pair)
	put(t, a, records("x", "y"), 1)
	t.Log(round(t, a, b), round(t, a, b))
	see(t, a, 1, 2, pair) // b leads, writes nothing
	see(t, b, 1, 2, pair)
	see(t, a, 2, 1, pair) // a leads again
	see(t, b, 2, 1, pair)
	put(t, a, records("z"), 1)
	for i := 0; i < 5; i++ {
		t.Log(i, round(t, a, b), b.Log().End(), b.Log().LatestEpoch())
	}
	if b.Log().End() != a.Log().End() {
		t.Error("follower never gets further")
	}
}

// A leader's start may stand in the middle of a batch, which comes whole.
func TestFollowerBeginsMidBatch(t *testing.T) {
	a, b := replicaOf(t, 1), replicaOf(t, 2)
	v := isr.View{Committed: []kafka.NodeID{1}, Replicas: 2, MinInSync: 1}
	see(t, a, 0, 1, v)
	see(t, b, 0, 1, v)
	put(t, a, records("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"), 1)
	if _, err := a.DeleteRecords(5); err != nil {
		t.Fatal(err)
	}
	s := round(t, a, b) // out of range
	t.Log(s)
	if err := b.ResetAsFollower(0, a.Log().Start()); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 3; i++ {
		t.Log(i, round(t, a, b), b.Log().End())
	}
	if b.Log().End() != a.Log().End() {
		t.Error("follower never gets further")
	}
}

// Followers that fetch all the time stay in sync, however long nothing comes.
func TestQuietFollowersStay(t *testing.T) {
	a := replicaOf(t, 1)
	var got []Proposal
	a.propose = func(p Proposal) { got = append(got, p) }
	v := isr.View{Committed: []kafka.NodeID{1, 2, 3}, Replicas: 3, MinInSync: 2}
	see(t, a, 0, 1, v)
	put(t, a, records("x"), 1)
	now := time.Now()
	claim := func(n kafka.NodeID, at int64, now time.Time) {
		if err := a.FollowerAt(now, 0, isr.Claim{Node: n, BrokerEpoch: 7, Fetched: at, Counted: at}); err != nil {
			t.Fatal(err)
		}
	}
	claim(2, 1, now)
	claim(3, 1, now)
	// 31 s idle: fetches come every 500 ms, but do not list the partition
	now = now.Add(31 * time.Second)
	a.Tick(now)
	if len(got) != 0 {
		t.Fatal("idle shrink")
	}
	put(t, a, records("y"), 1)
	claim(2, 2, now.Add(time.Millisecond))
	if len(got) != 0 {
		t.Errorf("proposes ISR %+v although both followers fetch all the time", got[0].ISR)
	}
}

// Whoever has everything when something is written was not behind until then,
// though it was long ago that a fetch listed the partition (safety 19).
func TestPatienceBeginsWithTheWrite(t *testing.T) {
	a := replicaOf(t, 1)
	var got []Proposal
	a.propose = func(p Proposal) { got = append(got, p) }
	see(t, a, 0, 1, pair)
	put(t, a, records("x"), 1)
	if err := a.FollowerAt(time.Now().Add(-time.Hour), 0, isr.Claim{Node: 2, BrokerEpoch: 7, Fetched: 1, Counted: 1}); err != nil {
		t.Fatal(err)
	}
	put(t, a, records("y"), 1)
	if a.Tick(time.Now()); len(got) != 0 {
		t.Errorf("proposes ISR %+v as soon as something is written", got[0].ISR)
	}
	if a.Tick(time.Now().Add(time.Minute)); len(got) != 1 {
		t.Errorf("%d proposals after a minute in which it did not fetch", len(got))
	}
}

// A follower says itself what it can be counted on for: where its topic is not
// durable, and its log is not marked so yet, that is less than it has (safety 11).
func TestFollowerIsCountedOnForWhatItSays(t *testing.T) {
	a := replicaOf(t, 1)
	see(t, a, 0, 1, pair)
	put(t, a, records("x", "y"), 1)
	for _, counted := range []int64{1, 2} {
		if err := a.FollowerAt(testAt, 0, isr.Claim{Node: 2, BrokerEpoch: 7, Fetched: 2, Counted: counted}); err != nil {
			t.Fatal(err)
		}
		if got := a.HighWatermark(); got != counted {
			t.Errorf("high watermark %d where it says %d", got, counted)
		}
	}
}

// A member that has just come in has the leader's patience.
func TestNewMembersStay(t *testing.T) {
	a := replicaOf(t, 1)
	var got []Proposal
	a.propose = func(p Proposal) { got = append(got, p) }
	r := *a.rules.Load()
	r.MinInSync = 2
	a.setRules(r)
	alone := isr.View{Committed: []kafka.NodeID{1}, Replicas: 2, MinInSync: 2, Candidates: []isr.Candidate{{Node: 2, BrokerEpoch: 7, May: true}}}
	both := isr.View{Committed: []kafka.NodeID{1, 2}, Replicas: 2, MinInSync: 2}
	see(t, a, 0, 1, alone)
	for i := 0; i < 100; i++ {
		put(t, a, records("x"), 1)
	}
	now := time.Now()
	for at := int64(0); at < 50; at++ { // follower catches up slowly
		now = now.Add(10 * time.Millisecond)
		n := len(got)
		_ = a.FollowerAt(now, 0, isr.Claim{Node: 2, BrokerEpoch: 7, Fetched: at, Counted: at})
		if len(got) > n { // carried out at once
			if len(got[n].ISR) == 2 {
				see(t, a, 0, 1, both)
			} else {
				see(t, a, 0, 1, alone)
			}
		}
	}
	if len(got) > 1 {
		t.Errorf("%d ISR changes while one follower catches up for half a second", len(got))
	}
}

// A leader that does not know yet what the last one committed takes no mark back
// at its followers (safety 18).
func TestFollowersMarkStays(t *testing.T) {
	l, f := replicaOf(t, 1), replicaOf(t, 2)
	see(t, l, 0, 1, pair)
	see(t, f, 0, 1, pair)
	put(t, l, records("a", "b"), 1)
	if s := round(t, l, f); s != "ok" {
		t.Fatal(s)
	}
	for epoch, told := range []int64{2, 1, 0} {
		see(t, f, kafka.LeaderEpoch(epoch), 1, pair)
		if err := f.AppendAsFollower(kafka.LeaderEpoch(epoch), nil, told, 0); err != nil {
			t.Fatal(err)
		}
		if hw := f.HighWatermark(); hw != 2 {
			t.Errorf("told %d, its mark is %d", told, hw)
		}
	}
}

// A proposal is on its way until the state is seen past what it compared: another
// look at the same state ends nothing (safety 7).
func TestProposalStaysOnItsWay(t *testing.T) {
	p := replicaOf(t, 1)
	var got []Proposal
	p.propose = func(c Proposal) { got = append(got, c) }
	v := isr.View{Committed: []kafka.NodeID{1}, Replicas: 2, MinInSync: 1, Candidates: []isr.Candidate{{Node: 2, BrokerEpoch: 7, May: true}}}
	see(t, p, 0, 1, v)
	put(t, p, records("a"), 1)
	if err := p.FollowerAt(testAt, 0, isr.Claim{Node: 2, BrokerEpoch: 7, Fetched: 1, Counted: 1}); err != nil {
		t.Fatal(err)
	}
	now := term{epoch: 0, leader: true, of: 1, view: v, others: []kafka.NodeID{2}, stated: p.state}
	if err := p.enter(now); err != nil {
		t.Fatal(err)
	}
	put(t, p, records("b"), 1)
	if hw := p.HighWatermark(); len(got) != 1 || hw != 1 {
		t.Errorf("%d proposals, and the mark is %d while a member may have come in at 1", len(got), hw)
	}
	// A state of before is none (it came late), one of after ends the proposal.
	older := now
	older.stated.epoch--
	older.view.Committed = []kafka.NodeID{1, 2, 3}
	if err := p.enter(older); err != nil {
		t.Fatal(err)
	}
	if len(p.view.Committed) != 1 || p.pending == nil {
		t.Errorf("an older state is taken over: %+v", p.view)
	}
	see(t, p, 0, 1, pair)
	if p.pending != nil || len(p.view.Committed) != 2 {
		t.Errorf("after its state came: %+v", p.view)
	}
}

// What comes of an epoch that is over, or not known yet, changes nothing: neither
// a claim at a leader nor an answer at a follower.
func TestOtherEpochsChangeNothing(t *testing.T) {
	l, f := replicaOf(t, 1), replicaOf(t, 2)
	see(t, l, 0, 1, pair)
	see(t, f, 0, 1, pair)
	put(t, l, records("a"), 1)
	if s := round(t, l, f); s != "ok" {
		t.Fatal(s)
	}
	if err := l.FollowerAt(testAt, 0, isr.Claim{Node: 2, BrokerEpoch: 7, Fetched: 1, Counted: 1}); err != nil {
		t.Fatal(err)
	}
	see(t, l, 1, 1, pair)
	see(t, f, 1, 1, pair)
	for epoch, want := range map[kafka.LeaderEpoch]error{0: kerr.FencedLeaderEpoch, 2: kerr.UnknownLeaderEpoch} {
		wantErr(t, "a claim", l.FollowerAt(testAt, epoch, isr.Claim{Node: 2, BrokerEpoch: 7, Fetched: 1, Counted: 1}), want)
		wantErr(t, "records", f.AppendAsFollower(epoch, copied(t, l), 1, 0), kerr.FencedLeaderEpoch)
		wantErr(t, "a cut", f.TruncateAsFollower(epoch, 0), kerr.FencedLeaderEpoch)
		wantErr(t, "a new beginning", f.ResetAsFollower(epoch, 5), kerr.FencedLeaderEpoch)
	}
	if at := l.Followers()[0].Position; at != -1 {
		t.Errorf("in a new term the follower counts up to %d", at)
	}
	if f.Log().Start() != 0 || f.Log().End() != 1 {
		t.Errorf("the follower's log is [%d, %d)", f.Log().Start(), f.Log().End())
	}
}

// A leader loses its place while a reader has taken its snapshot: what was read is
// not handed out, for it may be cut off by then (safety 19).
func TestReadLooksAtTheRoleAgain(t *testing.T) {
	var role func()
	fsys := vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
		if then := role; then != nil && op.Kind == vfs.OpRead {
			role = nil
			then()
		}
		return nil
	})
	p := partitionOn(t, &disk{FS: fsys}, false)
	put(t, p, records("a"), 1)
	put(t, p, records("b"), 1)
	role = func() { follow(t, p, 1) }
	res, err := p.Read(testAt, ReadReq{Offset: 1, Epoch: -1, LastEpoch: -1, Max: 1 << 20})
	res.Release()
	if role != nil {
		t.Fatal("nothing was read of the file")
	}
	wantErr(t, "read", err, kerr.NotLeaderForPartition)
	if res.SizeBytes != 0 {
		t.Errorf("%d bytes", res.SizeBytes)
	}
}

// A follower in sync serves consumers what it knows to be committed (KIP-392).
func TestReadsFromFollowers(t *testing.T) {
	l, f := replicaOf(t, 1), replicaOf(t, 2)
	see(t, l, 0, 1, pair)
	see(t, f, 0, 1, pair)
	put(t, l, records("a"), 1)
	put(t, l, records("b"), 1)
	for range 2 {
		if s := round(t, l, f); s != "ok" {
			t.Fatal(s)
		}
		at, _ := f.Following()
		if err := l.FollowerAt(testAt, 0, isr.Claim{Node: 2, BrokerEpoch: 7, Fetched: at.Offset, Counted: at.Offset}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(r ReadReq) (ReadResult, error) {
		r.Max, r.MinOne, r.Follower = 1<<20, true, true
		res, err := f.Read(testAt, r)
		res.Release()
		return res, err
	}
	res, err := read(ReadReq{Offset: 0, Epoch: 0, LastEpoch: -1})
	if err != nil || res.HW != f.HighWatermark() || res.SizeBytes == 0 {
		t.Errorf("high watermark %d, %d bytes, %v", res.HW, res.SizeBytes, err)
	}
	if res, err = read(ReadReq{Offset: res.HW, Epoch: -1, LastEpoch: 0}); err != nil || res.SizeBytes != 0 || !f.Unchanged(&res) {
		t.Errorf("at its mark: %d bytes, %v", res.SizeBytes, err)
	}
	for what, r := range map[string]ReadReq{"the leader is ahead": {Offset: 3, Epoch: 0, LastEpoch: -1}, "another leader was": {Offset: 1, Epoch: 0, LastEpoch: 1}} {
		_, err := read(r)
		wantErr(t, what, err, kerr.OffsetNotAvailable)
	}
	_, err = read(ReadReq{Offset: 0, Epoch: 1, LastEpoch: -1})
	wantErr(t, "it has not heard of that leader", err, kerr.UnknownLeaderEpoch)
	_, err = f.Read(testAt, ReadReq{Max: 1 << 20, Epoch: -1, LastEpoch: -1})
	wantErr(t, "an old consumer", err, kerr.NotLeaderForPartition)

	before := res
	see(t, f, 0, 1, isr.View{Committed: []kafka.NodeID{1}, Replicas: 2, MinInSync: 1})
	_, err = read(ReadReq{Offset: 0, Epoch: 0, LastEpoch: -1})
	wantErr(t, "it falls behind", err, kerr.NotLeaderForPartition)
	if f.Unchanged(&before) {
		t.Error("whoever waits at one that falls behind goes on waiting")
	}
	see(t, f, 1, -1, pair)
	_, err = read(ReadReq{Offset: 0, Epoch: 1, LastEpoch: -1})
	wantErr(t, "nobody leads", err, kerr.NotLeaderForPartition)
}
