package replica

import "sync"

// Waiter is woken when something it watches changes: the high watermark or log
// end, the role, the term, or the end of the partition. One waiter serves all
// the partitions of a long poll: register it on each, look again, then select
// on C. Wake-ups coalesce, and may come for nothing; none is lost.
type Waiter struct{ C chan struct{} }

// NewWaiter returns a waiter that watches nothing yet.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

func (w *Waiter) wake() {
	select {
	case w.C <- struct{}{}:
	default:
	}
}

// watchers is the set of a partition's waiters. Its lock is a leaf.
type watchers struct {
	mu  sync.Mutex
	set map[*Waiter]struct{}
}

func (s *watchers) add(w *Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = make(map[*Waiter]struct{})
	}
	s.set[w] = struct{}{}
}

func (s *watchers) remove(w *Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, w)
	if len(s.set) == 0 {
		s.set = nil // an idle partition keeps no map
	}
}

// wake never blocks: a waiter's channel holds the one wake-up that matters.
func (s *watchers) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.set {
		w.wake()
	}
}

// AddWaiter has w woken by this partition's changes until RemoveWaiter.
func (p *Partition) AddWaiter(w *Waiter) { p.watchers.add(w) }

// RemoveWaiter undoes AddWaiter; w may be woken once more by a change under way.
func (p *Partition) RemoveWaiter(w *Waiter) { p.watchers.remove(w) }
