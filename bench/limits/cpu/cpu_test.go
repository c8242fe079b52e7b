// Package cpu measures sums, copies and codecs.
package cpu

import (
	"bytes"
	"compress/gzip"
	"fmt"
	kgzip "github.com/klauspost/compress/gzip"
	ks2 "github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"hash/crc32"
	"io"
	"math/rand"
	"testing"
)

var tab = crc32.MakeTable(crc32.Castagnoli)
var sink uint32

// JSON-ish payload, ~3-4x compressible
func payload(n int) []byte {
	r := rand.New(rand.NewSource(1))
	var b bytes.Buffer
	words := []string{"order", "user", "item", "price", "created", "status", "shipped", "pending", "region", "eu-west", "us-east", "amount", "currency", "EUR", "USD"}
	i := 0
	for b.Len() < n {
		fmt.Fprintf(&b, `{"id":%d,"%s":"%s","v":%d,"h":"%08x","%s":%.2f}`, i, words[r.Intn(15)], words[r.Intn(15)], r.Intn(100000), r.Uint32(), words[r.Intn(15)], r.Float64()*1000)
		i++
	}
	return b.Bytes()[:n]
}
func BenchmarkMemcpy(b *testing.B) {
	for _, n := range []int{1 << 10, 16 << 10, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := make([]byte, n)
			d := make([]byte, n)
			for i := range s {
				s[i] = 1
				d[i] = 2
			}
			b.SetBytes(int64(n))
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				copy(d, s)
			}
		})
	}
}
func BenchmarkCRC32C(b *testing.B) {
	for _, n := range []int{256, 1 << 10, 16 << 10, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := payload(n)
			b.SetBytes(int64(n))
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				sink = crc32.Checksum(s, tab)
			}
		})
	}
}

var raw = payload(256 << 10)

func ratio(b *testing.B, n int) { b.ReportMetric(float64(len(raw))/float64(n), "ratio") }
func BenchmarkLZ4FrameC(b *testing.B) {
	var o bytes.Buffer
	w := lz4.NewWriter(&o)
	w.Apply(lz4.BlockSizeOption(lz4.Block64Kb))
	b.SetBytes(int64(len(raw)))
	for i := 0; i < b.N; i++ {
		o.Reset()
		w.Reset(&o)
		w.Write(raw)
		w.Close()
	}
	ratio(b, o.Len())
}
func BenchmarkLZ4FrameD(b *testing.B) {
	var o bytes.Buffer
	w := lz4.NewWriter(&o)
	w.Apply(lz4.BlockSizeOption(lz4.Block64Kb))
	w.Write(raw)
	w.Close()
	r := lz4.NewReader(nil)
	b.SetBytes(int64(len(raw)))
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		r.Reset(bytes.NewReader(o.Bytes()))
		io.Copy(io.Discard, r)
	}
}
func BenchmarkLZ4BlockD(b *testing.B) {
	d := make([]byte, lz4.CompressBlockBound(len(raw)))
	var c lz4.Compressor
	n, _ := c.CompressBlock(raw, d)
	o := make([]byte, len(raw))
	b.SetBytes(int64(len(raw)))
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		lz4.UncompressBlock(d[:n], o)
	}
}
func BenchmarkZstdC1(b *testing.B) {
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	var o []byte
	b.SetBytes(int64(len(raw)))
	for i := 0; i < b.N; i++ {
		o = e.EncodeAll(raw, o[:0])
	}
	ratio(b, len(o))
}
func BenchmarkZstdC3(b *testing.B) {
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	var o []byte
	b.SetBytes(int64(len(raw)))
	for i := 0; i < b.N; i++ {
		o = e.EncodeAll(raw, o[:0])
	}
	ratio(b, len(o))
}
func BenchmarkZstdD(b *testing.B) {
	e, _ := zstd.NewWriter(nil)
	c := e.EncodeAll(raw, nil)
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	var o []byte
	b.SetBytes(int64(len(raw)))
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		o, _ = d.DecodeAll(c, o[:0])
	}
}
func BenchmarkSnappyC(b *testing.B) {
	var o []byte
	o = make([]byte, snappy.MaxEncodedLen(len(raw)))
	var r []byte
	b.SetBytes(int64(len(raw)))
	for i := 0; i < b.N; i++ {
		r = snappy.Encode(o, raw)
	}
	ratio(b, len(r))
}
func BenchmarkSnappyD(b *testing.B) {
	c := ks2.EncodeSnappy(nil, raw)
	o := make([]byte, len(raw))
	b.SetBytes(int64(len(raw)))
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		snappy.Decode(o, c)
	}
}
func BenchmarkGzipC_klauspost(b *testing.B) {
	var o bytes.Buffer
	w := kgzip.NewWriter(&o)
	b.SetBytes(int64(len(raw)))
	for i := 0; i < b.N; i++ {
		o.Reset()
		w.Reset(&o)
		w.Write(raw)
		w.Close()
	}
	ratio(b, o.Len())
}
func BenchmarkGzipC_std(b *testing.B) {
	var o bytes.Buffer
	w := gzip.NewWriter(&o)
	b.SetBytes(int64(len(raw)))
	for i := 0; i < b.N; i++ {
		o.Reset()
		w.Reset(&o)
		w.Write(raw)
		w.Close()
	}
	ratio(b, o.Len())
}
func BenchmarkGzipD_klauspost(b *testing.B) {
	var o bytes.Buffer
	w := kgzip.NewWriter(&o)
	w.Write(raw)
	w.Close()
	var r kgzip.Reader
	b.SetBytes(int64(len(raw)))
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		r.Reset(bytes.NewReader(o.Bytes()))
		io.Copy(io.Discard, &r)
	}
}
func BenchmarkGzipD_std(b *testing.B) {
	var o bytes.Buffer
	w := gzip.NewWriter(&o)
	w.Write(raw)
	w.Close()
	var r gzip.Reader
	b.SetBytes(int64(len(raw)))
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		r.Reset(bytes.NewReader(o.Bytes()))
		io.Copy(io.Discard, &r)
	}
}
