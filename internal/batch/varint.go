package batch

import (
	"encoding/binary"
	"math/bits"
)

// varint reads a zigzag varint of 32 bits at p[i:] and returns the index after
// it, or -1 when p ends within it or it holds more than 32 bits.
func varint(p []byte, i int) (int32, int) {
	if uint(i) >= uint(len(p)) {
		return 0, -1
	}
	u := uint32(p[i])
	if u < 0x80 {
		return int32(u>>1) ^ -int32(u&1), i + 1
	}
	if uint(i+1) < uint(len(p)) && p[i+1] < 0x80 {
		u = u&0x7f | uint32(p[i+1])<<7
		return int32(u>>1) ^ -int32(u&1), i + 2
	}
	return varintLong(p, i)
}

// peek reads a varint of one or two bytes, zigzag not undone; next is 0 when it
// is longer or p has no second byte. It is small enough to be inlined.
func peek(p []byte, i int) (u uint32, next int) {
	if uint(i+1) >= uint(len(p)) {
		return 0, 0
	}
	a, b := uint32(p[i]), uint32(p[i+1])
	if a < 0x80 {
		return a, i + 1
	}
	if b < 0x80 {
		return a&0x7f | b<<7, i + 2
	}
	return 0, 0
}

func varintLong(p []byte, i int) (int32, int) {
	var u uint32
	for shift := 0; shift < 35; shift += 7 {
		if uint(i) >= uint(len(p)) {
			return 0, -1
		}
		c := p[i]
		i++
		if shift == 28 && c > 0x0f {
			return 0, -1
		}
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i
		}
	}
	return 0, -1
}

// varlong is varint for 64 bits.
func varlong(p []byte, i int) (int64, int) {
	if uint(i) < uint(len(p)) && p[i] < 0x80 {
		return int64(p[i]>>1) ^ -int64(p[i]&1), i + 1
	}
	if uint(i) >= uint(len(p)) {
		return 0, -1
	}
	u, n := binary.Uvarint(p[i:])
	if n <= 0 {
		return 0, -1
	}
	return int64(u>>1) ^ -int64(u&1), i + n
}

func appendVarint(dst []byte, v int64) []byte {
	return binary.AppendUvarint(dst, uint64(v<<1)^uint64(v>>63))
}

func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}
