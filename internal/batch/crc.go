package batch

import (
	"encoding/binary"
	"hash/crc32"
)

// castagnoli selects CRC-32C, which hash/crc32 computes with the processor's own
// instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crc32c(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// CRC is the stored CRC-32C.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[atCRC:]) }

// CRCValid sums the batch and compares with the stored CRC-32C.
func (b Batch) CRCValid() bool { return b.sum() == b.CRC() }

func (b Batch) sum() uint32 { return crc32c(b[atAttributes:]) }

func (b Batch) setCRC() { b.putCRC(b.sum()) }

func (b Batch) putCRC(sum uint32) { binary.BigEndian.PutUint32(b[atCRC:], sum) }

// A CRC is the remainder of the message, as a polynomial over GF(2), and so is
// linear: when two messages of one length differ in their first part only, their
// sums differ by the difference of the first parts' sums, times x^8 for every
// byte that follows. Polynomials are held as hash/crc32 holds them, the
// coefficient of x^0 in the top bit.

// bytePowers has x^(8·2^k) at k.
var bytePowers = func() (powers [32]uint32) {
	power := uint32(1) << (31 - 8) // x^8
	for k := range powers {
		powers[k] = power
		power = multiply(power, power)
	}
	return powers
}()

// shiftCRC multiplies crc by x^(8n): what a difference becomes when n bytes
// follow it. It takes time by the bits of n.
func shiftCRC(crc uint32, n int) uint32 {
	for k := 0; n > 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			crc = multiply(crc, bytePowers[k])
		}
	}
	return crc
}

// multiply is the product of two polynomials modulo that of CRC-32C.
func multiply(a, b uint32) uint32 {
	var product uint32
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return product
}
