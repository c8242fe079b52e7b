package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// text is n bytes that compress as logs do.
func text(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, `{"id":%d,"level":"info","message":"user %d logged in"}`, rng.IntN(1e6), rng.IntN(100))
	}
	return b.Bytes()[:n]
}

func noise(n int) []byte {
	rng := rand.New(rand.NewPCG(3, 4))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}

func mustCompress(t testing.TB, e Encoding, src []byte) []byte {
	t.Helper()
	out, err := Compress(nil, e, src)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCodecRoundTrip covers the sizes of PROD-11, 1 byte to 1 MB and above, and
// lets franz-go's decompressor read everything.
func TestCodecRoundTrip(t *testing.T) {
	for c := range Codec(codecs) {
		for _, src := range [][]byte{nil, {7}, text(100), text(32 << 10), text(32<<10 + 1), text(1 << 20), noise(1000), noise(300_000), make([]byte, 3<<20)} {
			body := mustCompress(t, Encoding{Codec: c}, src)
			got, err := Decompress([]byte("x"), c, body, len(src)+1)
			if err != nil || !bytes.Equal(got[1:], src) {
				t.Fatalf("%v of %d bytes: %d bytes, %v", c, len(src), len(got)-1, err)
			}
			if len(src) == 0 {
				continue // kgo refuses some empty bodies, which no batch has
			}
			theirs, err := kgo.DefaultDecompressor().Decompress(body, kgo.CompressionCodecType(c))
			if err != nil || !bytes.Equal(theirs, src) {
				t.Fatalf("kgo opens %v of %d bytes: %d bytes, %v", c, len(src), len(theirs), err)
			}
		}
	}
}

func TestEveryLevel(t *testing.T) {
	src := text(50_000)
	for c := range Codec(codecs) {
		least, greatest := c.Levels()
		for level := max(least, -3); level <= greatest; level++ {
			e := Encoding{c, level}
			if err := e.Check(); err != nil {
				t.Fatal(err)
			}
			body := mustCompress(t, e, src)
			if got, err := Decompress(nil, c, body, 0); err != nil || !bytes.Equal(got, src) {
				t.Errorf("%v level %d: %v", c, level, err)
			}
		}
	}
	small := len(mustCompress(t, Encoding{Gzip, 9}, src))
	if large := len(mustCompress(t, Encoding{Gzip, 1}, src)); small >= large {
		t.Errorf("gzip 9 makes %d bytes, gzip 1 %d", small, large)
	}
	if hard, fast := len(mustCompress(t, Encoding{LZ4, 17}, src)), len(mustCompress(t, Encoding{LZ4, 9}, src)); hard >= fast {
		t.Errorf("lz4 17 makes %d bytes, 9 (the fast one) %d", hard, fast)
	}
	src, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if hard, fast := len(mustCompress(t, Encoding{Zstd, 22}, src)), len(mustCompress(t, Encoding{Zstd, -5}, src)); hard >= fast {
		t.Errorf("zstd 22 makes %d bytes, -5 makes %d", hard, fast)
	}
}

func TestLevelsThatDoNotExist(t *testing.T) {
	for _, e := range []Encoding{
		{Gzip, -2}, {Gzip, 10}, {LZ4, -1}, {LZ4, 18}, {Zstd, 23}, {Zstd, -1<<17 - 1}, {Snappy, 1}, {None, 1}, {5, 0}, {-1, 0},
	} {
		if e.Check() == nil {
			t.Errorf("%v passes", e)
		}
		if out, err := Compress([]byte("x"), e, []byte("y")); err == nil || string(out) != "x" {
			t.Errorf("%v compresses: %q %v", e, out, err)
		}
	}
	if err := (Encoding{Gzip, -1}).Check(); err != nil {
		t.Error(err)
	}
}

func TestParseCodec(t *testing.T) {
	for c := range Codec(codecs) {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%v reads as %v, %v", c, got, err)
		}
	}
	if got, err := ParseCodec("uncompressed"); err != nil || got != None {
		t.Errorf("uncompressed reads as %v, %v", got, err)
	}
	for _, name := range []string{"", "producer", "GZIP", "codec(5)"} {
		if _, err := ParseCodec(name); err == nil {
			t.Errorf("%q is a codec", name)
		}
	}
	if s := Codec(6).String(); s != "codec(6)" {
		t.Error(s)
	}
}

