//go:build interop

package interop

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/check"
)

// TestHistory has clients of Java, of librdkafka and of franz-go write down
// what they do and see while the broker is killed with SIGKILL under them. Then
// everything is read once more, and the checker finds nothing.
func TestHistory(t *testing.T) {
	needProcess(t)
	kills, rnd := killPlan(t, 2, 20)
	dir := workDir(t)
	settings := append([]string{"offsets.topic.num.partitions=10"}, consumerTimes...)
	b := startBroker(t, dir, settings...)
	addr := b.Addr
	h := startHistory(t, addr, createTopic(t, addr, "history", partitions, nil))
	for i := range kills {
		pause(time.Duration(rnd.IntN(600)) * time.Millisecond)
		b.kill()
		start := time.Now()
		b = startBrokerAt(t, dir, addr, settings...)
		t.Logf("kill %d: ready again in %v", i+1, time.Since(start).Round(time.Millisecond))
		h.grows()
	}
	h.judge()
	b.stop()
}

// history is what clients in three languages do and see while brokers are killed.
type history struct {
	t        *testing.T
	out      string
	names    []string
	programs []*program
	final    []string // the command that reads everything in the end
}

// startHistory starts the clients; inside is a command that runs another one
// where they are to be.
func startHistory(t *testing.T, servers, topic string, inside ...string) *history {
	t.Helper()
	h := &history{t: t, out: keptDir(t, "-history"), names: []string{"java", "python", "franz"}}
	args := func(name string) []string {
		return []string{servers, topic, strconv.Itoa(partitions), name, "host", h.file(name)}
	}
	unheard := func(string) {}
	franz := []string{recordBin(t), "-servers", servers, "-topic", topic, "-partitions", strconv.Itoa(partitions), "-groups", "java-group,python-group", "-client", "franz"}
	h.programs = []*program{
		startProgram(t, unheard, slices.Concat(inside, javaProgram(t, "History")), args("java")...),
		startProgram(t, unheard, slices.Concat(inside, []string{pythonClients(t), filepath.Join("python", "history.py")}), args("python")...),
		startProgram(t, unheard, slices.Concat(inside, franz), "-out", h.file("franz")),
	}
	h.final = slices.Concat(inside, franz, []string{"-final", "-out", h.file("final")})
	h.grows()
	return h
}

func (h *history) file(name string) string { return filepath.Join(h.out, name+".json") }

// grows waits until all clients work.
func (h *history) grows() {
	h.t.Helper()
	awaitGrowth(h.t, h.file, h.names)
}

// judge ends the clients, reads everything once more and looks for what is wrong.
func (h *history) judge() {
	t := h.t
	t.Helper()
	for i, p := range h.programs {
		p.finish(t, h.names[i])
	}
	run(t, ".", h.final[0], h.final[1:]...)
	r := judgeFiles(t, h.file, append(h.names, "final"))
	t.Logf("%v", r)
	if !r.OK() || r.Counts.Acknowledged == 0 || r.Counts.Commits == 0 || r.Counts.Final < r.Counts.Acknowledged {
		t.Errorf("%d acknowledged, %d commits, %d in the end", r.Counts.Acknowledged, r.Counts.Commits, r.Counts.Final)
	}
}

// finish closes the program's input, at which it ends.
func (p *program) finish(t *testing.T, name string) {
	t.Helper()
	p.in.Close()
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s does not end\n%s", name, p.log.last(20))
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("%s ended with %d\n%s", name, code, p.log.last(20))
	}
}

// recordBin builds the recording clients of franz-go.
func recordBin(t *testing.T) string {
	t.Helper()
	need(t, "go")
	bin := filepath.Join(t.TempDir(), "record")
	run(t, ".", "go", "build", "-tags", "interop", "-o", bin, "./record")
	return bin
}

// awaitGrowth waits until each of the files has become longer: its clients work.
// Programs write in blocks, so this is a while after a kill.
func awaitGrowth(t *testing.T, file func(string) string, names []string) {
	t.Helper()
	size := func(name string) int64 {
		s, err := os.Stat(file(name))
		if err != nil {
			return 0 // not yet
		}
		return s.Size()
	}
	before := map[string]int64{}
	for _, n := range names {
		before[n] = size(n)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for _, n := range names {
		for size(n) < before[n]+64<<10 {
			select {
			case <-tick.C:
			case <-timeout:
				t.Fatalf("the clients of %s do not work", n)
			}
		}
	}
}

// historyBound is how long an operation may take: longer than a kill, and than
// the time that clients give a record.
const historyBound = 3 * time.Minute

func judgeFiles(t *testing.T, file func(string) string, names []string) *check.Result {
	t.Helper()
	var sources []check.Source
	for _, n := range names {
		f, err := os.Open(file(n))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		sources = append(sources, check.NewReader(n, io.Reader(f)))
	}
	r, err := check.Run(check.Options{Bound: int64(historyBound)}, check.Merge(sources...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
