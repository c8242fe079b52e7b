package metastore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Faulty is one client's view of a store with faults in between: lost requests,
// lost answers, transactions that arrive late, a cut link, watches that lag.
// Several over one Mem are several brokers of which some are cut off. For tests
// and simulation. All methods may be called concurrently; time is package time's.
type Faulty struct {
	inner Store

	mu       sync.Mutex
	onTxn    func(Txn) Fault
	cut      bool
	late     []*lateTxn
	watchers map[*faultyWatcher]struct{}
	held     chan struct{} // not nil while watches are held; closed when they go on
}

// Fault is what happens to one transaction.
type Fault struct {
	Kind FaultKind
	// Delay of Late: 0 waits for Flush.
	Delay time.Duration
}

// FaultKind is the kind of a Fault.
type FaultKind int8

// The faults of a transaction.
const (
	NoFault     FaultKind = iota
	Refused               // not carried out: ErrUnavailable
	LostRequest           // not carried out: ErrMaybe
	LostAnswer            // carried out: ErrMaybe
	Late                  // ErrMaybe now, carried out later
)

type lateTxn struct {
	txn   Txn
	timer *time.Timer
}

var (
	_ Store             = (*Faulty)(nil)
	_ Compacter         = (*Faulty)(nil)
	_ ProgressRequester = (*Faulty)(nil)
)

// errInjected names the cause in errors of faults.
var errInjected = errors.New("injected fault")

// NewFaulty puts a faultless Faulty before inner.
func NewFaulty(inner Store) *Faulty {
	return &Faulty{inner: inner, watchers: map[*faultyWatcher]struct{}{}}
}

// OnTxn sets who decides about each transaction; nil: none fails.
func (f *Faulty) OnTxn(decide func(Txn) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onTxn = decide
}

// Cut cuts the link or mends it. While it is cut every call is refused with
// ErrUnavailable, transactions with ErrMaybe, and watches deliver nothing.
func (f *Faulty) Cut(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = on
	f.hold(on)
}

// HoldWatches makes every watch stand still, losing nothing, or go on.
func (f *Faulty) HoldWatches(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold(on || f.cut)
}

func (f *Faulty) hold(on bool) {
	switch {
	case on && f.held == nil:
		f.held = make(chan struct{})
	case !on && f.held != nil:
		close(f.held)
		f.held = nil
	}
}

// BreakWatches ends every open watch with err.
func (f *Faulty) BreakWatches(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watchers {
		w.cancel(err)
	}
}

// Flush carries out every late transaction now, oldest first, and says how many.
func (f *Faulty) Flush(ctx context.Context) (int, error) {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	var errs []error
	for _, l := range late {
		if l.timer != nil {
			l.timer.Stop()
		}
		_, err := f.inner.Txn(ctx, l.txn)
		errs = append(errs, err)
	}
	return len(late), errors.Join(errs...)
}

func (f *Faulty) link() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		return unavailable(errInjected)
	}
	return nil
}

// Txn implements Store.
func (f *Faulty) Txn(ctx context.Context, t Txn) (TxnResult, error) {
	maybe := fmt.Errorf("%w: %w", ErrMaybe, errInjected)
	f.mu.Lock()
	decide, cut := f.onTxn, f.cut
	f.mu.Unlock()
	if cut {
		return TxnResult{}, maybe
	}
	var fault Fault
	if decide != nil {
		fault = decide(t)
	}
	switch fault.Kind {
	case Refused:
		return TxnResult{}, unavailable(errInjected)
	case LostRequest:
		return TxnResult{}, maybe
	case LostAnswer:
		if _, err := f.inner.Txn(ctx, t); err != nil {
			return TxnResult{}, err
		}
		return TxnResult{}, maybe
	case Late:
		f.postpone(t, fault.Delay)
		return TxnResult{}, maybe
	}
	return f.inner.Txn(ctx, t)
}

func (f *Faulty) postpone(t Txn, delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &lateTxn{txn: t}
	f.late = append(f.late, l)
	if delay <= 0 {
		return
	}
	l.timer = time.AfterFunc(delay, func() {
		f.mu.Lock()
		waiting := false
		for i, o := range f.late {
			if o == l {
				f.late = append(f.late[:i:i], f.late[i+1:]...)
				waiting = true
				break
			}
		}
		f.mu.Unlock()
		if waiting {
			_, _ = f.inner.Txn(context.Background(), t) // nobody waits for it
		}
	})
}

// List implements Store.
func (f *Faulty) List(ctx context.Context, prefix, from string, rev int64, limit int) (Page, error) {
	if err := f.link(); err != nil {
		return Page{}, err
	}
	return f.inner.List(ctx, prefix, from, rev, limit)
}

// Grant implements Store.
func (f *Faulty) Grant(ctx context.Context, ttl time.Duration) (int64, error) {
	if err := f.link(); err != nil {
		return 0, err
	}
	return f.inner.Grant(ctx, ttl)
}

// Renew implements Store.
func (f *Faulty) Renew(ctx context.Context, lease int64) (time.Duration, error) {
	if err := f.link(); err != nil {
		return 0, err
	}
	return f.inner.Renew(ctx, lease)
}

// Revoke implements Store.
func (f *Faulty) Revoke(ctx context.Context, lease int64) error {
	if err := f.link(); err != nil {
		return err
	}
	return f.inner.Revoke(ctx, lease)
}

// Rev implements Store.
func (f *Faulty) Rev(ctx context.Context) (int64, error) {
	if err := f.link(); err != nil {
		return 0, err
	}
	return f.inner.Rev(ctx)
}

// Compact implements Compacter.
func (f *Faulty) Compact(ctx context.Context, rev int64) error {
	c, ok := f.inner.(Compacter)
	if !ok {
		return errors.ErrUnsupported
	}
	return c.Compact(ctx, rev)
}

// RequestProgress implements ProgressRequester.
func (f *Faulty) RequestProgress(ctx context.Context) error {
	if err := f.link(); err != nil {
		return err
	}
	p, ok := f.inner.(ProgressRequester)
	if !ok {
		return errors.ErrUnsupported
	}
	return p.RequestProgress(ctx)
}

// Watch implements Store.
func (f *Faulty) Watch(ctx context.Context, prefix string, from int64) (Watcher, error) {
	if err := f.link(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	inner, err := f.inner.Watch(ctx, prefix, from)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	w := &faultyWatcher{inner: inner, ch: make(chan Change), cancel: cancel, ctx: ctx}
	f.mu.Lock()
	f.watchers[w] = struct{}{}
	f.mu.Unlock()
	go func() {
		f.pump(w)
		cancel(nil)
		f.mu.Lock()
		delete(f.watchers, w)
		f.mu.Unlock()
		close(w.ch)
	}()
	return w, nil
}

// pump passes changes on, each only while watches are not held.
func (f *Faulty) pump(w *faultyWatcher) {
	for c := range w.inner.C() {
		for {
			f.mu.Lock()
			held := f.held
			f.mu.Unlock()
			if held == nil {
				break
			}
			select {
			case <-held:
			case <-w.ctx.Done():
				return
			}
		}
		select {
		case w.ch <- c:
		case <-w.ctx.Done():
			return
		}
	}
}

type faultyWatcher struct {
	inner  Watcher
	ch     chan Change
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (w *faultyWatcher) C() <-chan Change { return w.ch }

func (w *faultyWatcher) Err() error {
	// Once the channel is closed the context is over: by its owner, by
	// BreakWatches, or by pump after the inner watch ended on its own.
	if cause := context.Cause(w.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if err := w.inner.Err(); err != nil {
		return err
	}
	return w.ctx.Err()
}
