//go:build interop

package interop

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAnswersOfKafka starts Apache Kafka 4.4.0 and asks it and the broker the
// same raw requests, random ones and those of scripts: no answer differs
// without a reason.
func TestAnswersOfKafka(t *testing.T) {
	// No waiting for more members or between assignments, so that a script's
	// answers do not depend on time; groups and pushes small enough to be filled.
	both := []string{
		"group.initial.rebalance.delay.ms=0", "group.consumer.assignment.interval.ms=0", "group.max.size=4", "group.consumer.max.size=4",
		"telemetry.max.bytes=1000",
	}
	settings := append([]string{
		"group.consumer.assignor.offload.enable=false",
		// It serves telemetry when somebody takes it, and deletes and cleans
		// nothing in its own time.
		"metric.reporters=TelemetryPlugin", "log.initial.task.delay.ms=2000000000", "log.cleaner.enable=false", twoDirs(t),
	}, both...)
	kafka := startKafka(t, settings...).addr
	addr := target(t, append(both, "node.id=1", "log.retention.check.interval.ms=2000000000", twoDirs(t))...)
	t.Run("Random", func(t *testing.T) { randomAnswers(t, kafka, addr) })
	t.Run("Scripts", func(t *testing.T) { scriptedAnswers(t, kafka, addr) })
}

// twoDirs is the setting of two log directories of a broker.
func twoDirs(t *testing.T) string {
	dir := t.TempDir()
	return "log.dirs=" + filepath.Join(dir, "one") + "," + filepath.Join(dir, "two")
}

// randomAnswers compares the answers to random administrative requests, valid
// and invalid, and to damaged ones. What may differ is in the list that
// docs/admin-differences.md shows.
func randomAnswers(t *testing.T, kafka, addr string) {
	needProcess(t) // what is in a broker of someone else is not ours to delete
	seeds, requests := []string{"1"}, "1500"
	if full() {
		seeds, requests = []string{"1", "2", "3", "4"}, "10000"
	}
	if seed := os.Getenv("INTEROP_SEED"); seed != "" {
		seeds = []string{seed}
	}
	for _, seed := range seeds {
		out, err := compare(t, 40*time.Minute, "-a", kafka, "-b", addr, "-all", "-random", requests, "-seed", seed)
		if err != nil {
			t.Errorf("%v\n%s", err, out)
			continue
		}
		t.Logf("no answer differs without a reason:\n%s", out)
	}
}

// TestDifferencesAreWrittenDown: the document of accepted differences is the
// list that the test of random requests uses.
func TestDifferencesAreWrittenDown(t *testing.T) {
	want, err := compare(t, time.Minute, "-differences")
	if err != nil {
		t.Fatalf("%v\n%s", err, want)
	}
	const page = "../docs/admin-differences.md"
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the code says; write it with\n\tgo run -tags interop ./interop/compare -differences > docs/admin-differences.md", page)
	}
}

// compare runs the command of that name.
func compare(t *testing.T, within time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", append([]string{"run", "-tags", "interop", "./compare"}, args...)...).CombinedOutput()
	return string(out), err
}

// scriptedAnswers compares the transcripts of the cases.
func scriptedAnswers(t *testing.T, kafka, addr string) {
	out, err := compare(t, 10*time.Minute, "-a", kafka, "-b", addr)
	if err != nil {
		t.Errorf("compare: %v\n%s", err, out)
	}
	counts := map[string]int{}
	for line := range strings.Lines(out) {
		if word, _, ok := strings.Cut(line, " "); ok && line[0] != ' ' {
			counts[word]++
		}
	}
	t.Logf("%d cases are the same, %d differ on purpose, %d differ", counts["same"], counts["known"], counts["DIFFERENT"]+counts["STOPPED"])
	if counts["same"] == 0 {
		t.Errorf("nothing was compared:\n%s", out)
	}
}

// kafkaBroker is a running Apache Kafka.
type kafkaBroker struct {
	addr string
	logs string // its log directory
	cmd  *exec.Cmd
	done chan error
}

// stop ends it in order, once.
func (k *kafkaBroker) stop() {
	k.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-k.done:
		k.done <- err
	case <-time.After(20 * time.Second):
		k.cmd.Process.Kill()
		k.done <- <-k.done
	}
}

// startKafka runs one broker of Apache Kafka for the test, with further
// settings, and waits until it leads. What it tidies up by the clock, from half a
// minute after its start, it leaves alone, so that no answer depends on how long
// the test takes.
func startKafka(t *testing.T, settings ...string) *kafkaBroker {
	t.Helper()
	libs := kafkaLibs(t)
	path := filepath.Join(libs, "*") + string(os.PathListSeparator) + javaClasses(t, libs)
	dir := workDir(t)
	k := &kafkaBroker{addr: freeAddr(t), logs: filepath.Join(dir, "kafka"), done: make(chan error, 1)}
	conf := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.initial.task.delay.ms=3600000
%[4]s
`, k.addr, freeAddr(t), k.logs, strings.Join(settings, "\n"))
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	javaRun(t, "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", conf)
	k.cmd = exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", path, "kafka.Kafka", conf)
	log := newTail()
	k.cmd.Stdout, k.cmd.Stderr = log, log
	k.cmd.Dir = dir // it writes logs where it stands
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { k.done <- k.cmd.Wait() }()
	t.Cleanup(k.stop)
	k.awaitLeader(t, log)
	return k
}

func (k *kafkaBroker) awaitLeader(t *testing.T, log *tail) {
	t.Helper()
	kafka := admin(t, k.addr)
	timeout := time.After(2 * time.Minute)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		topic, err := kafka.CreateTopic(ctx, 1, 1, nil, "ready")
		cancel()
		if err == nil && topic.Err == nil {
			return
		}
		select {
		case err := <-k.done:
			k.done <- err
			t.Fatalf("Apache Kafka ended: %v\n%s", err, log.last(40))
		case <-timeout:
			t.Fatalf("Apache Kafka is not ready after two minutes: %v\n%s", err, log.last(40))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// freeAddr is a loopback address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
