package coord

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// slowDisk is a disk whose syncs can be held back.
func slowDisk() (fs vfs.FS, hold func() (release func())) {
	var gate sync.RWMutex
	fs = vfs.Faulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncAll {
			gate.RLock()
			defer gate.RUnlock()
		}
		return nil
	})
	return fs, func() func() { gate.Lock(); return gate.Unlock }
}

// until waits for the partition's log to end at an offset.
func until(p Partition, end int64) {
	w := replica.NewWaiter()
	rp := p.(*replica.Partition)
	rp.AddWaiter(w)
	defer rp.RemoveWaiter(w)
	for {
		if _, at := p.Bounds(); at >= end {
			return
		}
		<-w.C
	}
}

// With durable acks a reply waits for the disk, within its term: the broker's
// epoch ends while it does, and the next term loads what was written.
func TestRealTerms(t *testing.T) {
	fs, hold := slowDisk()
	b := newBroker(t, true, 1<<20)
	b.open(fs)
	b.create()
	g := b.run(nil)
	p, _ := b.partition(0)
	g.do("first", put("a", "1"), "")

	release := hold()
	parked := g.start(bg, "parked", put("a", "2"))
	until(p, 2)
	read := g.start(bg, "read behind it", get("a"))
	parked.waits()
	b.register()
	parked.fails(kerr.NotCoordinator)
	read.fails(kerr.NotCoordinator)
	g.refused("deposed", get("a"), kerr.NotCoordinator)
	b.settle()
	b.elected(g)
	release()
	<-g.begun
	g.do("read", get("a"), "2")
	g.do("write", put("a", "3"), "2")
	if got := strings.Join(g.toy().records, " "); got != "a=1 a=2 a=3" {
		t.Errorf("records %s", got)
	}

	if err := b.w.DeleteTopic("internal"); err != nil {
		t.Fatal(err)
	}
	b.replicas.Drop(&b.w.Delta)
	g.refused("deleted", get("a"), kerr.NotCoordinator)
	g.r.Resigned(0)
	g.stop()
}

// A transaction's records, and those around them, go to a real log as one append,
// and are told apart when they are loaded.
func TestRealTransactions(t *testing.T) {
	b := newBroker(t, true, 1<<20)
	b.open(vfs.NewMem())
	b.create()
	g := b.run(nil)
	p := Producer{ID: 7, Epoch: 2}
	txn := func(k string, p *Producer) act {
		return func(m *toy, _ time.Time, to Token) Out {
			return Out{Records: []Record{m.emit(k, "1")}, Txn: p, Replies: []Reply{{to, nil}}}
		}
	}
	g.do("none", txn("a", nil), nil)
	g.do("transaction", txn("b", &p), nil)
	g.do("transaction", txn("c", &p), nil)
	g.do("none", txn("d", nil), nil)
	g.stop()

	g = b.run(nil)
	if got := strings.Join(g.toy().records, " "); got != "a=1 b=1 c=1 d=1" {
		t.Errorf("records %s", got)
	}
	if got := strings.Join(g.toy().markers, " "); got != "7/2:b 7/2:c" {
		t.Errorf("transactional: %s", got)
	}
	// An older epoch of the producer is refused by the log: what ran ahead is dropped.
	g.refused("fenced", txn("e", &Producer{ID: 7, Epoch: 1}), kerr.NotCoordinator)
	g.stop()
	g = b.run(nil)
	g.do("not written", get("e"), "")
}
