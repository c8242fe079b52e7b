package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fleet is a cluster whose brokers this process starts and kills. The node.id
// of a broker is its place in the list of addresses, from 1 on.
type fleet struct {
	addrs  []string
	brok   []child
	topics []string
	parts  int
	result result
}

// runCluster starts a broker for each address with -cmd, makes -topics topics
// with -parts partitions in total, and looks at what they cost at rest. Then it
// kills a broker that does not lead the quorum and one that does, and stops one
// in an orderly way, and starts each again. Times are until the metadata of
// every live broker says so.
func runCluster(ctx context.Context, addrs []string) result {
	f := &fleet{addrs: addrs, parts: *nparts, result: result{"brokers": len(addrs), "partitions": *nparts, "topics": *topicsFlag}}
	defer f.end()
	began := time.Now()
	for i := range addrs {
		f.brok = append(f.brok, f.start(i))
	}
	for _, addr := range addrs {
		awaitBrokers(addr, len(addrs))
	}
	f.took("start_ms", began)
	time.Sleep(2 * time.Second)
	f.each("rss_empty", func(p pids) float64 { return mib(rss(p)) }, "MiB")

	began = time.Now()
	f.create()
	f.took("create_answered_ms", began)
	f.await(f.whole, -1)
	f.took("create_whole_ms", began)
	f.rest(ctx)

	for _, leads := range []bool{false, true} {
		f.outage(f.member(leads), map[bool]string{false: "kill", true: "kill_quorum_leader"}[leads])
	}
	f.restart(f.member(false))
	return f.result
}

// took also tells at once, for all of it may take long.
func (f *fleet) took(key string, since time.Time) {
	f.result[key] = ms(time.Since(since))
	fmt.Printf("cluster %s %v\n", key, f.result[key])
}

func (f *fleet) start(i int) child { return startChild(fmt.Sprintf("NODE=%d", i+1)) }

func (f *fleet) end() {
	for _, b := range f.brok {
		b.kill()
	}
}

// each shows a figure of every broker, and of the one that has most of it.
func (f *fleet) each(name string, of func(pids) float64, unit string) {
	most := 0.0
	for i, b := range f.brok {
		v := of(b.pid())
		f.result[fmt.Sprintf("%s_%d_%s", name, i+1, unit)] = v
		most = max(most, v)
	}
	f.result[name+"_most_"+unit] = most
}

// rest waits until the brokers have nothing left to do, and measures them for -d.
func (f *fleet) rest(ctx context.Context) {
	time.Sleep(min(10*time.Second, *dur))
	f.each("rss", func(p pids) float64 { return mib(rss(p)) }, "MiB")
	f.each("fds", func(p pids) float64 { return float64(fds(p)) }, "n")
	before := make(map[int]float64)
	for i, b := range f.brok {
		before[b.pid()[0]] = procCPU(f.brok[i].pid())
	}
	began := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(*dur):
	}
	wall := time.Since(began).Seconds()
	f.each("idle_cpu", func(p pids) float64 { return r2((procCPU(p) - before[p[0]]) / wall * 100) }, "pct")
}

// outage kills broker i with -9: until all partitions have live leaders, until
// no ISR names it, and once it is started again, until all ISRs are full.
func (f *fleet) outage(i int, name string) {
	began := time.Now()
	f.brok[i].kill()
	f.await(f.ledWithout, i)
	f.took(name+"_led_ms", began)
	f.await(f.shrunk, i)
	f.took(name+"_shrunk_ms", began)
	began = time.Now()
	f.brok[i] = f.start(i)
	dialUntil(f.addrs[i], 2*time.Minute).c.Close()
	f.took(name+"_answers_ms", began)
	f.await(f.whole, -1)
	f.took(name+"_whole_ms", began)
}

