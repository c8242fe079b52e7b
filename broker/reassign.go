package broker

import (
	"bytes"
	"context"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// Reassign implements api.Cluster.
func (w *wishes) Reassign(ctx context.Context, rs []plan.Reassignment) []error {
	return w.changePartitions(ctx, len(rs), func(img *meta.Image, n int) (plan.Change, bool, error) {
		return plan.Reassign(img, rs[n])
	})
}

// ElectLeaders implements api.Cluster.
func (w *wishes) ElectLeaders(ctx context.Context, of []kafka.TopicPartition, how plan.Election) []error {
	return w.changePartitions(ctx, len(of), func(img *meta.Image, n int) (plan.Change, bool, error) {
		c, err := plan.ElectLeader(img, of[n].Topic, of[n].Partition, how)
		return c, err == nil, err
	})
}

// wishOf is what becomes of one partition, for all who wish something of it: of
// several the last counts.
type wishOf struct {
	change plan.Change
	by     []int
}

// changePartitions carries out n wishes for partitions, in batches, and tells of
// each how it went. What is outrun is planned again from the image that shows
// by what; a deadline leaves the rest undone, or done without an answer.
func (w *wishes) changePartitions(ctx context.Context, n int, plans func(*meta.Image, int) (plan.Change, bool, error)) []error {
	errs := make([]error, n)
	left := make([]int, n)
	for i := range left {
		left[i] = i
	}
	current := false
	for len(left) > 0 {
		img := w.keeper.Image()
		var order []meta.PartitionID
		wanted := make(map[meta.PartitionID]*wishOf)
		for _, i := range left {
			c, ok, err := plans(img, i)
			if !current && misses(err) {
				if current = true; w.catchUp(ctx) {
					img = w.keeper.Image()
					c, ok, err = plans(img, i)
				}
			}
			if errs[i] = err; err != nil || !ok {
				continue
			}
			id := c.Next.ID()
			if wanted[id] == nil {
				wanted[id] = &wishOf{}
				order = append(order, id)
			}
			wanted[id].change, wanted[id].by = c, append(wanted[id].by, i)
		}
		var changes []plan.Change
		for _, id := range order {
			changes = append(changes, wanted[id].change)
		}
		stale, err := w.sendChanges(ctx, img.Keys(), changes)
		left = left[:0]
		for _, id := range stale {
			if now := w.keeper.Image().State(id); err == nil && now != nil && bytes.Equal(now.Encode(), wanted[id].change.Next.Encode()) {
				continue // it had been written, and the answer was lost
			}
			for _, i := range wanted[id].by {
				errs[i] = err
			}
			left = append(left, wanted[id].by...)
		}
		if err != nil {
			return errs
		}
	}
	return errs
}

// sendChanges sends batches until each was carried out or outrun, and returns
// when this broker's image shows it. stale are to be planned again; with an
// error, they are all of which nothing is known.
func (w *wishes) sendChanges(ctx context.Context, keys meta.Keys, changes []plan.Change) (stale []meta.PartitionID, err error) {
	batches := plan.Batches(keys, nil, changes)
	rev := int64(0)
	for len(batches) > 0 && err == nil {
		b := batches[0]
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		res, failed := txn(ctx, w.store, b.Txn)
		if failed != nil {
			err = failed
			break
		}
		batches = batches[1:]
		rev = max(rev, res.Rev)
		if !res.Succeeded {
			again, outrun, _ := b.Split(keys, res)
			stale, batches = append(stale, outrun...), append(again, batches...)
			continue
		}
		w.log.Info("partitions changed on request", "partitions", len(b.Changes))
	}
	if rev > 0 {
		if failed := w.keeper.Await(ctx, rev); err == nil {
			err = failed
		}
	}
	for _, b := range batches {
		for _, c := range b.Changes {
			stale = append(stale, c.Next.ID())
		}
	}
	return stale, err
}
