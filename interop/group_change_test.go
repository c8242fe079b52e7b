//go:build interop

package interop

import (
	"fmt"
	"testing"
	"time"
)

// troupe is a group of three members; c runs in a process that gets killed.
type troupe struct {
	group    string
	assignor string // of its classic members
	stays    bool   // classic: members whose assignor keeps data of its own cannot be upgraded
	a, b, c  member
}

// TestGroupsChangeProtocol has groups of Java clients, of librdkafka's, and of
// both, by every assignor, go from the classic protocol to the consumer
// protocol and back, member by member. In each, a process is killed, a member
// takes too long over a record, and one goes without leaving and comes back,
// while numbered records are written all the time. Every group processes every
// record, no committed offset goes back, and the last ones are the log's end.
func TestGroupsChangeProtocol(t *testing.T) {
	addr := target(t, consumerTimes...)
	topic := createTopic(t, addr, "groups", partitions, nil)
	c := newCompany(t, addr, topic)
	var groups []string
	for _, g := range c.troupes {
		groups = append(groups, g.group)
	}
	w := startWatch(t, addr, topic, c.diary, groups, false)
	f := startFeed(t, addr, topic, 800)
	rounds := 1
	if full() {
		rounds = 5
	}
	c.startAll(classic)
	for range rounds {
		c.trouble(t, classic)
		c.roll(t, consumer)
		for _, g := range c.troupes {
			kind := "consumer"
			if g.stays {
				kind = "classic"
			}
			awaitGroup(t, w.adm, g.group, kind, "Stable")
		}
		c.trouble(t, consumer)
		c.roll(t, classic)
		for _, g := range c.troupes {
			awaitGroup(t, w.adm, g.group, "classic", "Stable")
		}
	}
	ends := f.stop(t)
	w.awaitEnds(t, ends, groups)
	for _, g := range c.troupes {
		c.diary.check(t, g.group, ends)
	}
	w.stop()
	w.mu.Lock()
	t.Logf("committed offsets asked for %d times, none went back", w.asked)
	w.mu.Unlock()
}

// company is all groups and the processes that their members run in.
type company struct {
	diary   *diary
	troupes []troupe
	restart func() // kills and restarts the processes of the members c
	start   time.Time
}

func newCompany(t *testing.T, addr, topic string) *company {
	java, python := javaMembers(t), pythonMembers(t)
	c := &company{diary: newDiary(), start: time.Now()}
	run := func(command []string) *program { return startProgram(t, c.diary.take, command, addr, topic) }
	j, p := run(java), run(python)
	j2, p2 := run(java), run(python)
	suffix := fmt.Sprintf("-%x", time.Now().UnixNano())
	add := func(name, assignor string, a, b, k *program) {
		g := name + "-" + assignor + suffix
		stays := name == "librdkafka" && assignor == "cooperative-sticky"
		c.troupes = append(c.troupes, troupe{g, assignor, stays, member{a, c.diary, g, "a"}, member{b, c.diary, g, "b-auto"}, member{k, c.diary, g, "c"}})
	}
	for _, assignor := range []string{"range", "sticky", "cooperative-sticky"} {
		add("java", assignor, j, j, j2)
	}
	for _, assignor := range []string{"range", "cooperative-sticky"} {
		add("librdkafka", assignor, p, p, p2)
	}
	add("both", "range", j, p, j2)
	c.restart = func() {
		j2.kill()
		p2.kill()
		*j2, *p2 = *run(java), *run(python)
	}
	return c
}

// classic and consumer say how a troupe's members start.
func classic(g troupe) string { return g.assignor }

func consumer(g troupe) string {
	if g.stays {
		return g.assignor
	}
	return "consumer"
}

func (c *company) startAll(how func(troupe) string) {
	for _, g := range c.troupes {
		for _, m := range []member{g.a, g.b, g.c} {
			m.start(how(g))
		}
	}
}

func (c *company) step(t *testing.T, what string) {
	t.Helper()
	t.Logf("%5.1f s: %s", time.Since(c.start).Seconds(), what)
}

// each gives one member of each troupe.
func (c *company) each(which func(troupe) member) []member {
	var all []member
	for _, g := range c.troupes {
		all = append(all, which(g))
	}
	return all
}

func first(g troupe) member  { return g.a }
func second(g troupe) member { return g.b }
func third(g troupe) member  { return g.c }

// trouble kills a process, pauses a member, and drops one.
func (c *company) trouble(t *testing.T, how func(troupe) string) {
	t.Helper()
	for _, which := range []func(troupe) member{first, second, third} {
		awaitWork(t, "at the beginning", c.each(which)...)
	}
	c.step(t, "all members work")
	c.restart()
	for _, g := range c.troupes {
		c.diary.awaitAll(t, g.group)
	}
	c.step(t, "after a kill the others have taken over all partitions")
	for _, g := range c.troupes {
		g.c.start(how(g))
	}
	awaitWork(t, "after a kill", c.each(third)...)
	c.step(t, "the killed members are back")
	for _, g := range c.troupes {
		g.a.p.say("pause %s %s 8000", g.a.group, g.a.name)
	}
	for _, g := range c.troupes {
		how, protocol := "stop", how(g)
		if g.b.p.drops() {
			how = "drop"
		}
		g.b.end(t, how)
		g.b.start(protocol)
	}
	awaitWork(t, "after it was dropped", c.each(second)...)
	for _, g := range c.troupes {
		c.diary.awaitAll(t, g.group)
	}
	c.step(t, "all partitions go on beside a member that hangs and one that was dropped")
	awaitWork(t, "after it hung", c.each(first)...)
}

// roll restarts every member, one after the other.
func (c *company) roll(t *testing.T, how func(troupe) string) {
	t.Helper()
	for i, which := range []func(troupe) member{first, second, third} {
		for _, g := range c.troupes {
			which(g).end(t, "stop")
			which(g).start(how(g))
		}
		awaitWork(t, "after its restart", c.each(which)...)
		c.step(t, fmt.Sprintf("member %d of each group restarted as %s", i+1, how(c.troupes[0])))
	}
}
