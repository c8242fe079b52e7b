package metastore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Update is one step of a Follower, always at a revision boundary.
type Update struct {
	// Resync: KVs is everything under the prefix at Rev, to be diffed against
	// what is held, by create revision: history in between is not known.
	Resync bool
	KVs    []KV
	// Events otherwise, in order; none: only the position moved.
	Events []Event
	Rev    int64
}

// Follower keeps a consumer at the store's state of a prefix: a listing at one
// revision, then the changes from the next, and a listing again whenever the
// watch broke, was compacted away, or Restart was called (safety 33). Run is
// called once; Restart and Rev concurrently with it.
type Follower struct {
	store   Store
	prefix  string
	apply   func(Update) error
	logger  *slog.Logger
	restart chan struct{}
	rev     atomic.Int64
}

const (
	followPage       = 1000
	followBackoff    = 50 * time.Millisecond
	followBackoffMax = 3 * time.Second
)

var errRestarted = errors.New("restart asked for")

// NewFollower makes a Follower. apply is called by Run's goroutine alone; its
// error ends Run. The first Update is a Resync.
func NewFollower(store Store, prefix string, apply func(Update) error, logger *slog.Logger) *Follower {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Follower{store: store, prefix: prefix, apply: apply, logger: logger, restart: make(chan struct{}, 1)}
}

// Follow runs a Follower that needs neither Restart nor Rev.
func Follow(ctx context.Context, store Store, prefix string, apply func(Update) error) error {
	return NewFollower(store, prefix, apply, nil).Run(ctx)
}

// Rev is the revision up to which apply has returned, progress included; 0 before the first listing.
func (f *Follower) Rev() int64 { return f.rev.Load() }

// Restart makes Run drop its watch and list again.
func (f *Follower) Restart() {
	select {
	case f.restart <- struct{}{}:
	default:
	}
}

// applyError marks an error of the consumer, which is not tried again.
type applyError struct{ error }

func (e applyError) Unwrap() error { return e.error }

// Run follows until ctx ends, whose error it returns, or apply fails.
func (f *Follower) Run(ctx context.Context) error {
	backoff := followBackoff
	for {
		before := f.rev.Load()
		err := f.once(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if ae := (applyError{}); errors.As(err, &ae) {
			return ae.error
		}
		// A listing or a change came through: the store is there.
		if f.rev.Load() > before || errors.Is(err, errRestarted) {
			backoff = followBackoff
		}
		f.logger.Info("metadata watch ended, listing again", "prefix", f.prefix, "rev", f.rev.Load(), "cause", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backoff/2 + rand.N(backoff/2)):
		}
		backoff = min(2*backoff, followBackoffMax)
	}
}

// once is one listing and the watch after it.
func (f *Follower) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case <-f.restart: // the listing to come is the restart
	default:
	}
	kvs, rev, err := ListAll(ctx, f.store, f.prefix, followPage)
	if err != nil {
		return err
	}
	if err := f.step(Update{Resync: true, KVs: kvs, Rev: rev}); err != nil {
		return err
	}
	w, err := f.store.Watch(ctx, f.prefix, rev+1)
	if err != nil {
		return err
	}
	defer func() { // the watch's goroutine ends with it
		cancel()
		for range w.C() {
		}
	}()
	for {
		select {
		case c, ok := <-w.C():
			if !ok {
				return w.Err()
			}
			if c.Rev <= rev {
				if len(c.Events) > 0 {
					return fmt.Errorf("watch of %q went back from %d to %d", f.prefix, rev, c.Rev)
				}
				continue
			}
			rev = c.Rev
			if err := f.step(Update{Events: c.Events, Rev: rev}); err != nil {
				return err
			}
		case <-f.restart:
			return errRestarted
		}
	}
}

func (f *Follower) step(u Update) error {
	if held := f.rev.Load(); u.Rev < held {
		return fmt.Errorf("listing at %d, already at %d: %w", u.Rev, held, ErrUnavailable)
	}
	if err := f.apply(u); err != nil {
		return applyError{err}
	}
	f.rev.Store(u.Rev)
	return nil
}

// ListAll lists a prefix in pages, all at one revision, and starts again when
// that revision is compacted meanwhile.
func ListAll(ctx context.Context, store Store, prefix string, page int) ([]KV, int64, error) {
	for {
		kvs, rev, err := listOnce(ctx, store, prefix, page)
		if !errors.Is(err, ErrCompacted) {
			return kvs, rev, err
		}
	}
}

func listOnce(ctx context.Context, store Store, prefix string, page int) (kvs []KV, rev int64, err error) {
	from := ""
	for {
		p, err := store.List(ctx, prefix, from, rev, page)
		if err != nil {
			return nil, 0, fmt.Errorf("list %q: %w", prefix, err)
		}
		kvs, rev = append(kvs, p.KVs...), p.Rev
		if !p.More || len(p.KVs) == 0 {
			return kvs, rev, nil
		}
		from = p.KVs[len(p.KVs)-1].Key + "\x00"
	}
}
