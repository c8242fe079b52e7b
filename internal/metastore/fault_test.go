package metastore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

func putTxn(key string) metastore.Txn {
	return metastore.Txn{Then: []metastore.Op{{Kind: metastore.Put, Key: key, Value: []byte("v")}}}
}

func has(t *testing.T, s metastore.Store, key string) bool {
	t.Helper()
	p, err := s.List(context.Background(), key, "", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return len(p.KVs) > 0
}

func TestFaultKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		m := metastore.NewMem()
		f := metastore.NewFaulty(m)
		var fault metastore.Fault
		f.OnTxn(func(metastore.Txn) metastore.Fault { return fault })
		for _, tt := range []struct {
			kind    metastore.FaultKind
			err     error
			applied bool
		}{
			{metastore.NoFault, nil, true},
			{metastore.Refused, metastore.ErrUnavailable, false},
			{metastore.LostRequest, metastore.ErrMaybe, false},
			{metastore.LostAnswer, metastore.ErrMaybe, true},
			{metastore.Late, metastore.ErrMaybe, false},
		} {
			fault.Kind = tt.kind
			key := fmt.Sprint("k", tt.kind)
			if _, err := f.Txn(ctx, putTxn(key)); !errors.Is(err, tt.err) {
				t.Fatalf("%s: %v", key, err)
			}
			if has(t, m, key) != tt.applied {
				t.Fatalf("%s: applied %v", key, !tt.applied)
			}
		}
		if n, err := f.Flush(ctx); n != 1 || err != nil || !has(t, m, fmt.Sprint("k", metastore.Late)) {
			t.Fatalf("flush: %d %v", n, err)
		}
		fault = metastore.Fault{Kind: metastore.Late, Delay: time.Second}
		if _, err := f.Txn(ctx, putTxn("timed")); !errors.Is(err, metastore.ErrMaybe) {
			t.Fatal(err)
		}
		time.Sleep(999 * time.Millisecond)
		if has(t, m, "timed") {
			t.Fatal("too early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if !has(t, m, "timed") {
			t.Fatal("never")
		}
		if n, _ := f.Flush(ctx); n != 0 {
			t.Fatalf("carried out twice")
		}
	})
}

func TestFaultyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metastore.NewMem()
		f := metastore.NewFaulty(m)
		w, err := f.Watch(t.Context(), "k", 0)
		if err != nil {
			t.Fatal(err)
		}
		f.HoldWatches(true)
		for i := range 3 {
			if _, err := m.Txn(t.Context(), putTxn(fmt.Sprint("k", i))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		select {
		case c := <-w.C():
			t.Fatalf("held: %+v", c)
		default:
		}
		f.HoldWatches(false)
		for i := range 3 {
			if c := <-w.C(); c.Events[0].KV.Key != fmt.Sprint("k", i) {
				t.Fatalf("%d: %+v", i, c)
			}
		}
		broken := errors.New("broken")
		f.BreakWatches(broken)
		if _, ok := <-w.C(); ok || !errors.Is(w.Err(), broken) {
			t.Fatalf("err %v", w.Err())
		}
		f.Cut(true)
		if _, err := f.Watch(t.Context(), "k", 0); !errors.Is(err, metastore.ErrUnavailable) {
			t.Fatal(err)
		}
		if _, err := f.Txn(t.Context(), putTxn("cut")); !errors.Is(err, metastore.ErrMaybe) || has(t, m, "cut") {
			t.Fatal(err)
		}
	})
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metastore.NewMem()
		lease, err := m.Grant(t.Context(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		m.Stall(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := m.Txn(ctx, putTxn("a")); !errors.Is(err, metastore.ErrMaybe) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("txn: %v", err)
		}
		if _, err := m.Rev(ctx); !errors.Is(err, metastore.ErrUnavailable) {
			t.Fatalf("rev: %v", err)
		}
		m.Stall(false)
		time.Sleep(4900 * time.Millisecond)
		if _, err := m.Renew(t.Context(), lease); err != nil {
			t.Fatalf("the lease starts anew: %v", err)
		}
		time.Sleep(5001 * time.Millisecond)
		synctest.Wait()
		if _, err := m.Renew(t.Context(), lease); !errors.Is(err, metastore.ErrLeaseGone) {
			t.Fatalf("and expires as ever: %v", err)
		}
	})
}

// follow runs a follower that writes down what it is told.
func follow(t *testing.T, s metastore.Store) (*metastore.Follower, func() string) {
	t.Helper()
	var log []string
	f := metastore.NewFollower(s, "k", func(u metastore.Update) error {
		if u.Resync {
			log = append(log, fmt.Sprintf("sync(%d keys)@%d", len(u.KVs), u.Rev))
			return nil
		}
		for _, e := range u.Events {
			log = append(log, fmt.Sprintf("%s@%d", e.KV.Key, e.KV.ModRev))
		}
		return nil
	}, nil)
	go func() { _ = f.Run(t.Context()) }()
	return f, func() string {
		synctest.Wait()
		out := strings.Join(log, " ")
		log = nil
		return out
	}
}

func TestFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metastore.NewMem()
		link := metastore.NewFaulty(m)
		do := func(key string) {
			t.Helper()
			if _, err := m.Txn(t.Context(), putTxn(key)); err != nil {
				t.Fatal(err)
			}
		}
		want := func(got func() string, want string) {
			t.Helper()
			if g := got(); g != want {
				t.Fatalf("got %q, want %q", g, want)
			}
		}
		do("k1") // 2
		f, told := follow(t, link)
		want(told, "sync(1 keys)@2")
		do("k2")
		do("other") // 4: another prefix
		do("k3")
		want(told, "k2@3 k3@5")
		// Cut off while history is compacted: a listing again, whole.
		link.Cut(true)
		link.BreakWatches(metastore.ErrCompacted)
		do("k4")
		do("k5") // 7
		if err := m.Compact(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		want(told, "")
		link.Cut(false)
		time.Sleep(4 * time.Second)
		want(told, "sync(5 keys)@7")
		do("k6")
		want(told, "k6@8")
		f.Restart()
		time.Sleep(time.Second)
		want(told, "sync(6 keys)@8")
		if f.Rev() != 8 {
			t.Fatalf("rev %d", f.Rev())
		}
	})
}

func TestFollowerEndsWithConsumer(t *testing.T) {
	m := metastore.NewMem()
	mine := errors.New("consumer gave up")
	if err := metastore.Follow(t.Context(), m, "", func(metastore.Update) error { return mine }); !errors.Is(err, mine) {
		t.Fatal(err)
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a/": "a0", "a\xff": "b", "": "\x00", "\xff\xff": "\x00"} {
		if got := metastore.PrefixEnd(prefix); got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}
