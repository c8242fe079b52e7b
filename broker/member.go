package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// revokeIn bounds the end of a registration: what is not revoked runs out.
const revokeIn = time.Second

// errReplaced: another process has this broker's number now.
var errReplaced = errors.New("registered by another process")

// member is this broker's place in the cluster: a session with the metadata
// store, and the registration under it. One that is lost is followed by another,
// under a new broker epoch, for as long as the process lives; the listeners stay
// open meanwhile. A node that carries the metadata alone registers without a
// session.
type member struct {
	self    kafka.NodeID
	startID string
	store   metastore.Store
	keeper  *imageKeeper
	ttl     time.Duration        // of the lease; 0: this node is alone
	clock   func() time.Duration // nil: the session's own
	wait    time.Duration        // how long a stop waits for others
	tells   func() *meta.Broker  // what the registration says
	// giveUp is called before the first registration, when there is none of this
	// number; it is not done when there is one after all, at a revision.
	giveUp func(context.Context) (rev int64, done bool, err error)
	gaveUp bool // Run's own
	log    *slog.Logger

	// follower is the image's; nil while there is none.
	follower atomic.Pointer[metastore.Follower]
	// allowed is closed when the broker may register; joined once it has.
	allowed, joined chan struct{}

	session    atomic.Pointer[metastore.Session] // nil while not registered
	registered atomic.Int64                      // the broker epoch that the session guards
	gone       chan struct{}                     // the image shows that the registration went
	leaving    atomic.Bool                       // no other registration follows this one
	count      atomic.Int64                      // registrations so far
}

// collectors show whether this broker is fenced, and how often it registered.
func (m *member) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "barnabas_session_valid", Help: "1 while this broker is registered and its session holds, 0 while it is fenced.",
		}, func() float64 {
			if m.Valid() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "barnabas_session_registrations_total", Help: "Registrations of this broker since its start: more than 1 says that sessions were lost.",
		}, func() float64 { return float64(m.count.Load()) }),
	}
}

func newMember(self kafka.NodeID, startID string, store metastore.Store, k *imageKeeper, log *slog.Logger) *member {
	return &member{
		self: self, startID: startID, store: store, keeper: k, log: log,
		allowed: make(chan struct{}), joined: make(chan struct{}), gone: make(chan struct{}, 1),
	}
}

// Valid says whether this broker may still answer for what it leads: its session
// holds, by the clock and by the image (safety 31, 33, 34).
func (m *member) Valid() bool {
	s := m.session.Load()
	return s != nil && s.ValidNow()
}

