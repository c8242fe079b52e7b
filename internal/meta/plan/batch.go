package plan

import (
	"slices"

	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Change is the next state of one partition, with all that it assumes.
type Change struct {
	Next *meta.Partition
	If   []kv.Cmp // the state's own revision is the first
}

// Batch is one transaction over several partitions.
type Batch struct {
	Txn     kv.Txn
	Changes []Change
	fixed   []kv.Cmp
}

// Batches packs changes into transactions within the engine's limit, in order.
// Each compares fixed too, and reads on failure everything that it compared,
// so that Split can tell which changes were outrun.
func Batches(keys meta.Keys, fixed []kv.Cmp, changes []Change) []Batch {
	var out []Batch
	for start := 0; start < len(changes); {
		seen := map[kv.Cmp]bool{}
		for _, c := range fixed {
			seen[c] = true
		}
		end := start
		for ; end < len(changes) && end-start < kv.MaxOps; end++ {
			var more []kv.Cmp
			for _, c := range changes[end].If {
				if !seen[c] && !slices.Contains(more, c) {
					more = append(more, c)
				}
			}
			if len(seen)+len(more) > kv.MaxOps && end > start {
				break
			}
			for _, c := range more {
				seen[c] = true
			}
		}
		out = append(out, pack(keys, fixed, changes[start:end]))
		start = end
	}
	return out
}

func pack(keys meta.Keys, fixed []kv.Cmp, changes []Change) Batch {
	b := Batch{Changes: changes, fixed: fixed}
	seen := map[kv.Cmp]bool{}
	add := func(cs []kv.Cmp) {
		for _, c := range cs {
			if !seen[c] {
				seen[c] = true
				b.Txn.If = append(b.Txn.If, c)
				b.Txn.Else = append(b.Txn.Else, kv.GetOp(c.Key))
			}
		}
	}
	add(fixed)
	for _, c := range changes {
		add(c.If)
		b.Txn.Then = append(b.Txn.Then, kv.PutOp(keys.State(c.Next.Topic, c.Next.Partition), c.Next.Encode(), 0))
	}
	return b
}

// Split reads the answer of a batch that failed. again are the changes whose
// assumptions all still hold, to be sent once more; stale the partitions to
// plan anew. deposed says that one of the fixed compares failed: nothing of
// the batch may be sent again.
func (b *Batch) Split(keys meta.Keys, res kv.TxnResult) (again []Batch, stale []meta.PartitionID, deposed bool) {
	broken := map[kv.Cmp]bool{}
	for n, c := range b.Txn.If {
		var got kv.KV
		if n < len(res.Gets) && len(res.Gets[n]) == 1 {
			got = res.Gets[n][0]
		}
		broken[c] = !holds(c, got)
	}
	isBroken := func(c kv.Cmp) bool { return broken[c] }
	if slices.ContainsFunc(b.fixed, isBroken) {
		return nil, nil, true
	}
	var keep []Change
	for _, c := range b.Changes {
		if slices.ContainsFunc(c.If, isBroken) {
			stale = append(stale, c.Next.ID())
		} else {
			keep = append(keep, c)
		}
	}
	return Batches(keys, b.fixed, keep), stale, false
}

func holds(c kv.Cmp, got kv.KV) bool {
	switch c.Target {
	case kv.ModRev:
		return got.ModRev == c.Want
	case kv.CreateRev:
		return got.CreateRev == c.Want
	default:
		return got.Version == c.Want
	}
}
