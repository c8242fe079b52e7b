package broker

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// makersAtOnce bounds the creations that are under way, so that those that
// clients gave up do not pile up while the metadata store is away.
const makersAtOnce = 64

// stepsAtOnce bounds the transactions of one creation that are under way: the
// store syncs those together that come together.
const stepsAtOnce = 8

// makers carry out plans of several transactions. What is begun is brought to
// an end although its client does not wait any more: half of it would keep
// others from adding partitions for as long as this broker lives (what a dead
// one left behind is the controller's, safety 29).
type makers struct {
	ctx   context.Context // of the broker's life
	end   context.CancelFunc
	slots chan struct{}

	mu   sync.Mutex // nothing is added to busy once ctx has ended
	busy sync.WaitGroup
}

func newMakers() *makers {
	m := &makers{slots: make(chan struct{}, makersAtOnce)}
	m.ctx, m.end = context.WithCancel(context.Background())
	return m
}

// Run ends, with ctx, what is under way.
func (w *wishes) Run(ctx context.Context) error {
	<-ctx.Done()
	w.makers.stop()
	return nil
}

// start runs do, unless the broker stops.
func (m *makers) start(do func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	m.busy.Go(do)
	return nil
}

func (m *makers) stop() {
	m.mu.Lock()
	m.end()
	m.mu.Unlock()
	m.busy.Wait()
}

// make carries a plan of new partitions out, and waits until they serve.
func (w *wishes) make(ctx context.Context, m *plan.Making, id kafka.TopicID) error {
	select {
	case w.makers.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	type outcome struct {
		rev int64
		err error
	}
	done := make(chan outcome, 1)
	if err := w.makers.start(func() {
		defer func() { <-w.makers.slots }()
		rev, err := w.carryOut(w.makers.ctx, m)
		done <- outcome{rev, err}
	}); err != nil {
		<-w.makers.slots
		return err
	}
	select {
	case o := <-done:
		if o.err != nil {
			return o.err
		}
		return w.settled(ctx, o.rev, id)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// carryOut gives the revision at which all is made.
func (w *wishes) carryOut(ctx context.Context, m *plan.Making) (rev int64, err error) {
	res, again, err := w.sent(ctx, m.First)
	if errors.Is(err, metastore.ErrLeaseGone) {
		return 0, errNotJoined
	}
	if err != nil {
		return 0, err
	}
	pending := res.Rev
	if !res.Succeeded {
		if again && m.Added(res) {
			return res.Rev, nil
		}
		done, at, err := m.Outcome(res)
		if done || err != nil {
			return res.Rev, err
		}
		pending = at
	}
	rev, err = w.steps(ctx, m, pending)
	if err != nil && ctx.Err() == nil && !errors.Is(err, metastore.ErrStopped) {
		w.abandon(ctx, m, pending)
	}
	return rev, err
}

// steps carries out what follows the first transaction, and gives the revision
// at which all is made.
func (w *wishes) steps(ctx context.Context, m *plan.Making, pending int64) (rev int64, err error) {
	last := m.Steps() - 1
	if last < 0 {
		return pending, nil
	}
	side, sctx := errgroup.WithContext(ctx)
	side.SetLimit(stepsAtOnce)
	for n := range last {
		side.Go(func() error {
			_, err := w.step(sctx, m, n, pending)
			return err
		})
	}
	if err := side.Wait(); err != nil {
		return 0, err
	}
	return w.step(ctx, m, last, pending)
}

func (w *wishes) step(ctx context.Context, m *plan.Making, n int, pending int64) (rev int64, err error) {
	res, again, err := w.sent(ctx, m.Step(n, pending))
	if err == nil && !res.Succeeded && !(again && m.Added(res)) {
		_, err = m.StepOutcome(res)
	}
	return res.Rev, err
}

// sent carries a transaction out; again says that it was sent more than once.
func (w *wishes) sent(ctx context.Context, t kv.Txn) (res kv.TxnResult, again bool, err error) {
	sent := 0
	res, err = retried(ctx, func() (kv.TxnResult, error) {
		sent++
		return w.store.Txn(ctx, t)
	})
	return res, sent > 1, err
}

// abandon undoes a creation that cannot go on, and waits until the image shows
// it, for it may be planned anew. When the broker stops before that, its next
// start or another controller collects it.
func (w *wishes) abandon(ctx context.Context, m *plan.Making, pending int64) {
	res, err := txn(ctx, w.store, m.Abandon(pending))
	if err == nil {
		err = w.keeper.Await(ctx, res.Rev)
	}
	if err != nil && ctx.Err() == nil {
		w.log.Warn("leftovers of a topic's creation are for the controller", "err", err)
	}
}
