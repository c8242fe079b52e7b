package assign

import "slices"

// levels names, among some members, those with the fewest and the most
// partitions, one after the other, as if each named one then got or gave one:
//
//	partitions            #   most: its members give, from the right, and when
//	          |         ###   all did, those of the next lower number join them
//	          |    ########
//	          | ###########   least: its members take, from the left, and when
//	          | ###########   all did, those of the next higher number join them
//	          +------------
//	             members, by size
//
// Members without a partition to give are put aside, to the right of the rest.
type levels struct {
	size    []int32 // of every member, as it is now
	members []int32 // by size, then by index

	least, taking, takers int32 // takers: the end of those that are on the lower level
	most, giving          int32
	givers, aside         int32 // those on the upper level begin and end here
	keys                  []int64
}

// start begins anew, with at least one member.
func (l *levels) start(members []int32) {
	l.keys = l.keys[:0]
	for _, m := range members {
		l.keys = append(l.keys, int64(l.size[m])<<32|int64(m))
	}
	slices.Sort(l.keys)
	l.members = l.members[:0]
	for _, k := range l.keys {
		l.members = append(l.members, int32(k))
	}
	n := int32(len(l.members))
	l.least, l.taking, l.takers = l.size[l.members[0]]-1, 0, 0
	l.most, l.giving = l.size[l.members[n-1]]+1, n-1
	l.givers, l.aside = n, n
}

// taker is the next to get a partition.
func (l *levels) taker() int32 {
	if l.taking >= l.takers {
		l.least++
		for l.takers < int32(len(l.members)) && l.sizeAt(l.takers) == l.least {
			l.takers++
		}
		l.taking = 0
	}
	m := l.members[l.taking]
	l.taking++
	return m
}

// giver is the next to give a partition that can; none if nobody can.
func (l *levels) giver(can func(m int32) bool) int32 {
	for {
		if l.giving < l.givers {
			l.descend()
		}
		if l.giving < 0 {
			return none
		}
		m := l.members[l.giving]
		if can(m) {
			l.giving--
			return m
		}
		l.aside--
		l.members[l.giving], l.members[l.aside] = l.members[l.aside], m
		l.giving--
	}
}

// descend goes to the next level of givers. Where all of the last one stand
// aside, that is the size of the next member down; else one lower.
func (l *levels) descend() {
	l.most--
	if l.aside <= l.givers && l.givers > 0 {
		l.most = l.sizeAt(l.givers - 1)
	}
	for l.givers > 0 && l.sizeAt(l.givers-1) == l.most {
		l.givers--
	}
	l.giving = l.aside - 1
}

func (l *levels) sizeAt(i int32) int32 { return l.size[l.members[i]] }
