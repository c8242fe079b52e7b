package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

var bg = context.Background()

func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		p := g.parts[0]
		refusal := func(what string, want error) {
			t.Helper()
			g.refused(what, get("a"), want)
			if err := g.r.Ready(0); !errors.Is(err, want) {
				t.Errorf("%s: ready: %v, want %v", what, err, want)
			}
			if got := g.r.Active(); len(got) > 0 {
				t.Errorf("%s: active: %v", what, got)
			}
		}
		refusal("never elected", kerr.NotCoordinator)

		p.at(atRead, func() { t.Error("an empty log was read") })
		g.r.Elected(0, 0)
		synctest.Wait()
		if err := g.r.Ready(0); err != nil || !slices.Equal(g.r.Active(), []int32{0}) {
			t.Errorf("elected: %v, %v", err, g.r.Active())
		}
		p.at(atRead, func() {})
		g.do("first", put("a", "1"), "")
		g.do("second", put("a", "2"), "1")
		g.do("read", get("a"), "2")

		g.r.Elected(0, 0) // the same term, and an older one
		g.r.Elected(0, -1)
		synctest.Wait()
		g.do("read", get("a"), "2")
		if g.loads() != 1 {
			t.Errorf("%d loads of one term", g.loads())
		}

		g.r.Resigned(0)
		refusal("resigned", kerr.NotCoordinator)
		g.r.Resigned(0)

		p.at(atRead, func() { time.Sleep(time.Second) })
		g.r.Elected(0, 0)
		synctest.Wait()
		refusal("loading", kerr.CoordinatorLoadInProgress)
		time.Sleep(time.Second)
		synctest.Wait()
		g.do("read", get("a"), "2")

		// A new term without a word about the end of the old one.
		p.lead(3)
		g.r.Elected(0, 3)
		synctest.Wait()
		g.do("read in the new term", get("a"), "2")
		if g.loads() != 3 {
			t.Errorf("%d loads, want 3", g.loads())
		}
		g.agrees()
		g.r.Resigned(7) // which never was here
	})
}

// Elected before the partition is here, or leads: nothing is loaded, and a later call is heard.
func TestElectedTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		p := g.parts[0]
		g.set(func() { delete(g.parts, 0) })
		g.r.Elected(0, 0)
		synctest.Wait()
		g.refused("no partition", get("a"), kerr.NotCoordinator)
		g.set(func() { g.parts[0] = p })
		p.follow(0)
		g.r.Elected(0, 0)
		synctest.Wait()
		g.refused("no leader", get("a"), kerr.NotCoordinator)
		p.lead(1)
		g.r.Elected(0, 1)
		synctest.Wait()
		g.do("leads", get("a"), "")
	})
}

func TestManyShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 20
		g := newRig(t, shards, nil)
		var loading, most atomic.Int32
		for i := range int32(shards) {
			p := g.parts[i]
			p.at(atBounds, func() {
				if n := loading.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				loading.Add(-1)
			})
			g.r.Elected(i, 0)
		}
		time.Sleep(shards * time.Second)
		synctest.Wait()
		if most.Load() != loaders || len(g.r.Active()) != shards {
			t.Errorf("%d shards loaded at once, want %d; %d are active", most.Load(), loaders, len(g.r.Active()))
		}
		done := make(chan error)
		for n := range 5 * shards {
			go func() {
				_, err := g.r.Do(bg, int32(n%shards), put(fmt.Sprint(n), "x"))
				done <- err
			}()
		}
		for range 5 * shards {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		for i, toys := range g.toys {
			if len(toys) != 1 || len(toys[0].hard) != 5 || int(g.parts[i].log.Next()) != 5 {
				t.Errorf("shard %d: %d machines, %d keys, log end %d", i, len(toys), len(toys[0].hard), g.parts[i].log.Next())
			}
		}
	})
}

// A shard that is busy without end does not keep another one from its turn.
func TestBusyShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 2, func(c *Config) { c.Workers = 1 })
		fires := 0
		g.onFire = func(m *toy, now time.Time, key TimerKey) Out {
			if fires++; fires > 100*timersAtOnce {
				return Out{}
			}
			return Out{Timers: []Timer{{key, now}}} // due at once, again and again
		}
		g.r.Elected(0, 0)
		g.r.Elected(1, 0)
		synctest.Wait()
		busy := g.start(bg, "timer", setTimer("x", 0))
		if _, err := g.r.Do(bg, 1, get("a")); err != nil {
			t.Error(err)
		}
		busy.is(nil)
		synctest.Wait()
		if fires != 100*timersAtOnce+1 {
			t.Errorf("%d timers fired", fires)
		}
	})
}

