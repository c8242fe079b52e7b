package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

func testList(f *fixture) {
	r := f.do(put("a/1", "x"), put("a/2", "y"), put("a/3", "z"), put("a0", ""), put("b", ""))
	for _, tt := range []struct {
		prefix, from string
		limit        int
		want         string
		more         bool
	}{
		{"a/", "", 0, "[a/1 a/2 a/3]", false},
		{"a/", "a/2", 0, "[a/2 a/3]", false},
		{"a/", "a/2\x00", 0, "[a/3]", false},
		{"a/", "b", 0, "[]", false},
		{"a/", "", 2, "[a/1 a/2]", true},
		{"a/", "", 3, "[a/1 a/2 a/3]", false},
		{"", "", 0, "[a/1 a/2 a/3 a0 b]", false},
		{"", "a0", 1, "[a0]", true},
		{"c", "", 0, "[]", false},
	} {
		p, err := f.store.List(f.ctx, tt.prefix, tt.from, 0, tt.limit)
		f.want(err, nil)
		f.equal(fmt.Sprintf("list %q from %q limit %d", tt.prefix, tt.from, tt.limit), line(keysOf(p.KVs), p.More, p.Rev), line(tt.want, tt.more, r))
	}
	_, err := f.store.List(f.ctx, "a", "", r+1, 0)
	f.want(err, metastore.ErrFutureRev)
}

// testListPages: pages at one revision are one state, whatever happens between them.
func testListPages(f *fixture) {
	for i := range 10 {
		f.do(put(fmt.Sprintf("k%d", i), "old"))
	}
	first, err := f.store.List(f.ctx, "k", "", 0, 4)
	f.want(err, nil)
	f.do(put("k5", "new"), del("k6"), put("k55", "new"))
	f.do(put("k9", "new"))
	kvs, page := first.KVs, first
	for page.More {
		page, err = f.store.List(f.ctx, "k", kvs[len(kvs)-1].Key+"\x00", first.Rev, 4)
		f.want(err, nil)
		f.equal("page's revision", page.Rev, first.Rev)
		kvs = append(kvs, page.KVs...)
	}
	f.equal("keys", len(kvs), 10)
	for i, kv := range kvs {
		f.equal("key", kv.Key, fmt.Sprintf("k%d", i))
		f.equal("value of "+kv.Key, string(kv.Value), "old")
	}
	all, rev, err := metastore.ListAll(f.ctx, f.store, "k", 3)
	f.want(err, nil)
	f.equal("now", line(keysOf(all), rev), line("[k0 k1 k2 k3 k4 k5 k55 k7 k8 k9]", f.rev()))
}

func testListOldRevision(f *fixture) {
	r1 := f.do(put("a", "1"))
	r2 := f.do(put("a", "2"), put("b", "1"))
	f.do(del("a"))
	at := func(rev int64) string {
		p, err := f.store.List(f.ctx, "", "", rev, 0)
		f.want(err, nil)
		s := ""
		for _, kv := range p.KVs {
			s += fmt.Sprintf("%s=%s(%d,%d,%d) ", kv.Key, kv.Value, kv.CreateRev, kv.ModRev, kv.Version)
		}
		return s
	}
	f.equal("at r1", at(r1), fmt.Sprintf("a=1(%d,%d,1) ", r1, r1))
	f.equal("at r2", at(r2), fmt.Sprintf("a=2(%d,%d,2) b=1(%d,%d,1) ", r1, r2, r2, r2))
	f.equal("now", at(0), fmt.Sprintf("b=1(%d,%d,1) ", r2, r2))
}

func testCompaction(f *fixture) {
	r1 := f.do(put("a", "1"), put("gone", "1"))
	r2 := f.do(put("a", "2"))
	r3 := f.do(del("gone"))
	r4 := f.do(put("b", "1"))
	f.compact(r3)
	_, err := f.store.List(f.ctx, "", "", r2, 0)
	f.want(err, metastore.ErrCompacted)
	_, err = f.store.List(f.ctx, "", "", r1, 0)
	f.want(err, metastore.ErrCompacted)
	p, err := f.store.List(f.ctx, "", "", r3, 0)
	f.want(err, nil)
	f.equal("at the compacted revision", line(keysOf(p.KVs), string(p.KVs[0].Value), p.KVs[0].Version), "[a] 2 2")
	p, err = f.store.List(f.ctx, "", "", r4, 0)
	f.want(err, nil)
	f.equal("after it", keysOf(p.KVs), []string{"a", "b"})
	c := f.store.(metastore.Compacter)
	f.want(c.Compact(f.ctx, r3), metastore.ErrCompacted)
	f.want(c.Compact(f.ctx, r4+1), metastore.ErrFutureRev)
	// What is left goes on as before.
	r5 := f.do(put("a", "3"), put("gone", "2"))
	f.equal("a", line(f.must("a").CreateRev, f.must("a").Version), line(r1, 3))
	f.equal("gone", line(f.must("gone").CreateRev, f.must("gone").Version), line(r5, 1))
}

