package main

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

var rnd uint64 = 88172645463325252

// value makes one JSON-like value; lz4 shrinks a batch of them about 2.5 times.
func value(n int) []byte {
	b := make([]byte, n)
	x := rnd
	defer func() { rnd = x }()
	var sb strings.Builder
	for sb.Len() < n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		fmt.Fprintf(&sb, `{"id":%d,"region":"eu-west-%d","status":"shipped","hash":"%08x","amount":%d.%02d}`, x%100000, x%3, uint32(x>>20), x%1000, x%100)
	}
	copy(b, sb.String())
	if *random {
		for i := range b {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			b[i] = byte(x)
		}
	}
	return b
}

// pool is a ring of distinct values.
func pool() [][]byte {
	p := make([][]byte, 2048)
	for i := range p {
		p[i] = value(max(*size, 8))
	}
	return p
}

func codec() kgo.CompressionCodec {
	switch *comp {
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "gzip":
		return kgo.GzipCompression()
	}
	return kgo.NoCompression()
}
