package metastore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

const ttl = 9 * time.Second

// bubble is a session over a store with faults, in fake time.
type bubble struct {
	*testing.T
	mem      *metastore.Mem
	link     *metastore.Faulty
	s        *metastore.Session
	position atomic.Int64
	stale    atomic.Int64
	skew     atomic.Int64 // sleep of the machine: the session's clock runs, timers do not
	slow     atomic.Int64 // percent by which the session's clock runs behind the store's
	start    time.Time
	cancel   context.CancelFunc
	ended    chan error
}

func (b *bubble) clock() time.Duration {
	past := time.Since(b.start)
	return past - past*time.Duration(b.slow.Load())/100 + time.Duration(b.skew.Load())
}

func inBubble(t *testing.T, ttl time.Duration, freshness bool, test func(*bubble)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, mem: metastore.NewMem(), start: time.Now(), ended: make(chan error, 1)}
		b.link = metastore.NewFaulty(b.mem)
		cfg := metastore.SessionConfig{TTL: ttl, Clock: b.clock, Stale: func() { b.stale.Add(1) }}
		if freshness {
			cfg.Position = b.position.Load
		}
		b.s = metastore.NewSession(b.link, cfg)
		ctx, cancel := context.WithCancel(context.Background())
		b.cancel = cancel
		go func() { b.ended <- b.s.Run(ctx) }()
		test(b)
		cancel()
		synctest.Wait()
	})
}

func (b *bubble) valid(want bool, when string) {
	b.Helper()
	synctest.Wait()
	if got := b.s.ValidNow(); got != want {
		b.Fatalf("%s (at %v): valid %v, want %v", when, time.Since(b.start), got, want)
	}
}

func (b *bubble) register() (key string, epoch int64) {
	b.Helper()
	lease, err := b.s.Lease(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	key = "/brokers/ids/1"
	r, err := b.link.Txn(b.Context(), metastore.Txn{Then: []metastore.Op{{Kind: metastore.Put, Key: key, Lease: lease}}})
	if err != nil {
		b.Fatal(err)
	}
	b.s.Guard(key, r.Rev)
	return key, r.Rev
}

func TestSessionHoldsAndRevokes(t *testing.T) {
	inBubble(t, ttl, false, func(b *bubble) {
		key, _ := b.register()
		for range 20 {
			time.Sleep(ttl / 2)
			b.valid(true, "renewed")
		}
		if err := b.s.Revoke(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.valid(false, "revoked")
		p, _ := b.mem.List(b.Context(), key, "", 0, 0)
		if len(p.KVs) != 0 {
			b.Fatal("registration outlives the session")
		}
		if err := b.s.Revoke(b.Context()); err != nil {
			b.Fatalf("twice: %v", err)
		}
	})
}

// A cut link fences before the lease can expire, and the same lease unfences.
func TestSessionFencingIsReversible(t *testing.T) {
	inBubble(t, ttl, false, func(b *bubble) {
		key, epoch := b.register()
		time.Sleep(ttl)
		b.mem.Stall(true) // nobody has a quorum: the lease cannot expire
		time.Sleep(ttl - ttl/9 - ttl/6 - time.Millisecond)
		b.valid(true, "within the last validity")
		time.Sleep(ttl/6 + 2*time.Millisecond)
		b.valid(false, "past it")
		time.Sleep(10 * ttl)
		b.mem.Stall(false)
		time.Sleep(ttl)
		b.valid(true, "the quorum is back")
		p, _ := b.mem.List(b.Context(), key, "", 0, 0)
		if len(p.KVs) != 1 || p.KVs[0].CreateRev != epoch {
			b.Fatalf("registration: %+v, epoch was %d", p.KVs, epoch)
		}
	})
}

// Fenced strictly before the store lets the lease go: the broker stops leading before another may.
func TestSessionFencesBeforeExpiry(t *testing.T) {
	inBubble(t, ttl, false, func(b *bubble) {
		key, _ := b.register()
		w, err := b.mem.Watch(b.Context(), key, 0)
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(ttl + 100*time.Millisecond)
		b.link.Cut(true)
		c := <-w.C()
		if !c.Events[0].Deleted {
			b.Fatalf("first %+v", c)
		}
		b.valid(false, "the registration is gone")
		b.link.Cut(false)
		if err := <-b.ended; !errors.Is(err, metastore.ErrSessionLost) || !errors.Is(err, metastore.ErrLeaseGone) {
			b.Fatalf("run: %v", err)
		}
		b.valid(false, "lost")
	})
}

// Also with a clock that runs a tenth slower than the store's: the margin is for that.
func TestSessionOnASlowClock(t *testing.T) {
	inBubble(t, ttl, false, func(b *bubble) {
		b.slow.Store(10)
		key, _ := b.register()
		w, err := b.mem.Watch(b.Context(), key, 0)
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(ttl + 100*time.Millisecond)
		b.valid(true, "renewed")
		b.link.Cut(true)
		if c := <-w.C(); !c.Events[0].Deleted {
			b.Fatalf("first %+v", c)
		}
		b.valid(false, "the registration is gone")
	})
}

// slowRenewals is a store that takes a time for each renewal.
type slowRenewals struct {
	*metastore.Mem
	takes time.Duration
}

func (s slowRenewals) Renew(ctx context.Context, lease int64) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, metastore.ErrMaybe
	case <-time.After(s.takes):
		return s.Mem.Renew(ctx, lease)
	}
}

