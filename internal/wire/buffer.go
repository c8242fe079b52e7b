package wire

import (
	"math/bits"
	"sync"
)

// Buffer is a byte slice out of a pool of size classes. B may be appended to and
// replaced; Release gives the memory back, after which nothing may refer to it.
type Buffer struct {
	B []byte
}

const (
	minClass = 9  // 512 B
	maxClass = 20 // 1 MiB; what is larger is left to the collector (golang/go#23199)
	classes  = (maxClass-minClass)*2 + 1
)

var pools [classes]sync.Pool

// classOf returns the smallest class that holds n: powers of two and the halves
// between them, so that a batch of a round size and its header waste a third at most.
func classOf(n int) int {
	if n <= 1<<minClass {
		return 0
	}
	top := bits.Len(uint(n - 1)) // 2^(top-1) < n <= 2^top
	c := (top - minClass) * 2
	if n <= 3<<(top-2) {
		c--
	}
	return c
}

func classBytes(c int) int {
	if c%2 == 0 {
		return 1 << (minClass + c/2)
	}
	return 3 << (minClass + c/2 - 1)
}

// GetBuffer returns a buffer of length n with any content.
func GetBuffer(n int) *Buffer {
	c := classOf(n)
	if c >= classes {
		return &Buffer{B: make([]byte, n)}
	}
	if b, ok := pools[c].Get().(*Buffer); ok {
		b.B = b.B[:n]
		return b
	}
	return &Buffer{B: make([]byte, n, classBytes(c))}
}

// Release gives the buffer back. It must not be used again.
func (b *Buffer) Release() {
	size := cap(b.B)
	if size < 1<<minClass {
		return
	}
	c := classOf(size)
	if c < classes && classBytes(c) > size {
		c-- // appended to: it serves the class below its capacity
	}
	if c >= classes {
		return
	}
	pools[c].Put(b)
}
