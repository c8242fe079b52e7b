package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

const self kafka.NodeID = 1

// broker is what a shard stands on: a metadata store in memory that outlives
// crashes, and the replica manager over logs of a file system that does not.
type broker struct {
	t        testing.TB
	w        *metatest.World
	dir      string
	settings func() (storage.Config, replica.Rules)
	lives    int

	logs     *storage.Manager
	replicas *replica.Manager
	stop     func()
}

func newBroker(t testing.TB, durable bool, segmentBytes int32) *broker {
	b := &broker{t: t, w: metatest.New(), dir: "/d"}
	b.settings = func() (storage.Config, replica.Rules) {
		cfg := storage.DefaultConfig()
		cfg.SegmentBytes, cfg.IndexIntervalBytes, cfg.Durable = segmentBytes, 500, durable
		return cfg, replica.Rules{
			Batch:     batch.Rules{MaxMessageBytes: 1 << 20, TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 1 << 60},
			MinInSync: 1, Internal: true,
		}
	}
	return b
}

// open begins a life on a file system: recovery, registration, roles.
func (b *broker) open(fs vfs.FS) {
	b.t.Helper()
	cfg, _ := b.settings()
	b.logs = storage.New(storage.ManagerConfig{Dirs: []string{b.dir}, NodeID: self, ClusterID: "c", Defaults: cfg}, fs, nil, nil)
	if err := b.logs.Open(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.logs.Run(ctx) }()
	b.replicas = replica.NewManager(self, b.logs, func(*meta.Image, string) (storage.Config, replica.Rules) { return b.settings() }, slog.New(slog.DiscardHandler))
	b.stop = sync.OnceFunc(func() {
		b.replicas.Close()
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(b.stop)
	b.register()
	b.settle()
}

// register begins an epoch: the broker leads nothing until settle.
func (b *broker) register() {
	b.t.Helper()
	b.lives++
	me := &meta.Broker{ID: self, StartID: fmt.Sprint("life", b.lives), Dirs: []kafka.DirID{b.logs.Dirs()[0].ID}}
	me.Listeners = []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: 1}}
	if err := b.w.RegisterBroker(me); err != nil {
		b.t.Fatal(err)
	}
	d := meta.Diff(meta.Empty(metatest.ClusterID), b.w.Img)
	b.apply(&d)
}

// create makes the internal topic with one partition.
func (b *broker) create() {
	b.t.Helper()
	if err := b.w.CreateTopic("internal", 1); err != nil {
		b.t.Fatal(err)
	}
	b.apply(&b.w.Delta)
}

func (b *broker) apply(d *meta.Delta) {
	b.t.Helper()
	me, _ := b.w.Img.Broker(self)
	var as []plan.Assignment
	for _, a := range b.replicas.Apply(b.t.Context(), b.w.Img, d, me.Epoch) {
		as = append(as, plan.Assignment{Partition: a.Partition, Dir: a.Dir})
	}
	if len(as) == 0 {
		return
	}
	batches, err := plan.AssignDirs(b.w.Img, self, me.Epoch, as)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, one := range batches {
		b.w.Do(one.Txn)
		b.apply(&b.w.Delta)
	}
}

// settle does what the controller would: leaders for the broker's new life.
func (b *broker) settle() {
	b.t.Helper()
	for topic := range b.w.Img.Topics() {
		for _, p := range topic.Partitions {
			if c, ok := plan.Settle(b.w.Img, topic, p, plan.Online); ok {
				for _, one := range plan.Batches(b.w.Img.Keys(), nil, []plan.Change{c}) {
					b.w.Do(one.Txn)
					b.apply(&b.w.Delta)
				}
			}
		}
	}
}

func (b *broker) partition(shard int32) (Partition, bool) {
	p, ok := b.replicas.Get(kafka.TopicPartition{Topic: "internal", Partition: shard})
	if !ok {
		return nil, false
	}
	return p, true
}

