//go:build unix

package brokertest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/barnabas-mq/barnabas/internal/check"
	"github.com/barnabas-mq/barnabas/internal/check/record"
)

// etcdVar makes this test binary an etcd, the module's own, instead of testing:
// its directory and the address of its clients.
const etcdVar = "BARNABAS_TEST_ETCD"

// serveEtcd is that process, until it is told to end.
func serveEtcd(what string) error {
	dir, at, _ := strings.Cut(what, " ")
	c := embed.NewConfig()
	c.Dir, c.LogLevel = dir, "fatal"
	clients, peers := url.URL{Scheme: "http", Host: at}, url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer e.Close()
	<-e.Server.ReadyNotify()
	fmt.Println("ready")
	<-ctx.Done()
	return nil
}

// spawnEtcd starts one.
func spawnEtcd(t *testing.T, dir, address string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), etcdVar+"="+dir+" "+address), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("etcd: %q, %v", line, err)
	}
	return cmd
}

// onBoth runs a test on a cluster that carries its metadata itself, and on one
// whose metadata are in an etcd outside: one key makes the difference.
func onBoth(t *testing.T, test func(t *testing.T, f *fleet)) {
	if testing.Short() {
		t.Skip("several brokers, each a process")
	}
	t.Run("embedded", func(t *testing.T) { test(t, newFleet(t)) })
	t.Run("external", func(t *testing.T) {
		at := steadyAddress(t)
		f := newFleet(t, "barnabas.metadata.endpoints="+at)
		f.external, f.etcdAt, f.etcdDir = true, at, t.TempDir()
		f.etcd = spawnEtcd(t, f.etcdDir, at)
		test(t, f)
	})
}

// fleet is brokers, each a process that may be killed, at addresses that they
// keep; the voters among them are whoever the settings of a start say.
type fleet struct {
	t        *testing.T
	dir      string
	set      []string
	external bool
	etcd     *exec.Cmd // where the metadata are outside
	etcdAt   string
	etcdDir  string
	nodes    map[int]*node
	cl       *kgo.Client
	adm      *kadm.Client
}

type node struct {
	addr, peer string
	proc       *process
}

// mostNodes is how many one fleet has at most.
const mostNodes = 7

func newFleet(t *testing.T, set ...string) *fleet {
	f := &fleet{t: t, dir: t.TempDir(), nodes: map[int]*node{}}
	f.set = append([]string{"offsets.topic.num.partitions=4", "group.initial.rebalance.delay.ms=0"}, set...)
	for id := 1; id <= mostNodes; id++ {
		f.nodes[id] = &node{addr: steadyAddress(t), peer: steadyAddress(t)}
	}
	cl, err := kgo.NewClient(f.seeds(), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	f.cl, f.adm = cl, kadm.NewClient(cl)
	return f
}

func (f *fleet) seeds() kgo.Opt {
	var at []string
	for id := 1; id <= mostNodes; id++ {
		at = append(at, f.nodes[id].addr)
	}
	return kgo.SeedBrokers(at...)
}

// voters is the setting that names them.
func (f *fleet) voters(ids ...int) string {
	var out []string
	for _, id := range ids {
		out = append(out, fmt.Sprintf("%d@%s", id, f.nodes[id].peer))
	}
	return "controller.quorum.voters=" + strings.Join(out, ",")
}

// alone starts a node that carries the metadata for itself.
func (f *fleet) alone(id int) { f.start(id, "listeners=PLAINTEXT://"+f.nodes[id].addr) }

// votes starts a node as one of these voters.
func (f *fleet) votes(id int, voters []int, set ...string) {
	f.t.Helper()
	f.start(id, f.voting(id, voters, set...)...)
}

func (f *fleet) voting(id int, voters []int, set ...string) []string {
	return append([]string{
		f.voters(voters...), "controller.listener.names=CONTROLLER",
		fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", f.nodes[id].addr, f.nodes[id].peer),
	}, set...)
}

// joins starts a node as a broker that is no voter, and is told of one of them.
func (f *fleet) joins(id, voter int) {
	f.t.Helper()
	f.start(id, "process.roles=broker", "controller.quorum.bootstrap.servers="+f.nodes[voter].peer, "listeners=PLAINTEXT://"+f.nodes[id].addr)
}

func (f *fleet) start(id int, set ...string) {
	f.t.Helper()
	f.launch(id, set...)
	f.nodes[id].proc.ready()
}

// launch begins to start a node.
func (f *fleet) launch(id int, set ...string) {
	f.t.Helper()
	set = slices.Concat([]string{fmt.Sprintf("node.id=%d", id)}, f.set, set)
	f.nodes[id].proc = launch(f.t, f.home(id), 0, set...)
}

func (f *fleet) home(id int) string { return filepath.Join(f.dir, fmt.Sprint(id)) }

// lose kills a node, and its disk.
func (f *fleet) lose(id int) {
	f.t.Helper()
	f.nodes[id].proc.kill()
	if err := os.RemoveAll(f.home(id)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) stop(id int) {
	f.t.Helper()
	f.nodes[id].proc.stop()
}

// until waits for something that the brokers tell.
func (f *fleet) until(what string, ok func(ctx context.Context) error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		one, end := context.WithTimeout(ctx, 5*time.Second)
		err := ok(one)
		end()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.t.Fatalf("%s: %v", what, err)
		}
	}
}

