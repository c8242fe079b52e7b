package brokertest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/cli"
)

// tool runs the command line against brokers, and gives what it says.
func tool(t *testing.T, bootstrap []string, line string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	app := cli.App{In: strings.NewReader(""), Out: &o, Err: &e, Environ: []string{"BARNABAS_BOOTSTRAP=" + strings.Join(bootstrap, ",")}}
	code = app.Run(t.Context(), strings.Fields(line))
	return o.String(), e.String(), code
}

func mustTool(t *testing.T, bootstrap []string, line string) string {
	t.Helper()
	out, errs, code := tool(t, bootstrap, line)
	if code != 0 {
		t.Fatalf("%s: %d: %s", line, code, errs)
	}
	return out
}

// members is who carries the metadata, as the command line tells: 1 leader, ...
func members(t *testing.T, bootstrap []string) (nodes map[int]string, leader int) {
	t.Helper()
	var s struct {
		Leader  int
		Members []struct {
			Node int
			Role string
		}
	}
	if err := json.Unmarshal([]byte(mustTool(t, bootstrap, "cluster quorum describe -o json")), &s); err != nil {
		t.Fatal(err)
	}
	nodes = map[int]string{}
	for _, m := range s.Members {
		nodes[m.Node] = m.Role
	}
	return nodes, s.Leader
}

// A fourth voter is added by the command line while it waits for that, and the
// one that leads is removed; who is refused what, and why.
func TestVotersByHand(t *testing.T) {
	c := brokertest.StartCluster(t, 3)
	at := c.Addrs()
	nodes, leader := members(t, at)
	if len(nodes) != 3 || nodes[leader] != "leader" {
		t.Fatalf("%v, led by %d", nodes, leader)
	}
	if got, want := mustTool(t, at, "cluster status"), fmt.Sprintf("voters 1,2,3, led by %d\n", leader); !strings.Contains(got, want) {
		t.Errorf("%q not in %s", want, got)
	}
	if _, errs, code := tool(t, at, fmt.Sprintf("cluster quorum add %d 127.0.0.1:1", leader)); code != 1 || !strings.Contains(errs, "DUPLICATE_VOTER") {
		t.Errorf("a voter again: %s", errs)
	}
	if _, errs, code := tool(t, at, "cluster quorum add 9 127.0.0.1:1 --timeout 9s"); code != 1 || !strings.Contains(errs, "did not come up at 127.0.0.1:1") {
		t.Errorf("nobody: %s", errs)
	}
	if _, errs, code := tool(t, at, "cluster quorum remove 9 --yes"); code != 1 || !strings.Contains(errs, "not in the quorum") {
		t.Errorf("nobody: %s", errs)
	}
	if nodes, _ := members(t, at); len(nodes) != 3 {
		t.Errorf("who never came up is left: %v", nodes)
	}

	four, address := fourthVoter(t, c)
	if got := mustTool(t, at, "cluster quorum add 4 "+address); got != "node 4 votes on the metadata\n" {
		t.Errorf("%q", got)
	}
	four.Await()
	if nodes, _ := members(t, at); nodes[4] == "" || nodes[4] == "observer" || len(nodes) != 4 {
		t.Errorf("%v", nodes)
	}
	_, leader = members(t, at)
	mustTool(t, at, fmt.Sprintf("cluster quorum remove %d --yes", leader))
	nodes, now := members(t, []string{four.Addr()})
	if len(nodes) != 3 || nodes[leader] != "" || now == leader {
		t.Errorf("%v, led by %d, and %d was removed", nodes, now, leader)
	}
	began := time.Now()
	if err := c.Broker(leader).Wait(); err == nil || !strings.Contains(err.Error(), "was removed from the voters") {
		t.Errorf("the removed one: %v", err)
	}
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("it went on for %v", took)
	}
}

