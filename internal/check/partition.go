package check

import (
	"maps"
	"slices"
	"sort"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// What is known of an offset.
const (
	told       = 1 << iota // a producer was told that its record is here
	seenAll                // a reader saw the record
	seenStable             // and one that reads what is committed
	holeAll                // a reader saw nothing here
	holeStable
	finalAll // the final reading saw the record
	finalStable

	seen  = seenAll | seenStable
	final = finalAll | finalStable
)

// A slot is an offset of a partition.
type slot struct {
	entry uint32 // 0: none
	epoch kafka.LeaderEpoch
	flags uint8
}

// pageSize is the number of slots that come together.
const pageSize = 256

type page [pageSize]slot

// partition is what a history says of one.
type partition struct {
	tp       kafka.TopicPartition
	topic    *topic
	pages    map[int64]*page
	recent   *page
	recentAt int64

	marks   views // high watermarks
	starts  views // log starts
	allowed int64 // below it, records may be deleted
	start   int64 // greatest log start told
	needed  spot  // the first record acknowledged with acks=all
	readTo  [2]finalReading
	acked   map[uint32][]uint32 // by producer: acknowledged records that have to be in order
	vanish  suspect             // seen, and a later reading did not have it
	appear  suspect             // not seen, and a later reading had it
}

// finalReading is the last reading of a partition; of the two, [1] is read_committed.
type finalReading struct {
	began, done bool
	from, next  int64
	place       spot
}

// A suspect is the record with the greatest offset of its kind: whether it was
// deleted is known at the end only, and where it was, all the others were too.
type suspect struct {
	offset int64
	events []spot
	n      int
}

func (s *suspect) add(offset int64, events ...spot) {
	if s.n++; s.n == 1 || offset > s.offset {
		s.offset, s.events = offset, events
	}
}

func (j *Judge) partition(e *Event) *partition { return j.partList[j.partIndex(e)] }

func (j *Judge) partIndex(e *Event) uint32 {
	i, ok := j.parts[e.tp()]
	if !ok {
		i = uint32(len(j.partList))
		j.parts[e.tp()] = i
		j.partList = append(j.partList, &partition{
			tp: e.tp(), topic: j.topic(e.Topic), pages: map[int64]*page{}, recentAt: -1,
			marks: views{}, starts: views{}, acked: map[uint32][]uint32{},
		})
	}
	return i
}

// at is the slot of an offset, which is not negative.
func (p *partition) at(offset int64) *slot {
	n := offset / pageSize
	if n != p.recentAt {
		pg := p.pages[n]
		if pg == nil {
			pg = &page{}
			for i := range pg {
				pg[i].epoch = kafka.NoEpoch
			}
			p.pages[n] = pg
		}
		p.recent, p.recentAt = pg, n
	}
	return &p.recent[offset%pageSize]
}

// mayBeGone tells whether nothing is demanded of an offset any more.
func (p *partition) mayBeGone(offset int64) bool {
	return offset < p.allowed || p.topic.compacted || p.topic.retention && offset < p.start
}

// views are the marks of a partition by who told of them: an observer, or a client.
type views map[uint32]*view

func (v views) of(who uint32) *view {
	if v[who] == nil {
		v[who] = &view{}
	}
	return v[who]
}

// A view is how a mark rose, in the order of ends.
type view struct{ steps []step }

type step struct {
	end, value int64
	place      spot
}

// maxSteps bounds a view: beyond it the older half loses every second step,
// which only makes a judge that looks back so far more lenient.
const maxSteps = 16 << 10

// raise says that the mark was at least at value by end.
func (v *view) raise(end, value int64, place spot) {
	if n := len(v.steps); value < 0 || n > 0 && v.steps[n-1].value >= value {
		return
	}
	if len(v.steps) >= maxSteps {
		half := v.steps[:0]
		for i, s := range v.steps {
			if i >= maxSteps/2 || i%2 == 1 {
				half = append(half, s)
			}
		}
		v.steps = half
	}
	v.steps = append(v.steps, step{end, value, place})
}

// before is the greatest mark that was told before begin; its value is 0 if there was none.
func (v *view) before(begin int64) step {
	i := sort.Search(len(v.steps), func(i int) bool { return v.steps[i].end >= begin })
	if i == 0 {
		return step{}
	}
	return v.steps[i-1]
}

// viewer is whose marks an event's are compared with.
func (j *Judge) viewer(e *Event) uint32 {
	if j.o.Stale {
		return j.word(e.Client)
	}
	return j.word(e.Observer)
}

// partitions judges each by its final reading.
func (j *Judge) partitions() {
	for _, p := range j.partList {
		if p.needed != 0 && !p.readTo[0].done && !p.readTo[1].done {
			j.note(Unread, []spot{p.needed}, "%v: records were acknowledged, and no final reading is marked done", p.tp)
		}
		j.suspect(Vanished, p, &p.vanish)
		j.suspect(Changed, p, &p.appear)
		for _, n := range slices.Sorted(maps.Keys(p.pages)) {
			pg := p.pages[n]
			for i := range pg {
				if s := &pg[i]; s.flags&seen != 0 {
					j.remains(p, n*pageSize+int64(i), s)
				}
			}
		}
	}
}

func (j *Judge) suspect(k Kind, p *partition, s *suspect) {
	if s.n > 0 && !p.mayBeGone(s.offset) {
		j.note(k, s.events, "%v offset %d: one reading has a record there, and another of the same positions has none (%d such)", p.tp, s.offset, s.n)
	}
}

// remains demands that what a reader saw is in the final reading.
func (j *Judge) remains(p *partition, offset int64, s *slot) {
	if p.mayBeGone(offset) {
		return
	}
	en := j.entries.at(s.entry)
	if s.flags&(holeStable|seenStable) == holeStable {
		switch {
		case en.txn == nil:
			j.note(Vanished, []spot{en.readAt}, "%v offset %d: %s is in no transaction, and one who reads what is committed did not see it", p.tp, offset, en.id)
		case en.txn.state == committed:
			j.note(Torn, []spot{en.readAt, en.txn.endedAt}, "%v offset %d: %s is of the committed transaction %s, and one who reads what is committed did not see it", p.tp, offset, en.id, en.txn.id)
		}
	}
	all, stable := p.readTo[0], p.readTo[1]
	switch {
	case s.flags&final != 0:
	case all.done:
		j.note(Vanished, []spot{en.readAt, all.place}, "%v offset %d: %s was read and is gone", p.tp, offset, en.id)
	case stable.done && s.flags&seenStable != 0:
		j.note(Vanished, []spot{en.readAt, stable.place}, "%v offset %d: %s was read as committed and is gone", p.tp, offset, en.id)
	}
}
