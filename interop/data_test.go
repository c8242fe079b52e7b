//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

const (
	partitions = 8
	delimiter  = "|#|"
	lineLimit  = 900_000
)

// load is the real input: what is produced, and what each partition must then
// hold.
type load struct {
	input string   // file of key, delimiter, line
	lines int      // in it
	want  [][]byte // by partition, in the form of the input
	long  string   // file with the one longest line, over the limit
}

// makeLoad turns the data set into one file of keyed lines, and works out
// which partition each belongs to by an implementation of murmur2 that is not
// the producer's.
func makeLoad(t testing.TB) load {
	t.Helper()
	var all bytes.Buffer
	l := load{want: make([][]byte, partitions)}
	part := kgo.StickyKeyPartitioner(nil).ForTopic("")
	var longest []byte
	for _, file := range datasetFiles(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(delimiter)) {
			t.Fatalf("%s contains the delimiter", file)
		}
		name := filepath.Base(file)
		for i, line := range bytes.Split(data, []byte("\n")) {
			switch {
			case len(line) == 0:
				continue
			case len(line) > lineLimit:
				if len(line) > len(longest) {
					longest = line
				}
				continue
			}
			key := name + ":" + strconv.Itoa(i%100)
			p := part.Partition(&kgo.Record{Key: []byte(key)}, partitions)
			start := all.Len()
			fmt.Fprintf(&all, "%s%s%s\n", key, delimiter, line)
			l.want[p] = append(l.want[p], all.Bytes()[start:]...)
			l.lines++
		}
	}
	dir := t.TempDir()
	l.input, l.long = filepath.Join(dir, "input"), filepath.Join(dir, "long")
	for file, content := range map[string][]byte{l.input: all.Bytes(), l.long: append([]byte("long"+delimiter), append(longest, '\n')...)} {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// check compares what a consumer wrote for a partition with what went in.
func (l load) check(t testing.TB, who string, p int, got []byte) {
	t.Helper()
	if bytes.Equal(got, l.want[p]) {
		return
	}
	at := 0
	for at < len(got) && at < len(l.want[p]) && got[at] == l.want[p][at] {
		at++
	}
	t.Errorf("%s, partition %d: %d bytes, want %d; first difference at byte %d, line %d: got %.80q want %.80q",
		who, p, len(got), len(l.want[p]), at, bytes.Count(l.want[p][:at], []byte("\n"))+1, got[at:], l.want[p][at:])
}

func admin(t testing.TB, addr string, opts ...kgo.Opt) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(addr, ",")...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// createTopic makes a topic of its own name for a test.
func createTopic(t testing.TB, addr, prefix string, n int32, configs map[string]*string) string {
	t.Helper()
	return createReplicated(t, addr, prefix, n, 1, configs)
}

func createReplicated(t testing.TB, addr, prefix string, n int32, replicas int16, configs map[string]*string, opts ...kgo.Opt) string {
	t.Helper()
	name := fmt.Sprintf("%s-%x", prefix, time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := admin(t, addr, opts...).CreateTopic(ctx, n, replicas, configs, name); err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return name
}

// codecsOf reads every stored batch of a topic and counts them by codec. A
// batch that the codec does not make smaller counts as one of the codec:
// librdkafka sends it plain.
func codecsOf(t testing.TB, addr, topic string, codec int) map[int]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ends, err := admin(t, addr).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{}
	conn, err := raw.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ends.Each(func(o kadm.ListedOffset) {
		for at := int64(0); at < o.Offset; {
			next := at
			b := fetchAt(t, conn, topic, o.Partition, at)
			if _, err := raw.Walk(b, func(h raw.Header, _ []byte) error {
				if h.Codec() == raw.None && !shrinks(t, codec, h.Records) {
					counts[codec]++
				} else {
					counts[h.Codec()]++
				}
				next = h.FirstOffset + int64(h.LastOffsetDelta) + 1
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if next == at {
				t.Fatalf("%s-%d: no progress at %d of %d", topic, o.Partition, at, o.Offset)
			}
			at = next
		}
	})
	return counts
}

func shrinks(t testing.TB, codec int, records []byte) bool {
	t.Helper()
	packed, err := raw.Pack(codec, records)
	if err != nil {
		t.Fatal(err)
	}
	return len(packed) < len(records)*19/20
}

func fetchAt(t testing.TB, conn *raw.Conn, topic string, p int32, offset int64) []byte {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, 500, 1, 32<<20, -1
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offset, 16<<20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{rp}}}
	resp, err := conn.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if got.ErrorCode != 0 {
		t.Fatalf("%s-%d at %d: error %d", topic, p, offset, got.ErrorCode)
	}
	return got.RecordBatches
}