// What the two requests say to wrong wishes.
func TestVoterRequests(t *testing.T) {
	alone := dial(t, brokertest.Start(t))
	c := brokertest.StartCluster(t, 1)
	p := dial(t, c.Broker(1))
	id, other := p.cluster(), "other"
	add := func(change func(*kmsg.AddRaftVoterRequest)) (int16, *string) {
		req := kmsg.NewPtrAddRaftVoterRequest()
		l := kmsg.NewAddRaftVoterRequestListener()
		l.Name, l.Host, l.Port = "CONTROLLER", "127.0.0.1", 1
		req.Version, req.ClusterID, req.VoterID, req.VoterDirectoryID, req.TimeoutMillis = 1, &id, 7, [16]byte{1}, 500
		req.Listeners = append(req.Listeners, l)
		change(req)
		resp := ask[*kmsg.AddRaftVoterResponse](p, req)
		return resp.ErrorCode, resp.ErrorMessage
	}
	for name, c := range map[string]struct {
		change func(*kmsg.AddRaftVoterRequest)
		want   *kerr.Error
	}{
		"another cluster":     {func(r *kmsg.AddRaftVoterRequest) { r.ClusterID = &other }, kerr.InconsistentClusterID},
		"no directory":        {func(r *kmsg.AddRaftVoterRequest) { r.VoterDirectoryID = [16]byte{} }, kerr.InvalidRequest},
		"no node":             {func(r *kmsg.AddRaftVoterRequest) { r.VoterID = -1 }, kerr.InvalidRequest},
		"no such listener":    {func(r *kmsg.AddRaftVoterRequest) { r.Listeners[0].Name = "X" }, kerr.InvalidRequest},
		"a voter":             {func(r *kmsg.AddRaftVoterRequest) { r.VoterID = 1 }, kerr.DuplicateVoter},
		"who does not come":   {func(r *kmsg.AddRaftVoterRequest) { r.ClusterID = nil }, kerr.RequestTimedOut},
		"who does not come 0": {func(r *kmsg.AddRaftVoterRequest) { r.Version = 0 }, kerr.RequestTimedOut},
	} {
		code, text := add(c.change)
		wantCode(t, name, code, c.want)
		if text == nil || *text == "" {
			t.Errorf("%s: without a word", name)
		}
	}
	if nodes, _ := members(t, c.Addrs()); len(nodes) != 1 {
		t.Errorf("who never came up is left: %v", nodes)
	}
	if code, text := add(func(r *kmsg.AddRaftVoterRequest) { r.AckWhenCommitted, r.TimeoutMillis = false, 10_000 }); code != 0 || text == nil || *text != "NONE" {
		t.Errorf("added without waiting: %d, %v", code, text)
	}
	remove := func(p *peer, node int32, dir [16]byte) int16 {
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.VoterID, req.VoterDirectoryID = node, dir
		return ask[*kmsg.RemoveRaftVoterResponse](p, req).ErrorCode
	}
	q := p.quorum()
	if len(q.Observers) != 1 || len(q.CurrentVoters) != 1 {
		t.Fatalf("%+v", q)
	}
	wantCode(t, "another directory", remove(p, 7, [16]byte{1}), kerr.VoterNotFound)
	wantCode(t, "no directory", remove(p, 7, [16]byte{}), kerr.InvalidRequest)
	wantCode(t, "the observer", remove(p, 7, q.Observers[0].ReplicaDirectoryID), nil)
	wantCode(t, "the last voter", remove(p, 1, q.CurrentVoters[0].ReplicaDirectoryID), kerr.InvalidRequest)
	wantCode(t, "where it is alone", remove(alone, 1, [16]byte{1}), kerr.UnsupportedVersion)
}

func (p *peer) cluster() string {
	p.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 9, []kmsg.MetadataRequestTopic{}
	return *ask[*kmsg.MetadataResponse](p, req).ClusterID
}

func (p *peer) quorum() kmsg.DescribeQuorumResponseTopicPartition {
	p.t.Helper()
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 2
	of := kmsg.NewDescribeQuorumRequestTopic()
	of.Topic, of.Partitions = "__cluster_metadata", append(of.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, of)
	return ask[*kmsg.DescribeQuorumResponse](p, req).Topics[0].Partitions[0]
}

// fourthVoter begins to start a node that is to vote, at an address of its own.
func fourthVoter(t *testing.T, c *brokertest.Cluster) (b *brokertest.Broker, address string) {
	t.Helper()
	address = freeAddress(t)
	voters := strings.Split(c.Voters(), ",")[:2] // it need not know them all
	return c.Launch(
		brokertest.Set("process.roles", "broker,controller"),
		brokertest.Set("controller.quorum.voters", strings.Join(append(voters, "4@"+address), ",")),
		brokertest.Set("controller.listener.names", "CONTROLLER"),
		brokertest.Set("listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://"+address),
	), address
}

// steadyAddress is one that a process which restarts finds free again: below
// those that the system gives to clients.
func steadyAddress(t *testing.T) string {
	t.Helper()
	for {
		at := fmt.Sprintf("127.0.0.1:%d", 20000+os.Getpid()*13%8000+int(steady.Add(1)))
		l, err := net.Listen("tcp", at)
		if err == nil {
			l.Close()
			return at
		}
	}
}

var steady atomic.Int32

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
