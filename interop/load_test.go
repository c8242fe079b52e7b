//go:build interop

package interop

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

// TestKcatRoundTrip produces a few lines with each codec and reads them back.
func TestKcatRoundTrip(t *testing.T) {
	need(t, "kcat")
	addr := target(t)
	for codec, name := range raw.CodecNames {
		topic := createTopic(t, addr, "kcat-"+name, 1, nil)
		in := strings.Repeat("k"+delimiter+"Klamm was here, and left.\n", 100)
		file := filepath.Join(t.TempDir(), "in")
		if err := os.WriteFile(file, []byte(in), 0o644); err != nil {
			t.Fatal(err)
		}
		kcatProduce(t, addr, topic, name, file)
		if got := kcatConsume(t, addr, topic, 0); string(got) != in {
			t.Errorf("%s: got %d bytes, want %d", name, len(got), len(in))
		}
		wantCodec(t, addr, topic, codec)
	}
}

// TestRealData loads a real data set with each codec and reads it with every
// kind of client: per partition, byte for byte, in order.
func TestRealData(t *testing.T) {
	need(t, "kcat")
	l := makeLoad(t)
	addr := target(t)
	for codec, name := range raw.CodecNames {
		t.Run(name, func(t *testing.T) {
			topic := createTopic(t, addr, "data-"+name, partitions, nil)
			start := time.Now()
			kcatProduce(t, addr, topic, name, l.input)
			t.Logf("%d lines produced in %v", l.lines, time.Since(start).Round(time.Millisecond))
			wantCodec(t, addr, topic, codec)
			t.Run("kcat", func(t *testing.T) {
				for p := range partitions {
					l.check(t, "kcat", p, kcatConsume(t, addr, topic, p))
				}
			})
			t.Run("java", func(t *testing.T) { javaConsume(t, l, addr, topic) })
			t.Run("franz-go", func(t *testing.T) { franzConsume(t, l, addr, topic) })
			t.Run("barnabas", func(t *testing.T) {
				for p := range partitions {
					l.check(t, "barnabas consume", p, barnabasConsume(t, addr, topic, p))
				}
			})
		})
	}
}

// TestLongLine sends the one line of almost 10 MB with raised limits.
func TestLongLine(t *testing.T) {
	need(t, "kcat")
	l := makeLoad(t)
	want, err := os.ReadFile(l.long)
	if err != nil {
		t.Fatal(err)
	}
	addr := target(t)
	topic := createTopic(t, addr, "long", 1, map[string]*string{"max.message.bytes": kadm.StringPtr("20000000")})
	kcatProduce(t, addr, topic, "none", l.long, "-X", "message.max.bytes=20000000")
	t.Logf("one line of %d bytes", len(want)-len("long"+delimiter)-1)
	if got := kcatConsume(t, addr, topic, 0, "-X", "fetch.message.max.bytes=20000000", "-X", "fetch.max.bytes=30000000", "-X", "receive.message.max.bytes=40000000"); !bytes.Equal(got, want) {
		t.Errorf("kcat: %d bytes, want %d", len(got), len(want))
	}
	l.want = [][]byte{want}
	t.Run("java", func(t *testing.T) { javaConsume(t, l, addr, topic) })
	t.Run("franz-go", func(t *testing.T) { franzConsume(t, l, addr, topic) })
	t.Run("barnabas", func(t *testing.T) { l.check(t, "barnabas consume", 0, barnabasConsume(t, addr, topic, 0)) })
}

func kcatProduce(t testing.TB, addr, topic, codec, file string, more ...string) {
	t.Helper()
	args := []string{"-b", addr, "-P", "-t", topic, "-K", delimiter, "-z", codec, "-X", "partitioner=murmur2", "-l"}
	run(t, ".", "kcat", append(append(args, more...), file)...)
}

func kcatConsume(t testing.TB, addr, topic string, p int, more ...string) []byte {
	t.Helper()
	args := []string{"-b", addr, "-C", "-t", topic, "-p", strconv.Itoa(p), "-o", "beginning", "-e", "-q", "-K", delimiter}
	return []byte(run(t, ".", "kcat", append(args, more...)...))
}

// javaConsume reads with the Java client's assign().
func javaConsume(t *testing.T, l load, addr, topic string) {
	dir := t.TempDir()
	javaRun(t, "Consume", addr, topic, delimiter, dir)
	for p := range l.want {
		got, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(p)))
		if err != nil {
			t.Fatal(err)
		}
		l.check(t, "java", p, got)
	}
}

// franzConsume reads all partitions with franz-go.
func franzConsume(t *testing.T, l load, addr, topic string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	left := 0
	for _, w := range l.want {
		left += bytes.Count(w, []byte("\n"))
	}
	got := make([]bytes.Buffer, len(l.want))
	for left > 0 {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("%d records are missing: %v", left, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			left--
			b := &got[r.Partition]
			b.Write(r.Key)
			b.WriteString(delimiter)
			b.Write(r.Value)
			b.WriteByte('\n')
		})
	}
	for p := range l.want {
		l.check(t, "franz-go", p, got[p].Bytes())
	}
}

// barnabasConsume reads a partition with our own command line, whose format
// strings are kcat's.
func barnabasConsume(t testing.TB, addr, topic string, p int) []byte {
	t.Helper()
	bin := os.Getenv("INTEROP_CONSUME")
	if bin == "" {
		if bin = os.Getenv("BARNABAS_BIN"); bin == "" {
			bin = filepath.Join("..", "bin", "barnabas")
		}
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(bin); err != nil {
		t.Skipf("no command line: %v", err)
	}
	return []byte(run(t, ".", bin, "consume", topic, "-b", addr, "-p", strconv.Itoa(p), "-O", "beginning", "-e", "-f", "%k"+delimiter+`%s\n`))
}

// wantCodec demands that every batch of a topic is stored with the codec.
func wantCodec(t testing.TB, addr, topic string, codec int) {
	t.Helper()
	counts := codecsOf(t, addr, topic, codec)
	if len(counts) != 1 || counts[codec] == 0 {
		t.Errorf("%s: stored batches by codec %v, want only codec %d (%s)", topic, counts, codec, raw.CodecNames[codec])
		return
	}
	t.Logf("%s: %d batches stored, all %s", topic, counts[codec], raw.CodecNames[codec])
}
