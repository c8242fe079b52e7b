package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// runCrowd starts a broker with -cmd and gives it -parts idle partitions,
// -n idle connections and -polls consumers that wait in long polls; what each
// costs is the growth of memory and descriptors. Then it stops the broker in an
// orderly way, starts it again, and stops it once more.
func runCrowd(ctx context.Context, addr string) result {
	broker := startChild()
	defer func() { broker.kill() }()
	pid := broker.pid()
	mustListen(addr, pid)
	time.Sleep(2 * time.Second)
	r := result{"partitions": *nparts, "conns": *n, "polls": *polls, "rss_empty_MiB": mib(rss(pid)), "fds_empty": fds(pid)}

	m0, f0 := rss(pid), fds(pid)
	topics := crowdTopics(ctx, addr, *nparts)
	time.Sleep(5 * time.Second)
	m1, f1 := rss(pid), fds(pid)
	r["KiB_per_partition"], r["fds_per_partition"] = each(m1-m0, *nparts), r2(float64(f1-f0)/float64(*nparts))
	r["rss_partitions_MiB"] = mib(m1)

	idle := dialAll(addr, *n)
	time.Sleep(2 * time.Second)
	m2 := rss(pid)
	r["KiB_per_conn"] = each(m2-m1, *n)

	polling := dialAll(addr, *polls)
	var wg sync.WaitGroup
	var answers atomic.Int64
	stop := make(chan struct{})
	for i, c := range polling {
		wg.Go(func() { longPoll(c, topics, i, stop, &answers) })
	}
	time.Sleep(2 * time.Second)
	m3 := rss(pid)
	r["KiB_per_poll"], r["rss_all_MiB"], r["fds_all"] = each(m3-m2, *polls), mib(m3), fds(pid)
	u := during(pid, func() { time.Sleep(*dur) })
	r["idle_cpu_pct"], r["polls_answered_per_s"], r["stall"] = r2(u.broker/u.wall*100), r1(float64(answers.Load())/u.wall), r2(u.stalled/u.wall)
	close(stop)
	for _, c := range append(idle, polling...) {
		c.c.Close()
	}
	wg.Wait()

	r["stop_ms"] = broker.stop()
	began := time.Now()
	broker = startChild()
	mustListen(addr, broker.pid())
	r["answers_ms"] = ms(time.Since(began))
	awaitLeaders(addr, *nparts)
	r["ready_ms"], r["ready_cpu_s"], r["rss_ready_MiB"] = ms(time.Since(began)), r2(procCPU(broker.pid())), mib(rss(broker.pid()))
	r["stop_again_ms"] = broker.stop()
	return r
}

func each(n int64, of int) float64 { return r1(float64(n) / 1024 / float64(max(1, of))) }

// crowdTopics makes topics of at most 1000 partitions each.
func crowdTopics(ctx context.Context, addr string, parts int) map[string]int {
	out := map[string]int{}
	for parts > 0 {
		k := min(parts, 1000)
		out[makeTopic(ctx, addr, k)] = k
		parts -= k
	}
	return out
}

// awaitLeaders asks for metadata until all partitions have a leader.
func awaitLeaders(addr string, parts int) {
	c := mustDial(addr)
	defer c.c.Close()
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(9)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		a, err := call[*kmsg.MetadataResponse](c, q)
		if err != nil {
			log.Fatal("metadata: ", err)
		}
		led := 0
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Leader >= 0 {
					led++
				}
			}
		}
		if led >= parts {
			return
		}
		if time.Now().After(deadline) {
			log.Fatalf("%d of %d partitions have a leader after two minutes", led, parts)
		}
	}
}

// longPoll waits for records of ten partitions, again and again, 5 s each.
func longPoll(c *rawConn, topics map[string]int, i int, stop chan struct{}, answers *atomic.Int64) {
	q := kmsg.NewPtrFetchRequest()
	q.SetVersion(11)
	q.ReplicaID, q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.SessionEpoch = -1, 5000, 1, 64<<20, -1
	for name, parts := range topics {
		t := kmsg.NewFetchRequestTopic()
		t.Topic = name
		for k := range min(10, parts) {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LogStartOffset = int32((i*10+k)%parts), 1<<20, -1, -1
			t.Partitions = append(t.Partitions, p)
		}
		q.Topics = append(q.Topics, t)
		break // one topic each, whichever comes first
	}
	for {
		a, err := call[*kmsg.FetchResponse](c, q)
		select {
		case <-stop:
			return
		default:
		}
		if err != nil {
			log.Fatal("long poll: ", err)
		}
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					log.Fatalf("long poll: %s-%d: error %d", t.Topic, p.Partition, p.ErrorCode)
				}
			}
		}
		answers.Add(1)
	}
}

