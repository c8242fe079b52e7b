package coord

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Replies and effects come out once the high watermark has passed what led to
// them, in order; replies without records behind all that was written or loaded
// before (safety 21, 25).
func TestParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		p.hold()
		var all []*going
		for _, c := range []struct {
			what string
			cmd  Command
		}{
			{"write", ask("e1", "a")}, // offset 0
			{"read", get("a")},
			{"two records", act(func(m *toy, _ time.Time, to Token) Out { // 1, 2
				return Out{Records: []Record{m.emit("b", "1"), m.emit("b", "2")}, Replies: []Reply{{to, nil}}, Effects: []Effect{"e2"}}
			})},
			{"effect without a record", ask("e3", "")},
			{"write", ask("e4", "c")}, // 3
		} {
			all = append(all, g.start(bg, c.what, c.cmd))
			synctest.Wait()
		}
		come := func(mark int64, n int, want any, effects string) {
			t.Helper()
			p.commit(mark)
			synctest.Wait()
			for _, o := range all[:n] {
				o.is(want)
			}
			all = all[n:]
			for _, o := range all {
				o.waits()
			}
			if g.said() != effects {
				t.Errorf("at mark %d, effects: %q, want %q", mark, g.said(), effects)
			}
		}
		come(0, 0, nil, "")
		p.commit(1)
		all[0].is(nil)
		all = all[1:]
		come(1, 1, "e1", "e1")
		come(2, 0, nil, "e1")
		come(3, 2, nil, "e1 e2 e3")
		come(4, 1, nil, "e1 e2 e3 e4")

		// All at once, and then nothing is held back.
		all = append(all, g.start(bg, "write", ask("e5", "a")), g.start(bg, "write", ask("e6", "a")))
		synctest.Wait()
		p.free()
		all[0].is(nil)
		all[1].is(nil)
		g.do("read", get("c"), "e4")
		g.agrees()
	})
}

// What is held back for a long time does not hold back the machine.
func TestParkedPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		p.hold()
		const n = 200
		var all []*going
		for i := range n {
			all = append(all, g.start(bg, "write", put("a", fmt.Sprint(i))))
			synctest.Wait()
		}
		if end := p.log.Next(); end != n {
			t.Errorf("log end %d", end)
		}
		for i := range n {
			p.commit(int64(i) + 1)
			all[i].is(map[bool]string{true: "", false: fmt.Sprint(i - 1)}[i == 0])
			if i+1 < n {
				all[i+1].waits()
			}
		}
		synctest.Wait()
		if s := g.r.shards[0]; s.parked.releasing || len(s.parked.lots) > 0 {
			t.Error("the release goes on over nothing")
		}
	})
}

// An effect that has to wait is not overtaken by one that need not.
func TestEffectsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		p.hold()
		p.at(atAwaited, func() { time.Sleep(time.Second) }) // the release is slow
		first := g.start(bg, "first", ask("e1", "a"))
		synctest.Wait()
		p.commit(1)
		synctest.Wait()
		second := g.start(bg, "second", ask("e2", ""))
		first.is(nil)
		second.is(nil)
		if g.said() != "e1 e2" {
			t.Errorf("effects: %s", g.said())
		}
	})
}

// Effects of a machine that was dropped do not come out behind those of the next one.
func TestEffectsBeforeNextMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		p.hold()
		first := g.start(bg, "first", ask("e1", "a"))
		synctest.Wait()
		second := g.start(bg, "second", ask("e2", "a"))
		synctest.Wait()
		g.set(func() {
			g.onLoaded = func(m *toy, _ time.Time, _ Token) Out { return Out{Effects: []Effect{"loaded"}} }
			g.onEffect = func(e string) {
				if e == "e1" {
					g.r.Resigned(0)
					g.r.Elected(0, 0)
					time.Sleep(time.Second)
				}
			}
		})
		p.free()
		first.is(nil)
		second.is(nil)
		synctest.Wait()
		if g.said() != "e1 e2 loaded" {
			t.Errorf("effects: %s", g.said())
		}
	})
}

