package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// shape prints who votes, who learns and who leads.
func shape(t testing.TB, s *Store) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	members, err := s.Members(ctx)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, m := range members {
		role := "votes"
		if m.Learner {
			role = "learns"
		}
		out = append(out, fmt.Sprintf("%d %s", m.Node, role))
	}
	return strings.Join(out, ", ")
}

func shapes(t testing.TB, s *Store, want string, limit time.Duration) {
	t.Helper()
	eventually(t, "members", limit, func() error {
		if got := shape(t, s); got != want {
			return errors.New(got)
		}
		return nil
	})
}

// interruptOnce ends the start at the first time that it comes to the step.
func interruptOnce(n *node, step string) (met *atomic.Bool) {
	met = new(atomic.Bool)
	n.cfg.Member.interrupt = func(at string) error {
		if at == step && !met.Swap(true) {
			return fmt.Errorf("interrupted: %s", step)
		}
		return nil
	}
	return met
}

// cutShort starts a node that is to join and is interrupted at the step.
func cutShort(t *testing.T, n *node, step string) {
	t.Helper()
	met := interruptOnce(n, step)
	n.start()
	select {
	case err := <-n.ended:
		n.ended <- err
		if err == nil || !strings.Contains(err.Error(), "interrupted: "+step) {
			t.Fatalf("node %d at %q: %v", n.cfg.Member.ID, step, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("node %d did not come to %q", n.cfg.Member.ID, step)
	}
	if !met.Load() {
		t.Fatalf("node %d was not at %q", n.cfg.Member.ID, step)
	}
	n.cfg.Member.interrupt = nil
}

// One node with data grows to three under transactions. Each node is killed at
// every step of its way, and begins again.
func TestGrow(t *testing.T) {
	t.Parallel()
	voters := someVoters(t, 3)
	one := newNode(t, nil, 1)
	one.cfg.Member.ID = 1
	one.start().ready()
	var writing atomic.Pointer[Store]
	writing.Store(one.store)
	w := startWriter(t, "w", writing.Load)
	w.progress(t, 5*time.Second)
	before := mustTxn(t, one.store, putTxn("before", "1"))
	cluster := one.store.member.Load().etcd.Server.Cluster().ID()

	// The single node gets listeners, and is killed at once when it has.
	one.kill()
	one.cfg.Voters = voters
	one.start().ready()
	one.kill()
	one.start().ready()
	writing.Store(one.store)
	shapes(t, one.store, "1 votes", 5*time.Second)
	eventually(t, "address", 5*time.Second, func() error {
		members, err := one.store.Members(context.Background())
		if err != nil || members[0].Peer != "http://"+voters[0].Address || !members[0].Leader || members[0].Applied == 0 || members[0].DBBytes == 0 {
			return fmt.Errorf("%+v, %v", members, err)
		}
		return nil
	})

	var grown []*node
	for _, v := range voters[1:] {
		n := newNode(t, voters, v.ID)
		n.cfg.Member.Join = true
		steps := []string{"marked", "added", "removed", "started", "joined"}
		if v.ID == 3 {
			steps = []string{"added", "joined"} // again with more than one voter
		}
		for _, step := range steps {
			cutShort(t, n, step)
			w.progress(t, 10*time.Second)
		}
		n.start().ready()
		n.kill() // learner or voter already: its log stays
		n.start().ready()
		want := "1 votes, 2 votes"
		if v.ID == 3 {
			want += ", 3 votes"
		}
		shapes(t, one.store, want, 20*time.Second)
		w.progress(t, 10*time.Second)
		grown = append(grown, n)
	}
	for _, n := range append(grown, one) {
		if id := n.store.member.Load().etcd.Server.Cluster().ID(); id != cluster {
			t.Errorf("node %d is in cluster %v, not %v", n.cfg.Member.ID, id, cluster)
		}
		r := mustTxn(t, n.store, metastore.Txn{If: []metastore.Cmp{{Key: "before", Target: metastore.ModRev, Want: before.Rev}}})
		if !r.Succeeded {
			t.Errorf("node %d does not have what was there before", n.cfg.Member.ID)
		}
	}
	// Three carry it now: the first is not needed.
	w.check(t, grown[0].store)
	one.kill()
	eventually(t, "without the first", 10*time.Second, func() error {
		_, err := grown[1].store.Txn(context.Background(), putTxn("after", "1"))
		return err
	})
}

// Two that are to join at once take turns: the cluster has one learner at a time.
func TestGrowTogether(t *testing.T) {
	t.Parallel()
	voters := someVoters(t, 3)
	one := newNode(t, nil, 1)
	one.start().ready()
	mustTxn(t, one.store, putTxn("before", "1"))
	one.close()
	one.cfg.Voters, one.cfg.Member.Join = voters, true // it has metadata, and joins nobody
	two, three := newNode(t, voters, 2), newNode(t, voters, 3)
	two.cfg.Member.Join, three.cfg.Member.Join = true, true
	two.start() // before there is anybody to join
	three.start()
	one.start().ready()
	two.ready()
	three.ready()
	shapes(t, one.store, "1 votes, 2 votes, 3 votes", 20*time.Second)
	waitFor(t, three.store, "before")
}

// A node whose disk was lost takes its place again, and one that was removed says
// so and ends, as often as it is started, while the others go on.
func TestReplaceAndRemove(t *testing.T) {
	nodes := startNodes(t, someVoters(t, 3), overTLS(t))
	one, lost := nodes[0], nodes[2]
	mustTxn(t, one.store, putTxn("a", "1"))
	w := startWriter(t, "w", func() *Store { return one.store })
	w.progress(t, 5*time.Second)

	was := lost.id()
	lost.kill()
	lost.cfg.Member.Dir = t.TempDir()
	if err := lost.start().wait(t); err == nil || !strings.Contains(err.Error(), "carries metadata already") {
		t.Fatalf("an empty directory beside a cluster: %v", err)
	}
	lost.cfg.Member.Join = true
	lost.start().ready()
	shapes(t, one.store, "1 votes, 2 votes, 3 votes", 20*time.Second)
	if lost.id() == was {
		t.Error("the id of the lost member is used again")
	}

	// etcd wants the others connected for a while before it lets one go.
	two := nodes[1]
	eventually(t, "removal", 20*time.Second, func() error { return one.store.Remove(context.Background(), 2) })
	eventually(t, "removal again", 10*time.Second, func() error { return one.store.Remove(context.Background(), 2) })
	for range 2 {
		if err := two.wait(t); !errors.Is(err, ErrRemoved) || !strings.Contains(err.Error(), two.cfg.Member.Dir) {
			t.Fatalf("removed: %v", err)
		}
		w.progress(t, 10*time.Second)
		term := one.store.member.Load().etcd.Server.Term()
		two.start() // with its old directory
		if err := two.wait(t); !errors.Is(err, ErrRemoved) {
			t.Fatalf("removed and back: %v", err)
		}
		w.progress(t, 5*time.Second)
		if now := one.store.member.Load().etcd.Server.Term(); now != term {
			t.Errorf("the removed node disturbed the others: term %d, then %d", term, now)
		}
	}
	shapes(t, one.store, "1 votes, 3 votes", 5*time.Second)
	w.check(t, lost.store)

	// And back to one, without a port.
	eventually(t, "removal", 20*time.Second, func() error { return one.store.Remove(context.Background(), 3) })
	if err := lost.wait(t); !errors.Is(err, ErrRemoved) {
		t.Fatalf("removed: %v", err)
	}
	eventually(t, "the last one leads", 10*time.Second, func() error { // what is sent to the leader as it goes is a maybe
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err := one.store.Txn(ctx, putTxn("b", "1"))
		return err
	})
	one.close()
	one.cfg.Voters, one.cfg.Files = nil, Files{}
	one.start().ready()
	waitFor(t, one.store, "b")
	if d := one.store.member.Load().door; d != nil {
		t.Errorf("alone, it listens at %v", d.listener.Addr())
	}
}

// A node that was removed, and has nothing any more, waits beside the cluster that
// it once began with the others, until somebody adds it; then it votes.
func TestWaitsToBeAdded(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, someVoters(t, 3), nil)
	one, back := nodes[0], nodes[2]
	mustTxn(t, one.store, putTxn("a", "1"))
	back.close()
	eventually(t, "removal", 20*time.Second, func() error { return one.store.Remove(context.Background(), 3) })
	back.cfg.Member.Dir = t.TempDir()
	back.start()
	eventually(t, "adding", 20*time.Second, func() error { return one.store.AddLearner(context.Background(), back.cfg.self()) })
	back.ready()
	shapes(t, one.store, "1 votes, 2 votes, 3 votes", 20*time.Second)
	waitFor(t, back.store, "a")
}

// wait gives what Run returns by itself.
func (n *node) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-n.ended:
		n.ended <- err
		return err
	case <-time.After(20 * time.Second):
		t.Fatalf("node %d goes on", n.cfg.Member.ID)
		return nil
	}
}

