package coord

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// firing notes when timers fire, in seconds since the begin.
type firing struct {
	g     *rig
	began time.Time
	seen  []string
}

func (g *rig) notes() *firing {
	f := &firing{g: g, began: time.Now()}
	g.set(func() {
		g.onFire = func(_ *toy, now time.Time, key TimerKey) Out {
			g.set(func() { f.seen = append(f.seen, fmt.Sprintf("%s%s@%g", key.ID, key.Sub, now.Sub(f.began).Seconds())) })
			return Out{}
		}
	})
	return f
}

func (f *firing) want(what, want string) {
	f.g.t.Helper()
	synctest.Wait()
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if got := strings.Join(f.seen, " "); got != want {
		f.g.t.Errorf("%s: fired %q, want %q", what, got, want)
	}
	f.seen = nil
}

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		f := g.notes()
		g.r.Elected(0, 0)
		synctest.Wait()
		set := func(id string, d time.Duration) {
			t.Helper()
			g.do("set "+id, setTimer(id, d), nil)
		}
		drop := func(id string) { t.Helper(); g.do("drop "+id, dropTimer(id), nil) }

		set("a", 3*time.Second)
		set("b", time.Second)
		set("c", 2*time.Second)
		set("d", 4*time.Second)
		set("c", 5*time.Second) // later
		set("d", 2*time.Second) // earlier
		drop("a")
		drop("none")
		time.Sleep(10 * time.Second)
		f.want("replaced and cancelled", "b@1 d@2 c@5")

		set("a", 0) // at 10
		f.want("due at once", "a@10")
		set("a", -time.Hour)
		f.want("long due", "a@10")

		set("a", time.Second)
		set("b", time.Second)
		drop("a")
		set("a", time.Second)
		drop("a")
		time.Sleep(time.Minute)
		f.want("set again after a cancel", "b@11")

		// The alarm that is pending is for a timer that is gone; the next one is later.
		set("a", time.Second) // at 70
		set("b", 3*time.Second)
		drop("a")
		time.Sleep(time.Minute)
		f.want("the alarm goes off for nothing", "b@73")
	})
}

// A timer that is due, and replaced or cancelled by a command of the same run,
// never reaches the machine (safety 25).
func TestNoStaleTimer(t *testing.T) {
	for _, c := range []struct {
		cmd  act
		want string
	}{{dropTimer("a"), ""}, {setTimer("a", time.Minute), "a@65"}, {setTimer("a", 0), "a@5"}} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, 2, func(c *Config) { c.Workers = 1 })
			f := g.notes()
			g.r.Elected(0, 0)
			g.parts[1].at(atAdmit, func() { time.Sleep(5 * time.Second) }) // keeps the worker
			synctest.Wait()
			g.do("set", setTimer("a", time.Second), nil)
			g.r.Elected(1, 0)
			synctest.Wait()
			time.Sleep(2 * time.Second)
			g.do("replace", c.cmd, nil)
			time.Sleep(2 * time.Minute)
			f.want("replaced when it was due", c.want)
		})
	}
}

// Timers of a machine that is gone do not reach the next one.
func TestTimersEndWithMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		f := g.notes()
		g.r.Elected(0, 0)
		synctest.Wait()
		g.do("set", setTimer("a", time.Second), nil)
		alarm := g.r.shards[0].live.timers.alarm
		g.r.Resigned(0)
		if alarm.Stop() {
			t.Error("the alarm goes on")
		}
		g.r.Elected(0, 0)
		time.Sleep(time.Minute)
		f.want("after a reload", "")
		g.do("set", setTimer("a", time.Second), nil)
		g.refused("panic", act(func(*toy, time.Time, Token) Out { panic("boom") }), kerr.NotCoordinator)
		time.Sleep(time.Minute)
		f.want("after a panic", "")
		g.do("set", setTimer("a", time.Second), nil)
		g.parts[0].at(atAppend, func() { g.r.Resigned(0); g.r.Elected(0, 0) })
		g.refused("resigned in a run", put("a", "1"), kerr.NotCoordinator)
		time.Sleep(time.Minute)
		f.want("after a resignation in a run", "")
	})
}

