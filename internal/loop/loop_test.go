package loop

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs an executor for the length of a test.
func start(t *testing.T, workers int) *Executor {
	e := New(workers)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return e
}

// No event is lost and no key runs twice at once, whoever wakes it.
func TestSerialAndComplete(t *testing.T) {
	e := start(t, 4)
	type strand struct {
		mu     sync.Mutex
		todo   int
		done   int
		inside atomic.Int32
		key    *Key
	}
	const each = 2000
	var all sync.WaitGroup
	strands := make([]*strand, 20)
	for i := range strands {
		s := &strand{}
		strands[i] = s
		all.Add(each)
		s.key = e.Key(func() {
			if s.inside.Add(1) != 1 {
				t.Error("a key ran twice at once")
			}
			s.mu.Lock()
			n := s.todo
			s.todo = 0
			s.done += n
			s.mu.Unlock()
			s.inside.Add(-1)
			all.Add(-n)
		})
	}
	for range 8 {
		go func() {
			for n := range each / 8 {
				for _, s := range strands {
					s.mu.Lock()
					s.todo++
					s.mu.Unlock()
					if n%2 == 0 {
						s.key.Wake()
					} else {
						s.key.Here()
					}
				}
			}
		}()
	}
	all.Wait()
	for _, s := range strands {
		s.mu.Lock() // a run that finds nothing may be under way still
		if s.done != each {
			t.Errorf("%d of %d done", s.done, each)
		}
		s.mu.Unlock()
	}
}

// Keys run in the order in which they were woken, and one that is woken while
// it runs goes to the end of the line.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(1)
		ctx, cancel := context.WithCancel(t.Context())
		var order []int
		keys := make([]*Key, 4)
		for i := range keys {
			keys[i] = e.Key(func() {
				if order = append(order, i); len(order) == 1 {
					keys[i].Wake()
				}
			})
		}
		for _, i := range []int{2, 0, 3, 1, 0, 2} {
			keys[i].Wake()
		}
		if err := runUntilIdle(ctx, e, cancel); err != nil {
			t.Fatal(err)
		}
		if want := []int{2, 0, 3, 1, 2}; !slices.Equal(order, want) {
			t.Errorf("keys ran in the order %v, want %v", order, want)
		}
	})
}

// A panic ends the process with its own words: nothing on its way up trips over a lock.
func TestPanic(t *testing.T) {
	e := New(1)
	e.Key(func() { panic("mine") }).Wake()
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v", p)
		}
	}()
	e.work()
}

func TestWakeAllocatesNothing(t *testing.T) {
	e := New(1)
	k := e.Key(func() {})
	if n := testing.AllocsPerRun(100, func() { k.Wake(); e.ran(e.take()) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBusyKeyStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(1)
		ctx, cancel := context.WithCancel(t.Context())
		turns := 0
		var busy, other *Key
		otherRan := false
		busy = e.Key(func() {
			turns++
			if turns == 3 {
				other.Wake()
			}
			if turns < 100 {
				busy.Wake()
			}
		})
		other = e.Key(func() {
			otherRan = true
			if turns > 4 {
				t.Errorf("ran after %d turns of a busy key", turns)
			}
		})
		busy.Wake()
		if err := runUntilIdle(ctx, e, cancel); err != nil {
			t.Fatal(err)
		}
		if !otherRan || turns != 100 {
			t.Errorf("other ran: %v, busy turns: %d", otherRan, turns)
		}
	})
}

func runUntilIdle(ctx context.Context, e *Executor, cancel func()) error {
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	synctest.Wait()
	cancel()
	return <-done
}

// A run under way at the end is finished; later wake-ups do nothing.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(2)
		ctx, cancel := context.WithCancel(t.Context())
		gate := make(chan struct{})
		runs := 0
		k := e.Key(func() { <-gate; runs++ })
		k.Wake()
		done := make(chan struct{})
		go func() { _ = e.Run(ctx); close(done) }()
		synctest.Wait()
		k.Wake()
		cancel()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("ended in the middle of a run")
		default:
		}
		close(gate)
		<-done
		k.Wake()
		if runs != 1 {
			t.Fatalf("%d runs", runs)
		}
	})
}

// An idle key runs on the goroutine that asks; a busy one is only woken. The end
// waits for runs on other people's goroutines.
func TestHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = e.Run(ctx); close(done) }()
		gate := make(chan struct{})
		runs := 0
		k := e.Key(func() { runs++; <-gate })
		first := make(chan struct{})
		go func() { k.Here(); close(first) }()
		synctest.Wait()
		k.Here() // does not wait for the run under way
		if runs != 1 {
			t.Fatalf("%d runs at once", runs)
		}
		gate <- struct{}{}
		<-first
		synctest.Wait()
		if runs != 2 { // the worker's, for the second
			t.Fatalf("%d runs, want 2", runs)
		}
		gate <- struct{}{}
		synctest.Wait()
		go k.Here()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("ended in the middle of a run")
		default:
		}
		close(gate)
		<-done
		k.Here()
		if runs != 3 {
			t.Fatalf("%d runs, want 3", runs)
		}
	})
}
