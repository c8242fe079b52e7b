package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// usage is what a stretch of time took, in seconds.
type usage struct{ wall, broker, client, stalled float64 }

func during(pid pids, f func()) usage {
	var s0, s1 syscall.Rusage
	b0 := procCPU(pid)
	p0 := psi()
	syscall.Getrusage(0, &s0)
	t := time.Now()
	f()
	u := usage{wall: time.Since(t).Seconds()}
	syscall.Getrusage(0, &s1)
	u.broker, u.client, u.stalled = procCPU(pid)-b0, ru(s1)-ru(s0), psi()-p0
	return u
}

// measure runs f between two readings of the clocks.
func measure(pid pids, f func() (bytes, recs int64)) result {
	var bytes, recs int64
	u := during(pid, func() { bytes, recs = f() })
	gb := float64(bytes) / 1e9
	r := result{"MBps": r1(float64(bytes) / 1e6 / u.wall), "recps": int64(float64(recs) / u.wall), "secs": r2(u.wall), "stall": r2(u.stalled / u.wall),
		"client_cpu_s_per_GB": r2(u.client / gb)}
	if len(pid) > 0 {
		r["broker_cpu_s_per_GB"] = r2(u.broker / gb)
		r["broker_MBps_per_core"] = r1(float64(bytes) / 1e6 / u.broker)
		r["rss_MiB"] = mib(rss(pid))
	}
	return r
}

// copied adds what the brokers wrote in all: each byte once for each replica.
func (r result) copied(addr string) {
	if v, ok := r["broker_MBps_per_core"].(float64); ok {
		r["written_MBps_per_core"] = r1(v * float64(replicas(addr)))
	}
}

func mib(n int64) float64 { return r1(float64(n) / (1 << 20)) }

func r1(f float64) float64 { return float64(int64(f*10+.5)) / 10 }
func r2(f float64) float64 { return float64(int64(f*1000+.5)) / 1000 }
func ru(r syscall.Rusage) float64 {
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}

// pids are the processes that make up the broker under test: one, or those of a
// cluster, whose CPU and memory are added up.
type pids []int

func (p pids) String() string {
	out := make([]string, len(p))
	for i, id := range p {
		out[i] = strconv.Itoa(id)
	}
	return strings.Join(out, ",")
}

// Set is for the flag package.
func (p *pids) Set(v string) error {
	*p = nil
	for s := range strings.SplitSeq(v, ",") {
		id, err := strconv.Atoi(s)
		if err != nil {
			return err
		}
		if id > 0 {
			*p = append(*p, id)
		}
	}
	return nil
}

func pidsFlag(name, usage string) *pids {
	p := &pids{}
	flag.Var(p, name, usage)
	return p
}

// procCPU reads each process's own clock, which counts in nanoseconds: the ticks of
// /proc are 10 ms, a third of a per cent of three seconds.
func procCPU(pid pids) (seconds float64) {
	for _, id := range pid {
		if s, ok := cpuClock(id); ok {
			seconds += s
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			continue
		}
		s := string(b)
		f := strings.Fields(s[strings.LastIndexByte(s, ')')+2:])
		var u, k float64
		fmt.Sscan(f[11], &u)
		fmt.Sscan(f[12], &k)
		seconds += (u + k) / 100
	}
	return seconds
}

// cpuClock is clock_getcpuclockid(3) and clock_gettime(2).
func cpuClock(pid int) (seconds float64, ok bool) {
	const scheduler = 2 // CPUCLOCK_SCHED: user and system time
	var t syscall.Timespec
	clock := int32(^pid<<3 | scheduler)
	_, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0)
	return float64(t.Nano()) / 1e9, failed == 0
}

func rss(pid pids) (bytes int64) {
	for _, id := range pid {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", id))
		var a, r int64
		fmt.Sscan(string(b), &a, &r)
		bytes += r * int64(os.Getpagesize())
	}
	return bytes
}

// psi is the machine's total CPU stall time in seconds: how much others disturbed the run.
func psi() float64 {
	b, _ := os.ReadFile("/proc/pressure/cpu")
	i := strings.Index(string(b), "total=")
	if i < 0 {
		return 0
	}
	var t float64
	fmt.Sscan(string(b[i+6:]), &t)
	return t / 1e6
}

type hist struct {
	mu sync.Mutex
	d  []time.Duration
}

func (h *hist) add(d time.Duration) { h.mu.Lock(); h.d = append(h.d, d); h.mu.Unlock() }
func (h *hist) reset()              { h.mu.Lock(); h.d = h.d[:0]; h.mu.Unlock() }
func (h *hist) into(r result, p string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.d) == 0 {
		return
	}
	sort.Slice(h.d, func(i, j int) bool { return h.d[i] < h.d[j] })
	q := func(f float64) float64 {
		return r2(float64(h.d[min(len(h.d)-1, int(float64(len(h.d))*f))].Microseconds()) / 1000)
	}
	r[p+"p50_ms"], r[p+"p99_ms"], r[p+"p999_ms"], r[p+"max_ms"] = q(.5), q(.99), q(.999), q(1)
}
