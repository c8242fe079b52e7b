package broker

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// stopwatch is the clock of a session. It stands still until somebody sets it.
type stopwatch struct {
	mu         sync.Mutex
	now, after time.Duration
}

func (s *stopwatch) read() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now
	s.now = s.after
	return now
}

// set makes it now, and after once it was read.
func (s *stopwatch) set(now, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.after = now, after
}

// startOn starts a broker of several on one metadata store.
func startOn(t *testing.T, store metastore.Store, node string, set ...string) *process {
	t.Helper()
	return startWith(t, Options{store: store, Set: append([]string{"node.id=" + node, "log.dirs=" + t.TempDir()}, set...)})
}

func (p *process) image() *meta.Image { return p.b.parts.keeper.Image() }

// registered is a broker's registration as p sees it.
func (p *process) registered(id kafka.NodeID) *meta.Broker {
	b, _ := p.image().Broker(id)
	return b
}

// wait is how a broker ended.
func (p *process) wait() error {
	p.t.Helper()
	select {
	case err := <-p.done:
		p.done <- err
		return err
	case <-p.ctx().Done():
		p.t.Fatal("the broker goes on")
		return nil
	}
}

func (p *process) key() string { return p.image().Keys().Broker(p.b.node.NodeID) }

// stored reads one key.
func storedKey(t *testing.T, s metastore.Store, key string) (kv.KV, bool) {
	t.Helper()
	p, err := s.List(t.Context(), key, "", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.KVs) == 0 {
		return kv.KV{}, false
	}
	return p.KVs[0], true
}

// A broker of several registers under a lease, which its stop revokes; one that
// is alone has none, and takes its registration back all the same.
func TestRegistersUnderALease(t *testing.T) {
	mem := metastore.NewMem()
	p := startOn(t, mem, "1")
	key := p.key()
	reg, there := storedKey(t, mem, key)
	if !there || reg.Lease == 0 || reg.CreateRev != p.registered(1).Epoch {
		t.Fatalf("registration %+v", reg)
	}
	p.end()
	if reg, there := storedKey(t, mem, key); there {
		t.Errorf("after the stop: %+v", reg)
	}
	if _, err := mem.Renew(t.Context(), reg.Lease); !errors.Is(err, metastore.ErrLeaseGone) {
		t.Errorf("the lease after the stop: %v", err)
	}
	dir := t.TempDir()
	alone := startBroker(t, nil, "log.dirs="+dir)
	if r := alone.registered(1); r.Lease != 0 || !alone.b.parts.member.Valid() {
		t.Errorf("alone: %+v", r)
	}
	epoch := alone.registered(1).Epoch
	alone.end()
	again := startBroker(t, nil, "log.dirs="+dir)
	if r := again.registered(1); r.Epoch <= epoch {
		t.Errorf("epoch %d after %d", r.Epoch, epoch)
	}
}

// Two brokers are one cluster: the second, with empty directories, joins the
// first one's, and each tells clients of both.
func TestTwoBrokersAreACluster(t *testing.T) {
	mem := metastore.NewMem()
	one := startOn(t, mem, "1")
	two := startOn(t, mem, "2")
	one.awaitImage(func() bool { return one.registered(2) != nil })
	if a, b := one.b.ClusterID(), two.b.ClusterID(); a == "" || a != b {
		t.Errorf("clusters %q and %q", a, b)
	}
	for _, p := range []*process{one, two} {
		m, err := kadm.NewClient(p.cl).BrokerMetadata(p.ctx())
		if err != nil || len(m.Brokers) != 2 || m.Controller != 1 {
			t.Errorf("%+v: %v", m, err)
		}
	}
	two.end()
	one.awaitImage(func() bool { return one.registered(2) == nil })
}

// A registration that is lost is followed by another, under a new epoch, while
// the process lives and its port stays open; partitions get another term.
func TestLostRegistrationIsFollowedByAnother(t *testing.T) {
	mem := metastore.NewMem()
	p := startOn(t, mem, "1")
	id := p.createTopic("t", 1)
	lose := map[string]func(*meta.Broker) error{
		"the lease": func(b *meta.Broker) error { return mem.Revoke(t.Context(), b.Lease) },
		"the registration": func(*meta.Broker) error {
			_, err := mem.Txn(t.Context(), kv.Txn{Then: []kv.Op{kv.DeleteOp(p.key())}})
			return err
		},
	}
	for what, lose := range lose {
		was, term := p.registered(1), p.term("t")
		if err := lose(was); err != nil {
			t.Fatal(err)
		}
		p.awaitImage(func() bool {
			r := p.registered(1)
			return r != nil && r.Epoch > was.Epoch && r.Lease != was.Lease && p.term("t") > term
		})
		if !p.b.parts.member.Valid() {
			t.Errorf("%s lost: registered, and not valid", what)
		}
		if err := p.produce("t", id, 0, 1, "again"); err != nil {
			t.Errorf("%s lost: %v", what, err)
		}
	}
	if n := p.b.parts.member.count.Load(); n != 3 {
		t.Errorf("%d registrations are counted", n)
	}
}

