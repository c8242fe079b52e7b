package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/barnabas-mq/barnabas/internal/controller"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/replica"
)

const (
	// controlRetry is when a step is tried again that could not be carried out.
	controlRetry = 500 * time.Millisecond
	// sweepEvery is how often leftovers of dead creators and old tombstones are looked for.
	sweepEvery = 5 * time.Minute
)

// control does what this broker owes the metadata whenever an image is
// published: it names the directories of its new logs, campaigns for the
// controller's place when nobody holds it, and while it holds it, does the
// controller's work. One goroutine; every step is planned from an image and
// states what it assumed.
type control struct {
	keeper    *imageKeeper
	store     metastore.Store
	self      kafka.NodeID
	unclean   func(img *meta.Image, topic string) bool // unclean.leader.election.enable; nil: never
	rebalance time.Duration                            // between moves to preferred leaders; 0: never
	grow      []controller.Grown
	offline   func() []kafka.DirID
	cordoned  func() []kafka.DirID
	dirFailed chan struct{} // buffered: offline tells more than the registration
	patience  time.Duration // log.dir.failure.timeout.ms
	log       *slog.Logger

	electedAt int64 // create revision of the place that was worked from last
	again     []meta.PartitionID
	unnamed   []replica.Assignment
	sweepAt   time.Time
	balanceAt time.Time
	untold    time.Time // since when the registration lacks a directory that is offline
}

// Run works until ctx ends, or a log directory went offline and nobody could be
// told: what only it holds would keep this broker as its leader for ever.
func (c *control) Run(ctx context.Context) error {
	retry := time.NewTimer(sweepEvery)
	defer retry.Stop()
	for {
		deltas, unnamed, changed := c.keeper.take()
		c.unnamed = append(c.unnamed, unnamed...)
		wait := c.step(ctx, deltas)
		if !c.untold.IsZero() && time.Since(c.untold) >= c.patience && ctx.Err() == nil {
			return fmt.Errorf("a log directory is offline, and the metadata store could not be told within %v (log.dir.failure.timeout.ms)", c.patience)
		}
		retry.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-c.dirFailed:
		case <-retry.C:
		}
	}
}

// dirsChanged has control look at the log directories; it never blocks.
func (c *control) dirsChanged() {
	select {
	case c.dirFailed <- struct{}{}:
	default:
	}
}

// step does what the newest image asks for, and says when to look again if
// nothing is published until then.
func (c *control) step(ctx context.Context, deltas []delta) time.Duration {
	img := c.keeper.Image()
	epoch := c.keeper.Epoch(img)
	if epoch == 0 {
		c.electedAt = 0
		return sweepEvery
	}
	ok := c.nameOffline(ctx, img, epoch)
	ok = c.nameCordoned(ctx, img, epoch) && ok
	ok = c.nameDirs(ctx, img, epoch) && ok
	holder, held := img.ControllerHolder()
	if self, ok := img.Broker(c.self); ok && self.Leaving && !held {
		return sweepEvery // the place is for those who stay
	}
	if !held || holder.Node != c.self || holder.BrokerEpoch != epoch {
		c.electedAt = 0
		ok = c.campaign(ctx, img, epoch) && ok
	} else {
		ok = c.lead(ctx, img, holder.CreateRev, deltas) && ok
	}
	switch {
	case !ok:
		return controlRetry
	case c.electedAt != 0 && c.rebalance > 0:
		return min(sweepEvery, max(time.Until(c.balanceAt), 0))
	}
	return sweepEvery
}

