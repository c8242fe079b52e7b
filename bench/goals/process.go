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

// process is a broker that runs.
type process struct {
	cmd  *exec.Cmd
	addr string
	done chan error
}

func (p *process) pid() string { return strconv.Itoa(p.cmd.Process.Pid) }

// stop asks it to stop, and ends it when it does not.
func (p *process) stop() {
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
	mode := "none"
	if m.durable {
		mode = "group"
	}
	return start(addr, filepath.Join(*bin, "nullbroker"), "-listen", addr, "-dir", data, "-sync", mode)
}

// start runs a program until it accepts connections at addr.
func start(addr, name string, args ...string) (*process, error) {
	cmd := exec.Command(name, args...)
	if *verbose {
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, addr: addr, done: make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(startTimeout)
	for {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = c.Close()
			return p, nil
		}
		select {
		case err := <-p.done:
			return nil, fmt.Errorf("%s ended before it was ready: %v; -v shows what it says", name, err)
		case <-deadline:
			p.stop()
			return nil, fmt.Errorf("%s was not ready within %v", name, startTimeout)
		case <-tick.C:
		}
	}
}
