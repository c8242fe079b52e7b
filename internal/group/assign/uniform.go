package assign

import "slices"

// Uniform spreads partitions evenly over the members, and moves few of them.
//
// Where all members subscribe to the same topics, no two of them differ by more
// than one partition and no assignment with that property moves fewer. Otherwise no
// two subscribers of a topic differ by more than one, as long as the one with more has
// a partition of the topic to give: see mixed.go for where that is not the best that there is.
type Uniform struct{}

// Name is "uniform".
func (Uniform) Name() string { return "uniform" }

// Assign assigns.
func (Uniform) Assign(s Spec) Assignment {
	b := newBoard(s)
	if s.Homogeneous {
		b.even()
	} else {
		newMixed(b).run()
	}
	return b.assignment()
}

// even brings every member to the same number of partitions, or one more: it
// takes what is too much, and gives that and what nobody has to those with too few.
func (b *board) even() {
	var free []part
	for t, owner := range b.owner {
		for p, m := range owner {
			if m == none {
				free = append(free, part{int32(t), int32(p)})
			}
		}
	}
	slots := make([]int32, 0, len(free))
	q := b.quotas()
	for m := range b.Members {
		take, more := q.next(b.size[m])
		if take > 0 {
			free = append(free, b.trim(int32(m), b.size[m]-take)...)
		}
		for range more {
			slots = append(slots, int32(m))
		}
	}
	b.place(free, slots)
}

// quotas deals out how many partitions each member shall have, from the first
// to the last: least, or one more for as many as it takes.
type quotas struct {
	least, extra int32
	members      int32 // still to come
}

func (b *board) quotas() quotas {
	var all int32
	for _, owner := range b.owner {
		all += int32(len(owner))
	}
	n := int32(len(b.Members))
	if n == 0 {
		return quotas{}
	}
	return quotas{all / n, all % n, n}
}

// next says for the next member, which has size partitions, how many it must
// give up, or get. One more than the least goes to those who have it already, as
// that moves nothing, and to others when no one else is left to take it.
func (q *quotas) next(size int32) (take, more int32) {
	quota := q.least
	if q.extra > 0 && (size > q.least || q.members <= q.extra) {
		quota++
		q.extra--
	}
	q.members--
	return max(0, size-quota), max(0, quota-size)
}

// trim leaves m as many partitions as keep says, and returns the others.
func (b *board) trim(m, keep int32) (freed []part) {
	for _, h := range b.held[m] {
		partitions := h.partitions
		if n := int32(len(partitions)); n <= keep {
			keep -= n
			continue
		}
		if b.racks {
			partitions = slices.Clone(partitions)
			b.nearFirst(h.topic, m, partitions)
		}
		for _, p := range partitions[keep:] {
			freed = append(freed, part{h.topic, p})
			b.free(part{h.topic, p})
		}
		keep = 0
	}
	return freed
}
