package assign

import (
	"cmp"
	"slices"
)

// maxRounds bounds the search for balance, as in Apache Kafka: a round about
// halves what is left.
const maxRounds = 16

// mixed assigns where members subscribe to different topics. What nobody has
// goes to the subscribers with the fewest partitions; then, topic by topic and until
// nothing changes, those with the most hand partitions to those with the fewest.
//
// A topic's subscribers are compared with each other alone. So 9, 10 and 11
// partitions may stay where the first topic is read by the first two members and the second
// by the last two, although two moves would make it 10 each. Apache Kafka stops there too.
type mixed struct {
	*board
	subscribers [][]int32 // by topic, ascending
	topics      []int32   // in the order they are dealt with
	before      [][]int32 // owners at the start; nil without racks
	levels      levels
	stock       [][]int32 // by member: its partitions of the topic at hand, the next to go last
}

func newMixed(b *board) *mixed {
	x := &mixed{
		board:       b,
		subscribers: make([][]int32, len(b.Topics)),
		levels:      levels{size: b.size},
		stock:       make([][]int32, len(b.Members)),
	}
	var topics []int32
	for m := range b.Members {
		topics = b.subscription(m, topics[:0])
		for _, t := range topics {
			x.subscribers[t] = append(x.subscribers[t], int32(m))
		}
	}
	for t, subs := range x.subscribers {
		if len(subs) > 0 {
			x.topics = append(x.topics, int32(t))
		}
	}
	slices.SortStableFunc(x.topics, x.compare)
	return x
}

// compare puts topics with many partitions for each subscriber first: they
// leave the least choice. Then those with fewer subscribers.
func (x *mixed) compare(s, t int32) int {
	subsS, subsT := len(x.subscribers[s]), len(x.subscribers[t])
	return cmp.Or(
		cmp.Compare(len(x.owner[t])*subsS, len(x.owner[s])*subsT),
		cmp.Compare(subsS, subsT),
	)
}

func (x *mixed) run() {
	if x.racks {
		for _, owner := range x.owner {
			x.before = append(x.before, slices.Clone(owner))
		}
	}
	for _, t := range x.topics {
		x.deal(t)
	}
	last := -1 // the topic that changed last; after a round without change we are back at it
	for range maxRounds {
		for i, t := range x.topics {
			if i == last {
				return
			}
			if moved := x.level(t); moved || last < 0 {
				last = i
			}
		}
	}
}

// deal gives the partitions of t that nobody has to subscribers with few.
func (x *mixed) deal(t int32) {
	var free []part
	for p, m := range x.owner[t] {
		if m == none {
			free = append(free, part{t, int32(p)})
		}
	}
	if len(free) == 0 {
		return
	}
	x.levels.start(x.subscribers[t])
	slots := make([]int32, 0, len(free))
	for range free {
		slots = append(slots, x.levels.taker())
	}
	x.place(free, slots)
}

// level moves partitions of t from subscribers with many to those with few.
func (x *mixed) level(t int32) (moved bool) {
	subs := x.subscribers[t]
	least, most := x.size[subs[0]], x.size[subs[0]]
	for _, m := range subs {
		least, most = min(least, x.size[m]), max(most, x.size[m])
	}
	if most-least <= 1 {
		return false
	}
	x.fillStock(t)
	l := &x.levels
	l.start(subs)
	for {
		giver := l.giver(func(m int32) bool { return len(x.stock[m]) > 0 })
		if giver == none {
			return moved
		}
		taker := l.taker()
		if l.most-l.least <= 1 {
			return moved
		}
		stock := x.stock[giver]
		x.give(part{t, stock[len(stock)-1]}, taker)
		x.stock[giver] = stock[:len(stock)-1]
		moved = true
	}
}

// fillStock lists every subscriber's partitions of t. The last one goes first:
// with racks, one that moves already, and of those one that is far away.
func (x *mixed) fillStock(t int32) {
	for _, m := range x.subscribers[t] {
		x.stock[m] = x.stock[m][:0]
	}
	for p, m := range x.owner[t] {
		x.stock[m] = append(x.stock[m], int32(p))
	}
	if !x.racks {
		return
	}
	for _, m := range x.subscribers[t] {
		x.nearFirst(t, m, x.stock[m])
		slices.SortStableFunc(x.stock[m], func(p, q int32) int {
			return x.moves(t, p, m) - x.moves(t, q, m)
		})
	}
}

// moves is 1 where m did not own the partition at the start.
func (x *mixed) moves(t, p, m int32) int {
	if x.before[t][p] == m {
		return 0
	}
	return 1
}
