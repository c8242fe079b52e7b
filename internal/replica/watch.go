package replica

import (
	"slices"
	"sync"
)

// Waiter is woken when something it watches changes: the high watermark, log end or
// log start, the role, the term, the log itself, or the end of the partition. Of a
// partition that another broker leads it is not woken by each append, but by the mark
// that follows. One waiter serves all the partitions of a long poll: register it on
// each, look again, then select on C. Wake-ups coalesce, and may come for nothing;
// none is lost.
type Waiter struct {
	C chan struct{}

	call func() // in C's place
	once bool
}

// NewWaiter returns a waiter that watches nothing yet.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

// NewCaller returns a waiter that calls f in the place of a send to C, each time:
// f must coalesce. It is called with locks held and must neither block nor call back.
func NewCaller(f func()) *Waiter { return &Waiter{call: f} }

// NewOnce is NewCaller for a waiter that its wake-up takes off the partition, until
// it is added again: what watches many partitions for long, and looks at few of them,
// costs a busy one nothing.
func NewOnce(f func()) *Waiter { return &Waiter{call: f, once: true} }

func (w *Waiter) wake() {
	if w.call != nil {
		w.call()
		return
	}
	select {
	case w.C <- struct{}{}:
	default:
	}
}

// watchers is the set of a partition's waiters. Its lock is a leaf.
//
// Most partitions have one or two, which a list serves best; above manyWatchers
// a map takes its place, or a thousand readers of one partition would look for
// each other.
type watchers struct {
	mu   sync.Mutex
	few  []*Waiter
	many map[*Waiter]struct{}
}

const manyWatchers = 16

func (s *watchers) add(w *Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.many == nil && len(s.few) < manyWatchers {
		s.few = append(s.few, w)
		return
	}
	if s.many == nil {
		s.many = make(map[*Waiter]struct{}, 2*manyWatchers)
	}
	s.many[w] = struct{}{}
}

func (s *watchers) remove(w *Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.many, w)
	if i := slices.Index(s.few, w); i >= 0 {
		s.few[i] = s.few[len(s.few)-1]
		s.few[len(s.few)-1] = nil
		s.few = s.few[:len(s.few)-1]
	}
	s.shrink()
}

// wake never blocks: a waiter's channel holds the one wake-up that matters.
func (s *watchers) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.few[:0]
	for _, w := range s.few {
		if w.wake(); !w.once {
			kept = append(kept, w)
		}
	}
	clear(s.few[len(kept):])
	s.few = kept
	for w := range s.many {
		if w.wake(); w.once {
			delete(s.many, w)
		}
	}
	s.shrink()
}

// shrink: an idle partition keeps nothing that is large.
func (s *watchers) shrink() {
	if len(s.many) == 0 {
		s.many = nil
	}
}

// AddWaiter has w woken by this partition's changes until RemoveWaiter.
func (p *Partition) AddWaiter(w *Waiter) { p.watchers.add(w) }

// RemoveWaiter undoes AddWaiter; w may be woken once more by a change under way.
func (p *Partition) RemoveWaiter(w *Waiter) { p.watchers.remove(w) }
