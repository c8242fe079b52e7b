package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Leadership is lost at each point of a command's way: the caller is told, what
// was not committed is not acknowledged, and the next machine holds what the
// log does.
func TestLost(t *testing.T) {
	points := []string{atAdmit, atLeading, atAppend, atAppended, atAwait, atAwaited, atMark}
	ways := []struct {
		name string
		lose func(g *rig, p *part)
		back bool // the shard has a machine again
	}{
		{"told before", func(g *rig, p *part) { p.follow(1); g.r.Resigned(0) }, false},
		{"not told", func(_ *rig, p *part) { p.follow(1) }, false},
		{"resigned alone", func(g *rig, _ *part) { g.r.Resigned(0) }, false},
		{"elected again", func(g *rig, p *part) { p.lead(1); g.r.Elected(0, 1) }, true},
		{"elected again, not told", func(_ *rig, p *part) { p.lead(1) }, false},
		{"back in the same term", func(g *rig, _ *part) { g.r.Resigned(0); g.r.Elected(0, 0) }, true},
	}
	for _, point := range points {
		for _, way := range ways {
			for _, held := range []bool{false, true} {
				if !held && (point == atAwait || point == atAwaited) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/held=%t", point, way.name, held), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { lost(t, point, held, way.lose, way.back) })
				})
			}
		}
	}
}

func lost(t *testing.T, point string, held bool, lose func(*rig, *part), back bool) {
	g, p := active(t)
	g.do("before", put("a", "1"), "")
	if held {
		p.hold()
	}
	p.at(point, func() {
		lose(g, p)
		time.Sleep(time.Minute) // whatever else can go on does
	})
	o := g.start(bg, "command", ask("said", "b"))
	synctest.Wait()
	if held && point == atAwaited {
		p.commit(p.log.Next())
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	if held && point == atMark { // the release reads the mark
		p.commit(p.log.Next())
		time.Sleep(2 * time.Minute)
	}
	answered := <-o.done
	if answered.err != nil && !errors.Is(answered.err, kerr.NotCoordinator) {
		t.Errorf("command: %v", answered.err)
	}
	if err := g.r.Ready(0); back && err != nil {
		t.Errorf("the new term: %v", err)
	}
	said := g.said()
	p.lead(9)
	p.free()
	g.r.Elected(0, 9)
	synctest.Wait()
	if answered.err == nil {
		g.do("an acknowledged record", get("b"), "said")
	}
	if _, there := g.toy().hard["b"]; said != "" && !there {
		t.Error("an effect came out of a record that is gone")
	}
	g.agrees()
	g.do("after", put("a", "2"), "1")
	g.agrees()
	if g.said() != said {
		t.Errorf("effects of a term that is over: %q, then %q", said, g.said())
	}
}

// Another leader's records lift the mark past what was lost: none of it is
// acknowledged (safety 5).
func TestLostBehindForeignMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		p.hold()
		first := g.start(bg, "first", ask("e1", "a"))
		synctest.Wait()
		second := g.start(bg, "second", ask("e2", "b"))
		synctest.Wait()
		third := g.start(bg, "third", get("a"))
		synctest.Wait()
		p.at(atAwaited, func() { // the first is committed; the rest is cut off, and another leader writes on
			p.follow(1)
			p.set(func() { p.hw = 100 })
		})
		p.commit(1)
		first.is(nil)
		synctest.Wait()
		second.fails(kerr.NotCoordinator)
		third.fails(kerr.NotCoordinator)
		if g.said() != "e1" {
			t.Errorf("effects: %s", g.said())
		}
	})
}

// So it is while the mark is asked for, right behind an append: it is one of the
// term only if that goes on behind it (safety 5).
func TestLostBesideForeignMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		p.hold()
		p.at(atMark, func() {
			p.follow(1)
			p.set(func() { p.hw = 100 })
		})
		g.refused("lost", ask("e", "a"), kerr.NotCoordinator)
		if g.said() != "" {
			t.Errorf("effects: %s", g.said())
		}
	})
}

// A machine whose term is over, and that was not told, writes nothing into a
// later term of the same broker: another leader's records lie in between, and
// what it decided was decided without them (safety 25).
func TestStaleMachineWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		g.do("before", put("a", "1"), "")
		p.at(atAppend, func() { p.follow(1); p.lead(2) })
		g.refused("stale", ask("e", "a"), kerr.NotCoordinator)
		if n := len(p.batches()); n != 1 || g.said() != "" {
			t.Errorf("%d batches, effects %q", n, g.said())
		}
		g.r.Elected(0, 2)
		synctest.Wait()
		g.do("after", get("a"), "1")
		g.agrees()
	})
}