// A store that answers late costs no session: a renewal does not wait for the
// answer to the one before.
func TestSessionOverlapsRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := metastore.NewSession(slowRenewals{metastore.NewMem(), ttl / 2}, metastore.SessionConfig{
			TTL: ttl, Clock: func() time.Duration { return time.Since(start) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		if _, err := s.Lease(ctx); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if time.Sleep(ttl / 100); !s.ValidNow() {
				t.Fatalf("fenced at %v", time.Since(start))
			}
		}
		cancel()
		<-ended
	})
}

// A machine that slept is fenced when it wakes, though no timer has run.
func TestSessionAfterSleep(t *testing.T) {
	inBubble(t, ttl, false, func(b *bubble) {
		b.register()
		b.valid(true, "before")
		b.skew.Store(int64(time.Hour))
		if b.s.ValidNow() {
			b.Fatal("valid after an hour of sleep")
		}
		time.Sleep(ttl / 6)
		b.valid(true, "renewed after it")
	})
}

// Validity counts from when a renewal was sent, not from its answer.
func TestSessionCountsFromSending(t *testing.T) {
	inBubble(t, ttl, false, func(b *bubble) {
		b.register()
		time.Sleep(ttl/6 - time.Millisecond)
		b.mem.Stall(true)
		time.Sleep(ttl) // renewals of this time hang
		b.valid(false, "no answer for a TTL")
		b.skew.Store(int64(ttl)) // and they are old when they come
		b.mem.Stall(false)
		synctest.Wait()
		if b.s.ValidNow() {
			b.Fatal("an answer to an old renewal makes it valid")
		}
	})
}

// unrenewed is a store that grants, and does not renew.
type unrenewed struct{ metastore.Store }

func (unrenewed) Renew(context.Context, int64) (time.Duration, error) {
	return 0, metastore.ErrUnavailable
}

// Nor is a lease that was asked for before the machine slept worth more than is
// left of it.
func TestSessionCountsFromAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, mem: metastore.NewMem(), start: time.Now(), ended: make(chan error, 1)}
		b.mem.Stall(true)
		b.s = metastore.NewSession(unrenewed{b.mem}, metastore.SessionConfig{TTL: ttl, Clock: b.clock})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { b.ended <- b.s.Run(ctx) }()
		time.Sleep(ttl / 12)
		b.skew.Store(int64(ttl))
		b.mem.Stall(false)
		if _, err := b.s.Lease(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.valid(false, "granted, and asked for a TTL ago")
		cancel()
		<-b.ended
	})
}

func TestSessionLosesRegistration(t *testing.T) {
	inBubble(t, ttl, false, func(b *bubble) {
		key, _ := b.register()
		if _, err := b.mem.Txn(b.Context(), metastore.Txn{Then: []metastore.Op{{Kind: metastore.Delete, Key: key}}}); err != nil {
			b.Fatal(err)
		}
		if err := <-b.ended; !errors.Is(err, metastore.ErrSessionLost) {
			b.Fatalf("run: %v", err)
		}
		b.valid(false, "registration deleted")
	})
}

