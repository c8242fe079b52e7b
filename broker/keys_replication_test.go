package broker

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// replicationProofs are of keys by which a follower fetches, and its leader is
// patient with it.
func replicationProofs() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"replica.lag.time.max.ms": leavesOutWhoLags,
		"replica.fetch.max.bytes": func(t *testing.T) {
			asksFor(t, "replica.fetch.max.bytes=1234", func(r *kmsg.FetchRequest) int32 { return r.Topics[0].Partitions[0].PartitionMaxBytes })
		},
		"replica.fetch.response.max.bytes": func(t *testing.T) {
			asksFor(t, "replica.fetch.response.max.bytes=1234", func(r *kmsg.FetchRequest) int32 { return r.MaxBytes })
		},
		"replica.fetch.min.bytes": func(t *testing.T) {
			asksFor(t, "replica.fetch.min.bytes=1234", func(r *kmsg.FetchRequest) int32 { return r.MinBytes })
		},
		"replica.fetch.wait.max.ms": func(t *testing.T) {
			asksFor(t, "replica.fetch.wait.max.ms=1234", func(r *kmsg.FetchRequest) int32 { return r.MaxWaitMillis })
		},
		"replica.selector.class": readsNearby,

		"leader.replication.throttled.rate":   func(t *testing.T) { throttles(t, "leader") },
		"follower.replication.throttled.rate": func(t *testing.T) { throttles(t, "follower") },
		"replica.fetch.backoff.ms":            comesBackSoon,
		"replica.socket.timeout.ms":           givesUp,
		"replica.socket.receive.buffer.bytes": tunesFollowers,
	}
}

// other is broker 2, which is there in the metadata and as a listener alone.
type other struct {
	t    *testing.T
	l    net.Listener
	said chan *bufio.ReadWriter
}

// besideOther starts broker 1 with another, and a topic that both have and the
// given one leads.
func besideOther(t *testing.T, leader kafka.NodeID, set ...string) (*process, *other) {
	t.Helper()
	mem := metastore.NewMem()
	p := startOn(t, mem, "1", set...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	lease, err := mem.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it would never let a follower go that leaves
		if err := mem.Revoke(context.Background(), lease); err != nil {
			t.Error(err)
		}
	})
	dir := kafka.DirID{2, 2}
	b := &meta.Broker{ID: 2, StartID: "x", Dirs: []kafka.DirID{dir}, Features: supportedFeatures()}
	b.Listeners = []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "127.0.0.1", Port: int32(l.Addr().(*net.TCPAddr).Port)}}
	reg, err := plan.Register(p.image().Keys(), nil, b, lease)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mem.Txn(t.Context(), reg.Put); err != nil {
		t.Fatal(err)
	}
	p.awaitImage(func() bool { return p.registered(2) != nil })
	p.placed("t", [][]kafka.NodeID{{leader, 3 - leader}})
	return p, &other{t, l, make(chan *bufio.ReadWriter, 100)}
}

// serve hands out connections on which something is said; others only look
// whether somebody is there.
func (o *other) serve() {
	for {
		nc, err := o.l.Accept()
		if err != nil {
			return
		}
		_ = nc.SetDeadline(time.Now().Add(patience))
		go func() {
			rw := bufio.NewReadWriter(bufio.NewReader(nc), bufio.NewWriter(nc))
			if _, err := rw.Peek(1); err == nil {
				o.said <- rw
			}
		}()
	}
}

func (o *other) accept() *bufio.ReadWriter {
	o.t.Helper()
	select {
	case rw := <-o.said:
		return rw
	case <-time.After(patience):
		o.t.Fatal("no connection")
		return nil
	}
}

