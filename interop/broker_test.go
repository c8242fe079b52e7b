//go:build interop

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// broker is one `barnabas serve` process.
type broker struct {
	t    testing.TB
	dir  string
	Addr string
	cmd  *exec.Cmd
	done chan error
	log  *tail
}

// target is the broker that tests without a need for the process use: the
// one of INTEROP_TARGET, or a new one with the settings given.
func target(t testing.TB, settings ...string) string {
	t.Helper()
	if a := os.Getenv("INTEROP_TARGET"); a != "" {
		return a
	}
	return startBroker(t, workDir(t), settings...).Addr
}

// needProcess skips where the broker is someone else's.
func needProcess(t testing.TB) {
	t.Helper()
	if os.Getenv("INTEROP_TARGET") != "" {
		t.Skip("INTEROP_TARGET is set: the test has to start, stop and kill the broker")
	}
}

func brokerBin(t testing.TB) string {
	t.Helper()
	bin := os.Getenv("BARNABAS_BIN")
	if bin == "" {
		bin = filepath.Join("..", "bin", "barnabas")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("no broker to test: %v (run make build, or set BARNABAS_BIN)", err)
	}
	return bin
}

func workDir(t testing.TB) string {
	t.Helper()
	return keptDir(t, "")
}

// keptDir is a directory that INTEROP_KEEP leaves there, beside the test's others.
func keptDir(t testing.TB, suffix string) string {
	t.Helper()
	if keep := os.Getenv("INTEROP_KEEP"); keep != "" {
		dir, err := filepath.Abs(filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "-")+suffix))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	return t.TempDir()
}

// startBroker starts a broker with its data in dir and waits until it is
// ready. It is killed, if it still runs, when the test ends.
func startBroker(t testing.TB, dir string, settings ...string) *broker {
	t.Helper()
	return startBrokerAt(t, dir, "127.0.0.1:0", settings...)
}

func startBrokerAt(t testing.TB, dir, listen string, settings ...string) *broker {
	t.Helper()
	b := launchBroker(t, dir, listen, settings...)
	b.awaitReady()
	return b
}

// launchBroker begins to start one.
func launchBroker(t testing.TB, dir, listen string, settings ...string) *broker {
	t.Helper()
	return launchBrokerIn(t, nil, dir, listen, settings...)
}

// launchBrokerIn begins to start one by a command that becomes the one after it,
// as that of a namespace does.
func launchBrokerIn(t testing.TB, inside []string, dir, listen string, settings ...string) *broker {
	t.Helper()
	args := append(slices.Clone(inside), brokerBin(t), "serve")
	if !slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, "log.dirs=") }) {
		args = append(args, "--data-dir", dir) // which would count for more
	}
	args = append(args,
		"--set", "listeners=PLAINTEXT://"+listen,
		"--set", "barnabas.admin.listener=127.0.0.1:0",
	)
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	b := &broker{t: t, dir: dir, cmd: exec.Command(args[0], args[1:]...), done: make(chan error, 1), log: newTail()}
	b.cmd.Dir = t.TempDir()
	b.cmd.Stdout = b.output()
	b.cmd.Stderr = b.cmd.Stdout
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { b.done <- b.cmd.Wait() }()
	t.Cleanup(b.cleanup)
	return b
}

// output takes what the broker says: its end is kept, and with INTEROP_KEEP all
// of it, that of every start, beside its data.
func (b *broker) output() io.Writer {
	if os.Getenv("INTEROP_KEEP") == "" {
		return b.log
	}
	f, err := os.OpenFile(b.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { f.Close() })
	return io.MultiWriter(b.log, f)
}

func (b *broker) cleanup() {
	if b.cmd.ProcessState == nil {
		b.cmd.Process.Kill()
		<-b.done
	}
	if b.t.Failed() {
		b.t.Logf("broker's output, its end:\n%s", b.log.last(60))
	}
}

var (
	readyLine = regexp.MustCompile(`(?i)\bready\b`)
	address   = regexp.MustCompile(`(?:\d+\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+`)
)

// awaitReady reads the address out of the one line that says so. The Kafka
// listener is the first address of the line.
func (b *broker) awaitReady() {
	b.t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case line := <-b.log.lines:
			if a := address.FindString(line); a != "" && readyLine.MatchString(line) {
				b.Addr = a
				return
			}
		case err := <-b.done:
			b.done <- err
			b.t.Fatalf("the broker ended before it was ready: %v\n%s", err, b.log.last(40))
		case <-timeout:
			b.t.Fatalf("the broker was not ready after a minute\n%s", b.log.last(40))
		}
	}
}

// stop ends the broker as an operator would and demands exit code 0.
func (b *broker) stop() {
	b.t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	select {
	case err := <-b.done:
		b.done <- err
		if err != nil && os.Getenv("INTEROP_ANY_EXIT") == "" {
			b.t.Fatalf("SIGTERM: %v\n%s", err, b.log.last(40))
		}
	case <-time.After(time.Minute):
		b.t.Fatalf("still running a minute after SIGTERM\n%s", b.log.last(40))
	}
}

// kill is kill -9.
func (b *broker) kill() {
	b.t.Helper()
	if err := b.cmd.Process.Kill(); err != nil {
		b.t.Fatal(err)
	}
	b.done <- <-b.done
}

// runBroker runs a broker that is expected to end by itself.
func runBroker(t testing.TB, dir string, settings ...string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	args := []string{"serve", "--data-dir", dir, "--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "barnabas.admin.listener=127.0.0.1:0"}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	cmd := exec.CommandContext(ctx, brokerBin(t), args...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		t.Fatalf("the broker went on running:\n%s", out)
	}
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// tail keeps a program's last lines and hands each on while someone waits.
type tail struct {
	w     *io.PipeWriter
	lines chan string
	mu    sync.Mutex
	kept  []string // under mu
}

func newTail() *tail {
	r, w := io.Pipe()
	t := &tail{w: w, lines: make(chan string, 1000)}
	go func() {
		s := bufio.NewScanner(r)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			t.mu.Lock()
			t.kept = append(t.kept, s.Text())
			if len(t.kept) > 400 {
				t.kept = t.kept[200:]
			}
			t.mu.Unlock()
			select {
			case t.lines <- s.Text():
			default:
			}
		}
		io.Copy(io.Discard, r)
	}()
	return t
}

func (t *tail) Write(p []byte) (int, error) { return t.w.Write(p) }

func (t *tail) last(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.kept[max(0, len(t.kept)-n):], "\n")
}

// run runs a program to its end and fails the test when it fails.
func run(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", strings.Join(append([]string{name}, args...), " "), err, lastBytes(string(out)), lastBytes(stderr.String()))
	}
	return string(out)
}

func lastBytes(s string) string {
	if len(s) > 4000 {
		return fmt.Sprintf("... %s", s[len(s)-4000:])
	}
	return s
}