func TestTopicEncoding(t *testing.T) {
	for name, want := range map[string]*Encoding{
		"producer": nil, "uncompressed": {}, "none": {}, "snappy": {Codec: Snappy}, "gzip": {Gzip, -1}, "lz4": {LZ4, 9}, "zstd": {Zstd, 3},
	} {
		got, err := TopicEncoding(name, -1, 9, 3) // the defaults of the keys
		if err != nil || (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "brotli", "lz4"} {
		if _, err := TopicEncoding(name, -1, 18, 3); err == nil {
			t.Errorf("%q with lz4 level 18 passes", name)
		}
	}
}

func TestSnappyDresses(t *testing.T) {
	src := text(100_000)
	body := mustCompress(t, Encoding{Codec: Snappy}, src)
	if want := "\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"; !bytes.HasPrefix(body, []byte(want)) {
		t.Errorf("begins with %x, not with the framing of the Java library", body[:16])
	}
	if n, err := s2.DecodedLen(body[20:]); err != nil || n != 32<<10 {
		t.Errorf("the first block holds %d bytes (%v), Java's hold 32 KiB", n, err)
	}
	bare := s2.EncodeSnappy(nil, src)
	joined := append(bytes.Clone(body), mustCompress(t, Encoding{Codec: Snappy}, []byte("more"))...)
	for name, c := range map[string]struct{ body, want []byte }{
		"framed": {body, src}, "bare block": {bare, src}, "two streams": {joined, append(bytes.Clone(src), "more"...)},
		"header only": {body[:16], nil},
	} {
		if got, err := Decompress(nil, Snappy, c.body, 0); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestLZ4FrameIsKafkas(t *testing.T) {
	body := mustCompress(t, Encoding{Codec: LZ4}, text(1000))
	// Version 1, independent blocks, no checksums, no size; blocks of 64 KiB; and
	// the second byte of the descriptor's xxHash32.
	if want := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}; !bytes.HasPrefix(body, want) {
		t.Errorf("begins with %x, want %x", body[:7], want)
	}
	if end := body[len(body)-4:]; !bytes.Equal(end, make([]byte, 4)) {
		t.Errorf("ends with %x, not the end mark", end)
	}
}

func TestLZ4FramesOfOthers(t *testing.T) {
	src := text(200_000)
	for name, options := range map[string][]lz4.Option{
		"checksums and size": {lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(src)))},
		"blocks of 4 MiB":    {lz4.BlockSizeOption(lz4.Block4Mb), lz4.CompressionLevelOption(lz4.Level9)},
	} {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		if err := w.Apply(options...); err != nil {
			t.Fatal(err)
		}
		w.Write(src)
		w.Close()
		if got, err := Decompress(nil, LZ4, b.Bytes(), len(src)); err != nil || !bytes.Equal(got, src) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	if err := w.Apply(lz4.LegacyOption(true)); err != nil {
		t.Fatal(err)
	}
	w.Write(src)
	w.Close()
	if _, err := Decompress(nil, LZ4, b.Bytes(), 0); !errors.Is(err, ErrMalformed) {
		t.Errorf("a legacy frame, which no client reads: %v", err)
	}
}

// TestZstdWithoutSize is what Java and librdkafka write: a stream whose frame
// does not state its size, so the first room may be too small.
func TestZstdWithoutSize(t *testing.T) {
	for _, src := range [][]byte{text(200_000), make([]byte, 5<<20)} {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(8<<20))
		if err != nil {
			t.Fatal(err)
		}
		for part := range bytes.SplitSeq(src, []byte("zzz")) {
			w.Write(part)
			w.Flush()
		}
		w.Close()
		got, err := Decompress(nil, Zstd, b.Bytes(), len(src))
		if err != nil || !bytes.Equal(got, src) {
			t.Errorf("%d bytes of %d, %v", len(got), len(src), err)
		}
		if _, err := Decompress(nil, Zstd, b.Bytes(), len(src)-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("a byte above the limit: %v", err)
		}
	}
}

func TestLimitIsExact(t *testing.T) {
	for _, n := range []int{1, 100, 4096, 70_000, 2 << 20} {
		src := text(n)
		for c := range Codec(codecs) {
			body := mustCompress(t, Encoding{Codec: c}, src)
			if got, err := Decompress(nil, c, body, n); err != nil || len(got) != n {
				t.Errorf("%v, %d bytes at the limit: %v", c, n, err)
			}
			if n > 1 {
				if _, err := Decompress(nil, c, body, n-1); !errors.Is(err, ErrTooLarge) {
					t.Errorf("%v, %d bytes a byte above the limit: %v", c, n, err)
				}
			}
		}
	}
}

