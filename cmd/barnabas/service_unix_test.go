//go:build unix

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// systemd is the service manager's end of a process.
type systemd struct {
	t    *testing.T
	cmd  *exec.Cmd
	conn *net.UnixConn
	file string   // the settings
	log  *os.File // what the process says: written before the manager is told
}

func startService(t *testing.T, settings string, env ...string) *systemd {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := &systemd{t: t, conn: conn, file: filepath.Join(dir, "server.properties")}
	s.settings(settings)
	s.cmd = exec.Command("barnabas", "serve", "--config", s.file, "--data-dir", filepath.Join(dir, "data"))
	s.cmd.Env = append(os.Environ(), append(env, "NOTIFY_SOCKET="+socket)...)
	if s.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.log.Close() })
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("the process said:\n%s", s.said())
		}
	})
	return s
}

func (s *systemd) said() string {
	s.t.Helper()
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *systemd) settings(text string) {
	s.t.Helper()
	text = "listeners=PLAINTEXT://127.0.0.1:0\nbarnabas.admin.listener=\n" + text
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *systemd) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// hears waits for a message that matches, and gives those that came before.
func (s *systemd) hears(pattern string) []string {
	s.t.Helper()
	var before []string
	buf := make([]byte, 64<<10)
	for {
		_ = s.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		n, err := s.conn.Read(buf)
		if err != nil {
			s.t.Fatalf("%s: %v; heard %q", pattern, err, before)
		}
		msg := string(buf[:n])
		if regexp.MustCompile(pattern).MatchString(msg) {
			return before
		}
		before = append(before, msg)
	}
}

// A service manager hears how things are from the start to the end.
func TestService(t *testing.T) {
	s := startService(t, "num.partitions=1\n", "WATCHDOG_USEC=400000")
	const ready = `^READY=1\nSTATUS=serving at PLAINTEXT://127\.0\.0\.1:\d+$`
	for _, msg := range s.hears(ready) {
		if !regexp.MustCompile(`^(STATUS=starting: .*|WATCHDOG=1)$`).MatchString(msg) {
			t.Errorf("before it was ready: %q", msg)
		}
	}
	s.hears(`^WATCHDOG=1$`)
	s.hears(`^WATCHDOG=1$`)
	reload := func(settings, want string) {
		t.Helper()
		s.settings(settings)
		s.signal(syscall.SIGHUP)
		s.hears(`^RELOADING=1\nMONOTONIC_USEC=\d+\nSTATUS=`)
		s.hears(ready)
		if !regexp.MustCompile(want).MatchString(s.said()) {
			t.Errorf("%s: %s is not in the log", settings, want)
		}
	}
	reload("num.partitions=2\nbarnabas.log.level=debug,metadata=error\nno.such.key=1\n",
		`(?s)level=WARN msg="no.such.key .*level=WARN msg="settings that changed need a restart to take effect" keys=num.partitions\n.*level=INFO msg="settings read again" changed=barnabas.log.level`)
	reload("num.partitions=x\n", `level=ERROR msg="settings read again and left as they were" err="num.partitions: the value`)
	reload("num.partitions=1\nbarnabas.log.level=error\n", `left as they were`)
	said := s.said()
	reload("barnabas.log.level=error\nno.such.key=2\n", `left as they were`)
	if now := s.said(); now != said {
		t.Errorf("at level error it logs %q", now[len(said):])
	}
	s.signal(syscall.SIGTERM)
	s.hears(`^STOPPING=1\nSTATUS=stopping: `)
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A broker that fails says why, where `systemctl status` shows it.
func TestServiceFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := startService(t, "listeners=PLAINTEXT://"+taken.Addr().String()+"\nbarnabas.log.format=json\n")
	s.hears(`(?s)^STATUS=failed: .*is taken by another process`)
	if err := s.cmd.Wait(); err == nil || s.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", err)
	}
	if first, _, _ := strings.Cut(s.said(), "\n"); !regexp.MustCompile(`^\{"time":".*","level":"INFO","msg":`).MatchString(first) {
		t.Errorf("%q is not JSON", first)
	}
}
