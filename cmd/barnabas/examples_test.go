//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/cli"
)

// examplePatience bounds one example, on a machine that runs many tests at once.
const examplePatience = time.Minute

// TestExamples runs every example of every command, in the order of its help,
// as somebody would who pastes them into a shell: against a broker of the command's own,
// with the topic orders and the groups billing and billing-test.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("a broker per command")
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		t.Run(strings.ReplaceAll(c.CommandPath(), " ", "_"), func(t *testing.T) {
			t.Parallel()
			if strings.TrimSpace(c.Example) == "" {
				t.Fatalf("%s has no example", c.CommandPath())
			}
			runExamples(t, c)
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.App{Version: "test"}.Command())
}

// place is where examples are run.
type place struct {
	t   *testing.T
	dir string
	env []string
}

func runExamples(t *testing.T, c *cobra.Command) {
	p := &place{t: t, dir: t.TempDir()}
	for name, text := range map[string]string{"server.properties": "num.partitions=3\n", "orders.txt": "one\ntwo\n"} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.env = append(os.Environ(), "HOME="+p.dir)
	if c.Name() == "serve" {
		p.env = append(p.env, "BARNABAS_LISTENERS=PLAINTEXT://127.0.0.1:0", "BARNABAS_BARNABAS_ADMIN_LISTENER=")
		for _, line := range examples(c) {
			p.serve(line)
		}
		return
	}
	if c.Name() == "dev" {
		for _, line := range examples(c) { // elsewhere than they say: what is there may be somebody's
			p.serve(fmt.Sprintf("%s --port %d --data-dir %s", line, freePorts(t), filepath.Join(p.dir, "dev")))
			if err := os.RemoveAll(filepath.Join(p.dir, "dev")); err != nil {
				t.Error(err)
			}
		}
		return
	}
	if c.Parent() != nil && c.Parent().Name() == "quorum" {
		p.changeVoters(examples(c))
		return
	}
	b := brokertest.Start(t, brokertest.Dir(filepath.Join(p.dir, "barnabas-data")), brokertest.Set("barnabas.admin.listener", "127.0.0.1:0"))
	p.env = append(p.env, "BARNABAS_BOOTSTRAP="+b.Addr(), "BARNABAS_ADMIN="+b.Broker().AdminAddr())
	if c.CommandPath() != "barnabas topic create" {
		p.prepare(b.Addr())
	}
	if c.Parent() != nil && c.Parent().Name() == "log" || c.Name() == "log" {
		b.Stop() // the files are whole then, and --repair may have them
	}
	if c.CommandPath() == "barnabas metadata restore" {
		if out, err := p.run("barnabas metadata backup metadata.backup"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		b.Stop()
		if err := os.RemoveAll(filepath.Join(b.DataDir(), "metadata")); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range examples(c) {
		if out, err := p.run(line); err != nil {
			t.Errorf("%s\n%v: %s", line, err, out)
		}
	}
}

// changeVoters runs lines against three voters, beside whom a fourth waits.
func (p *place) changeVoters(lines []string) {
	t := p.t
	c := brokertest.StartCluster(t, 3)
	p.env = append(p.env, "BARNABAS_BOOTSTRAP="+c.Addrs()[0])
	four := fmt.Sprintf("127.0.0.1:%d", freePorts(t))
	var waiting *brokertest.Broker
	for _, line := range lines {
		if strings.Contains(line, "node4:9093") {
			line = strings.Replace(line, "node4:9093", four, 1)
			waiting = c.Launch(brokertest.Set("controller.quorum.voters", c.Voters()+",4@"+four+",5@127.0.0.1:1"),
				brokertest.Set("process.roles", "broker,controller"), brokertest.Set("listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://"+four),
				brokertest.Set("controller.listener.names", "CONTROLLER"))
		}
		if strings.Contains(line, "remove 3") {
			c.Broker(3).Stop()
			line += " --yes" // nobody is there to be asked
		}
		if out, err := p.run(line); err != nil {
			t.Errorf("%s\n%v: %s", line, err, out)
		}
	}
	if waiting != nil {
		waiting.Await()
	}
}

// freePorts begins a row of ports that nobody has, as many as dev takes, below
// those that the system gives to clients.
func freePorts(t *testing.T) int {
	t.Helper()
	for base := 20000 + os.Getpid()%8000; base < 32000; base += 25 {
		free := true
		for port := base; port < base+22 && free; port++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if free = err == nil; free {
				_ = l.Close()
			}
		}
		if free {
			return base
		}
	}
	t.Fatal("no ports are free")
	return 0
}

func examples(c *cobra.Command) []string {
	var out []string
	for line := range strings.SplitSeq(c.Example, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// prepare makes what the examples speak of.
func (p *place) prepare(addr string) {
	p.t.Helper()
	for _, step := range []struct{ in, args string }{
		{"", "topic create orders -p 3 -r 1"},
		{"", "topic create test-1 -p 1 -r 1"},
		{strings.Repeat("v\n", 20), "produce orders -p 0"},
		{"k1:v\nk2:v\n", "produce orders -K : -p 1"},
		{"", "consume orders -g billing -e"},
		{"", "consume orders -g billing-test -e"},
	} {
		var errs bytes.Buffer
		app := cli.App{In: strings.NewReader(step.in), Out: io.Discard, Err: &errs, Environ: []string{"BARNABAS_BOOTSTRAP=" + addr}}
		if code := app.Run(p.t.Context(), strings.Fields(step.args)); code != 0 {
			p.t.Fatalf("%s: exit code %d: %s", step.args, code, &errs)
		}
	}
}

func (p *place) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = p.dir, p.env
	// A group of its own, so that whatever the shell started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run runs a line to its end, and returns all that it said.
func (p *place) run(line string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), examplePatience)
	defer cancel()
	out, err := p.command(ctx, line).CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("it did not end within %v", examplePatience)
	}
	return string(out), err
}

// serve runs a line that serves, and interrupts it when it is ready.
func (p *place) serve(line string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), examplePatience)
	defer cancel()
	cmd := p.command(ctx, "exec "+line)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	said := make([]byte, 4096)
	n, err := out.Read(said) // the one line
	if err != nil && !errors.Is(err, io.EOF) || !strings.HasPrefix(string(said[:n]), "barnabas is ready: ") {
		p.t.Errorf("%s\n%q, %v: %s", line, said[:n], err, &errs)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		p.t.Errorf("%s\nafter an interrupt: %v: %s", line, err, &errs)
	}
}