// An image that does not follow fences, has its watch restarted once, and unfences when it is there.
func TestSessionFreshness(t *testing.T) {
	inBubble(t, ttl, true, func(b *bubble) {
		b.position.Store(1 << 40)
		b.register()
		time.Sleep(2 * ttl)
		b.valid(true, "image ahead")
		rev, _ := b.mem.Rev(b.Context())
		b.position.Store(rev - 1)
		time.Sleep(ttl / 6)
		b.valid(true, "behind, not for long")
		time.Sleep(ttl / 2)
		b.valid(false, "behind for long")
		if n := b.stale.Load(); n != 1 {
			b.Fatalf("watch restarted %d times", n)
		}
		time.Sleep(3 * ttl)
		b.valid(false, "still behind")
		b.position.Store(rev)
		b.valid(true, "there at last, without waiting for a renewal")
		if n := b.stale.Load(); n != 1 {
			b.Fatalf("watch restarted %d times", n)
		}
	})
}

// A follower of a quiet prefix stays fresh while other keys change: progress is its position.
func TestSessionFreshnessByProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metastore.NewMem()
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		f := metastore.NewFollower(m, "mine/", func(metastore.Update) error { return nil }, nil)
		s := metastore.NewSession(m, metastore.SessionConfig{
			TTL: ttl, Clock: func() time.Duration { return time.Since(start) }, Position: f.Rev, Stale: f.Restart,
		})
		done := make(chan error, 2)
		go func() { done <- f.Run(ctx) }()
		go func() { done <- s.Run(ctx) }()
		for range 100 {
			time.Sleep(time.Second)
			if _, err := m.Txn(ctx, metastore.Txn{Then: []metastore.Op{{Kind: metastore.Put, Key: "other"}}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if !s.ValidNow() {
				t.Fatalf("fenced at %v, follower at %d", time.Since(start), f.Rev())
			}
		}
		cancel()
		for range 2 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
	})
}

func TestSessionWithoutLease(t *testing.T) {
	inBubble(t, 0, false, func(b *bubble) {
		lease, err := b.s.Lease(b.Context())
		if err != nil || lease != 0 {
			b.Fatalf("lease %d, %v", lease, err)
		}
		b.link.Cut(true)
		time.Sleep(time.Hour)
		b.valid(true, "always")
		b.cancel()
		if err := <-b.ended; !errors.Is(err, context.Canceled) {
			b.Fatalf("run: %v", err)
		}
	})
}

func TestSessionWaitsForStore(t *testing.T) {
	inBubble(t, ttl, false, func(b *bubble) {
		// The first grant may already be through; a second session meets the cut from its start.
		b.link.Cut(true)
		s := metastore.NewSession(b.link, metastore.SessionConfig{TTL: ttl, Clock: b.clock})
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Minute)
		if s.ValidNow() {
			b.Fatal("valid without a lease")
		}
		b.link.Cut(false)
		if _, err := s.Lease(b.Context()); err != nil {
			b.Fatal(err)
		}
		if !s.ValidNow() {
			b.Fatal("not valid with one")
		}
		cancel()
		<-ended
	})
}

// slowGrants is a store that takes a time for each lease, and loses the first requests.
type slowGrants struct {
	*metastore.Mem
	takes time.Duration
	lost  int
}

func (s *slowGrants) Grant(ctx context.Context, ttl time.Duration) (int64, error) {
	takes := s.takes
	if s.lost > 0 {
		s.lost, takes = s.lost-1, time.Hour
	}
	select {
	case <-ctx.Done():
		return 0, metastore.ErrMaybe
	case <-time.After(takes):
		return s.Mem.Grant(ctx, ttl)
	}
}

// A lost request costs a session a part of its time; a slow store is waited for.
func TestSessionAsksForItsLeaseAgain(t *testing.T) {
	for _, c := range []struct {
		takes  time.Duration
		lost   int
		within time.Duration
	}{{0, 0, time.Millisecond}, {0, 1, ttl / 2}, {ttl - time.Second, 0, 4 * ttl}} {
		synctest.Test(t, func(t *testing.T) {
			s := metastore.NewSession(&slowGrants{metastore.NewMem(), c.takes, c.lost}, metastore.SessionConfig{TTL: ttl})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			began := time.Now()
			if _, err := s.Lease(ctx); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > c.within {
				t.Errorf("%+v: after %v", c, took)
			}
			cancel()
			<-ended
		})
	}
}

func TestBoottime(t *testing.T) {
	a := metastore.Boottime()
	if b := metastore.Boottime(); b < a || b-a > time.Minute || a <= 0 {
		t.Fatalf("%v then %v", a, b)
	}
}