// Learners, promotion and leadership by hand; each call again is no error.
func TestAdministration(t *testing.T) {
	t.Parallel()
	voters := someVoters(t, 3)
	nodes := startNodes(t, voters, nil)
	out := outsider(t, nodes[0])
	ctx := context.Background()
	for _, s := range []*Store{nodes[0].store, nodes[1].store, out} {
		for _, to := range []int32{3, 3, 2} {
			eventually(t, "leadership", 10*time.Second, func() error { return s.MoveLeader(ctx, to) })
			members, err := s.Members(ctx)
			if err != nil || len(members) != 3 {
				t.Fatalf("%+v, %v", members, err)
			}
			for _, m := range members {
				if m.Leader != (m.Node == to) || m.Err != nil || m.Term == 0 || m.Index == 0 || m.Client == "" {
					t.Errorf("leader %d wanted: %+v", to, m)
				}
			}
		}
	}
	four := Voter{ID: 4, Address: freePort(t)}
	cfg := Config{Voters: append(append([]Voter(nil), voters...), four)} // as an administrator has it
	one := run(t, cfg)
	eventually(t, "learner", 20*time.Second, func() error { return one.AddLearner(ctx, four) })
	if err := one.AddLearner(ctx, four); err != nil {
		t.Errorf("again: %v", err)
	}
	shapes(t, one, "1 votes, 2 votes, 3 votes, 4 learns", 5*time.Second)
	if err := one.Promote(ctx, 4); !errors.Is(err, metastore.ErrUnavailable) {
		t.Errorf("a learner that has nothing: %v", err)
	}
	if err := one.Promote(ctx, 3); err != nil {
		t.Errorf("a voter: %v", err)
	}
	if err := one.Promote(ctx, 9); !errors.Is(err, ErrNoMember) {
		t.Errorf("nobody: %v", err)
	}
	for range 2 {
		if err := one.Remove(ctx, 4); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	shapes(t, one, "1 votes, 2 votes, 3 votes", 5*time.Second)
}

// What would make two clusters of one, or a member without a port, is refused.
func TestTwoClustersRefused(t *testing.T) {
	voters := someVoters(t, 3)
	grown := startNodes(t, voters, nil)
	for _, n := range grown {
		n.close()
	}
	// Its metadata, but not as one of three.
	lone := newNode(t, nil, 1)
	lone.cfg.Member.Dir = grown[0].cfg.Member.Dir
	grown[1].start()
	grown[2].start().ready()
	// A single node with metadata of its own, among voters who have others.
	other := newNode(t, nil, 1)
	other.start().ready()
	other.close()
	other.cfg.Voters = voters
	if err := other.start().wait(t); err == nil || !strings.Contains(err.Error(), "carries other metadata") {
		t.Errorf("two clusters: %v", err)
	}
	if _, err := os.Stat(filepath.Join(other.cfg.Member.Dir, "member")); err != nil {
		t.Errorf("its directory is touched: %v", err)
	}
	if err := lone.start().wait(t); err == nil || !strings.Contains(err.Error(), "one of 3 members") {
		t.Errorf("one of three, alone: %v", err)
	}
}

func TestVoterMistakes(t *testing.T) {
	three := []Voter{{1, "127.0.0.1:1"}, {2, "127.0.0.1:3"}, {3, "127.0.0.1:5"}}
	with := func(change func(*Config)) Config {
		c := Config{Voters: append([]Voter(nil), three...), Member: Member{ID: 1, Dir: "d"}}
		change(&c)
		return c
	}
	for want, cfg := range map[string]Config{
		"":                  with(func(*Config) {}),
		"not among the":     with(func(c *Config) { c.Member.ID = 4 }),
		"stands twice":      with(func(c *Config) { c.Voters[1].ID = 1 }),
		"is not host:port":  with(func(c *Config) { c.Voters[1].Address = "h" }),
		"two voters are":    with(func(c *Config) { c.Voters[1].Address = "127.0.0.1:1" }),
		"not on loopback":   with(func(c *Config) { c.Voters[2].Address = "10.0.0.1:2" }),
		"10.0.0.1:7 is not": with(func(c *Config) { c.Member.Listen = "10.0.0.1:7" }),
		"10.0.0.2:7 is not": {Bootstrap: []string{"10.0.0.2:7"}},
		"go together":       with(func(c *Config) { c.Files.Key = "k" }),
		"and endpoints":     with(func(c *Config) { c.Endpoints = []string{"e:1"} }),
	} {
		_, err := New(cfg, nil, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
	far := with(func(c *Config) { c.Voters[2].Address = "node3:9093" })
	for _, open := range []func(*Config){func(c *Config) { c.Plaintext = true }, func(c *Config) { c.Files = Files{"c", "k", "a"} }} {
		cfg := far
		open(&cfg)
		if _, err := New(cfg, nil, nil); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, c := range [][3]string{
		{"", "node3:9093", ":9093"}, {":9094", "node3:9093", ":9094"}, {"10.0.0.1:9094", "node3:9093", "10.0.0.1:9094"},
		{":9093", "localhost:9093", "localhost:9093"}, {"0.0.0.0:9093", "127.0.0.2:9093", "127.0.0.2:9093"}, {"10.0.0.1:9093", "127.0.0.1:9093", "10.0.0.1:9093"},
	} {
		if at, err := bind(c[0], c[1]); err != nil || at != c[2] {
			t.Errorf("%q for %q is listened at %q, %v", c[0], c[1], at, err)
		}
	}
}
