//go:build interop

package interop

import (
	"context"
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

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster is three brokers, each a process, that carry the metadata together.
type cluster struct {
	t        *testing.T
	dirs     [3]string
	addrs    [3]string
	peers    [3]string   // addresses of the metadata
	inside   [3][]string // commands that run another one where the broker is to be; none: here
	opts     []kgo.Opt   // by which this process reaches them
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
	c, peer := &cluster{t: t}, freePort(t)
	for n := range c.nodes {
		c.addrs[n], c.peers[n] = fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.%d:%d", n+1, peer)
	}
	c.start(settings...)
	return c
}

// start starts the brokers, whose addresses are known.
func (c *cluster) start(settings ...string) {
	c.t.Helper()
	c.settings = append([]string{
		fmt.Sprintf("controller.quorum.voters=1@%s,2@%s,3@%s", c.peers[0], c.peers[1], c.peers[2]),
		"controller.listener.names=CONTROLLER", "min.insync.replicas=2",
	}, settings...)
	dir := workDir(c.t)
	for n := range c.nodes {
		c.dirs[n] = filepath.Join(dir, strconv.Itoa(n+1))
		c.launch(n)
	}
	for _, b := range c.nodes {
		b.awaitReady()
	}
	c.awaitKnown()
}

// awaitKnown waits until each broker knows all: the last may be ready before the
// others have heard of it.
func (c *cluster) awaitKnown() {
	c.t.Helper()
	cl, err := kgo.NewClient(append(slices.Clone(c.opts), kgo.SeedBrokers(c.addrs[:]...))...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for _, b := range cl.SeedBrokers() {
		for {
			resp, err := b.Request(ctx, kmsg.NewPtrMetadataRequest())
			if err == nil && len(resp.(*kmsg.MetadataResponse).Brokers) == len(c.nodes) {
				break
			}
			if ctx.Err() != nil {
				c.t.Fatalf("a broker does not know all others: %v", err)
			}
			pause(20 * time.Millisecond)
		}
	}
}

// launch begins to start a node.
func (c *cluster) launch(n int) {
	c.t.Helper()
	c.nodes[n] = launchBrokerIn(c.t, c.inside[n], c.dirs[n], c.addrs[n], append([]string{
		fmt.Sprintf("node.id=%d", n+1),
		fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", c.addrs[n], c.peers[n]),
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
