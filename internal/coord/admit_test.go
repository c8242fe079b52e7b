package coord

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func (p *part) refuse(err error) { p.set(func() { p.admit = err }) }

// While the partition cannot be written, what would write is refused with the
// machine untouched, and what only looks is answered (safety 24).
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		g.do("before", put("a", "1"), "")
		for _, why := range []error{kerr.NotEnoughReplicas, kerr.KafkaStorageError} {
			p.refuse(why)
			g.refused("write", put("a", "2"), kerr.CoordinatorNotAvailable)
			g.refused("the reason", put("a", "2"), why)
			g.do("read", get("a"), "1")
		}
		p.refuse(nil)
		g.do("after", put("a", "2"), "1")
		g.agrees()
		if g.loads() != 1 {
			t.Errorf("%d loads", g.loads())
		}
	})
}

// A machine that was loaded while its partition cannot be written begins once
// it can: no record is asked of it before, and nothing is loaded again.
func TestBeginWaitsForAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		g := newRig(t, 1, func(c *Config) {
			c.Begin = func() Command {
				told++
				return put("begun", fmt.Sprint(told))
			}
		})
		g.set(func() {
			g.onLoaded = func(m *toy, _ time.Time, _ Token) Out { return Out{Records: []Record{m.emit("loaded", "1")}} }
		})
		p := g.parts[0]
		p.refuse(kerr.NotEnoughReplicas)
		g.r.Elected(0, 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		g.refused("write", put("a", "1"), kerr.CoordinatorNotAvailable)
		g.do("read of a machine that has not begun", get("a"), "")
		g.r.Broadcast(put("told", "1"))
		synctest.Wait()
		if g.loads() != 1 || p.log.Next() > 0 || told > 0 {
			t.Errorf("%d loads, log end %d, begun %d times", g.loads(), p.log.Next(), told)
		}
		p.refuse(nil)
		time.Sleep(frozen) // without anybody who asks
		synctest.Wait()
		g.do("read", get("begun"), "1")
		if got := g.toy().records; !slices.Equal(got, []string{"loaded=1", "begun=1"}) {
			t.Errorf("records %v", got)
		}

		// Later, a broadcast that could not be told is made up for.
		p.refuse(kerr.KafkaStorageError)
		g.r.Broadcast(put("told", "2"))
		g.r.Broadcast(put("told", "3"))
		synctest.Wait()
		g.do("read", get("told"), "")
		p.refuse(nil)
		g.do("write", put("a", "1"), "")
		g.do("read", get("begun"), "2")
		g.do("read", get("told"), "")
		if g.loads() != 1 || g.count("dropped") > 0 {
			t.Errorf("%d loads", g.loads())
		}
		g.agrees()
	})
}

// Broadcast reaches every active machine, in the order of the calls, and one
// that loads through Begin.
func TestBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var world atomic.Int64
		tell := func(n int64) act {
			return func(m *toy, _ time.Time, _ Token) Out {
				m.fired = append(m.fired, fmt.Sprint(n))
				return Out{}
			}
		}
		g := newRig(t, 3, func(c *Config) {
			c.Begin = func() Command { return tell(world.Load()) }
		})
		next := func() { g.r.Broadcast(tell(world.Add(1))) }
		g.r.Elected(0, 0)
		synctest.Wait()
		g.parts[1].at(atBounds, func() { time.Sleep(time.Second) })
		g.r.Elected(1, 0)
		synctest.Wait()
		next()
		next()
		time.Sleep(time.Second)
		synctest.Wait()
		next()
		synctest.Wait()
		for i, want := range []string{"0 1 2 3", "2 3"} {
			if heard := strings.Join(g.toys[int32(i)][0].fired, " "); heard != want {
				t.Errorf("shard %d heard %s, want %s", i, heard, want)
			}
		}
		if _, made := g.toys[2]; made {
			t.Error("a shard that is not led has a machine")
		}
	})
}

// An append that finds no room drops the machine, and nothing is written for a
// while; but what is there can be read at once, and everything goes on by itself.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := active(t)
		g.do("before", put("a", "1"), "")
		for n := 1; n <= 9; n++ {
			p.set(func() { p.fail = fmt.Errorf("%w: %w", vfs.ErrNoSpace, kerr.KafkaStorageError) })
			g.refused("no room", put("a", "2"), kerr.NotCoordinator)
			synctest.Wait()
			g.do("read", get("a"), "1")
			p.set(func() { p.fail = nil })
			g.refused("soon after", put("a", "2"), kerr.CoordinatorNotAvailable)
			g.do("read", get("a"), "1")
			if g.loads() != 1+n {
				t.Errorf("%d loads after %d failures", g.loads(), n)
			}
			time.Sleep(maxBackOff)
		}
		g.do("after", put("a", "2"), "1")
		g.agrees()
	})
}
