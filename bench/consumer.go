package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// holding is what the members of a group of the consumer protocol (KIP-848) own.
type holding struct {
	name, topic string
	parts       int

	mu      sync.Mutex
	members map[*consumer]bool // those that count: not those that leave
	owners  []int              // of each partition
	single  int                // partitions with just one owner
	epochs  map[int32]int      // how many members are at an epoch
	above   int32              // the epoch to be left behind
	placed  time.Time          // when every partition had its owner, since expect
	whole   chan time.Time     // and every member the new epoch
	resent  int                // assignments that came although nothing had changed
	doubles int                // times that a partition had two owners
}

func newHolding(name, topic string, parts int) *holding {
	return &holding{name: name, topic: topic, parts: parts, members: map[*consumer]bool{}, owners: make([]int, parts), epochs: map[int32]int{}, whole: make(chan time.Time, 1)}
}

// expect waits from now on for a newer epoch, and remembers who owns what.
func (h *holding) expect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := range h.epochs {
		h.above = max(h.above, e)
	}
	h.placed, h.resent = time.Time{}, 0
	for c := range h.members {
		c.before, c.touched, c.lost = slices.Clone(c.owned), false, 0
	}
	select {
	case <-h.whole: // of the time before
	default:
	}
}

func (h *holding) join(c *consumer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members[c] = true
	h.epochs[0]++
}

// leave takes a member out before it tells the broker: what it owned is free.
func (h *holding) leave(c *consumer) []int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	parts := c.owned
	h.own(c, nil)
	h.at(c.epoch, -1)
	delete(h.members, c)
	return parts
}

func (h *holding) at(epoch int32, by int) {
	if h.epochs[epoch] += by; h.epochs[epoch] == 0 {
		delete(h.epochs, epoch)
	}
}

// own changes what a member owns.
func (h *holding) own(c *consumer, parts []int32) {
	for _, p := range c.owned {
		if h.owners[p]--; h.owners[p] == 1 {
			h.single++
		} else if h.owners[p] == 0 {
			h.single--
		}
	}
	for _, p := range parts {
		if h.owners[p]++; h.owners[p] == 1 {
			h.single++
		} else if h.owners[p] == 2 {
			h.single--
			h.doubles++
		}
	}
	c.owned = parts
}

// update takes what an answer said.
func (h *holding) update(c *consumer, epoch int32, parts []int32, assigned bool) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.members[c] {
		return false
	}
	h.at(c.epoch, -1)
	h.at(epoch, 1)
	c.epoch = epoch
	if assigned {
		slices.Sort(parts)
		changed = !slices.Equal(parts, c.owned)
		if changed {
			h.own(c, parts)
			c.touched = true
			gone := slices.DeleteFunc(slices.Clone(c.before), func(p int32) bool { return slices.Contains(parts, p) })
			c.lost = max(c.lost, len(gone))
		} else if len(parts) > 0 {
			h.resent++
		}
	}
	now := time.Now()
	if h.single != h.parts {
		h.placed = time.Time{}
		return changed
	}
	if h.placed.IsZero() {
		h.placed = now
	}
	if len(h.whole) == 0 && epoch > h.above && h.epochs[epoch] == len(h.members) && h.balanced() {
		h.whole <- now
	}
	return changed
}

// balanced is false as long as the first members own what was meant for all.
func (h *holding) balanced() bool {
	least, most := h.parts, 0
	for c := range h.members {
		least, most = min(least, len(c.owned)), max(most, len(c.owned))
	}
	return most-least <= 1
}

// moved tells what happened since expect: members that were given other
// partitions, and how many partitions they had to give away.
func (h *holding) moved() (changed, lost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.members {
		if c.touched {
			changed++
		}
		lost += c.lost
	}
	return changed, lost
}

func (h *holding) holds(c *consumer) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(c.owned)
}

// consumer is a member of the consumer protocol on a connection of its own.
type consumer struct {
	h    *holding
	c    *rawConn
	n    *counts
	id   string
	stop chan struct{}
	left chan leaving

	topicID       [16]byte
	epoch         int32 // under h.mu, as what follows, when others read it
	owned, before []int32
	touched       bool // what it owns has changed since expect
	lost          int  // partitions that it had before
}

type leaving struct {
	at    time.Time
	parts []int32 // what it owned
}

func newConsumer(h *holding, c *rawConn, n *counts) *consumer {
	id := make([]byte, 16)
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	m := &consumer{h: h, c: c, n: n, id: fmt.Sprintf("%x", id), stop: make(chan struct{}), left: make(chan leaving, 1)}
	h.join(m)
	return m
}

// run joins, keeps its place until it is told to stop, and leaves. As a real
// client it answers a change at once, and else beats at its interval.
func (m *consumer) run() {
	defer m.c.c.Close()
	timer := time.NewTimer(0)
	full := true // everything about this member is said
	changed := false
	for {
		select {
		case <-m.stop:
			m.left <- leaving{time.Now(), m.h.leave(m)}
			m.beat(-1, false, false)
			return
		case <-timer.C:
		}
		r, err := m.beat(m.epoch, full, changed)
		if err != nil {
			m.n.failed.Add(1)
			m.n.failure(err.Error())
			return
		}
		if !m.accept(r) {
			timer.Reset(100 * time.Millisecond)
			continue
		}
		var parts []int32
		if r.Assignment != nil {
			for _, t := range r.Assignment.Topics {
				m.topicID, parts = t.TopicID, append(parts, t.Partitions...)
			}
		}
		changed = m.h.update(m, r.MemberEpoch, parts, r.Assignment != nil)
		switch {
		case changed:
			timer.Reset(0)
		case full: // spread the heartbeats
			timer.Reset(rand.N(*heartbeat))
		default:
			timer.Reset(*heartbeat)
		}
		full = false
	}
}

// accept is false when the same must be said again.
func (m *consumer) accept(r *kmsg.ConsumerGroupHeartbeatResponse) bool {
	if r.ErrorCode == 0 {
		return true
	}
	if !comesAndGoes(r.ErrorCode) {
		m.n.failed.Add(1)
		m.n.failure("heartbeat: " + kerr.ErrorForCode(r.ErrorCode).Error())
	}
	return false
}

// beat sends one heartbeat; owned says that what this member owns has changed.
func (m *consumer) beat(epoch int32, full, owned bool) (*kmsg.ConsumerGroupHeartbeatResponse, error) {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.SetVersion(1)
	q.Group, q.MemberID, q.MemberEpoch = m.h.name, m.id, epoch
	if full {
		q.RebalanceTimeoutMillis, q.SubscribedTopicNames = int32(rebalanceTimeout.Milliseconds()), []string{m.h.topic}
	}
	if full || owned {
		q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if len(m.owned) > 0 {
			t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			t.TopicID, t.Partitions = m.topicID, m.owned
			q.Topics = append(q.Topics, t)
		}
	}
	m.n.sent.Add(1)
	t := time.Now()
	r, err := call[*kmsg.ConsumerGroupHeartbeatResponse](m.c, q)
	if err == nil {
		m.n.answered.Add(1)
		m.n.took.add(time.Since(t))
	}
	return r, err
}
