package main

import (
	"bytes"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"barnabas": main})
}

// TestWrongUse runs the scripts under testdata/script. TAKEN is an address that
// another process listens at; the directory "locked" is in use by another.
func TestWrongUse(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Defer(func() { _ = ln.Close() })
			env.Setenv("TAKEN", ln.Addr().String())
			m := storage.New(storage.ManagerConfig{Dirs: []string{filepath.Join(env.WorkDir, "locked")}, NodeID: 1}, vfs.Real, nil, nil)
			if err := m.Claim(); err != nil {
				return err
			}
			env.Defer(func() { _ = m.Close(0) })
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"fails": fails},
	})
}

// fails CODE PATTERN ARGS...: the program ends with that exit code and exactly
// one sentence, which matches; what it logged does not bury it.
func fails(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command("barnabas", args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		ts.Fatalf("%v", err)
	}
	timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	timer.Stop()
	if code := strconv.Itoa(cmd.ProcessState.ExitCode()); code != args[0] {
		ts.Fatalf("exit code %s, want %s\n%s", code, args[0], stderr.String())
	}
	lines := strings.Split(strings.TrimRight(stderr.String(), "\n"), "\n")
	last := lines[len(lines)-1]
	if n := strings.Count(stderr.String(), "barnabas: "); n != 1 || len(lines) > 4 || len(last) > 400 {
		ts.Fatalf("not one sentence:\n%s", stderr.String())
	}
	if !regexp.MustCompile(`^barnabas: ` + args[1]).MatchString(last) {
		ts.Fatalf("%q does not match %q", last, args[1])
	}
	ts.Logf("%s", last)
}