// brokers waits until these are the ones that are registered.
func (f *fleet) brokers(want ...int) {
	f.t.Helper()
	f.until("brokers", func(ctx context.Context) error {
		resp, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(ctx, f.cl) // which no client answers by itself
		var got []int
		if err == nil {
			for _, b := range resp.Brokers {
				got = append(got, int(b.NodeID))
			}
		}
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("%v, want %v; %w", got, want, orNone(err))
		}
		return nil
	})
}

var errNone = errors.New("no error")

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

// quorum waits until exactly these vote. With an etcd outside nobody does.
func (f *fleet) quorum(want ...int) {
	f.t.Helper()
	if f.external {
		return
	}
	f.until("voters", func(context.Context) error {
		var ids []string
		for id, role := range f.members() {
			if role != "observer" {
				ids = append(ids, fmt.Sprint(id))
			}
		}
		slices.Sort(ids)
		if got := strings.Join(ids, " "); got != strings.Trim(fmt.Sprint(want), "[]") {
			return fmt.Errorf("%s vote, want %v", got, want)
		}
		return nil
	})
}

func (f *fleet) members() map[int]string {
	nodes, _ := members(f.t, f.up())
	return nodes
}

// up are the addresses of those that run.
func (f *fleet) up() (at []string) {
	for id := 1; id <= mostNodes; id++ {
		if p := f.nodes[id].proc; p != nil && p.cmd.ProcessState == nil {
			at = append(at, f.nodes[id].addr)
		}
	}
	return at
}

// tool runs the command line.
func (f *fleet) tool(line string) string {
	f.t.Helper()
	return mustTool(f.t, f.up(), line)
}

// spread gives the partitions of a topic three replicas each, on these brokers.
func (f *fleet) spread(topic string, on ...int32) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	d, err := f.adm.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		f.t.Fatal(err)
	}
	var req kadm.AlterPartitionAssignmentsReq
	for _, p := range d[topic].Partitions.Numbers() {
		var to []int32
		for i := range min(3, len(on)) {
			to = append(to, on[(int(p)+i)%len(on)])
		}
		req.Assign(topic, p, to)
	}
	got, err := f.adm.AlterPartitionAssignments(ctx, req)
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.whole(topic, min(3, len(on)), on...)
}

// whole waits until each partition of a topic has so many replicas, all in sync,
// on these brokers, and a leader, and none is on its way.
func (f *fleet) whole(topic string, replicas int, on ...int32) {
	f.t.Helper()
	f.until(topic+" is whole", func(ctx context.Context) error {
		moving, err := f.adm.ListPartitionReassignments(ctx, nil)
		if err != nil {
			return err
		}
		d, err := f.adm.ListTopicsWithInternal(ctx, topic)
		if err != nil {
			return err
		}
		if len(d[topic].Partitions) == 0 {
			return fmt.Errorf("no partitions: %v", d[topic].Err)
		}
		for _, p := range d[topic].Partitions.Sorted() {
			_, moves := moving[topic][p.Partition]
			away := slices.ContainsFunc(p.Replicas, func(b int32) bool { return len(on) > 0 && !slices.Contains(on, b) })
			if moves || away || p.Leader < 0 || len(p.Replicas) != replicas || len(p.ISR) != replicas {
				return fmt.Errorf("partition %d: leader %d, replicas %v, in sync %v, moves: %t", p.Partition, p.Leader, p.Replicas, p.ISR, moves)
			}
		}
		return nil
	})
}

// history is clients that work on a topic, and what they saw.
type history struct {
	f     *fleet
	c     record.Config
	r     *record.Recorder
	text  *strings.Builder
	end   context.CancelFunc
	ended chan error
}

func (f *fleet) history(topic string, partitions int32) *history {
	f.t.Helper()
	h := &history{f: f, text: new(strings.Builder), ended: make(chan error, 1)}
	began := time.Now()
	h.c = record.Config{
		Options: []kgo.Opt{f.seeds()}, Topic: topic, Partitions: partitions, Client: "clients", Observer: "test",
		Now: func() int64 { return time.Since(began).Nanoseconds() + 1 }, Pace: 2 * time.Millisecond,
	}
	h.r = record.New(h.c, h.text)
	ctx, cancel := context.WithCancel(context.Background())
	h.end = cancel
	go func() { h.ended <- h.r.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		err := <-h.ended
		h.ended <- err
	})
	h.grows()
	return h
}

// grows waits until the clients have gone on.
func (h *history) grows() {
	h.f.t.Helper()
	was := h.r.Events()
	h.f.until("clients go on", func(context.Context) error {
		if n := h.r.Events() - was; n < 100 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
}

// judge ends the clients, reads everything once more, and has it judged.
func (h *history) judge() {
	t := h.f.t
	t.Helper()
	h.end()
	err := <-h.ended
	h.ended <- nil
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	h.c.Options = []kgo.Opt{kgo.SeedBrokers(h.f.up()...)}
	if err = errors.Join(err, record.New(h.c, h.text).Final(ctx)); err != nil {
		t.Fatal(err)
	}
	r, err := check.Run(check.Options{Bound: int64(2 * time.Minute)}, check.Merge(check.NewReader("test", strings.NewReader(h.text.String()))))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v", r)
	if !r.OK() || r.Counts.Acknowledged == 0 || r.Counts.Commits == 0 || r.Counts.Final < r.Counts.Acknowledged {
		t.Errorf("%d acknowledged, %d commits, %d in the end", r.Counts.Acknowledged, r.Counts.Commits, r.Counts.Final)
	}
}
