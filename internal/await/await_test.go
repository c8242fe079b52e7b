package await

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait starts a wait and returns where its verdict will be.
func wait(ctx context.Context, o *Offsets, term int32, offset int64) chan error {
	c := make(chan error, 1)
	go func() { c <- o.Wait(ctx, term, offset) }()
	return c
}

func undecided(t *testing.T, c chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		t.Fatalf("decided: %v", err)
	default:
	}
}

func decided(t *testing.T, c chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		if !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	default:
		t.Fatal("undecided")
	}
}

func TestOffsetsAreReachedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Offsets
		o.Begin(3, 10).Run()
		ctx := t.Context()
		if err := o.Wait(ctx, 3, 10); err != nil {
			t.Fatal(err)
		}
		a, b, c := wait(ctx, &o, 3, 30), wait(ctx, &o, 3, 11), wait(ctx, &o, 3, 20)
		undecided(t, b)
		o.Advance(20).Run()
		decided(t, b, nil)
		decided(t, c, nil)
		undecided(t, a)
		o.Advance(15).Run() // never back
		undecided(t, wait(ctx, &o, 3, 21))
		o.Advance(99).Run()
		decided(t, a, nil)
		if n := o.Len(); n != 0 {
			t.Fatalf("%d waits left", n)
		}
	})
}

func TestDeadlineLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Offsets
		o.Begin(1, 0).Run()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		before := time.Now()
		if err := o.Wait(ctx, 1, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if d := time.Since(before); d != 30*time.Second {
			t.Fatalf("waited %v", d)
		}
		if o.Len() != 0 {
			t.Fatal("the wait is still there")
		}
		o.Advance(5).Run()
	})
}

// A term's end decides its waits before the next leader's progress can.
func TestTermEndsItsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Offsets
		resigned := errors.New("resigned")
		o.Begin(1, 0).Run()
		w := wait(t.Context(), &o, 1, 5)
		undecided(t, w)
		fail := o.Fail(1, resigned)
		begin := o.Begin(2, 0)
		advance := o.Advance(100) // passes 5, in another term
		advance.Run()
		begin.Run()
		fail.Run()
		decided(t, w, resigned)
		decided(t, wait(t.Context(), &o, 1, 1), ErrTerm)
		decided(t, wait(t.Context(), &o, 2, 100), nil)
		o.Fail(1, errors.New("long over")).Run()
		decided(t, wait(t.Context(), &o, 2, 100), nil)
		o.Fail(2, resigned).Run()
		decided(t, wait(t.Context(), &o, 2, 100), resigned)
		decided(t, wait(t.Context(), &o, 3, 0), ErrTerm)
	})
}

func TestBeginEndsAForgottenTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Offsets
		o.Begin(1, 0).Run()
		w := wait(t.Context(), &o, 1, 5)
		undecided(t, w)
		o.Begin(2, 50).Run()
		decided(t, w, ErrTerm)
	})
}

func TestZeroValueHasNoTerm(t *testing.T) {
	var o Offsets
	if err := o.Wait(t.Context(), 0, 0); !errors.Is(err, ErrTerm) {
		t.Fatal(err)
	}
}

// The verdict falls under the caller's lock; a context that ends between it and Run
// does not change it.
func TestVerdictBeatsLaterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Offsets
		o.Begin(1, 0).Run()
		ctx, cancel := context.WithCancel(t.Context())
		w := wait(ctx, &o, 1, 5)
		undecided(t, w)
		wakes := o.Advance(5)
		cancel()
		decided(t, w, nil)
		wakes.Run()
	})
}

// Against a model: random waits, advances and cancellations; every wait must get the
// verdict that its offset and context deserve.
func TestRandomWaits(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var o Offsets
			o.Begin(1, 0).Run()
			var wg sync.WaitGroup
			for range 200 {
				offset := int64(rnd.IntN(1000))
				limit := time.Duration(1+rnd.IntN(1000)) * time.Millisecond
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), limit+time.Microsecond)
					defer cancel()
					err := o.Wait(ctx, 1, offset)
					// The position is n at n milliseconds.
					if reached := time.Duration(offset)*time.Millisecond <= limit; reached != (err == nil) {
						t.Errorf("seed %d: offset %d within %v: %v", seed, offset, limit, err)
					}
				})
			}
			for n := range int64(1000) {
				time.Sleep(time.Millisecond)
				o.Advance(n + 1).Run()
			}
			wg.Wait()
			if o.Len() != 0 {
				t.Errorf("seed %d: %d waits left", seed, o.Len())
			}
		})
	}
}

func BenchmarkWait(b *testing.B) {
	var o Offsets
	o.Begin(1, 0).Run()
	b.ReportAllocs()
	turn := make(chan int64)
	go func() {
		for at := range turn {
			for o.Len() == 0 {
				time.Sleep(time.Microsecond)
			}
			o.Advance(at).Run()
		}
	}()
	ctx := b.Context()
	for n := int64(1); b.Loop(); n++ {
		turn <- n
		if err := o.Wait(ctx, 1, n); err != nil {
			b.Fatal(err)
		}
	}
	close(turn)
}
