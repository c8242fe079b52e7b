package assign

import (
	"bytes"
	"maps"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// none is the owner of a partition that nobody has.
const none int32 = -1

// board is an assignment in the making. Members and topics are their indexes
// in the Spec, so that maps are only read at the start and made at the end.
type board struct {
	Spec
	topicAt map[kafka.TopicID]int32
	owner   [][]int32 // by topic and partition; none
	size    []int32   // partitions by member
	held    [][]holding
	changed []bool // members whose part is not Member.Owned any more
	racks   bool   // some member names a rack, and some rack of a replica is known
}

// holding is what a member had of one topic and may keep.
type holding struct {
	topic      int32
	partitions []int32 // ascending
}

// part is one partition of the board.
type part struct{ topic, partition int32 }

// newBoard begins with what every member owned and still subscribes to.
func newBoard(s Spec) *board {
	b := &board{
		Spec:    s,
		topicAt: make(map[kafka.TopicID]int32, len(s.Topics)),
		owner:   make([][]int32, len(s.Topics)),
		size:    make([]int32, len(s.Members)),
		held:    make([][]holding, len(s.Members)),
		changed: make([]bool, len(s.Members)),
	}
	replicas := false
	for i, t := range s.Topics {
		b.topicAt[t.ID] = int32(i)
		b.owner[i] = slices.Repeat([]int32{none}, int(t.Partitions))
		replicas = replicas || t.Racks != nil
	}
	for i := range s.Members {
		b.racks = b.racks || replicas && s.Members[i].Rack != ""
		b.load(int32(i))
	}
	return b
}

// load takes over what member m owned.
func (b *board) load(m int32) {
	owned := b.Members[m].Owned
	for _, id := range slices.SortedFunc(maps.Keys(owned), compareIDs) {
		t, ok := b.topicAt[id]
		if !ok || !b.subscribes(m, id) {
			b.changed[m] = true
			continue
		}
		kept := b.claim(m, t, owned[id])
		if len(kept) < len(owned[id]) || len(kept) == 0 {
			b.changed[m] = true
		}
		if len(kept) > 0 {
			b.held[m] = append(b.held[m], holding{t, kept})
			b.size[m] += int32(len(kept))
		}
	}
}

// claim makes m the owner of those of the partitions that exist and are free.
func (b *board) claim(m, t int32, partitions []int32) []int32 {
	owner := b.owner[t]
	free := func(p int32) bool { return p >= 0 && int(p) < len(owner) && owner[p] == none }
	for i, p := range partitions {
		if free(p) {
			owner[p] = m
			continue
		}
		kept := slices.Clone(partitions[:i])
		for _, p := range partitions[i+1:] {
			if free(p) {
				owner[p] = m
				kept = append(kept, p)
			}
		}
		return kept
	}
	return partitions
}

func (b *board) subscribes(m int32, id kafka.TopicID) bool {
	if b.Homogeneous {
		return true // to every topic of the board
	}
	_, ok := slices.BinarySearchFunc(b.Members[m].Topics, id, compareIDs)
	return ok
}

func compareIDs(x, y kafka.TopicID) int { return bytes.Compare(x[:], y[:]) }

// give makes m the owner of a partition, whoever has it now.
func (b *board) give(p part, m int32) {
	b.free(p)
	b.owner[p.topic][p.partition] = m
	b.size[m]++
	b.changed[m] = true
}

// free takes a partition from its owner, if it has one.
func (b *board) free(p part) {
	o := &b.owner[p.topic][p.partition]
	if *o == none {
		return
	}
	b.size[*o]--
	b.changed[*o] = true
	*o = none
}

// assignment is the result. The part of a member that lost and gained nothing
// is what it owned, as it is.
func (b *board) assignment() Assignment {
	out := make(Assignment, len(b.Members))
	for m, old := range b.Members {
		if b.changed[m] || old.Owned == nil {
			out[m] = make(map[kafka.TopicID][]int32, len(b.held[m])+1)
		} else {
			out[m] = old.Owned
		}
	}
	for t, owner := range b.owner {
		id := b.Topics[t].ID
		for p, m := range owner {
			if m != none && b.changed[m] {
				out[m][id] = append(out[m][id], int32(p))
			}
		}
	}
	return out
}
