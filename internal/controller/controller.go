// Package controller says what the elected controller has to do: it is a pure
// function from an image to transactions. Any goroutine may call it.
//
// It is level-triggered (safety 27): whatever happened, and whichever steps a
// predecessor left half done, the same image asks for the same transactions,
// and an image in which all is well asks for none. So a transaction that was
// lost, refused or applied without an answer needs no memory: the next image
// tells. Every transaction compares that the controller still is the one that
// was elected, so a deposed one can change nothing (safety 28).
//
// # Duties of the caller
//
// After an election, and after a listing replaced a broken watch, Step with a
// nil Delta looks at every partition; afterwards each image is stepped with
// its Delta, and the index of the image finds the partitions that a broker's
// coming or going concerns. Transactions are sent in order; none waits for the
// image that shows its predecessors. A batch that failed is given to
// Batch.Split: what comes back is sent again at once, and what is stale goes
// into Again of the next Step. After an unknown outcome, Again names the whole
// batch.
package controller

import (
	"slices"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// TombstoneAge is how long the tombstone of a topic is kept: a broker that was
// away for longer sets what it cannot explain aside instead of deleting it
// (safety 15).
const TombstoneAge = 7 * 24 * time.Hour

// Input of a step.
type Input struct {
	Image *meta.Image
	// ElectedAt is the create revision of the controller's key that this
	// controller wrote.
	ElectedAt int64
	// Delta is what changed since the image of the last step; nil: look at all.
	Delta *meta.Delta
	// Again are partitions to look at whether or not Delta names them.
	Again []meta.PartitionID
	// Unclean says of a topic whether a replica that may lack records is to lead
	// when no other can (unclean.leader.election.enable); nil: none.
	Unclean func(topic string) bool
	// Rebalance moves leadership back to preferred leaders.
	Rebalance bool
	// Grow are topics that get more replicas as brokers come.
	Grow []Grown
	// Sweep collects what dead creators left and tombstones that are old at Now.
	Sweep bool
	Now   time.Time
}

// Grown is a topic that is to have so many replicas of each partition, as soon as
// there are brokers for them.
type Grown struct {
	Topic  string
	Factor int
}

// Output of a step.
type Output struct {
	// Batches change partitions.
	Batches []plan.Batch
	// Sweeps collect leftovers. One that fails is left to the next sweep.
	Sweeps []kv.Txn
	// Deposed: another controller was elected, or this one's place is gone.
	Deposed bool
}

// Step says what there is to do.
func Step(in Input) Output {
	_, elected := in.Image.Controller()
	if elected != in.ElectedAt {
		return Output{Deposed: in.Image.Revision() >= in.ElectedAt}
	}
	keys := in.Image.Keys()
	fixed := []kv.Cmp{kv.CreatedAt(keys.Controller(), in.ElectedAt)}
	var changes []plan.Change
	for _, id := range scope(in) {
		t, p, ok := in.Image.Partition(id)
		if !ok {
			continue
		}
		how := plan.Online
		switch {
		case in.Rebalance:
			how = plan.Preferred
		case in.Unclean != nil && in.Unclean(t.Name):
			how = plan.Unclean
		}
		if c, ok := plan.Settle(in.Image, t, p, how); ok {
			changes = append(changes, c)
		}
	}
	changes = append(changes, grow(in, changes)...)
	out := Output{Batches: plan.Batches(keys, fixed, changes)}
	if in.Sweep {
		out.Sweeps = sweep(in.Image, fixed, in.Now)
	}
	return out
}

// grow gives topics the replicas that they lack. What changes in this step
// anyhow is looked at when that is seen.
func grow(in Input, changes []plan.Change) []plan.Change {
	d := in.Delta
	if d != nil && len(d.BrokersUp)+len(d.BrokersChanged)+len(d.Partitions)+len(in.Again) == 0 {
		return nil
	}
	var out []plan.Change
	for _, g := range in.Grow {
		for _, c := range plan.Raise(in.Image, g.Topic, g.Factor) {
			if !slices.ContainsFunc(changes, func(o plan.Change) bool { return o.Next.ID() == c.Next.ID() }) {
				out = append(out, c)
			}
		}
	}
	return out
}

// scope names the partitions to look at, each once: all of them by topic name,
// or those concerned by topic id.
func scope(in Input) []meta.PartitionID {
	var out []meta.PartitionID
	if in.Delta == nil || in.Rebalance || in.Delta.ClusterConfig {
		for t := range in.Image.Topics() {
			for _, p := range t.Partitions {
				out = append(out, p.ID())
			}
		}
		return out
	}
	var nodes []kafka.NodeID
	for _, b := range slices.Concat(in.Delta.BrokersUp, in.Delta.BrokersDown) {
		nodes = append(nodes, b.ID)
	}
	for _, b := range in.Delta.BrokersChanged {
		nodes = append(nodes, b.New.ID)
	}
	slices.Sort(nodes)
	for _, n := range slices.Compact(nodes) {
		for p := range in.Image.PartitionsNaming(n) {
			out = append(out, p.ID())
		}
	}
	for _, c := range in.Delta.Partitions {
		if c.New != nil {
			out = append(out, c.New.ID())
		}
	}
	for _, name := range in.Delta.TopicConfigs {
		if t, ok := in.Image.Topic(name); ok {
			for _, p := range t.Partitions {
				out = append(out, p.ID())
			}
		}
	}
	out = append(out, in.Again...)
	slices.SortFunc(out, meta.PartitionID.Compare)
	return slices.Compact(out)
}
