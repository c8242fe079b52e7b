package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

func testRevisions(f *fixture) {
	r0 := f.rev()
	r1 := f.do(put("a", "1"), put("b", "1"))
	f.equal("one revision for a transaction", r1, r0+1)
	r2 := f.do(put("a", "2"))
	f.equal("the next", r2, r1+1)
	a := f.must("a")
	f.equal("a", line(string(a.Value), a.CreateRev, a.ModRev, a.Version, a.Lease), line("2", r1, r2, 2, 0))
	b := f.must("b")
	f.equal("b", line(b.CreateRev, b.ModRev, b.Version), line(r1, r1, 1))
	f.do(del("a"))
	r4 := f.do(put("a", "3"))
	a = f.must("a")
	f.equal("a born again", line(a.CreateRev, a.ModRev, a.Version), line(r4, r4, 1))
	f.equal("rev", f.rev(), r4)
}

func testNoChangeNoRevision(f *fixture) {
	r := f.do(put("a", "1"))
	f.equal("delete of nothing", f.do(del("none")), r)
	f.equal("delete of an empty range", f.do(metastore.Op{Kind: metastore.Delete, Key: "x", End: "z"}), r)
	f.equal("get", f.do(get("a")), r)
	f.equal("no operation", f.do(), r)
	f.equal("branch not taken", f.txn(metastore.Txn{
		If:   []metastore.Cmp{{Key: "a", Target: metastore.ModRev, Want: 0}},
		Then: []metastore.Op{put("a", "2")},
	}).Rev, r)
	f.equal("the same value again is a change", f.do(put("a", "1")), r+1)
	f.equal("a lease is none", f.grant(60e9) != 0 && f.rev() == r+1, true)
}

func testCompareTargets(f *fixture) {
	r1 := f.do(put("a", "1"))
	r2 := f.do(put("a", "2"))
	for _, tt := range []struct {
		cmp  metastore.Cmp
		want bool
	}{
		{metastore.Cmp{Key: "a", Target: metastore.ModRev, Want: r2}, true},
		{metastore.Cmp{Key: "a", Target: metastore.ModRev, Want: r1}, false},
		{metastore.Cmp{Key: "a", Target: metastore.CreateRev, Want: r1}, true},
		{metastore.Cmp{Key: "a", Target: metastore.CreateRev, Want: r2}, false},
		{metastore.Cmp{Key: "a", Target: metastore.Version, Want: 2}, true},
		{metastore.Cmp{Key: "a", Target: metastore.Version, Want: 0}, false},
		{metastore.Cmp{Key: "none", Target: metastore.ModRev, Want: 0}, true},
		{metastore.Cmp{Key: "none", Target: metastore.CreateRev, Want: 0}, true},
		{metastore.Cmp{Key: "none", Target: metastore.Version, Want: 0}, true},
		{metastore.Cmp{Key: "none", Target: metastore.ModRev, Want: r1}, false},
	} {
		f.equal(fmt.Sprintf("%+v", tt.cmp), f.txn(metastore.Txn{If: []metastore.Cmp{tt.cmp}}).Succeeded, tt.want)
	}
	f.equal("every compare counts", f.txn(metastore.Txn{If: []metastore.Cmp{
		{Key: "a", Target: metastore.ModRev, Want: r2}, {Key: "none", Target: metastore.Version, Want: 1},
	}}).Succeeded, false)
	f.do(del("a"))
	f.equal("a deleted key is a missing one", f.txn(metastore.Txn{If: []metastore.Cmp{
		{Key: "a", Target: metastore.Version, Want: 0}, {Key: "a", Target: metastore.ModRev, Want: 0},
	}}).Succeeded, true)
}

func testElseBranchGets(f *fixture) {
	r := f.do(put("a", "1"), put("b", "2"), put("c", "3"))
	res := f.txn(metastore.Txn{
		If:   []metastore.Cmp{{Key: "a", Target: metastore.ModRev, Want: r + 9}},
		Then: []metastore.Op{put("a", "x")},
		Else: []metastore.Op{get("c"), get("none"), put("d", "4"), {Kind: metastore.Get, Key: "a", End: "c"}},
	})
	f.equal("succeeded", res.Succeeded, false)
	f.equal("the else branch wrote", res.Rev, r+1)
	f.equal("one entry a get", len(res.Gets), 3)
	f.equal("first", keysOf(res.Gets[0]), []string{"c"})
	f.equal("second", len(res.Gets[1]), 0)
	f.equal("third", keysOf(res.Gets[2]), []string{"a", "b"})
	f.equal("value", string(res.Gets[2][1].Value), "2")
	f.equal("a", string(f.must("a").Value), "1")
}

func testGetsSeeTheirOwnTxn(f *fixture) {
	f.do(put("a", "1"), put("b", "1"))
	res := f.txn(metastore.Txn{Then: []metastore.Op{
		get("a"), put("a", "2"), get("a"), del("b"), {Kind: metastore.Get, Key: "a", End: "\x00"},
	}})
	f.equal("before", string(res.Gets[0][0].Value), "1")
	f.equal("after", line(string(res.Gets[1][0].Value), res.Gets[1][0].ModRev), line("2", res.Rev))
	f.equal("after the delete", keysOf(res.Gets[2]), []string{"a"})
}

