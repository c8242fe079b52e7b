package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/replica"
)

// inSync carries the ISRs that leaders want to the metadata store, those that
// come together in one transaction (safety 7), and has leaders look for members
// that lag.
type inSync struct {
	keeper   *imageKeeper
	store    metastore.Store
	replicas *replica.Manager
	lag      time.Duration // replica.lag.time.max.ms
	log      *slog.Logger

	mu    sync.Mutex
	asked []replica.Proposal
	some  chan struct{} // signal: asked is not empty
}

func newInSync(k *imageKeeper, s metastore.Store, r *replica.Manager, lag time.Duration, log *slog.Logger) *inSync {
	return &inSync{keeper: k, store: s, replicas: r, lag: lag, log: log, some: make(chan struct{}, 1)}
}

// propose takes a proposal; it never blocks.
func (i *inSync) propose(p replica.Proposal) {
	i.mu.Lock()
	i.asked = append(i.asked, p)
	i.mu.Unlock()
	select {
	case i.some <- struct{}{}:
	default:
	}
}

// Run works until ctx ends. What is not carried out by then ends with the
// leader's term.
func (i *inSync) Run(ctx context.Context) error {
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() { i.look(ctx) })
	var asked []replica.Proposal
	for {
		if len(asked) == 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-i.some:
			}
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
		i.mu.Lock()
		asked = append(asked, i.asked...)
		i.asked = nil
		i.mu.Unlock()
		asked = i.carryOut(ctx, asked)
	}
}

// look has leaders look for who lags, also while the metadata store is away: a
// mark that waits for somebody who is gone does not wait for it.
func (i *inSync) look(ctx context.Context) {
	every := time.NewTicker(max(i.lag/2, time.Millisecond))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			for _, p := range i.replicas.All() {
				p.Tick(now)
			}
		}
	}
}

// carryOut sends proposals, and returns those that are to be planned again.
func (i *inSync) carryOut(ctx context.Context, asked []replica.Proposal) (again []replica.Proposal) {
	changed := i.keeper.Changed()
	img := i.keeper.Image()
	var changes []plan.Change
	sent := make(map[meta.PartitionID]replica.Proposal, len(asked))
	early := false
	for _, p := range asked {
		s := img.State(p.Partition)
		switch {
		case s == nil, s.PartitionEpoch > p.Base:
			continue // the image ends it, or has
		case s.PartitionEpoch < p.Base:
			early, again = true, append(again, p) // made of an image that is being published
			continue
		}
		c, err := plan.ChangeISR(img, p.ISRChange)
		switch {
		case errors.Is(err, plan.ErrStale):
			early, again = true, append(again, p)
		case err != nil:
			i.log.Info("in-sync replicas stay as they are", "partition", p.Partition, "cause", err)
			i.withdraw(img, p)
		default:
			changes = append(changes, c)
			sent[p.Partition] = p
		}
	}
	i.send(ctx, img, changes, sent)
	if early && len(changes) == 0 {
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return again
}

// send carries changes out. A proposal whose transaction failed for certain,
// although its partition's state is as it was, never will be: something else
// that it compared has gone for good.
func (i *inSync) send(ctx context.Context, img *meta.Image, changes []plan.Change, of map[meta.PartitionID]replica.Proposal) {
	batches := plan.Batches(img.Keys(), nil, changes)
	for len(batches) > 0 {
		b := batches[0]
		res, err := txn(ctx, i.store, b.Txn)
		if ctx.Err() != nil {
			return // unknown: the leader's term ends with it
		}
		batches = batches[1:]
		if err != nil {
			i.log.Warn("in-sync replicas are not changed", "partitions", len(b.Changes), "err", err)
			if errors.Is(err, metastore.ErrTooLarge) || errors.Is(err, metastore.ErrTooManyOps) {
				for _, c := range b.Changes { // such a one was not carried out before either
					i.withdraw(img, of[c.Next.ID()])
				}
			}
			continue
		}
		if res.Succeeded {
			continue
		}
		more, stale, _ := b.Split(img.Keys(), res)
		batches = append(more, batches...)
		if len(stale) == 0 {
			continue
		}
		if i.keeper.Await(ctx, res.Rev) != nil {
			return
		}
		now := i.keeper.Image()
		for _, id := range stale {
			if s := now.State(id); s != nil && s.PartitionEpoch == of[id].Base {
				i.withdraw(now, of[id])
			}
		}
	}
}

func (i *inSync) withdraw(img *meta.Image, p replica.Proposal) {
	t, _, ok := img.Partition(p.Partition)
	if !ok {
		return
	}
	if part, ok := i.replicas.Get(kafka.TopicPartition{Topic: t.Name, Partition: p.Partition.Partition}); ok && part.TopicID() == t.ID {
		part.Withdraw(p)
	}
}