// While the partition cannot be written no timer fires, nor for a while after
// the last refusal: whoever was not heard gets that long.
func TestFrozenTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		f := g.notes()
		p := g.parts[0]
		g.r.Elected(0, 0)
		synctest.Wait()
		g.do("set", setTimer("a", time.Second), nil)
		g.do("set", setTimer("b", 44*time.Second), nil)
		g.do("set", setTimer("c", 70*time.Second), nil)
		p.refuse(kerr.NotEnoughReplicas)
		for range 41 { // a member that is not heard
			time.Sleep(time.Second)
			g.refused("heartbeat", setTimer("b", 45*time.Second), kerr.CoordinatorNotAvailable)
		}
		f.want("frozen", "")
		p.refuse(nil) // at 41
		time.Sleep(frozen - time.Second)
		f.want("not yet", "")
		g.do("heartbeat", setTimer("b", 45*time.Second), nil) // at 50
		time.Sleep(2 * time.Minute)
		f.want("thawed", "a@51 c@70 b@95")
	})
}

// A term that ends while a run sets the alarm: the race detector sees who touches it.
func TestAlarmBesideEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		for i := range 200 {
			g.r.Elected(0, 0)
			synctest.Wait()
			o := g.start(bg, "timers", act(func(m *toy, now time.Time, to Token) (out Out) {
				go g.r.Resigned(0)
				for i := range 100 {
					out.Timers = append(out.Timers, Timer{TimerKey{ID: fmt.Sprint(i)}, now.Add(time.Hour)})
				}
				out.Replies = []Reply{{to, nil}}
				return out
			}))
			if a := <-o.done; a.err != nil && !errors.Is(a.err, kerr.NotCoordinator) {
				t.Errorf("%d: %v", i, a.err)
			}
			synctest.Wait()
		}
	})
}

// Without anybody who asks, timers that were frozen fire in the end.
func TestFrozenAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		f := g.notes()
		p := g.parts[0]
		g.r.Elected(0, 0)
		synctest.Wait()
		g.do("set", setTimer("a", time.Second), nil)
		p.refuse(kerr.NotEnoughReplicas)
		time.Sleep(25 * time.Second)
		f.want("frozen", "")
		p.refuse(nil)
		time.Sleep(time.Minute)
		f.want("thawed", "a@31")
	})
}

// What a timer brings goes the way of what a command brings; more timers than fit
// in a run fire in the next, and commands come between.
func TestFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		p := g.parts[0]
		g.set(func() {
			g.onFire = func(m *toy, _ time.Time, key TimerKey) (out Out) {
				out = Out{Records: []Record{m.emit(key.ID, "fired")}, Effects: []Effect{"effect"}}
				for _, w := range m.waiting {
					out.Replies = append(out.Replies, Reply{w, "fired"})
				}
				m.waiting = nil
				return out
			}
		})
		g.r.Elected(0, 0)
		synctest.Wait()
		held := g.start(bg, "held", wait())
		synctest.Wait()
		g.do("set", setTimer("a", time.Second), nil)
		p.hold()
		time.Sleep(time.Second)
		synctest.Wait()
		held.waits()
		if g.said() != "" {
			t.Error("an effect before its record was committed")
		}
		p.free()
		held.is("fired")
		synctest.Wait()
		if g.said() != "effect" {
			t.Errorf("effects: %s", g.said())
		}

		many := act(func(m *toy, now time.Time, to Token) (out Out) {
			for i := range 2*timersAtOnce + 10 {
				out.Timers = append(out.Timers, Timer{TimerKey{ID: fmt.Sprint(i)}, now.Add(time.Second)})
			}
			out.Replies = []Reply{{to, nil}}
			return out
		})
		g.do("many", many, nil)
		runs := len(p.appends())
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(p.appends()) - runs; n < 3 || len(g.toy().records) != 1+2*timersAtOnce+10 {
			t.Errorf("%d appends, %d records", n, len(g.toy().records))
		}
		g.agrees()
	})
}

