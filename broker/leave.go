package broker

import (
	"context"
	"time"

	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// leave hands over, when ctx ends, what this broker leads: it says that it is
// leaving, and waits until the controller, which may be this broker, has found
// other leaders and taken it out of the ISRs (safety 35). It gives up when
// nobody can be told, or after barnabas.shutdown.timeout.ms.
func (m *member) leave(ctx context.Context) error {
	<-ctx.Done()
	m.leaving.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.wait)
	defer cancel()
	if m.ttl == 0 || !m.others() || !m.sayLeaving(ctx) {
		return nil
	}
	began := time.Now()
	for ctx.Err() == nil && m.Valid() {
		changed := m.keeper.Changed()
		leads, inSync := plan.Holding(m.keeper.Image(), m.self)
		if leads+inSync == 0 {
			m.log.Info("others have taken over", "took", time.Since(began).Round(time.Millisecond))
			break
		}
		m.await(ctx, changed)
	}
	if leads, inSync := plan.Holding(m.keeper.Image(), m.self); leads+inSync > 0 {
		m.log.Warn("stops although not all is handed over", "leads", leads, "in_sync", inSync)
	}
	m.stepDown(ctx)
	return nil
}

// others: somebody stays who could take over.
func (m *member) others() bool {
	for _, b := range m.keeper.Image().Brokers() {
		if b.ID != m.self && !b.Leaving {
			return true
		}
	}
	return false
}

// sayLeaving writes into the registration that this broker goes.
func (m *member) sayLeaving(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, m.ttl)
	defer cancel()
	for m.Valid() && ctx.Err() == nil {
		changed, img := m.keeper.Changed(), m.keeper.Image()
		t, err := plan.SetLeaving(img, m.self, m.registered.Load())
		if err != nil {
			break // no longer registered
		}
		res, err := txn(ctx, m.store, t)
		if err != nil {
			break
		}
		if res.Succeeded {
			m.log.Info("leaving: what this broker leads goes to others")
			return m.keeper.Await(ctx, res.Rev) == nil
		}
		m.await(ctx, changed) // the registration was changed meanwhile
	}
	m.log.Warn("stops without handing over: the metadata store could not be told")
	return false
}

// await waits for another image, and no longer than it takes to notice that the
// session does not hold any more.
func (m *member) await(ctx context.Context, changed <-chan struct{}) {
	t := time.NewTimer(m.ttl / 3)
	defer t.Stop()
	select {
	case <-changed:
	case <-ctx.Done():
	case <-t.C:
	}
}

// stepDown gives the controller's place to those who stay.
func (m *member) stepDown(ctx context.Context) {
	img := m.keeper.Image()
	c, held := img.ControllerHolder()
	if !held || c.Node != m.self || c.BrokerEpoch != m.registered.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeIn)
	defer cancel()
	if _, err := m.store.Txn(ctx, plan.StepDown(img.Keys(), c.CreateRev)); err != nil {
		m.log.Warn("the controller's place is given up with the registration", "err", err)
	}
}