func (o *other) fetch(rw *bufio.ReadWriter) *kmsg.FetchRequest {
	o.t.Helper()
	frame, err := wire.ReadFrame(rw, 1<<20, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	_, req, err := wire.ParseRequest(frame)
	if err != nil {
		o.t.Fatal(err)
	}
	return req.(*kmsg.FetchRequest)
}

func asksFor(t *testing.T, set string, of func(*kmsg.FetchRequest) int32) {
	_, o := besideOther(t, 2, set)
	go o.serve()
	if got := of(o.fetch(o.accept())); got != 1234 {
		t.Errorf("with %s it asks for %d", set, got)
	}
}

// leavesOutWhoLags: a follower that does not fetch leaves the in-sync replicas.
func leavesOutWhoLags(t *testing.T) {
	p, _ := besideOther(t, 1, "replica.lag.time.max.ms=600", "broker.session.timeout.ms=2000")
	p.mustBeAlone()
}

// mustBeAlone writes a record, and waits until nobody else is in sync.
func (p *process) mustBeAlone() {
	p.t.Helper()
	if err := p.produce("t", partition(p, 0).Topic, 0, 1, "a"); err != nil {
		p.t.Fatal(err)
	}
	p.awaitImage(func() bool { return len(partition(p, 0).ISR) == 1 })
}

// comesBackSoon: ten failures take little more than as many delays; by default
// they take six seconds.
func comesBackSoon(t *testing.T) {
	_, o := besideOther(t, 2, "replica.fetch.backoff.ms=0")
	start := time.Now()
	for range 12 {
		nc, err := o.l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("12 connections took %v", took)
	}
}

// givesUp: a leader that does not answer is asked on another connection.
func givesUp(t *testing.T) {
	_, o := besideOther(t, 2, "replica.socket.timeout.ms=300", "replica.fetch.wait.max.ms=100")
	go o.serve()
	start := time.Now()
	o.fetch(o.accept())
	o.accept()
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

func tunesFollowers(t *testing.T) {
	for value, want := range map[string]int{"65536": -1, "131072": 131072} {
		c, _, err := config.Load(config.Options{Set: []string{"replica.socket.receive.buffer.bytes=" + value}})
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.Broker(nil)
		if err != nil || b.Replication.ReceiveBuffer != want {
			t.Errorf("%s: %d, %v", value, b.Replication.ReceiveBuffer, err)
		}
	}
}

// throttles: a replica that is added comes at the rate of the throttled replicas,
// and one in sync as fast as it can.
func throttles(t *testing.T, side string) {
	const rate, size, records = 100_000, 5000, 60
	c := startThree(t, 1, side+".replication.throttled.rate="+strconv.Itoa(rate), "replica.fetch.max.bytes="+strconv.Itoa(size))
	one := c.nodes[1]
	one.placed("slow", [][]kafka.NodeID{{1, 2}})
	for _, p := range c.nodes[1:] {
		p.awaitImage(func() bool { _, known := p.image().Topic("slow"); return known })
	}
	cl := c.client()
	adm := kadm.NewClient(cl)
	all := "*"
	alter := []kadm.AlterConfig{{Name: side + ".replication.throttled.replicas", Value: &all}}
	if r, err := adm.AlterTopicConfigs(one.ctx(), alter, "slow"); err != nil || r[0].Err != nil {
		t.Fatal(r, err)
	}
	random := rand.NewChaCha8([32]byte{1})
	began := time.Now()
	for range records {
		value := make([]byte, size)
		_, _ = random.Read(value)
		if err := cl.ProduceSync(one.ctx(), &kgo.Record{Topic: "slow", Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > records*size*time.Second/rate {
		t.Errorf("replicas in sync are throttled: %v", took)
	}
	moved := func() bool {
		s, _ := one.image().Topic("slow")
		return len(s.Partitions[0].ISR) == 3
	}
	began = time.Now()
	var move kadm.AlterPartitionAssignmentsReq
	move.Assign("slow", 0, []int32{1, 2, 3})
	if r, err := adm.AlterPartitionAssignments(one.ctx(), move); err != nil || r.Error() != nil {
		t.Fatal(r, err)
	}
	one.awaitImage(moved)
	// What goes at once is what an idle second saved up; the leader's has been
	// used up by the replica in sync, whose bytes count, too.
	least := (records*size - rate) * time.Second / rate
	if took := time.Since(began); took < least*9/10 {
		t.Errorf("%d bytes came after %v, at %d a second at least %v", records*size, took, rate, least)
	}
}

// readsNearby: a consumer reads from the replica of its rack, and from the leader
// when that one cannot serve it (KIP-392).
func readsNearby(t *testing.T) {
	c := startThree(t, 1, "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector")
	cl := c.client(kgo.DefaultProduceTopic("t"))
	from := func(rack string, records int) map[int32]int {
		t.Helper()
		served := nearby{by: map[int32]int{}}
		r := c.client(kgo.ConsumeTopics("t"), kgo.Rack(rack), kgo.WithHooks(&served), kgo.RecheckPreferredReplicaInterval(time.Hour))
		defer r.Close()
		for n := 0; n < records; {
			got := r.PollFetches(c.nodes[1].ctx())
			if err := got.Err(); err != nil {
				t.Fatal(err)
			}
			n += got.NumRecords()
		}
		served.mu.Lock()
		defer served.mu.Unlock()
		return served.by
	}
	for range 10 {
		if err := cl.ProduceSync(c.nodes[1].ctx(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.copies(0, 10)
	for rack, want := range map[string]int32{"rack-1": 1, "rack-2": 2, "rack-3": 3, "rack-4": 1, "": 1} {
		if by := from(rack, 10); by[want] == 0 || len(by) > 1 {
			t.Errorf("rack %q: batches came from %v, want broker %d", rack, by, want)
		}
	}
	c.nodes[2].end()
	if by := from("rack-2", 10); by[1] == 0 || len(by) > 1 {
		t.Errorf("without the broker of that rack: batches came from %v", by)
	}
}

// nearby counts the batches that a consumer gets from each broker.
type nearby struct {
	mu sync.Mutex
	by map[int32]int // under mu
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (n *nearby) OnFetchBatchRead(b kgo.BrokerMetadata, _ string, _ int32, _ kgo.FetchBatchMetrics) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.by[b.NodeID]++
}
