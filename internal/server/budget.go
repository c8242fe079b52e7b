package server

import (
	"container/list"
	"sync"
)

// budget bounds the bytes of frames in flight over all connections
// (queued.max.request.bytes), first come first served: a connection waits for one
// frame at a time, so the order of arrival is fair, and a large frame is not
// overtaken for ever by small ones. A frame above the whole budget is let in alone.
//
// Control frames that are small have a reserve of their own (safety 37): when parked
// produce requests hold everything, the fetch that would free them still gets in.
type budget struct {
	mu      sync.Mutex
	cap     int64 // 0: no limit
	used    int64
	resCap  int64
	resUsed int64
	waiting list.List // of *claim
}

// claim is a share of the budget, or the wait for one.
type claim struct {
	bytes   int64
	reserve bool // taken from the reserve
	ready   chan struct{}
}

func newBudget(capBytes, reserveBytes int64) *budget {
	return &budget{cap: capBytes, resCap: reserveBytes}
}

// take claims bytes; false means that quit ended the wait, and nothing is held.
func (b *budget) take(c *claim, bytes int64, control bool, quit <-chan struct{}) bool {
	*c = claim{bytes: bytes}
	if b.cap == 0 || bytes == 0 {
		return true
	}
	b.mu.Lock()
	if b.waiting.Len() == 0 && b.fits(bytes) {
		b.used += bytes
		b.mu.Unlock()
		return true
	}
	if control && b.resUsed+bytes <= b.resCap {
		b.resUsed += bytes
		c.reserve = true
		b.mu.Unlock()
		return true
	}
	c.ready = make(chan struct{})
	el := b.waiting.PushBack(c)
	b.mu.Unlock()
	select {
	case <-c.ready:
		return true
	case <-quit:
	}
	b.mu.Lock()
	select {
	case <-c.ready: // granted meanwhile
		b.used -= bytes
	default:
		b.waiting.Remove(el)
	}
	b.grant()
	b.mu.Unlock()
	c.bytes = 0
	return false
}

func (b *budget) fits(bytes int64) bool { return b.used == 0 || b.used+bytes <= b.cap }

// give returns a claim; a second call does nothing.
func (b *budget) give(c *claim) {
	bytes := c.bytes
	c.bytes = 0
	if b.cap == 0 || bytes == 0 {
		return
	}
	b.mu.Lock()
	if c.reserve {
		b.resUsed -= bytes
	} else {
		b.used -= bytes
		b.grant()
	}
	b.mu.Unlock()
}

// grant lets in who waits, in order, under mu.
func (b *budget) grant() {
	for el := b.waiting.Front(); el != nil; el = b.waiting.Front() {
		c := el.Value.(*claim)
		if !b.fits(c.bytes) {
			return
		}
		b.used += c.bytes
		b.waiting.Remove(el)
		close(c.ready)
	}
}

// held reports the bytes in use, the reserve included.
func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used + b.resUsed
}
