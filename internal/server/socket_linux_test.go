package server

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// sockets shows the descriptors of the connections that a client has to a server,
// once it has answered.
func sockets(t *testing.T, s *Server, look func(fd int)) {
	t.Helper()
	nc := dial(t, s)
	write(t, nc, frame(kmsg.NewPtrMetadataRequest(), 9, 1))
	expect(t, nc, 9, 1, kmsg.NewPtrMetadataResponse())
	for c := range s.snapshot() {
		raw, err := c.nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) { look(int(fd)) }); err != nil {
			t.Fatal(err)
		}
	}
}

// Linux keeps twice what is asked, for its own accounts.
func TestSocketOptions(t *testing.T) {
	s := start(t, &fake{}, func(c *Config) { c.SendBufferBytes, c.ReceiveBufferBytes = 30_000, 20_000 })
	sockets(t, s, func(fd int) {
		for option, want := range map[int]int{unix.SO_SNDBUF: 60_000, unix.SO_RCVBUF: 40_000} {
			if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err != nil || got != want {
				t.Errorf("socket option %d is %d (%v), want %d", option, got, err, want)
			}
		}
	})
}

// What a loopback listener accepts is not paced; any other keeps what the system
// chose. All of them listen on loopback here, whatever address the option is told.
func TestLoopbackIsNotPaced(t *testing.T) {
	system, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		t.Fatal(err)
	}
	told := func(address string) func(context.Context, string) (net.Listener, error) {
		return func(ctx context.Context, at string) (net.Listener, error) {
			return (&net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return unpaced("", address, c) }}).Listen(ctx, "tcp", at)
		}
	}
	for _, try := range []struct {
		what   string
		listen func(context.Context, string) (net.Listener, error) // nil: the server's own
		want   string
	}{
		{"own listener", nil, "reno"},
		{"[::1]:9092", told("[::1]:9092"), "reno"},
		{"[::ffff:127.0.0.1]:9092", told("[::ffff:127.0.0.1]:9092"), "reno"},
		{"10.0.0.1:9092", told("10.0.0.1:9092"), strings.TrimSpace(string(system))},
		{":9092", told(":9092"), strings.TrimSpace(string(system))},
	} {
		s := start(t, &fake{}, func(c *Config) { c.Listen = try.listen })
		sockets(t, s, func(fd int) {
			got, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
			if err != nil || strings.TrimRight(got, "\x00") != try.want {
				t.Errorf("%s: congestion control %q (%v), want %q", try.what, got, err, try.want)
			}
		})
	}
}