// A run that began under one machine appends while the next one loads: the
// next one has the record, too. In a later term there is none to have.
func TestAppendBesideLoad(t *testing.T) {
	for epoch, want := range map[kafka.LeaderEpoch]string{0: "1", 1: ""} {
		synctest.Test(t, func(t *testing.T) {
			g, p := active(t)
			p.at(atAppend, func() {
				g.r.Resigned(0)
				p.lead(epoch)
				g.r.Elected(0, epoch)
				time.Sleep(time.Minute) // the load goes as far as it can
			})
			g.refused("under way", put("a", "1"), kerr.NotCoordinator)
			synctest.Wait()
			g.agrees()
			g.do("read", get("a"), want)
		})
	}
}

// The mark was held when the machine was dropped: a later machine's waits have
// nothing to do with the earlier one's.
func TestParkedAcrossTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		p.hold()
		old := g.start(bg, "old", ask("old", "a"))
		synctest.Wait()
		g.r.Resigned(0)
		old.fails(kerr.NotCoordinator)
		g.r.Elected(0, 0)
		synctest.Wait()
		read := g.start(bg, "read behind the end of the load", get("a"))
		synctest.Wait()
		write := g.start(bg, "write", ask("new", "b"))
		synctest.Wait()
		read.waits()
		p.commit(1)
		read.is("old") // it was written: that its caller was refused means maybe
		write.waits()
		p.free()
		write.is(nil)
		if g.said() != "new" {
			t.Errorf("effects: %s", g.said())
		}
	})
}

// A load under way when the term ends stops, and leaves nothing.
func TestLostWhileLoading(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(g *rig, p *part)
		want error
	}{
		{"not told", func(_ *rig, p *part) { p.follow(1) }, kerr.NotCoordinator},
		{"fenced", func(_ *rig, p *part) { p.lead(1) }, kerr.NotCoordinator},
		{"told", func(g *rig, p *part) { p.follow(1); g.r.Resigned(0) }, kerr.NotCoordinator},
		{"elected again", func(g *rig, p *part) { p.lead(1); g.r.Elected(0, 1) }, nil},
		{"back in the same term", func(g *rig, p *part) { g.r.Resigned(0); g.r.Elected(0, 0) }, nil},
	} {
		for _, at := range []struct {
			point   string
			records int
		}{{atLeading, 100}, {atBounds, 100}, {atRead, 100}, {atBounds, 0}} {
			t.Run(fmt.Sprintf("%s/%s/%d", c.name, at.point, at.records), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { lostWhileLoading(t, at.point, at.records, c.lose, c.want) })
			})
		}
	}
}

func lostWhileLoading(t *testing.T, point string, records int, lose func(*rig, *part), want error) {
	g, p := active(t)
	for i := range records {
		g.do("put", put(fmt.Sprint(i), string(make([]byte, 100))), "")
	}
	g.r.Resigned(0)
	p.at(point, func() { lose(g, p); time.Sleep(time.Second) })
	g.r.Elected(0, 0)
	time.Sleep(time.Minute)
	synctest.Wait()
	err := g.r.Ready(0)
	if err == nil && want != nil { // nothing was left to be read, and nothing was asked since
		_, err = g.r.Do(bg, 0, get("a"))
	}
	if !errors.Is(err, want) {
		t.Errorf("ready: %v, want %v", err, want)
	}
	if want == nil {
		g.agrees()
		if s := g.r.shards[0]; s.live.term != s.term {
			t.Errorf("a machine of term %v in term %v", s.live.term, s.term)
		}
	}
	if n := g.count("dropped"); n > 0 {
		t.Errorf("the end of a term counts as a failure")
	}
}

func TestLostDuringBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		p.set(func() { p.fail = kerr.KafkaStorageError })
		g.refused("failed append", put("a", "1"), kerr.NotCoordinator)
		g.refused("backs off", get("a"), kerr.CoordinatorLoadInProgress)
		g.r.Resigned(0)
		g.refused("resigned", get("a"), kerr.NotCoordinator)
		time.Sleep(time.Hour)
		synctest.Wait()
		if g.loads() != 1 {
			t.Errorf("%d loads", g.loads())
		}
		g.r.Elected(0, 0)
		synctest.Wait()
		p.set(func() { p.fail = kerr.KafkaStorageError })
		g.refused("failed append", put("a", "1"), kerr.NotCoordinator)
		p.lead(2)
		g.r.Elected(0, 2) // a new term does not wait for the back-off of the old one
		synctest.Wait()
		g.do("read", get("a"), "")
		g.agrees()
	})
}