// restart stops broker i with SIGTERM and starts it again.
func (f *fleet) restart(i int) {
	began := time.Now()
	f.result["stop_ms"] = f.brok[i].stop()
	f.await(f.ledWithout, i)
	f.took("stop_led_ms", began)
	f.await(f.shrunk, i) // or its way back would look short
	began = time.Now()
	f.brok[i] = f.start(i)
	f.await(f.whole, -1)
	f.took("restart_whole_ms", began)
}

// create asks for all topics in one request.
func (f *fleet) create() {
	q := kmsg.NewPtrCreateTopicsRequest()
	q.SetVersion(5)
	q.TimeoutMillis = 120_000
	for i := range *topicsFlag {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic = fmt.Sprintf("bench-cluster-%d", i)
		t.NumPartitions, t.ReplicationFactor = int32((f.parts+i) / *topicsFlag), int16(*rf)
		f.topics = append(f.topics, t.Topic)
		q.Topics = append(q.Topics, t)
	}
	c := mustDial(f.addrs[0])
	defer c.c.Close()
	a, err := call[*kmsg.CreateTopicsResponse](c, q)
	if err != nil {
		log.Fatal("create topics: ", err)
	}
	for _, t := range a.Topics {
		if t.ErrorCode != 0 {
			log.Fatalf("create %s: %v %s", t.Topic, kerr.ErrorForCode(t.ErrorCode), str(t.ErrorMessage))
		}
	}
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// A partition is whole when it is led and all replicas are in sync.
func (f *fleet) whole(p kmsg.MetadataResponseTopicPartition, _ int32) bool {
	return inSync(p) && len(p.ISR) == *rf
}

func (f *fleet) ledWithout(p kmsg.MetadataResponseTopicPartition, node int32) bool {
	return p.ErrorCode == 0 && p.Leader >= 0 && p.Leader != node
}

func (f *fleet) shrunk(p kmsg.MetadataResponseTopicPartition, node int32) bool {
	for _, id := range p.ISR {
		if id == node {
			return false
		}
	}
	return f.ledWithout(p, node)
}

// await asks one broker after the other, but not the one that is away, until
// all partitions are as they should be. An answer about many is long, so it is
// asked for less often: the brokers have other work.
func (f *fleet) await(good func(kmsg.MetadataResponseTopicPartition, int32) bool, away int) {
	pause := 20 * time.Millisecond * time.Duration(1+f.parts/2500)
	for i, addr := range f.addrs {
		if i == away {
			continue
		}
		c := dialUntil(addr, 2*time.Minute)
		for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(pause) {
			n := f.count(c, func(p kmsg.MetadataResponseTopicPartition) bool { return good(p, int32(away+1)) })
			if n >= f.parts {
				break
			}
			if time.Now().After(deadline) {
				log.Fatalf("%d of %d partitions after ten minutes, as %s sees them", n, f.parts, addr)
			}
		}
		c.c.Close()
	}
}

// count is how many partitions are good, as one broker sees them.
func (f *fleet) count(c *rawConn, good func(kmsg.MetadataResponseTopicPartition) bool) (n int) {
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(9)
	for i := range f.topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &f.topics[i]
		q.Topics = append(q.Topics, t)
	}
	a, err := call[*kmsg.MetadataResponse](c, q)
	if err != nil {
		log.Fatal("metadata: ", err)
	}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			if good(p) {
				n++
			}
		}
	}
	return n
}

// member is a broker that leads the quorum of the metadata, or one that does not.
func (f *fleet) member(leads bool) int {
	q := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	q.Topics = append(q.Topics, t)
	c := mustDial(f.addrs[0])
	defer c.c.Close()
	a, err := call[*kmsg.DescribeQuorumResponse](c, q)
	if err == nil {
		err = kerr.ErrorForCode(a.ErrorCode)
	}
	if err != nil {
		log.Fatal("describe quorum: ", err)
	}
	leader := -1
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			leader = int(p.LeaderID) - 1
		}
	}
	for i := range f.addrs {
		if (i == leader) == leads {
			return i
		}
	}
	log.Fatalf("no broker leads the quorum among %s", strings.Join(f.addrs, " "))
	return 0
}