// Run ends: whoever waits anywhere is told, and nothing goes on.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 3, nil)
		p := g.parts[0]
		g.r.Elected(0, 0)
		g.parts[1].at(atBounds, func() { time.Sleep(time.Hour) })
		g.r.Elected(1, 0) // loads when the end comes
		g.parts[2].at(atBounds, func() { panic("load") })
		g.r.Elected(2, 0) // waits to try again
		synctest.Wait()
		g.do("timer", setTimer("x", time.Hour), nil)
		held := g.start(bg, "held by the machine", wait())
		synctest.Wait()
		p.hold()
		parked := g.start(bg, "parked", put("a", "1"))
		synctest.Wait()
		behind := g.start(bg, "parked behind it", get("a"))
		synctest.Wait()
		var queued *going
		p.at(atAdmit, func() { // a run is under way
			queued = g.start(bg, "queued", get("a"))
			time.Sleep(time.Minute)
		})
		stepped := g.start(bg, "stepped", put("b", "1"))
		synctest.Wait()
		parked.waits()
		g.stop()
		for _, o := range []*going{held, parked, behind, queued, stepped} {
			o.fails(kerr.NotCoordinator)
		}
		g.refused("after the end", get("a"), kerr.NotCoordinator) // and nothing begins
		g.r.Elected(0, 6)
		g.r.Broadcast(put("c", "1"))
		g.r.Resigned(0)
		synctest.Wait()
		g.refused("elected after the end", get("a"), kerr.NotCoordinator)
	})
}

func TestQueueBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, func(c *Config) { c.MaxQueued = 3 })
		g.r.Elected(0, 0)
		synctest.Wait()
		g.parts[0].at(atAdmit, func() { time.Sleep(time.Second) })
		first := g.start(bg, "under way", put("a", "1"))
		synctest.Wait()
		var queued []*going
		for i := range 3 {
			queued = append(queued, g.start(bg, fmt.Sprint("queued ", i), put("a", "2")))
		}
		synctest.Wait()
		g.refused("one too many", get("a"), kerr.CoordinatorNotAvailable)
		g.r.Broadcast(put("b", "told")) // nobody could be told to come again
		first.is("")
		for _, o := range queued {
			if a := <-o.done; a.err != nil {
				t.Errorf("%s: %v", o.what, a.err)
			}
		}
		g.do("told", get("b"), "told")
		if n := g.parts[0].appends(); !slices.Equal(n, []int{1, 1}) {
			t.Errorf("batches of each append: %v: what waited together goes together", n)
		}
	})
}

// A machine that fails again and again is loaded less and less often, and after
// a quiet time soon again.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		g.onLoaded = func(*toy, time.Time, Token) Out { panic("loaded") }
		g.r.Elected(0, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		// 0, .1, .3, .7, 1.5, 3.1, 6.3, 12.7, 22.7, 32.7, 42.7, 52.7
		if g.loads() != 12 {
			t.Errorf("%d loads in a minute of failures", g.loads())
		}
		g.set(func() { g.onLoaded = nil })
		time.Sleep(maxBackOff)
		synctest.Wait()
		g.do("well again", put("a", "1"), "")
		time.Sleep(maxBackOff)
		before := g.loads()
		g.refused("panic", act(func(*toy, time.Time, Token) Out { panic("step") }), kerr.NotCoordinator)
		g.refused("waits to load", get("a"), kerr.CoordinatorLoadInProgress)
		time.Sleep(minBackOff)
		synctest.Wait()
		g.do("loaded soon", get("a"), "1")
		if g.loads() != before+1 {
			t.Errorf("%d loads", g.loads()-before)
		}
	})
}

// What makes a load fail: it is tried again, and the broker lives.
func TestLoadFails(t *testing.T) {
	for _, c := range []struct {
		name string
		hurt func(g *rig)
	}{
		{"panic in Apply", func(g *rig) { g.boom.Store(true) }},
		{"panic of the partition", func(g *rig) { g.parts[0].at(atBounds, func() { panic("bounds") }) }},
		{"corrupt read", func(g *rig) { g.parts[0].set(func() { g.parts[0].rot = true }) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, 1, nil)
				g.r.Elected(0, 0)
				synctest.Wait()
				g.do("record", put("boom", "1"), "")
				g.r.Resigned(0)
				c.hurt(g)
				g.r.Elected(0, 0)
				synctest.Wait()
				g.refused("not loaded", get("boom"), kerr.CoordinatorLoadInProgress)
				g.boom.Store(false)
				time.Sleep(minBackOff)
				synctest.Wait()
				g.do("loaded", get("boom"), "1")
				if n := g.count("dropped"); n != 1 {
					t.Errorf("dropped %v times", n)
				}
			})
		})
	}
}

// A record that cannot be understood is never skipped.
func TestLoadRefusesRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		g.r.Elected(0, 0)
		synctest.Wait()
		g.do("record", put("odd", "1"), "")
		g.r.Resigned(0)
		g.r.Elected(0, 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		g.refused("odd record", get("odd"), kerr.CoordinatorLoadInProgress)
		g.r.Resigned(0)
		g.refused("given up", get("odd"), kerr.NotCoordinator)
	})
}