// nameOffline writes into the registration which log directories went offline:
// the controller then finds other leaders for what they hold, or none (safety 4).
func (c *control) nameOffline(ctx context.Context, img *meta.Image, epoch int64) bool {
	dirs := c.offline()
	self, ok := img.Broker(c.self)
	if !ok || !slices.ContainsFunc(dirs, func(d kafka.DirID) bool { return !slices.Contains(self.Offline, d) }) {
		c.untold = time.Time{}
		return true
	}
	if c.untold.IsZero() {
		c.untold = time.Now()
	}
	t, err := plan.SetOffline(img, c.self, epoch, dirs)
	if err != nil {
		return false // registered anew meanwhile: the next image tells
	}
	res, err := c.store.Txn(ctx, t)
	if err != nil {
		c.log.Warn("offline log directories are not registered yet", "err", err)
		return false
	}
	if res.Succeeded {
		c.untold = time.Time{}
	}
	return res.Succeeded
}

// nameCordoned writes into the registration which log directories take no new
// replicas, when that was changed.
func (c *control) nameCordoned(ctx context.Context, img *meta.Image, epoch int64) bool {
	dirs := c.cordoned()
	self, ok := img.Broker(c.self)
	if !ok || slices.Equal(dirs, self.Cordoned) {
		return true
	}
	t, err := plan.SetCordoned(img, c.self, epoch, dirs)
	if err != nil {
		return false // registered anew meanwhile: the next image tells
	}
	res, err := c.store.Txn(ctx, t)
	if err != nil {
		c.log.Warn("cordoned log directories are not registered yet", "err", err)
		return false
	}
	return res.Succeeded
}

// nameDirs writes into the partitions' states which directory holds each new
// log, and each that moved, and that none holds what is lost for good.
func (c *control) nameDirs(ctx context.Context, img *meta.Image, epoch int64) bool {
	if len(c.unnamed) == 0 {
		return true
	}
	as, moves, lost := c.named(img)
	batches, err := plan.AssignDirs(img, c.self, epoch, as)
	moved, merr := plan.MoveDirs(img, c.self, epoch, moves)
	given, lerr := plan.GiveUp(img, c.self, epoch, lost)
	if err = errors.Join(err, merr, lerr); err != nil {
		c.log.Warn("directories of logs are not named yet", "err", err)
		return false
	}
	again, ended, done := c.send(ctx, img.Keys(), slices.Concat(batches, moved, given))
	if ended {
		return false // this registration is gone: all is named under the next one
	}
	outrun := make(map[meta.PartitionID]bool, len(again))
	for _, id := range again {
		outrun[id] = true
	}
	c.unnamed = slices.DeleteFunc(c.unnamed, func(a replica.Assignment) bool { return !outrun[a.Partition] })
	return done
}

// named sorts what is to be named: of a partition the last word counts. A log
// that moved before its first directory was named is named where it is.
func (c *control) named(img *meta.Image) (as []plan.Assignment, moves []plan.DirMove, lost []plan.Waiver) {
	seen := map[meta.PartitionID]bool{}
	for _, a := range slices.Backward(c.unnamed) {
		if seen[a.Partition] {
			continue
		}
		seen[a.Partition] = true
		if a.Dir == kafka.DirUnassigned {
			lost = append(lost, plan.Waiver{Partition: a.Partition, Dir: a.From})
			continue
		}
		none := a.From == kafka.DirUnassigned
		if _, p, ok := img.Partition(a.Partition); ok && !none {
			r, _ := p.Replica(c.self)
			none = r.Dir == kafka.DirUnassigned
		}
		if none {
			as = append(as, plan.Assignment{Partition: a.Partition, Dir: a.Dir})
		} else {
			moves = append(moves, plan.DirMove{Partition: a.Partition, From: a.From, To: a.Dir})
		}
	}
	return as, moves, lost
}

// campaign takes the controller's place when it is free.
func (c *control) campaign(ctx context.Context, img *meta.Image, epoch int64) bool {
	txns, err := plan.Campaign(img, c.self, epoch)
	if err != nil {
		return false
	}
	for _, t := range txns {
		res, err := c.store.Txn(ctx, t)
		if err != nil {
			c.log.Warn("campaign for the controller's place", "err", err)
			return false
		}
		if !res.Succeeded {
			return true // somebody else was faster: the next image tells
		}
	}
	return true
}

