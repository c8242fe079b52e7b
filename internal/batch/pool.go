package batch

import (
	"math/bits"
	"sync"
)

// Buffers are pooled by size class. What is larger than the largest class is
// left to the garbage collector, or one huge batch would stay in memory for
// good (golang/go#23199).
const (
	minClassBits = 12 // 4 KiB
	maxClassBits = 20 // 1 MiB
)

// buffer is a pooled slice of bytes. A nil *buffer may be released.
type buffer struct {
	b     []byte
	class int8 // index into pools; -1: not pooled
}

var pools [maxClassBits - minClassBits + 1]sync.Pool

// getBuffer returns an empty buffer with room for n bytes or more.
func getBuffer(n int) *buffer {
	if n > 1<<maxClassBits {
		return &buffer{b: make([]byte, 0, n), class: -1}
	}
	class := 0
	if n > 1<<minClassBits {
		class = bits.Len(uint(n-1)) - minClassBits
	}
	if p, ok := pools[class].Get().(*buffer); ok {
		return p
	}
	return &buffer{b: make([]byte, 0, 1<<(minClassBits+class)), class: int8(class)}
}

func (p *buffer) release() {
	if p == nil || p.class < 0 {
		return
	}
	// Appending may have moved the bytes elsewhere; what is pooled must have its
	// class's room.
	if cap(p.b) < 1<<(minClassBits+int(p.class)) || cap(p.b) > 1<<maxClassBits {
		return
	}
	p.b = p.b[:0]
	pools[p.class].Put(p)
}

// grow returns a buffer with the same bytes and room for n or more, and
// releases p.
func (p *buffer) grow(n int) *buffer {
	q := getBuffer(n)
	q.b = append(q.b, p.b...)
	p.release()
	return q
}
