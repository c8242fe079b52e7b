// Command recover measures how fast a log file is read and its sums are checked, cold and warm.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"sort"
	"syscall"
	"time"
)

func cpu() float64 {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}
func rss() float64 {
	b, _ := os.ReadFile("/proc/self/statm")
	var a, r int64
	fmt.Sscan(string(b), &a, &r)
	return float64(r * 4)
}

var tab = crc32.MakeTable(crc32.Castagnoli)

func scan(p string, crc, cold bool) (gbs, c float64) {
	f, _ := os.Open(p)
	defer f.Close()
	if cold {
		f.Sync()
		syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, 4, 0, 0)
	}
	t := time.Now()
	c0 := cpu()
	var tot int64
	if crc {
		br := bufio.NewReaderSize(f, 1<<20)
		buf := make([]byte, 2<<20)
		for {
			h, e := br.Peek(61)
			if e != nil {
				break
			}
			n := int(binary.BigEndian.Uint32(h[8:])) + 12
			if _, e := io.ReadFull(br, buf[:n]); e != nil {
				break
			}
			if crc32.Checksum(buf[21:n], tab) != binary.BigEndian.Uint32(buf[17:]) {
				panic("crc")
			}
			tot += int64(n)
		}
	} else {
		var h [61]byte
		st, _ := f.Stat()
		for tot < st.Size() {
			if _, e := f.ReadAt(h[:], tot); e != nil {
				break
			}
			tot += int64(binary.BigEndian.Uint32(h[8:])) + 12
		}
	}
	gb := float64(tot) / 1e9
	return gb / time.Since(t).Seconds(), (cpu() - c0) / gb
}
func main() {
	os.MkdirAll(os.TempDir()+"/bench-d", 0o755)
	defer os.RemoveAll(os.TempDir() + "/bench-d")
	p := os.Args[1]
	for _, x := range []struct {
		n    string
		c, k bool
	}{{"full crc warm", true, false}, {"full crc cold", true, true}, {"headers only warm", false, false}, {"headers only cold", false, true}} {
		var g, c []float64
		for i := 0; i < 5; i++ {
			a, b := scan(p, x.c, x.k)
			g = append(g, a)
			c = append(c, b)
		}
		sort.Float64s(g)
		sort.Float64s(c)
		fmt.Printf("recovery %-18s median %.2f GB/s (%.2f s/GB) cpu %.3f s/GB\n", x.n, g[2], 1/g[2], c[2])
	}
	runtime.GC()
	r0 := rss()
	ch := make(chan int)
	for i := 0; i < 20000; i++ {
		go func() { <-ch }()
	}
	time.Sleep(300 * time.Millisecond)
	fmt.Printf("parked goroutine %.2f KiB\n", (rss()-r0)/20000)
	close(ch)
	time.Sleep(300 * time.Millisecond)
	r0 = rss()
	var bs [][]byte
	for i := 0; i < 2000; i++ {
		b := make([]byte, 16384)
		b[0] = 1
		b[8192] = 1
		bs = append(bs, b)
	}
	fmt.Printf("16KiB buffer per conn costs %.1f KiB\n", (rss()-r0)/2000)
	runtime.KeepAlive(bs)
	var fs []*os.File
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 100000, Max: 100000})
	slab := func() int64 {
		b, _ := os.ReadFile("/proc/meminfo")
		var v int64
		s := string(b)
		for i := 0; i+5 < len(s); i++ {
			if s[i:i+5] == "Slab:" {
				fmt.Sscan(s[i+5:], &v)
				break
			}
		}
		return v
	}
	s0 := slab()
	r0 = rss()
	t := time.Now()
	for i := 0; i < 10000; i++ {
		f, e := os.Create(fmt.Sprintf(os.TempDir()+"/bench-d/%d", i))
		if e != nil {
			fmt.Println(e)
			break
		}
		fs = append(fs, f)
	}
	fmt.Printf("create+open file %.1f us; RSS %.2f KiB; slab %.2f KiB each\n", float64(time.Since(t).Microseconds())/10000, (rss()-r0)/10000, float64(slab()-s0)/10000)
	for _, f := range fs {
		f.Close()
	}
	var tr []float64
	for i := 0; i < 2000; i++ {
		t := time.Now()
		f, _ := os.Create(fmt.Sprintf(os.TempDir()+"/bench-d/s%d", i))
		f.Write(make([]byte, 100))
		f.Sync()
		f.Close()
		os.Rename(fmt.Sprintf(os.TempDir()+"/bench-d/s%d", i), fmt.Sprintf(os.TempDir()+"/bench-d/r%d", i))
		tr = append(tr, float64(time.Since(t).Microseconds()))
	}
	sort.Float64s(tr)
	fmt.Printf("create+write+fsync+rename p50 %.0f us p99 %.0f us\n", tr[1000], tr[1980])
}
