//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTranscripts gives Apache Kafka's own command-line tools the same script
// against Apache Kafka and against the broker. What they print differs in
// nothing but names and times, and in what known says, each with its reason.
func TestTranscripts(t *testing.T) {
	needProcess(t)
	kafka := startKafka(t)
	ours := startBroker(t, workDir(t))
	deleteTopic(t, kafka.addr, "ready") // which its start makes
	a, b := newTranscript(t, kafka.addr), newTranscript(t, ours.Addr)
	for i, s := range transcript(t) {
		if s.feed != nil {
			s.feed(t, a.addr)
			s.feed(t, b.addr)
			continue
		}
		want, got := a.run(s), b.run(s)
		for _, k := range knownTranscripts {
			if k.when(s.String()) {
				wanted, given := k.apply(want), k.apply(got)
				if !slices.Equal(wanted, want) || !slices.Equal(given, got) {
					k.used[s.String()] = true
				}
				want, got = wanted, given
			}
		}
		if !slices.Equal(want, got) {
			t.Errorf("%d: %s\n%s", i, s, lineDiff(want, got))
		}
	}
	for _, k := range knownTranscripts {
		if len(k.used) == 0 {
			t.Errorf("a difference that is not met: %s: %s", k.command, k.why)
		}
		t.Logf("known: %s: %s", k.command, k.why)
	}
}

// act is one command of the script: a tool and its arguments, or records to write.
type act struct {
	tool string
	args []string
	feed func(t *testing.T, addr string)
}

func (a act) String() string {
	return a.tool[strings.LastIndexByte(a.tool, '.')+1:] + " " + strings.Join(a.args, " ")
}

