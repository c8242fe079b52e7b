package broker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/barnabas-mq/barnabas/internal/await"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/replica"
)

// imageTerm: an image's revision grows in one term for as long as the process lives.
const imageTerm = 1

// imageKeeper holds this broker's image of the cluster: it takes over what the
// metadata store says, in order, gives the partitions their roles, and then
// publishes. So whoever sees a change in the published image finds it carried
// out on this broker.
type imageKeeper struct {
	self     kafka.NodeID
	startID  string
	replicas *replica.Manager
	log      *slog.Logger

	// carryOut does what an image asks of this broker beside its partitions, before
	// the image is published.
	carryOut func(img *meta.Image)
	// published is told of every image once it is published, in order; set before the first.
	published func(img *meta.Image, d *meta.Delta, resync bool)

	image atomic.Pointer[meta.Image]
	revs  await.Offsets // of the published image
	turn  chan struct{} // held by the one goroutine that may change partitions

	mu      sync.Mutex
	changed chan struct{} // closed with every publication, and replaced
	// What was published since control and the namer last looked.
	deltas  []delta
	unnamed []replica.Assignment
	swept   bool
}

// delta is a published change; resync says that history before it is unknown.
type delta struct {
	img    *meta.Image
	d      meta.Delta
	resync bool
}

func newImageKeeper(self kafka.NodeID, startID string, r *replica.Manager, log *slog.Logger) *imageKeeper {
	k := &imageKeeper{self: self, startID: startID, replicas: r, log: log,
		turn: make(chan struct{}, 1), changed: make(chan struct{})}
	k.begin("")
	k.revs.Begin(imageTerm, 0)
	return k
}

// begin sets which cluster this is; before the first update.
func (k *imageKeeper) begin(clusterID string) { k.image.Store(meta.Empty(clusterID)) }

// Image is the newest published image.
func (k *imageKeeper) Image() *meta.Image { return k.image.Load() }

// Await waits until the published image shows a revision.
func (k *imageKeeper) Await(ctx context.Context, rev int64) error {
	return k.revs.Wait(ctx, imageTerm, rev)
}

// Changed is closed with the next publication.
func (k *imageKeeper) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// Epoch is the epoch of this process's registration in an image; 0 without one.
// A registration under the same id by another start is not ours.
func (k *imageKeeper) Epoch(img *meta.Image) int64 {
	if b, ok := img.Broker(k.self); ok && b.StartID == k.startID {
		return b.Epoch
	}
	return 0
}

// takeTurn waits until nobody else changes partitions.
func (k *imageKeeper) takeTurn(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resettle hands the newest image to everybody as if all settings had changed in it.
func (k *imageKeeper) resettle(ctx context.Context) {
	if k.takeTurn(ctx) != nil {
		return
	}
	defer func() { <-k.turn }()
	img := k.image.Load()
	if img.Revision() == 0 {
		return // the first one is still to come
	}
	d := meta.Delta{ClusterConfig: true}
	k.publish(img, d, false, k.replicas.Apply(ctx, img, &d, k.Epoch(img)))
}

// apply takes over one update of the store; the metadata follower calls it.
func (k *imageKeeper) apply(ctx context.Context, u metastore.Update) error {
	if err := k.takeTurn(ctx); err != nil {
		return err
	}
	defer func() { <-k.turn }()
	old := k.image.Load()
	var img *meta.Image
	var d meta.Delta
	if u.Resync {
		var errs []error
		img, errs = meta.FromListing(old.ClusterID(), u.KVs, u.Rev)
		d = meta.Diff(old, img)
		d.Errors = errs
	} else {
		img, d = old.Apply(kv.Change{Events: u.Events, Rev: u.Rev})
	}
	for _, err := range d.Errors {
		k.log.Error("value in the metadata store cannot be used", "err", err)
	}
	if !k.swept {
		k.swept = true
		if err := k.replicas.Sweep(img); err != nil {
			k.log.Error("logs of no partition could not all be put aside", "err", err)
		}
	}
	unnamed := k.replicas.Apply(ctx, img, &d, k.Epoch(img))
	k.publish(img, d, u.Resync, unnamed)
	k.replicas.Drop(&d)
	return nil
}

func (k *imageKeeper) publish(img *meta.Image, d meta.Delta, resync bool, unnamed []replica.Assignment) {
	if k.carryOut != nil {
		k.carryOut(img)
	}
	k.mu.Lock()
	k.image.Store(img)
	if !d.Empty() || resync {
		k.deltas = append(k.deltas, delta{img, d, resync})
	}
	k.unnamed = append(k.unnamed, unnamed...)
	close(k.changed)
	k.changed = make(chan struct{})
	k.mu.Unlock()
	k.revs.Advance(img.Revision()).Run()
	if k.published != nil {
		k.published(img, &d, resync)
	}
}

// moved notes that a log is in another directory now.
func (k *imageKeeper) moved(a replica.Assignment) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unnamed = append(k.unnamed, a)
}

// take hands out what was published since the last call, and the channel that
// the next publication closes.
func (k *imageKeeper) take() ([]delta, []replica.Assignment, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ds, as := k.deltas, k.unnamed
	k.deltas, k.unnamed = nil, nil
	return ds, as, k.changed
}
