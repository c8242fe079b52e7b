//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	groupTool   = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	consoleTool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
)

// timedTopic has ten records in each of two partitions, one an hour, the last
// an hour ago.
func timedTopic(t *testing.T, addr string) string {
	t.Helper()
	topic := createTopic(t, addr, "timed", 2, map[string]*string{"message.timestamp.type": kadm.StringPtr("CreateTime")})
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var records []*kgo.Record
	for p := range int32(2) {
		for i := range 10 {
			at := time.Now().Add(time.Duration(i-10) * time.Hour)
			records = append(records, &kgo.Record{Topic: topic, Partition: p, Timestamp: at, Value: fmt.Appendf(nil, "%d/%d", p, i)})
		}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return topic
}

// commitTo sets the offsets of a group without members.
func commitTo(t *testing.T, adm *kadm.Client, group, topic string, at ...int64) {
	t.Helper()
	o := kadm.Offsets{}
	for p, a := range at {
		o.Add(kadm.Offset{Topic: topic, Partition: int32(p), At: a, LeaderEpoch: -1})
	}
	if err := adm.CommitAllOffsets(t.Context(), group, o); err != nil {
		t.Fatal(err)
	}
}

// committed are a group's offsets of partitions 0 and 1; -1 is none.
func committed(t *testing.T, adm *kadm.Client, group, topic string) [2]int64 {
	t.Helper()
	got, err := adm.FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	out := [2]int64{-1, -1}
	for p := range int32(2) {
		if o, ok := got.Lookup(topic, p); ok {
			out[p] = o.At
		}
	}
	return out
}

// TestGroupTool runs Apache Kafka's kafka-consumer-groups: lists, describes,
// resets by every way there is, and deletes.
func TestGroupTool(t *testing.T) {
	addr := target(t, consumerTimes...)
	adm := admin(t, addr)
	topic := timedTopic(t, addr)
	group := "tool-" + topic
	commitTo(t, adm, group, topic, 3, 4)
	tool := func(args ...string) string {
		return javaRun(t, groupTool, append([]string{"--bootstrap-server", addr}, args...)...)
	}
	wantLine(t, tool("--list"), `(?m)^`+group+`$`)
	wantLine(t, tool("--list", "--state"), `(?m)^`+group+`\s+Empty\s*$`)
	wantLine(t, tool("--list", "--type", "classic"), `(?m)^`+group+`\s+Classic\s*$`)
	out := tool("--describe", "--group", group)
	wantLine(t, out, `has no active members`)
	wantLine(t, out, `(?m)^`+group+`\s+`+topic+`\s+0\s+3\s+10\s+7\s+-\s+-\s+-`)
	wantLine(t, out, `(?m)^`+group+`\s+`+topic+`\s+1\s+4\s+10\s+6\s+-\s+-\s+-`)
	t.Run("reset", func(t *testing.T) { resets(t, adm, tool, group, topic) })

	tool("--delete-offsets", "--group", group, "--topic", topic+":1")
	if got := committed(t, adm, group, topic); got[1] != -1 || got[0] == -1 {
		t.Errorf("after --delete-offsets of partition 1: %v", got)
	}
	wantLine(t, tool("--delete", "--group", group), `successful`)
	if got := committed(t, adm, group, topic); got != [2]int64{-1, -1} {
		t.Errorf("after --delete: %v", got)
	}
	if out, _ := javaTry(t, groupTool, "--bootstrap-server", addr, "--describe", "--group", group); !strings.Contains(out, "not found") {
		t.Errorf("a deleted group is described:\n%s", out)
	}
	t.Run("members", func(t *testing.T) { describeMembers(t, addr, tool) })
}

// resets moves the offsets of a group and looks where they went.
func resets(t *testing.T, adm *kadm.Client, tool func(...string) string, group, topic string) {
	file := filepath.Join(t.TempDir(), "offsets.csv")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%s,0,2\n%s,1,8\n", topic, topic), 0o644); err != nil {
		t.Fatal(err)
	}
	sixth := time.Now().Add(-4*time.Hour - 30*time.Minute).UTC().Format("2006-01-02T15:04:05.000")
	for _, c := range []struct {
		args []string
		want [2]int64
	}{
		{[]string{"--to-earliest", "--all-topics"}, [2]int64{0, 0}},
		{[]string{"--to-latest", "--topic", topic}, [2]int64{10, 10}},
		{[]string{"--to-offset", "5", "--topic", topic + ":0"}, [2]int64{5, 4}},
		{[]string{"--to-offset", "50", "--all-topics"}, [2]int64{10, 10}},
		{[]string{"--shift-by", "-2", "--all-topics"}, [2]int64{1, 2}},
		{[]string{"--shift-by", "100", "--topic", topic + ":1"}, [2]int64{3, 10}},
		{[]string{"--to-datetime", sixth, "--all-topics"}, [2]int64{6, 6}},
		{[]string{"--by-duration", "PT3H30M", "--all-topics"}, [2]int64{7, 7}},
		{[]string{"--to-current", "--all-topics"}, [2]int64{3, 4}},
		{[]string{"--from-file", file}, [2]int64{2, 8}},
	} {
		commitTo(t, adm, group, topic, 3, 4)
		args := append([]string{"--reset-offsets", "--group", group}, c.args...)
		if c.args[0] == "--to-earliest" {
			wantLine(t, tool(append(args, "--dry-run")...), `(?m)^`+group+`\s+`+topic+`\s+0\s+0\s*$`)
			if got := committed(t, adm, group, topic); got != [2]int64{3, 4} {
				t.Errorf("a dry run went to %v", got)
			}
			out := tool(append(args, "--export", "--dry-run")...)
			wantLine(t, out, `(?m)^"?`+topic+`"?,0,0$`)
		}
		out := tool(append(args, "--execute")...)
		if got := committed(t, adm, group, topic); got != c.want {
			t.Errorf("%s: went to %v, want %v\n%s", strings.Join(c.args, " "), got, c.want, out)
		}
	}
}