func testDeleteRange(f *fixture) {
	f.do(put("p/1", ""), put("p/2", ""), put("p0", ""), put("q", ""))
	w := f.watch("", 0)
	r := f.do(metastore.Op{Kind: metastore.Delete, Key: "p/", End: metastore.PrefixEnd("p/")}, put("z", "1"))
	f.equal("events", show(f.until(w, r)), []string{fmt.Sprintf("-p/1@%d", r), fmt.Sprintf("-p/2@%d", r), fmt.Sprintf("z=1@%d", r)})
	p, err := f.store.List(f.ctx, "", "", 0, 0)
	f.want(err, nil)
	f.equal("left", keysOf(p.KVs), []string{"p0", "q", "z"})
	f.do(metastore.Op{Kind: metastore.Delete, Key: "p1", End: "\x00"})
	p, err = f.store.List(f.ctx, "", "", 0, 0)
	f.want(err, nil)
	f.equal("left of all above p1", keysOf(p.KVs), []string{"p0"})
}

func testLimit(f *fixture) {
	fill := func(n int) (cmps []metastore.Cmp, ops []metastore.Op) {
		for i := range n {
			k := "k" + strconv.Itoa(i)
			cmps = append(cmps, metastore.Cmp{Key: k, Target: metastore.Version, Want: 0})
			ops = append(ops, put(k, "v"))
		}
		return cmps, ops
	}
	cmps, ops := fill(metastore.MaxOps)
	f.equal("128 of each", f.txn(metastore.Txn{If: cmps, Then: ops, Else: ops}).Succeeded, true)
	r := f.rev()
	moreCmps, moreOps := fill(metastore.MaxOps + 1)
	for name, t := range map[string]metastore.Txn{
		"compares": {If: moreCmps},
		"then":     {Then: moreOps},
		"else":     {Else: moreOps},
	} {
		_, err := f.store.Txn(f.ctx, t)
		if !errors.Is(err, metastore.ErrTooManyOps) || errors.Is(err, metastore.ErrMaybe) {
			f.Fatalf("129 %s: %v", name, err)
		}
	}
	f.equal("nothing was done", f.rev(), r)
}

func testDuplicateKeys(f *fixture) {
	r := f.do(put("a", "1"))
	for name, t := range map[string]metastore.Txn{
		"two puts":                {Then: []metastore.Op{put("a", "2"), put("a", "3")}},
		"two puts not taken":      {Else: []metastore.Op{put("a", "2"), put("a", "3")}},
		"put and delete":          {Then: []metastore.Op{put("a", "2"), del("a")}},
		"delete and put":          {Then: []metastore.Op{del("a"), put("a", "2")}},
		"put inside delete range": {Then: []metastore.Op{put("b", "2"), {Kind: metastore.Delete, Key: "a", End: "c"}}},
	} {
		_, err := f.store.Txn(f.ctx, t)
		if !errors.Is(err, metastore.ErrDuplicateKey) || errors.Is(err, metastore.ErrMaybe) {
			f.Fatalf("%s: %v", name, err)
		}
	}
	f.equal("nothing was done", f.rev(), r)
	f.equal("one put in each branch is fine", f.txn(metastore.Txn{
		Then: []metastore.Op{put("a", "2"), {Kind: metastore.Delete, Key: "b", End: "c"}, {Kind: metastore.Delete, Key: "bb"}},
		Else: []metastore.Op{put("a", "3")},
	}).Rev, r+1)
}

func testEmptyKeys(f *fixture) {
	for name, t := range map[string]metastore.Txn{
		"compare": {If: []metastore.Cmp{{Target: metastore.Version}}},
		"put":     {Then: []metastore.Op{put("", "v")}},
		"get":     {Else: []metastore.Op{get("")}},
		"delete":  {Then: []metastore.Op{del("")}},
	} {
		if _, err := f.store.Txn(f.ctx, t); !errors.Is(err, metastore.ErrEmptyKey) {
			f.Fatalf("%s: %v", name, err)
		}
	}
}

func testTooLarge(f *fixture) {
	_, err := f.store.Txn(f.ctx, metastore.Txn{Then: []metastore.Op{put("a", string(bytes.Repeat([]byte("x"), 3<<20)))}})
	if !errors.Is(err, metastore.ErrTooLarge) || errors.Is(err, metastore.ErrMaybe) {
		f.Fatalf("3 MiB: %v", err)
	}
	f.do(put("a", string(bytes.Repeat([]byte("x"), 1<<20))))
}

func testCompareAndSwapRace(f *fixture) {
	const workers, each = 8, 12
	f.do(put("n", "0"))
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if err := increment(f.ctx, f.store, "n"); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	n := f.must("n")
	f.equal("counter", string(n.Value), strconv.Itoa(workers*each))
	f.equal("version", n.Version, workers*each+1)
}

// increment adds one to a number by compare and swap, reading in the Else branch.
func increment(ctx context.Context, s metastore.Store, key string) error {
	var seen metastore.KV
	for {
		n, _ := strconv.Atoi(string(seen.Value))
		r, err := s.Txn(ctx, metastore.Txn{
			If:   []metastore.Cmp{{Key: key, Target: metastore.ModRev, Want: seen.ModRev}},
			Then: []metastore.Op{put(key, strconv.Itoa(n+1))},
			Else: []metastore.Op{get(key)},
		})
		if err != nil || r.Succeeded {
			return err
		}
		seen = r.Gets[0][0]
	}
}

// testDeadContext: a call that was never sent is certainly not carried out.
func testDeadContext(f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	r := f.rev()
	_, err := f.store.Txn(ctx, metastore.Txn{Then: []metastore.Op{put("a", "1")}})
	f.want(err, metastore.ErrUnavailable)
	f.want(err, context.Canceled)
	if errors.Is(err, metastore.ErrMaybe) {
		f.Fatalf("maybe: %v", err)
	}
	_, err = f.store.List(ctx, "", "", 0, 0)
	f.want(err, metastore.ErrUnavailable)
	_, err = f.store.Rev(ctx)
	f.want(err, metastore.ErrUnavailable)
	f.equal("rev", f.rev(), r)
}
