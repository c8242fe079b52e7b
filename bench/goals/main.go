// Command goals measures a broker against the null broker and other references
// in alternating pairs, and prints each performance goal with the ratio that
// was measured. It starts every process itself, on loopback ports of its own
// and in a temporary directory, and ends them. `make bench` runs it.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var (
	barnabas = flag.String("barnabas", "bin/barnabas", "the broker to measure")
	bin      = flag.String("bin", "bench/bin", "directory with bench, nullbroker, kfakeserver and apachekafka")
	smoke    = flag.Bool("smoke", false, "a short form that shows that everything runs; its figures say little")
	only     = flag.String("only", "", "run only the goals whose name begins with this, such as P5")
	gate     = flag.Bool("gate", false, "exit 1 when a goal is missed by more than the noise of the machine")
	reps     = flag.Int("reps", 5, "pairs a figure")
	verbose  = flag.Bool("v", false, "print every run")
)

func main() {
	runtime.LockOSThread() // for command
	log.SetFlags(0)
	log.SetPrefix("goals: ")
	flag.Parse()
	missed, err := run()
	if err != nil {
		log.Fatal(err)
	}
	if *gate && missed > 0 {
		log.Fatalf("%d goals missed", missed)
	}
}

func run() (missed int, err error) {
	unlock, err := lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	dir, err := os.MkdirTemp("", "barnabas-goals-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	fmt.Printf("%-4s %-58s %9s %9s  %s\n", "goal", "what", "wanted", "measured", "")
	ran := 0
	for _, m := range slices.Concat(measurements, clusterMeasurements) {
		if !m.selected() {
			continue
		}
		ran++
		if why := m.impossible(); why != "" {
			fmt.Printf("%-4s %-58s not measured: %s\n", m.goals[0].name, m.goals[0].what, why)
			continue
		}
		figures, err := m.measure(dir)
		if err != nil {
			return missed, fmt.Errorf("%s: %w", m.goals[0].what, err)
		}
		for _, g := range m.goals {
			missed += g.print(figures)
		}
	}
	if ran == 0 {
		return 0, fmt.Errorf("no goal begins with %q", *only)
	}
	return missed, nil
}

// lock keeps two benchmarks off one machine.
func lock() (func(), error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "barnabas-bench.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, errors.New("another benchmark runs on this machine")
	}
	return func() { _ = f.Close() }, nil
}

func (m measurement) selected() bool {
	if *smoke && !m.smoke {
		return false
	}
	for _, g := range m.goals {
		if strings.HasPrefix(g.name, *only) {
			return true
		}
	}
	return false
}

// impossible says why there is nothing to compare with on this machine.
func (m measurement) impossible() string {
	if m.ref == apacheKafka {
		if _, err := exec.LookPath("java"); err != nil {
			return "java is not installed"
		}
	}
	return ""
}

// print writes one line and returns 1 when the goal is missed beyond noise.
func (g goal) print(figures map[string]float64) int {
	v, ok := figures[g.key]
	wanted := fmt.Sprintf("%s %.4g", g.op, g.limit)
	if g.op == seen {
		wanted = "-"
	}
	if !ok {
		fmt.Printf("%-4s %-58s %9s %9s  no figure %s\n", g.name, g.what, wanted, "-", g.key)
		return 1
	}
	verdict, miss := "met", 0
	if g.op == seen {
		verdict = seen
	}
	if g.op == ">=" && v < g.limit || g.op == "<=" && v > g.limit {
		verdict = "missed, within noise"
		if g.op == ">=" && v < g.limit*(1-g.noise()) || g.op == "<=" && v > g.limit*(1+g.noise()) {
			verdict, miss = "missed", 1
		}
	}
	fmt.Printf("%-4s %-58s %9s %9.3f  %s\n", g.name, g.what, wanted, v, verdict)
	return miss
}

// measure runs bench as the measurement says and returns its figures: ratios
// where there is a reference, medians where there is none.
func (m measurement) measure(dir string) (map[string]float64, error) {
	if m.starts && m.cluster {
		return benchCluster(dir, m)
	}
	if m.starts {
		return benchStart(dir, m)
	}
	var test *process
	var err error
	if m.cluster {
		test, err = startCluster(dir, m, barnabasNode)
	} else {
		test, err = startBarnabas(dir, m.durable)
	}
	if err != nil {
		return nil, err
	}
	defer test.stop()
	if m.against != nil { // the same broker under two loads
		return benchTwice(test, m)
	}
	if m.ref == none {
		return bench(append([]string{"-bootstrap", test.addr, "-pid", test.pid()}, m.arguments(m.args)...), "MEDIAN")
	}
	ref, err := startReference(dir, m)
	if err != nil {
		return nil, err
	}
	defer ref.stop()
	return bench(append([]string{"-bootstrap", test.addr, "-pid", test.pid(), "-ref", ref.addr, "-refpid", ref.pid()}, m.arguments(m.args)...), "RATIO test/ref")
}

// arguments shortens the runs of the smoke form.
func (m measurement) arguments(args []string) []string {
	out := append([]string{"-reps", strconv.Itoa(*reps), "-d", "2s"}, args...)
	if *smoke { // the last of a flag counts
		out = append(out, "-reps", "1", "-d", "500ms", "-preload", strconv.Itoa(64<<20), "-passes", "1")
	}
	return out
}

// benchTwice gives the ratio of the medians of two loads on one broker.
func benchTwice(test *process, m measurement) (map[string]float64, error) {
	common := []string{"-bootstrap", test.addr, "-pid", test.pid()}
	a, err := bench(append(common, m.arguments(m.args)...), "MEDIAN")
	if err != nil {
		return nil, err
	}
	b, err := bench(append(common, m.arguments(m.against)...), "MEDIAN")
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for k, v := range a {
		if b[k] != 0 {
			out[k] = v / b[k]
		}
	}
	return out, nil
}

// bench runs the load generator and reads the line that begins with tag.
func bench(args []string, tag string) (map[string]float64, error) {
	cmd := command(filepath.Join(*bin, "bench"), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var found map[string]float64
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if *verbose {
			fmt.Fprintln(os.Stderr, sc.Text())
		}
		text, ok := strings.CutPrefix(sc.Text(), tag+" ")
		if !ok {
			continue
		}
		var mixed map[string]any
		if err := json.Unmarshal([]byte(text), &mixed); err != nil {
			return nil, err
		}
		found = map[string]float64{}
		for k, v := range mixed {
			if f, ok := v.(float64); ok {
				found[k] = f
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("bench %s: %w", strings.Join(args, " "), err)
	}
	if found == nil {
		return nil, fmt.Errorf("bench %s printed no line %q", strings.Join(args, " "), tag)
	}
	return found, nil
}

// benchStart lets the load start a fresh broker, and end it.
func benchStart(dir string, m measurement) (map[string]float64, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(dir, "start-")
	if err != nil {
		return nil, err
	}
	command := strings.Join(append([]string{*barnabas}, serveArguments(addr, filepath.Join(data, "d"), true)...), " ")
	return bench(append([]string{"-bootstrap", addr, "-cmd", command}, m.arguments(m.args)...), "MEDIAN")
}

// A first start of Apache Kafka fetches its jars.
const startTimeout = 2 * time.Minute