// tools are the main classes behind the scripts of Apache Kafka's bin directory.
var tools = map[string]string{
	"topics": "org.apache.kafka.tools.TopicCommand", "configs": "org.apache.kafka.tools.ConfigCommand", "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
	"log-dirs": "org.apache.kafka.tools.LogDirsCommand", "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
	"features": "org.apache.kafka.tools.FeatureCommand", "api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
	"cluster": "org.apache.kafka.tools.ClusterTool", "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
	"reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
	"metadata-quorum":  "org.apache.kafka.tools.MetadataQuorumCommand",
	"console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}

// transcript reads testdata/transcript.txt: a command a line, as one types it,
// in which FILE{...} is a file with that content.
func transcript(t *testing.T) (all []act) {
	t.Helper()
	text, err := os.ReadFile("testdata/transcript.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		words := strings.Fields(line)
		if words[0] == "fill" {
			topic := words[1]
			all = append(all, act{feed: func(t *testing.T, addr string) { fillEvenly(t, addr, topic) }})
			continue
		}
		tool, ok := tools[words[0]]
		if !ok {
			t.Fatalf("testdata/transcript.txt:%d: no tool %q", i+1, words[0])
		}
		for n, w := range words {
			if content, ok := strings.CutPrefix(w, "FILE"); ok {
				words[n] = filepath.Join(dir, fmt.Sprintf("file-%d", i))
				if err := os.WriteFile(words[n], []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		all = append(all, act{tool: tool, args: words[1:]})
	}
	return all
}

// teller is a JVM that runs the tools against one broker.
type teller struct {
	t     *testing.T
	addr  string
	p     *program
	lines chan string
	names map[string]string
}

func newTranscript(t *testing.T, addr string) *teller {
	t.Helper()
	w := &teller{t: t, addr: addr, lines: make(chan string, 10_000)}
	w.p = startProgram(t, func(l string) { w.lines <- l }, javaProgram(t, "Tools"))
	return w
}

// run gives what a tool prints against this broker, cleaned of what is its own.
func (w *teller) run(a act) (out []string) {
	w.t.Helper()
	words := append([]string{a.tool, "--bootstrap-server", w.addr}, a.args...)
	if a.tool == tools["cluster"] { // it wants its verb first
		words = append([]string{a.tool, a.args[0], "--bootstrap-server", w.addr}, a.args[1:]...)
	}
	w.p.say("%s", strings.Join(words, "\t"))
	timeout := time.After(time.Minute)
	for {
		select {
		case l := <-w.lines:
			if code, ok := strings.CutPrefix(l, "= "); ok {
				if code == "127" {
					w.t.Fatalf("%s: %s", a, out)
				}
				return append(out, "exit code "+code)
			}
			if l = clean(strings.TrimPrefix(l, "| "), w.addr); l != "" {
				out = append(out, l)
			}
		case <-timeout:
			w.t.Fatalf("no end of %s after a minute: %s", a, out)
		}
	}
}

var ownWords = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`TopicId: [A-Za-z0-9_-]{22}`), "TopicId: ID"},
	{regexp.MustCompile(`(?i)(cluster id: )[A-Za-z0-9_-]{22}`), "${1}ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[:,]\d{3}`), "TIME"},
	{regexp.MustCompile(`\b1[78]\d{11}\b`), "MILLIS"},
	{regexp.MustCompile(`/tmp/[^ ",\]]*`), "PATH"},
	{regexp.MustCompile(`^at .*\(.*\)$|^\.\.\. \d+ more$`), ""},
	{regexp.MustCompile(`^(SLF4J|WARNING|Picked up|ERROR StatusLogger).*`), ""},
	{regexp.MustCompile(`^\[.*\] (WARN|INFO|ERROR) .*`), ""}, // the tools' own logging
}

// clean takes out what is a broker's own: addresses, ids, times, paths.
func clean(l, addr string) string {
	l = strings.ReplaceAll(strings.TrimSpace(l), addr, "ADDR")
	host, port, _ := strings.Cut(addr, ":")
	l = strings.ReplaceAll(l, port, "PORT")
	l = strings.ReplaceAll(l, host, "HOST")
	for _, w := range ownWords {
		l = w.what.ReplaceAllString(l, w.as)
	}
	return l
}

// lineDiff shows the lines that only one side has.
func lineDiff(want, got []string) string {
	var s strings.Builder
	for _, l := range want {
		if !slices.Contains(got, l) {
			fmt.Fprintf(&s, "  Kafka only: %s\n", l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			fmt.Fprintf(&s, "  ours only:  %s\n", l)
		}
	}
	if s.Len() == 0 {
		fmt.Fprintf(&s, "  the same lines in another order:\n  Kafka: %s\n  ours:  %s\n", strings.Join(want, "\n         "), strings.Join(got, "\n         "))
	}
	return s.String()
}

// fillEvenly writes a thousand records, to each partition in turn, a second
// between two of them by their timestamps.
func fillEvenly(t *testing.T, addr, topic string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	md, err := kadm.NewClient(cl).Metadata(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	parts := len(md.Topics[topic].Partitions)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var all []*kgo.Record
	for i := range 1000 {
		all = append(all, &kgo.Record{Partition: int32(i % parts), Timestamp: start.Add(time.Duration(i) * time.Second), Value: fmt.Appendf(nil, "record %d", i)})
	}
	if err := cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// knownTranscript is a difference with its reason: what lines matches becomes
// as, on both sides; a line of which nothing is left is left out.
type knownTranscript struct {
	command string // how the commands begin that it concerns
	lines   *regexp.Regexp
	as      string
	why     string
	used    map[string]bool
}

func (k knownTranscript) when(command string) bool { return strings.HasPrefix(command, k.command) }

func (k knownTranscript) apply(lines []string) (out []string) {
	for _, l := range lines {
		if l = strings.TrimSpace(k.lines.ReplaceAllString(l, k.as)); l != "" {
			out = append(out, l)
		}
	}
	return out
}

func known(command, lines, as, why string) knownTranscript {
	return knownTranscript{command, regexp.MustCompile(lines), as, why, map[string]bool{}}
}
