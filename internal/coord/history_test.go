package coord

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

var (
	firstSeed = flag.Uint64("seed", 1, "seed of the first random history")
	seedCount = flag.Uint64("seeds", 12, "number of random histories; of crashes, four times as many")
)

// TestHistories lets clients work while their shard's partition goes through
// whatever it may: other leaders that cut off what was not committed and write
// themselves, held marks, refusals, failed appends, panics, clients that leave.
// Each caller gets its own answer; what was acknowledged or read, and what had an
// effect, is in the log in the end, at the place where it was seen; what was
// refused is not; effects came in the log's order.
func TestHistories(t *testing.T) {
	for i := range *seedCount {
		seed := *firstSeed + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newHistory(t, seed).run() })
		})
	}
}

type history struct {
	t   *testing.T
	rng *rand.Rand // of the one that makes trouble
	g   *rig
	p   *part

	mu      sync.Mutex
	acked   []string
	refused []string
	sights  []sight
	least   int // records that every read from now on has to see
}

// sight is what a read saw: so many records, and the last of them.
type sight struct {
	n    int
	last string
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 3))}
	h.g = newRig(t, 1, func(c *Config) {
		c.MaxBatchBytes = 100 + h.rng.IntN(500)
		c.MaxQueued = 3 + h.rng.IntN(20)
		c.Begin = func() Command {
			return act(func(m *toy, now time.Time, _ Token) Out {
				return Out{Timers: []Timer{{TimerKey{ID: "tick"}, now.Add(time.Second)}}}
			})
		}
	})
	h.p = h.g.parts[0]
	tick := 0
	h.g.set(func() {
		h.g.onFire = func(m *toy, now time.Time, key TimerKey) Out {
			tick++
			v := fmt.Sprint("tick", tick)
			return Out{
				Records: []Record{m.emit("tick", v)}, Effects: []Effect{v},
				Timers: []Timer{{key, now.Add(time.Second)}},
			}
		}
	})
	return h
}

func (h *history) run() {
	ctx, stop := context.WithTimeout(h.t.Context(), time.Minute)
	defer stop()
	h.g.r.Elected(0, 0)
	var clients sync.WaitGroup
	for c := range 6 {
		rng := rand.New(rand.NewPCG(h.rng.Uint64(), 4))
		clients.Go(func() { h.client(ctx, rng, c) })
	}
	for ctx.Err() == nil {
		time.Sleep(time.Duration(h.rng.IntN(1000)) * time.Millisecond)
		h.trouble()
	}
	h.p.refuse(nil)
	h.p.set(func() { h.p.fail = nil })
	h.p.free()
	clients.Wait()
	h.elect(h.p.epoch + 1)
	time.Sleep(2 * maxBackOff)
	synctest.Wait()
	h.g.do("the end", put("end", "end"), "")
	h.g.agrees()
	h.check()
}

// client writes and reads until the end.
func (h *history) client(ctx context.Context, rng *rand.Rand, c int) {
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
		ctx, stop := ctx, func() {}
		if rng.IntN(3) == 0 {
			ctx, stop = context.WithTimeout(ctx, time.Duration(rng.IntN(300))*time.Millisecond)
		}
		id := fmt.Sprintf("%d.%d", c, n)
		if rng.IntN(3) == 0 {
			h.read(ctx)
		} else {
			h.write(ctx, id, rng.IntN(3) == 0, 1+rng.IntN(3))
		}
		stop()
	}
}

func (h *history) write(ctx context.Context, id string, effect bool, records int) {
	body, err := h.g.r.Do(ctx, 0, act(func(m *toy, _ time.Time, to Token) Out {
		out := Out{Replies: []Reply{{to, id}}}
		for i := range records - 1 {
			out.Records = append(out.Records, m.emit(fmt.Sprint("k", i), id+"-"))
		}
		out.Records = append(out.Records, m.emit("k", id))
		if effect {
			out.Effects = []Effect{id}
		}
		return out
	}))
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil && body != id:
		h.t.Errorf("%s was answered with %v", id, body)
	case err == nil:
		h.acked = append(h.acked, id)
	case errors.Is(err, kerr.CoordinatorNotAvailable), errors.Is(err, kerr.CoordinatorLoadInProgress):
		h.refused = append(h.refused, id)
	case !errors.Is(err, kerr.NotCoordinator) && !errors.Is(err, ctx.Err()):
		h.t.Errorf("%s: %v", id, err)
	}
}

func (h *history) read(ctx context.Context) {
	h.mu.Lock()
	least := h.least
	h.mu.Unlock()
	body, err := h.g.r.Do(ctx, 0, look(func(m *toy, _ time.Time, to Token) Out {
		s := sight{n: len(m.records)}
		if s.n > 0 {
			s.last = m.records[s.n-1]
		}
		return Out{Replies: []Reply{{to, s}}}
	}))
	if err != nil {
		return
	}
	s := body.(sight)
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.n < least {
		h.t.Errorf("a read saw %d records, after one that saw %d", s.n, least)
	}
	h.least = max(h.least, s.n)
	h.sights = append(h.sights, s)
}

