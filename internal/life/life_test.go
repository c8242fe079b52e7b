package life

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// diary notes what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(s string) {
	d.mu.Lock()
	d.lines = append(d.lines, s)
	d.mu.Unlock()
}

func (d *diary) expect(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Fatalf("got  %q\nwant %q", d.lines, want)
	}
}

func (d *diary) part(name string, ends <-chan error) Part {
	return Part{
		Name:  name,
		Start: func(context.Context) error { d.note("start " + name); return nil },
		Run: func(ctx context.Context) error {
			defer d.note("gone " + name)
			select {
			case <-ctx.Done():
				time.Sleep(time.Second) // others must wait for it
				return ctx.Err()
			case err := <-ends:
				return err
			}
		},
	}
}

func TestStartsInOrderStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		g := New(nil)
		for _, n := range []string{"disk", "truth", "door"} {
			g.Add(d.part(n, nil))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		d.expect(t, "start disk", "start truth", "start door")
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		d.expect(t, "start disk", "start truth", "start door", "gone door", "gone truth", "gone disk")
	})
}

func TestFirstErrorStopsAllAndWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		boom := errors.New("boom")
		ends := make(chan error, 1)
		g := New(nil)
		g.Add(d.part("disk", nil))
		g.Add(d.part("truth", ends))
		g.Add(Part{Name: "door", Run: func(ctx context.Context) error { <-ctx.Done(); return errors.New("late") }})
		ends <- boom
		err := g.Run(t.Context())
		if !errors.Is(err, boom) || err.Error() != "truth: boom" {
			t.Fatal(err)
		}
	})
}

func TestFailedStartStopsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		boom := errors.New("boom")
		g := New(nil)
		g.Add(d.part("disk", nil))
		g.Add(Part{Name: "truth", Start: func(context.Context) error { return boom }})
		g.Add(d.part("door", nil))
		if err := g.Run(t.Context()); !errors.Is(err, boom) {
			t.Fatal(err)
		}
		d.expect(t, "start disk", "gone disk")
	})
}

func TestPartThatEndsByItselfIsAnError(t *testing.T) {
	g := New(nil)
	g.Add(Part{Name: "door", Run: func(context.Context) error { return nil }})
	if err := g.Run(t.Context()); !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
}

func TestContextEndedDuringStart(t *testing.T) {
	var d diary
	ctx, cancel := context.WithCancel(t.Context())
	g := New(nil)
	g.Add(d.part("disk", nil))
	g.Add(Part{Name: "truth", Start: func(ctx context.Context) error { cancel(); return ctx.Err() }})
	g.Add(d.part("door", nil))
	synctest.Test(t, func(t *testing.T) {
		if err := g.Run(ctx); err != nil {
			t.Fatal(err)
		}
	})
	d.expect(t, "start disk", "gone disk")
}

// A part that fails while another waits for it to start ends that wait.
func TestFailureEndsTheStartOfOthers(t *testing.T) {
	for name, waits := range map[string]func(ctx context.Context) error{
		"its error":  func(ctx context.Context) error { return ctx.Err() },
		"its cause":  context.Cause,
		"no mention": func(context.Context) error { return errors.New("truth does not answer") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cause := errors.New("disk full")
				g := New(nil)
				g.Add(Part{Name: "truth", Run: func(context.Context) error { return cause }})
				g.Add(Part{Name: "door", Start: func(ctx context.Context) error {
					<-ctx.Done()
					return waits(ctx)
				}})
				err := g.Run(t.Context())
				if name == "no mention" {
					if err == nil {
						t.Fatal("no error")
					}
				} else if !errors.Is(err, cause) || err.Error() != "truth: disk full" {
					t.Fatalf("got %v, want the error of the part that failed", err)
				}
			})
		})
	}
}

// An error that names its part by itself is not given the name again.
func TestErrorsAreNamedOnce(t *testing.T) {
	for told, want := range map[string]string{
		"full":         "disk: full",
		"disk /a full": "disk /a full",
	} {
		g := New(nil)
		g.Add(Part{Name: "disk", Start: func(context.Context) error { return errors.New(told) }})
		if err := g.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