// term is the leader epoch of a topic's first partition, -1 while this broker
// does not lead it.
func (p *process) term(topic string) kafka.LeaderEpoch {
	part, ok := p.b.parts.replicas.Get(kafka.TopicPartition{Topic: topic})
	if !ok {
		return -1
	}
	epoch, leads := part.Leading()
	if !leads {
		return -1
	}
	return epoch
}

// What the image shows counts at once, before it is published: without its
// registration a broker is fenced.
func TestFencedByTheImage(t *testing.T) {
	p := startOn(t, metastore.NewMem(), "1")
	m := p.b.parts.member
	img, _ := meta.FromListing(p.b.ClusterID(), nil, p.image().Revision()+1)
	older, _ := meta.FromListing(p.b.ClusterID(), nil, p.registered(1).Epoch-1)
	if m.look(older); !m.Valid() {
		t.Error("fenced by an image from before")
	}
	if m.look(img); m.Valid() {
		t.Error("valid without a registration")
	}
}

// A broker that sees its number taken by another process ends.
func TestReplacedBrokerEnds(t *testing.T) {
	mem := metastore.NewMem()
	p := startOn(t, mem, "1")
	other := p.registered(1).Clone()
	other.StartID = "another"
	if _, err := mem.Txn(t.Context(), kv.Txn{Then: []kv.Op{kv.PutOp(p.key(), other.Encode(), 0)}}); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); !errors.Is(err, errReplaced) {
		t.Errorf("%v", err)
	}
}

// A number that another broker has, on directories of its own, is waited for
// while that one's session lasts.
func TestNumberInUse(t *testing.T) {
	mem := metastore.NewMem()
	one := startOn(t, mem, "1")
	watch := startOn(t, mem, "2")
	watch.awaitImage(func() bool { return len(watch.image().Brokers()) == 2 })
	watch.placed("t", [][]kafka.NodeID{{1, 2}})
	twin := launch(t, Options{store: mem, Set: []string{"node.id=1", "log.dirs=" + t.TempDir(), "initial.broker.registration.timeout.ms=300"}})
	if err := twin.wait(); err == nil || !strings.Contains(err.Error(), "initial.broker.registration.timeout.ms") {
		t.Errorf("%v", err)
	}
	topic, _ := watch.image().Topic("t")
	if p := topic.Partitions[0]; len(p.ISR) != 2 || p.LeaderEpoch != 0 {
		t.Errorf("a broker that never was one has given up another's replica: %+v", p)
	}
	later := launch(t, Options{store: mem, Set: []string{"node.id=1", "log.dirs=" + t.TempDir()}})
	one.end()
	later.serves()
	watch.awaitImage(func() bool { r := watch.registered(1); return r != nil && r.StartID == later.b.startID })
}

// While the metadata store is away at the start, the listeners are open, and
// clients are told to come again (safety 36).
func TestListensWithoutTheStore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	mem := metastore.NewMem()
	mem.Stall(true)
	p := launch(t, Options{store: mem, Set: []string{"log.dirs=" + t.TempDir(), "listeners=PLAINTEXT://" + addr}})
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	m := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr("t")
	m.Topics = append(m.Topics, topic)
	f := kmsg.NewPtrFindCoordinatorRequest()
	f.CoordinatorKey, f.CoordinatorKeys = "g", []string{"g"}
	c := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType = kmsg.ConfigResourceTypeBroker
	c.Resources = append(c.Resources, r)
	h := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	h.Group, h.MemberID, h.RebalanceTimeoutMillis = "g", "m", 1000
	d := kmsg.NewPtrConsumerGroupDescribeRequest()
	d.Groups = []string{"g"}
	all := kmsg.NewPtrMetadataRequest()
	all.Topics = nil
	if resp, err := cl.SeedBrokers()[0].Request(p.ctx(), all); err == nil {
		t.Errorf("all topics without a store: %+v", resp) // which would say that there are none
	}
	for _, req := range []kmsg.Request{m, f, c, h, d, kmsg.NewPtrDescribeClusterRequest()} {
		resp, err := cl.SeedBrokers()[0].RetriableRequest(p.ctx(), req)
		if err != nil {
			t.Fatal(err)
		}
		var code int16
		var want *kerr.Error
		switch resp := resp.(type) {
		case *kmsg.MetadataResponse:
			code, want = resp.Topics[0].ErrorCode, kerr.LeaderNotAvailable
		case *kmsg.FindCoordinatorResponse:
			code, want = resp.Coordinators[0].ErrorCode, kerr.CoordinatorNotAvailable
		case *kmsg.IncrementalAlterConfigsResponse:
			code, want = resp.Resources[0].ErrorCode, kerr.NotController
		case *kmsg.ConsumerGroupHeartbeatResponse: // its feature is not known yet, and not off
			code, want = resp.ErrorCode, kerr.CoordinatorNotAvailable
		case *kmsg.ConsumerGroupDescribeResponse:
			code, want = resp.Groups[0].ErrorCode, kerr.CoordinatorNotAvailable
		case *kmsg.DescribeClusterResponse:
			code, want = resp.ErrorCode, kerr.NotController
		}
		if err := kerr.ErrorForCode(code); !errors.Is(err, want) {
			t.Errorf("%s without a store: %v, want %v", kmsg.NameForKey(req.Key()), err, want)
		}
	}
	mem.Stall(false)
	p.serves()
	if err := p.produce("t", p.createTopic("t", 1), 0, -1, "x"); err != nil {
		t.Error(err)
	}
}

