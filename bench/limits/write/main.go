// Command write measures what write(2) alone costs at several sizes.
package main

import (
	"fmt"
	"os"
	"sort"
	"syscall"
	"time"
	"unsafe"
)

func cpu() float64 {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}
func aligned(n int) []byte {
	b := make([]byte, n+4096)
	o := int(uintptr(unsafe.Pointer(&b[0])) & 4095)
	if o != 0 {
		o = 4096 - o
	}
	return b[o : o+n]
}
func main() {
	for _, mode := range []string{"append", "falloc-keep", "falloc", "overwrite", "odirect", "dontcache", "mmap"} {
		for _, bs := range []int{4096, 16384, 16500, 262144, 1 << 20} {
			if bs == 16500 && (mode == "odirect" || mode == "mmap") {
				continue
			}
			if mode == "mmap" && bs != 262144 {
				continue
			}
			const N = 512 << 20
			var g, c []float64
			for rep := 0; rep < 5; rep++ {
				p := os.TempDir() + "/bench-w.dat"
				fl := os.O_CREATE | os.O_RDWR
				if mode == "odirect" {
					fl |= syscall.O_DIRECT
				}
				if mode != "overwrite" {
					os.Remove(p)
				}
				f, e := os.OpenFile(p, fl, 0644)
				if e != nil {
					panic(e)
				}
				b := aligned(bs)
				for i := range b {
					b[i] = byte(i * 7)
				}
				switch mode {
				case "falloc":
					syscall.Fallocate(int(f.Fd()), 0, 0, N+(1<<20))
				case "falloc-keep":
					syscall.Fallocate(int(f.Fd()), 1, 0, N+(1<<20))
				case "overwrite":
					if rep == 0 {
						z := make([]byte, 1<<20)
						for i := 0; i < 513; i++ {
							f.WriteAt(z, int64(i)<<20)
						}
						f.Sync()
					}
				case "mmap":
					f.Truncate(N)
				}
				var m []byte
				if mode == "mmap" {
					m, _ = syscall.Mmap(int(f.Fd()), 0, N, 3, 1)
				}
				c0 := cpu()
				t := time.Now()
				off := int64(0)
				for off < N {
					switch mode {
					case "mmap":
						copy(m[off:], b)
					case "dontcache":
						iov := syscall.Iovec{Base: &b[0], Len: uint64(bs)}
						n, _, en := syscall.Syscall6(328, f.Fd(), uintptr(unsafe.Pointer(&iov)), 1, uintptr(off), 0, 0x80)
						if en != 0 {
							fmt.Println("dontcache", en)
							return
						}
						_ = n
					default:
						if n, e := f.WriteAt(b, off); n != bs {
							panic(e)
						}
					}
					off += int64(bs)
				}
				gb := float64(N) / 1e9
				g = append(g, gb/time.Since(t).Seconds())
				c = append(c, (cpu()-c0)/gb)
				if m != nil {
					syscall.Munmap(m)
				}
				f.Close()
			}
			sort.Float64s(g)
			sort.Float64s(c)
			fmt.Printf("%-12s bs=%-8d median %.2f GB/s  cpu %.3f s/GB (min %.3f)\n", mode, bs, g[2], c[2], c[0])
		}
	}
	os.Remove(os.TempDir() + "/bench-w.dat")
}