// run begins a runtime over the partition, and waits for its machine to begin.
func (b *broker) run(cfg func(*Config)) *rig {
	b.t.Helper()
	g := newRig(b.t, 0, func(c *Config) {
		c.Partition = b.partition
		if cfg != nil {
			cfg(c)
		}
	})
	b.elected(g)
	<-g.begun
	return g
}

func (b *broker) elected(g *rig) {
	b.t.Helper()
	p, ok := b.partition(0)
	if !ok {
		b.t.Fatal("the partition is not here")
	}
	epoch, leads := p.Leading()
	if !leads {
		b.t.Fatal("the partition has no leader")
	}
	g.r.Elected(0, epoch)
}

// TestCrash runs clients on a disk that crashes at a random change, and loads
// the shard from what is left, several times: by a power loss that keeps any part
// of what was not synced, torn and reordered, by a strict one, or by the kill of
// the process. What was acknowledged or read before is there; what is there is
// the beginning of what the machine held, and ends with a whole step. Without
// durable acks, that holds for the kill of the process.
func TestCrash(t *testing.T) {
	for i := range 4 * *seedCount {
		seed := *firstSeed + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newCrashes(t, seed).run(false) })
	}
}

// TestFaults lets one change of the file system fail, for want of space or for
// good, before the crash.
func TestFaults(t *testing.T) {
	for i := range *seedCount {
		seed := *firstSeed + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newCrashes(t, seed).run(true) })
	}
}

type crashes struct {
	t       *testing.T
	rng     *rand.Rand
	b       *broker
	durable bool
	steps   int // given out

	mu      sync.Mutex
	mem     *vfs.Mem
	chance  int   // of a crash, at every change: one in so many; 0: none
	fault   error // that is to come, once
	after   *vfs.Mem
	kill    bool // the crash loses nothing
	known   int  // records that somebody was told of
	atCrash int  // known at the crash
	trouble *rand.Rand
}

func newCrashes(t *testing.T, seed uint64) *crashes {
	rng := rand.New(rand.NewPCG(seed, 5))
	c := &crashes{t: t, rng: rng, trouble: rand.New(rand.NewPCG(seed, 6)), durable: rng.IntN(4) > 0}
	c.b = newBroker(t, c.durable, int32(2000+rng.IntN(8000)))
	return c
}

func (c *crashes) run(faults bool) {
	fs := vfs.NewMem()
	c.b.open(c.wrap(fs))
	c.b.create()
	var before []string
	for life := range 5 {
		g := c.b.run(func(cfg *Config) {
			cfg.MaxBatchBytes, cfg.LoadBytes = 1900, 100+c.rng.IntN(5000)
			cfg.Encoding = batch.Encoding{Codec: batch.Codec(c.rng.IntN(5))}
		})
		if loaded := g.toy().records; life > 0 {
			c.compare(before, loaded, faults)
		}
		c.mu.Lock()
		c.known = len(g.toy().records)
		c.chance = 3 + c.rng.IntN(200)
		if faults && c.rng.IntN(3) > 0 {
			c.fault = []error{vfs.ErrNoSpace, &vfs.ShortWrite{N: c.rng.IntN(300), Err: vfs.ErrNoSpace}, syscall.EIO}[c.rng.IntN(3)]
		}
		c.mu.Unlock()
		c.clients(g)
		g.stop()
		c.b.stop()
		c.mu.Lock()
		if c.after == nil {
			c.crash()
		}
		fs, before = c.after, c.longest(g)
		c.after, c.chance, c.fault = nil, 0, nil
		c.mu.Unlock()
		c.b.open(c.wrap(fs))
	}
}

