package main

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"log"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// runSoak starts a broker with -cmd and loads it for -d with everything at once:
// steady producers and consumer groups of both protocols whose members come
// and go, topics that are made, grown, configured, emptied and deleted at
// random, dynamic broker settings, connections that come and go. It watches
// memory, goroutines, descriptors and disk, and compares the last quarter of
// the run with the second: what leaks grows. The first quarter is for warming.
func runSoak(ctx context.Context, addr string) result {
	if *dataDir == "" || *adminURL == "" {
		log.Fatal("soak needs -data, the broker's directory, and -admin, its admin HTTP")
	}
	broker, said := startWatched()
	defer func() { broker.kill() }()
	mustListen(addr, broker.pid())

	ctx, cancel := context.WithTimeout(ctx, *dur)
	defer cancel()
	seed := uint64(time.Now().UnixNano())
	fmt.Printf("soak  seed %d\n", seed)
	s := &soak{addr: addr, errs: map[string]int64{}}
	s.setup(ctx)
	var wg sync.WaitGroup
	for i := range soakTopics {
		wg.Go(func() { s.produce(ctx, soakTopic(i)) })
		for _, protocol := range []string{"classic", "consumer"} {
			group := fmt.Sprintf("soak-%s-%d", protocol, i)
			for m := range 3 {
				wg.Go(func() { s.consume(ctx, group, soakTopic(i), protocol, rand.New(rand.NewPCG(seed, uint64(100*i+m)))) })
			}
		}
	}
	wg.Go(func() { s.churn(ctx, rand.New(rand.NewPCG(seed, 1))) })
	wg.Go(func() { s.knock(ctx) })

	var samples []sample
	for tick := time.NewTicker(min(10*time.Second, *dur/40)); ctx.Err() == nil; {
		select {
		case <-tick.C:
			x := takeSample(broker.pid())
			samples = append(samples, x)
			if len(samples)%30 == 1 {
				fmt.Printf("soak  %s %+v; %s\n", time.Now().Format(time.TimeOnly), x, s.line())
			}
		case <-ctx.Done():
		}
	}
	wg.Wait()
	r := result{"produced": s.produced.Load(), "consumed": s.consumed.Load(), "changes": s.changes.Load(), "connections": s.knocks.Load(),
		"client_errors": s.errCount(), "lost": s.lost.Load()}
	flat(r, samples)
	r["stop_ms"] = broker.stop()
	r["error_lines"], r["warn_lines"] = said.errors.Load(), said.warnings.Load()
	for what, k := range s.errs {
		fmt.Printf("soak  %d times: %s\n", k, what)
	}
	return r
}

// watched counts the lines of a broker's log by level, and shows the errors.
type watched struct{ errors, warnings atomic.Int64 }

func startWatched() (child, *watched) {
	c := exec.Command("bash", "-c", "exec "+*cmd)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		log.Fatal(err)
	}
	w := &watched{}
	go func() {
		for sc := bufio.NewScanner(out); sc.Scan(); {
			switch line := sc.Text(); {
			case strings.Contains(line, "level=ERROR"):
				w.errors.Add(1)
				fmt.Println("soak  broker:", line)
			case strings.Contains(line, "level=WARN"):
				if w.warnings.Add(1) <= 20 {
					fmt.Println("soak  broker:", line)
				}
			}
		}
	}()
	return child{c}, w
}

// sample is what is watched at one moment.
type sample struct {
	RSS, Heap, Goroutines, FDs float64
	Disk, Offsets, Metadata    float64 // bytes: of topics, of the offsets topic, of the metadata store
}

func takeSample(pid pids) sample {
	m := scrape()
	x := sample{RSS: float64(rss(pid)), Heap: m["go_memstats_heap_inuse_bytes"], Goroutines: m["go_goroutines"], FDs: float64(fds(pid))}
	_ = filepath.WalkDir(*dataDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // it was deleted meanwhile
		}
		if info, err := e.Info(); err == nil {
			size := float64(info.Size())
			switch rel, _ := filepath.Rel(*dataDir, path); {
			case strings.HasPrefix(rel, "__consumer_offsets-"):
				x.Offsets += size
			case strings.HasPrefix(rel, "metadata"+string(filepath.Separator)):
				x.Metadata += size
			default:
				x.Disk += size
			}
		}
		return nil
	})
	return x
}

// scrape reads the metrics that have no labels.
func scrape() map[string]float64 {
	out := map[string]float64{}
	resp, err := http.Get(*adminURL + "/metrics")
	if err != nil {
		log.Fatal("metrics: ", err)
	}
	defer resp.Body.Close()
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		name, v, ok := strings.Cut(sc.Text(), " ")
		if f, err := strconv.ParseFloat(v, 64); ok && err == nil {
			out[name] = f
		}
	}
	return out
}

// flat compares the medians of the second and the last quarter.
func flat(r result, all []sample) {
	for _, f := range []struct {
		name string
		of   func(sample) float64
		unit float64
	}{
		{"rss_MiB", func(x sample) float64 { return x.RSS }, 1 << 20},
		{"heap_MiB", func(x sample) float64 { return x.Heap }, 1 << 20},
		{"goroutines", func(x sample) float64 { return x.Goroutines }, 1},
		{"fds", func(x sample) float64 { return x.FDs }, 1},
		{"disk_MiB", func(x sample) float64 { return x.Disk }, 1 << 20},
		{"offsets_MiB", func(x sample) float64 { return x.Offsets }, 1 << 20},
		{"metadata_MiB", func(x sample) float64 { return x.Metadata }, 1 << 20},
	} {
		mid := func(part []sample) float64 {
			var v []float64
			for _, x := range part {
				v = append(v, f.of(x)/f.unit)
			}
			if len(v) == 0 {
				return 0
			}
			slices.Sort(v)
			return v[len(v)/2]
		}
		n := len(all)
		second, last := mid(all[n/4:n/2]), mid(all[n*3/4:])
		r[f.name+"_second"], r[f.name+"_last"] = r1(second), r1(last)
		if second > 0 {
			r[f.name+"_x"] = r2(last / second)
		}
	}
}

// knock opens and leaves a few connections a second, some in mid-request.
func (s *soak) knock(ctx context.Context) {
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		c, err := dialRaw(s.addr)
		if err != nil {
			s.failed("connect", err)
			continue
		}
		if s.knocks.Add(1)%2 == 0 {
			_, _ = c.c.Write([]byte{0, 0, 1, 0, 0, 3})
		}
		c.c.Close()
	}
}
