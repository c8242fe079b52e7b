package server

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// unpaced is a net.ListenConfig's Control. A listener on a loopback address gets
// the congestion control that Linux always has, and its connections inherit it:
// where the system's is BBR, each sendfile would wait for timers that spread its
// bytes over time, which nothing on loopback is the better for and which costs
// the leader of a replica next door three times the CPU. An error is of no
// matter, since the bytes arrive all the same.
func unpaced(_, address string, c syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil
	}
	return c.Control(func(fd uintptr) { _ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno") })
}
