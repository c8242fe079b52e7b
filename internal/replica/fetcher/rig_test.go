package fetcher

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

const (
	self     kafka.NodeID = 2
	patience              = 20 * time.Second
)

var quiet = slog.New(slog.DiscardHandler)

// rig is broker 2, which follows partitions that brokers 1 and 3 lead; those are
// there in the metadata, and as connections whose other end the test holds.
type rig struct {
	*metatest.World
	t     *testing.T
	m     *replica.Manager
	f     *Fetchers
	disk  *disk
	dirs  map[kafka.NodeID]kafka.DirID
	topic kafka.TopicID // t
	ends  chan *end
	seen  atomic.Pointer[meta.Image] // Img, as the fetchers know it
}

// disk holds syncs of data back while it is told to.
type disk struct {
	mu   sync.Mutex
	held chan struct{}
}

func (d *disk) before(op vfs.Op) error {
	d.mu.Lock()
	held := d.held
	d.mu.Unlock()
	if held != nil && (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncAll) {
		<-held
	}
	return nil
}

// hold returns what lets syncs go on.
func (d *disk) hold() (free func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make(chan struct{})
	d.held = held
	return sync.OnceFunc(func() {
		d.mu.Lock()
		d.held = nil
		d.mu.Unlock()
		close(held)
	})
}

// end is a leader's end of a connection.
type end struct {
	t      *testing.T
	leader kafka.NodeID
	topic  kafka.TopicID // t
	nc     net.Conn
	r      *bufio.Reader
}

func newRig(t *testing.T, partitions int) *rig {
	r := &rig{World: metatest.New(), t: t, disk: &disk{}, ends: make(chan *end, 8), dirs: map[kafka.NodeID]kafka.DirID{1: {1, 1}, 3: {3, 3}}}
	logs := storage.New(storage.ManagerConfig{Dirs: []string{"/data"}, NodeID: self, ClusterID: metatest.ClusterID},
		vfs.Faulty(vfs.NewMem(), r.disk.before), quiet, nil)
	ctx, cancel := context.WithCancel(context.Background())
	if err := logs.Open(ctx); err != nil {
		t.Fatal(err)
	}
	r.dirs[self] = logs.Dirs()[0].ID
	r.m = replica.NewManager(self, logs, func(*meta.Image, string) (storage.Config, replica.Rules) {
		cfg := storage.DefaultConfig()
		cfg.Durable = true
		return cfg, replica.Rules{Batch: batch.Rules{MaxMessageBytes: 1 << 20}, MinInSync: 1, Lag: time.Hour}
	}, quiet)
	r.f = New(Config{
		Self: self, Epoch: func() int64 { return epochIn(r.seen.Load(), self) }, Dial: r.dial, PartitionBytes: 1000, AnswerBytes: 10000, MinBytes: 1,
		Wait: 500 * time.Millisecond, Backoff: time.Second, Timeout: patience, Logger: quiet,
	})
	r.m.Entered = r.f.Entered
	var wg sync.WaitGroup
	wg.Go(func() { _ = logs.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })

	for _, id := range []kafka.NodeID{1, 2, 3} {
		b := &meta.Broker{ID: id, StartID: "s", Dirs: []kafka.DirID{r.dirs[id]}}
		b.Listeners = []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: int32(id)}}
		if err := r.RegisterBroker(b); err != nil {
			t.Fatal(err)
		}
	}
	r.create(partitions)
	wg.Go(func() { _ = r.f.Run(ctx) }) // only now, so that the first fetch is of all
	return r
}

func (r *rig) epoch(id kafka.NodeID) int64 { return epochIn(r.Img, id) }

func epochIn(img *meta.Image, id kafka.NodeID) int64 {
	b, ok := img.Broker(id)
	if !ok {
		return 0
	}
	return b.Epoch
}

// create makes topic t, whose partitions broker 1 leads, with replicas on all.
func (r *rig) create(partitions int) {
	r.t.Helper()
	r.topic = r.NextID()
	wish := plan.NewTopic{Name: "t", ID: r.topic, Partitions: -1, Factor: -1, Creator: plan.Creator{Node: 1, BrokerEpoch: r.epoch(1), Lease: 1, Token: r.NextID()}}
	for i := range partitions {
		wish.Manual = append(wish.Manual, plan.ManualAssignment{Partition: int32(i), Replicas: []kafka.NodeID{1, 3, 2}})
	}
	m, err := plan.CreateTopic(r.Img, wish)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.Make(m, m.Steps()); err != nil {
		r.t.Fatal(err)
	}
	old := meta.Empty(metatest.ClusterID)
	d := meta.Diff(old, r.Img)
	r.apply(&d)
}

// apply shows the image to the manager, and names the directories of new logs.
func (r *rig) apply(d *meta.Delta) {
	r.t.Helper()
	r.seen.Store(r.Img)
	var as []plan.Assignment
	for _, a := range r.m.Apply(r.t.Context(), r.Img, d, r.epoch(self)) {
		as = append(as, plan.Assignment{Partition: a.Partition, Dir: a.Dir})
	}
	if len(as) == 0 {
		return
	}
	batches, err := plan.AssignDirs(r.Img, self, r.epoch(self), as)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, b := range batches {
		r.Do(b.Txn)
		r.apply(&r.Delta)
	}
}

