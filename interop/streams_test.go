//go:build interop

package interop

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// vocabulary is how many words the texts are made of.
const vocabulary = 150

// TestStreams runs a Kafka Streams application that counts words: by a
// repartition topic, into a store with a changelog, at least once. It is
// killed in the middle of its work and started again, with its directory and
// without: no word is counted too few times, and after a quiet restart every
// word exactly right.
func TestStreams(t *testing.T) {
	addr := target(t, consumerTimes...)
	adm := admin(t, addr)
	topic := createTopic(t, addr, "texts", partitions, nil)
	out := createTopic(t, addr, "counts", 2, nil)
	w := startWordCount(t, addr, topic, out)
	texts := 4000
	kills := 2
	if full() {
		texts, kills = 40_000, 10
	}
	for i := range kills {
		w.write(t, texts)
		w.awaitSome(t)
		w.kill()
		if i%2 == 1 {
			w.dir = t.TempDir() // the store has to come out of the changelog
		}
		w.start(t)
	}
	w.write(t, texts)
	w.awaitDone(t, adm)
	counts := w.counts(t, adm)
	over := 0
	for word, n := range w.want {
		if counts[word] < n {
			t.Errorf("%s was counted %d times, is there %d times", word, counts[word], n)
		}
		over += int(counts[word] - n)
	}
	t.Logf("%d texts, %d kills: all %d words counted, %d of them more than once", (kills+1)*texts, kills, (kills+1)*texts*wordsOfText, over)
	w.stop(t)
	w.start(t)
	w.want = map[string]int64{}
	w.write(t, texts)
	w.awaitDone(t, adm)
	after := w.counts(t, adm)
	for word, n := range w.want {
		if after[word] != counts[word]+n {
			t.Errorf("after a quiet restart %s was counted %d times more, want %d", word, after[word]-counts[word], n)
		}
	}
	w.stop(t)
}

const wordsOfText = 10

// wordCount is the application, what is written for it, and what it says.
type wordCount struct {
	addr, topic, out, id, dir string
	cl                        *kgo.Client
	want                      map[string]int64
	p                         *program
	written                   int64 // counts before the last write

	mu      sync.Mutex
	running chan struct{} // closed when the application says so; under mu
}

func startWordCount(t *testing.T, addr, topic, out string) *wordCount {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	w := &wordCount{addr: addr, topic: topic, out: out, id: "wordcount-" + topic, dir: t.TempDir(), cl: cl, want: map[string]int64{}}
	w.start(t)
	return w
}

// start starts the application and waits until it runs.
func (w *wordCount) start(t *testing.T) {
	t.Helper()
	start := time.Now()
	running := make(chan struct{})
	w.mu.Lock()
	w.running = running
	w.mu.Unlock()
	var once sync.Once
	w.p = startProgram(t, func(line string) {
		if line == "running" {
			once.Do(func() { close(running) })
		}
	}, javaProgram(t, "WordCount"), w.addr, w.id, w.topic, w.out, w.dir)
	select {
	case <-running:
		t.Logf("the application runs after %v", time.Since(start).Round(100*time.Millisecond))
	case <-w.p.done:
		t.Fatalf("the application ended:\n%s", w.p.log.last(30))
	case <-time.After(time.Minute):
		t.Fatalf("the application does not run after a minute:\n%s", w.p.log.last(30))
	}
}

func (w *wordCount) kill() { w.p.kill() }

// stop ends the application as its operator would.
func (w *wordCount) stop(t *testing.T) {
	t.Helper()
	w.p.in.Close()
	select {
	case <-w.p.done:
	case <-time.After(time.Minute):
		t.Fatal("the application goes on")
	}
	if code := w.p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("the application ended with %d:\n%s", code, w.p.log.last(30))
	}
}

// write writes texts and adds their words to what is wanted.
func (w *wordCount) write(t *testing.T, texts int) {
	t.Helper()
	w.written = endSum(t, kadm.NewClient(w.cl), w.out)
	records := make([]*kgo.Record, texts)
	for i := range records {
		words := make([]string, wordsOfText)
		for k := range words {
			words[k] = fmt.Sprintf("word%d", rand.IntN(vocabulary))
			w.want[words[k]]++
		}
		records[i] = kgo.StringRecord(strings.Join(words, " "))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// awaitSome waits until the application has written some counts more than
// before the last write; by now it may have written all that there will be.
func (w *wordCount) awaitSome(t *testing.T) {
	t.Helper()
	adm := kadm.NewClient(w.cl)
	await(t, "the application goes on", func() bool { return endSum(t, adm, w.out) > w.written+1000 })
}

// awaitDone waits until the application has committed the ends of its input
// and of its own topics.
func (w *wordCount) awaitDone(t *testing.T, adm *kadm.Client) {
	t.Helper()
	repartition := w.id + "-counts-repartition"
	await(t, "the application has read everything", func() bool {
		got, err := adm.FetchOffsets(t.Context(), w.id)
		if err != nil {
			t.Fatal(err)
		}
		ends, err := adm.ListEndOffsets(t.Context(), w.topic, repartition)
		if err != nil {
			t.Fatal(err)
		}
		done := len(ends[repartition]) > 0
		ends.Each(func(o kadm.ListedOffset) {
			if c, ok := got.Lookup(o.Topic, o.Partition); o.Offset > 0 && (!ok || c.At < o.Offset) {
				done = false
			}
		})
		return done
	})
}

// await asks until done says so, for a minute.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func endSum(t *testing.T, adm *kadm.Client, topic string) (sum int64) {
	t.Helper()
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum
}

// counts reads the last count of every word.
func (w *wordCount) counts(t *testing.T, adm *kadm.Client) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	readTopic(t, w.addr, adm, w.out, func(r *kgo.Record) {
		counts[string(r.Key)] = int64(binary.BigEndian.Uint64(r.Value))
	})
	return counts
}

// readTopic gives every record of a topic, as it is now, to f.
func readTopic(t *testing.T, addr string, adm *kadm.Client, topic string, f func(*kgo.Record)) {
	t.Helper()
	left := endSum(t, adm, topic)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for left > 0 {
		fetched := cl.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatalf("%s: %d records are missing: %v", topic, left, err)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			left--
			f(r)
		})
	}
}
