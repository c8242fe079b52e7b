// Package metastore is the narrow door to the metadata engine: Txn, List,
// Watch and Session, with the semantics of etcd v3. The in-memory form in this
// package serves tests and simulation; etcdstore is the engine. One
// conformance suite (metastore/storetest) runs against both.
//
// Revisions are those of etcd: one counter for the whole store, raised by one
// per transaction that changed something.
package metastore

import (
	"context"
	"errors"
	"time"

	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// The values that are exchanged with the engine are those of meta/kv, so that
// the pure packages below can speak of transactions too.
type (
	KV        = kv.KV
	Target    = kv.Target
	Cmp       = kv.Cmp
	Op        = kv.Op
	OpKind    = kv.OpKind
	Txn       = kv.Txn
	TxnResult = kv.TxnResult
	Event     = kv.Event
	Change    = kv.Change
)

// The names of kv's constants.
const (
	ModRev    = kv.ModRev
	CreateRev = kv.CreateRev
	Version   = kv.Version

	Put    = kv.Put
	Delete = kv.Delete
	Get    = kv.Get

	MaxOps = kv.MaxOps
)

// Page is one List answer.
type Page struct {
	KVs  []KV
	Rev  int64
	More bool
}

var (
	// ErrMaybe marks a transaction whose outcome is unknown (time-out, lost connection): it may have been, or may yet be, applied.
	ErrMaybe = errors.New("outcome unknown")
	// ErrCompacted: the revision asked for is gone: list again.
	ErrCompacted = errors.New("revision compacted")
	// ErrTooManyOps: more than MaxOps.
	ErrTooManyOps = errors.New("too many operations in one transaction")
	// ErrLeaseGone: the lease named by a Put does not exist.
	ErrLeaseGone = errors.New("lease not found")
	// ErrUnavailable: certainly not carried out, try again.
	ErrUnavailable = errors.New("metadata store unavailable")
	// ErrDuplicateKey: one branch puts a key twice, or puts what it also deletes.
	ErrDuplicateKey = errors.New("key changed twice in one transaction")
	// ErrTooLarge: the transaction is larger than the engine takes (1.5 MiB in etcd).
	ErrTooLarge = errors.New("transaction too large")
	// ErrEmptyKey: a compare or an operation names no key.
	ErrEmptyKey = errors.New("empty key")
	// ErrFutureRev: the revision asked for does not exist yet.
	ErrFutureRev = errors.New("revision in the future")
	// ErrStopped accompanies ErrUnavailable once the engine has ended: it does not come back.
	ErrStopped = errors.New("metadata store stopped")
	// ErrNoSpace accompanies ErrUnavailable while the engine is over its quota.
	ErrNoSpace = errors.New("metadata store over its quota")
)

// Store is the engine.
type Store interface {
	Txn(ctx context.Context, t Txn) (TxnResult, error)
	// List returns keys in [prefix, end of prefix) from key on, sorted, at revision rev (0: newest), at most limit (0: all).
	// Page.Rev is the revision that was read. ErrCompacted, ErrFutureRev.
	List(ctx context.Context, prefix, from string, rev int64, limit int) (Page, error)
	// Watch delivers every change of keys under prefix from revision from on (0: what comes next), until ctx ends. Close reason: Watcher.Err.
	Watch(ctx context.Context, prefix string, from int64) (Watcher, error)
	// Grant makes a lease. The engine counts in whole seconds, at least about one and a half election time-outs.
	Grant(ctx context.Context, ttl time.Duration) (lease int64, err error)
	// Renew extends a lease once (KeepAliveOnce); ErrLeaseGone.
	Renew(ctx context.Context, lease int64) (ttl time.Duration, err error)
	// Revoke ends a lease and deletes its keys at one revision.
	Revoke(ctx context.Context, lease int64) error
	// Rev is the store's revision, read linearizably.
	Rev(ctx context.Context) (int64, error)
}

// Watcher is one watch.
type Watcher interface {
	// C is closed when the watch ends. The events of one revision never come in two Changes.
	C() <-chan Change
	// Err after C closed: ctx's error, ErrCompacted, or what broke.
	Err() error
}

// Compacter is a Store whose history can be cut by hand: reading before rev is ErrCompacted afterwards.
type Compacter interface {
	Compact(ctx context.Context, rev int64) error
}

// ProgressRequester is a Store that can be asked where its watches stand: each watch that is up to date answers with a Change without events.
type ProgressRequester interface {
	RequestProgress(ctx context.Context) error
}

// PrefixEnd is the exclusive end of the keys that begin with prefix, "\x00" when there is none (etcd's way to say "to the last key").
func PrefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return "\x00"
}
