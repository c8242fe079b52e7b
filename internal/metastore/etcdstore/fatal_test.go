package etcdstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// childEnv makes the test binary a store in a process of its own: "kill DIR"
// writes until it is killed, "full DIR" meets a file size limit.
const childEnv = "ETCDSTORE_CHILD"

func child() int {
	mode, dir, _ := strings.Cut(os.Getenv(childEnv), " ")
	s, err := New(Config{Member: Member{Dir: dir, Ballast: -1}}, slog.New(slog.NewTextHandler(os.Stderr, nil)), nil)
	if err != nil {
		fmt.Println("new:", err)
		return 3
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		fmt.Println("start:", err)
		return 3
	}
	if mode == "full" {
		if err := limitFiles(); err != nil {
			fmt.Println("rlimit:", err)
			return 3
		}
	}
	value := strings.Repeat("x", 4<<10)
	for i := 0; ; i++ {
		select {
		case err := <-ended:
			fmt.Println("run:", err)
			_, terr := s.Txn(context.Background(), putTxn("late", "1"))
			fmt.Println("unavailable:", errors.Is(terr, metastore.ErrUnavailable) && !errors.Is(terr, metastore.ErrMaybe))
			if errors.Is(err, errFatal) {
				return 0
			}
			return 4
		default:
		}
		if _, err := s.Txn(context.Background(), putTxn("n", strconv.Itoa(i)+" "+value)); err == nil {
			fmt.Println("acked", i)
		}
	}
}

func startChild(t *testing.T, mode, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+mode+" "+dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, bufio.NewScanner(out)
}

// A disk that takes no more, which etcd answers by ending the process, is the
// error of Run here, and the process lives to say goodbye.
func TestFullDiskIsAnError(t *testing.T) {
	dir := t.TempDir()
	cmd, lines := startChild(t, "full", dir)
	acked, out := -1, []string(nil)
	for lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "acked "); ok {
			acked, _ = strconv.Atoi(n)
			continue
		}
		out = append(out, lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("child: %v: %v", err, out)
	}
	t.Logf("after %d: %v", acked, out)
	if len(out) != 2 || !strings.Contains(out[0], "file too large") || out[1] != "unavailable: true" {
		t.Fatalf("child said %q", out)
	}
	checkAcked(t, dir, acked)
}

// What was acknowledged is there after kill -9.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		cmd, lines := startChild(t, "kill", dir)
		acked := -1
		for lines.Scan() {
			acked, _ = strconv.Atoi(strings.TrimPrefix(lines.Text(), "acked "))
			if acked == 50+20*round {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait() // killed
		checkAcked(t, dir, acked)
	}
}

func checkAcked(t *testing.T, dir string, acked int) {
	t.Helper()
	s, stop := runUntil(t, Config{Member: Member{Dir: dir, Ballast: -1}})
	defer stop()
	p, err := s.List(context.Background(), "n", "", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	have := -1
	if len(p.KVs) == 1 {
		n, _, _ := strings.Cut(string(p.KVs[0].Value), " ")
		have, _ = strconv.Atoi(n)
	}
	if have < acked || have > acked+1 {
		t.Fatalf("acknowledged up to %d, found %d", acked, have)
	}
}

// A fatal error while others call: their calls end, the store's Run too.
func TestFatalEndsCalls(t *testing.T) {
	s, err := New(Config{Endpoints: []string{"127.0.0.1:1"}}, testLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	<-s.Ready()
	got := make(chan error, 1)
	go func() {
		_, err := s.Rev(context.Background())
		got <- err
	}()
	s.fail(errors.New("first"))
	s.fail(errors.New("second"))
	select {
	case err := <-ended:
		if !errors.Is(err, errFatal) || !strings.Contains(err.Error(), "first") {
			t.Fatalf("run: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("run goes on")
	}
	if err := <-got; !errors.Is(err, metastore.ErrUnavailable) {
		t.Fatalf("call under way: %v", err)
	}
}
