package brokertest_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// churn is a broker under many clients that come and go.
type churn struct {
	t               *testing.T
	b               *brokertest.Broker
	addr            string
	ctx             context.Context
	polled, commits atomic.Int64
}

const (
	churnGroups, churnTopics = 3, 4
	churnClients             = 4 // of each group
)

// Clients of both protocols share groups, come, commit, leave and vanish, while
// topics and groups are deleted and the broker restarts: nothing is left over,
// no error is logged, and at the end every group serves. Under the race detector it
// sees what may meet. BARNABAS_CHURN is how long it lasts.
func TestGroupChurn(t *testing.T) {
	length := 4 * time.Second
	if d, err := time.ParseDuration(os.Getenv("BARNABAS_CHURN")); err == nil {
		length = d
	}
	before := goleak.IgnoreCurrent()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	log := &alarms{}
	addr := freePort(t)
	b := brokertest.Start(t, brokertest.Log(slog.New(log)), brokertest.Set("listeners", "PLAINTEXT://"+addr), brokertest.Set("offsets.topic.num.partitions", "4"),
		brokertest.Set("group.min.session.timeout.ms", "500"), brokertest.Set("group.consumer.session.timeout.ms", "1000"), brokertest.Set("group.consumer.min.session.timeout.ms", "500"),
		brokertest.Set("group.consumer.heartbeat.interval.ms", "200"), brokertest.Set("group.consumer.min.heartbeat.interval.ms", "100"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &churn{t: t, b: b, addr: addr, ctx: ctx}
	var all sync.WaitGroup
	run := func(n uint64, f func(*rand.Rand)) {
		all.Go(func() {
			for rnd := rand.New(rand.NewPCG(seed, n)); ctx.Err() == nil; {
				f(rnd)
			}
		})
	}
	c.topics(nil)
	for n := range churnGroups * churnClients {
		run(uint64(n), func(rnd *rand.Rand) { c.member(rnd, n) })
	}
	run(100, c.topics)
	run(101, c.produce)
	run(102, c.remove)
	restarts, rnd := 0, rand.New(rand.NewPCG(seed, 200))
	for end := time.Now().Add(length); time.Now().Before(end); restarts++ {
		c.pause(time.Second + time.Duration(rnd.IntN(1500))*time.Millisecond)
		b.Restart()
	}
	cancel()
	all.Wait()
	t.Logf("%d restarts, %d records polled, %d commits", restarts, c.polled.Load(), c.commits.Load())
	for g := range churnGroups {
		c.serves(fmt.Sprint("churn-", g))
	}
	b.Stop()
	log.none(t)
	goleak.VerifyNone(t, before)
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (c *churn) pause(d time.Duration) {
	select {
	case <-c.ctx.Done():
	case <-time.After(d):
	}
}

func (c *churn) client(opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.addr), kgo.RetryTimeout(5*time.Second), kgo.RequestTimeoutOverhead(time.Second),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(time.Second), kgo.DialTimeout(time.Second))...)
	if err != nil {
		c.t.Fatal(err)
	}
	return cl
}

// member joins a group for a while, by one protocol or the other, and leaves or vanishes.
func (c *churn) member(rnd *rand.Rand, n int) {
	opts := []kgo.Opt{
		kgo.ConsumerGroup(fmt.Sprint("churn-", n%churnGroups)), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.RebalanceTimeout(time.Second), kgo.FetchMaxWait(200 * time.Millisecond),
	}
	switch rnd.IntN(4) {
	case 0:
		opts = append(opts, kgo.ServerSideBalancer(), kgo.ConsumeTopics("churn-t0", "churn-t1"))
	case 1:
		opts = append(opts, kgo.ServerSideBalancer(), kgo.ConsumeTopics("^churn-t.*"), kgo.ConsumeRegex())
	case 2:
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()), kgo.ConsumeTopics("churn-t0", "churn-t2"))
	default:
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer(), kgo.RangeBalancer()), kgo.ConsumeTopics("^churn-t.*"), kgo.ConsumeRegex())
	}
	if rnd.IntN(3) == 0 {
		opts = append(opts, kgo.InstanceID(fmt.Sprint("i", n)))
	}
	cl := c.client(opts...)
	ctx, cancel := context.WithTimeout(c.ctx, time.Duration(rnd.IntN(2500))*time.Millisecond)
	defer cancel()
	for ctx.Err() == nil {
		fs := cl.PollRecords(ctx, 100)
		c.polled.Add(int64(fs.NumRecords()))
		if rnd.IntN(3) > 0 && cl.CommitUncommittedOffsets(ctx) == nil {
			c.commits.Add(1)
		}
	}
	if rnd.IntN(2) == 0 { // else it is a member until its session ends
		leaving, done := context.WithTimeout(context.Background(), time.Second)
		_ = cl.LeaveGroupContext(leaving)
		done()
	}
	cl.CloseAllowingRebalance()
}

// topics are made, and now and then one is deleted and made anew.
func (c *churn) topics(rnd *rand.Rand) {
	cl := c.client()
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
	defer cancel()
	if rnd != nil {
		_, _ = adm.DeleteTopics(ctx, fmt.Sprint("churn-t", rnd.IntN(churnTopics)))
	}
	for n := range churnTopics {
		_, _ = adm.CreateTopic(ctx, int32(1+n), 1, nil, fmt.Sprint("churn-t", n))
	}
	if rnd != nil {
		_, _ = adm.CreatePartitions(ctx, 1, "churn-t0")
		c.pause(300 * time.Millisecond)
	}
}

func (c *churn) produce(rnd *rand.Rand) {
	cl := c.client(kgo.RecordDeliveryTimeout(2*time.Second), kgo.UnknownTopicRetries(2))
	defer cl.Close()
	for range 50 {
		cl.Produce(c.ctx, &kgo.Record{Topic: fmt.Sprint("churn-t", rnd.IntN(churnTopics)), Value: []byte("v")}, nil)
	}
	ctx, cancel := context.WithTimeout(c.ctx, 3*time.Second)
	defer cancel()
	_ = cl.Flush(ctx)
	c.pause(50 * time.Millisecond)
}

// remove deletes and describes groups, empty or not.
func (c *churn) remove(rnd *rand.Rand) {
	cl := c.client()
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(c.ctx, 3*time.Second)
	defer cancel()
	g := fmt.Sprint("churn-", rnd.IntN(churnGroups))
	_, _ = adm.DeleteGroups(ctx, g)
	_, _ = adm.DescribeGroups(ctx, g)
	_, _ = adm.FetchOffsets(ctx, g)
	_, _ = adm.ListGroups(ctx)
	_, _ = adm.Lag(ctx, g)
	c.pause(200 * time.Millisecond)
}

// serves sees that a group has all of a topic, once it is quiet.
func (c *churn) serves(group string) {
	c.t.Helper()
	topic, records := "quiet-"+group, 100
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := c.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(200*time.Millisecond))
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 3, 1, nil, topic); err != nil {
		c.t.Fatal(err)
	}
	for range records {
		cl.Produce(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}, nil)
	}
	if err := cl.Flush(ctx); err != nil {
		c.t.Fatal(err)
	}
	for got := 0; got < records; {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("%s: %d of %d records", group, got, records)
		}
		got += fs.NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		c.t.Errorf("%s: commit: %v", group, err)
	}
}
