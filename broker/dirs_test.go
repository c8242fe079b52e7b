package broker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// sick fails the syncs of files below some directories.
type sick struct {
	mu    sync.Mutex
	dirs  map[string]bool
	kinds map[vfs.Kind]bool
}

func (s *sick) strike(dir string, kinds ...vfs.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirs == nil {
		s.dirs, s.kinds = map[string]bool{}, map[vfs.Kind]bool{}
	}
	s.dirs[dir] = true
	for _, k := range kinds {
		s.kinds[k] = true
	}
}

func (s *sick) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirs, s.kinds = nil, nil
}

func (s *sick) before(op vfs.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for dir := range s.dirs {
		if s.kinds[op.Kind] && strings.HasPrefix(op.Name, dir+"/") {
			return fmt.Errorf("%s %s: %w", op.Kind, op.Name, syscall.EIO)
		}
	}
	return nil
}

// process is a broker under test and a client of it.
type process struct {
	t    *testing.T
	b    *Broker
	stop context.CancelFunc
	done chan error
	cl   *kgo.Client
}

func startBroker(t *testing.T, files vfs.FS, set ...string) *process {
	t.Helper()
	set = append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "barnabas.admin.listener="}, set...)
	b, err := New(Options{Set: set, files: files})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{t: t, b: b, stop: cancel, done: make(chan error, 1)}
	go func() { p.done <- b.Run(ctx) }()
	t.Cleanup(p.end)
	select {
	case <-b.Ready():
	case err := <-p.done:
		p.done <- err
		t.Fatalf("broker ended at its start: %v", err)
	}
	p.cl, err = kgo.NewClient(kgo.SeedBrokers(b.Addr("PLAINTEXT")), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) end() {
	p.stop()
	if p.cl != nil {
		p.cl.Close()
	}
	p.done <- <-p.done
}

// ctx bounds what a test asks of the broker.
func (p *process) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	context.AfterFunc(p.t.Context(), cancel)
	return ctx
}

func (p *process) createTopic(name string, partitions int32) (id [16]byte) {
	p.t.Helper()
	r, err := kadm.NewClient(p.cl).CreateTopic(p.ctx(), partitions, 1, nil, name)
	if err != nil {
		p.t.Fatal(err)
	}
	return r.ID
}

// produce sends one record and gives the answer's error.
func (p *process) produce(topic string, id [16]byte, partition int32, acks int16, value string) error {
	p.t.Helper()
	code, err := p.send(topic, id, partition, acks, value)
	if err != nil {
		p.t.Fatal(err)
	}
	return kerr.ErrorForCode(code)
}

func (p *process) send(topic string, id [16]byte, partition int32, acks int16, value string) (code int16, err error) {
	var b batch.Builder
	b.Reset(batch.Options{})
	b.Append(time.Now().UnixMilli(), nil, []byte(value))
	records, _, err := b.Build(nil)
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := p.cl.Broker(1).Request(p.ctx(), req)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, nil
}

// leaders are the partitions' leaders as clients are told.
func (p *process) leaders(topic string) map[int32]int32 {
	p.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := p.cl.Broker(1).Request(p.ctx(), req)
	if err != nil {
		p.t.Fatal(err)
	}
	out := map[int32]int32{}
	for _, s := range resp.(*kmsg.MetadataResponse).Topics[0].Partitions {
		out[s.Partition] = s.Leader
	}
	return out
}

func (p *process) values(topic string, partitions int32, want int) map[string]bool {
	p.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.b.Addr("PLAINTEXT")), kgo.ConsumeTopics(topic))
	if err != nil {
		p.t.Fatal(err)
	}
	defer cl.Close()
	out := map[string]bool{}
	ctx := p.ctx()
	for len(out) < want {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			p.t.Fatalf("%d of %d values: %v", len(out), want, err)
		}
		fs.EachRecord(func(r *kgo.Record) { out[string(r.Value)] = true })
	}
	return out
}

// awaitImage waits until the published image is as told.
func (p *process) awaitImage(ok func() bool) {
	p.t.Helper()
	ctx := p.ctx()
	for {
		changed := p.b.parts.keeper.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			p.t.Fatal("the image is not as it should be")
		}
	}
}

