// Command disk measures the disk: sequential writes and reads, and appends with a sync each.
package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"syscall"
	"time"
	"unsafe"
)

func aligned(n int) []byte {
	b := make([]byte, n+4096)
	o := int(uintptr(unsafe.Pointer(&b[0])) & 4095)
	if o != 0 {
		o = 4096 - o
	}
	return b[o : o+n]
}
func pct(d []time.Duration, p float64) time.Duration {
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	i := int(float64(len(d)) * p)
	if i >= len(d) {
		i = len(d) - 1
	}
	return d[i]
}
func must(e error) {
	if e != nil {
		panic(e)
	}
}
func drop(f *os.File) { syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, 4, 0, 0) }
func seqw(path string, total int64, bs int, direct bool) {
	fl := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if direct {
		fl |= syscall.O_DIRECT
	}
	f, e := os.OpenFile(path, fl, 0644)
	must(e)
	b := aligned(bs)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	t := time.Now()
	var n int64
	for n < total {
		k, e := f.Write(b)
		must(e)
		n += int64(k)
	}
	t1 := time.Since(t)
	must(f.Sync())
	t2 := time.Since(t)
	f.Close()
	fmt.Printf("seqwrite bs=%d direct=%v total=%dMiB write-only %.0f MB/s with-fsync %.0f MB/s\n", bs, direct, total>>20, float64(total)/1e6/t1.Seconds(), float64(total)/1e6/t2.Seconds())
}
func seqr(path string, cold bool) {
	f, e := os.Open(path)
	must(e)
	if cold {
		f.Sync()
		drop(f)
	}
	b := make([]byte, 1<<20)
	t := time.Now()
	var n int64
	for {
		k, e := f.Read(b)
		n += int64(k)
		if e != nil {
			break
		}
	}
	d := time.Since(t)
	fmt.Printf("seqread cold=%v %.0f MB/s\n", cold, float64(n)/1e6/d.Seconds())
	f.Close()
}
func app(path string, bs, n int, mode, pre string) {
	os.Remove(path)
	f, e := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0644)
	must(e)
	tot := int64(bs) * int64(n)
	switch pre {
	case "falloc":
		must(syscall.Fallocate(int(f.Fd()), 0, 0, tot))
		must(f.Sync())
	case "fallockeep":
		must(syscall.Fallocate(int(f.Fd()), 1, 0, tot))
		must(f.Sync())
	case "zeros":
		z := make([]byte, 1<<20)
		for o := int64(0); o < tot; o += 1 << 20 {
			_, e := f.WriteAt(z, o)
			must(e)
		}
		must(f.Sync())
	}
	b := make([]byte, bs)
	for i := range b {
		b[i] = byte(i*13 + i>>8)
	}
	ds := make([]time.Duration, 0, n)
	ws := make([]time.Duration, 0, n)
	off := int64(0)
	t0 := time.Now()
	for i := 0; i < n; i++ {
		t := time.Now()
		_, e := f.WriteAt(b, off)
		must(e)
		off += int64(bs)
		t1 := time.Now()
		if mode == "fsync" {
			must(f.Sync())
		} else {
			must(syscall.Fdatasync(int(f.Fd())))
		}
		ds = append(ds, time.Since(t1))
		ws = append(ws, t1.Sub(t))
	}
	el := time.Since(t0)
	fmt.Printf("append bs=%-8d %-9s pre=%-10s n=%d sync p50=%v p90=%v p99=%v max=%v write p50=%v p99=%v  %.1f MB/s\n", bs, mode, pre, n, pct(ds, .5), pct(ds, .9), pct(ds, .99), pct(ds, 1), pct(ws, .5), pct(ws, .99), float64(tot)/1e6/el.Seconds())
	f.Close()
	os.Remove(path)
}
func main() {
	m := flag.String("m", "all", "")
	flag.Parse()
	p := os.TempDir() + "/bench-disk.dat"
	if *m == "all" || *m == "seq" {
		for _, bs := range []int{64 << 10, 1 << 20} {
			seqw(p, 2<<30, bs, false)
			seqw(p, 1<<30, bs, true)
		}
		seqw(p, 2<<30, 1<<20, false)
		seqr(p, true)
		seqr(p, false)
		seqr(p, false)
	}
	if *m == "all" || *m == "app" {
		for _, bs := range []int{4096, 65536, 1 << 20} {
			n := 1000
			if bs == 1<<20 {
				n = 200
			}
			for _, md := range []string{"fsync", "fdatasync"} {
				for _, pre := range []string{"none", "fallockeep", "falloc", "zeros"} {
					app(p, bs, n, md, pre)
				}
			}
		}
	}
}
