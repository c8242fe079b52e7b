package etcdstore

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// lostAfter has the kernel end a connection whose peer has taken nothing for so
// long, and ask again each second until then, where the kernel knows how (6.15);
// what cannot be set is left as it was.
func lostAfter(c net.Conn, d time.Duration) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d/time.Millisecond))
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, 1000)
	})
}