// The mark moves only while enough replicas are in sync: that they are fewer by
// the time somebody looks neither loses an effect nor refuses who asked.
func TestFewBehindTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		p.hold()
		write := g.start(bg, "write", ask("e1", "a"))
		synctest.Wait()
		p.set(func() { p.few, p.admit = true, kerr.NotEnoughReplicas })
		p.commit(1)
		write.is(nil)
		if g.said() != "e1" {
			t.Errorf("effects: %q", g.said())
		}
		g.do("read", get("a"), "e1")
		g.refused("write", put("a", "2"), kerr.CoordinatorNotAvailable)
		if g.count("dropped") > 0 {
			t.Error("the machine was dropped")
		}
	})
}

// A caller leaves, wherever its command is: its Do ends, the command's memory
// is used no more, and nobody gets an answer that was another's.
func TestCancel(t *testing.T) {
	memory := func(p *[]byte, d time.Duration) act { // reads what the caller owns, before and after a while
		return func(m *toy, _ time.Time, to Token) Out {
			k := string(*p)
			time.Sleep(d)
			return Out{Records: []Record{m.emit(k, string(*p))}, Replies: []Reply{{to, nil}}}
		}
	}
	for _, c := range []struct {
		name   string
		before func(g *rig) // brings the shard to where the command gets stuck
		d      time.Duration
		seen   bool // by the machine
		busy   bool // the key runs as the command comes: else it runs on the caller's goroutine, and is not to be left
	}{
		{"queued", func(g *rig) { g.parts[0].at(atAdmit, func() { time.Sleep(time.Minute) }); g.start(bg, "", get("")) }, 0, false, false},
		{"while stepped", func(*rig) {}, time.Minute, true, true},
		{"while appended", func(g *rig) { g.parts[0].at(atAppend, func() { time.Sleep(time.Minute) }) }, 0, true, true},
		{"parked", func(g *rig) { g.parts[0].hold() }, 0, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, 1, nil)
				g.r.Elected(0, 0)
				synctest.Wait()
				c.before(g)
				if c.busy {
					g.parts[0].at(atAdmit, func() { time.Sleep(time.Second) })
					g.start(bg, "", get(""))
				}
				synctest.Wait()
				ctx, stop := context.WithCancel(bg)
				mine := []byte("mine")
				gone := make(chan error)
				go func() {
					_, err := g.r.Do(ctx, 0, memory(&mine, c.d))
					copy(mine, "gone") // the race detector, too, would see a use after this
					gone <- err
				}()
				synctest.Wait()
				if c.busy {
					time.Sleep(2 * time.Second)
				}
				stop()
				if err := <-gone; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				g.parts[0].free()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				want := ""
				if c.seen {
					want = "mine"
				}
				for range 20 {
					g.do("read", get("mine"), want)
				}
				if n := len(g.toy().records); n > 0 != c.seen {
					t.Errorf("%d records", n)
				}
				g.agrees()
			})
		})
	}
}

func TestCancelWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		g.r.Elected(0, 0)
		synctest.Wait()
		ctx, stop := context.WithTimeout(bg, time.Second)
		defer stop()
		left := g.start(ctx, "leaves", wait())
		stays := g.start(bg, "stays", wait())
		left.fails(context.DeadlineExceeded)
		stays.waits()
		g.do("wake", wake(), 2)
		stays.is("woken")
		g.do("wake", wake(), 0)
	})
}

// A token is answered once; more replies to it, and those to nobody, go nowhere.
func TestReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		g.r.Elected(0, 0)
		synctest.Wait()
		g.do("twice", act(func(_ *toy, _ time.Time, to Token) Out {
			return Out{Replies: []Reply{{to, "first"}, {to, "second"}, {0, "nobody"}, {to + 1, "not born"}}}
		}), "first")
		held := g.start(bg, "held", wait())
		synctest.Wait()
		var kept Token
		g.do("who", act(func(m *toy, _ time.Time, to Token) Out {
			kept = m.waiting[0]
			return Out{Replies: []Reply{{kept, "early"}, {to, nil}}}
		}), nil)
		held.is("early")
		for i := range 10 {
			g.do("late", act(func(_ *toy, _ time.Time, to Token) Out {
				return Out{Replies: []Reply{{kept, "late"}, {to, i}}}
			}), i)
		}
		g.r.Broadcast(act(func(_ *toy, _ time.Time, to Token) Out {
			if to != 0 {
				t.Errorf("a broadcast has token %d", to)
			}
			return Out{Replies: []Reply{{to, "nobody"}}}
		}))
		synctest.Wait()
	})
}
