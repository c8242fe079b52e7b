// Command bench loads any broker that speaks the Kafka protocol, and prints one
// line of JSON per run and one with the medians. With a reference broker it
// alternates between the two and prints the ratio. See README.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"sort"
	"strings"
	"time"
)

var (
	bootstrap  = flag.String("bootstrap", "127.0.0.1:9092", "broker under test; of a cluster any one, and all of them, separated by commas, where -cmd starts them")
	pidFlag    = pidsFlag("pid", "its process id (for CPU and RSS); those of a cluster, separated by commas, count as one; 0: not measured")
	ref        = flag.String("ref", "", "reference broker; runs alternate ref, test, ref, test ... and a ratio line follows")
	refPid     = pidsFlag("refpid", "its process id, or several")
	mode       = flag.String("mode", "produce", "produce | rawproduce | latency | rawlatency | fetch | rawfetch | e2e | conns | parts | start | commits | groups | rebalance | reload | crowd | cluster | neighbour | soak")
	reps       = flag.Int("reps", 3, "runs per broker")
	dur        = flag.Duration("d", 4*time.Second, "length of a run")
	size       = flag.Int("size", 1024, "record value bytes")
	nparts     = flag.Int("parts", 1, "partitions")
	topicsFlag = flag.Int("topics", 1, "topics that share the partitions (cluster)")
	rf         = flag.Int("rf", 1, "replication factor of the topics made")
	refRF      = flag.Int("refrf", 0, "the same on the reference; 0: as -rf")
	nclients   = flag.Int("clients", 1, "client connections or clients")
	linger     = flag.Duration("linger", 0, "producer linger")
	batch      = flag.Int("batch", 1<<20, "producer max batch bytes (raw: exact batch size)")
	inflight   = flag.Int("inflight", 5, "requests in flight per connection (raw modes)")
	comp       = flag.String("comp", "none", "none | lz4 | zstd | snappy | gzip")
	acks       = flag.Int("acks", -1, "-1, 1 or 0")
	rate       = flag.Int("rate", 20000, "records a second, latency and e2e modes")
	buffered   = flag.Int("buffered", 20000, "max buffered records (franz-go)")
	topicFlag  = flag.String("topic", "", "use this topic (default: a fresh one per run)")
	preload    = flag.Int64("preload", 1<<30, "bytes written before a fetch mode, per broker")
	repeatRd   = flag.Int("passes", 1, "times a fetch mode reads the preload")
	random     = flag.Bool("random", false, "incompressible values")
	n          = flag.Int("n", 1000, "connections (conns) or partitions (parts)")
	polls      = flag.Int("polls", 1000, "consumers in a long poll (crowd)")
	dataDir    = flag.String("data", "", "the broker's data directory (soak)")
	adminURL   = flag.String("admin", "", "base of the broker's admin HTTP, such as http://127.0.0.1:9644 (soak)")
	cmd        = flag.String("cmd", "", "shell command that starts the broker, for start, reload, crowd and soak, and with $NODE each broker of cluster; it is ended after")
	fetchMax   = flag.Int("fetchmax", 1<<20, "fetch max bytes per partition")
	delTopic   = flag.Bool("deltopic", true, "delete topics made")
	warmup     = flag.Duration("warmup", 0, "load each broker for so long before the first run")
	ngroups    = flag.Int("groups", 0, "groups")
	members    = flag.Int("members", 0, "members of a group")
	protocol   = flag.String("protocol", "classic", "classic | consumer (rebalance)")
	heartbeat  = flag.Duration("heartbeat", 0, "time between two heartbeats of a member")
)

// What a mode takes for flags that are not given.
var defaults = map[string]map[string]string{
	"commits":   {"clients": "16", "inflight": "1", "groups": "64"},
	"groups":    {"groups": "2000", "members": "5", "parts": "5", "heartbeat": "3s", "d": "30s", "reps": "1"},
	"rebalance": {"members": "1000", "parts": "1000", "heartbeat": "1s"},
	"crowd":     {"parts": "10000", "n": "5000", "d": "20s", "reps": "1"},
	"cluster":   {"parts": "10000", "rf": "3", "d": "20s", "reps": "1"},
	"neighbour": {"rate": "2000", "batch": "1100", "clients": "4", "d": "5s"},
	"soak":      {"d": "2h", "reps": "1"},
	"reload":    {"groups": "10000", "parts": "100", "clients": "4", "reps": "1"},
}

func applyDefaults() {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, v := range defaults[*mode] {
		if !given[name] {
			flag.Set(name, v)
		}
	}
}

type result map[string]any

