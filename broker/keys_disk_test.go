package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// diskProofs are of keys of the log directories.
func diskProofs() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"log.dirs":                                      spreads,
		"log.dir":                                       livesInOne,
		"log.dir.failure.timeout.ms":                    givesUpUntold,
		"num.recovery.threads.per.data.dir":             recoversTogether,
		"barnabas.disk.reserve.bytes":                   keepsRoom,
		"producer.id.expiration.ms":                     forgetsProducers,
		"log.flush.offset.checkpoint.interval.ms":       checkpoints("recovery-point-offset-checkpoint", "log.flush.offset.checkpoint.interval.ms"),
		"log.flush.start.offset.checkpoint.interval.ms": checkpoints("log-start-offset-checkpoint", "log.flush.start.offset.checkpoint.interval.ms"),
		"replica.high.watermark.checkpoint.interval.ms": checkpoints("replication-offset-checkpoint", "replica.high.watermark.checkpoint.interval.ms"),
	}
}

func holdsPartitions(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*-[0-9]"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

func spreads(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	startBroker(t, nil, "log.dirs="+a+","+b).createTopic("t", 2)
	if holdsPartitions(t, a) != 1 || holdsPartitions(t, b) != 1 {
		t.Error("two partitions are not in two directories")
	}
}

func livesInOne(t *testing.T) {
	dir := t.TempDir()
	startBroker(t, nil, "log.dir="+dir).createTopic("t", 1)
	if holdsPartitions(t, dir) != 1 {
		t.Error("the partition is not in log.dir")
	}
}

// checkpoints: all but one are written once a day; an end of 3 and a start of 1
// get into the file of that one.
func checkpoints(file, key string) func(*testing.T) {
	return func(t *testing.T) {
		dir := t.TempDir()
		set := []string{"log.dirs=" + dir, "barnabas.durable.acks=false", key + "=50"}
		for _, other := range []string{"log.flush.offset.checkpoint.interval.ms", "log.flush.start.offset.checkpoint.interval.ms", "replica.high.watermark.checkpoint.interval.ms"} {
			if other != key {
				set = append(set, other+"=86400000")
			}
		}
		p := startBroker(t, nil, set...)
		l := p.logUnderTest()
		p.fill(l, 0, 3, 10, time.Now())
		p.until("a high watermark", func() bool { return p.log(l, 0).HighWatermark() == 3 })
		if err := p.log(l, 0).DeleteBefore(1); err != nil {
			t.Fatal(err)
		}
		want := l.name + " 0 3"
		if strings.HasPrefix(file, "log-start") {
			want = l.name + " 0 1"
		}
		p.until(want+" in "+file, func() bool {
			b, err := os.ReadFile(filepath.Join(dir, file))
			return err == nil && strings.Contains(string(b), want)
		})
	}
}

// givesUpUntold: the store takes nothing any more when a directory fails.
func givesUpUntold(t *testing.T) {
	b, err := New(Options{Set: []string{"log.dir.failure.timeout.ms=200"}})
	if err != nil {
		t.Fatal(err)
	}
	if d := b.parts.control.patience; d != 200*time.Millisecond {
		t.Fatalf("%v", d)
	}
	r := startRig(t, metastore.NewMem(), vfs.NewMem(), "one")
	r.store.OnTxn(func(metastore.Txn) metastore.Fault { return metastore.Fault{Kind: metastore.Refused} })
	c := &control{
		keeper: r.keeper, store: r.store, self: rigNode, log: quiet, patience: b.parts.control.patience, dirFailed: make(chan struct{}, 1),
		offline:  func() []kafka.DirID { return []kafka.DirID{r.logs.Dirs()[0].ID} },
		cordoned: func() []kafka.DirID { return nil },
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Run(ctx); err == nil || !strings.Contains(err.Error(), "within 200ms (log.dir.failure.timeout.ms)") {
		t.Errorf("%v", err)
	}
}

// gate lets operations of one kind pass only when many are at it at a time.
type gate struct {
	want  int
	holds func(op vfs.Op) bool

	mu      sync.Mutex
	waiting int
	open    chan struct{}
}

func newGate(want int, holds func(op vfs.Op) bool) *gate {
	return &gate{want: want, holds: holds, open: make(chan struct{})}
}

func (g *gate) before(op vfs.Op) error {
	if !g.holds(op) {
		return nil
	}
	g.mu.Lock()
	g.waiting++
	most := g.waiting
	if most == g.want {
		close(g.open)
	}
	g.mu.Unlock()
	select {
	case <-g.open:
	case <-time.After(patience / 3):
		return fmt.Errorf("only %d are at it at the same time", most)
	}
	return nil
}

func recoversTogether(t *testing.T) {
	g := newGate(5, func(op vfs.Op) bool { return op.Kind == vfs.OpOpen && filepath.Base(op.Name) == "partition.metadata" })
	dir := t.TempDir()
	p := startBroker(t, nil, "log.dirs="+dir)
	p.createTopic("t", int32(g.want))
	p.end()
	startBroker(t, vfs.Wrap(vfs.Real, vfs.Hooks{Before: g.before}), "log.dirs="+dir, fmt.Sprintf("num.recovery.threads.per.data.dir=%d", g.want))
	if g.waiting != g.want {
		t.Errorf("%d logs were opened at the same time, want %d", g.waiting, g.want)
	}
}

// keepsRoom: more is to be kept free than any disk has.
func keepsRoom(t *testing.T) {
	p := startBroker(t, nil, "log.dirs="+t.TempDir(), "barnabas.disk.reserve.bytes=9000000000000000000")
	l := p.logUnderTest()
	p.until("a refusal", func() bool {
		return errors.Is(kerr.ErrorForCode(p.put(l, 0, oneRecord(time.Now(), nil, []byte("v"), batch.Options{})).ErrorCode), kerr.KafkaStorageError)
	})
}

// forgetsProducers: with its state gone, a producer may begin anywhere.
func forgetsProducers(t *testing.T) {
	p := startBroker(t, nil, "log.dirs="+t.TempDir(), "producer.id.expiration.ms=300", "log.flush.offset.checkpoint.interval.ms=50")
	l := p.logUnderTest()
	p.mustPut(l, 0, oneRecord(time.Now(), nil, []byte("v"), batch.Options{Producer: &batch.Producer{ID: 5}}))
	if n := len(p.log(l, 0).Producers()); n != 1 {
		t.Fatalf("%d producers", n)
	}
	p.until("the producer to be forgotten", func() bool { return len(p.log(l, 0).Producers()) == 0 })
}

// opensBatches: a compressed body of nonsense is found out.
func opensBatches(p *process) {
	l := p.logUnderTest()
	b := batch.Batch(oneRecord(time.Now(), nil, noise(300), batch.Options{Encoding: batch.Encoding{Codec: batch.LZ4, Level: 9}}))
	copy(b.Payload()[4:], noise(100))
	setCRC(b)
	if err := kerr.ErrorForCode(p.put(l, 0, b).ErrorCode); err == nil || errors.Is(err, kerr.UnknownServerError) {
		p.t.Errorf("%v", err)
	}
}