// trouble is one thing that happens to the partition or the machine.
func (h *history) trouble() {
	g, p := h.g, h.p
	switch h.rng.IntN(12) {
	case 0, 1:
		p.hold()
	case 2, 3:
		p.free()
	case 4:
		if ends := h.ends(); len(ends) > 0 {
			p.hold()
			p.commit(ends[h.rng.IntN(len(ends))])
		}
	case 5:
		p.refuse([]error{nil, kerr.NotEnoughReplicas, kerr.KafkaStorageError}[h.rng.IntN(3)])
	case 6:
		p.refuse(nil)
	case 7:
		p.set(func() { p.fail = kerr.KafkaStorageError })
	case 8:
		g.r.Broadcast(act(func(*toy, time.Time, Token) Out { panic("trouble") }))
	case 9:
		h.foreign()
	case 10:
		if h.rng.IntN(2) == 0 { // the broker takes its time to notice
			p.lead(p.epoch + 1)
			time.Sleep(time.Duration(h.rng.IntN(500)) * time.Millisecond)
		}
		h.elect(p.epoch + kafka.LeaderEpoch(h.rng.IntN(2)))
	case 11:
		points := []string{atAdmit, atLeading, atAppend, atAppended, atAwait, atAwaited, atMark, atRead, atBounds}
		pause := time.Duration(h.rng.IntN(1000)) * time.Millisecond
		p.at(points[h.rng.IntN(len(points))], func() { time.Sleep(pause) })
	}
}

func (h *history) elect(epoch kafka.LeaderEpoch) {
	h.p.lead(epoch)
	if h.rng.IntN(2) == 0 {
		h.g.r.Resigned(0)
	}
	h.g.r.Elected(0, epoch)
}

// ends are the ends of the batches that are not committed.
func (h *history) ends() (out []int64) {
	hw := h.p.HighWatermark()
	for _, b := range h.p.batches() {
		if b.NextOffset() > hw {
			out = append(out, b.NextOffset())
		}
	}
	return out
}

// foreign is a time in which another broker leads: it keeps what was committed,
// and maybe more, and writes.
func (h *history) foreign() {
	g, p := h.g, h.p
	p.follow(p.epoch + 1)
	told := h.rng.IntN(3)
	if told == 0 {
		g.r.Resigned(0)
	}
	keep := p.HighWatermark()
	if ends := h.ends(); len(ends) > 0 && h.rng.IntN(2) == 0 {
		keep = ends[h.rng.IntN(len(ends))]
	}
	old := p.batches()
	p.wipe(0)
	for _, b := range old {
		if b.NextOffset() <= keep {
			h.put(b)
		}
	}
	for range h.rng.IntN(4) {
		var b batch.Builder
		b.Append(0, []byte("foreign"), fmt.Append(nil, h.rng.Uint64()))
		built, _, err := b.Build(nil)
		if err != nil {
			h.t.Error(err)
		}
		h.put(built)
	}
	p.set(func() { p.hw = p.log.Next() }) // the other leader committed it all
	time.Sleep(time.Duration(h.rng.IntN(2000)) * time.Millisecond)
	if told == 1 {
		g.r.Resigned(0)
	}
	h.elect(p.epoch + 1)
}

func (h *history) put(b batch.Batch) {
	h.p.set(func() {
		b.SetBaseOffset(h.p.log.Next())
		if err := h.p.log.Append(b, 4096); err != nil {
			h.t.Error(err)
		}
	})
}

// check holds what was seen against the log.
func (h *history) check() {
	records := h.g.toy().records
	at := map[string]int{}
	for i, r := range records {
		_, v, _ := strings.Cut(r, "=")
		at[v] = i
	}
	for _, id := range h.acked {
		if _, there := at[id]; !there {
			h.t.Errorf("%s was acknowledged, and is lost", id)
		}
	}
	for _, id := range h.refused {
		if _, there := at[id]; there {
			h.t.Errorf("%s was refused, and is written", id)
		}
	}
	for _, s := range h.sights {
		if s.n > 0 && (s.n > len(records) || records[s.n-1] != s.last) {
			h.t.Errorf("a read saw %s in place %d", s.last, s.n)
		}
	}
	places := []int{}
	for _, e := range h.g.effects {
		i, there := at[e]
		if !there {
			h.t.Errorf("effect %s, and its record is lost", e)
		}
		places = append(places, i)
	}
	if !slices.IsSorted(places) {
		h.t.Errorf("effects in the order %v of the log", places)
	}
	if len(h.acked) == 0 || len(h.sights) == 0 {
		h.t.Errorf("%d writes, %d reads: nothing was tried", len(h.acked), len(h.sights))
	}
	h.t.Logf("%d acknowledged, %d refused, %d reads, %d effects, %d loads", len(h.acked), len(h.refused), len(h.sights), len(h.g.effects), h.g.loads())
}
