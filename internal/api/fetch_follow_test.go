package api

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// led are partitions, most often one, that this broker, 1, leads, and that broker 2,
// which is there in the metadata alone, has replicas of.
type led struct {
	*metatest.World
	t     *testing.T
	a     *API
	m     *replica.Manager
	asked []replica.Proposal
}

func newLed(t *testing.T) *led { return newLedOf(t, 1) }

func newLedOf(t *testing.T, partitions int32) *led {
	t.Helper()
	logs := storage.New(storage.ManagerConfig{Dirs: []string{"/d"}, NodeID: 1, ClusterID: "c"}, vfs.NewMem(), nil, nil)
	if err := logs.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := &led{World: metatest.New(), t: t}
	l.m = replica.NewManager(1, logs, func(*meta.Image, string) (storage.Config, replica.Rules) {
		cfg := storage.DefaultConfig()
		cfg.Durable = false
		return cfg, replica.Rules{Batch: batch.Rules{MaxMessageBytes: 1 << 20, TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 1 << 60}, MinInSync: 1, Lag: time.Hour}
	}, slog.New(slog.DiscardHandler))
	l.m.Propose = func(p replica.Proposal) { l.asked = append(l.asked, p) }
	l.a = New(Deps{
		Self: 1, Image: func() *meta.Image { return l.Img }, Partitions: l.m, Log: slog.New(slog.DiscardHandler),
		Limits: Limits{FetchMaxBytes: 1 << 20, SessionSlots: 10},
	})
	l.register(1, logs.Dirs()[0].ID)
	l.register(2, kafka.DirID{2, 2})
	me, _ := l.Img.Broker(1)
	var manual []plan.ManualAssignment
	for n := range partitions {
		manual = append(manual, plan.ManualAssignment{Partition: n, Replicas: []kafka.NodeID{1, 2}})
	}
	m, err := plan.CreateTopic(l.Img, plan.NewTopic{
		Name: "t", ID: l.NextID(), Partitions: -1, Factor: -1, Manual: manual,
		Creator: plan.Creator{Node: 1, BrokerEpoch: me.Epoch, Token: l.NextID()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Make(m, m.Steps()); err != nil {
		t.Fatal(err)
	}
	l.apply()
	l.named(1, logs.Dirs()[0].ID)
	l.named(2, kafka.DirID{2, 2})
	for n := range partitions {
		if _, leads := l.partition(n).Leading(); !leads {
			t.Fatal("it does not lead")
		}
		if err := l.partition(n).Log().Sync(t.Context()); err != nil { // from now on the written end counts
			t.Fatal(err)
		}
	}
	return l
}

func (l *led) apply() {
	me, _ := l.Img.Broker(1)
	l.m.Apply(l.t.Context(), l.Img, &l.Delta, me.Epoch)
}

func (l *led) register(id kafka.NodeID, dir kafka.DirID) {
	l.t.Helper()
	if err := l.RegisterBroker(&meta.Broker{ID: id, StartID: l.NextID().String(), Dirs: []kafka.DirID{dir}}); err != nil {
		l.t.Fatal(err)
	}
	l.apply()
}

func (l *led) state() *meta.Partition {
	topic, _ := l.Img.Topic("t")
	return topic.Partitions[0]
}

func (l *led) named(id kafka.NodeID, dir kafka.DirID) {
	l.t.Helper()
	b, _ := l.Img.Broker(id)
	topic, _ := l.Img.Topic("t")
	var as []plan.Assignment
	for _, p := range topic.Partitions {
		as = append(as, plan.Assignment{Partition: p.ID(), Dir: dir})
	}
	bs, err := plan.AssignDirs(l.Img, id, b.Epoch, as)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, one := range bs {
		l.Do(one.Txn)
		l.apply()
	}
}

func (l *led) part() *replica.Partition { return l.partition(0) }

func (l *led) partition(n int32) *replica.Partition {
	l.t.Helper()
	p, ok := l.m.Get(kafka.TopicPartition{Topic: "t", Partition: n})
	if !ok {
		l.t.Fatal("it is not here")
	}
	return p
}

func (l *led) put(values ...string) { l.putTo(0, values...) }

func (l *led) putTo(n int32, values ...string) {
	l.t.Helper()
	var b batch.Builder
	b.Reset(batch.Options{})
	for _, v := range values {
		b.Append(time.Now().UnixMilli(), nil, []byte(v))
	}
	raw, _, err := b.Build(nil)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.partition(n).Append(time.Now(), raw, replica.AppendOpts{Acks: 1}); err != nil {
		l.t.Fatal(err)
	}
}

// asks is a fetch of broker 2 within a session; without offsets it lists nothing.
func (l *led) asks(session, epoch int32, offsets ...int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.SessionID, req.SessionEpoch, req.MaxBytes, req.MinBytes = 17, session, epoch, 1<<20, 1
	b, _ := l.Img.Broker(2)
	req.ReplicaState.ID, req.ReplicaState.Epoch = 2, b.Epoch
	for _, offset := range offsets {
		topic := kmsg.NewFetchRequestTopic()
		topic.TopicID = l.state().Topic
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes, p.LastFetchedEpoch = offset, 1<<20, int32(l.state().LeaderEpoch)
		p.HighWatermark = 0
		wire.SetClaim(&p, offset)
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// begun is a fetch of broker 2 that is about to read.
func (l *led) begun(req *kmsg.FetchRequest) *fetch {
	l.t.Helper()
	use, err := l.a.sessions.begin(time.Now(), req, nil, false)
	if err != nil {
		l.t.Fatal(err)
	}
	f := &fetch{
		API: l.a, r: &server.Request{}, req: req, resp: kmsg.NewPtrFetchResponse(), img: l.Img,
		replica: 2, isolation: replica.ReadLogEnd, claims: true, session: use, memory: new(fetchMemory),
	}
	f.resolveAll()
	return f
}

// reads carries a fetch out, but for its answer and its wait.
func (l *led) reads(req *kmsg.FetchRequest) (f *fetch, due bool) {
	l.t.Helper()
	f = l.begun(req)
	due = f.readAll()
	for _, it := range f.items {
		if it.code != 0 {
			l.t.Fatalf("error %d", it.code)
		}
	}
	f.session.finish(f.items)
	f.release()
	return f, due
}

// A follower whose log parts from the leader's says how far it is on its own:
// nothing of that counts before it has cut it (safety 9).
func TestDivergingFetchIsNoClaim(t *testing.T) {
	l := newLed(t)
	l.put("a", "b", "c")
	f, due := l.reads(l.asks(0, 0, 5)) // with two records that the leader never had
	if f.items[0].read.Diverging == nil && !due {
		t.Error("it is not told that the logs part")
	}
	if hw := l.part().HighWatermark(); hw != 0 {
		t.Errorf("mark %d by a claim on other records", hw)
	}
	l.reads(l.asks(0, 0, 3))
	if hw := l.part().HighWatermark(); hw != 3 {
		t.Errorf("mark %d when it has all", hw)
	}
}

// What a request of a session does not list is as it was, and no new claim: an
// incarnation that has not said what it has is not let into the ISR for what
// the last one said (safety 9, 19).
func TestUnlistedIsNoClaim(t *testing.T) {
	l := newLed(t)
	l.put("a")
	f, _ := l.reads(l.asks(0, 0, 1))
	id := f.session.id
	if id == 0 || l.part().HighWatermark() != 1 {
		t.Fatalf("session %d, mark %d", id, l.part().HighWatermark())
	}
	l.register(2, kafka.DirID{2, 2}) // anew, and out of the ISR
	s := l.state()
	c, err := plan.ChangeISR(l.Img, plan.ISRChange{
		Partition: s.ID(), Leader: 1, LeaderBrokerEpoch: s.LeaderBrokerEpoch, LeaderEpoch: s.LeaderEpoch, ISR: []plan.Member{{Node: 1, BrokerEpoch: s.LeaderBrokerEpoch}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Do(plan.Batches(l.Img.Keys(), nil, []plan.Change{c})[0].Txn)
	l.apply()
	if isr := l.state().ISR; len(isr) != 1 || len(l.asked) > 0 {
		t.Fatalf("isr %v, asked %v", isr, l.asked)
	}
	if l.reads(l.asks(id, 1)); len(l.asked) > 0 {
		t.Errorf("it comes into the ISR for what it did not claim: %+v", l.asked)
	}
	l.reads(l.asks(id, 2, 1))
	if len(l.asked) != 1 || !slices.ContainsFunc(l.asked[0].ISR, func(m plan.Member) bool { return m.Node == 2 }) {
		t.Errorf("asked %+v after it claimed", l.asked)
	}
}

// A follower that knows another mark, or log start, than the leader has is
// answered at once: it does not wait for records to hear of it (safety 18).
func TestFollowerHearsOfTheMarkAtOnce(t *testing.T) {
	l := newLed(t)
	l.put("a")
	l.reads(l.asks(0, 0, 0))
	f, due := l.reads(l.asks(0, 0, 1)) // it has all: the mark rises with this
	if !due {
		t.Error("it waits, and does not know the mark")
	}
	id := f.session.id
	if _, due = l.reads(l.asks(id, 1)); due {
		t.Error("it does not wait, and knows the mark")
	}
	if err := l.part().Log().DeleteBefore(1); err != nil {
		t.Fatal(err)
	}
	if _, due = l.reads(l.asks(id, 2)); !due {
		t.Error("it waits, and does not know the log start")
	}
	// Without a session it says itself what it knows (KIP-1166).
	for marked, want := range map[int64]bool{0: true, 1: false} {
		req := l.asks(0, -1, 1)
		req.Topics[0].Partitions[0].HighWatermark = marked
		if _, due := l.reads(req); due != want {
			t.Errorf("due %t where it has the mark %d of 1", due, marked)
		}
	}
}

// What a follower claims moves the mark, and is no reason to read again.
func TestClaimLeavesNothingToReadAgain(t *testing.T) {
	l := newLed(t)
	l.put("a")
	f := l.begun(l.asks(0, 0, 1))
	f.readAll()
	if hw := f.items[0].read.HW; hw != 1 || !f.unchanged() {
		t.Errorf("mark %d, and it is read again: %t", hw, !f.unchanged())
	}
	l.put("b")
	if f.unchanged() {
		t.Error("records came, and are not read")
	}
	f.release()
}

// served has a server carry a fetch out, with its wait.
func (l *led) served(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	l.t.Helper()
	pipe := server.NewPipe()
	s := server.New(server.Config{Listeners: []server.Listener{{Name: "PLAINTEXT", Net: pipe}}}, l.a.Table())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	}()
	nc, err := pipe.Dial(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	c := wire.NewClient(nc, wire.ClientOptions{})
	defer c.Close()
	resp, err := c.Do(ctx, req)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.(*kmsg.FetchResponse)
}

// A mark alone is told soon, and with records where some come meanwhile: a busy
// follower is not to ask twice for each append.
func TestFollowerHearsOfTheMarkWithRecords(t *testing.T) {
	for name, c := range map[string]struct {
		aware bool // consumers wait for what followers know
		after time.Duration
		put   bool
		start bool // the log start moves as well
		took  time.Duration
	}{
		"nothing comes":       {took: markPatience},
		"records come":        {put: true, after: markPatience / 2, took: markPatience / 2},
		"start moves":         {start: true, after: markPatience / 5, took: markPatience / 5},
		"consumers are there": {aware: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLed(t)
				l.a.RackAware = c.aware
				l.put("a")
				f, _ := l.reads(l.asks(0, 0, 0))
				req := l.asks(f.session.id, 1, 1) // it has all: the mark rises with this
				req.MaxWaitMillis = 500
				go func() {
					time.Sleep(c.after)
					if c.put {
						l.put("b")
					}
					if c.start {
						if _, err := l.part().DeleteRecords(1); err != nil {
							t.Error(err)
						}
					}
				}()
				start := time.Now()
				out := l.served(req)
				if took := time.Since(start); took < c.took || took > c.took*65/64 {
					t.Errorf("answered after %v, want %v", took, c.took)
				}
				if len(out.Topics) != 1 {
					t.Fatalf("%+v", out)
				}
				p := out.Topics[0].Partitions[0]
				if some := len(p.RecordBatches) > 0; p.ErrorCode != 0 || p.HighWatermark != 1 || some != c.put {
					t.Errorf("error %d, mark %d, records: %t", p.ErrorCode, p.HighWatermark, some)
				}
			})
		})
	}
}

// So is one that moves while the follower waits.
func TestFollowerHearsOfALaterMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLed(t)
		f, _ := l.reads(l.asks(0, 0, 0))
		l.put("a")
		req := l.asks(f.session.id, 1, 0)
		req.MaxWaitMillis, req.MinBytes = 500, 1<<19
		go func() {
			time.Sleep(markPatience / 2)
			l.reads(l.asks(0, 0, 1)) // the broker has it now
		}()
		start := time.Now()
		out := l.served(req)
		if took, want := time.Since(start), markPatience*3/2; took < want || took > want*65/64 {
			t.Errorf("answered after %v, want %v", took, want)
		}
		if len(out.Topics) != 1 || out.Topics[0].Partitions[0].HighWatermark != 1 {
			t.Errorf("%+v", out)
		}
	})
}
