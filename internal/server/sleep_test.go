package server

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// asleep counts the calls that an alarm is set for.
func asleep(s *Server) (n int) {
	s.alarms.mu.Lock()
	defer s.alarms.mu.Unlock()
	for _, m := range s.alarms.at {
		n += len(m.calls)
	}
	return n
}

// awaitAsleep waits until n calls sleep.
func awaitAsleep(t *testing.T, s *Server, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); asleep(s) != n; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d calls sleep, of %d", asleep(s), n)
		}
	}
}

// sleeper is a Fetch that sleeps, for its MaxWaitMillis, until ready has what it
// waits for; the answer tells how often it looked.
type sleeper struct {
	ready atomic.Bool
	looks atomic.Int32
	asked chan *Request
}

func newSleeper() *sleeper { return &sleeper{asked: make(chan *Request, 100)} }

func (z *sleeper) fetch(_ context.Context, r *Request, req *kmsg.FetchRequest, resp *kmsg.FetchResponse) error {
	r.Sleep(time.Duration(req.MaxWaitMillis)*time.Millisecond, func(over bool) bool {
		resp.SessionID = z.looks.Add(1)
		return z.ready.Load() || over
	})
	z.asked <- r
	return nil
}

func fetchFor(wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(wait.Milliseconds())
	return req
}

// A call that sleeps is answered when what it waits for has come and at the end of
// its wait, and looks no more often than it is woken; what is behind it waits.
func TestSleepAndWake(t *testing.T) {
	z := newSleeper()
	f := &fake{fetch: z.fetch}
	inBubble(t, f, nil, func(t *testing.T, s *Server, dial func() net.Conn, _ func() error) {
		nc := dial()
		began := time.Now()
		_, _ = nc.Write(frame(fetchFor(time.Second), 12, 1))
		_, _ = nc.Write(frame(kmsg.NewPtrMetadataRequest(), 9, 2))
		r := <-z.asked
		synctest.Wait()
		r.Wake()
		synctest.Wait()
		if n := z.looks.Load(); n != 1 || asleep(s) != 1 {
			t.Fatalf("%d looks, %d asleep", n, asleep(s))
		}
		z.ready.Store(true)
		r.Wake()
		if a := expect(t, nc, 12, 1, kmsg.NewPtrFetchResponse()); a.SessionID != 2 || time.Since(began) != 0 {
			t.Errorf("answered at look %d, after %v", a.SessionID, time.Since(began))
		}
		expect(t, nc, 9, 2, kmsg.NewPtrMetadataResponse())
		r.Wake()
		if asleep(s) != 0 || len(s.alarms.at) != 0 {
			t.Error("an alarm is left")
		}

		z.ready.Store(false)
		_, _ = nc.Write(frame(fetchFor(time.Second), 12, 3))
		<-z.asked
		if a := expect(t, nc, 12, 3, kmsg.NewPtrFetchResponse()); a.SessionID != 3 {
			t.Errorf("answered at look %d", a.SessionID)
		}
		if d := time.Since(began); d < time.Second || d > time.Second+time.Second/64 {
			t.Errorf("a wait of 1 s took %v", d)
		}
	})
}

// A call that sleeps takes no goroutine: one reads, and that is all.
func TestSleepTakesNoGoroutine(t *testing.T) {
	z := newSleeper()
	f := &fake{fetch: z.fetch}
	s := start(t, f, nil)
	const conns = 50
	var all []net.Conn
	for range conns {
		nc := dial(t, s)
		write(t, nc, frame(kmsg.NewPtrMetadataRequest(), 9, 1))
		expect(t, nc, 9, 1, kmsg.NewPtrMetadataResponse())
		all = append(all, nc)
	}
	before := runtime.NumGoroutine()
	for _, nc := range all {
		write(t, nc, frame(fetchFor(time.Minute), 12, 2))
	}
	for range conns {
		<-z.asked
	}
	awaitAsleep(t, s, conns)
	if n := runtime.NumGoroutine(); n > before+conns/10 {
		t.Errorf("%d goroutines with %d calls asleep, %d before", n, conns, before)
	}
}

// What wakes a call before it sleeps is not lost.
func TestWakeBeforeSleep(t *testing.T) {
	f := &fake{}
	f.fetch = func(_ context.Context, r *Request, _ *kmsg.FetchRequest, _ *kmsg.FetchResponse) error {
		r.Wake()
		r.Sleep(time.Hour, func(over bool) bool { return !over })
		return nil
	}
	inBubble(t, f, nil, func(t *testing.T, _ *Server, dial func() net.Conn, _ func() error) {
		nc := dial()
		began := time.Now()
		for i := range int32(3) {
			_, _ = nc.Write(frame(kmsg.NewPtrFetchRequest(), 12, i))
			expect(t, nc, 12, i, kmsg.NewPtrFetchResponse())
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("after %v", d)
		}
	})
}

