package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// view is a process's way to the metadata store. What it asks takes time, waits
// while the store is away or the process is paused, and comes to nothing once the
// process is dead: except that what was asked may still be done.
type view struct {
	p    *process
	kind error // of what is late
}

func (p *process) view() metastore.Store { return view{p, metastore.ErrUnavailable} }

// changes is a view of calls whose outcome may be unknown.
func (v view) changes() view { return view{v.p, metastore.ErrMaybe} }

var (
	_ metastore.Store             = view{}
	_ metastore.ProgressRequester = view{}
)

// asks is one call.
func (v view) asks(ctx context.Context, do func(context.Context) error) error {
	m := v.p.m
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(v.p.dead, func() { cancel(errDead) })()
	for _, g := range []*gate{&m.stopped, &m.away} {
		if g.pass(ctx) != nil {
			return v.late(ctx)
		}
	}
	if sleep(ctx, m.w.storeTime(m)) != nil {
		return v.late(ctx)
	}
	err := do(ctx)
	if sleep(ctx, m.w.storeTime(m)) != nil || m.stopped.pass(ctx) != nil || m.away.pass(ctx) != nil {
		return v.late(ctx)
	}
	return err
}

// late is what a call says that did not end in time. It may have been carried
// out: of those that change something, that is said.
func (v view) late(ctx context.Context) error {
	if v.p.dead.Err() != nil {
		return errDead
	}
	return fmt.Errorf("%w: %w", v.kind, context.Cause(ctx))
}

// asked is a call with an answer.
func asked[T any](ctx context.Context, v view, do func(context.Context) (T, error)) (out T, err error) {
	err = v.asks(ctx, func(ctx context.Context) error {
		out, err = do(ctx)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

// Txn implements metastore.Store. Its outcome may be unknown.
func (v view) Txn(ctx context.Context, t metastore.Txn) (metastore.TxnResult, error) {
	return asked(ctx, v.changes(), func(ctx context.Context) (metastore.TxnResult, error) { return v.p.store.Txn(ctx, t) })
}

// List implements metastore.Store.
func (v view) List(ctx context.Context, prefix, from string, rev int64, limit int) (metastore.Page, error) {
	return asked(ctx, v, func(ctx context.Context) (metastore.Page, error) {
		return v.p.store.List(ctx, prefix, from, rev, limit)
	})
}

// Watch implements metastore.Store.
func (v view) Watch(ctx context.Context, prefix string, from int64) (metastore.Watcher, error) {
	return asked(ctx, v, func(context.Context) (metastore.Watcher, error) { // the watch lives on, under the caller's context
		return v.p.store.Watch(ctx, prefix, from)
	})
}

// Grant implements metastore.Store.
func (v view) Grant(ctx context.Context, ttl time.Duration) (int64, error) {
	return asked(ctx, v, func(ctx context.Context) (int64, error) { return v.p.store.Grant(ctx, ttl) })
}

// Renew implements metastore.Store.
func (v view) Renew(ctx context.Context, lease int64) (time.Duration, error) {
	return asked(ctx, v, func(ctx context.Context) (time.Duration, error) { return v.p.store.Renew(ctx, lease) })
}

// Revoke implements metastore.Store.
func (v view) Revoke(ctx context.Context, lease int64) error {
	return v.changes().asks(ctx, func(ctx context.Context) error { return v.p.store.Revoke(ctx, lease) })
}

// Rev implements metastore.Store.
func (v view) Rev(ctx context.Context) (int64, error) {
	return asked(ctx, v, func(ctx context.Context) (int64, error) { return v.p.store.Rev(ctx) })
}

// RequestProgress implements metastore.ProgressRequester.
func (v view) RequestProgress(ctx context.Context) error {
	return v.asks(ctx, func(ctx context.Context) error { return v.p.store.RequestProgress(ctx) })
}