// TestBombs opens small bodies that hold 64 MiB, or say that they hold more, and
// measures what is allocated.
func TestBombs(t *testing.T) {
	huge := make([]byte, 64<<20)
	bombs := map[string]struct {
		codec Codec
		body  []byte
	}{
		"zstd":   {Zstd, mustCompress(t, Encoding{Codec: Zstd}, huge)},
		"gzip":   {Gzip, mustCompress(t, Encoding{Codec: Gzip}, huge)},
		"lz4":    {LZ4, mustCompress(t, Encoding{Codec: LZ4}, huge)},
		"snappy": {Snappy, mustCompress(t, Encoding{Codec: Snappy}, huge)},
		// One bare block that says it holds 4 GiB.
		"snappy lie": {Snappy, append(binary.AppendUvarint(nil, 1<<32-1), 0, 0)},
		// Frames of 20 bytes that announce a window of 128 MiB and, the second, 1 GiB
		// of content.
		"zstd window": {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0x02, 0xff, 0x07, 0x00}},
		"zstd lie":    {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x40, 0x02, 0xff, 0x07, 0x00}},
	}
	huge = nil
	runtime.GC()
	const limit = 1 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for name, b := range bombs {
		Decompress(nil, b.codec, b.body, limit) // fill the pools of decoders
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := Decompress(nil, b.codec, b.body, limit)
		runtime.ReadMemStats(&after)
		if len(got) > limit || err == nil {
			t.Errorf("%s: %d bytes, error %v", name, len(got), err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 4*limit {
			t.Errorf("%s: %d bytes allocated under a limit of %d", name, grown, limit)
		}
	}
}

func TestBrokenBodies(t *testing.T) {
	src := text(10_000)
	for c := Gzip; c < codecs; c++ {
		body := mustCompress(t, Encoding{Codec: c}, src)
		for _, cut := range []int{0, 1, 4, 10, len(body) / 2, len(body) - 1} {
			if _, err := Decompress(nil, c, body[:cut:cut], 0); !errors.Is(err, ErrMalformed) {
				t.Errorf("%v cut at %d of %d: %v", c, cut, len(body), err)
			}
		}
		if _, err := Decompress(nil, c, append(bytes.Clone(body), "garbage"...), 0); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v with bytes after it: %v", c, err)
		}
		// The pooled decoder must have recovered.
		if got, err := Decompress(nil, c, body, 0); err != nil || !bytes.Equal(got, src) {
			t.Errorf("%v after broken ones: %v", c, err)
		}
	}
	if out, err := Decompress([]byte("x"), 5, src, 0); !errors.Is(err, ErrMalformed) || string(out) != "x" ||
		!strings.Contains(err.Error(), "codec(5)") {
		t.Errorf("codec 5: %q, %v", out, err)
	}
}

func TestCompressLimit(t *testing.T) {
	src := noise(100_000)
	for c := range Codec(codecs) {
		whole := len(mustCompress(t, Encoding{Codec: c}, src))
		if _, err := compressLimit([]byte("abc"), Encoding{Codec: c}, src, whole); err != nil {
			t.Errorf("%v at the limit: %v", c, err)
		}
		out, err := compressLimit([]byte("abc"), Encoding{Codec: c}, src, whole-1)
		if !errors.Is(err, ErrTooLarge) || string(out) != "abc" {
			t.Errorf("%v above the limit: %d bytes, %v", c, len(out), err)
		}
	}
}

// TestPoolsAreConcurrent runs every codec from several goroutines; the race
// detector watches.
func TestPoolsAreConcurrent(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			src := noise(3000 + g)
			for i := range 40 {
				e := Encoding{Codec: Codec(i % codecs)}
				body, err := Compress(nil, e, src)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := Decompress(nil, e.Codec, body, 0); err != nil || !bytes.Equal(got, src) {
					t.Errorf("%v: %d bytes, %v", e.Codec, len(got), err)
				}
			}
		})
	}
	wg.Wait()
}

func TestBufferPool(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 4097, 8192, 1 << 20, 1<<20 + 1} {
		p := getBuffer(n)
		if cap(p.b) < n || len(p.b) != 0 {
			t.Fatalf("asked %d, got %d/%d", n, len(p.b), cap(p.b))
		}
		if pooled := p.class >= 0; pooled != (n <= 1<<20) {
			t.Errorf("%d bytes: pooled %v", n, pooled)
		}
		p.release()
	}
	// A buffer that outgrew the largest class is dropped.
	p := getBuffer(1 << 20)
	p.b = append(p.b, make([]byte, 2<<20)...)
	p.release()
	for range 4 {
		if q := getBuffer(1 << 20); cap(q.b) > 1<<20 {
			t.Fatal("a huge buffer came back")
		}
	}
}
