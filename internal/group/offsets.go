package group

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// offsets are the committed offsets of one group. A shard may have a million:
// an offset takes 32 bytes without a pointer, the few that have metadata, an
// expiry of their own or the id of another topic of the name take more.
type offsets struct {
	few  []slot              // by place, up to fewMax; then
	many map[uint64]packed   // by place
	more map[uint64]moreOf   // of those that say so
	open map[uint64]*openTxn // places with offsets that are pending in transactions

	firstMs int64 // before this wall time none expires by its age; 0: there is none
	alarmMs int64 // soft: wall time that the timer is set for; 0: it is not
}

// A place is a partition: the topic's number in the shard, then the
// partition's, so that the places of a topic go together.
func place(t *topic, partition int32) uint64 { return uint64(t.number)<<32 | uint64(uint32(partition)) }

func topicNumber(at uint64) uint32 { return uint32(at >> 32) }

func partitionOf(at uint64) int32 { return int32(uint32(at)) }

// fewMax bounds the slice, which takes no more room than it needs; a map is
// fast where there are many.
const fewMax = 32

type slot struct {
	at uint64
	packed
}

// packed is an offset without what few have.
type packed struct {
	offset, commitMs int64
	leaderEpoch      int32
	topicID          bool // it has the id that its topic has
	more             bool
}

// moreOf is the rest of an offset.
type moreOf struct {
	metadata string
	expireMs int64
	topicID  kafka.TopicID
}

// openTxn is a partition with pending offsets.
type openTxn struct {
	producers []int64 // ascending
	// newest is the number of the newest record among those that were
	// committed since the partition is open; 0 none.
	newest uint64
}

func (o *offsets) empty() bool { return len(o.few) == 0 && len(o.many) == 0 && len(o.open) == 0 }

func (o *offsets) count() int { return len(o.few) + len(o.many) }

func (o *offsets) find(at uint64) (int, bool) {
	return slices.BinarySearchFunc(o.few, at, func(s slot, at uint64) int { return cmp.Compare(s.at, at) })
}

func (o *offsets) get(t *topic, partition int32) (v offset, ok bool) {
	at := place(t, partition)
	var p packed
	if o.many != nil {
		p, ok = o.many[at]
	} else {
		var i int
		if i, ok = o.find(at); ok {
			p = o.few[i].packed
		}
	}
	if !ok {
		return v, false
	}
	v = offset{Offset: p.offset, LeaderEpoch: p.leaderEpoch, CommitMs: p.commitMs, ExpireMs: -1}
	if p.topicID {
		v.TopicID = t.id
	}
	if p.more {
		more := o.more[at]
		v.Metadata, v.ExpireMs, v.TopicID = more.metadata, more.expireMs, more.topicID
	}
	return v, true
}

// put says whether there was none before.
func (o *offsets) put(t *topic, partition int32, v *offset) (added bool) {
	at := place(t, partition)
	p := packed{offset: v.Offset, commitMs: v.CommitMs, leaderEpoch: v.LeaderEpoch}
	if !v.TopicID.IsZero() {
		if t.id.IsZero() {
			t.id = v.TopicID
		}
		p.topicID = t.id == v.TopicID
	}
	p.more = v.Metadata != "" || v.ExpireMs != -1 || !v.TopicID.IsZero() && !p.topicID
	if p.more {
		if o.more == nil {
			o.more = map[uint64]moreOf{}
		}
		o.more[at] = moreOf{v.Metadata, v.ExpireMs, v.TopicID}
	} else if len(o.more) > 0 {
		delete(o.more, at)
	}
	if o.many != nil {
		n := len(o.many)
		o.many[at] = p
		return len(o.many) > n
	}
	i, found := o.find(at)
	if found {
		o.few[i].packed = p
		return false
	}
	if len(o.few) < fewMax {
		o.few = slices.Insert(o.few, i, slot{at, p})
		return true
	}
	o.many = make(map[uint64]packed, 2*fewMax)
	for _, s := range o.few {
		o.many[s.at] = s.packed
	}
	o.few = nil
	o.many[at] = p
	return true
}

// remove says whether there was one.
func (o *offsets) remove(at uint64) (removed bool) {
	if o.many != nil {
		n := len(o.many)
		delete(o.many, at)
		removed = len(o.many) < n
		if len(o.many) == 0 {
			o.many = nil
		}
	} else if i, found := o.find(at); found {
		o.few = slices.Delete(o.few, i, i+1)
		removed = true
	}
	delete(o.more, at)
	return removed
}

// places are the committed ones, and the open ones too if asked for, ascending.
func (o *offsets) places(open bool) []uint64 {
	var all []uint64
	if o.many != nil {
		all = slices.Sorted(maps.Keys(o.many))
	} else {
		all = make([]uint64, len(o.few))
		for i, s := range o.few {
			all[i] = s.at
		}
	}
	if open && len(o.open) > 0 {
		all = append(all, slices.Sorted(maps.Keys(o.open))...)
		slices.Sort(all)
		all = slices.Compact(all)
	}
	return all
}

// topic is a topic that groups of the shard have offsets of, committed or
// pending.
type topic struct {
	name   string
	number uint32
	// id is the first that came with an offset. A topic made anew under the
	// name has another, until the offsets of the first are gone.
	id     kafka.TopicID
	groups map[*Group]int32 // with the number of offsets of each
}

// topics numbers the topics of the shard.
type topics struct {
	byName   map[string]*topic
	byNumber []*topic
	free     []uint32 // numbers
}

// of finds a topic or numbers it.
func (ts *topics) of(name string) *topic {
	if t := ts.byName[name]; t != nil {
		return t
	}
	t := &topic{name: strings.Clone(name), groups: map[*Group]int32{}}
	if n := len(ts.free); n > 0 {
		t.number, ts.free = ts.free[n-1], ts.free[:n-1]
		ts.byNumber[t.number] = t
	} else {
		t.number = uint32(len(ts.byNumber))
		ts.byNumber = append(ts.byNumber, t)
	}
	if ts.byName == nil {
		ts.byName = map[string]*topic{}
	}
	ts.byName[t.name] = t
	return t
}

// at is the topic of a place.
func (ts *topics) at(place uint64) *topic { return ts.byNumber[topicNumber(place)] }

// leave takes one offset of a group off the topic's count, and forgets a topic
// without any.
func (ts *topics) leave(t *topic, g *Group) {
	if t.groups[g]--; t.groups[g] > 0 {
		return
	}
	delete(t.groups, g)
	if len(t.groups) == 0 {
		delete(ts.byName, t.name)
		ts.byNumber[t.number] = nil
		ts.free = append(ts.free, t.number)
	}
}

// byTopic sorts places by the name of the topic, then the partition.
func (ts *topics) byTopic(places []uint64) []uint64 {
	slices.SortFunc(places, func(a, b uint64) int {
		if topicNumber(a) == topicNumber(b) {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(ts.at(a).name, ts.at(b).name)
	})
	return places
}

// in lists the groups with offsets of the topic, by id.
func (t *topic) in() []*Group {
	return slices.SortedFunc(maps.Keys(t.groups), func(a, b *Group) int { return cmp.Compare(a.id, b.id) })
}