func testLeaseRevoke(f *fixture) {
	l := f.grant(60 * time.Second)
	other := f.grant(60 * time.Second)
	f.do(putLease("b", l), putLease("a", l), putLease("c", other))
	r := f.do(putLease("d", l))
	f.equal("lease", f.must("b").Lease, l)
	w := f.watch("", 0)
	f.want(f.store.Revoke(f.ctx, l), nil)
	f.equal("all keys at one revision", show(f.until(w, r+1)), []string{fmt.Sprintf("-a@%d", r+1), fmt.Sprintf("-b@%d", r+1), fmt.Sprintf("-d@%d", r+1)})
	f.equal("rev", f.rev(), r+1)
	f.must("c")
	f.want(f.store.Revoke(f.ctx, l), metastore.ErrLeaseGone)
	empty := f.grant(60 * time.Second)
	f.want(f.store.Revoke(f.ctx, empty), nil)
	f.equal("a lease without keys costs no revision", f.rev(), r+1)
}

// testLeaseMovesWithPut: safety rule 1: a put over a key of another lease keeps
// the create revision, and the old lease forgets the key.
func testLeaseMovesWithPut(f *fixture) {
	l1, l2 := f.grant(60*time.Second), f.grant(60*time.Second)
	created := f.do(putLease("moved", l1), putLease("freed", l1), putLease("deleted", l1), putLease("kept", l1))
	r := f.do(putLease("moved", l2), put("freed", "v"), del("deleted"))
	r = max(r, f.do(put("deleted", "v")))
	m := f.must("moved")
	f.equal("moved", line(m.CreateRev, m.Version, m.Lease), line(created, 2, l2))
	f.equal("freed", f.must("freed").Lease, 0)
	w := f.watch("", 0)
	f.want(f.store.Revoke(f.ctx, l1), nil)
	f.equal("what l1 still held", show(f.until(w, r+1)), []string{fmt.Sprintf("-kept@%d", r+1)})
	f.want(f.store.Revoke(f.ctx, l2), nil)
	f.equal("what l2 held", show(f.until(w, r+2)), []string{fmt.Sprintf("-moved@%d", r+2)})
	f.must("freed")
	f.must("deleted")
}

func testLeaseExpiry(f *fixture) {
	dies, lives := f.grant(2*time.Second), f.grant(2*time.Second)
	f.do(putLease("dies", dies), putLease("lives", lives))
	w := f.watch("dies", 0)
	renew := time.NewTicker(500 * time.Millisecond)
	defer renew.Stop()
	for {
		select {
		case <-renew.C:
			ttl, err := f.store.Renew(f.ctx, lives)
			f.want(err, nil)
			if ttl < 2*time.Second {
				f.Fatalf("renewed for %v", ttl)
			}
			continue
		case c := <-w.C():
			if len(c.Events) == 0 {
				continue
			}
			f.equal("the expiry", line(len(c.Events), c.Events[0].Deleted, c.Events[0].KV.Key), "1 true dies")
		case <-f.ctx.Done():
			f.Fatal("the lease did not expire")
		}
		break
	}
	f.must("lives")
	_, err := f.store.Renew(f.ctx, dies)
	f.want(err, metastore.ErrLeaseGone)
}

func testLeaseGone(f *fixture) {
	const none = 1 << 40
	r := f.rev()
	_, err := f.store.Txn(f.ctx, metastore.Txn{Then: []metastore.Op{put("a", "1"), putLease("b", none)}})
	if !errors.Is(err, metastore.ErrLeaseGone) || errors.Is(err, metastore.ErrMaybe) {
		f.Fatalf("put under no lease: %v", err)
	}
	f.equal("nothing was done", f.rev(), r)
	if _, ok := f.read("a"); ok {
		f.Fatal("half of a transaction")
	}
	f.equal("the branch not taken is not looked at", f.txn(metastore.Txn{Then: []metastore.Op{put("a", "1")}, Else: []metastore.Op{putLease("b", none)}}).Rev, r+1)
	_, err = f.store.Renew(f.ctx, none)
	f.want(err, metastore.ErrLeaseGone)
	f.want(f.store.Revoke(f.ctx, none), metastore.ErrLeaseGone)
}
