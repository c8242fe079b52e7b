package metastore

import (
	"context"
	"fmt"
	"slices"
)

// Txn implements Store.
func (m *Mem) Txn(ctx context.Context, t Txn) (TxnResult, error) {
	if err := checkTxn(t); err != nil {
		return TxnResult{}, err
	}
	if err := ctx.Err(); err != nil {
		return TxnResult{}, unavailable(err)
	}
	if err := m.enter(ctx); err != nil {
		// Without a quorum a proposal may sit in a log and be applied later.
		return TxnResult{}, fmt.Errorf("%w: %w", ErrMaybe, err)
	}
	defer m.mu.Unlock()
	res := TxnResult{Succeeded: true}
	for _, c := range t.If {
		if !m.holds(c) {
			res.Succeeded = false
			break
		}
	}
	ops := t.Then
	if !res.Succeeded {
		ops = t.Else
	}
	for _, op := range ops {
		if op.Kind == Put && op.Lease != 0 && m.leases[op.Lease] == nil {
			return TxnResult{}, fmt.Errorf("put %q: lease %x: %w", op.Key, op.Lease, ErrLeaseGone)
		}
	}
	var events []Event
	for _, op := range ops {
		switch op.Kind {
		case Put:
			events = append(events, m.put(op))
		case Delete:
			for _, kv := range m.rangeOp(op) {
				events = append(events, m.del(kv.Key))
			}
		case Get:
			res.Gets = append(res.Gets, m.rangeOp(op))
		}
	}
	m.commit(events)
	res.Rev = m.rev
	return res, nil
}

// memMaxBytes is etcd's default bound of a request.
const memMaxBytes = 3 << 19

// checkTxn refuses what etcd refuses before it proposes anything.
func checkTxn(t Txn) error {
	if n := max(len(t.If), len(t.Then), len(t.Else)); n > MaxOps {
		return fmt.Errorf("%d, at most %d: %w", n, MaxOps, ErrTooManyOps)
	}
	size := 0
	for _, c := range t.If {
		if c.Key == "" {
			return fmt.Errorf("compare: %w", ErrEmptyKey)
		}
		size += len(c.Key)
	}
	for _, ops := range [][]Op{t.Then, t.Else} {
		for _, op := range ops {
			if op.Key == "" {
				return fmt.Errorf("operation: %w", ErrEmptyKey)
			}
			size += len(op.Key) + len(op.End) + len(op.Value)
		}
	}
	for _, ops := range [][]Op{t.Then, t.Else} {
		if err := checkOverlap(ops); err != nil {
			return err
		}
	}
	if size > memMaxBytes {
		return fmt.Errorf("%d bytes, at most %d: %w", size, memMaxBytes, ErrTooLarge)
	}
	return nil
}

func checkOverlap(ops []Op) error {
	puts := map[string]bool{}
	for _, op := range ops {
		if op.Kind != Put {
			continue
		}
		if puts[op.Key] {
			return fmt.Errorf("put %q twice: %w", op.Key, ErrDuplicateKey)
		}
		puts[op.Key] = true
		for _, d := range ops {
			if d.Kind == Delete && inRange(op.Key, d.Key, d.End) {
				return fmt.Errorf("put and delete %q: %w", op.Key, ErrDuplicateKey)
			}
		}
	}
	return nil
}

// inRange of an operation: end "" is the one key, "\x00" the last key.
func inRange(key, from, end string) bool {
	if end == "" {
		return key == from
	}
	return key >= from && (end == "\x00" || key < end)
}

func (m *Mem) holds(c Cmp) bool {
	kv, _ := m.newest(c.Key)
	switch c.Target {
	case ModRev:
		return kv.ModRev == c.Want
	case CreateRev:
		return kv.CreateRev == c.Want
	case Version:
		return kv.Version == c.Want
	}
	return false
}

func (m *Mem) rangeOp(op Op) []KV {
	if op.End == "" {
		if kv, ok := m.newest(op.Key); ok {
			return []KV{kv}
		}
		return nil
	}
	kvs, _ := m.rangeAt(op.Key, op.End, m.rev+1, 0)
	return kvs
}

func (m *Mem) put(op Op) Event {
	rev := m.rev + 1
	kv := KV{Key: op.Key, Value: slices.Clone(op.Value), CreateRev: rev, ModRev: rev, Version: 1, Lease: op.Lease}
	if old, ok := m.newest(op.Key); ok {
		kv.CreateRev, kv.Version = old.CreateRev, old.Version+1
		m.detach(old)
	}
	if l := m.leases[op.Lease]; l != nil {
		l.keys[op.Key] = true
	}
	m.push(memVer{kv: kv})
	return Event{KV: kv}
}

func (m *Mem) del(key string) Event {
	old, _ := m.newest(key)
	m.detach(old)
	kv := KV{Key: key, ModRev: m.rev + 1}
	m.push(memVer{kv: kv, deleted: true})
	return Event{KV: kv, Deleted: true}
}

// commit makes the events the next revision, if there are any, and tells the watches.
func (m *Mem) commit(events []Event) {
	if len(events) == 0 {
		return
	}
	m.rev++
	r := memRev{rev: m.rev, events: events}
	m.log = append(m.log, r)
	for w := range m.watchers {
		w.offer(r)
	}
}
