package server

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Waits of one length that begin at any time end together, never early and
// never late by more than a 64th.
func TestWaitsEndTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	begin := 1_700_000 * time.Second
	for _, wait := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 1<<31*time.Millisecond - 1} {
		ends := map[time.Duration]bool{}
		const waits, over = 1000, 64 // waits that begin over the time of a 64th of them
		for range waits {
			now := begin + time.Duration(rng.Int64N(int64(wait/over)+1))
			end := grid(now, wait)
			if end < now+wait || end > now+wait+wait/64 {
				t.Fatalf("%v became %v", wait, end-now)
			}
			ends[end] = true
		}
		if len(ends) > 4 {
			t.Errorf("%v: %d waits end at %d times", wait, waits, len(ends))
		}
	}
	for _, wait := range []time.Duration{0, 1, 63} {
		if end := grid(begin, wait); end != begin+wait {
			t.Errorf("%d ns became %d", wait, end-begin)
		}
	}
}
