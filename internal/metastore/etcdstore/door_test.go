package etcdstore

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// A node that was alone becomes a single voter, whom others reach at its one
// address, and is alone again; nothing is lost on the way.
func TestOneVoter(t *testing.T) {
	t.Parallel()
	one := newNode(t, nil, 1)
	mustTxn(t, one.start().ready().store, putTxn("a", "1"))
	one.close()
	one.cfg.Voters = someVoters(t, 1)
	one.cfg.Member.Join = true // it has nobody to join
	one.start().ready()
	other := outsider(t, one)
	waitFor(t, other, "a")
	mustTxn(t, other, putTxn("b", "1"))
	shapes(t, other, "1 votes", 5*time.Second)
	one.kill()
	one.start().ready()
	eventually(t, "reached again", 20*time.Second, func() error {
		_, err := other.Txn(context.Background(), putTxn("c", "1"))
		return err
	})
	one.close()
	one.cfg.Voters = nil
	one.start().ready()
	waitFor(t, one.store, "c")

	fresh := newNode(t, someVoters(t, 1), 1)
	fresh.cfg.Member.Join = true
	mustTxn(t, fresh.start().ready().store, putTxn("a", "1"))
}

// Voters and clients are told apart by their first bytes; who sends nothing, or
// a part of them, keeps nobody from stopping, and is closed with the rest.
func TestDoor(t *testing.T) {
	one := newNode(t, someVoters(t, 1), 1).start().ready()
	at := one.cfg.self().Address
	dial := func(first string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, first); err != nil {
			t.Fatal(err)
		}
		return c
	}
	silent := []net.Conn{dial(""), dial("PRI * HT")}
	for first, want := range map[string]string{
		"GET /members HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n": `"name":"node-1"`,
		"PUT /members HTTP/1.0\r\n\r\n":                                 "405 Method Not Allowed",
		"\x00\x00\x00\x01\r\n\r\n":                                      "400 Bad Request",
		preface + "\r\nSM\r\n\r\n" + strings.Repeat("\x00", 9):          "\x04", // a frame of settings
	} {
		c := dial(first)
		got := make([]byte, 4096)
		n := 0
		for !strings.Contains(string(got[:n]), want) {
			m, err := c.Read(got[n:])
			if n += m; err != nil {
				t.Errorf("%q: %q, %v", first, got[:n], err)
				break
			}
		}
	}
	started := time.Now()
	if err := one.close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	for i, c := range silent {
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("silent connection %d: %v", i, err)
		}
	}
	if _, err := net.Dial("tcp", at); err == nil {
		t.Error("it listens on")
	}
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}

// A port that somebody has is an error that names it, and nothing is touched.
func TestDoorTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	n := newNode(t, []Voter{{ID: 1, Address: l.Addr().String()}}, 1)
	if err := n.start().wait(t); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("%v", err)
	}
	if hasLog(n.cfg.Member.Dir) {
		t.Error("a cluster is begun behind a port that is another's")
	}
	if _, err := n.store.Rev(t.Context()); err == nil || !strings.Contains(err.Error(), metastore.ErrUnavailable.Error()) {
		t.Errorf("%v", err)
	}
}
