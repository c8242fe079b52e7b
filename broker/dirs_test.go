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
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/replica"
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
	return startWith(t, Options{files: files, Set: set})
}

// startWith starts a broker on a port of its own, and waits until it serves.
func startWith(t *testing.T, o Options) *process {
	t.Helper()
	p := launch(t, o)
	p.serves()
	return p
}

// launch begins to start one.
func launch(t *testing.T, o Options) *process {
	t.Helper()
	o.Set = append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "barnabas.admin.listener="}, o.Set...)
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{t: t, b: b, stop: cancel, done: make(chan error, 1)}
	go func() { p.done <- b.Run(ctx) }()
	t.Cleanup(p.end)
	return p
}

// serves waits until the broker does, and makes the client.
func (p *process) serves() {
	p.t.Helper()
	select {
	case <-p.b.Ready():
	case err := <-p.done:
		p.done <- err
		p.t.Fatalf("broker ended at its start: %v", err)
	}
	var err error
	p.cl, err = kgo.NewClient(kgo.SeedBrokers(p.b.Addr("PLAINTEXT")), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		p.t.Fatal(err)
	}
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
	resp, err := p.cl.Broker(1).Request(p.ctx(), p.produceRequest(topic, id, partition, acks, value))
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, nil
}

// produceRequest is one of one record.
func (p *process) produceRequest(topic string, id [16]byte, partition int32, acks int16, value string) *kmsg.ProduceRequest {
	var b batch.Builder
	b.Reset(batch.Options{})
	b.Append(time.Now().UnixMilli(), nil, []byte(value))
	records, _, err := b.Build(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
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

// A cordoned directory gets no new logs and takes no moves (KIP-1066); with all
// of them cordoned no topic is made; lifting it while running is enough.
func TestCordonedDirectories(t *testing.T) {
	base := t.TempDir()
	one, two := filepath.Join(base, "one"), filepath.Join(base, "two")
	p := startBroker(t, vfs.Real, "log.dirs="+one+","+two, "metadata.log.dir="+filepath.Join(base, "metadata"), "cordoned.log.dirs="+two)
	p.createTopic("t", 4)
	for n := range 4 {
		if !vfsExists(t, filepath.Join(one, fmt.Sprintf("t-%d", n))) {
			t.Errorf("t-%d is not in the directory that takes logs", n)
		}
	}
	tp := kafka.TopicPartition{Topic: "t"}
	if err := p.b.parts.logs.Move(tp, two); !errors.Is(err, kerr.InvalidReplicaAssignment) {
		t.Errorf("move to a cordoned directory: %v", err)
	}
	known := func(n int) func() bool {
		return func() bool {
			self, ok := p.b.parts.keeper.Image().Broker(1)
			return ok && len(self.Cordoned) == n
		}
	}
	p.b.parts.setCordoned([]string{"*"})
	p.awaitImage(known(2))
	r, err := kadm.NewClient(p.cl).CreateTopic(p.ctx(), 1, 1, nil, "none")
	if !errors.Is(err, kerr.InvalidReplicationFactor) || !strings.Contains(r.ErrMessage, "cordoned") {
		t.Errorf("topic without a directory: %v, %q", err, r.ErrMessage)
	}
	p.b.parts.setCordoned(nil)
	p.awaitImage(known(0))
	p.createTopic("some", 2)
	for n := range 2 {
		if !vfsExists(t, filepath.Join(two, fmt.Sprintf("some-%d", n))) {
			t.Errorf("some-%d is not in the emptier directory", n)
		}
	}
	if err := p.b.parts.logs.Move(tp, two); err != nil {
		t.Errorf("move: %v", err)
	}
}

// A log moved, and the broker stopped before the state named its directory: it
// is not taken for lost, and the state learns where it is.
func TestStopBeforeMoveIsNamed(t *testing.T) {
	base := t.TempDir()
	one, two := filepath.Join(base, "one"), filepath.Join(base, "two")
	set := []string{"log.dirs=" + one + "," + two, "metadata.log.dir=" + filepath.Join(base, "metadata")}
	p := startBroker(t, vfs.Real, set...)
	id := p.createTopic("t", 1)
	if err := p.produce("t", id, 0, -1, "before"); err != nil {
		t.Fatal(err)
	}
	moved := make(chan replica.Assignment, 1)
	p.b.parts.replicas.Moved = func(a replica.Assignment) { moved <- a } // and nobody writes it down
	tp, to := kafka.TopicPartition{Topic: "t"}, one
	if vfsExists(t, filepath.Join(one, "t-0")) {
		to = two
	}
	if err := p.b.parts.logs.Move(tp, to); err != nil {
		t.Fatal(err)
	}
	a := <-moved
	if err := p.produce("t", id, 0, -1, "after"); err != nil {
		t.Fatal(err)
	}
	state := func() (meta.Replica, meta.Replica) {
		topic, _ := p.b.parts.keeper.Image().Topic("t")
		return topic.Partitions[0].Replicas[0], topic.Partitions[0].ISR[0]
	}
	if r, in := state(); r.Dir != a.From || in.Dir != a.From {
		t.Fatalf("the state names %v and %v, not %v", r.Dir, in.Dir, a.From)
	}
	p.end()

	p = startBroker(t, vfs.Real, set...)
	if r, in := state(); r.Dir != a.Dir || in.Dir != a.Dir {
		t.Errorf("after the start the state names %v and %v, not %v", r.Dir, in.Dir, a.Dir)
	}
	if have := p.values("t", 1, 2); !have["before"] || !have["after"] {
		t.Errorf("values: %v", have)
	}
}

// An offline directory is told as such, and nothing moves there; the other one
// is told as ever.
func TestDescribeOfflineDirectory(t *testing.T) {
	base := t.TempDir()
	good, bad := filepath.Join(base, "good"), filepath.Join(base, "bad")
	var s sick
	p := startBroker(t, vfs.Faulty(vfs.Real, s.before), "log.dirs="+good+","+bad, "metadata.log.dir="+filepath.Join(base, "metadata"))
	id := p.createTopic("t", 2)
	where := int32(0)
	if vfsExists(t, filepath.Join(good, "t-0")) {
		where = 1
	}
	s.strike(bad, vfs.OpSync)
	if err := p.produce("t", id, where, -1, "v"); err == nil {
		t.Fatal("acknowledged although its sync failed")
	}
	req := kmsg.NewPtrDescribeLogDirsRequest()
	resp, err := p.cl.Broker(1).Request(p.ctx(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range resp.(*kmsg.DescribeLogDirsResponse).Dirs {
		if code := kerr.ErrorForCode(d.ErrorCode); (d.Dir == bad) != errors.Is(code, kerr.KafkaStorageError) || (d.Dir == bad) != (len(d.Topics) == 0) {
			t.Errorf("%s: %v, %d topics", d.Dir, code, len(d.Topics))
		}
	}
	for part, dir := range map[int32]string{1 - where: bad, where: good} {
		err := p.b.parts.logs.Move(kafka.TopicPartition{Topic: "t", Partition: part}, dir)
		if !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("t-%d to %s: %v", part, dir, err)
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
