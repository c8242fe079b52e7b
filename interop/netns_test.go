//go:build interop && linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

// network is machines that are network namespaces, joined by a bridge in a
// namespace of its own: nothing of it reaches out, and nobody reaches in.
// Machine 0 is the clients', 1 to 3 are the brokers'.
type network struct {
	t       *testing.T
	name    string         // begins the names of the namespaces
	prefix  netip.Prefix   // its addresses
	blocked map[[2]int]int // how many faults block the way from one to another
}

const (
	machines  = 4
	clientsAt = 0
)

// newNetwork makes one, and removes it when the test ends. It skips where that
// is not allowed.
func newNetwork(t *testing.T) *network {
	t.Helper()
	needProcess(t)
	need(t, "ip", "tc")
	if os.Geteuid() != 0 {
		t.Skip("network namespaces are made by root alone: this test needs it")
	}
	n := &network{t: t, name: fmt.Sprintf("barnabas-%d-%x", os.Getpid(), rand.Uint32()&0xffff), prefix: freePrefix(t), blocked: map[[2]int]int{}}
	steps := [][]string{{"ip", "netns", "add", n.hub()}, {"ip", "-n", n.hub(), "link", "add", "bridge", "type", "bridge"}, {"ip", "-n", n.hub(), "link", "set", "bridge", "up"}}
	t.Cleanup(n.remove)
	for m := range machines {
		steps = append(steps,
			[]string{"ip", "netns", "add", n.machine(m)},
			[]string{"ip", "-n", n.machine(m), "link", "set", "lo", "up"},
			[]string{"ip", "-n", n.hub(), "link", "add", n.port(m), "type", "veth", "peer", "name", "eth0", "netns", n.machine(m)},
			[]string{"ip", "-n", n.hub(), "link", "set", n.port(m), "master", "bridge", "up"},
			[]string{"ip", "-n", n.machine(m), "addr", "add", fmt.Sprintf("%s/%d", n.host(m), n.prefix.Bits()), "dev", "eth0"},
			[]string{"ip", "-n", n.machine(m), "link", "set", "eth0", "up"},
		)
	}
	steps = append(steps, n.limitation("add", clientsAt, 1000), n.limitation("del", clientsAt, 1000)) // whether the kernel has it
	for _, s := range steps {
		if out, err := exec.Command(s[0], s[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v, %s: this test needs it", strings.Join(s, " "), err, strings.TrimSpace(string(out)))
		}
	}
	return n
}

func (n *network) hub() string          { return n.name + "-hub" }
func (n *network) machine(m int) string { return fmt.Sprintf("%s-%d", n.name, m) }
func (n *network) port(m int) string    { return fmt.Sprintf("port%d", m) }

// host is a machine's address.
func (n *network) host(m int) string {
	a := n.prefix.Addr().As4()
	a[3] = byte(m + 1)
	return netip.AddrFrom4(a).String()
}

// inside is the command that becomes another one on a machine.
func (n *network) inside(m int) []string { return []string{"ip", "netns", "exec", n.machine(m)} }

func (n *network) remove() {
	for _, name := range append([]string{n.hub()}, n.machine(0), n.machine(1), n.machine(2), n.machine(3)) {
		if _, err := os.Stat("/var/run/netns/" + name); err != nil {
			continue // it was not made
		}
		if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
			n.t.Errorf("%s is left: %v, %s", name, err, out)
		}
	}
}

// freePrefix is 256 addresses that nothing on this machine has or routes. The
// network would not meet them; but so its lines in a log name nobody else.
func freePrefix(t *testing.T) netip.Prefix {
	t.Helper()
	var used []netip.Prefix
	for line := range strings.Lines(run(t, ".", "ip", "-4", "route", "show", "table", "all")) {
		for _, word := range strings.Fields(line) {
			if a, err := netip.ParseAddr(word); err == nil {
				used = append(used, netip.PrefixFrom(a, a.BitLen()))
			} else if p, err := netip.ParsePrefix(word); err == nil {
				used = append(used, p)
			}
		}
	}
next:
	for range 1000 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(rand.IntN(256)), byte(rand.IntN(256)), 0}), 24)
		for _, u := range used {
			if u.Overlaps(p) {
				continue next
			}
		}
		return p
	}
	t.Skip("no range of addresses is free: this test needs it")
	return netip.Prefix{}
}

