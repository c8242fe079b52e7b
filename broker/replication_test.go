package broker

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// three are brokers on one metadata store, each with a replica of topic t.
type three struct {
	t     *testing.T
	store metastore.Store
	set   []string
	dirs  [4]string
	nodes [4]*process // by id
}

func startThree(t *testing.T, partitions int, set ...string) *three {
	t.Helper()
	c := &three{t: t, store: metastore.NewMem(), set: set}
	for id := 1; id <= 3; id++ {
		c.dirs[id] = t.TempDir()
		c.start(id)
	}
	one := c.nodes[1]
	one.awaitImage(func() bool { return len(one.image().Brokers()) == 3 })
	var replicas [][]kafka.NodeID
	for n := range partitions {
		i := kafka.NodeID(n % 3)
		replicas = append(replicas, []kafka.NodeID{i + 1, (i+1)%3 + 1, (i+2)%3 + 1})
	}
	one.placed("t", replicas)
	c.whole()
	return c
}

func (c *three) start(id int, with ...Options) {
	c.t.Helper()
	o := Options{}
	if len(with) > 0 {
		o = with[0]
	}
	o.store, o.Set = c.store, append([]string{fmt.Sprintf("node.id=%d", id), fmt.Sprintf("broker.rack=rack-%d", id), "log.dirs=" + c.dirs[id],
		"min.insync.replicas=2", "replica.lag.time.max.ms=10000"}, c.set...)
	c.nodes[id] = startWith(c.t, o)
}

// whole waits until every partition has three replicas in sync.
func (c *three) whole() {
	c.t.Helper()
	for _, p := range c.nodes[1:] {
		p.awaitImage(func() bool {
			t, ok := p.image().Topic("t")
			if !ok {
				return false
			}
			for _, s := range t.Partitions {
				if len(s.ISR) != 3 || s.Leader < 0 {
					return false
				}
				for _, r := range s.ISR {
					if r.Dir == kafka.DirUnassigned {
						return false
					}
				}
			}
			return true
		})
	}
}

// copies waits until the replicas of a partition are committed up to an offset.
func (c *three) copies(n int32, end int64) {
	c.t.Helper()
	for id, p := range c.nodes[1:] {
		p.until(fmt.Sprintf("broker %d has t-%d up to %d", id+1, n, end), func() bool {
			part, ok := p.b.parts.replicas.Get(kafka.TopicPartition{Topic: "t", Partition: n})
			return ok && part.HighWatermark() == end && part.Log().End() == end
		})
	}
}

func (c *three) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, p := range c.nodes[1:] {
		seeds = append(seeds, p.b.Addr("PLAINTEXT"))
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(20 * time.Millisecond)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// What is acknowledged with acks=all is on three disks.
func TestRecordsAreOnAllReplicas(t *testing.T) {
	c := startThree(t, 3)
	cl := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for n := range 300 {
		cl.Produce(c.nodes[1].ctx(), &kgo.Record{Topic: "t", Partition: int32(n % 3), Value: strconv.AppendInt(nil, int64(n), 10)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(c.nodes[1].ctx()); err != nil {
		t.Fatal(err)
	}
	for n := range int32(3) {
		c.copies(n, 100)
	}
}

// Brokers that stop and start again one after the other cost a producer
// nothing, and everything acknowledged is read, once and in order (safety 35).
func TestRollingRestart(t *testing.T) {
	c := startThree(t, 1)
	cl := c.client()
	ctx, stop := context.WithCancel(t.Context())
	var acked atomic.Int64
	done := make(chan error, 1)
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: "t", Value: []byte(strconv.Itoa(n))}).FirstErr(); err != nil {
				done <- fmt.Errorf("record %d: %w", n, err)
				return
			}
			acked.Add(1)
		}
		done <- nil
	}()
	for id := 1; id <= 3; id++ {
		before := acked.Load()
		c.nodes[id].end()
		c.nodes[id%3+1].until("records go on", func() bool { return acked.Load() > before+20 })
		c.start(id)
		c.whole()
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	c.copies(0, acked.Load())
	reader := c.client(kgo.ConsumeTopics("t"))
	for n := int64(0); n < acked.Load(); {
		got := reader.PollFetches(c.nodes[1].ctx())
		if err := got.Err(); err != nil {
			t.Fatal(err)
		}
		got.EachRecord(func(r *kgo.Record) {
			if want := strconv.FormatInt(n, 10); r.Offset != n || string(r.Value) != want {
				t.Fatalf("at %d stands %s, want %s", r.Offset, r.Value, want)
			}
			n++
		})
	}
	t.Logf("%d records", acked.Load())
}

// Followers for whom a leader has no session are told of its high watermark as
// the others are, and wait at the leader all the same.
func TestFollowersWithoutSessions(t *testing.T) {
	c := startThree(t, 1, "max.incremental.fetch.session.cache.slots=0")
	cl := c.client()
	fetches := func() float64 { return sum(t, c.nodes[1].b.reg, "barnabas_server_requests_total", "api", "Fetch") }
	before := fetches()
	const records = 50
	for n := range records {
		if err := cl.ProduceSync(c.nodes[1].ctx(), &kgo.Record{Topic: "t", Value: []byte(strconv.Itoa(n))}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.copies(0, records)
	// For each record two followers fetch it, look for more, and claim it.
	if n := fetches() - before; n == 0 || n > 2*records*10 {
		t.Errorf("%v fetches for %d records", n, records)
	}
}

// sum adds up the samples of a counter whose label has a value.
func sum(t *testing.T, reg prometheus.Gatherer, name, label, value string) (total float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == label && l.GetValue() == value {
					total += m.GetCounter().GetValue()
				}
			}
		}
	}
	return total
}

