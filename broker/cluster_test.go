package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// trio is a cluster of three voters in this process, each at an address of its
// own, so that they can have the same ports.
type trio struct {
	t       *testing.T
	peer    int
	dirs    [3]string
	brokers [3]*process
}

// ports were handed out by freePort so far.
var ports atomic.Int32

// freePort is a port that nobody has at any of the addresses, below those that
// the system gives to clients. It is another one each time.
func freePort(t *testing.T) int {
	t.Helper()
	for {
		port := 21000 + os.Getpid()%5000 + int(ports.Add(1))
		if port >= 32000 {
			t.Fatal("no port is free")
		}
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
}

func startTrio(t *testing.T, set ...string) *trio {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("this system has one loopback address")
	}
	l.Close()
	c := &trio{t: t, peer: freePort(t)}
	for n := range c.brokers {
		c.dirs[n] = t.TempDir()
		c.launch(n, set...)
	}
	for _, p := range c.brokers {
		p.serves()
	}
	return c
}

func (c *trio) common() []string {
	return []string{
		fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%d,2@127.0.0.2:%d,3@127.0.0.3:%d", c.peer, c.peer, c.peer),
	}
}

func (c *trio) launch(n int, set ...string) {
	c.t.Helper()
	own := []string{
		fmt.Sprintf("node.id=%d", n+1), "log.dirs=" + c.dirs[n], "controller.listener.names=CONTROLLER",
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.%d:%d", n+1, c.peer),
	}
	c.brokers[n] = launch(c.t, Options{Set: append(append(own, c.common()...), set...)})
}

// Three voters with empty directories that start at once are one cluster, and
// brokers without a vote join it. A voter that stops is missed by nobody.
func metadataForBrokers(t *testing.T) {
	c := startTrio(t)
	at := fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.2:%d", c.peer)
	fourth := startBroker(t, nil, at, "node.id=4", "process.roles=broker", "log.dirs="+t.TempDir())
	all := append(c.brokers[:], fourth)
	for _, p := range all {
		p.awaitImage(func() bool { return len(p.image().Brokers()) == 4 })
		if p.b.ClusterID() != fourth.b.ClusterID() || p.registered(p.b.node.NodeID).Lease == 0 {
			t.Errorf("broker %d: cluster %s, %+v", p.b.node.NodeID, p.b.ClusterID(), p.registered(p.b.node.NodeID))
		}
	}
	fourth.placed("t", [][]kafka.NodeID{{4}, {2}})
	c.brokers[2].awaitImage(func() bool { return led(c.brokers[2], 0, 4) && led(c.brokers[2], 1, 2) })
	c.wantQuorum(fourth, 3)
	c.brokers[0].end()
	for _, p := range all[1:] {
		p.awaitImage(func() bool { return p.registered(1) == nil && p.readyNow() })
	}
	if _, err := kadm.NewClient(fourth.cl).CreateTopic(fourth.ctx(), 1, 1, nil, "later"); err != nil {
		t.Error(err)
	}
}

// wantQuorum checks what a broker tells of the voters.
func (c *trio) wantQuorum(p *process, heard int) {
	c.t.Helper()
	q, err := p.b.quorum(p.ctx())
	if err != nil || len(q.Voters) != 3 || q.Leader < 1 || q.Leader > 3 || q.Epoch < 1 || q.HighWatermark < 1 {
		c.t.Fatalf("%+v: %v", q, err)
	}
	for n, v := range q.Voters {
		at := v.Listeners[0]
		if v.Node != kafka.NodeID(n+1) || at.Name != "CONTROLLER" || at.Host != fmt.Sprintf("127.0.0.%d", n+1) || int(at.Port) != c.peer {
			c.t.Errorf("%+v", v)
		}
		if v.End > 0 && !v.Heard.IsZero() {
			heard--
		}
	}
	if heard != 0 {
		c.t.Errorf("%+v: not all were heard", q)
	}
}

// joinsAgain: a voter that lost all it had is a member again, if it may join.
func joinsAgain(t *testing.T) {
	c := startTrio(t)
	id := c.brokers[0].b.ClusterID()
	third := c.brokers[2]
	third.end()
	for _, name := range []string{"metadata", "meta.properties", "barnabas.format"} {
		if err := os.RemoveAll(filepath.Join(c.dirs[2], name)); err != nil {
			t.Fatal(err)
		}
	}
	c.launch(2)
	if err := c.brokers[2].wait(); err == nil || !strings.Contains(err.Error(), "controller.quorum.auto.join.enable") {
		t.Errorf("without the key: %v", err)
	}
	c.launch(2, "controller.quorum.auto.join.enable=true")
	c.brokers[2].serves()
	if got := c.brokers[2].b.ClusterID(); got != id {
		t.Errorf("cluster %s, was %s", got, id)
	}
}

// inPlainText: voters beyond loopback want TLS, or this key.
func inPlainText(t *testing.T) {
	set := []string{
		"controller.quorum.voters=1@192.0.2.1:9093,2@192.0.2.2:9093,3@192.0.2.3:9093", "log.dirs=" + t.TempDir(),
		"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://:9093", "controller.listener.names=CONTROLLER",
	}
	_, refused := New(Options{Set: set})
	_, taken := New(Options{Set: append(set, "barnabas.metadata.plaintext=true")})
	if refused == nil || taken != nil {
		t.Error(errors.Join(refused, taken))
	}
}

// Without a majority of the voters a broker is fenced in time, and goes on in the
// same epoch once there is one again: no lease ends without a majority (safety 32).
func TestMajorityAwayAndBack(t *testing.T) {
	const quick = "broker.session.timeout.ms=3000"
	c := startTrio(t, quick)
	last := c.brokers[2]
	last.placed("t", [][]kafka.NodeID{{3}})
	epoch := last.registered(3).Epoch
	c.brokers[0].end()
	c.brokers[1].end()
	last.until("the broker is fenced", func() bool { return !last.b.parts.member.Valid() })
	if err := last.line().produce(last.produceRequest("t", [16]byte{}, 0, 1, "x")); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("acks=1: %v", err)
	}
	if err := last.line().produce(last.produceRequest("t", [16]byte{}, 0, -1, "x")); err != nil {
		t.Errorf("acks=all: %v", err)
	}
	c.launch(0, quick)
	c.brokers[0].serves()
	last.until("the broker serves again", last.b.parts.member.Valid)
	if r := last.registered(3); r.Epoch != epoch {
		t.Errorf("epoch %d, was %d", r.Epoch, epoch)
	}
	if err := last.line().produce(last.produceRequest("t", [16]byte{}, 0, 1, "x")); err != nil {
		t.Errorf("acks=1 with a majority: %v", err)
	}
}
