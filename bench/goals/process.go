package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// process is a broker that runs, or the first of a cluster.
type process struct {
	cmd    *exec.Cmd
	addr   string
	done   chan error
	others []*process
	data   string // of a cluster
}

// pid is the process, or all of a cluster with commas between.
func (p *process) pid() string {
	out := strconv.Itoa(p.cmd.Process.Pid)
	for _, o := range p.others {
		out += "," + o.pid()
	}
	return out
}

// stop asks it to stop, and ends it when it does not. A cluster is killed:
// the last brokers to stop would wait long for the voters that are gone. Its
// data goes at once: three copies of all loads are more than a disk may hold.
func (p *process) stop() {
	if p.others != nil {
		for _, o := range append(p.others, p) {
			_ = o.cmd.Process.Kill()
			<-o.done
		}
		_ = os.RemoveAll(p.data)
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(startTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func serveArguments(addr, data string, durable bool) []string {
	return []string{"serve", "--data-dir", data, "--set", "listeners=PLAINTEXT://" + addr, "--set", "barnabas.admin.listener=",
		"--set", "barnabas.durable.acks=" + strconv.FormatBool(durable), "--log-level", "warn"}
}

func startBarnabas(dir string, durable bool) (*process, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		return nil, err
	}
	return start(addr, *barnabas, serveArguments(addr, filepath.Join(data, "d"), durable)...)
}

// startReference starts what the measurement compares with.
func startReference(dir string, m measurement) (*process, error) {
	if m.ref == apacheKafka && m.cluster {
		return startCluster(dir, m, kafkaNode)
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	if m.ref == kfake {
		_, port, _ := net.SplitHostPort(addr)
		return start(addr, filepath.Join(*bin, "kfakeserver"), "-port", port)
	}
	data, err := os.MkdirTemp(dir, "ref-")
	if err != nil {
		return nil, err
	}
	if m.ref == apacheKafka {
		return start(addr, filepath.Join(*bin, "apachekafka"), "-listen", addr, "-dir", data, "-durable="+strconv.FormatBool(m.durable))
	}
	if m.ref == oneBarnabas {
		return startBarnabas(dir, m.durable)
	}
	mode := "none"
	if m.durable {
		mode = "group"
	}
	return start(addr, filepath.Join(*bin, "nullbroker"), "-listen", addr, "-dir", data, "-sync", mode)
}

// start runs a program until it accepts connections at addr.
func start(addr, name string, args ...string) (*process, error) {
	p, err := launch(addr, name, args...)
	if err != nil {
		return nil, err
	}
	return p, p.ready()
}

// command is of a process that does not outlive this one. The system counts the
// thread that started it for its parent: main holds on to its own.
func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func launch(addr, name string, args ...string) (*process, error) {
	cmd := command(name, args...)
	if *verbose {
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, addr: addr, done: make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	return p, nil
}

// ready waits until it accepts connections, and ends it when it does not.
func (p *process) ready() error {
	name := p.cmd.Path
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(startTimeout)
	for {
		if c, err := net.DialTimeout("tcp", p.addr, time.Second); err == nil {
			_ = c.Close()
			return nil
		}
		select {
		case err := <-p.done:
			return fmt.Errorf("%s ended before it was ready: %v; -v shows what it says", name, err)
		case <-deadline:
			p.stop()
			return fmt.Errorf("%s was not ready within %v", name, startTimeout)
		case <-tick.C:
		}
	}
}