// join lets the broker register, and waits until it has.
func (m *member) join(ctx context.Context) error {
	close(m.allowed)
	select {
	case <-m.joined:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look fences at once when an image shows that the registration is gone; it is
// called before the image is published.
func (m *member) look(img *meta.Image) {
	epoch := m.registered.Load()
	if epoch == 0 || img.Revision() < epoch || m.keeper.Epoch(img) == epoch {
		return
	}
	m.session.Store(nil)
	select {
	case m.gone <- struct{}{}:
	default:
	}
}

// Run keeps this broker registered until ctx ends, and takes the registration
// back then: the logs are closed by that time (safety 35).
func (m *member) Run(ctx context.Context) error {
	select {
	case <-m.allowed:
	case <-ctx.Done():
		return nil
	}
	pause := controlRetry
	for {
		began := time.Now()
		err := m.live(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, metastore.ErrSessionLost) {
			return err
		}
		if m.leaving.Load() {
			<-ctx.Done()
			return nil
		}
		m.log.Warn("the registration is lost, and followed by another", "cause", err)
		if time.Since(began) > m.ttl { // it held: nobody is after it
			pause = controlRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, max(m.ttl, controlRetry))
	}
}

// live is one session, from the lease to its end.
func (m *member) live(ctx context.Context) error {
	s := m.newSession()
	own, end := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end(nil)
	wg.Go(func() { end(s.Run(own)) })
	lease, err := s.Lease(own)
	if err != nil {
		return context.Cause(own)
	}
	defer m.resign(ctx, s)
	epoch, err := m.register(own, lease)
	switch {
	case errors.Is(err, metastore.ErrLeaseGone):
		return fmt.Errorf("%w: %w", metastore.ErrSessionLost, err)
	case err != nil && own.Err() != nil:
		return context.Cause(own)
	case err != nil:
		return err
	}
	s.Guard(m.keeper.Image().Keys().Broker(m.self), epoch)
	select {
	case <-m.gone: // of the session before
	default:
	}
	m.session.Store(s)
	m.registered.Store(epoch)
	m.count.Add(1)
	m.look(m.keeper.Image()) // it may have gone already
	m.log.Info("registered", "epoch", epoch)
	select {
	case <-m.joined:
	default:
		close(m.joined)
	}
	select {
	case <-own.Done():
		m.session.Store(nil)
		return context.Cause(own)
	case <-m.gone:
	}
	if b, there := m.keeper.Image().Broker(m.self); there && b.StartID != m.startID {
		return fmt.Errorf("node.id %d is %w: this one ends", m.self, errReplaced)
	}
	return fmt.Errorf("%w: the registration was deleted", metastore.ErrSessionLost)
}

func (m *member) newSession() *metastore.Session {
	return metastore.NewSession(m.store, metastore.SessionConfig{
		TTL: m.ttl, Clock: m.clock, Position: m.position, Stale: m.restart, Logger: m.log,
	})
}

// position is the revision that the image has reached.
func (m *member) position() int64 {
	if f := m.follower.Load(); f != nil {
		return f.Rev()
	}
	return 0
}

// restart has the image listed anew: its watch lags.
func (m *member) restart() {
	if f := m.follower.Load(); f != nil {
		f.Restart()
	}
}

// resign takes back what a session holds: its lease, and with it the
// registration and the controller's place.
func (m *member) resign(ctx context.Context, s *metastore.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeIn)
	defer cancel()
	m.session.Store(nil)
	epoch := m.registered.Swap(0)
	err := s.Revoke(ctx)
	if m.ttl == 0 && epoch != 0 {
		_, err = m.store.Txn(ctx, plan.Unregister(m.keeper.Image().Keys(), m.self, epoch))
	}
	if err != nil {
		m.log.Warn("the registration stays until it runs out, or the next start", "err", err)
	}
}

// register makes this broker known under a new epoch, which it returns.
func (m *member) register(ctx context.Context, lease int64) (epoch int64, err error) {
	if err := m.keeper.Await(ctx, 1); err != nil {
		return 0, err
	}
	for {
		changed, img := m.keeper.Changed(), m.keeper.Image()
		existing, _ := img.Broker(m.self)
		r, err := plan.Register(img.Keys(), existing, m.tells(), lease)
		switch {
		case err != nil && m.patient(existing):
			m.log.Warn("registration waits until the other broker's session is over", "err", err)
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		case err != nil:
			return 0, err
		case r.Done:
			return existing.Epoch, nil
		}
		epoch, rev, err := m.carryOut(ctx, r, lease)
		if err != nil {
			return 0, err
		}
		if err := m.keeper.Await(ctx, rev); err != nil {
			return 0, err
		}
		if epoch != 0 {
			return epoch, nil
		}
	}
}

// patient: whoever has this broker's number may be gone, and only its session
// not: its directories were emptied, say. A broker that ran before does not wait.
func (m *member) patient(existing *meta.Broker) bool {
	select {
	case <-m.joined:
		return false
	default:
		return existing != nil && existing.Lease != 0
	}
}

// carryOut gives the epoch, or 0 when the plan was outrun; rev tells by what.
func (m *member) carryOut(ctx context.Context, r plan.Registration, lease int64) (epoch, rev int64, err error) {
	steps := []kv.Txn{r.Put}
	if r.Remove != nil {
		steps = []kv.Txn{*r.Remove, r.Put}
	}
	for i, s := range steps {
		put := i == len(steps)-1
		if put && !m.gaveUp {
			if rev, m.gaveUp, err = m.giveUp(ctx); err != nil || !m.gaveUp {
				return 0, rev, err
			}
		}
		res, err := txn(ctx, m.store, s)
		if err != nil {
			return 0, 0, err
		}
		if res.Succeeded && put {
			return res.Rev, res.Rev, nil
		}
		if res.Succeeded || len(res.Gets) == 0 || len(res.Gets[0]) == 0 {
			rev = res.Rev
			continue // it is removed, by whomever
		}
		other, err := meta.DecodeBroker(m.self, res.Gets[0][0])
		if err == nil && put && other.StartID == m.startID && other.Lease == lease {
			return other.Epoch, res.Rev, nil // our own, whose first answer was lost
		}
		return 0, res.Rev, err
	}
	return 0, rev, nil
}

// errNotJoined refuses changes of metadata until this broker is registered:
// clients ask another one, or again.
var errNotJoined = fmt.Errorf("%w: this broker is not registered yet", kerr.NotController)
