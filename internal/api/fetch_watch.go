package api

import (
	"sync"

	"github.com/barnabas-mq/barnabas/internal/replica"
)

// A session watches its partitions that are at rest, so that a request costs what has
// changed and not what there is: a follower's session names thousands.
//
// Locks, from the outside in: session.mu, a partition's watchers, sessionNews.mu.

// sessionPartition is a partition of a session; all but armed is under session.mu.
type sessionPartition struct {
	fetchPartition
	s      *session
	looked bool // it is in look
	last   bool // it is to go to the end of it
	gone   bool // forgotten, or with the session

	on     *replica.Partition // that waiter is on, or was last
	waiter *replica.Waiter
	armed  bool // under sessionNews.mu: waiter is on it
}

// rests reports that nothing is to be told of a partition until it changes. What is
// refused, or held back, is looked at by every request.
func (it *fetchItem) rests() bool {
	return it.err == nil && it.code == 0 && it.part != nil && it.prefer < 0 && !it.held && it.part.Quiet(it.asked, &it.read)
}

// watch has the partition's next change be told, once; session.mu is held. False: the
// session is no more, or does not have it any more.
func (p *sessionPartition) watch(on *replica.Partition) bool {
	if p.gone {
		return false
	}
	if p.on != on {
		p.unwatch()
		p.on = on
	}
	if p.waiter == nil {
		p.waiter = replica.NewOnce(p.changed)
	}
	n := &p.s.news
	n.mu.Lock()
	armed := p.armed
	p.armed = true
	n.mu.Unlock()
	if !armed {
		on.AddWaiter(p.waiter)
	}
	return true
}

func (p *sessionPartition) unwatch() {
	if p.on == nil {
		return
	}
	p.on.RemoveWaiter(p.waiter)
	p.on = nil
	p.s.news.mu.Lock()
	p.armed = false
	p.s.news.mu.Unlock()
}

// changed is called by the partition, with its watchers' lock held.
func (p *sessionPartition) changed() {
	n := &p.s.news
	n.mu.Lock()
	p.armed = false
	n.told = append(n.told, p)
	wake := n.wake
	n.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// forget ends the watch for good.
func (p *sessionPartition) forget() {
	p.unwatch()
	p.gone = true
}

// end has a session that is out of the cache watch nothing any more.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user = nil
	s.news.wakes(nil)
	for _, p := range s.known {
		p.forget()
	}
	s.look = nil
}

// sessionNews are the partitions of a session that have changed, and whom to wake.
type sessionNews struct {
	mu   sync.Mutex
	told []*sessionPartition
	wake func()
}

// wakes has f called by each change from now on; nil: nobody is.
func (n *sessionNews) wakes(f func()) {
	n.mu.Lock()
	n.wake = f
	n.mu.Unlock()
}

func (n *sessionNews) any() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.told) > 0
}

func (n *sessionNews) take() []*sessionPartition {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := n.told
	n.told = nil
	return told
}

// watch has the request woken by what changes from now on.
func (u *sessionUse) watch(items []*fetchItem, wake func()) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if u.s.user != u {
		return // the client has given it up
	}
	u.s.news.wakes(wake)
	for _, it := range items {
		if it.err == nil && it.part != nil {
			it.of.watch(it.part)
		}
	}
}
