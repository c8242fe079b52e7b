package replica

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Throttle bounds the bytes a second of replicas that are named to be throttled
// (KIP-73): as leaders, or as followers. Nothing is cut short by it: what goes
// out goes whole, and what was too much is made up for by waiting. Its methods
// may be called from any goroutine.
type Throttle struct {
	mu   sync.Mutex
	rate float64 // bytes a second; +Inf: no bound
	left float64 // that may go out at once; below 0 is to be made up for
	at   time.Time
}

// throttleBurst is for how long an idle throttle saves up, and the longest Wait:
// another rate is noticed after that.
const throttleBurst = time.Second

// NewThrottle bounds by bytesPerSecond; math.MaxInt64 is no bound.
func NewThrottle(bytesPerSecond int64) *Throttle {
	t := &Throttle{}
	t.SetRate(bytesPerSecond)
	return t
}

// SetRate changes the rate; what was too much at another one is forgiven.
func (t *Throttle) SetRate(bytesPerSecond int64) {
	rate := float64(bytesPerSecond)
	if bytesPerSecond == math.MaxInt64 {
		rate = math.Inf(1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if rate != t.rate {
		t.rate, t.left, t.at = rate, rate*throttleBurst.Seconds(), time.Time{}
	}
}

// Wait is how long nothing may go out from now on: 0 where something may, and at
// most throttleBurst.
func (t *Throttle) Wait(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if math.IsInf(t.rate, 1) {
		return 0
	}
	if t.at.IsZero() {
		t.at = now
	}
	if d := now.Sub(t.at); d > 0 {
		t.left, t.at = min(t.left+d.Seconds()*t.rate, t.rate*throttleBurst.Seconds()), now
	}
	if t.left > 0 {
		return 0
	}
	need := time.Duration(math.MaxInt64)
	if t.rate > 0 {
		need = time.Duration((1 - t.left) / t.rate * float64(time.Second))
	}
	return min(max(need, time.Millisecond), throttleBurst)
}

// Took says that n bytes went out.
func (t *Throttle) Took(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !math.IsInf(t.rate, 1) {
		t.left -= float64(n)
	}
}

// Throttled reports whether the topic's settings name this replica to be
// throttled, when it leads and when it follows.
func (p *Partition) Throttled() (asLeader, asFollower bool) {
	r := p.rules.Load()
	return r.slowLeader, r.slowFollower
}

// InSync reports whether this replica is in the committed ISR.
func (p *Partition) InSync() bool { return p.inSync.Load() }

// setRules takes over rules, and what they say of this replica.
func (p *Partition) setRules(r Rules) {
	pair := strconv.Itoa(int(p.tp.Partition)) + ":" + strconv.Itoa(int(p.self))
	names := func(list []string) bool { return slices.Contains(list, "*") || slices.Contains(list, pair) }
	r.slowLeader, r.slowFollower = names(r.ThrottledLeaders), names(r.ThrottledFollowers)
	p.rules.Store(&r)
}
