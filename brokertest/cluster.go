package brokertest

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// Cluster is several brokers of one cluster that run within a test. Their
// numbers begin with 1. Its methods are for the test's own goroutine.
type Cluster struct {
	t       testing.TB
	opts    []Option
	voters  []int // ports of those who carry the metadata
	brokers []*Broker
}

// StartCluster starts n brokers with empty directories: the first three of them
// carry the metadata, or the first where there are fewer. What topics get that
// say nothing is as in `barnabas dev`. The options are those of every broker.
func StartCluster(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	replicas := min(n, 3)
	c.opts = append([]Option{
		Set("default.replication.factor", fmt.Sprint(replicas)), Set("min.insync.replicas", fmt.Sprint(min(replicas, 2))),
	}, opts...)
	votes := 3
	if n < 3 {
		votes = 1
	}
	for range votes {
		c.voters = append(c.voters, freePort(t))
	}
	for range n {
		c.Launch()
	}
	for _, b := range c.brokers {
		b.Await()
	}
	return c
}

// Launch begins to start one more broker, with options of its own; it carries no
// metadata unless they say so. Await waits for it.
func (c *Cluster) Launch(opts ...Option) *Broker {
	c.t.Helper()
	id := len(c.brokers) + 1
	all := append([]Option{Set("node.id", fmt.Sprint(id)), Set("controller.quorum.voters", c.Voters())}, c.opts...)
	if id <= len(c.voters) {
		all = append(all, Set("controller.listener.names", "CONTROLLER"),
			Set("listeners", fmt.Sprintf("PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:%d", c.voters[id-1])))
	} else {
		all = append(all, Set("process.roles", "broker"))
	}
	b := prepare(c.t, append(all, opts...))
	b.launch()
	c.brokers = append(c.brokers, b)
	return b
}

// Voters is controller.quorum.voters of every broker.
func (c *Cluster) Voters() string {
	var out []string
	for i, port := range c.voters {
		out = append(out, fmt.Sprintf("%d@127.0.0.1:%d", i+1, port))
	}
	return strings.Join(out, ",")
}

// Broker is the one with that number.
func (c *Cluster) Broker(id int) *Broker { return c.brokers[id-1] }

// Addrs are the addresses to give to clients.
func (c *Cluster) Addrs() []string {
	var out []string
	for _, b := range c.brokers {
		out = append(out, b.Addr())
	}
	return out
}

var portsTaken atomic.Int32

// freePort is one that nobody has now, another each time, and below those that
// the system gives to clients: a broker that restarts finds it free again.
func freePort(t testing.TB) int {
	t.Helper()
	for {
		port := 10500 + os.Getpid()*7%9000 + int(portsTaken.Add(1))
		if port > 32000 {
			t.Fatal("brokertest: no port is free")
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
}
