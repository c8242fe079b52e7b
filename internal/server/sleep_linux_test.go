package server

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A peer that takes no bytes holds up no other whose wait ends with its own, and
// gets its answer whole when it takes them again.
func TestSleepersBesideAFullSocket(t *testing.T) {
	z := newSleeper()
	f := &fake{fetch: z.fetch}
	s := start(t, f, func(c *Config) { c.SendBufferBytes = 4096 })
	full := dial(t, s)
	if err := full.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	write(t, full, frame(kmsg.NewPtrMetadataRequest(), 9, 1))
	expect(t, full, 9, 1, kmsg.NewPtrMetadataResponse())
	filled := fill(t, s.connections()[0])
	const others = 20
	var all []net.Conn
	for range others {
		all = append(all, dial(t, s))
	}
	for _, nc := range append([]net.Conn{full}, all...) {
		write(t, nc, frame(fetchFor(200*time.Millisecond), 12, 2))
	}
	for _, nc := range all {
		expect(t, nc, 12, 2, kmsg.NewPtrFetchResponse())
	}
	if _, err := io.CopyN(io.Discard, full, int64(filled)); err != nil {
		t.Fatal(err)
	}
	expect(t, full, 12, 2, kmsg.NewPtrFetchResponse())
	write(t, full, frame(kmsg.NewPtrMetadataRequest(), 9, 3))
	expect(t, full, 9, 3, kmsg.NewPtrMetadataResponse())
}

// fill writes to a connection until its socket has taken nothing for a while, and
// says how much it took.
func fill(t *testing.T, c *conn) (n int) {
	t.Helper()
	for {
		_ = c.nc.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		err := c.raw.Write(func(fd uintptr) bool {
			m, err := syscall.Write(int(fd), make([]byte, 1024))
			n += max(m, 0)
			return err != syscall.EAGAIN
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = c.nc.SetWriteDeadline(time.Time{})
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
