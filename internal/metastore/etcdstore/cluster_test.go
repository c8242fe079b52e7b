package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/metastore/storetest"
)

// freePort finds one that nobody listens at.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func someVoters(t testing.TB, n int) []Voter {
	t.Helper()
	var out []Voter
	for i := range n {
		out = append(out, Voter{ID: int32(i + 1), Address: freePort(t)})
	}
	return out
}

// node is a store that can be stopped, killed and started again on its directory.
type node struct {
	t     testing.TB
	cfg   Config
	store *Store
	stop  context.CancelFunc
	ended chan error
}

// newNode is small, as testMember.
func newNode(t testing.TB, voters []Voter, id int32) *node {
	return &node{t: t, cfg: Config{Voters: voters, Member: Member{ID: id, Dir: t.TempDir(), Ballast: -1}}}
}

func (n *node) start() *node {
	n.t.Helper()
	s, err := New(n.cfg, testLogger(n.t).With("node", n.cfg.Member.ID), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	n.store, n.stop, n.ended = s, cancel, ended
	go func() { ended <- s.Run(ctx) }()
	n.t.Cleanup(func() { n.close() })
	return n
}

func (n *node) ready() *node {
	n.t.Helper()
	select {
	case <-n.store.Ready():
	case err := <-n.ended:
		n.ended <- err
		n.t.Fatalf("node %d ended: %v", n.cfg.Member.ID, err)
	case <-time.After(30 * time.Second):
		n.t.Fatalf("node %d is not ready", n.cfg.Member.ID)
	}
	return n
}

// close stops in order, and gives what Run returned. Again is no harm.
func (n *node) close() error {
	n.stop()
	err := <-n.ended
	n.ended <- err
	return err
}

// kill ends it without a word to the others.
func (n *node) kill() {
	n.t.Helper()
	n.store.member.Load().etcd.Server.HardStop()
	if err := n.close(); err == nil || !strings.Contains(err.Error(), "stopped by itself") {
		n.t.Fatalf("killed: %v", err)
	}
}

func (n *node) id() uint64 { return uint64(n.store.member.Load().etcd.Server.MemberID()) }

func (n *node) leads() bool {
	srv := n.store.member.Load().etcd.Server
	return srv.Leader() == srv.MemberID()
}

func startNodes(t testing.TB, voters []Voter, with func(*Config)) []*node {
	t.Helper()
	var out []*node
	for _, v := range voters {
		n := newNode(t, voters, v.ID)
		if with != nil {
			with(&n.cfg)
		}
		out = append(out, n.start())
	}
	for _, n := range out {
		n.ready()
	}
	return out
}

// outsider is a client that is no voter, and knows one of them.
func outsider(t testing.TB, n *node) *Store {
	cfg := n.cfg
	cfg.Member, cfg.Voters, cfg.Bootstrap = Member{}, nil, []string{n.cfg.self().Address}
	return run(t, cfg)
}

func leaderOf(t testing.TB, nodes []*node) *node {
	t.Helper()
	for _, n := range nodes {
		if n.leads() {
			return n
		}
	}
	t.Fatal("nobody leads")
	return nil
}

// eventually looks until it is so.
func eventually(t testing.TB, what string, limit time.Duration, ok func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// conformance hands the same store to test after test, emptied before each.
func conformance(t *testing.T, with func(*Config)) {
	t.Parallel()
	nodes := startNodes(t, someVoters(t, 3), with)
	for _, n := range nodes {
		t.Run(fmt.Sprintf("voter%d", n.cfg.Member.ID), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) metastore.Store { return empty(t, n.store) })
		})
	}
	t.Run("outsider", func(t *testing.T) {
		s := outsider(t, nodes[0])
		storetest.Run(t, func(t *testing.T) metastore.Store { return empty(t, s) })
	})
}

func empty(t *testing.T, s *Store) *Store {
	t.Helper()
	mustTxn(t, s, metastore.Txn{Then: []metastore.Op{{Kind: metastore.Delete, Key: "\x00", End: "\x00"}}})
	return s
}

func TestClusterConformance(t *testing.T) { conformance(t, nil) }

func TestClusterTLSConformance(t *testing.T) { conformance(t, overTLS(t)) }

func overTLS(t *testing.T) func(*Config) {
	info, _ := certificates(t)
	return func(c *Config) {
		c.Files = Files{Certificate: info.CertFile, Key: info.KeyFile, CA: info.TrustedCAFile}
	}
}

// Whoever shows no certificate is not let in.
func TestTLSWantsCertificates(t *testing.T) {
	nodes := startNodes(t, someVoters(t, 3), overTLS(t))
	v := nodes[0].cfg.Voters[0]
	conn, err := tls.Dial("tcp", v.Address, &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		// The server's refusal comes after the client's handshake.
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("%s without a certificate: %v", v.Address, err)
	}
	s := run(t, Config{Endpoints: []string{v.Address}, RequestTimeout: 500 * time.Millisecond})
	if _, err := s.Rev(context.Background()); !errors.Is(err, metastore.ErrUnavailable) {
		t.Errorf("plain: %v", err)
	}
}

// The file is rewritten by one member at a time, and by none that leads.
func TestRewritingTakesTurns(t *testing.T) {
	nodes := startNodes(t, someVoters(t, 3), nil)
	ctx := context.Background()
	care := func(n *node) *caretaker { return newCaretaker(n.store, n.store.member.Load()) }
	lead := leaderOf(t, nodes)
	if _, ok := care(lead).turn(ctx); ok {
		t.Error("the leader takes a turn")
	}
	eventually(t, "hand over", 10*time.Second, func() error {
		if lead.leads() {
			return errors.New("it leads on")
		}
		return nil
	})
	first, second := lead, leaderOf(t, nodes)
	for _, n := range nodes {
		if n != lead && n != second {
			second = n
		}
	}
	done, ok := care(first).turn(ctx)
	if !ok {
		t.Fatal("no turn for a follower")
	}
	if _, ok := care(second).turn(ctx); ok {
		t.Error("two at a time")
	}
	done()
	again, ok := care(second).turn(ctx)
	if !ok {
		t.Fatal("no turn after the first")
	}
	again()
}
