package cli

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// moving is a fake cluster whose partitions move: brokers 0 to 3, each pair in a
// rack, and the topics orders and other.
type moving struct {
	mu       sync.Mutex
	cluster  *kfake.Cluster
	addrs    []string
	replicas map[partitionName][]int32
	running  map[partitionName]kmsg.ListPartitionReassignmentsResponseTopicPartition
	settings map[string]string // by "topic/orders key"
	refuse   string            // a key that cannot be set
}

func newMoving(t *testscript.Env) (*moving, error) {
	c, err := kfake.NewCluster(kfake.NumBrokers(4), kfake.ClusterID("moving"), kfake.SeedTopics(3, "orders"), kfake.SeedTopics(1, "other"))
	if err != nil {
		return nil, err
	}
	t.Defer(c.Close)
	m := &moving{cluster: c, addrs: c.ListenAddrs(), running: map[partitionName]kmsg.ListPartitionReassignmentsResponseTopicPartition{}}
	m.settings = map[string]string{}
	m.replicas = map[partitionName][]int32{
		{"orders", 0}: {0, 1}, {"orders", 1}: {1, 0}, {"orders", 2}: {0, 2}, {"other", 0}: {3},
	}
	c.ControlKey(int16(kmsg.Metadata), m.control(m.metadata))
	c.ControlKey(int16(kmsg.AlterPartitionAssignments), m.control(m.alter))
	c.ControlKey(int16(kmsg.IncrementalAlterConfigs), m.control(m.configure))
	c.ControlKey(int16(kmsg.ListPartitionReassignments), m.control(m.list))
	return m, nil
}

func (m *moving) control(answer func(kmsg.Request) kmsg.Response) func(kmsg.Request) (kmsg.Response, error, bool) {
	return func(req kmsg.Request) (kmsg.Response, error, bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.cluster.KeepControl()
		return answer(req), nil, true
	}
}

func (m *moving) metadata(req kmsg.Request) kmsg.Response {
	in := req.(*kmsg.MetadataRequest)
	resp := in.ResponseKind().(*kmsg.MetadataResponse)
	for n, addr := range m.addrs {
		b := kmsg.NewMetadataResponseBroker()
		host, port, _ := net.SplitHostPort(addr)
		at, _ := strconv.Atoi(port)
		b.NodeID, b.Host, b.Port, b.Rack = int32(n), host, int32(at), kmsg.StringPtr("r"+strconv.Itoa(n/2))
		resp.Brokers = append(resp.Brokers, b)
	}
	resp.ClusterID, resp.ControllerID = kmsg.StringPtr("moving"), 0
	topics := map[string][]kmsg.MetadataResponseTopicPartition{}
	for _, at := range sortedPartitions(m.replicas) {
		p := kmsg.NewMetadataResponseTopicPartition()
		r := m.replicas[at]
		p.Partition, p.Leader, p.Replicas, p.ISR = at.partition, r[0], r, r
		topics[at.topic] = append(topics[at.topic], p)
	}
	for _, in := range in.Topics {
		if in.Topic != nil && topics[*in.Topic] == nil {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic, t.ErrorCode = in.Topic, kerr.UnknownTopicOrPartition.Code
			resp.Topics = append(resp.Topics, t)
		}
	}
	for n, name := range slices.Sorted(maps.Keys(topics)) {
		if in.Topics != nil && !slices.ContainsFunc(in.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.Topic != nil && *t.Topic == name }) {
			continue
		}
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID, t.Partitions = kmsg.StringPtr(name), [16]byte{1, byte(n)}, topics[name]
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (m *moving) alter(req kmsg.Request) kmsg.Response {
	in := req.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := in.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	for _, t := range in.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			one := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			one.Partition = p.Partition
			if err := m.begin(partitionName{t.Topic, p.Partition}, p.Replicas); err != nil {
				one.ErrorCode = err.Code
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// begin moves a partition, or with nil replicas ends that; no broker 9 is there.
func (m *moving) begin(at partitionName, to []int32) *kerr.Error {
	was, moves := m.running[at]
	switch {
	case to == nil && !moves:
		return kerr.NoReassignmentInProgress
	case to == nil:
		m.replicas[at] = slices.DeleteFunc(slices.Clone(was.Replicas), func(n int32) bool { return slices.Contains(was.AddingReplicas, n) })
		delete(m.running, at)
		return nil
	case slices.Contains(to, 9):
		return kerr.InvalidReplicaAssignment
	}
	r := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	r.Partition, r.Replicas = at.partition, slices.Clone(to)
	for _, n := range m.replicas[at] {
		if !slices.Contains(to, n) {
			r.Replicas, r.RemovingReplicas = append(r.Replicas, n), append(r.RemovingReplicas, n)
		}
	}
	for _, n := range to {
		if !slices.Contains(m.replicas[at], n) {
			r.AddingReplicas = append(r.AddingReplicas, n)
		}
	}
	m.running[at], m.replicas[at] = r, r.Replicas
	return nil
}

func (m *moving) list(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	for _, at := range sortedPartitions(m.running) {
		t := kmsg.NewListPartitionReassignmentsResponseTopic()
		t.Topic, t.Partitions = at.topic, []kmsg.ListPartitionReassignmentsResponseTopicPartition{m.running[at]}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (m *moving) configure(req kmsg.Request) kmsg.Response {
	in := req.(*kmsg.IncrementalAlterConfigsRequest)
	resp := in.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for _, r := range in.Resources {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		for _, c := range r.Configs {
			key := resource{r.ResourceType, r.ResourceName}.String() + " " + c.Name
			switch {
			case c.Name == m.refuse:
				out.ErrorCode = kerr.InvalidConfig.Code
			case c.Op == kmsg.IncrementalAlterConfigOpDelete:
				delete(m.settings, key)
			default:
				m.settings[key] = *c.Value
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// settle brings everything to where it goes.
func (m *moving) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, r := range m.running {
		m.replicas[at] = slices.DeleteFunc(slices.Clone(r.Replicas), func(n int32) bool { return slices.Contains(r.RemovingReplicas, n) })
	}
	clear(m.running)
}

// Each script under testdata/moving runs against a fake cluster of four brokers;
// "settle" lets everything that moves arrive.
func TestMovingScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/moving",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			m, err := newMoving(env)
			if err != nil {
				return err
			}
			env.Values["moving"] = m
			env.Setenv("BARNABAS_BOOTSTRAP", strings.Join(m.addrs, ","))
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"wrong": wrongUse,
			// setting RESOURCE KEY [VALUE]: it has that value, or none.
			"setting": func(ts *testscript.TestScript, _ bool, args []string) {
				m := ts.Value("moving").(*moving)
				m.mu.Lock()
				defer m.mu.Unlock()
				want := append(args, "")[2]
				if got := m.settings[args[0]+" "+args[1]]; got != want {
					ts.Fatalf("%s of %s is %q, not %q", args[1], args[0], got, want)
				}
			},
			// refuse KEY: it cannot be set from now on.
			"refuse": func(ts *testscript.TestScript, _ bool, args []string) {
				m := ts.Value("moving").(*moving)
				m.mu.Lock()
				defer m.mu.Unlock()
				m.refuse = args[0]
			},
			"settle": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Value("moving").(*moving).settle()
			},
		},
	})
}