// wrap hooks the crash and the fault into a file system.
func (c *crashes) wrap(fs *vfs.Mem) vfs.FS {
	c.mem = fs
	return vfs.Faulty(fs, func(op vfs.Op) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !op.Kind.Changes() || c.chance == 0 || c.mem != fs {
			return nil
		}
		if c.fault != nil && c.trouble.IntN(30) == 0 && (op.Kind == vfs.OpWrite || errors.Is(c.fault, syscall.EIO)) {
			err := c.fault
			c.fault = nil
			return err
		}
		if c.after == nil && c.trouble.IntN(c.chance) == 0 {
			c.crash()
		}
		return nil
	})
}

// crash is called with c.mu: what was told to somebody before is known.
func (c *crashes) crash() {
	opts := []vfs.CrashOptions{vfs.PowerLoss, {}, vfs.ProcessKill}[c.trouble.IntN(3)]
	c.kill, c.atCrash = opts == vfs.ProcessKill, c.known
	c.after = c.mem.CrashClone(c.trouble, opts)
}

// clients work until the crash, or for so many commands.
func (c *crashes) clients(g *rig) {
	var wg sync.WaitGroup
	for range 1 + c.rng.IntN(5) {
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), 7))
		wg.Go(func() {
			for range 60 {
				c.mu.Lock()
				over := c.after != nil
				c.steps++
				step := c.steps
				c.mu.Unlock()
				if over {
					return
				}
				c.one(g, rng, step)
			}
		})
	}
	wg.Wait()
}

// one is a step of one to three records, or a read; both are answered with the
// number of records that the machine holds.
func (c *crashes) one(g *rig, rng *rand.Rand, step int) {
	n, size := rng.IntN(4), rng.IntN(400)
	f := func(m *toy, _ time.Time, to Token) (out Out) {
		for i := range n {
			out.Records = append(out.Records, m.emit(fmt.Sprintf("%d:%d/%d", step, i+1, n), strings.Repeat("x", size)))
		}
		out.Replies = []Reply{{to, len(m.records)}}
		return out
	}
	cmd := Command(act(f))
	if n == 0 {
		cmd = look(f)
	}
	body, err := g.r.Do(context.Background(), 0, cmd)
	c.mu.Lock()
	defer c.mu.Unlock()
	var ke *kerr.Error
	switch {
	case err == nil:
		c.known = max(c.known, body.(int))
	case !errors.As(err, &ke):
		c.t.Errorf("step %d: %v", step, err)
	}
}

// longest is what the machines of a life held in the end; a machine that was
// dropped was ahead of its log.
func (c *crashes) longest(g *rig) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.toys[0]
	return all[len(all)-1].records
}

func (c *crashes) compare(before, loaded []string, faults bool) {
	c.t.Helper()
	if (c.durable || c.kill) && len(loaded) < c.atCrash {
		c.t.Fatalf("%d records were known before the crash, %d are loaded", c.atCrash, len(loaded))
	}
	c.t.Logf("known %d, loaded %d of %d, kill %t, durable %t", c.atCrash, len(loaded), len(before), c.kill, c.durable)
	same := min(len(loaded), len(before))
	if faults {
		same = min(same, c.atCrash) // behind it, a machine may have been ahead of its log
	} else if len(loaded) > len(before) {
		c.t.Fatalf("%d records are loaded, more than the %d that there were", len(loaded), len(before))
	}
	if !slices.Equal(loaded[:same], before[:same]) {
		c.t.Fatalf("loaded %v, which is not the beginning of %v", loaded[:same], before[:same])
	}
	seen := map[string]bool{}
	left := 0 // records of the step
	for _, r := range loaded {
		key, _, _ := strings.Cut(r, "=")
		var step, i, n int
		if _, err := fmt.Sscanf(key, "%d:%d/%d", &step, &i, &n); err != nil || seen[key] || step > c.steps {
			c.t.Fatalf("loaded %s, twice or made up: %v", key, err)
		}
		seen[key] = true
		if left == 0 {
			left = n
		}
		if left--; i != n-left {
			c.t.Fatalf("a step that is not whole: %v", loaded)
		}
	}
	if left > 0 {
		c.t.Fatalf("the last step is not whole: %v", loaded)
	}
}
