package replica

import (
	"math"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/storage"
)

func TestThrottle(t *testing.T) {
	at := time.Unix(1000, 0)
	th := NewThrottle(1000)
	if d := th.Wait(at); d != 0 {
		t.Fatalf("at first %v", d)
	}
	th.Took(1000) // what an idle second saved up
	if d := th.Wait(at); d < time.Millisecond || d > 2*time.Millisecond {
		t.Errorf("spent: %v", d)
	}
	th.Took(499)
	if d := th.Wait(at); d != 500*time.Millisecond {
		t.Errorf("half a second in debt: %v", d)
	}
	if d := th.Wait(at.Add(501 * time.Millisecond)); d != 0 {
		t.Errorf("after it: %v", d)
	}
	th.Took(1 << 20)
	if d := th.Wait(at.Add(time.Second)); d != throttleBurst {
		t.Errorf("another rate must be noticed: %v", d)
	}
	th.SetRate(2000)
	if d := th.Wait(at.Add(time.Second)); d != 0 {
		t.Errorf("debt of another rate: %v", d)
	}
	th.SetRate(0)
	if d := th.Wait(at.Add(time.Hour)); d != throttleBurst {
		t.Errorf("at no bytes a second: %v", d)
	}
	th.SetRate(math.MaxInt64)
	th.Took(math.MaxInt64)
	if d := th.Wait(at); d != 0 {
		t.Errorf("without a bound: %v", d)
	}
	// Over time it is the rate, whatever the portions are.
	th.SetRate(1000)
	sent, now := 0, at.Add(2*time.Hour)
	for end := now.Add(time.Minute); now.Before(end); {
		if d := th.Wait(now); d > 0 {
			now = now.Add(d)
			continue
		}
		th.Took(700)
		sent += 700
	}
	if sent < 59_000 || sent > 62_000 {
		t.Errorf("%d bytes in a minute at 1000 a second", sent)
	}
}

func TestThrottledReplicas(t *testing.T) {
	p := partitionOn(t, newDisk(), false) // t-0 of broker 1
	for _, c := range []struct {
		list []string
		want bool
	}{
		{nil, false}, {[]string{"*"}, true}, {[]string{"0:1"}, true}, {[]string{"1:1", "0:2"}, false}, {[]string{"7:7", "0:1"}, true},
	} {
		r := testRules()
		r.ThrottledLeaders = c.list
		p.configure(storage.DefaultConfig(), r)
		if leader, follower := p.Throttled(); leader != c.want || follower {
			t.Errorf("leaders %q: %v, %v", c.list, leader, follower)
		}
		r.ThrottledLeaders, r.ThrottledFollowers = nil, c.list
		p.configure(storage.DefaultConfig(), r)
		if leader, follower := p.Throttled(); leader || follower != c.want {
			t.Errorf("followers %q: %v, %v", c.list, leader, follower)
		}
	}
}