// The end of a connection, and of the server, ends the sleep: again sees it in ctx.
func TestSleepEndsWithContext(t *testing.T) {
	ended := make(chan error, 2)
	f := &fake{}
	f.fetch = func(ctx context.Context, r *Request, _ *kmsg.FetchRequest, _ *kmsg.FetchResponse) error {
		r.Sleep(time.Hour, func(bool) bool {
			if ctx.Err() == nil {
				return false
			}
			ended <- context.Cause(ctx)
			return true
		})
		return nil
	}
	inBubble(t, f, nil, func(t *testing.T, s *Server, dial func() net.Conn, stop func() error) {
		gone, stays := dial(), dial()
		_, _ = gone.Write(frame(kmsg.NewPtrFetchRequest(), 12, 1))
		_, _ = stays.Write(frame(kmsg.NewPtrFetchRequest(), 12, 1))
		synctest.Wait()
		gone.Close()
		if err := <-ended; !errors.Is(err, ErrHungUp) {
			t.Error("after a hang-up:", err)
		}
		synctest.Wait()
		if asleep(s) != 1 {
			t.Errorf("%d asleep", asleep(s))
		}
		began := time.Now()
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		expect(t, stays, 12, 1, kmsg.NewPtrFetchResponse())
		if err := <-ended; !errors.Is(err, ErrStopping) || time.Since(began) != 200*time.Millisecond {
			t.Errorf("on stop: %v after %v", err, time.Since(began))
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// A panic of what looks again costs its connection and no other.
func TestSleepPanic(t *testing.T) {
	f := &fake{}
	f.fetch = func(_ context.Context, r *Request, _ *kmsg.FetchRequest, _ *kmsg.FetchResponse) error {
		r.Sleep(time.Second, func(bool) bool { panic("again") })
		return nil
	}
	inBubble(t, f, nil, func(t *testing.T, s *Server, dial func() net.Conn, _ func() error) {
		bad, good := dial(), dial()
		_, _ = bad.Write(frame(kmsg.NewPtrFetchRequest(), 12, 1))
		if _, err := bad.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		_, _ = good.Write(frame(kmsg.NewPtrMetadataRequest(), 9, 1))
		expect(t, good, 9, 1, kmsg.NewPtrMetadataResponse())
		if v := value(t, s.met.faults.WithLabelValues(faultPanic)); v != 1 {
			t.Errorf("%v panics counted", v)
		}
	})
}

// Calls that are woken from all sides while their waits end are answered once each,
// in order, and never look twice at once.
func TestSleepSoak(t *testing.T) {
	var looking atomic.Int32
	f := &fake{}
	var wakers sync.WaitGroup
	f.fetch = func(_ context.Context, r *Request, req *kmsg.FetchRequest, resp *kmsg.FetchResponse) error {
		var busy atomic.Bool
		n := 0
		for range 3 {
			wakers.Go(func() {
				for range rand.N(4) {
					runtime.Gosched()
					r.Wake()
				}
			})
		}
		r.Sleep(time.Duration(req.MaxWaitMillis)*time.Millisecond, func(bool) bool {
			if !busy.CompareAndSwap(false, true) {
				looking.Add(1)
			}
			n++
			resp.SessionID = r.Correlation
			busy.Store(false)
			return n == 3
		})
		return nil
	}
	s := start(t, f, nil)
	var peers sync.WaitGroup
	for range 20 {
		nc := dial(t, s)
		peers.Go(func() {
			for i := int32(0); i < 100; i += 2 {
				_, _ = nc.Write(append(frame(fetchFor(time.Duration(1+i%3)*time.Millisecond), 12, i), frame(fetchFor(time.Millisecond), 12, i+1)...))
				for j := i; j < i+2; j++ {
					if !soakAnswer(t, nc, j) {
						return
					}
				}
			}
		})
	}
	peers.Wait()
	wakers.Wait()
	if looking.Load() > 0 || asleep(s) > 0 {
		t.Errorf("%d looked at once, %d asleep at the end", looking.Load(), asleep(s))
	}
}

func soakAnswer(t *testing.T, nc net.Conn, want int32) bool {
	b, err := wire.ReadFrame(nc, 1<<20, nil)
	if err != nil {
		t.Error(err)
		return false
	}
	a := kmsg.NewPtrFetchResponse()
	a.SetVersion(12)
	got, err := wire.ParseResponse(b, a)
	if err != nil || got != want || a.SessionID != want {
		t.Errorf("answer %d (%d) in the place of %d: %v", got, a.SessionID, want, err)
		return false
	}
	return true
}
