package metastore

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
)

// Mem is the store in memory: etcd v3's semantics without its disk. It serves
// tests and simulation, starts no goroutine but one per watch, and takes time
// from package time, so that it lives in a testing/synctest bubble. All methods
// may be called concurrently. Faults are Faulty's business, except Stall.
type Mem struct {
	mu        sync.Mutex
	rev       int64
	compacted int64               // history before it is gone; 0: nothing is
	keys      []string            // sorted: every key of versions
	versions  map[string][]memVer // ascending; never empty
	log       []memRev            // ascending; what happened at compacted and later
	leases    map[int64]*memLease
	lastLease int64
	watchers  map[*memWatcher]struct{}
	stalled   chan struct{} // not nil while there is no quorum; closed when there is one
}

type memVer struct {
	kv      KV // of a deletion: key and ModRev
	deleted bool
}

type memRev struct {
	rev    int64
	events []Event
}

var (
	_ Store             = (*Mem)(nil)
	_ Compacter         = (*Mem)(nil)
	_ ProgressRequester = (*Mem)(nil)
)

// NewMem makes an empty store at revision 1, as etcd's.
func NewMem() *Mem {
	return &Mem{
		rev:      1,
		versions: map[string][]memVer{},
		leases:   map[int64]*memLease{},
		watchers: map[*memWatcher]struct{}{},
	}
}

// Stall takes the quorum away or gives it back. Without one every call waits
// until its context ends, and no lease expires; with the return of it every
// lease starts anew, as under a new leader.
func (m *Mem) Stall(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if on == (m.stalled != nil) {
		return
	}
	if on {
		m.stalled = make(chan struct{})
		for _, l := range m.leases {
			l.timer.Stop()
		}
		return
	}
	close(m.stalled)
	m.stalled = nil
	for _, l := range m.leases {
		l.timer.Reset(l.ttl)
	}
}

// enter locks the store once it has a quorum; the error is the context's.
func (m *Mem) enter(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.mu.Lock()
		wait := m.stalled
		if wait == nil {
			return nil
		}
		m.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// Rev implements Store.
func (m *Mem) Rev(ctx context.Context) (int64, error) {
	if err := m.enter(ctx); err != nil {
		return 0, unavailable(err)
	}
	defer m.mu.Unlock()
	return m.rev, nil
}

// List implements Store.
func (m *Mem) List(ctx context.Context, prefix, from string, rev int64, limit int) (Page, error) {
	if err := m.enter(ctx); err != nil {
		return Page{}, unavailable(err)
	}
	defer m.mu.Unlock()
	switch {
	case rev > m.rev:
		return Page{}, fmt.Errorf("list %q at %d, store at %d: %w", prefix, rev, m.rev, ErrFutureRev)
	case rev <= 0:
		rev = m.rev
	case rev < m.compacted:
		return Page{}, fmt.Errorf("list %q at %d, compacted at %d: %w", prefix, rev, m.compacted, ErrCompacted)
	}
	p := Page{Rev: rev}
	p.KVs, p.More = m.rangeAt(max(prefix, from), PrefixEnd(prefix), rev, limit)
	return p, nil
}

// rangeAt reads [key, end) as of rev; end "\x00" is the last key.
func (m *Mem) rangeAt(key, end string, rev int64, limit int) (kvs []KV, more bool) {
	for i := sort.SearchStrings(m.keys, key); i < len(m.keys); i++ {
		k := m.keys[i]
		if end != "\x00" && k >= end {
			break
		}
		kv, ok := m.at(k, rev)
		if !ok {
			continue
		}
		if limit > 0 && len(kvs) == limit {
			return kvs, true
		}
		kvs = append(kvs, kv)
	}
	return kvs, false
}

// at is the key as of rev.
func (m *Mem) at(key string, rev int64) (KV, bool) {
	vs := m.versions[key]
	for i := len(vs) - 1; i >= 0; i-- {
		if vs[i].kv.ModRev <= rev {
			return vs[i].kv, !vs[i].deleted
		}
	}
	return KV{}, false
}

func (m *Mem) newest(key string) (KV, bool) {
	vs := m.versions[key]
	if len(vs) == 0 || vs[len(vs)-1].deleted {
		return KV{}, false
	}
	return vs[len(vs)-1].kv, true
}

func (m *Mem) push(v memVer) {
	k := v.kv.Key
	if len(m.versions[k]) == 0 {
		i, _ := slices.BinarySearch(m.keys, k)
		m.keys = slices.Insert(m.keys, i, k)
	}
	m.versions[k] = append(m.versions[k], v)
}

// Compact implements Compacter: as in etcd, what was current at rev stays
// readable, and compacting twice at one revision is ErrCompacted.
func (m *Mem) Compact(ctx context.Context, rev int64) error {
	if err := m.enter(ctx); err != nil {
		return unavailable(err)
	}
	defer m.mu.Unlock()
	if rev <= m.compacted {
		return fmt.Errorf("compact at %d, compacted at %d: %w", rev, m.compacted, ErrCompacted)
	}
	if rev > m.rev {
		return fmt.Errorf("compact at %d, store at %d: %w", rev, m.rev, ErrFutureRev)
	}
	m.compacted = rev
	i := sort.Search(len(m.log), func(i int) bool { return m.log[i].rev >= rev })
	m.log = slices.Clone(m.log[i:])
	m.keys = slices.DeleteFunc(m.keys, func(k string) bool {
		vs := m.versions[k]
		keep := sort.Search(len(vs), func(i int) bool { return vs[i].kv.ModRev > rev }) - 1
		if keep >= 0 && vs[keep].deleted {
			keep++
		}
		if keep > 0 {
			vs = slices.Clone(vs[keep:])
			m.versions[k] = vs
		}
		if len(vs) == 0 {
			delete(m.versions, k)
		}
		return len(vs) == 0
	})
	return nil
}
