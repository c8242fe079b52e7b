package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func runConns(addr string, pid pids) result {
	r0 := rss(pid)
	cs := make([]*rawConn, 0, *n)
	t := time.Now()
	for i := 0; i < *n; i++ {
		c, err := dialRaw(addr)
		if err != nil {
			log.Fatalf("connection %d: %v", i, err)
		}
		cs = append(cs, c)
	}
	el := time.Since(t)
	time.Sleep(2 * time.Second)
	r := result{"conns": *n, "connect_ms_each": r2(el.Seconds() * 1000 / float64(*n)), "rss_before_MiB": r1(float64(r0) / (1 << 20)), "rss_after_MiB": r1(float64(rss(pid)) / (1 << 20)), "KiB_per_conn": r1(float64(rss(pid)-r0) / 1024 / float64(*n))}
	for _, c := range cs {
		c.c.Close()
	}
	return r
}

func runParts(ctx context.Context, addr string, pid pids) result {
	r0 := rss(pid)
	t := time.Now()
	name := makeTopic(ctx, addr, *n)
	el := time.Since(t) - 200*time.Millisecond
	time.Sleep(3 * time.Second)
	r := result{"partitions": *n, "create_ms": r1(float64(el.Milliseconds())), "KiB_per_partition": r1(float64(rss(pid)-r0) / 1024 / float64(*n)), "rss_MiB": r1(float64(rss(pid)) / (1 << 20)), "fds": fds(pid)}
	dropTopic(ctx, addr, name)
	return r
}

func fds(pid pids) (n int) {
	for _, id := range pid {
		e, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", id))
		n += len(e)
	}
	return n
}

// runStart times exec to first ApiVersions answer, then idle RSS and idle CPU.
func runStart(addr string) result {
	c := exec.Command("bash", "-c", "exec "+*cmd)
	t := time.Now()
	if err := c.Start(); err != nil {
		log.Fatal(err)
	}
	var el time.Duration
	for {
		x, err := dialRaw(addr)
		if err == nil {
			el = time.Since(t)
			x.c.Close()
			break
		}
		if time.Since(t) > time.Minute {
			c.Process.Kill()
			log.Fatal("did not start in a minute: ", err)
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	pid := pids{c.Process.Pid}
	u := during(pid, func() { time.Sleep(5 * time.Second) })
	r := result{"start_ms": r1(float64(el.Microseconds()) / 1000), "rss_idle_MiB": r1(float64(rss(pid)) / (1 << 20)), "idle_cpu_pct": r2(u.broker / u.wall * 100)}
	t = time.Now()
	c.Process.Signal(syscall.SIGTERM)
	done := make(chan bool)
	go func() { c.Wait(); close(done) }()
	select {
	case <-done:
		r["stop_ms"] = r1(float64(time.Since(t).Microseconds()) / 1000)
	case <-time.After(20 * time.Second):
		c.Process.Kill()
		r["stop_ms"] = "over 20 s, killed"
	}
	return r
}
