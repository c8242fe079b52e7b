package api

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Waits of one length that begin at any time end together, never early and
// never late by more than a 64th.
func TestWaitsEndTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	begin := time.Unix(1_700_000_000, 0)
	for _, wait := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 1<<31*time.Millisecond - 1} {
		ends := map[time.Time]bool{}
		const waits, over = 1000, 64 // waits that begin over the time of a 64th of them
		for range waits {
			now := begin.Add(time.Duration(rng.Int64N(int64(wait/over) + 1)))
			got := onGrid(now, wait)
			if got < wait || got > wait+wait/64 {
				t.Fatalf("%v became %v", wait, got)
			}
			ends[now.Add(got)] = true
		}
		if len(ends) > 4 {
			t.Errorf("%v: %d waits end at %d times", wait, waits, len(ends))
		}
	}
	for _, wait := range []time.Duration{0, 1, 63} {
		if got := onGrid(begin, wait); got != wait {
			t.Errorf("%d ns became %d", wait, got)
		}
	}
}
