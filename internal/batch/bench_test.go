package batch

import (
	"bytes"
	"fmt"
	"testing"
)

// sized is a batch of about size plain bytes in records of each bytes.
func sized(t testing.TB, e Encoding, size, each int) Batch {
	t.Helper()
	var b Builder
	b.Reset(Options{Encoding: e})
	words := text(size + each)
	for at := 0; b.Size() < size; at += each {
		b.Append(nowMs, words[at:at+8], words[at:at+each])
	}
	_, built, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestValidationDoesNotAllocate(t *testing.T) {
	for c := range Codec(codecs) {
		b := sized(t, Encoding{Codec: c}, 16<<10, 100)
		r := rules()
		r.Encoding = &Encoding{Codec: c}
		if n := testing.AllocsPerRun(100, func() {
			res, err := Validate(b, r)
			if err != nil {
				t.Fatal(err)
			}
			res.Release()
		}); n != 0 {
			t.Errorf("%v: %v allocations", c, n)
		}
		r.LogAppendTime = true
		fresh := bytes.Clone(b)
		if n := testing.AllocsPerRun(100, func() {
			copy(b, fresh)
			if _, err := Validate(b, r); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v with LogAppendTime: %v allocations", c, n)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, shape := range []struct{ size, each int }{{256 << 10, 1024}, {16 << 10, 1024}, {16 << 10, 100}, {1024, 1024}} {
		for _, c := range []Codec{None, LZ4, Zstd} {
			batch := sized(b, Encoding{Codec: c}, shape.size, shape.each)
			b.Run(fmt.Sprintf("%v/%dKiB/record%d", c, shape.size>>10, shape.each), func(b *testing.B) {
				r := rules()
				b.SetBytes(int64(len(batch)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Validate(batch, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkValidateLogAppendTime(b *testing.B) {
	batch := sized(b, Encoding{}, 256<<10, 1024)
	r := rules()
	r.LogAppendTime = true
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		batch.restamp(false, nowMs-1)
		if _, err := Validate(batch, r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for c := Gzip; c < codecs; c++ {
		batch := sized(b, Encoding{Codec: c}, 256<<10, 1024)
		b.Run(c.String(), func(b *testing.B) {
			r := rules()
			r.Full = true
			b.SetBytes(256 << 10)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(batch, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecode(b *testing.B) {
	for c := range Codec(codecs) {
		batch := sized(b, Encoding{Codec: (c + 3) % codecs}, 256<<10, 1024)
		b.Run(fmt.Sprintf("%v-%v", batch.Codec(), c), func(b *testing.B) {
			r := rules()
			r.Encoding = &Encoding{Codec: c}
			b.SetBytes(256 << 10)
			b.ReportAllocs()
			for b.Loop() {
				res, err := Validate(batch, r)
				if err != nil {
					b.Fatal(err)
				}
				res.Release()
			}
		})
	}
}

func BenchmarkRecords(b *testing.B) {
	batch := sized(b, Encoding{}, 256<<10, 100)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		it := Records(batch, 0)
		for it.Next() {
		}
		it.Close()
	}
}

func BenchmarkBuild(b *testing.B) {
	for c := range Codec(codecs) {
		b.Run(c.String(), func(b *testing.B) {
			var builder Builder
			words := text(64 << 10)
			var out []byte
			b.SetBytes(64 << 10)
			b.ReportAllocs()
			for b.Loop() {
				builder.Reset(Options{Encoding: Encoding{Codec: c}})
				for at := 0; at < len(words); at += 1024 {
					builder.Append(nowMs, nil, words[at:at+1024])
				}
				var err error
				if out, _, err = builder.Build(out[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