// lead does the controller's work on what was published.
func (c *control) lead(ctx context.Context, img *meta.Image, electedAt int64, deltas []delta) bool {
	now := time.Now()
	full := c.electedAt != electedAt
	if full {
		c.log.Info("this broker is the controller", "epoch", img.ControllerEpoch())
		c.electedAt, c.again = electedAt, nil
		c.balanceAt = now.Add(c.rebalance)
	}
	in := controller.Input{Image: img, ElectedAt: electedAt, Again: c.again, Grow: c.grow, Now: now}
	in.Unclean = func(topic string) bool { return c.unclean != nil && c.unclean(img, topic) }
	if in.Sweep = full || !now.Before(c.sweepAt); in.Sweep {
		c.sweepAt = now.Add(sweepEvery)
	}
	if in.Rebalance = c.rebalance > 0 && !now.Before(c.balanceAt); in.Rebalance {
		c.balanceAt = now.Add(c.rebalance)
	}
	for _, d := range deltas {
		full = full || d.resync
	}
	if !full {
		in.Delta = merge(deltas)
	}
	out := controller.Step(in)
	if out.Deposed {
		return true
	}
	again, deposed, done := c.send(ctx, img.Keys(), out.Batches)
	c.again = again
	if deposed {
		return true
	}
	if len(out.Sweeps) > 0 {
		c.sweepAt = now // the next image may show more: what is only a leftover without the rest
	}
	for _, t := range out.Sweeps {
		if _, err := c.store.Txn(ctx, t); err != nil {
			return false
		}
	}
	return done
}

// merge joins changes into one, for its scope: the image decides the rest.
func merge(deltas []delta) *meta.Delta {
	var m meta.Delta
	for _, d := range deltas {
		m.BrokersUp = append(m.BrokersUp, d.d.BrokersUp...)
		m.BrokersDown = append(m.BrokersDown, d.d.BrokersDown...)
		m.BrokersChanged = append(m.BrokersChanged, d.d.BrokersChanged...)
		m.Partitions = append(m.Partitions, d.d.Partitions...)
		m.TopicConfigs = append(m.TopicConfigs, d.d.TopicConfigs...)
		m.ClusterConfig = m.ClusterConfig || d.d.ClusterConfig
	}
	return &m
}

// send carries batches out in order. again are the partitions to plan anew;
// done is false when the store did not answer and a retry is due.
func (c *control) send(ctx context.Context, keys meta.Keys, batches []plan.Batch) (again []meta.PartitionID, deposed, done bool) {
	done = true
	for len(batches) > 0 {
		b := batches[0]
		batches = batches[1:]
		res, err := c.store.Txn(ctx, b.Txn)
		if err != nil {
			if ctx.Err() == nil { // at a stop the next controller carries them out
				c.log.Warn("change of partitions", "partitions", len(b.Changes), "err", err)
			}
			for _, ch := range b.Changes {
				again = append(again, ch.Next.ID())
			}
			done = false
			continue
		}
		if res.Succeeded {
			continue
		}
		more, stale, out := b.Split(keys, res)
		if out {
			return nil, true, true
		}
		again = append(again, stale...)
		done = done && len(stale) == 0
		batches = append(more, batches...)
	}
	return again, false, done
}

// txn carries out a transaction that may be sent twice without harm, and again
// for as long as its outcome is unknown.
func txn(ctx context.Context, store metastore.Store, t kv.Txn) (kv.TxnResult, error) {
	return retried(ctx, func() (kv.TxnResult, error) { return store.Txn(ctx, t) })
}

// retried asks the store again while it is away.
func retried[R any](ctx context.Context, ask func() (R, error)) (R, error) {
	var none R
	for {
		res, err := ask()
		if err == nil {
			return res, nil
		}
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		if !errors.Is(err, metastore.ErrMaybe) && !errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, metastore.ErrStopped) {
			return none, err
		}
		select {
		case <-ctx.Done():
			return none, context.Cause(ctx)
		case <-time.After(controlRetry / 10):
		}
	}
}