func one(addr string, pid pids) result {
	ctx := context.Background()
	switch *mode {
	case "produce":
		return runProduce(ctx, addr, pid)
	case "latency":
		return runLatency(ctx, addr, pid, false)
	case "e2e":
		return runLatency(ctx, addr, pid, true)
	case "fetch":
		return runFetch(ctx, addr, pid)
	case "rawproduce":
		t := makeTopic(ctx, addr, *nparts)
		defer dropTopic(ctx, addr, t)
		return runRawProduce(addr, t, pid)
	case "rawlatency":
		t := makeTopic(ctx, addr, *nparts)
		defer dropTopic(ctx, addr, t)
		return runRawLatency(addr, t, pid)
	case "rawfetch":
		return runRawFetch(addr, load(ctx, addr), pid)
	case "conns":
		return runConns(addr, pid)
	case "parts":
		return runParts(ctx, addr, pid)
	case "start":
		return runStart(addr)
	case "commits":
		t := makeTopic(ctx, addr, *nparts)
		defer dropTopic(ctx, addr, t)
		return runCommits(addr, t, pid)
	case "groups":
		t := makeTopic(ctx, addr, *nparts)
		defer dropTopic(ctx, addr, t)
		return runGroups(addr, t, pid)
	case "rebalance":
		t := makeTopic(ctx, addr, *nparts)
		defer dropTopic(ctx, addr, t)
		return runRebalance(addr, t, pid)
	case "reload":
		return runReload(ctx, addr)
	case "crowd":
		return runCrowd(ctx, addr)
	case "cluster":
		return runCluster(ctx, strings.Split(addr, ","))
	case "neighbour":
		return runNeighbour(ctx, addr, pid)
	case "soak":
		return runSoak(ctx, addr)
	}
	log.Fatalf("no mode %q", *mode)
	return nil
}

// warm is a run whose figures do not count: a JVM compiles while it works. It
// does so by the number of requests: so a slow timetable will not do, and large
// batches would fill the disk.
func warm(addr string, pid pids) {
	if *mode == "commits" {
		warmCommits(context.Background(), addr)
		return
	}
	d, b, m := *dur, *batch, *mode
	*dur, *batch = *warmup, min(*batch, 16384)
	if m == "rawlatency" {
		*mode = "rawproduce"
	}
	show("warm ", one(addr, pid))
	*dur, *batch, *mode = d, b, m
}

func median(rs []result) result {
	m := result{}
	for k, v := range rs[0] {
		var f []float64
		for _, r := range rs {
			switch x := r[k].(type) {
			case float64:
				f = append(f, x)
			case int64:
				f = append(f, float64(x))
			case int:
				f = append(f, float64(x))
			}
		}
		if len(f) == 0 {
			m[k] = v
			continue
		}
		sort.Float64s(f)
		m[k] = f[len(f)/2]
		if len(f)%2 == 0 {
			m[k] = r2((f[len(f)/2-1] + f[len(f)/2]) / 2)
		}
	}
	return m
}

func show(tag string, r result) {
	b, _ := json.Marshal(r)
	fmt.Printf("%s %s\n", tag, b)
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	applyDefaults()
	if strings.HasPrefix(*mode, "pest-") {
		runPest(*mode, *bootstrap)
	}
	mustListen(*bootstrap, *pidFlag)
	if *ref != "" {
		mustListen(*ref, *refPid)
	}
	if *warmup > 0 {
		if *ref != "" {
			warm(*ref, *refPid)
		}
		warm(*bootstrap, *pidFlag)
	}
	var test, base []result
	for i := 0; i < *reps; i++ {
		if *ref != "" {
			r := one(*ref, *refPid)
			base = append(base, r)
			show("ref  ", r)
		}
		r := one(*bootstrap, *pidFlag)
		test = append(test, r)
		show("test ", r)
	}
	mt := median(test)
	if *ref == "" {
		show("MEDIAN", mt)
		return
	}
	mb := median(base)
	show("MEDIAN ref ", mb)
	show("MEDIAN test", mt)
	// Each pair ran back to back: the median of the pairs' ratios stands more noise than the ratio of medians.
	ratio := result{}
	for k := range mt {
		var f []float64
		for i := range test {
			a, ok1 := num(test[i][k])
			b, ok2 := num(base[i][k])
			if ok1 && ok2 && b != 0 {
				f = append(f, a/b)
			}
		}
		if len(f) > 0 {
			sort.Float64s(f)
			ratio[k] = r2(f[len(f)/2])
		}
	}
	show("RATIO test/ref", ratio)
}

func num(v any) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, true
	case int64:
		return float64(x), true
	case int:
		return float64(x), true
	}
	return 0, false
}
