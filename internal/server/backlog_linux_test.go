package server

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// The system tells the backlog of a socket that listens in a field of TCP_INFO
// that means something else for one that is connected.
func TestBacklog(t *testing.T) {
	backlog := func(n int) uint32 {
		s := New(Config{Backlog: n, Listeners: []Listener{{Name: "PLAINTEXT", Address: "127.0.0.1:0"}}}, (&fake{}).Table())
		if err := s.Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		ln := s.listeners[0].ln.(*net.TCPListener)
		defer ln.Close()
		raw, err := ln.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var info *unix.TCPInfo
		if err := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return info.Sacked
	}
	if got := backlog(3); got != 3 {
		t.Errorf("a backlog of %d, want 3", got)
	}
	if got := backlog(0); got < 50 {
		t.Errorf("a backlog of %d where none is configured", got)
	}
}
