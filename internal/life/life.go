// Package life starts and stops the parts of a process in order.
//
// A part is a function Run(ctx) error that blocks: when it returns, every goroutine
// it made is gone. A Group starts its parts first to last and stops them last to
// first, each gone before the one below it is asked to go, so that a part may rely
// on those above it in the list for as long as it runs.
//
// A Group is built by one goroutine and run once.
package life

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// ErrEnded is the error of a part that returned nil although nobody had asked it to stop.
var ErrEnded = errors.New("ended without being asked")

// Part is one component.
type Part struct {
	Name string
	// Start, where there is one, does what must be done before the next part starts:
	// open files, listen. What it makes is owned by Run, which is not called after an
	// error of Start; Start then leaves nothing behind.
	Start func(ctx context.Context) error
	// Run blocks until ctx ends. nil: the part only has a Start.
	Run func(ctx context.Context) error
}

// Group is an ordered list of parts.
type Group struct {
	log   *slog.Logger
	parts []Part
}

// New makes an empty group; log may be nil.
func New(log *slog.Logger) *Group {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Group{log: log}
}

// Add puts a part last: started after, and stopped before, all that are there.
func (g *Group) Add(p Part) { g.parts = append(g.parts, p) }

type running struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

// Run starts the parts and blocks until ctx ends or a part fails, then stops those that
// run, in reverse. A part that fails while a later one starts ends that one's context. The first error wins, named by its part; what others return while
// they are being stopped is logged. A ctx that ends is not an error.
func (g *Group) Run(ctx context.Context) error {
	failed := make(chan error, len(g.parts)+1)
	starting, stopStart := context.WithCancelCause(ctx)
	defer stopStart(nil)
	var up []running
	err := g.start(starting, &up, func(err error) {
		failed <- err
		stopStart(err) // what is being started may wait for the part that failed
	})
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		}
	}
	if err == nil { // both at once: the failure tells more
		select {
		case err = <-failed:
		default:
		}
	}
	for i := len(up) - 1; i >= 0; i-- {
		up[i].cancel()
		<-up[i].done
	}
	return err
}

// start brings the parts up; each lives on a context of its own, that only Run ends.
// It gives up when ctx ends: the caller knows why.
func (g *Group) start(ctx context.Context, up *[]running, failed func(error)) error {
	for _, p := range g.parts {
		if ctx.Err() != nil {
			return nil
		}
		if p.Start != nil {
			if err := p.Start(ctx); err != nil {
				if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
					return nil
				}
				return named(p.Name, err)
			}
		}
		if p.Run == nil {
			continue
		}
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		r := running{name: p.Name, cancel: cancel, done: make(chan struct{})}
		*up = append(*up, r)
		go func() {
			defer close(r.done)
			err := p.Run(own)
			switch stopped := own.Err() != nil; {
			case !stopped && err == nil:
				failed(named(p.Name, ErrEnded))
			case !stopped:
				failed(named(p.Name, err))
			case err != nil && !errors.Is(err, context.Canceled):
				g.log.Error("a part failed while it stopped", "part", p.Name, "err", err)
			}
		}()
	}
	return nil
}

// named says which part an error is of, unless it does so itself.
func named(part string, err error) error {
	if strings.HasPrefix(err.Error(), part) {
		return err
	}
	return fmt.Errorf("%s: %w", part, err)
}