// A failed append leaves the machine ahead of its log: it is made anew, and
// nobody was answered.
func TestAppendFails(t *testing.T) {
	for _, err := range []error{kerr.NotEnoughReplicas, kerr.KafkaStorageError, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			g, p := active(t)
			g.do("before", put("a", "1"), "")
			held := g.start(bg, "held by the machine", wait())
			synctest.Wait()
			p.hold()
			parked := g.start(bg, "parked", put("a", "2"))
			synctest.Wait()
			p.set(func() { p.fail = err })
			g.refused("failed", ask("said", "b"), kerr.NotCoordinator)
			parked.fails(kerr.NotCoordinator)
			held.fails(kerr.NotCoordinator)
			g.refused("backs off", get("a"), kerr.CoordinatorLoadInProgress)
			p.free()
			time.Sleep(minBackOff)
			synctest.Wait()
			g.do("read", get("b"), "")
			g.do("what was parked was written", get("a"), "2")
			g.agrees()
			if g.said() != "" || g.count("dropped") != 1 {
				t.Errorf("effects %q, dropped %v times", g.said(), g.count("dropped"))
			}
		})
	}
}

// A panic in a step, in a timer, or in an effect drops the machine; nobody is
// answered twice, so the next callers get answers of their own.
func TestPanics(t *testing.T) {
	boom := func(*toy, time.Time, Token) Out { panic("boom") }
	for _, c := range []struct {
		name string
		do   func(g *rig)
	}{
		{"step", func(g *rig) { g.refused("panic", act(boom), kerr.NotCoordinator) }},
		{"query", func(g *rig) { g.refused("panic", look(boom), kerr.NotCoordinator) }},
		{"nobody asked", func(g *rig) { g.r.Broadcast(act(boom)) }},
		{"timer", func(g *rig) {
			g.set(func() { g.onFire = func(*toy, time.Time, TimerKey) Out { panic("fire") } })
			g.refused("timer", setTimer("x", 0), kerr.NotCoordinator)
		}},
		{"effect", func(g *rig) {
			g.set(func() { g.onEffect = func(string) { panic("effect") } })
			for range 20 {
				g.do("effect", act(func(m *toy, now time.Time, to Token) Out { // the reply is out before the effect
					return Out{Replies: []Reply{{to, "out"}}, Effects: []Effect{"said"}}
				}), "out")
				time.Sleep(2 * maxBackOff)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, 1, nil)
				g.r.Elected(0, 0)
				synctest.Wait()
				held := g.start(bg, "held by the machine", wait())
				synctest.Wait()
				g.parts[0].at(atAdmit, func() { time.Sleep(time.Second) }) // others come to the same run
				var same []*going
				go func() { c.do(g) }()
				synctest.Wait()
				for i := range 3 {
					same = append(same, g.start(bg, "later", put(fmt.Sprint(i), "x")))
				}
				time.Sleep(50 * maxBackOff)
				synctest.Wait()
				held.fails(kerr.NotCoordinator)
				for _, o := range same {
					if a := <-o.done; a.err == nil {
						g.do("acknowledged", get("0"), "x")
					}
				}
				var wg sync.WaitGroup
				for n := range 4 {
					wg.Go(func() {
						for i := range 50 {
							was := ""
							if i > 0 {
								was = fmt.Sprint(i - 1)
							}
							g.do("an answer of its own", put(fmt.Sprint("k", n), fmt.Sprint(i)), was)
						}
					})
				}
				wg.Wait()
				g.agrees()
			})
		})
	}
}

// Compaction took the last records before an empty active segment: the log ends
// in a gap, and the load with it.
func TestLoadEndsInGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		g.do("put", put("a", "1"), "")
		g.r.Resigned(0)
		p.set(func() { p.gap, p.held = 5, true })
		g.r.Elected(0, 0)
		synctest.Wait()
		read := g.start(bg, "read", get("a"))
		synctest.Wait()
		read.waits() // for the end of the log, gap and all
		p.commit(6)
		read.is("1")
	})
}

// A read that finds nothing, because the role changed beneath it, is no end of the log.
func TestLoadLooksTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		g.do("put", put("a", "1"), "")
		g.r.Resigned(0)
		p.set(func() { p.blank = true })
		g.r.Elected(0, 0)
		synctest.Wait()
		g.do("read", get("a"), "1")
	})
}

// Retention, or DeleteRecords, moves the log's start past the load.
func TestStartMovesWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		for i := range 10 {
			g.do("put", put("a", fmt.Sprint(i)), map[bool]string{true: "", false: fmt.Sprint(i - 1)}[i == 0])
		}
		g.r.Resigned(0)
		p.at(atRead, func() { p.set(func() { p.start = 7 }) })
		g.r.Elected(0, 0)
		synctest.Wait()
		g.do("read", get("a"), "9")
		if got := g.toy().records; !slices.Equal(got, []string{"a=7", "a=8", "a=9"}) {
			t.Errorf("loaded %v", got)
		}
	})
}
