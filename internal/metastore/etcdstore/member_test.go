package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

func mustTxn(t *testing.T, s metastore.Store, txn metastore.Txn) metastore.TxnResult {
	t.Helper()
	r, err := s.Txn(context.Background(), txn)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A restarted member goes on where it was, watches from the past included.
func TestRestart(t *testing.T) {
	cfg := Config{Member: testMember(t)}
	s, stop := runUntil(t, cfg)
	lease, err := s.Grant(context.Background(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	first := mustTxn(t, s, metastore.Txn{Then: []metastore.Op{{Kind: metastore.Put, Key: "a", Value: []byte("1"), Lease: lease}}})
	stop()
	s = run(t, cfg)
	r := mustTxn(t, s, metastore.Txn{
		If:   []metastore.Cmp{{Key: "a", Target: metastore.CreateRev, Want: first.Rev}},
		Then: []metastore.Op{{Kind: metastore.Put, Key: "b"}},
	})
	if !r.Succeeded || r.Rev != first.Rev+1 {
		t.Fatalf("after restart: %+v, first was %d", r, first.Rev)
	}
	if _, err := s.Renew(context.Background(), lease); err != nil {
		t.Fatalf("lease after restart: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w, err := s.Watch(ctx, "", first.Rev)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for c := range w.C() {
		for _, e := range c.Events {
			seen = append(seen, e.KV.Key)
		}
		if c.Rev >= r.Rev {
			break
		}
	}
	if fmt.Sprint(seen) != "[a b]" {
		t.Fatalf("watch from the past: %v", seen)
	}
}

// Two single nodes are two clusters.
func TestClusterIDsDiffer(t *testing.T) {
	a, b := run(t, Config{Member: testMember(t)}), run(t, Config{Member: testMember(t)})
	id := func(s *Store) any { return s.member.Load().etcd.Server.Cluster().ID() }
	if id(a) == id(b) {
		t.Fatalf("both are cluster %v", id(a))
	}
}

// A single member has no port, client or peer.
func TestNoListener(t *testing.T) {
	before := sockets(t)
	s := run(t, Config{Member: testMember(t)})
	e := s.member.Load().etcd
	if len(e.Clients) != 0 || len(e.Peers) != 0 || s.member.Load().door != nil {
		t.Fatalf("listeners: %v %v", e.Clients, e.Peers)
	}
	for name := range sockets(t) {
		if !before[name] {
			t.Errorf("%s was opened", name)
		}
	}
}

// sockets of this process: those of an earlier test may still be about to close.
func sockets(t *testing.T) map[string]bool {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	out := map[string]bool{}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			out[to] = true
		}
	}
	return out
}

func TestDirectoryInUse(t *testing.T) {
	cfg := Config{Member: testMember(t)}
	run(t, cfg)
	s, err := New(cfg, testLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background()); !errors.Is(err, errLocked) || !strings.Contains(err.Error(), cfg.Member.Dir) {
		t.Fatalf("second store on one directory: %v", err)
	}
	if _, err := s.Rev(context.Background()); !errors.Is(err, metastore.ErrUnavailable) {
		t.Fatalf("call: %v", err)
	}
}

func TestConfigMistakes(t *testing.T) {
	for _, cfg := range []Config{{}, {Endpoints: []string{"a:1"}, Member: Member{Dir: "b"}}} {
		if _, err := New(cfg, nil, nil); err == nil {
			t.Fatalf("%+v is taken", cfg)
		}
	}
}

func TestCallsBeforeAndAfterRun(t *testing.T) {
	cfg := Config{Member: testMember(t)}
	s, err := New(cfg, testLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	early := make(chan error, 1)
	go func() {
		_, err := s.Txn(context.Background(), putTxn("early", "1"))
		early <- err
	}()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if err := <-early; err != nil {
		t.Fatalf("a call before Run waits for it: %v", err)
	}
	w, err := s.Watch(context.Background(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for range w.C() {
	}
	if !errors.Is(w.Err(), metastore.ErrUnavailable) {
		t.Fatalf("watch: %v", w.Err())
	}
	_, err = s.Txn(context.Background(), putTxn("late", "1"))
	if !errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, metastore.ErrMaybe) {
		t.Fatalf("late: %v", err)
	}
}

// A transaction given up in the middle is a maybe, and here it is carried out
// later: etcd's backend is held, so that the entry is committed and not applied.
func TestCancelledTxnIsMaybeAndApplies(t *testing.T) {
	s := run(t, Config{Member: testMember(t)})
	mustTxn(t, s, putTxn("a", "1"))
	srv := s.member.Load().etcd.Server
	// etcd's last proposal of its own: after it, what is committed is the test's.
	for deadline := time.Now().Add(10 * time.Second); srv.ClusterVersion() == nil; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the cluster's version is not decided")
		}
	}
	tx := srv.Backend().BatchTx()
	tx.LockOutsideApply()
	committed := srv.CommittedIndex()
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 1)
	go func() {
		_, err := s.Txn(ctx, putTxn("later", "1"))
		got <- err
	}()
	for deadline := time.Now().Add(10 * time.Second); srv.CommittedIndex() == committed; {
		if time.Now().After(deadline) {
			t.Fatal("nothing is committed")
		}
	}
	cancel()
	if err := <-got; !errors.Is(err, metastore.ErrMaybe) || errors.Is(err, metastore.ErrUnavailable) {
		t.Errorf("given up: %v", err)
	}
	tx.Unlock()
	waitFor(t, s, "later")
}

func TestQuotaAlarmHeals(t *testing.T) {
	m := testMember(t)
	m.Quota = 1 << 20
	m.CareEvery = 20 * time.Millisecond
	s := run(t, Config{Member: m})
	value := strings.Repeat("x", 100<<10)
	var err error
	var rev int64
	// The file grows when bbolt commits, every half second, so the refusal comes with a delay.
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		var r metastore.TxnResult
		if r, err = s.Txn(context.Background(), putTxn("big", value)); err != nil {
			break
		}
		rev = r.Rev
	}
	if !errors.Is(err, metastore.ErrNoSpace) || !errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, metastore.ErrMaybe) {
		t.Fatalf("over the quota: %v", err)
	}
	if err := s.Compact(context.Background(), rev); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err = s.Txn(context.Background(), putTxn("small", "1")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still: %v", err)
		}
	}
	var defrags dto.Metric
	if err := s.metrics.defrags.Write(&defrags); err != nil || defrags.Counter.GetValue() == 0 {
		t.Fatalf("healed without a rewrite? %v", err)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s, err := New(Config{Member: testMember(t)}, testLogger(t), reg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	mustTxn(t, s, putTxn("a", "1"))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.Metric[0]
		got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	for _, name := range []string{"barnabas_metadata_wal_sync_seconds", "barnabas_metadata_file_bytes", "barnabas_metadata_file_used_bytes", "barnabas_metadata_transaction_seconds"} {
		if got[name] <= 0 {
			t.Errorf("%s is %v: %v", name, got[name], got)
		}
	}
	for _, name := range []string{"barnabas_metadata_quota_alarm", "barnabas_metadata_wal_sync_p99_seconds"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Gather(); err != nil {
		t.Fatalf("after the end: %v", err)
	}
}

func TestPercentile(t *testing.T) {
	from := syncState{count: 100, buckets: map[float64]uint64{0.001: 100, 0.1: 100, 1: 100}}
	to := syncState{count: 300, buckets: map[float64]uint64{0.001: 290, 0.1: 299, 1: 300}}
	for q, want := range map[float64]time.Duration{0.5: time.Millisecond, 0.95: time.Millisecond, 0.99: 100 * time.Millisecond, 1: time.Second} {
		if got := percentile(from, to, q); got != want {
			t.Errorf("q %v: %v, want %v", q, got, want)
		}
	}
	if got := percentile(to, to, 0.99); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestBallast(t *testing.T) {
	b := newBallast(Member{Dir: t.TempDir(), Ballast: 1 << 20, BallastBelow: 2 << 20}, testLogger(t))
	free := int64(100 << 20)
	b.free = func(string) (int64, error) { return free, nil }
	size := func() int64 {
		st, err := os.Stat(b.path)
		if err != nil {
			return 0
		}
		return st.Size()
	}
	for _, step := range []struct {
		free, want int64
	}{
		{8 << 20, 0},         // too little to take any
		{100 << 20, 1 << 20}, // room: taken
		{3 << 20, 1 << 20},   // little, but above the mark
		{1 << 20, 0},         // given up
		{8 << 20, 0},         // not back at once
		{100 << 20, 1 << 20}, // and back
	} {
		free = step.free
		if got := b.tend(); got != step.want || size() != step.want {
			t.Fatalf("%d free: ballast %d, file %d, want %d", free, got, size(), step.want)
		}
	}
	again := newBallast(Member{Dir: filepath.Dir(b.path), Ballast: 1 << 20, BallastBelow: 2 << 20}, testLogger(t))
	again.free = func(string) (int64, error) { return 1 << 20, nil }
	if again.tend() != 0 || size() != 0 {
		t.Fatal("the ballast of an earlier run is not given up")
	}
}

// A start on a full disk has the ballast's room, and that of reserved segments.
func TestEase(t *testing.T) {
	dir := t.TempDir()
	wal := filepath.Join(dir, "member", "wal")
	if err := os.MkdirAll(wal, 0o700); err != nil {
		t.Fatal(err)
	}
	held, reserve, spare, used := filepath.Join(dir, "ballast"), filepath.Join(dir, "reserve"), filepath.Join(wal, "1.tmp"), filepath.Join(wal, "0000000000000000-0000000000000000.wal")
	b := newBallast(Member{Dir: dir, Ballast: 1 << 20}, testLogger(t))
	free := int64(0)
	b.free = func(string) (int64, error) { return free, nil }
	there := func(name string) bool { _, err := os.Stat(name); return err == nil }
	for _, c := range []struct {
		free                int64
		keepsHeld, keepsWAL bool
	}{{100, true, true}, {99, false, false}} {
		for _, name := range []string{held, reserve, spare, used} {
			if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		free = c.free
		b.ease(100)
		if there(held) != c.keepsHeld || there(reserve) != c.keepsHeld || there(spare) != c.keepsWAL || !there(used) {
			t.Fatalf("%d free: ballast %v, reserved segment %v, segment %v", free, there(held), there(spare), there(used))
		}
	}
}
