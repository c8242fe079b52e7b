package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// writer sets one key to 0, 1, 2, ... and notes what was acknowledged.
type writer struct {
	key   string
	store func() *Store

	mu    sync.Mutex
	acked int       // the last, -1: none
	at    time.Time // of acked
	sent  int
	wrong error
	end   context.CancelFunc
	wg    sync.WaitGroup
}

func startWriter(t *testing.T, key string, store func() *Store) *writer {
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{key: key, store: store, acked: -1, end: cancel}
	w.wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			w.mu.Lock()
			w.sent = i
			w.mu.Unlock()
			cctx, done := context.WithTimeout(ctx, 2*time.Second)
			_, err := w.store().Txn(cctx, putTxn(key, strconv.Itoa(i)))
			done()
			w.note(i, err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *writer) note(i int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.acked, w.at = i, time.Now()
	case !errors.Is(err, metastore.ErrMaybe) && !errors.Is(err, metastore.ErrUnavailable):
		w.wrong = err
	}
}

func (w *writer) stop() {
	w.end()
	w.wg.Wait()
}

// progress waits until something is acknowledged that was sent from now on.
func (w *writer) progress(t testing.TB, limit time.Duration) {
	t.Helper()
	from := time.Now()
	w.mu.Lock()
	after := w.sent
	w.mu.Unlock()
	eventually(t, "writing "+w.key, limit, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.wrong != nil {
			t.Fatalf("%s: %v", w.key, w.wrong)
		}
		if w.acked > after && w.at.After(from) {
			return nil
		}
		return fmt.Errorf("%d acknowledged, %d sent", w.acked, w.sent)
	})
}

// check reads what is there after the end: nothing that was acknowledged is lost,
// and a maybe never comes over what was acknowledged after it.
func (w *writer) check(t testing.TB, s *Store) {
	t.Helper()
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong != nil {
		t.Errorf("%s: neither maybe nor unavailable: %v", w.key, w.wrong)
	}
	p, err := s.List(context.Background(), w.key, "", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	have := -1
	if len(p.KVs) == 1 {
		have, _ = strconv.Atoi(string(p.KVs[0].Value))
	}
	if have < w.acked || have > w.sent {
		t.Errorf("%s: acknowledged up to %d, sent up to %d, found %d", w.key, w.acked, w.sent, have)
	}
}

// follow keeps a copy with a Follower, and a session on it, and tells when the
// session is lost.
type follow struct {
	mu       sync.Mutex
	copy     map[string]string
	follower *metastore.Follower
	session  *metastore.Session
}

func startFollow(t *testing.T, s *Store, ttl time.Duration) *follow {
	t.Helper()
	f := &follow{copy: map[string]string{}}
	f.follower = metastore.NewFollower(s, "", f.apply, testLogger(t))
	// Fenced at half the time, so that there is the other half to come back in.
	f.session = metastore.NewSession(s, metastore.SessionConfig{TTL: ttl, Margin: ttl / 2, Position: f.follower.Rev, Stale: f.follower.Restart, Logger: testLogger(t)})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.follower.Run(ctx) })
	wg.Go(func() {
		if err := f.session.Run(ctx); ctx.Err() == nil {
			t.Errorf("session: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return f
}

func (f *follow) apply(u metastore.Update) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if u.Resync {
		clear(f.copy)
	}
	for _, kv := range u.KVs {
		f.copy[kv.Key] = string(kv.Value)
	}
	for _, e := range u.Events {
		f.copy[e.KV.Key] = string(e.KV.Value)
	}
	return nil
}

func (f *follow) has(key, value string) func() error {
	return func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.copy[key] != value {
			return fmt.Errorf("%s is %q, want %q", key, f.copy[key], value)
		}
		return nil
	}
}

func (f *follow) valid(want bool) func() error {
	return func() error {
		if got := f.session.ValidNow(); got != want {
			return fmt.Errorf("session valid: %v", got)
		}
		return nil
	}
}

// The leader is killed under transactions: they are maybe or unavailable for a
// moment, nothing acknowledged is lost, sessions and followers live on, and the
// killed one comes back.
func TestLeaderKilled(t *testing.T) {
	nodes := startNodes(t, someVoters(t, 3), nil)
	lead := leaderOf(t, nodes)
	out := outsider(t, lead) // it was told of nobody else
	var writers []*writer
	var follows []*follow
	add := func(key string, s *Store) {
		writers = append(writers, startWriter(t, key, func() *Store { return s }))
		follows = append(follows, startFollow(t, s, 9*time.Second))
	}
	add("outsider", out)
	for _, n := range nodes {
		if n != lead {
			add(fmt.Sprintf("node%d", n.cfg.Member.ID), n.store)
		}
	}
	for i := range writers {
		writers[i].progress(t, 10*time.Second)
		eventually(t, "session", 10*time.Second, follows[i].valid(true))
	}
	killed := time.Now()
	lead.kill()
	for _, w := range writers {
		w.progress(t, 10*time.Second)
	}
	t.Logf("writing again after %v", time.Since(killed))
	lead.start().ready()
	mustTxn(t, out, putTxn("last", "1"))
	for i, w := range writers {
		w.check(t, lead.store)
		eventually(t, "follower", 10*time.Second, follows[i].has("last", "1"))
		eventually(t, "session", time.Second, follows[i].valid(true))
	}
}

// Without a majority everything ends within its time-out, and comes back by itself.
func TestMajorityGone(t *testing.T) {
	nodes := startNodes(t, someVoters(t, 3), nil)
	out := outsider(t, nodes[0])
	left := nodes[2]
	session := startFollow(t, left.store, 3*time.Second)
	eventually(t, "session", 10*time.Second, session.valid(true))
	nodes[0].kill()
	nodes[1].kill()
	for name, s := range map[string]*Store{"member": left.store, "outsider": out} {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		start := time.Now()
		_, terr := s.Txn(ctx, putTxn("k", name))
		_, rerr := s.Rev(ctx)
		_, lerr := s.List(ctx, "k", "", 0, 0)
		cancel()
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("%s: three calls with 3 s took %v", name, took)
		}
		if !errors.Is(terr, metastore.ErrMaybe) && !errors.Is(terr, metastore.ErrUnavailable) {
			t.Errorf("%s: transaction: %v", name, terr)
		}
		if !errors.Is(rerr, metastore.ErrUnavailable) || !errors.Is(lerr, metastore.ErrUnavailable) {
			t.Errorf("%s: reads: %v, %v", name, rerr, lerr)
		}
	}
	eventually(t, "fenced", 5*time.Second, session.valid(false))
	nodes[0].start()
	for name, s := range map[string]*Store{"member": left.store, "outsider": out} {
		eventually(t, name, 15*time.Second, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_, err := s.Txn(ctx, putTxn("back", name))
			return err
		})
	}
	// Leases cannot end without a quorum: the same session holds again.
	eventually(t, "unfenced", 10*time.Second, session.valid(true))
	eventually(t, "follower", 5*time.Second, func() error {
		session.mu.Lock()
		defer session.mu.Unlock()
		if session.copy["back"] == "" {
			return errors.New("key back is not there")
		}
		return nil
	})
}