// describeMembers shows groups of both protocols with a member that is alive.
func describeMembers(t *testing.T, addr string, tool func(...string) string) {
	topic := createTopic(t, addr, "alive", 2, nil)
	java := startProgram(t, newDiary().take, javaMembers(t), addr, topic)
	for protocol, kind := range map[string]string{"range": "Classic", "consumer": "Consumer"} {
		g := protocol + "-" + topic
		java.say("start %s m %s", g, protocol)
		awaitGroup(t, admin(t, addr), g, kind, "Stable")
		wantLine(t, tool("--describe", "--group", g, "--members", "--verbose"), `(?m)^`+g+`\s.*/127\.0\.0\.1\s+m\s+2\s.*`+regexp.QuoteMeta(topic)+`[:(]0,1`)
		wantLine(t, tool("--describe", "--group", g, "--state", "--verbose"), `(?m)^`+g+`\s+127\.0\.0\.1:\d+\s+\(\d+\)\s.*Stable`)
		wantLine(t, tool("--describe", "--group", g, "--offsets"), `(?m)^`+g+`\s+`+topic+`\s+0\s.*/127\.0\.0\.1\s+m`)
		if out, _ := javaTry(t, groupTool, "--bootstrap-server", addr, "--reset-offsets", "--group", g, "--to-earliest", "--all-topics", "--execute"); !strings.Contains(out, "can only be reset if the group") {
			t.Errorf("offsets of a group with a member were reset:\n%s", lastBytes(out))
		}
		if out, _ := javaTry(t, groupTool, "--bootstrap-server", addr, "--delete", "--group", g); !strings.Contains(out, "GroupNotEmptyException") {
			t.Errorf("a group with a member was deleted:\n%s", lastBytes(out))
		}
	}
}

func wantLine(t *testing.T, out, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(out) {
		t.Errorf("no %s in:\n%s", pattern, lastBytes(out))
	}
}

// TestConsoleConsumer reads with kafka-console-consumer as a group by both
// protocols, goes on where it stopped, and prints what the group wrote into
// the offsets topic.
func TestConsoleConsumer(t *testing.T) {
	addr := target(t, consumerTimes...)
	topic := timedTopic(t, addr)
	for _, protocol := range []string{"classic", "consumer"} {
		group := protocol + "-" + topic
		read := func(n int) []string {
			out := javaRun(t, consoleTool, "--bootstrap-server", addr, "--topic", topic, "--group", group, "--from-beginning",
				"--max-messages", strconv.Itoa(n), "--timeout-ms", "30000", "--command-property", "group.protocol="+protocol)
			return regexp.MustCompile(`(?m)^\d/\d$`).FindAllString(out, -1)
		}
		all := append(read(7), read(13)...)
		seen := map[string]bool{}
		for _, v := range all {
			seen[v] = true
		}
		if len(all) != 20 || len(seen) != 20 {
			t.Errorf("%s: %d records, %d of them different, want 20: %v", protocol, len(all), len(seen), all)
		}
	}
	offsets := formatted(t, addr, "OffsetsMessageFormatter")
	groups := formatted(t, addr, "GroupMetadataMessageFormatter")
	for _, protocol := range []string{"classic", "consumer"} {
		last := map[float64]float64{}
		for _, r := range offsets {
			k, v := r.Key.Data, r.Value.Data
			if k["group"] == protocol+"-"+topic && k["topic"] == topic {
				last[k["partition"].(float64)] = v["offset"].(float64)
			}
		}
		if last[0] != 10 || last[1] != 10 {
			t.Errorf("%s: the offsets topic's last offsets are %v, want 10 and 10", protocol, last)
		}
	}
	members := 0
	for _, r := range groups {
		if list, ok := r.Value.Data["members"].([]any); ok && r.Key.Data["group"] == "classic-"+topic {
			members += len(list)
		}
	}
	if members == 0 {
		t.Errorf("no group record has the classic group's member: %d records", len(groups))
	}
}

