package etcdstore

import (
	"io"
	"net"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"golang.org/x/sys/unix"
)

// Messages that another voter does not take end its connection, so that they are
// sent on a new one: etcd's own bounds on reading do not reach its connections.
func TestLostVoter(t *testing.T) {
	cfg := newNode(t, someVoters(t, 1), 1).cfg
	d, err := cfg.openDoor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	d.running.Go(d.accept)
	voter, err := net.Dial("tcp", cfg.self().Address)
	if err != nil {
		t.Fatal(err)
	}
	defer voter.Close()
	if _, err := io.WriteString(voter, "GET /raft/stream/message"); err != nil {
		t.Fatal(err)
	}
	var conn net.Conn
	select {
	case conn = <-d.peers.come:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody comes in")
	}
	defer conn.Close()
	raw, err := conn.(impatient).Conn.(peeked).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if cerr := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	if want := int(rafthttp.ConnWriteTimeout / time.Millisecond); got != want {
		t.Errorf("messages may be stuck for %d ms, want %d", got, want)
	}
}
