package producers

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"time"
)

// DefaultExpiration is Apache Kafka's producer.id.expiration.ms.
const DefaultExpiration = 24 * time.Hour

// loadGrace is how long a producer is remembered after loading although its
// timestamps say that it expired: these may be the client's, of records that
// were old when they were sent, and a retry may be on its way.
const loadGrace = 15 * time.Minute

// State is what one log knows of its producers. Make one with New. It has no
// lock: the log's own serializes calls.
type State struct {
	producers map[int64]*known
	order     []*known // for expiry: all of producers, in no order that matters
	cursor    int      // into order

	// open holds the undecided transactions, ended those whose marker may lie
	// above the high watermark; both sorted by first offset.
	open  []openTxn
	ended []endedTxn

	guards map[int64]*Guard

	end        int64 // all below is in the state
	snapped    int64 // end of the newest snapshot, or where the state began
	expiration time.Duration
	scratch    Update
}

type known struct {
	Entry
	at int // its place in order
}

type openTxn struct {
	first      int64
	producerID int64
}

type endedTxn struct{ first, last int64 }

// New returns the state of an empty log that begins at offset 0. A producer
// that is not heard of for expiration is forgotten; zero means the default.
func New(expiration time.Duration) *State {
	s := &State{producers: map[int64]*known{}, guards: map[int64]*Guard{}}
	s.SetExpiration(expiration)
	return s
}

// SetExpiration changes when producers are forgotten.
func (s *State) SetExpiration(d time.Duration) {
	if d <= 0 {
		d = DefaultExpiration
	}
	s.expiration = d
}

// Apply makes the changes of the newest update.
func (s *State) Apply(u *Update) {
	if u != &s.scratch || !u.live {
		panic("producers: update is a duplicate's, was applied, or is not the newest")
	}
	u.live = false
	nowMs := u.opts.Now.UnixMilli()
	for i := range u.changes {
		c := &u.changes[i]
		c.next.seenMs = nowMs
		if k := s.producers[c.next.ProducerID]; k != nil {
			k.Entry = c.next
		} else {
			s.add(c.next)
		}
		if c.cleared {
			delete(s.guards, c.next.ProducerID)
		}
	}
	for _, t := range u.started {
		s.open = insert(s.open, t, func(t openTxn) int64 { return t.first })
	}
	for _, t := range u.Completed {
		i := sort.Search(len(s.open), func(i int) bool { return s.open[i].first >= t.FirstOffset })
		if i < len(s.open) && s.open[i].first == t.FirstOffset {
			s.open = slices.Delete(s.open, i, i+1)
		}
		s.ended = insert(s.ended, endedTxn{t.FirstOffset, t.LastOffset}, func(t endedTxn) int64 { return t.first })
	}
	s.end = u.end
	if cap(u.changes) > indexFrom {
		u.changes, u.started, u.Completed, u.index = nil, nil, nil, nil // idle logs are many
	}
}

// insert keeps a list sorted; new elements mostly belong at its end.
func insert[T any](list []T, t T, key func(T) int64) []T {
	i := len(list)
	for i > 0 && key(list[i-1]) > key(t) {
		i--
	}
	return slices.Insert(list, i, t)
}

func (s *State) add(e Entry) {
	k := &known{Entry: e, at: len(s.order)}
	s.producers[e.ProducerID] = k
	s.order = append(s.order, k)
}

func (s *State) forget(k *known) {
	last := s.order[len(s.order)-1]
	s.order[k.at], last.at = last, k.at
	s.order[len(s.order)-1] = nil
	s.order = s.order[:len(s.order)-1]
	delete(s.producers, k.ProducerID)
}

// Reset forgets everything; the state is that of a log that begins at end.
func (s *State) Reset(end int64) {
	clear(s.producers)
	clear(s.guards)
	s.order, s.open, s.ended = nil, nil, nil
	s.cursor, s.end, s.snapped = 0, end, end
	s.scratch.live = false
}

// Restore replaces the state by a snapshot's entries, which name each producer
// once, as of end offset end. Transactions that ended below end are not in it:
// FirstUnstable is right for high watermarks from end on, so a log that starts
// with a lower one loads a snapshot at or below that and replays.
func (s *State) Restore(entries []Entry, end int64, now time.Time) {
	s.Reset(end)
	nowMs := now.UnixMilli()
	// At least loadGrace is left to everyone, and more to who was heard of lately.
	oldest := nowMs - max(s.expiration-loadGrace, 0).Milliseconds()
	for _, e := range entries {
		e.seenMs = min(max(e.LastTimestampMs, oldest), nowMs)
		s.add(e)
		if e.InTransaction() {
			s.open = append(s.open, openTxn{e.TxnFirstOffset, e.ProducerID})
		}
	}
	slices.SortFunc(s.open, func(a, b openTxn) int { return cmp.Compare(a.first, b.first) })
}