// Log directories of a cluster that the store does not hold are refused.
func TestForeignClusterRefused(t *testing.T) {
	dir := t.TempDir()
	first := startWith(t, Options{store: metastore.NewMem(), Set: []string{"log.dirs=" + dir}})
	own := first.b.ClusterID()
	first.end()
	mem := metastore.NewMem()
	startOn(t, mem, "2")
	stranger := launch(t, Options{store: mem, Set: []string{"log.dirs=" + dir}})
	if err := stranger.wait(); err == nil || !strings.Contains(err.Error(), "the log directories belong to cluster "+own) || !strings.Contains(err.Error(), "log.dirs") {
		t.Errorf("%v", err)
	}
	// The directory was not changed, nor is it locked.
	again, err := New(Options{store: metastore.NewMem(), Set: []string{"log.dirs=" + dir, "listeners=PLAINTEXT://127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.parts.logs.Claim(); err != nil || again.parts.logs.ClusterID() != own {
		t.Errorf("%q: %v", again.parts.logs.ClusterID(), err)
	}
	again.parts.logs.Release()
}

// A metadata store that was set back, below what the log directories have seen of
// their cluster, is refused, and the directories stay as they are (safety 15).
func TestSetBackStoreRefused(t *testing.T) {
	dir := t.TempDir()
	mem := metastore.NewMem()
	first := startWith(t, Options{store: mem, Set: []string{"log.dirs=" + dir}})
	first.createTopic("t", 1)
	first.end()
	seen, err := mem.Rev(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again := launch(t, Options{store: metastore.NewMem(), Set: []string{"log.dirs=" + dir}})
	if err := again.wait(); err == nil || !strings.Contains(err.Error(), "it was set back to an older state") {
		t.Errorf("%v", err)
	}
	back := startWith(t, Options{store: mem, Set: []string{"log.dirs=" + dir}})
	if _, rev := back.b.parts.logs.Format(); rev > seen || back.term("t") < 0 {
		t.Errorf("revision %d was seen, %d is noted; term %d", seen, rev, back.term("t"))
	}
}

// Of brokers with empty directories that begin at once, one begins the cluster.
func TestOneClusterOfMany(t *testing.T) {
	mem := metastore.NewMem()
	ids := make(chan string, 8)
	for range cap(ids) {
		go func() {
			id, err := identify(context.Background(), mem, "", false)
			if err != nil {
				t.Error(err)
			}
			ids <- id
		}()
	}
	id := <-ids
	for range cap(ids) - 1 {
		if other := <-ids; other != id || id == "" {
			t.Errorf("clusters %q and %q", id, other)
		}
	}
	for _, c := range []struct {
		own    string
		chosen bool
		want   string
		err    string
	}{
		{own: id, want: id},
		{want: id},
		{own: "second", err: "belong to cluster second"},
		{own: "second", chosen: true, want: "second"},
		{own: "second", want: "second"},
		{err: "barnabas.cluster.id"},
	} {
		got, err := identify(t.Context(), mem, c.own, c.chosen)
		if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// A single node whose log directories are new ones goes on in its cluster.
func TestNewDirectoriesOfASingleNode(t *testing.T) {
	dir := t.TempDir()
	metadata := "metadata.log.dir=" + filepath.Join(dir, "m")
	p := startBroker(t, nil, "log.dirs="+filepath.Join(dir, "a"), metadata)
	id := p.b.ClusterID()
	p.createTopic("t", 1)
	// As after a kill: the registration stays.
	p.b.parts.member.registered.Store(0)
	p.end()
	q := startBroker(t, nil, "log.dirs="+filepath.Join(dir, "b"), metadata)
	if q.b.ClusterID() != id {
		t.Errorf("cluster %s, was %s", q.b.ClusterID(), id)
	}
	if l := q.leaders("t"); l[0] != -1 {
		t.Errorf("a lost partition is led by %d", l[0])
	}
}

// What is being made lies under its maker's lease, so that it is nobody's once
// the maker is gone (safety 29).
func TestMakesUnderItsLease(t *testing.T) {
	mem := metastore.NewMem()
	p := startOn(t, mem, "1")
	p.createTopic("large", 200) // more than one transaction
	w, err := mem.Watch(t.Context(), p.image().Keys().Prefix()+"pending/", 1)
	if err != nil {
		t.Fatal(err)
	}
	e := (<-w.C()).Events[0]
	if e.Deleted || e.KV.Lease == 0 || e.KV.Lease != p.registered(1).Lease {
		t.Errorf("%+v, want lease %d", e.KV, p.registered(1).Lease)
	}
}
