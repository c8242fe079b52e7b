// Command net measures loopback: bytes a second sent, with sendfile and by copying, and round trips.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func cpu() float64 {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}

var port = flag.String("addr", "127.0.0.1:18801", "")

func must(e error) {
	if e != nil {
		panic(e)
	}
}

// child: discard | echo
func child(kind string) {
	ln, e := net.Listen("tcp", *port)
	must(e)
	fmt.Println("ready")
	for {
		c, e := ln.Accept()
		if e != nil {
			return
		}
		go func() {
			defer c.Close()
			switch kind {
			case "discard":
				b := make([]byte, 1<<20)
				for {
					if _, e := c.Read(b); e != nil {
						return
					}
				}
			case "echo":
				b := make([]byte, 64)
				for {
					if _, e := io.ReadFull(c, b); e != nil {
						return
					}
					if _, e := c.Write(b); e != nil {
						return
					}
				}
			case "source":
				b := make([]byte, 1<<20)
				for {
					if _, e := c.Write(b); e != nil {
						return
					}
				}
			}
		}()
	}
}
func spawn(kind string) *exec.Cmd {
	c := exec.Command(os.Args[0], "-addr", *port, "-child", kind)
	p, _ := c.StdoutPipe()
	c.Stderr = os.Stderr
	must(c.Start())
	b := make([]byte, 16)
	p.Read(b)
	return c
}
func pcpu(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+2:])
	u, _ := strconv.ParseFloat(f[11], 64)
	k, _ := strconv.ParseFloat(f[12], 64)
	return (u + k) / 100
}
func med(x []float64) float64 { sort.Float64s(x); return x[len(x)/2] }
func rep(name string, f func() (bytes int64)) {
	var g, cc, pc []float64
	ch := spawn("discard")
	if strings.HasPrefix(name, "splice") || strings.HasPrefix(name, "read+write-to-file") {
		ch.Process.Kill()
		ch.Wait()
		ch = spawn("source")
	}
	for i := 0; i < 5; i++ {
		c0 := cpu()
		p0 := pcpu(ch.Process.Pid)
		t := time.Now()
		n := f()
		d := time.Since(t).Seconds()
		gb := float64(n) / 1e9
		g = append(g, gb/d)
		cc = append(cc, (cpu()-c0)/gb)
		pc = append(pc, (pcpu(ch.Process.Pid)-p0)/gb)
	}
	ch.Process.Kill()
	ch.Wait()
	sort.Float64s(g)
	fmt.Printf("%-34s median %.2f best %.2f GB/s  this-side cpu %.3f s/GB other-side %.3f s/GB\n", name, med(g), g[len(g)-1], med(cc), med(pc))
}
func dial() *net.TCPConn { c, e := net.Dial("tcp", *port); must(e); return c.(*net.TCPConn) }
func main() {
	k := flag.String("child", "", "")
	flag.Parse()
	if *k != "" {
		child(*k)
		return
	}
	const N = 2 << 30
	path := os.TempDir() + "/bench-net-f.dat"
	f, e := os.Create(path)
	must(e)
	z := make([]byte, 1<<20)
	for i := range z {
		z[i] = byte(i * 31)
	}
	for i := 0; i < 1024; i++ {
		f.Write(z)
	}
	f.Sync()
	for _, bs := range []int{64 << 10, 1 << 20} {
		rep(fmt.Sprintf("send bs=%d", bs), func() int64 {
			c := dial()
			defer c.Close()
			b := make([]byte, bs)
			for n := 0; n < N; n += bs {
				c.Write(b)
			}
			return N
		})
	}
	rep("sendfile io.Copy", func() int64 {
		c := dial()
		defer c.Close()
		f, _ := os.Open(path)
		defer f.Close()
		n, e := io.Copy(c, f)
		must(e)
		return n
	})
	rep("sendfile CopyN 1MiB chunks", func() int64 {
		c := dial()
		defer c.Close()
		f, _ := os.Open(path)
		defer f.Close()
		var t int64
		for {
			n, e := io.CopyN(c, f, 1<<20)
			t += n
			if e != nil {
				break
			}
		}
		return t
	})
	for _, bs := range []int{64 << 10, 256 << 10, 1 << 20} {
		rep(fmt.Sprintf("read+write bs=%d", bs), func() int64 {
			c := dial()
			defer c.Close()
			f, _ := os.Open(path)
			defer f.Close()
			b := make([]byte, bs)
			var t int64
			for {
				n, _ := f.Read(b)
				if n == 0 {
					break
				}
				c.Write(b[:n])
				t += int64(n)
			}
			return t
		})
	}
	rep("splice socket->file (ReadFrom)", func() int64 {
		c := dial()
		defer c.Close()
		o, _ := os.Create(os.TempDir() + "/bench-net-o.dat")
		defer os.Remove(os.TempDir() + "/bench-net-o.dat")
		defer o.Close()
		n, e := io.CopyN(o, c, 1<<30)
		must(e)
		return n
	})
	rep("read+write-to-file 1MiB", func() int64 {
		c := dial()
		defer c.Close()
		o, _ := os.Create(os.TempDir() + "/bench-net-o.dat")
		defer os.Remove(os.TempDir() + "/bench-net-o.dat")
		defer o.Close()
		b := make([]byte, 1<<20)
		var t int64
		for t < 1<<30 {
			n, _ := io.ReadFull(c, b)
			o.Write(b[:n])
			t += int64(n)
		}
		return t
	})
	rep("read+write-to-file 64KiB", func() int64 {
		c := dial()
		defer c.Close()
		o, _ := os.Create(os.TempDir() + "/bench-net-o.dat")
		defer os.Remove(os.TempDir() + "/bench-net-o.dat")
		defer o.Close()
		b := make([]byte, 64<<10)
		var t int64
		for t < 1<<30 {
			n, _ := io.ReadFull(c, b)
			o.Write(b[:n])
			t += int64(n)
		}
		return t
	})
	os.Remove(path)
	ch := spawn("echo")
	defer ch.Process.Kill()
	for _, nc := range []int{1, 64, 1000} {
		var rs, p50, p99, sc []float64
		for rp := 0; rp < 3; rp++ {
			var mu sync.Mutex
			var all []float64
			var wg sync.WaitGroup
			stop := time.Now().Add(2 * time.Second)
			p0 := pcpu(ch.Process.Pid)
			t := time.Now()
			for i := 0; i < nc; i++ {
				wg.Add(1)
				go func() {
					defer wg.Done()
					c := dial()
					defer c.Close()
					b := make([]byte, 64)
					binary.BigEndian.PutUint64(b, 1)
					var l []float64
					for time.Now().Before(stop) {
						t := time.Now()
						c.Write(b)
						io.ReadFull(c, b)
						l = append(l, float64(time.Since(t).Microseconds()))
					}
					mu.Lock()
					all = append(all, l...)
					mu.Unlock()
				}()
			}
			wg.Wait()
			d := time.Since(t).Seconds()
			sort.Float64s(all)
			rs = append(rs, float64(len(all))/d)
			p50 = append(p50, all[len(all)/2])
			p99 = append(p99, all[len(all)*99/100])
			sc = append(sc, (pcpu(ch.Process.Pid)-p0)/float64(len(all))*1e6)
		}
		fmt.Printf("round trips conns=%-5d median %.0f/s p50 %.0fus p99 %.0fus server cpu %.1f us/rt\n", nc, med(rs), med(p50), med(p99), med(sc))
	}
}