// A heap of timers against the plainest form of one.
func TestTimerHeap(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		x := newTimers(func() {})
		plain := map[TimerKey]time.Time{}
		now := time.Now()
		for step := range 300 {
			if rng.IntN(3) > 0 {
				key := TimerKey{ID: fmt.Sprint(rng.IntN(20))}
				at := now.Add(time.Duration(rng.IntN(100)) * time.Second)
				if rng.IntN(4) == 0 {
					at = time.Time{}
				}
				x.set(Timer{key, at})
				if plain[key] = at; at.IsZero() {
					delete(plain, key)
				}
				continue
			}
			now = now.Add(time.Duration(rng.IntN(20)) * time.Second)
			var last time.Time
			x.round++
			for {
				key, due := x.next(now)
				if !due {
					break
				}
				at, there := plain[key]
				if !there || at.After(now) || at.Before(last) {
					t.Fatalf("seed %d, step %d: %v fired, set for %v (%t), now %v", seed, step, key, at, there, now)
				}
				last = at
				delete(plain, key)
			}
			for key, at := range plain {
				if !at.After(now) {
					t.Fatalf("seed %d, step %d: %v is due and did not fire", seed, step, key)
				}
			}
			if len(x.byKey) != len(plain) || len(x.heap) != len(plain) {
				t.Fatalf("seed %d, step %d: %d timers, want %d", seed, step, len(x.byKey), len(plain))
			}
		}
	}
}

// A machine that sets a timer for now goes on in the next run: commands that
// wait come before.
func TestTimerForNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		g.r.Elected(0, 0)
		synctest.Wait()
		const rounds = 50
		slices := 0
		g.set(func() {
			g.onFire = func(m *toy, now time.Time, key TimerKey) (out Out) {
				if slices++; slices < rounds {
					out.Timers = []Timer{{key, now}}
				}
				if slices == 2 { // while it is at it, somebody comes
					go func() {
						_, _ = g.r.Do(bg, 0, act(func(_ *toy, _ time.Time, to Token) Out {
							if slices > 3 {
								t.Errorf("a command waited for %d slices", slices-2)
							}
							return Out{Replies: []Reply{{to, nil}}}
						}))
					}()
					time.Sleep(fireFor)
				}
				return out
			}
		})
		g.do("set", setTimer("a", 0), nil)
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if slices != rounds {
			t.Errorf("%d slices, want %d", slices, rounds)
		}
	})
}

// After a time in which the process did not run, time-outs wait for those who
// could not be heard; whoever runs first notices.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		f := g.notes()
		g.r.Elected(0, 0)
		synctest.Wait()
		time.Sleep(100 * time.Millisecond) // between two ticks of the watch
		g.do("set", setTimer("a", 300*time.Millisecond), nil)
		g.do("set", setTimer("b", 20*time.Second), nil)
		sleeps := func(d time.Duration) {
			then := time.Now().Add(-d)
			g.r.sleep.alive.Store(&then)
		}
		sleeps(asleep)
		time.Sleep(time.Second)
		f.want("after a sleep", "")
		time.Sleep(10 * time.Second)
		f.want("thawed", "a@11")
		g.do("set", setTimer("a", 300*time.Millisecond), nil)
		sleeps(asleep / 2)
		time.Sleep(time.Second)
		f.want("a pause", "a@11.4")
		time.Sleep(time.Minute)
		f.want("the rest", "b@20.1")
	})
}

// taken is a command that wants to be told when it waits.
type taken struct {
	act
	parked int
}

func (c *taken) Parked() { c.parked++ }

// Who waits for a reply is told that nothing of the command is needed any more;
// who is answered at once is not.
func TestParker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		g.r.Elected(0, 0)
		synctest.Wait()
		at := &taken{act: put("a", "1")}
		g.do("answered", at, "")
		waiting := &taken{act: wait()}
		o := g.start(bg, "waits", waiting)
		synctest.Wait()
		if at.parked != 0 || waiting.parked != 1 {
			t.Errorf("told %d and %d times", at.parked, waiting.parked)
		}
		g.do("wake", wake(), 1)
		o.is("woken")
		if waiting.parked != 1 {
			t.Errorf("told %d times", waiting.parked)
		}
	})
}
