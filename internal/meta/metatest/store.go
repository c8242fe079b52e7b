package metatest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Store carries out transactions on keys in memory. It refuses what the engine
// would refuse. Leases have no time, and end when they are revoked.
type Store struct {
	Rev  int64
	keys map[string]kv.KV
}

// NewStore gives an empty store at revision 1, as etcd's is.
func NewStore() *Store { return &Store{Rev: 1, keys: map[string]kv.KV{}} }

// List gives the keys under prefix, sorted.
func (s *Store) List(prefix string) []kv.KV {
	var out []kv.KV
	for _, k := range slices.Sorted(maps.Keys(s.keys)) {
		if strings.HasPrefix(k, prefix) {
			out = append(out, s.keys[k])
		}
	}
	return out
}

// Get reads one key.
func (s *Store) Get(key string) (kv.KV, bool) {
	e, ok := s.keys[key]
	return e, ok
}

// Do carries a transaction out and says what it changed; the change's revision
// is 0 when it changed nothing.
func (s *Store) Do(t kv.Txn) (kv.TxnResult, kv.Change, error) {
	if err := check(t); err != nil {
		return kv.TxnResult{}, kv.Change{}, err
	}
	ok := !slices.ContainsFunc(t.If, func(c kv.Cmp) bool { return !s.holds(c) })
	ops := t.Then
	if !ok {
		ops = t.Else
	}
	res := kv.TxnResult{Succeeded: ok}
	ch := kv.Change{Rev: s.Rev + 1}
	for _, op := range ops {
		switch op.Kind {
		case kv.Put:
			ch.Events = append(ch.Events, kv.Event{KV: s.put(op)})
		case kv.Delete:
			for _, k := range s.keysIn(op) {
				delete(s.keys, k)
				ch.Events = append(ch.Events, kv.Event{KV: kv.KV{Key: k, ModRev: s.Rev + 1}, Deleted: true})
			}
		case kv.Get:
			var got []kv.KV
			for _, k := range s.keysIn(op) {
				got = append(got, s.keys[k])
			}
			res.Gets = append(res.Gets, got)
		}
	}
	if len(ch.Events) == 0 {
		res.Rev = s.Rev
		return res, kv.Change{}, nil
	}
	s.Rev++
	res.Rev = s.Rev
	return res, ch, nil
}

func (s *Store) put(op kv.Op) kv.KV {
	e, was := s.keys[op.Key]
	if !was {
		e = kv.KV{Key: op.Key, CreateRev: s.Rev + 1}
	}
	e.Value, e.Lease, e.ModRev = op.Value, op.Lease, s.Rev+1
	e.Version++
	s.keys[op.Key] = e
	return e
}

// Set writes one key as if by hand.
func (s *Store) Set(key, value string) kv.Change {
	_, ch, err := s.Do(kv.Txn{Then: []kv.Op{kv.PutOp(key, []byte(value), 0)}})
	if err != nil {
		panic(err) // one put is never refused
	}
	return ch
}

// Revoke ends a lease.
func (s *Store) Revoke(lease int64) kv.Change {
	ch := kv.Change{Rev: s.Rev + 1}
	for _, k := range slices.Sorted(maps.Keys(s.keys)) {
		if s.keys[k].Lease == lease {
			delete(s.keys, k)
			ch.Events = append(ch.Events, kv.Event{KV: kv.KV{Key: k, ModRev: s.Rev + 1}, Deleted: true})
		}
	}
	if len(ch.Events) == 0 {
		return kv.Change{}
	}
	s.Rev++
	return ch
}

func (s *Store) holds(c kv.Cmp) bool {
	e := s.keys[c.Key]
	switch c.Target {
	case kv.ModRev:
		return e.ModRev == c.Want
	case kv.CreateRev:
		return e.CreateRev == c.Want
	}
	return e.Version == c.Want
}

func (s *Store) keysIn(op kv.Op) []string {
	if op.End == "" {
		if _, ok := s.keys[op.Key]; ok {
			return []string{op.Key}
		}
		return nil
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(s.keys)) {
		if k >= op.Key && k < op.End {
			out = append(out, k)
		}
	}
	return out
}

func check(t kv.Txn) error {
	if n := max(len(t.If), len(t.Then), len(t.Else)); n > kv.MaxOps {
		return fmt.Errorf("%d compares or operations in one transaction, %d are allowed", n, kv.MaxOps)
	}
	for _, ops := range [][]kv.Op{t.Then, t.Else} {
		puts := map[string]bool{}
		for _, op := range ops {
			if op.Kind == kv.Put && puts[op.Key] {
				return fmt.Errorf("key %s is put twice", op.Key)
			}
			puts[op.Key] = puts[op.Key] || op.Kind == kv.Put
		}
		for _, op := range ops {
			if op.Kind != kv.Delete {
				continue
			}
			for k, put := range puts {
				if put && (k == op.Key || op.End != "" && k >= op.Key && k < op.End) {
					return fmt.Errorf("key %s is put and deleted", k)
				}
			}
		}
	}
	return nil
}