// stop asks for an orderly stop and gives the milliseconds that it took.
func (c child) stop() float64 {
	began := time.Now()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		log.Fatal("stop: ", err)
	}
	hurry := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer hurry.Stop()
	const terminated = 128 + int(syscall.SIGTERM) // how a JVM says that it was asked to
	if err := c.cmd.Wait(); err != nil && c.cmd.ProcessState.ExitCode() != terminated {
		log.Fatalf("the broker's stop: %v", err)
	}
	return ms(time.Since(began))
}

// runNeighbour measures one steady producer (-rate records a second) beside each
// of three pests, each time after a run alone: connections that come and go,
// readers that ask for much and take little, and writers that send their
// requests a few bytes at a time.
func runNeighbour(ctx context.Context, addr string, pid pids) result {
	topic := makeTopic(ctx, addr, *nparts)
	defer dropTopic(ctx, addr, topic)
	full := makeTopic(ctx, addr, 1)
	defer dropTopic(ctx, addr, full)
	rawProduce(byLeader(leaders(addr, full, 1)), full, 256<<20, 0, 1<<20)
	r, worst := result{}, 0.0
	for _, pest := range []string{"flood", "readers", "writers"} {
		alone := runRawLatency(addr, topic, pid)
		stop := pester("-mode", "pest-"+pest, "-bootstrap", addr, "-topic", full)
		beside := runRawLatency(addr, topic, pid)
		stop()
		x := beside["ack_p99_ms"].(float64) / alone["ack_p99_ms"].(float64)
		worst = max(worst, x)
		r[pest+"_alone_p99_ms"], r[pest+"_p50_ms"], r[pest+"_p99_ms"] = alone["ack_p99_ms"], beside["ack_p50_ms"], beside["ack_p99_ms"]
		r[pest+"_x"], r[pest+"_rss_MiB"] = r2(x), mib(rss(pid))
	}
	r["worst_x"] = r2(worst)
	return r
}

// pester runs this program as another process, so that the pest's own work is
// not the neighbour's wait, and at a lower priority, for there are few cores.
func pester(args ...string) (stop func()) {
	c := exec.Command("nice", append([]string{"-n", "10", os.Args[0]}, args...)...)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		log.Fatal(err)
	}
	time.Sleep(time.Second)
	return func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// pestFlood opens connections and leaves them at once, 1000 a second.
func pestFlood(addr string) {
	raiseFiles(4000)
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		go func() {
			if c, err := dialRaw(addr); err == nil {
				c.c.Close()
			}
		}()
	}
}

// pestReaders asks for 64 MiB on each of 50 connections and reads 4 KiB a second.
func pestReaders(addr, topic string) {
	for range 50 {
		go func() {
			c := mustDial(addr)
			q := kmsg.NewPtrFetchRequest()
			q.SetVersion(11)
			q.ReplicaID, q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.SessionEpoch = -1, 100, 1, 64<<20, -1
			t := kmsg.NewFetchRequestTopic()
			t.Topic = topic
			p := kmsg.NewFetchRequestTopicPartition()
			p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LogStartOffset = 64<<20, -1, -1
			t.Partitions = append(t.Partitions, p)
			q.Topics = append(q.Topics, t)
			for range 5 { // pipelined, and none of them waited for
				if _, err := c.c.Write(frame(q, 2)); err != nil {
					return
				}
			}
			for b := make([]byte, 4096); ; time.Sleep(time.Second) {
				if _, err := c.c.Read(b); err != nil {
					return
				}
			}
		}()
	}
	select {}
}

// pestWriters sends a produce request of 1 MiB on each of 200 connections, 100
// bytes a second.
func pestWriters(addr, topic string) {
	batch, _ := makeBatch(1<<20, *size)
	f := produceFrame(topic, 0, batch)
	for range 200 {
		go func() {
			c := mustDial(addr)
			for at := 0; at+100 < len(f); at += 100 {
				if _, err := c.c.Write(f[at : at+100]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
	}
	select {}
}

// runPest is the process behind pester; it runs until it is killed, ten
// minutes at most.
func runPest(kind, addr string) {
	time.AfterFunc(10*time.Minute, func() { os.Exit(0) })
	switch kind {
	case "pest-flood":
		pestFlood(addr)
	case "pest-readers":
		pestReaders(addr, *topicFlag)
	case "pest-writers":
		pestWriters(addr, *topicFlag)
	}
	panic(fmt.Sprintf("no pest %q", kind))
}
