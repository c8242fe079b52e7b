package check

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// A registerKey names what a group commits.
type registerKey struct {
	group string
	tp    kafka.TopicPartition
}

func (k registerKey) compare(o registerKey) int {
	return cmp.Or(cmp.Compare(k.group, o.group), cmp.Compare(k.tp.Topic, o.tp.Topic), cmp.Compare(k.tp.Partition, o.tp.Partition))
}

// A commit is a value that a group's offset took, or may have taken.
type commit struct {
	obs        uint32
	begin, end int64
	value      int64
	place      spot
	sure       bool // acknowledged
	txn        bool
}

// A fetched is an offset that a client was told, n times.
type fetched struct {
	commit
	n int
}

// recentCommits bounds what a register keeps of acknowledged commits.
const recentCommits = 256

// A register is a group's offset in a partition.
type register struct {
	recent  []commit         // acknowledged, in the order of ends; the last ones
	dropped map[uint32]int64 // by observer, the end of the last one that is not kept
	maybes  map[int64]commit // by value, the one that began first
	waiting []fetched        // not explained by any commit so far; of one observer and value, the first
	aborted []*txnOffset
	last    fetched // of the final fetches
}

func (j *Judge) register(k registerKey) *register {
	r := j.registers[k]
	if r == nil {
		r = &register{dropped: map[uint32]int64{}, maybes: map[int64]commit{}}
		j.registers[k] = r
	}
	return r
}

func (j *Judge) commit(e *Event) {
	if e.Out == Failed {
		return
	}
	j.counts.Commits++
	k := registerKey{e.Group, e.tp()}
	c := commit{obs: j.word(e.Observer), begin: e.Begin, end: e.End, value: e.Offset, place: j.here, sure: e.Out == OK, txn: e.Txn != ""}
	if e.Txn != "" {
		t := j.txnOf(e.Txn)
		o := &txnOffset{commit: c, key: k, maybe: e.Out != OK}
		t.offsets = append(t.offsets, o)
		if t.ended {
			j.settle(t, o)
		}
		return
	}
	j.register(k).add(c)
}

// add takes a commit, and explains by it what was fetched while it ran.
func (r *register) add(c commit) {
	if c.sure {
		if len(r.recent) >= recentCommits {
			old := r.recent[:recentCommits/2]
			for _, o := range old {
				r.dropped[o.obs] = max(r.dropped[o.obs], o.end)
			}
			r.recent = append(r.recent[:0], r.recent[len(old):]...)
		}
		r.recent = append(r.recent, c)
	} else if m, ok := r.maybes[c.value]; !ok || m.obs == c.obs && c.begin < m.begin {
		r.maybes[c.value] = c
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(f fetched) bool {
		return f.value == c.value && !(f.obs == c.obs && c.begin > f.end)
	})
}

func (j *Judge) fetch(e *Event) {
	if e.Out != OK {
		return
	}
	j.counts.Fetches++
	r := j.register(registerKey{e.Group, e.tp()})
	f := fetched{commit{obs: j.word(e.Observer), begin: e.Begin, end: e.End, value: e.Offset, place: j.here}, 1}
	if e.Final {
		r.last = f
	}
	if j.o.Stale && !e.Final {
		f.begin = math.MinInt64 // as if it had begun long ago
	}
	if r.explains(f) {
		return
	}
	for i := range r.waiting {
		if w := &r.waiting[i]; w.obs == f.obs && w.value == f.value {
			w.n++
			return
		}
	}
	r.waiting = append(r.waiting, f)
}

// explains tells whether f may be told, by what is known so far.
func (r *register) explains(f fetched) bool {
	if m, ok := r.maybes[f.value]; ok && !(m.obs == f.obs && m.begin > f.end) {
		return true
	}
	newest, found := r.newest(f)
	if f.value < 0 && !found {
		return true
	}
	if end, ok := r.dropped[f.obs]; ok && f.begin <= end {
		return true // too long ago to say
	}
	for _, c := range slices.Backward(r.recent) {
		if c.value != f.value {
			continue
		}
		if c.obs != f.obs || !found || c.begin <= f.end && c.end >= newest.begin {
			return true
		}
	}
	return len(r.dropped) > 0 && r.otherObserver(f.obs)
}

// newest is, of the commits that were acknowledged before f began, the one that
// began last: whatever ended before that is overwritten.
func (r *register) newest(f fetched) (c commit, found bool) {
	for _, o := range r.recent {
		if o.obs == f.obs && o.end < f.begin && (!found || o.begin > c.begin) {
			c, found = o, true
		}
	}
	return c, found
}

// otherObserver tells whether commits of someone else are no longer kept: their
// values are not known any more, and nothing says that they are overwritten.
func (r *register) otherObserver(obs uint32) bool {
	_, own := r.dropped[obs]
	return len(r.dropped) > 1 || !own
}

// mayBe tells whether f is the offset o of a transaction, or of a commit that
// may have come after it.
func (r *register) mayBe(f fetched, o *txnOffset) bool {
	if f.value == o.value {
		return true
	}
	if _, ok := r.maybes[f.value]; ok {
		return true
	}
	return slices.ContainsFunc(r.recent, func(c commit) bool {
		return c.value == f.value && (c.obs != o.obs || c.end > o.begin)
	})
}

// committed judges what no commit explains, once all are known.
func (j *Judge) committed() {
	for _, k := range slices.SortedFunc(maps.Keys(j.registers), registerKey.compare) {
		r := j.registers[k]
		for _, f := range r.waiting {
			j.unexplained(k, r, f)
		}
	}
}

func (j *Judge) unexplained(k registerKey, r *register, f fetched) {
	for _, o := range r.aborted {
		if o.value == f.value {
			j.note(TornOffsets, []spot{o.place, f.place}, "group %s in %v: at offset %d, which only an aborted transaction committed", k.group, k.tp, f.value)
			return
		}
	}
	c, found := r.newest(f)
	switch {
	case found && c.txn:
		j.note(TornOffsets, []spot{c.place, f.place}, "group %s in %v: at offset %d, and a transaction that is committed had put it at %d before", k.group, k.tp, f.value, c.value)
	case found && f.value < 0:
		j.note(CommittedBack, []spot{c.place, f.place}, "group %s in %v: has no offset, and %d was acknowledged before", k.group, k.tp, c.value)
	case found:
		j.note(CommittedBack, []spot{c.place, f.place}, "group %s in %v: at offset %d, and %d was acknowledged before", k.group, k.tp, f.value, c.value)
	default:
		j.note(CommittedBack, []spot{f.place}, "group %s in %v: at offset %d, which nobody committed", k.group, k.tp, f.value)
	}
}
