//go:build interop

package interop

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Clients push their metrics unasked for configuration of theirs, and they are
// on /metrics until the client is gone for a while (KIP-714).
func TestPushedMetrics(t *testing.T) {
	needProcess(t)
	need(t, "java")
	b := startBroker(t, workDir(t))
	at := regexp.MustCompile(`admin (http://\S+)`).FindStringSubmatch(b.log.last(1000))
	if at == nil {
		t.Fatal("no admin listener")
	}
	metrics := at[1] + "/metrics"
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, "pushed"); err != nil {
		t.Fatal(err)
	}
	subscribe(t, ctx, cl, "java", "metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer.", "interval.ms", "500", "match", "client_software_name=apache-kafka-java")
	subscribe(t, ctx, cl, "python", "metrics", "*", "interval.ms", "500", "match", "client_id=python-.*")

	path := filepath.Join(kafkaLibs(t), "*") + ":" + javaClasses(t, kafkaLibs(t))
	java := start(t, "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", path, "Telemetry", b.Addr, "pushed")
	python := start(t, pythonClients(t), filepath.Join("python", "telemetry.py"), b.Addr, "pushed")
	for _, want := range []string{
		`barnabas_client_producer_record_send_total\{.*client_id="java-telemetry".*client_software_name="apache-kafka-java".*\} [1-9]`,
		`barnabas_client_consumer_fetch_manager_records_consumed_total\{.*client_id="java-telemetry".*\} [1-9]`,
		`barnabas_client_producer_connection_creation_total\{.*client_id="python-telemetry".*\}`,
	} {
		awaitMetric(t, ctx, metrics, want)
	}
	java()
	python()
	page := scrape(t, ctx, metrics)
	if !strings.Contains(page, `barnabas_telemetry_pushes_total{result="unreadable"} 0`) {
		t.Error("a push could not be read")
	}
	if strings.Contains(page, "barnabas_telemetry_dropped_total{") {
		t.Error("points were dropped")
	}
}

// start runs a program until the function that it returns is called.
func start(t *testing.T, name string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(name, args...)
	out := newTail()
	cmd.Stdout, cmd.Stderr = out, out
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func() {
		t.Helper()
		_, _ = io.WriteString(in, "\n")
		_ = in.Close()
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, out.last(2000))
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s does not end\n%s", name, out.last(2000))
		}
	}
}

// subscribe sets a subscription to client metrics.
func subscribe(t *testing.T, ctx context.Context, cl *kgo.Client, name string, settings ...string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeClientMetrics, name
	for i := 0; i < len(settings); i += 2 {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = settings[i], &settings[i+1]
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("subscribe %s: %v", name, err)
	}
}

func scrape(t *testing.T, ctx context.Context, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v\n%s", url, resp.StatusCode, err, page)
	}
	return string(page)
}

// awaitMetric waits until the page has a line that matches.
func awaitMetric(t *testing.T, ctx context.Context, url, want string) {
	t.Helper()
	line := regexp.MustCompile("(?m)^" + want)
	for {
		page := scrape(t, ctx, url)
		if line.MatchString(page) {
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s is not there; of clients:\n%s", want, strings.Join(regexp.MustCompile("(?m)^barnabas_(client|telemetry).*$").FindAllString(page, 300), "\n"))
		}
	}
}

// Apache Kafka's own tools show and change features.
func TestFeatureTools(t *testing.T) {
	needProcess(t)
	need(t, "java")
	b := startBroker(t, workDir(t))
	const features, cluster = "org.apache.kafka.tools.FeatureCommand", "org.apache.kafka.tools.ClusterTool"
	shows := func(want string, class string, args ...string) {
		t.Helper()
		out, _ := javaTry(t, class, append([]string{"--bootstrap-server", b.Addr}, args...)...)
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%v: %s", args, lastBytes(out))
		}
	}
	shows(`group\.version was downgraded to 0`, features, "downgrade", "--feature", "group.version=0")
	shows(`Feature: group\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 0`, features, "describe")
	shows(`group\.version was upgraded to 1`, features, "upgrade", "--feature", "group.version=1")
	shows(`group\.version was disabled`, features, "disable", "--feature", "group.version")
	shows(`Local controller 1 does not support this feature`, features, "upgrade", "--feature", "share.version=1")
	shows(`metadata\.version\s.*FinalizedVersionLevel: 4\.4-IV2`, features, "describe")
	out, err := javaTry(t, cluster, "unregister", "--bootstrap-server", b.Addr, "--id", "9")
	if err != nil && !strings.Contains(out, "BrokerIdNotRegisteredException") {
		t.Errorf("unregister: %v\n%s", err, lastBytes(out))
	}
	if out := javaRun(t, cluster, "list-endpoints", "--bootstrap-server", b.Addr); !strings.Contains(out, "unfenced") {
		t.Errorf("list-endpoints: %s", lastBytes(out))
	}
}