// die ends the registration of a leader, and has another one elected.
func (r *rig) die(id kafka.NodeID) {
	r.t.Helper()
	r.See(r.Store.Revoke(int64(id)))
	r.apply(&r.Delta)
	topic, _ := r.Img.Topic("t")
	for _, p := range topic.Partitions {
		c, ok := plan.Settle(r.Img, topic, p, plan.Online)
		if !ok {
			r.t.Fatal("its registration counts for nothing")
		}
		r.Do(plan.Batches(r.Img.Keys(), nil, []plan.Change{c})[0].Txn)
		r.apply(&r.Delta)
	}
}

func (r *rig) partition(n int32) *replica.Partition {
	r.t.Helper()
	p, ok := r.m.Get(kafka.TopicPartition{Topic: "t", Partition: n})
	if !ok {
		r.t.Fatalf("t-%d is not here", n)
	}
	return p
}

func (r *rig) dial(_ context.Context, leader kafka.NodeID) (*wire.Client, error) {
	if epochIn(r.seen.Load(), leader) == 0 {
		return nil, errors.New("not registered")
	}
	ours, theirs := net.Pipe()
	e := &end{t: r.t, leader: leader, topic: r.topic, nc: theirs, r: bufio.NewReader(theirs)}
	r.t.Cleanup(func() { _ = theirs.Close() })
	r.ends <- e
	return wire.NewClient(ours, wire.ClientOptions{}), nil
}

// accept is the next connection to a leader.
func (r *rig) accept(leader kafka.NodeID) *end {
	r.t.Helper()
	select {
	case e := <-r.ends:
		if e.leader != leader {
			r.t.Fatalf("connection to broker %d, not %d", e.leader, leader)
		}
		return e
	case <-time.After(patience):
		r.t.Fatalf("no connection to broker %d", leader)
		return nil
	}
}

// asked is one fetch, and the way to answer it.
type asked struct {
	*kmsg.FetchRequest
	e           *end
	correlation int32
}

func (e *end) next() *asked {
	e.t.Helper()
	a, err := e.read()
	if err != nil {
		e.t.Fatalf("no fetch: %v", err)
	}
	return a
}

func (e *end) read() (*asked, error) {
	_ = e.nc.SetReadDeadline(time.Now().Add(patience))
	frame, err := wire.ReadFrame(e.r, 1<<20, nil)
	if err != nil {
		return nil, err
	}
	h, req, err := wire.ParseRequest(frame)
	if err != nil {
		return nil, err
	}
	return &asked{req.(*kmsg.FetchRequest), e, h.Correlation}, nil
}

// all is a first fetch of all the partitions: those before it are given up when
// there is one more to ask for.
func (r *rig) all(leader kafka.NodeID, partitions int) *asked {
	r.t.Helper()
	for range partitions {
		a, err := r.accept(leader).read()
		if err != nil {
			continue
		}
		if listed, _ := a.lists(); len(listed) == partitions {
			return a
		}
	}
	r.t.Fatalf("no fetch of %d partitions", partitions)
	return nil
}

// gone checks that the follower closed the connection.
func (e *end) gone() {
	e.t.Helper()
	_ = e.nc.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, e.r); isTimeout(err) {
		e.t.Fatalf("the connection is still there (%v)", err)
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// until answers fetches with nothing until one is as wanted.
func (e *end) until(wanted func(*asked) bool) *asked {
	e.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		a := e.next()
		if wanted(a) {
			return a
		}
		a.answer(aSession)
	}
	e.t.Fatal("no such fetch came")
	return nil
}

func (a *asked) refuse(code int16) {
	a.e.t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(a.Version)
	resp.ErrorCode = code
	a.send(resp)
}

// partitions that the fetch lists, and those that it forgets.
func (a *asked) lists() (listed, forgotten []int32) {
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			listed = append(listed, p.Partition)
		}
	}
	for _, t := range a.ForgottenTopics {
		forgotten = append(forgotten, t.Partitions...)
	}
	slices.Sort(listed)
	slices.Sort(forgotten)
	return listed, forgotten
}

func (a *asked) one() kmsg.FetchRequestTopicPartition {
	a.e.t.Helper()
	if len(a.Topics) != 1 || len(a.Topics[0].Partitions) != 1 {
		a.e.t.Fatalf("%d topics in the fetch: %+v", len(a.Topics), a.Topics)
	}
	return a.Topics[0].Partitions[0]
}

func (a *asked) answer(session int32, ps ...kmsg.FetchResponseTopicPartition) {
	a.e.t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(a.Version)
	resp.SessionID = session
	if len(ps) > 0 {
		t := kmsg.NewFetchResponseTopic()
		t.TopicID, t.Partitions = a.e.topic, ps
		resp.Topics = append(resp.Topics, t)
	}
	a.send(resp)
}

func (a *asked) send(resp *kmsg.FetchResponse) {
	a.e.t.Helper()
	if _, err := a.e.nc.Write(wire.AppendResponse(nil, resp, a.correlation)); err != nil {
		a.e.t.Fatal(err)
	}
}

// of is a partition in an answer.
func of(n int32, hw int64, records ...[]byte) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.HighWatermark, p.LogStartOffset = n, hw, 0
	p.RecordBatches = slices.Concat(records...)
	return p
}

// at is a batch of one record, as the leader of an epoch wrote it at an offset.
func at(offset int64, epoch int32, value string) []byte {
	var b batch.Builder
	b.Reset(batch.Options{})
	b.Append(1_700_000_000_000, nil, []byte(value))
	buf, _, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	binary.BigEndian.PutUint64(buf, uint64(offset))
	binary.BigEndian.PutUint32(buf[12:], uint32(epoch))
	return buf
}