// A broker that has no replica of a partition is refused, and given no records.
func TestStrangersFollowNothing(t *testing.T) {
	p := startBroker(t, nil, "log.dirs="+t.TempDir())
	l := p.logUnderTest()
	p.fill(l, 0, 1, 10, time.Now())
	req := fetchOf(l, -1, 1)
	req.ReplicaID, req.ReplicaState.ID, req.ReplicaState.Epoch = 77, 77, 5
	got := ask[*kmsg.FetchResponse](groupClient{p}, req).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != kerr.NotLeaderForPartition || len(got.RecordBatches) > 0 {
		t.Errorf("%v, with %d bytes of records", err, len(got.RecordBatches))
	}
}

// When DeleteRecords answers, no replica has the records any more (safety 17).
func TestDeleteRecordsOnEveryReplica(t *testing.T) {
	c := startThree(t, 1)
	cl := c.client(kgo.DefaultProduceTopic("t"))
	for round := range int64(5) {
		for range 10 {
			if err := cl.ProduceSync(c.nodes[1].ctx(), kgo.StringRecord("x")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		upTo := 10*round + 5
		var offsets kadm.Offsets
		offsets.AddOffset("t", 0, upTo, -1)
		done, err := kadm.NewClient(cl).DeleteRecords(c.nodes[1].ctx(), offsets)
		if err == nil {
			err = done.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
		if low, _ := done.Lookup("t", 0); low.LowWatermark != upTo {
			t.Errorf("up to %d: low watermark %d", upTo, low.LowWatermark)
		}
		for id, p := range c.nodes[1:] {
			part, _ := p.b.parts.replicas.Get(kafka.TopicPartition{Topic: "t", Partition: 0})
			if at := part.Log().Start(); at != upTo {
				t.Errorf("answered, and the log of broker %d starts at %d, not %d", id+1, at, upTo)
			}
		}
	}
}

// Who stops leading while a record waits for the in-sync replicas names the
// broker that leads then, and where it is (KIP-951).
func TestLateNotLeaderNamesTheNext(t *testing.T) {
	c := &three{t: t, store: metastore.NewMem()}
	var stuck atomic.Bool
	held, waits := make(chan struct{}), make(chan struct{}, 1)
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	disk := vfs.Faulty(vfs.Real, func(op vfs.Op) error {
		if stuck.Load() && (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncAll) {
			select {
			case waits <- struct{}{}:
			default:
			}
			<-held
		}
		return nil
	})
	for id := 1; id <= 2; id++ {
		c.dirs[id] = t.TempDir()
		c.start(id, Options{files: disk})
		disk = nil // of the second one the true
	}
	two, one := c.nodes[1], c.nodes[2]
	one.awaitImage(func() bool { return len(one.image().Brokers()) == 2 })
	one.placed("t", [][]kafka.NodeID{{2, 1}})
	one.awaitImage(func() bool {
		t, ok := one.image().Topic("t")
		return ok && len(t.Partitions[0].ISR) == 2 && !slices.ContainsFunc(t.Partitions[0].ISR, func(m meta.Replica) bool { return m.Dir == kafka.DirUnassigned })
	})
	stuck.Store(true)
	topic, _ := one.image().Topic("t")
	answer := make(chan *kmsg.ProduceResponse, 1)
	go func() {
		resp, err := one.cl.Broker(2).Request(one.ctx(), one.produceRequest("t", topic.ID, 0, -1, "x"))
		if err != nil {
			t.Error(err)
			close(answer)
			return
		}
		answer <- resp.(*kmsg.ProduceResponse)
	}()
	<-waits // the follower has the record, and not on its disk
	one.stop()
	resp := <-answer
	if resp == nil {
		return
	}
	got := resp.Topics[0].Partitions[0]
	if got.ErrorCode != kerr.NotLeaderForPartition.Code || got.CurrentLeader.LeaderID != 1 || got.CurrentLeader.LeaderEpoch <= 0 {
		t.Errorf("answered %v, leader %+v", kerr.ErrorForCode(got.ErrorCode), got.CurrentLeader)
	}
	if _, port, _ := net.SplitHostPort(two.b.Addr("PLAINTEXT")); len(resp.Brokers) != 1 || strconv.Itoa(int(resp.Brokers[0].Port)) != port {
		t.Errorf("named %+v, wanted port %s", resp.Brokers, port)
	}
	release()
}
