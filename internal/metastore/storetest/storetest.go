// Package storetest is the conformance suite of metastore.Store: whatever passes
// it behaves as etcd v3 does, as far as Barnabas looks. It is for tests only.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// Factory makes an empty store that lives until the test ends.
type Factory func(t *testing.T) metastore.Store

// Run runs the whole suite, each test on a store of its own.
func Run(t *testing.T, factory Factory) {
	tests := []struct {
		name string
		run  func(*fixture)
	}{
		{"Revisions", testRevisions},
		{"NoChangeNoRevision", testNoChangeNoRevision},
		{"CompareTargets", testCompareTargets},
		{"ElseBranchGets", testElseBranchGets},
		{"GetsSeeTheirOwnTxn", testGetsSeeTheirOwnTxn},
		{"DeleteRange", testDeleteRange},
		{"Limit128", testLimit},
		{"DuplicateKeys", testDuplicateKeys},
		{"EmptyKeys", testEmptyKeys},
		{"TooLarge", testTooLarge},
		{"CompareAndSwapRace", testCompareAndSwapRace},
		{"List", testList},
		{"ListPages", testListPages},
		{"ListOldRevision", testListOldRevision},
		{"Compaction", testCompaction},
		{"LeaseRevoke", testLeaseRevoke},
		{"LeaseMovesWithPut", testLeaseMovesWithPut},
		{"LeaseExpiry", testLeaseExpiry},
		{"LeaseGone", testLeaseGone},
		{"WatchFromNow", testWatchFromNow},
		{"WatchFromPast", testWatchFromPast},
		{"WatchFromFuture", testWatchFromFuture},
		{"WatchWholeRevisions", testWatchWholeRevisions},
		{"WatchAcrossCompaction", testWatchAcrossCompaction},
		{"WatchCompacted", testWatchCompacted},
		{"WatchEnds", testWatchEnds},
		{"WatchProgress", testWatchProgress},
		{"DeadContext", testDeadContext},
		{"FollowUnderLoad", testFollowUnderLoad},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			store := factory(t)
			t.Cleanup(cancel) // before the store's own cleanup
			tt.run(&fixture{T: t, ctx: ctx, store: store})
		})
	}
}

// fixture is a test with its store, and the few verbs that tests are made of.
type fixture struct {
	*testing.T
	ctx   context.Context
	store metastore.Store
}

func (f *fixture) txn(t metastore.Txn) metastore.TxnResult {
	f.Helper()
	r, err := f.store.Txn(f.ctx, t)
	if err != nil {
		f.Fatalf("txn: %v", err)
	}
	return r
}

// do carries out operations without a condition and returns the revision.
func (f *fixture) do(ops ...metastore.Op) int64 {
	f.Helper()
	return f.txn(metastore.Txn{Then: ops}).Rev
}

func put(key, value string) metastore.Op {
	return metastore.Op{Kind: metastore.Put, Key: key, Value: []byte(value)}
}

func putLease(key string, lease int64) metastore.Op {
	return metastore.Op{Kind: metastore.Put, Key: key, Value: []byte("v"), Lease: lease}
}

func del(key string) metastore.Op { return metastore.Op{Kind: metastore.Delete, Key: key} }

func get(key string) metastore.Op { return metastore.Op{Kind: metastore.Get, Key: key} }

// read returns the one key, and whether it is there.
func (f *fixture) read(key string) (metastore.KV, bool) {
	f.Helper()
	kvs := f.txn(metastore.Txn{Then: []metastore.Op{get(key)}}).Gets[0]
	if len(kvs) == 0 {
		return metastore.KV{}, false
	}
	return kvs[0], true
}

func (f *fixture) must(key string) metastore.KV {
	f.Helper()
	kv, ok := f.read(key)
	if !ok {
		f.Fatalf("%s is not there", key)
	}
	return kv
}

func (f *fixture) rev() int64 {
	f.Helper()
	r, err := f.store.Rev(f.ctx)
	if err != nil {
		f.Fatalf("rev: %v", err)
	}
	return r
}

func (f *fixture) grant(ttl time.Duration) int64 {
	f.Helper()
	l, err := f.store.Grant(f.ctx, ttl)
	if err != nil {
		f.Fatalf("grant: %v", err)
	}
	if l == 0 {
		f.Fatal("lease 0 means none")
	}
	return l
}

func (f *fixture) compact(rev int64) {
	f.Helper()
	c, ok := f.store.(metastore.Compacter)
	if !ok {
		f.Skip("store cannot be compacted by hand")
	}
	if err := c.Compact(f.ctx, rev); err != nil {
		f.Fatalf("compact at %d: %v", rev, err)
	}
}

func (f *fixture) want(err, target error) {
	f.Helper()
	if !errors.Is(err, target) {
		f.Fatalf("error %v, want %v", err, target)
	}
}

func (f *fixture) equal(what string, got, want any) {
	f.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		f.Fatalf("%s: got %s, want %s", what, g, w)
	}
}

func (f *fixture) watch(prefix string, from int64) metastore.Watcher {
	f.Helper()
	w, err := f.store.Watch(f.ctx, prefix, from)
	if err != nil {
		f.Fatalf("watch: %v", err)
	}
	return w
}

// next is the next Change with events.
func (f *fixture) next(w metastore.Watcher) metastore.Change {
	f.Helper()
	for {
		select {
		case c, ok := <-w.C():
			if !ok {
				f.Fatalf("watch ended: %v", w.Err())
			}
			if len(c.Events) > 0 {
				return c
			}
		case <-f.ctx.Done():
			f.Fatal("no change came")
		}
	}
}

// until collects events up to revision rev.
func (f *fixture) until(w metastore.Watcher, rev int64) (out []metastore.Event) {
	f.Helper()
	for {
		c := f.next(w)
		out = append(out, c.Events...)
		if c.Rev >= rev {
			return out
		}
	}
}

// ended waits for the watch's end and returns why.
func (f *fixture) ended(w metastore.Watcher) error {
	f.Helper()
	for {
		select {
		case _, ok := <-w.C():
			if !ok {
				return w.Err()
			}
		case <-f.ctx.Done():
			f.Fatal("watch did not end")
		}
	}
}

// show prints events the way tests state them: key=value@mod or -key@mod.
func show(events []metastore.Event) (out []string) {
	for _, e := range events {
		if e.Deleted {
			out = append(out, fmt.Sprintf("-%s@%d", e.KV.Key, e.KV.ModRev))
		} else {
			out = append(out, fmt.Sprintf("%s=%s@%d", e.KV.Key, e.KV.Value, e.KV.ModRev))
		}
	}
	return out
}

// line puts a space between any two values.
func line(v ...any) string { return strings.TrimSuffix(fmt.Sprintln(v...), "\n") }

func keysOf(kvs []metastore.KV) (out []string) {
	for _, kv := range kvs {
		out = append(out, kv.Key)
	}
	return out
}
