package main

import (
	"fmt"
	"log"
	"slices"
	"sync"
	"time"
)

const patience = 2 * time.Minute

// runRebalance lets one group become whole, takes one member out and lets
// another in, and measures how long the group takes each time.
func runRebalance(addr, topic string, pid pids) result {
	awaitCoordinator(addr, "bench")
	name := fmt.Sprintf("bench-large-%d", seq.Add(1))
	defer deleteGroups(addr, []string{name})
	conns := dialAll(addr, *members+1)
	r := result{"members": *members, "partitions": *nparts}
	n := &counts{}
	switch *protocol {
	case "classic":
		rebalanceClassic(newGroup(name, topic, *nparts, *members), conns, n, pid, r)
	case "consumer":
		rebalanceConsumer(newHolding(name, topic, *nparts), conns, n, pid, r)
	default:
		log.Fatalf("no protocol %q", *protocol)
	}
	r["heartbeats_failed"] = n.failed.Load()
	if len(n.errors) > 0 {
		r["errors"] = n.errors
	}
	return r
}

func await(what string, c chan time.Time, n *counts) time.Time {
	select {
	case t := <-c:
		return t
	case <-time.After(patience):
		n.mu.Lock()
		defer n.mu.Unlock()
		log.Fatalf("%s: not done within %v; errors: %v", what, patience, n.errors)
		return time.Time{}
	}
}

func ms(d time.Duration) float64 { return r1(float64(d.Microseconds()) / 1000) }

// rebalanceClassic reports the whole time, which ends when the last member has
// its assignment, and the part of it after the last member asked to join: what
// comes before is how long the members take to hear of it by their heartbeats.
func rebalanceClassic(g *group, conns []*rawConn, n *counts, pid pids, r result) {
	var wg sync.WaitGroup
	ms0 := make([]*member, *members)
	began := time.Now()
	for i := range ms0 {
		ms0[i] = newMember(g, conns[i], n)
		wg.Go(ms0[i].run)
	}
	r["stable_s"] = r2(await("first rebalance", g.stable, n).Sub(began).Seconds())
	time.Sleep(2 * *heartbeat)
	report := func(what string, from time.Time, u usage, done time.Time) {
		g.mu.Lock()
		defer g.mu.Unlock()
		r[what+"_ms"] = ms(done.Sub(from))
		r[what+"_after_last_join_ms"] = ms(done.Sub(g.joined))
		if len(pid) > 0 {
			r[what+"_broker_cpu_ms"] = r1(u.broker * 1000)
		}
	}

	last := ms0[*members-1]
	g.expect(*members - 1)
	var from, done time.Time
	u := during(pid, func() {
		close(last.stop)
		from = <-last.left
		done = await("one leaves", g.stable, n)
	})
	report("leave", from, u, done)
	time.Sleep(2 * *heartbeat)

	g.expect(*members)
	ms0[*members-1] = newMember(g, conns[*members], n)
	u = during(pid, func() {
		from = time.Now()
		wg.Go(ms0[*members-1].run)
		done = await("one joins", g.stable, n)
	})
	report("join", from, u, done)

	for _, m := range ms0 {
		close(m.stop)
	}
	wg.Wait()
}

// rebalanceConsumer reports when every member has reached the new epoch and
// every partition has one owner, evenly; placed is the latter alone. Whoever
// leaves frees its partitions, and whoever joins takes its share: who else
// changes was interrupted for nothing.
func rebalanceConsumer(h *holding, conns []*rawConn, n *counts, pid pids, r result) {
	var wg sync.WaitGroup
	cs := make([]*consumer, *members)
	began := time.Now()
	for i := range cs {
		cs[i] = newConsumer(h, conns[i], n)
	}
	for _, c := range cs {
		wg.Go(c.run)
	}
	r["stable_s"] = r2(await("first assignment", h.whole, n).Sub(began).Seconds())
	calm(h)

	h.expect()
	last := cs[*members-1]
	var l leaving
	var done time.Time
	u := during(pid, func() {
		close(last.stop)
		l = <-last.left
		done = await("one leaves", h.whole, n)
	})
	h.report(r, "leave", l.at, done, u, pid)
	calm(h) // what moves late counts too
	changed, lost := h.moved()
	r["leave_partitions"], r["leave_changed"] = len(l.parts), changed
	// Each partition that was freed changes one member, and nobody gives any away.
	r["leave_interrupted"] = max(0, changed-len(l.parts), lost)

	h.expect()
	added := newConsumer(h, conns[*members], n)
	cs[*members-1] = added
	u = during(pid, func() {
		l.at = time.Now()
		wg.Go(added.run)
		done = await("one joins", h.whole, n)
	})
	h.report(r, "join", l.at, done, u, pid)
	calm(h)
	changed, lost = h.moved()
	took := h.holds(added)
	r["join_partitions"], r["join_changed"] = took, changed
	// The newcomer itself changes, and with each partition that it took one other.
	r["join_interrupted"] = max(0, changed-took-1, lost-took)
	r["two_owners"] = h.doubles
	for _, c := range cs {
		close(c.stop)
	}
	wg.Wait()
}

func (h *holding) report(r result, what string, from, done time.Time, u usage, pid pids) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r[what+"_ms"], r[what+"_placed_ms"], r[what+"_resent"] = ms(done.Sub(from)), ms(h.placed.Sub(from)), h.resent
	if len(pid) > 0 {
		r[what+"_broker_cpu_ms"] = r1(u.broker * 1000)
	}
}

// calm waits until nothing has changed for some heartbeats.
func calm(h *holding) {
	for still, last := 0, []int32(nil); still < 3; time.Sleep(*heartbeat) {
		h.mu.Lock()
		var now []int32
		for e := range h.epochs {
			now = append(now, e)
		}
		same := len(now) == 1 && slices.Equal(now, last) && h.single == h.parts
		h.mu.Unlock()
		if still++; !same {
			still = 0
		}
		last = now
	}
}