// A start without a quorum waits, serves nothing, and can be ended.
func TestNoQuorumAtStart(t *testing.T) {
	voters := someVoters(t, 3)
	n := newNode(t, voters, 1)
	n.cfg.RequestTimeout = 300 * time.Millisecond
	n.start()
	if _, err := n.store.Txn(context.Background(), putTxn("a", "1")); !errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, metastore.ErrMaybe) {
		t.Fatalf("transaction: %v", err)
	}
	if err := n.close(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("end: %v", err)
	}
}

// A member that is cut off from the leader keeps its watches open and says
// nothing: the session that reads the revision through the quorum is fenced, and
// what the watch missed is there once the member is back.
func TestCutOffMember(t *testing.T) {
	nodes := startNodes(t, someVoters(t, 3), nil)
	lead := leaderOf(t, nodes)
	var cut, other *node
	for _, n := range nodes {
		if n != lead {
			cut, other = n, cut
		}
	}
	f := startFollow(t, cut.store, 6*time.Second)
	eventually(t, "session", 10*time.Second, f.valid(true))
	srv := cut.store.member.Load().etcd.Server
	for _, n := range []*node{lead, other} {
		away := n.store.member.Load().etcd.Server
		srv.CutPeer(away.MemberID())
		away.CutPeer(srv.MemberID())
	}
	mustTxn(t, lead.store, putTxn("missed", "1"))
	eventually(t, "fenced", 12*time.Second, f.valid(false))
	if f.has("missed", "1")() == nil {
		t.Fatal("the member is not cut off")
	}
	for _, n := range []*node{lead, other} {
		away := n.store.member.Load().etcd.Server
		srv.MendPeer(away.MemberID())
		away.MendPeer(srv.MemberID())
	}
	eventually(t, "follower", 15*time.Second, f.has("missed", "1"))
	eventually(t, "unfenced", 15*time.Second, f.valid(true))
}
