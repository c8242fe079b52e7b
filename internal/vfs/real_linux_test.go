package vfs_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func TestRealNoSpace(t *testing.T) {
	f, err := vfs.Real.OpenReadWrite("/dev/full")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), 0)
	mustBe(t, err, vfs.ErrNoSpace)
	mustBe(t, err, syscall.ENOSPC)
	if errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "/dev/full") {
		t.Fatal(err)
	}
}

func TestRealFd(t *testing.T) {
	f := mustCreate(t, vfs.Real, filepath.Join(t.TempDir(), "a"))
	defer f.Close()
	write(t, f, 0, "abc")
	fd, ok := f.Fd()
	if !ok {
		t.Fatal("no descriptor")
	}
	b := make([]byte, 3)
	if n, err := syscall.Pread(int(fd), b, 0); err != nil || string(b[:n]) != "abc" {
		t.Fatalf("%q, %v", b[:n], err)
	}
}

// The lock holds against another process, and the system frees it when its
// owner is killed.
func TestRealLockAmongProcesses(t *testing.T) {
	const env = "VFS_TEST_LOCK"
	if name := os.Getenv(env); name != "" {
		if _, err := vfs.Real.Lock(name); err != nil {
			os.Stdout.WriteString("refused\n")
		} else {
			os.Stdout.WriteString("held\n")
		}
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	name := filepath.Join(t.TempDir(), ".lock")
	child := func() (cmd *exec.Cmd, said string) {
		cmd = exec.Command(os.Args[0], "-test.run=^TestRealLockAmongProcesses$")
		cmd.Env = append(os.Environ(), env+"="+name)
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		b := make([]byte, 100)
		n, err := out.Read(b)
		must(t, err)
		return cmd, strings.TrimSpace(string(b[:n]))
	}
	first, said := child()
	if said != "held" {
		t.Fatalf("the first process says %s", said)
	}
	_, err := vfs.Real.Lock(name)
	mustBe(t, err, vfs.ErrLocked)
	must(t, first.Process.Kill())
	_ = first.Wait()
	l, err := vfs.Real.Lock(name)
	must(t, err)
	defer l.Close()
	second, said := child()
	if said != "refused" {
		t.Fatalf("the second process says %s", said)
	}
	must(t, second.Process.Kill())
	_ = second.Wait()
}
