//go:build interop

package interop

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
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

// startEtcd starts etcd's own server, of the version that the broker embeds, and
// gives the setting that has brokers keep their metadata there.
func startEtcd(t *testing.T) (setting string) {
	t.Helper()
	need(t, "go")
	dir := workDir(t)
	bin, at := filepath.Join(dir, "etcd"), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	run(t, ".", "go", "build", "-o", bin, "go.etcd.io/etcd/server/v3")
	peers := fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	cmd := exec.Command(bin, "--data-dir", filepath.Join(dir, "etcd.data"), "--listen-client-urls", "http://"+at, "--advertise-client-urls", "http://"+at,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	log := newTail()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("etcd's output, its end:\n%s", log.last(20))
		}
	})
	return "barnabas.metadata.endpoints=" + at // brokers wait until it answers
}

// Three brokers whose processes are killed again and again, each time another,
// lose nothing of what they acknowledged, for clients in three languages. The
// same holds with their metadata in an etcd outside: one key makes the difference.
func TestHistoryOfCluster(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { historyOfCluster(t) })
	t.Run("external", func(t *testing.T) { historyOfCluster(t, startEtcd(t)) })
}

func historyOfCluster(t *testing.T, set ...string) {
	kills, rnd := killPlan(t, 3, 40)
	settings := slices.Concat([]string{"offsets.topic.num.partitions=10"}, consumerTimes, set)
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