// End is the offset below which every batch is in the state.
func (s *State) End() int64 { return s.end }

// SnapshotDue reports whether the state moved since the last snapshot or the
// beginning, so that another one would differ.
func (s *State) SnapshotDue() bool { return s.end > s.snapped }

// Snapshot encodes the state as of End, for Save under that offset, and counts
// as taken. The bytes are the caller's.
func (s *State) Snapshot() []byte {
	s.snapped = s.end
	b := make([]byte, 0, snapshotSize(len(s.order)))
	b = appendHeader(b, len(s.order))
	for _, k := range s.order {
		b = appendEntry(b, &k.Entry)
	}
	return seal(b)
}

// Len is the number of producers known.
func (s *State) Len() int { return len(s.order) }

// Entry returns what is known of a producer.
func (s *State) Entry(producerID int64) (Entry, bool) {
	if k := s.producers[producerID]; k != nil {
		return k.Entry, true
	}
	return Entry{}, false
}

// Entries returns all producers, sorted by id.
func (s *State) Entries() []Entry {
	out := make([]Entry, 0, len(s.producers))
	for _, id := range slices.Sorted(maps.Keys(s.producers)) {
		out = append(out, s.producers[id].Entry)
	}
	return out
}

// FirstUnstable is the first offset of the transactions that are open, or
// ended by a marker that is not below the high watermark hw; None when there
// is none. It may lie below the log start, where it counts as the log start.
func (s *State) FirstUnstable(hw int64) int64 {
	first := s.FirstUndecided()
	for _, t := range s.ended {
		if first != None && t.first >= first {
			break
		}
		if t.last >= hw {
			return t.first
		}
	}
	return first
}

// FirstUndecided is the first offset of the transactions that are open,
// whatever is replicated; None when there is none.
func (s *State) FirstUndecided() int64 {
	if len(s.open) == 0 {
		return None
	}
	return s.open[0].first
}

// OldestOpen tells of the transaction that has been open longest: where it
// began and the timestamp of its producer's last batch; ok is false when none
// is open. One that is much older than any time-out hangs.
func (s *State) OldestOpen() (producerID, firstOffset, lastTimestampMs int64, ok bool) {
	if len(s.open) == 0 {
		return None, None, None, false
	}
	t := s.open[0]
	lastTimestampMs = None
	if k := s.producers[t.producerID]; k != nil {
		lastTimestampMs = k.LastTimestampMs
	}
	return t.producerID, t.first, lastTimestampMs, true
}

// AdvanceHighWatermark forgets ended transactions that are replicated.
func (s *State) AdvanceHighWatermark(hw int64) { s.forgetEnded(hw) }

// AdvanceStart tells that the log begins at start now. Producers stay known,
// although their batches may be gone.
func (s *State) AdvanceStart(start int64) {
	s.forgetEnded(start)
	s.end = max(s.end, start)
	s.scratch.live = false
}

func (s *State) forgetEnded(below int64) {
	s.ended = slices.DeleteFunc(s.ended, func(t endedTxn) bool { return t.last < below })
}

// Expire looks at up to limit producers, going on where the last call ended,
// and forgets those not heard of for the expiration time that have no open
// transaction. Guards of appends that never came are dropped alike. It
// returns how many producers it forgot, and whether the round is complete.
func (s *State) Expire(now time.Time, limit int) (forgotten int, done bool) {
	nowMs := now.UnixMilli()
	if s.cursor >= len(s.order) {
		s.cursor = 0
		s.expireGuards(nowMs)
	}
	for ; limit > 0 && s.cursor < len(s.order); limit-- {
		k := s.order[s.cursor]
		if !k.InTransaction() && nowMs-k.seenMs >= s.expiration.Milliseconds() {
			s.forget(k) // another takes its place: the cursor stays
			forgotten++
			continue
		}
		s.cursor++
	}
	if forgotten > 0 {
		s.scratch.live = false
	}
	return forgotten, s.cursor >= len(s.order)
}
