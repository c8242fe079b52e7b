package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"log"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const coordinatorPartitions = 50 // offsets.topic.num.partitions

// partitionOf is the coordinator partition of a group: Java's hash of a string.
func partitionOf(group string) int {
	var h int32
	for _, b := range []byte(group) {
		h = 31*h + int32(b)
	}
	return int(h&0x7fffffff) % coordinatorPartitions
}

// offsetFor is what a group has committed of a partition.
func offsetFor(group string, part int32) int64 {
	h := fnv.New32a()
	h.Write([]byte(group))
	return int64(h.Sum32())<<12 | int64(part)
}

// child is a broker that this process starts and kills.
type child struct{ cmd *exec.Cmd }

// startChild runs -cmd, which may use the variables of env.
func startChild(env ...string) child {
	c := exec.Command("bash", "-c", "exec "+*cmd)
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		log.Fatal(err)
	}
	return child{c}
}

func (c child) pid() pids { return pids{c.cmd.Process.Pid} }

func (c child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// dialUntil connects as soon as the broker answers.
func dialUntil(addr string, limit time.Duration) *rawConn {
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		c, err := dialRaw(addr)
		if err == nil {
			return c
		}
		if time.Now().After(deadline) {
			log.Fatalf("no answer within %v: %v", limit, err)
		}
	}
}

// runReload commits -groups times -parts offsets, kills the broker with -9,
// starts it again, and measures from exec until each coordinator partition
// gives its groups' offsets. Then it asks for every offset.
func runReload(ctx context.Context, addr string) result {
	broker := startChild()
	defer func() { broker.kill() }()
	dialUntil(addr, time.Minute).c.Close()
	topic := makeTopic(ctx, addr, *nparts)
	groups := make([]string, *ngroups)
	for i := range groups {
		groups[i] = fmt.Sprintf("bench-reload-%d", i)
	}
	awaitCoordinator(addr, groups[0])
	began := time.Now()
	commitAll(addr, topic, groups)
	r := result{"groups": *ngroups, "partitions": *nparts, "offsets": *ngroups * *nparts, "commit_s": r2(time.Since(began).Seconds()), "rss_before_MiB": mib(rss(broker.pid()))}

	broker.kill()
	began = time.Now()
	broker = startChild()
	c := dialUntil(addr, 2*time.Minute)
	defer c.c.Close()
	r["ready_ms"] = ms(time.Since(began))
	wrong := awaitLoaded(c, topic, onePerPartition(groups))
	r["loaded_ms"], r["load_cpu_s"] = ms(time.Since(began)), r2(procCPU(broker.pid()))
	r["rss_loaded_MiB"] = mib(rss(broker.pid()))
	began = time.Now()
	r["offsets_missing"], r["answers_wrong_while_loading"] = checkAll(c, topic, groups), wrong
	r["fetch_all_s"] = r2(time.Since(began).Seconds())
	return r
}

func commitAll(addr, topic string, groups []string) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range *nclients {
		wg.Go(func() {
			c := mustDial(addr)
			defer c.c.Close()
			for i := next.Add(1) - 1; i < int64(len(groups)); i = next.Add(1) - 1 {
				commitOnce(c, groups[i], topic, func(part int32) int64 { return offsetFor(groups[i], part) })
			}
		})
	}
	wg.Wait()
}

// onePerPartition picks a group for each coordinator partition that has one.
func onePerPartition(groups []string) []string {
	picked := map[int]string{}
	for _, g := range groups {
		picked[partitionOf(g)] = g
	}
	return slices.Collect(maps.Values(picked))
}

// awaitLoaded asks until no group is answered with an error. An answer without
// error that lacks an offset is wrong: the consumer would begin anew.
func awaitLoaded(c *rawConn, topic string, groups []string) (wrong int) {
	for deadline := time.Now().Add(2 * time.Minute); len(groups) > 0; time.Sleep(time.Millisecond) {
		gs, err := fetchOffsets(c, groups, topic, []int32{0})
		if err != nil {
			log.Fatal(err)
		}
		groups = groups[:0]
		for _, g := range gs {
			switch {
			case g.ErrorCode == 0:
				if offsetsOf(g, topic)[0] != offsetFor(g.Group, 0) {
					wrong++
				}
				continue
			case !comesAndGoes(g.ErrorCode):
				log.Fatalf("offsets of %s: %v", g.Group, kerr.ErrorForCode(g.ErrorCode))
			case time.Now().After(deadline):
				log.Fatalf("%s is not loaded after two minutes: %v", g.Group, kerr.ErrorForCode(g.ErrorCode))
			}
			groups = append(groups, g.Group)
		}
	}
	return wrong
}

// checkAll counts the offsets that are not there or differ.
func checkAll(c *rawConn, topic string, groups []string) (missing int) {
	for batch := range slices.Chunk(groups, max(1, 20_000 / *nparts)) {
		gs, err := fetchOffsets(c, batch, "", nil)
		if err != nil {
			log.Fatal(err)
		}
		for _, g := range gs {
			got := offsetsOf(g, topic)
			for p := range int32(*nparts) {
				if offset, ok := got[p]; !ok || offset != offsetFor(g.Group, p) {
					missing++
				}
			}
		}
	}
	return missing
}
