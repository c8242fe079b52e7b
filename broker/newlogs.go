package broker

import (
	"context"
	"time"

	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/replica"
)

// remakeEvery is when partitions are tried again that could not be made.
const remakeEvery = 2 * time.Second

// makeLogs makes, until ctx ends, the logs that are too many for the one who
// follows the metadata to make, in batches, and tries again what could not be
// made: for a full disk, say, that has room by now.
func (k *imageKeeper) makeLogs(ctx context.Context) error {
	retry := time.NewTimer(remakeEvery)
	defer retry.Stop()
	armed, again := false, false
	for ctx.Err() == nil {
		changed := k.Changed()
		made, unmade := k.makeSome(ctx, again)
		if again {
			armed, again = false, false
		}
		if made {
			continue // there may be more
		}
		if unmade && !armed { // else nothing is to wake this process
			retry.Reset(remakeEvery)
		}
		if armed = unmade; !armed {
			retry.Stop()
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-retry.C:
			again = true
		}
	}
	return nil
}

// makeSome makes a batch, and while it does nobody waits for it. With again, it
// tries what could not be made before. It reports whether there was a batch, and
// whether something could not be made.
func (k *imageKeeper) makeSome(ctx context.Context, again bool) (made, unmade bool) {
	batch, unmade := k.nextLogs(ctx, again)
	if len(batch) == 0 {
		return false, unmade
	}
	k.replicas.Make(ctx, batch)
	if k.takeTurn(ctx) != nil {
		return false, true
	}
	defer func() { <-k.turn }()
	img := k.image.Load()
	k.publish(img, meta.Delta{}, false, k.replicas.Finish(ctx, img, batch, k.Epoch(img)))
	return true, k.replicas.Unmade() > 0
}

// nextLogs is the batch to be made next. Where there is none, what can be made at
// once is tried again.
func (k *imageKeeper) nextLogs(ctx context.Context, again bool) (batch []*replica.Making, unmade bool) {
	if k.takeTurn(ctx) != nil {
		return nil, true
	}
	defer func() { <-k.turn }()
	img := k.image.Load()
	if batch = k.replicas.Next(img, again); len(batch) > 0 {
		return batch, true
	}
	if again && k.replicas.Unmade() > 0 {
		k.publish(img, meta.Delta{}, false, k.replicas.Apply(ctx, img, &meta.Delta{}, k.Epoch(img)))
	}
	return nil, k.replicas.Unmade() > 0
}