// coordinatorRecord is one of the offsets topic as the formatters print it.
type coordinatorRecord struct {
	Key, Value struct {
		Type, Version int
		Data          map[string]any
	}
}

func formatted(t *testing.T, addr, formatter string) []coordinatorRecord {
	t.Helper()
	out, err := javaTry(t, consoleTool, "--bootstrap-server", addr, "--topic", "__consumer_offsets", "--from-beginning",
		"--formatter", "org.apache.kafka.tools.consumer."+formatter, "--timeout-ms", "4000")
	start := strings.IndexByte(out, '{')
	if start < 0 {
		t.Fatalf("%s prints nothing: %v\n%s", formatter, err, lastBytes(out))
	}
	var all []coordinatorRecord
	for d := json.NewDecoder(strings.NewReader(out[start:])); ; {
		var r coordinatorRecord
		if err := d.Decode(&r); err != nil {
			return all // "Processed a total of ..."
		}
		all = append(all, r)
	}
}

// TestVerifiableConsumer runs kafka-verifiable-consumer by both protocols.
func TestVerifiableConsumer(t *testing.T) {
	addr := target(t, consumerTimes...)
	topic := timedTopic(t, addr)
	for _, protocol := range []string{"classic", "consumer"} {
		group := "verifiable-" + protocol + "-" + topic
		out := javaRun(t, "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", addr, "--topic", topic, "--group-id", group,
			"--group-protocol", protocol, "--max-messages", "20", "--reset-policy", "earliest")
		consumed, at := 0, map[int]int64{}
		for line := range strings.Lines(out) {
			var e struct {
				Name    string
				Count   int
				Success bool
				Offsets []struct {
					Partition int
					Offset    int64
				}
			}
			if json.Unmarshal([]byte(line), &e) != nil {
				continue
			}
			switch {
			case e.Name == "records_consumed":
				consumed += e.Count
			case e.Name == "offsets_committed" && !e.Success:
				t.Errorf("%s: a commit failed: %s", protocol, line)
			case e.Name == "offsets_committed":
				for _, o := range e.Offsets {
					at[o.Partition] = o.Offset
				}
			}
		}
		if consumed != 20 || at[0] != 10 || at[1] != 10 {
			t.Errorf("%s: %d records, committed %v, want 20 and 10 each\n%s", protocol, consumed, at, lastBytes(out))
		}
		if got := committed(t, admin(t, addr), group, topic); got != [2]int64{10, 10} {
			t.Errorf("%s: committed %v, want 10 and 10", protocol, got)
		}
	}
}

// TestConsumerPerformance runs kafka-consumer-perf-test as a group.
func TestConsumerPerformance(t *testing.T) {
	addr := target(t, consumerTimes...)
	records := 100_000
	if full() {
		records = 1_000_000
	}
	topic := createTopic(t, addr, "cperf", partitions, nil)
	fill(t, addr, topic, records)
	for _, protocol := range []string{"classic", "consumer"} {
		out := javaRun(t, "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", addr, "--topic", topic, "--group", protocol+"-"+topic,
			"--num-records", strconv.Itoa(records), "--command-property", "group.protocol="+protocol)
		line := lastLine(out)
		f := strings.Split(line, ", ")
		if len(f) < 5 {
			t.Fatalf("no figures:\n%s", lastBytes(out))
		}
		if n, err := strconv.Atoi(f[4]); err != nil || n < records {
			t.Errorf("%s: %s records consumed, want %d\n%s", protocol, f[4], records, lastBytes(out))
		}
		t.Logf("%s: %s", protocol, line)
	}
}

// fill writes records of 500 bytes to all partitions.
func fill(t *testing.T, addr, topic string, records int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	value := bytes.Repeat([]byte("v"), 500)
	failed := make(chan error, 1)
	for range records {
		cl.Produce(t.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
}

// TestKafkaPython has kafka-python read as a group, and another run of it go
// on where the first stopped.
func TestKafkaPython(t *testing.T) {
	python := pythonClients(t)
	addr := target(t, consumerTimes...)
	topic := timedTopic(t, addr)
	group := "python-" + topic
	var all []string
	for _, n := range []int{7, 13} {
		all = append(all, strings.Fields(run(t, ".", python, filepath.Join("python", "read.py"), addr, topic, group, strconv.Itoa(n)))...)
	}
	slices.Sort(all)
	if got := len(slices.Compact(slices.Clone(all))); len(all) != 20 || got != 20 {
		t.Errorf("%d records, %d of them different, want 20: %v", len(all), got, all)
	}
	if got := committed(t, admin(t, addr), group, topic); got != [2]int64{10, 10} {
		t.Errorf("committed %v, want 10 and 10", got)
	}
}