// A failed sync takes one of two log directories offline: nothing on it is
// acknowledged any more and it has no leaders; the other one goes on; a restart
// with a healthy disk brings everything back. (R7, safety 4)
func TestFailedSyncTakesOneDirectoryOffline(t *testing.T) {
	const parts = 6
	base := t.TempDir()
	good, bad := filepath.Join(base, "good"), filepath.Join(base, "bad")
	set := []string{"log.dirs=" + good + "," + bad, "metadata.log.dir=" + filepath.Join(base, "metadata")}
	var s sick
	files := vfs.Faulty(vfs.Real, s.before)
	p := startBroker(t, files, set...)
	id := p.createTopic("t", parts)
	where := map[int32]string{}
	acked := map[string]bool{}
	put := func(part int32, acks int16, value string) error {
		t.Helper()
		err := p.produce("t", id, part, acks, value)
		if err == nil && acks == -1 {
			acked[value] = true
		}
		return err
	}
	for n := range int32(parts) {
		where[n] = bad
		if vfsExists(t, filepath.Join(good, fmt.Sprintf("t-%d", n))) {
			where[n] = good
		}
		if err := put(n, -1, fmt.Sprintf("%d before", n)); err != nil {
			t.Fatal(err)
		}
	}

	s.strike(bad, vfs.OpSync)
	onBad := 0
	for n := range int32(parts) {
		err := put(n, -1, fmt.Sprintf("%d struck", n))
		switch {
		case where[n] == good && err != nil:
			t.Errorf("partition %d on the good directory: %v", n, err)
		case where[n] == bad && err == nil:
			t.Errorf("partition %d: acknowledged although its sync failed", n)
		case where[n] == bad && !errors.Is(err, kerr.KafkaStorageError) && !errors.Is(err, kerr.NotLeaderForPartition):
			t.Errorf("partition %d: %v", n, err)
		}
		if where[n] == bad {
			onBad++
		}
	}
	if onBad == 0 || onBad == parts {
		t.Fatalf("%d of %d partitions on the bad directory", onBad, parts)
	}
	s.heal() // offline is for good: a sync that works again proves nothing about the last one
	p.awaitImage(func() bool {
		for n, leader := range p.leaders("t") {
			if (leader == 1) != (where[n] == good) {
				return false
			}
		}
		return true
	})
	for n := range int32(parts) {
		for _, acks := range []int16{1, -1} {
			if err := put(n, acks, fmt.Sprintf("%d later %d", n, acks)); (err == nil) != (where[n] == good) {
				t.Errorf("partition %d on %s, acks %d: %v", n, where[n], acks, err)
			}
		}
	}
	if err := p.b.healthy(); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("health: %v", err)
	}
	if err := p.b.readiness(); err != nil {
		t.Errorf("readiness: %v", err)
	}
	p.createTopic("more", 4) // on the directory that is left
	p.end()

	p = startBroker(t, files, set...)
	for n, leader := range p.leaders("t") {
		if leader != 1 {
			t.Errorf("after the restart partition %d has leader %d", n, leader)
		}
	}
	have := p.values("t", parts, len(acked))
	for v := range acked {
		if !have[v] {
			t.Errorf("%q was acknowledged and is gone", v)
		}
	}
}

// The last log directory's failure ends the process with its reason.
func TestLastDirectoryOffline(t *testing.T) {
	base := t.TempDir()
	one, two := filepath.Join(base, "one"), filepath.Join(base, "two")
	var s sick
	p := startBroker(t, vfs.Faulty(vfs.Real, s.before), "log.dirs="+one+","+two, "metadata.log.dir="+filepath.Join(base, "metadata"))
	id := p.createTopic("t", 4)
	s.strike(one, vfs.OpSync)
	s.strike(two, vfs.OpSync)
	var sent sync.WaitGroup
	defer sent.Wait()
	for n := range int32(4) {
		sent.Go(func() { _, _ = p.send("t", id, n, -1, "v") }) // answered or cut off
	}
	select {
	case err := <-p.done:
		p.done <- err
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("ended with %v", err)
		}
		t.Logf("ended: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("the broker goes on without a log directory")
	}
}

func vfsExists(t *testing.T, name string) bool {
	t.Helper()
	ok, err := vfs.Exists(vfs.Real, name)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}
