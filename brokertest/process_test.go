//go:build unix

package brokertest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/barnabas-mq/barnabas/broker"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// A broker that is to be killed is a process of its own: this test binary,
// which serves instead of testing when it finds settings in its environment.
const (
	settingsVar = "BARNABAS_TEST_SETTINGS" // a line each
	filesVar    = "BARNABAS_TEST_FILES"    // how many files it may open
)

func TestMain(m *testing.M) {
	if s := os.Getenv(settingsVar); s != "" {
		if err := serve(strings.Split(s, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if s := os.Getenv(etcdVar); s != "" {
		if err := serveEtcd(s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serve(settings []string) error {
	if n := os.Getenv(filesVar); n != "" {
		var l syscall.Rlimit
		if _, err := fmt.Sscan(n, &l.Cur); err != nil {
			return err
		}
		l.Max = l.Cur
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	b, err := broker.New(broker.Options{
		Set: settings, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	go func() {
		<-b.Ready()
		fmt.Fprintln(os.Stdout, b.Addr("PLAINTEXT"))
	}()
	return b.Run(ctx)
}

// process is a broker in another process.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
	errs *strings.Builder
	out  io.Reader
}

// spawn starts one on a directory, with durable acks, and waits for it.
func spawn(t *testing.T, dir string, files int, settings ...string) *process {
	t.Helper()
	p := launch(t, dir, files, settings...)
	p.ready()
	return p
}

// launch begins to start one.
func launch(t *testing.T, dir string, files int, settings ...string) *process {
	t.Helper()
	p := &process{t: t, errs: new(strings.Builder)}
	settings = append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "barnabas.admin.listener=", "log.dirs=" + dir}, settings...)
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), settingsVar+"="+strings.Join(settings, "\n"))
	if files > 0 {
		p.cmd.Env = append(p.cmd.Env, fmt.Sprintf("%s=%d", filesVar, files))
	}
	p.cmd.Stderr = p.errs
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && p.errs.Len() > 0 {
			t.Logf("the broker said:\n%s", p.errs)
		}
	})
	p.out = out
	return p
}

// ready waits until it serves.
func (p *process) ready() {
	p.t.Helper()
	line, err := bufio.NewReader(p.out).ReadString('\n')
	if err != nil && err != io.EOF || line == "" {
		p.kill()
		p.t.Fatalf("the broker did not start: %v\n%s", err, p.errs)
	}
	p.addr = strings.TrimSpace(line)
}

// kill is kill -9.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// stop is SIGTERM, and expects an orderly end.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the broker's end: %v\n%s", err, p.errs)
	}
}

func (p *process) dial() *peer {
	p.t.Helper()
	c, err := wire.Dial(p.t.Context(), p.addr, wire.ClientOptions{ClientID: "case"})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	return &peer{p.t, c}
}
