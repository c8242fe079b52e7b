package etcdstore

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// watcher passes a client's watch on.
type watcher struct {
	ch  chan metastore.Change
	err error // set before ch is closed
}

func (w *watcher) C() <-chan metastore.Change { return w.ch }

// Err is to be asked once C is closed.
func (w *watcher) Err() error { return w.err }

// Watch implements metastore.Store. Client v3 resumes a broken stream by itself
// from the revision after the last one delivered.
func (s *Store) Watch(ctx context.Context, prefix string, from int64) (metastore.Watcher, error) {
	wctx, done, err := s.attach(ctx)
	if err != nil {
		return nil, err
	}
	if from <= 0 && (s.cfg.shared() || len(s.cfg.Endpoints) > 0) {
		// What comes next, to a member that lags behind, may be what others were already told of.
		rev, err := s.Rev(wctx)
		if err != nil {
			done()
			return nil, err
		}
		from = rev + 1
	}
	// Created: the server has registered the watch, so that a watch of what comes next misses nothing after this returns.
	opts := []clientv3.OpOption{clientv3.WithRev(max(from, 0)), clientv3.WithPrefix(), clientv3.WithCreatedNotify()}
	src := s.client.Watch(s.watchContext(wctx), prefix, opts...)
	w := &watcher{ch: make(chan metastore.Change)}
	select {
	case first, ok := <-src:
		if !ok || first.Err() != nil {
			err = watchError(wctx, first.Err())
		}
		if err == nil && !first.Created {
			err = watchError(wctx, nil)
		}
	case <-wctx.Done():
		err = wctx.Err()
	}
	go func() {
		defer done()
		defer close(w.ch)
		if err == nil {
			err = w.pump(wctx, src)
		}
		// ctx's own error is what the caller expects; errDown is the store's.
		if ctx.Err() == nil && wctx.Err() != nil {
			err = readError("watch", context.Cause(wctx))
		}
		w.err = err
	}()
	return w, nil
}

func (w *watcher) pump(ctx context.Context, src clientv3.WatchChan) error {
	for r := range src {
		if err := r.Err(); err != nil {
			return watchError(ctx, err)
		}
		c := metastore.Change{Rev: r.Header.Revision}
		if n := len(r.Events); n > 0 {
			// While a watch catches up the header is ahead of the events.
			c.Rev = r.Events[n-1].Kv.ModRevision
			c.Events = make([]metastore.Event, n)
			for i, e := range r.Events {
				c.Events[i] = metastore.Event{KV: toKV(e.Kv), Deleted: e.Type == clientv3.EventTypeDelete}
			}
		} else if !r.IsProgressNotify() {
			continue
		}
		select {
		case w.ch <- c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return watchError(ctx, nil)
}

// watchContext: a watch over a connection ends when its server lost the quorum,
// instead of standing still. All of a client's watches share one stream, which
// the context's metadata selects, and progress is asked per stream.
func (s *Store) watchContext(ctx context.Context) context.Context {
	if s.cfg.Member.Dir != "" {
		return ctx
	}
	return clientv3.WithRequireLeader(ctx)
}

// RequestProgress implements metastore.ProgressRequester.
func (s *Store) RequestProgress(ctx context.Context) error {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := s.client.RequestProgress(s.watchContext(ctx)); err != nil {
		return readError("request progress", err)
	}
	return nil
}
