package broker

import (
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A replica that is not durable and lost records with the power leads again
// where it is the only one, and is not doubted for longer than until the metadata
// has heard of it (safety 11). Of several, the simulation tells.
func TestDoubtfulAndAlone(t *testing.T) {
	disk, store := vfs.NewMem(), metastore.NewMem()
	set := []string{"log.dirs=/data", "barnabas.durable.acks=false"}
	p := startWith(t, Options{files: disk, store: store, Set: set})
	l := p.logUnderTest()
	put := func() { p.mustPut(l, 0, oneRecord(time.Now(), nil, []byte("v"), batch.Options{})) }
	put()
	put() // which nothing syncs
	if log := p.log(l, 0); log.FlushedEnd() != 1 || log.Counted() != 2 {
		t.Fatalf("%d flushed, %d counted", log.FlushedEnd(), log.Counted())
	}
	left := disk.CrashClone(nil, vfs.CrashOptions{}) // nothing but what was synced
	p.end()

	p = startWith(t, Options{files: left, store: store, Set: set})
	log := p.log(l, 0)
	if log.End() != 1 || log.Doubtful() {
		t.Errorf("log end %d, doubtful %t", log.End(), log.Doubtful())
	}
	put()
	put()
	if log.FlushedEnd() != 2 || log.Counted() != 3 {
		t.Errorf("%d flushed, %d counted", log.FlushedEnd(), log.Counted())
	}
}
