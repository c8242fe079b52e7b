package server

import (
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// Linux keeps twice what is asked, for its own accounts.
func TestSocketOptions(t *testing.T) {
	s := start(t, &fake{}, func(c *Config) { c.SendBufferBytes, c.ReceiveBufferBytes = 30_000, 20_000 })
	nc := dial(t, s)
	write(t, nc, frame(kmsg.NewPtrMetadataRequest(), 9, 1))
	expect(t, nc, 9, 1, kmsg.NewPtrMetadataResponse())
	for c := range s.snapshot() {
		raw, err := c.nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		for option, want := range map[int]int{unix.SO_SNDBUF: 60_000, unix.SO_RCVBUF: 40_000} {
			var got int
			if err := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, option) }); err != nil {
				t.Fatal(err)
			}
			if err != nil || got != want {
				t.Errorf("socket option %d is %d (%v), want %d", option, got, err, want)
			}
		}
	}
}