func (n *network) do(command ...string) {
	n.t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v, %s", strings.Join(command, " "), err, out)
	}
}

// cut pulls a machine's cable; mend puts it back.
func (n *network) cut(m int) {
	n.t.Helper()
	n.do("ip", "-n", n.hub(), "link", "set", n.port(m), "down")
}

func (n *network) mend(m int) {
	n.t.Helper()
	n.do("ip", "-n", n.hub(), "link", "set", n.port(m), "up")
}

// block has nothing of what one machine sends reach another; what that one sends
// arrives. Those who block the same way have to unblock it as often.
func (n *network) block(from, to int) {
	n.t.Helper()
	if n.blocked[[2]int{from, to}]++; n.blocked[[2]int{from, to}] == 1 {
		n.do("ip", "-n", n.machine(from), "route", "add", "blackhole", n.host(to)+"/32")
	}
}

func (n *network) unblock(from, to int) {
	n.t.Helper()
	if n.blocked[[2]int{from, to}]--; n.blocked[[2]int{from, to}] == 0 {
		n.do("ip", "-n", n.machine(from), "route", "del", "blackhole", n.host(to)+"/32")
	}
}

// limit has a machine send no more than so many kbit/s.
func (n *network) limit(m, kbit int) { n.t.Helper(); n.do(n.limitation("add", m, kbit)...) }
func (n *network) unlimit(m int)     { n.t.Helper(); n.do(n.limitation("del", m, 1000)...) }

func (n *network) limitation(how string, m, kbit int) []string {
	return []string{"tc", "-n", n.machine(m), "qdisc", how, "dev", "eth0", "root", "tbf", "rate", fmt.Sprintf("%dkbit", kbit), "burst", "16kb", "latency", "400ms"}
}

// dial connects from the clients' machine. A socket belongs to the namespace of
// the thread that makes it, wherever it is used.
func (n *network) dial(ctx context.Context, proto, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond) // as the client of TestFailover gives up answers
	defer cancel()
	there, err := os.Open("/var/run/netns/" + n.machine(clientsAt))
	if err != nil {
		return nil, err
	}
	defer there.Close()
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer home.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, proto, addr)
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return nil, errors.Join(err, back) // the thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return c, err
}

// startClusterOn starts a broker on each of the machines for them.
func startClusterOn(t *testing.T, n *network, settings ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, opts: []kgo.Opt{kgo.Dialer(n.dial)}}
	for b := range c.nodes {
		c.addrs[b], c.peers[b], c.inside[b] = n.host(b+1)+":9092", n.host(b+1)+":9093", n.inside(b+1)
	}
	c.start(append(settings, "barnabas.metadata.plaintext=true")...)
	return c
}

// How long writes stand still when the machine of a leader is cut off from all
// others: TestFailover says how it is measured, and with what bounds. It makes no
// difference that another machine, whose vote the next leader of the metadata
// needs, was cut off just before.
func TestFailoverCut(t *testing.T) {
	n := newNetwork(t)
	f := startFailover(t, startClusterOn(t, n, failoverSettings))
	f.measure(t, []failing{
		{"cut leader", f.bystander, n.cut, n.mend, 11 * time.Second},
		{"cut quorum leader", f.quorumLeader, n.cut, n.mend, 14 * time.Second},
		{"cut quorum leader after another", func() int {
			other := f.quorumLeader()%3 + 1
			n.cut(other)
			pause(14 * time.Second) // what is sent again comes ever more rarely
			n.mend(other)
			f.whole()
			return f.quorumLeader()
		}, n.cut, n.mend, 14 * time.Second},
	})
}
