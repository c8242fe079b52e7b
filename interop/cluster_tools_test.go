//go:build interop

package interop

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topicTool    = "org.apache.kafka.tools.TopicCommand"
	reassignTool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
	electionTool = "org.apache.kafka.tools.LeaderElectionCommand"
	quorumTool   = "org.apache.kafka.tools.MetadataQuorumCommand"
	verifyTool   = "org.apache.kafka.tools.ReplicaVerificationTool"
	clusterTool  = "org.apache.kafka.tools.ClusterTool"
)

// TestClusterTools has Apache Kafka's tools administer three brokers.
func TestClusterTools(t *testing.T) {
	c := startCluster(t, "auto.leader.rebalance.enable=false")
	tool := func(class string, args ...string) string {
		return javaRun(t, class, append([]string{"--bootstrap-server", c.bootstrap()}, args...)...)
	}
	tool(topicTool, "--create", "--topic", "moves", "--replica-assignment", "1:2,2:3")
	fillWith(t, c.bootstrap(), "moves", 16<<20)
	if out := tool(topicTool, "--describe", "--under-replicated-partitions"); strings.Contains(out, "Partition:") {
		t.Errorf("under-replicated, and all are there:\n%s", out)
	}
	t.Run("reassign", func(t *testing.T) { reassigns(t, tool) })

	wantLine(t, tool(electionTool, "--election-type", "preferred", "--all-topic-partitions"), `Successfully completed leader election \(PREFERRED\)`)
	wantLine(t, tool(topicTool, "--describe", "--topic", "moves"), `Partition: 0\s+Leader: 3\s+Replicas: 3,1\s`)
	out := tool(quorumTool, "describe", "--status")
	wantLine(t, out, `(?m)^LeaderId:\s+[123]$`)
	wantLine(t, out, `CurrentVoters:\s+\[\{"id": 1,.*\{"id": 2,.*\{"id": 3,`)
	out = tool(quorumTool, "describe", "--replication")
	wantLine(t, out, `(?m)^[123]\s.*\sLeader\s*$`)
	wantLine(t, out, `(?m)^[123]\s.*\sFollower\s*$`)
	wantLine(t, javaRun(t, clusterTool, "cluster-id", "--bootstrap-server", c.bootstrap()), `Cluster ID: \S{22}`)
	wantLine(t, javaRun(t, clusterTool, "list-endpoints", "--bootstrap-server", c.bootstrap()), `(?m)^3\s+127\.0\.0\.1\s+\d+\s.*unfenced\s+broker`)
	verified(t, c.bootstrap(), "moves")

	c.nodes[2].kill()
	for out := ""; !strings.Contains(out, "Partition: 1"); { // 3 is in the replicas of both, and leads one
		out = tool(topicTool, "--describe", "--under-replicated-partitions")
	}
	c.launch(2)
	c.nodes[2].awaitReady()
	for out := "Partition:"; strings.Contains(out, "Partition:"); {
		out = tool(topicTool, "--describe", "--under-replicated-partitions")
	}
}

// fillWith writes so many bytes that no codec makes smaller.
func fillWith(t *testing.T, addrs, topic string, size int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(addrs, ",")...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	random := rand.NewChaCha8([32]byte{})
	for ; size > 0; size -= 10_000 {
		value := make([]byte, 10_000)
		_, _ = random.Read(value)
		cl.Produce(t.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// reassigns proposes, begins slowly, cancels, begins again and sees it end.
func reassigns(t *testing.T, tool func(string, ...string) string) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wanted := file("topics.json", `{"version":1,"topics":[{"topic":"moves"}]}`)
	out := tool(reassignTool, "--topics-to-move-json-file", wanted, "--broker-list", "1,2,3", "--generate")
	wantLine(t, out, `(?s)Current partition replica assignment.*"replicas":\[1,2\].*"replicas":\[2,3\].*Proposed partition reassignment configuration.*"partition":1`)

	plan := file("plan.json", `{"version":1,"partitions":[{"topic":"moves","partition":0,"replicas":[3,1]},{"topic":"moves","partition":1,"replicas":[1,3]}]}`)
	out = tool(reassignTool, "--reassignment-json-file", plan, "--execute", "--throttle", "100000")
	wantLine(t, out, `throttle limit was set to 100000 B/s`)
	wantLine(t, out, `Successfully started partition reassignments for moves-0,moves-1`)
	wantLine(t, tool(reassignTool, "--list"), `moves-0: replicas: 3,1,2\. adding: 3\. removing: 2\.`)
	wantLine(t, tool(reassignTool, "--reassignment-json-file", plan, "--verify", "--preserve-throttles"), `moves-0 is still in progress`)
	wantLine(t, tool(reassignTool, "--reassignment-json-file", plan, "--cancel"), `Successfully cancelled partition reassignments for: moves-0,moves-1`)
	wantLine(t, tool(reassignTool, "--list"), `No partition reassignments found`)
	wantLine(t, tool(topicTool, "--describe", "--topic", "moves"), `Partition: 0\s+Leader: 1\s+Replicas: 1,2\s`)

	began := time.Now()
	tool(reassignTool, "--reassignment-json-file", plan, "--execute", "--throttle", "4000000")
	for out = "in progress"; strings.Contains(out, "in progress"); {
		out = tool(reassignTool, "--reassignment-json-file", plan, "--verify")
	}
	t.Logf("16 MiB at 4 MB/s to each of two brokers took %v", time.Since(began).Round(time.Millisecond))
	wantLine(t, out, `moves-0 is completed`)
	wantLine(t, out, `moves-1 is completed`)
	wantLine(t, out, `Clearing topic-level throttles on topic moves`)
	wantLine(t, tool(topicTool, "--describe", "--topic", "moves"), `(?s)Partition: 0\s+Leader: [13]\s+Replicas: 3,1\s.*Partition: 1\s+Leader: [13]\s+Replicas: 1,3\s`)
}

// verified has the tool that compares replicas look once at all of a topic.
func verified(t *testing.T, addrs, topic string) {
	t.Helper()
	libs := kafkaLibs(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(libs, "*"),
		verifyTool, "--broker-list", addrs, "--topics-include", topic, "--report-interval-ms", "500")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	var said []string
	for s := bufio.NewScanner(out); s.Scan(); {
		said = append(said, s.Text())
		if strings.Contains(s.Text(), fmt.Sprintf("max lag is 0 for partition %s-", topic)) {
			return
		}
	}
	t.Errorf("replicas are not verified:\n%s", strings.Join(said, "\n"))
}
