package checkpoint_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/checkpoint"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func TestFormat(t *testing.T) {
	got := string(checkpoint.Format(map[kafka.TopicPartition]int64{
		{Topic: "orders", Partition: 10}: 0,
		{Topic: "orders", Partition: 9}:  1 << 62,
		{Topic: "__a", Partition: 0}:     7,
	}))
	want := "0\n3\n__a 0 7\norders 9 4611686018427387904\norders 10 0\n"
	if got != want {
		t.Fatalf("%q, want %q", got, want)
	}
}

func TestReadsWhatItWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tp := rapid.Custom(func(t *rapid.T) kafka.TopicPartition {
			return kafka.TopicPartition{
				Topic:     rapid.StringMatching(`[a-zA-Z0-9._-]{1,20}`).Draw(t, "topic"),
				Partition: rapid.Int32Min(0).Draw(t, "partition"),
			}
		})
		want := rapid.MapOfN(tp, rapid.Int64Min(0), 0, 10).Draw(t, "offsets")
		m := vfs.NewMem()
		if err := checkpoint.Write(m, "c", want); err != nil {
			t.Fatal(err)
		}
		got, err := checkpoint.Read(m.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{}), "c")
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestMissingFileIsEmpty(t *testing.T) {
	got, err := checkpoint.Read(vfs.NewMem(), checkpoint.RecoveryPoint)
	if err != nil || got == nil || len(got) != 0 {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestWriteFails(t *testing.T) {
	m := vfs.NewMem()
	if err := checkpoint.Write(m, "c", map[kafka.TopicPartition]int64{{Topic: "t"}: 1}); err != nil {
		t.Fatal(err)
	}
	m.SetCapacity(m.Used() + 3)
	err := checkpoint.Write(m, "c", map[kafka.TopicPartition]int64{{Topic: "t"}: 2})
	if !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatal(err)
	}
	got, err := checkpoint.Read(m, "c")
	if err != nil || got[kafka.TopicPartition{Topic: "t"}] != 1 {
		t.Fatalf("after a failed write: %v, %v", got, err)
	}
	if names, _ := m.List("/"); len(names) != 1 {
		t.Fatalf("left on the full disk: %q", names)
	}
}

// As a broker of Apache Kafka 4.4.0 left them.
func TestReadsApacheKafka(t *testing.T) {
	for content, want := range map[string]map[kafka.TopicPartition]int64{
		"":       {}, // created, and not written yet
		"0\n0\n": {},
		"0\n3\ntxn 0 6\nrolled 0 8\ncodecs 0 59\n": {{Topic: "txn"}: 6, {Topic: "rolled"}: 8, {Topic: "codecs"}: 59},
	} {
		got, err := checkpoint.Parse("f", []byte(content))
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", content, got, err)
		}
	}
}

func TestAcceptsJavaOnWindows(t *testing.T) {
	got, err := checkpoint.Parse("c", []byte("0\r\n1\r\nt 0 5\r\n"))
	if err != nil || got[kafka.TopicPartition{Topic: "t"}] != 5 {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{"\n", `f:1: corrupt: version is "", not a number of 32 bits`},
		{"0", `f:1: corrupt: the file ends within the line "0"`},
		{"0\n", "f:2: corrupt: the file ends here"},
		{"1\n0\n", "f:1: corrupt: unknown version 1, expected 0"},
		{"x\n0\n", `f:1: corrupt: version is "x", not a number of 32 bits`},
		{"0\n-1\n", "f:2: corrupt: number of entries is -1, below 0"},
		{"0\n1\n", "f:3: corrupt: the file ends here"},
		{"0\n1\nt 0 5", `f:3: corrupt: the file ends within the line "t 0 5"`},
		{"0\n1\n\n", "f:3: corrupt: empty line after 0 of 1 entries"},
		{"0\n1\nt 0\n", `f:3: corrupt: 2 fields in "t 0", expected 3`},
		{"0\n1\nt 0 5 6\n", `f:3: corrupt: 4 fields in "t 0 5 6", expected 3`},
		{"0\n1\nt 0 5\nt 1 5\n", "f:4: corrupt: more lines than the 1 entries announced"},
		{"0\n2\nt 0 5\nt 0 5\n", "f:4: corrupt: partition t-0 is listed twice"},
		{"0\n1\nt -1 5\n", "f:3: corrupt: partition is -1, below 0"},
		{"0\n1\nt 0 -5\n", "f:3: corrupt: offset is -5, below 0"},
		{"0\n1\nt 0 +5\n", `f:3: corrupt: offset is "+5", not a number of 64 bits`},
		{"0\n1\nt 0 05\n", `f:3: corrupt: offset is "05", not a number of 64 bits`},
		{"0\n1\nt 2147483648 5\n", `f:3: corrupt: partition is "2147483648", not a number of 32 bits`},
		{"0\n2147483647\n", "f:3: corrupt: the file ends here"},
		{"0\n1\n" + strings.Repeat("\x00", 4096) + "\n", "f:3: corrupt: 1 fields in "},
	} {
		_, err := checkpoint.Parse("f", []byte(c.content))
		if !errors.Is(err, vfs.ErrCorrupt) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.content, err, c.want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%q: an error of %d bytes", c.content, len(err.Error()))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("0\n2\norders 0 5120\norders 1 4711\n"))
	f.Add([]byte("0\n0\n"))
	f.Add([]byte("0\r\n1\r\nt 0 5\r\n"))
	f.Add([]byte("0\n999999999\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := checkpoint.Parse("f", data)
		if err != nil {
			if !errors.Is(err, vfs.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := checkpoint.Parse("f", checkpoint.Format(got))
		if err != nil || !maps.Equal(again, got) {
			t.Fatalf("%v, %v, want %v", again, err, got)
		}
	})
}
