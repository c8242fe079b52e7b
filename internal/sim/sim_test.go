package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/barnabas-mq/barnabas/internal/invariant"
)

var (
	simSeed    = flag.Uint64("sim.seed", 0, "simulate this seed alone, and show what happened")
	simSeeds   = flag.Uint64("sim.seeds", 0, "how many seeds to simulate; 0: a few")
	simFirst   = flag.Uint64("sim.first", 1, "the first of them")
	simMinutes = flag.Float64("sim.minutes", 0, "simulate seeds for so long, however many those are")
	simOut     = flag.String("sim.out", "", "directory for what happened where something was wrong")
	simFast    = flag.Bool("sim.fast", false, "end with the first seed that is wrong")
)

// sums are over all seeds.
type sums struct {
	mu     sync.Mutex
	seeds  int
	wrong  []uint64
	acked  int
	faults map[string]int
}

func (s *sums) add(seed uint64, r *Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds++
	s.acked += r.Verdict.Counts.Acknowledged
	for k, n := range r.Faults {
		s.faults[k] += n
	}
	if !r.OK() {
		s.wrong = append(s.wrong, seed)
	}
}

func (s *sums) String() string {
	var faults []string
	for _, k := range slices.Sorted(maps.Keys(s.faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", k, s.faults[k]))
	}
	return fmt.Sprintf("%d seeds, %d records acknowledged; %s", s.seeds, s.acked, strings.Join(faults, ", "))
}

// Histories of three brokers under faults: nothing that was acknowledged is lost,
// doubled, reordered or changed, nothing that was told goes back, the replicas are
// equal in the end, and the cluster gets well by itself.
func TestSim(t *testing.T) {
	if *simSeed != 0 {
		r := simulate(t, *simSeed)
		t.Logf("%v\n%s", r, r.Trace)
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	if *simSeeds == 0 {
		*simSeeds = 24
		if invariant.On { // the race detector, perhaps
			*simSeeds = 4
		}
	}
	all := &sums{faults: map[string]int{}}
	var given atomic.Uint64
	end := time.Now().Add(time.Duration(*simMinutes * float64(time.Minute)))
	next := func() (seed uint64, ok bool) {
		n := given.Add(1) - 1
		ok = n < *simSeeds
		if *simMinutes > 0 {
			ok = time.Now().Before(end)
		}
		return *simFirst + n, ok && !(*simFast && t.Failed())
	}
	t.Run("seeds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("some", func(t *testing.T) {
				t.Parallel()
				for seed, ok := next(); ok; seed, ok = next() {
					t.Run(fmt.Sprint(seed), func(t *testing.T) { all.add(seed, simulate(t, seed)) })
				}
			})
		}
	})
	t.Log(all)
	if len(all.wrong) > 0 {
		slices.Sort(all.wrong)
		t.Errorf("wrong: seeds %d", all.wrong)
	}
}

// simulate makes the history of a seed.
func simulate(t *testing.T, seed uint64) *Result {
	t.Helper()
	var r *Result
	synctest.Test(t, func(*testing.T) { r = Run(Options{Seed: seed, Traced: *simSeed != 0}) })
	if n := r.Faults["sequence broken"]; n > 0 {
		t.Logf("seed %d: %d sequences broken", seed, n) // which nobody promised against
	}
	if r.OK() {
		return r
	}
	t.Errorf("seed %d: %v", seed, r)
	if *simOut == "" {
		t.Log(r.Trace)
		return r
	}
	file := filepath.Join(*simOut, fmt.Sprintf("seed-%d.txt", seed))
	if err := os.WriteFile(file, []byte(r.String()+r.Trace), 0o600); err != nil {
		t.Error(err)
	}
	return r
}
