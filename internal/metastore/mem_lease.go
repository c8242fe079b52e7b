package metastore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// memMinTTL is what an etcd with an election time-out of 1 s grants at least: one and a half of them, in whole seconds.
const memMinTTL = 2 * time.Second

type memLease struct {
	id    int64
	ttl   time.Duration
	keys  map[string]bool
	timer *time.Timer
	gen   int // raised by each renewal: a timer that fired before it does nothing
}

// Grant implements Store.
func (m *Mem) Grant(ctx context.Context, ttl time.Duration) (int64, error) {
	if err := m.enter(ctx); err != nil {
		return 0, unavailable(err)
	}
	defer m.mu.Unlock()
	m.lastLease++
	l := &memLease{
		id:   m.lastLease,
		ttl:  max(memMinTTL, (ttl + time.Second - 1).Truncate(time.Second)),
		keys: map[string]bool{},
	}
	m.leases[l.id] = l
	m.arm(l)
	return l.id, nil
}

func (m *Mem) arm(l *memLease) {
	l.gen++
	gen := l.gen
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(l.ttl, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.stalled == nil && m.leases[l.id] == l && l.gen == gen {
			m.end(l)
		}
	})
}

// Renew implements Store.
func (m *Mem) Renew(ctx context.Context, lease int64) (time.Duration, error) {
	if err := m.enter(ctx); err != nil {
		return 0, unavailable(err)
	}
	defer m.mu.Unlock()
	l := m.leases[lease]
	if l == nil {
		return 0, fmt.Errorf("renew %x: %w", lease, ErrLeaseGone)
	}
	m.arm(l)
	return l.ttl, nil
}

// Revoke implements Store.
func (m *Mem) Revoke(ctx context.Context, lease int64) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	if err := m.enter(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrMaybe, err)
	}
	defer m.mu.Unlock()
	l := m.leases[lease]
	if l == nil {
		return fmt.Errorf("revoke %x: %w", lease, ErrLeaseGone)
	}
	m.end(l)
	return nil
}

// end deletes the lease and its keys, all at one revision.
func (m *Mem) end(l *memLease) {
	l.timer.Stop()
	var events []Event
	for _, k := range slices.Sorted(maps.Keys(l.keys)) {
		events = append(events, m.del(k))
	}
	delete(m.leases, l.id)
	m.commit(events)
}

func (m *Mem) detach(kv KV) {
	if l := m.leases[kv.Lease]; l != nil {
		delete(l.keys, kv.Key)
	}
}
