//go:build interop

package interop

import (
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cluster is three brokers, each a process, that carry the metadata together.
type cluster struct {
	t        *testing.T
	dirs     [3]string
	addrs    [3]string
	peer     int // port of the metadata
	settings []string
	nodes    [3]*broker
}

// freePort is a port that nobody has at the first three loopback addresses,
// below those that the system gives to clients.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 20000 + rand.IntN(11000)
		free := true
		for n := 1; n <= 3 && free; n++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", n, port))
			if free = err == nil; free {
				l.Close()
			}
		}
		if free {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func startCluster(t *testing.T, settings ...string) *cluster {
	t.Helper()
	needProcess(t)
	peer, dir := freePort(t), workDir(t)
	c := &cluster{t: t, peer: peer, settings: append([]string{
		fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%d,2@127.0.0.2:%d,3@127.0.0.3:%d", peer, peer, peer),
		"controller.listener.names=CONTROLLER", "min.insync.replicas=2",
	}, settings...)}
	for n := range c.nodes {
		c.dirs[n] = filepath.Join(dir, strconv.Itoa(n+1))
		c.addrs[n] = fmt.Sprintf("127.0.0.1:%d", freePort(t))
		c.launch(n)
	}
	for _, b := range c.nodes {
		b.awaitReady()
	}
	return c
}

// launch begins to start a node.
func (c *cluster) launch(n int) {
	c.t.Helper()
	c.nodes[n] = launchBroker(c.t, c.dirs[n], c.addrs[n], append([]string{
		fmt.Sprintf("node.id=%d", n+1),
		fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://127.0.0.%d:%d", c.addrs[n], n+1, c.peer),
	}, c.settings...)...)
}

func (c *cluster) bootstrap() string { return strings.Join(c.addrs[:], ",") }

// Three brokers whose processes are killed again and again, each time another,
// lose nothing of what they acknowledged, for clients in three languages.
func TestHistoryOfCluster(t *testing.T) {
	kills, rnd := killPlan(t, 3, 40)
	settings := append([]string{"offsets.topic.num.partitions=10"}, consumerTimes...)
	c := startCluster(t, settings...)
	h := startHistory(t, c.bootstrap(), createReplicated(t, c.bootstrap(), "history", partitions, 3, nil))
	for i := range kills {
		pause(time.Duration(rnd.IntN(600)) * time.Millisecond)
		n := rnd.IntN(len(c.nodes))
		c.nodes[n].kill()
		if rnd.IntN(2) == 0 { // the others go on without it, or it is back before they have found out
			h.grows()
		}
		c.launch(n)
		c.nodes[n].awaitReady()
		h.grows()
		t.Logf("kill %d: broker %d", i+1, n+1)
	}
	h.judge()
	for _, b := range c.nodes {
		b.stop()
	}
}
