package assign

import "slices"

// place gives the parts to the members of slots, as many of the one as of the
// other. Racks decide who gets which, never how many.
func (b *board) place(parts []part, slots []int32) {
	if b.racks {
		parts = b.match(parts, slots)
	}
	for i, p := range parts {
		b.give(p, slots[i])
	}
}

// match puts the parts into an order in which a slot, from first to last, has
// a part with a replica in its member's rack while there is one, and all others have
// what is left, in the order that it was in.
func (b *board) match(parts []part, slots []int32) []part {
	near := map[string][]int{} // by rack, indexes of parts
	for i, p := range parts {
		for _, rack := range b.racksOf(p) {
			near[rack] = append(near[rack], i)
		}
	}
	taken := make([]bool, len(parts))
	from := make([]int, len(slots)) // index of a part, or -1
	for i, m := range slots {
		rack := b.Members[m].Rack
		left := near[rack]
		for len(left) > 0 && taken[left[0]] {
			left = left[1:]
		}
		from[i] = -1
		if len(left) > 0 {
			from[i] = left[0]
			taken[left[0]] = true
			left = left[1:]
		}
		near[rack] = left
	}
	out := make([]part, 0, len(slots))
	next := 0
	for _, i := range from {
		if i < 0 {
			for taken[next] {
				next++
			}
			i = next
			next++
		}
		out = append(out, parts[i])
	}
	return out
}

// racksOf are the racks that hold a replica of the partition.
func (b *board) racksOf(p part) []string {
	racks := b.Topics[p.topic].Racks
	if int(p.partition) >= len(racks) {
		return nil
	}
	return racks[p.partition]
}

// near says whether a replica of the partition is in the member's rack.
func (b *board) near(p part, m int32) bool {
	rack := b.Members[m].Rack
	return rack != "" && slices.Contains(b.racksOf(p), rack)
}

// nearFirst orders m's partitions of a topic so that those which it should
// rather keep come first. It keeps the order among equals.
func (b *board) nearFirst(t, m int32, partitions []int32) {
	rank := func(p int32) int {
		if b.near(part{t, p}, m) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(partitions, func(x, y int32) int { return rank(x) - rank(y) })
}
