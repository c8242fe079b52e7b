//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKill kills the broker with SIGKILL at random instants while an idempotent
// producer sends the data set's lines over and over with acks=all, starts it
// again, and demands that no acknowledged record is missing, none is there
// twice, all are in order, unchanged, and where the acknowledgement said.
func TestKill(t *testing.T) {
	needProcess(t)
	kills, rnd := killPlan(t, 5, 50)
	dir := workDir(t)
	b := startBroker(t, dir)
	listen := b.Addr
	topic := createTopic(t, listen, "kill", partitions, map[string]*string{"segment.bytes": kadm.StringPtr("1048576")})
	p := startPump(t, listen, topic, pumpLines(t))
	for i := range kills {
		p.awaitProgress(t)
		pause(time.Duration(rnd.IntN(400)) * time.Millisecond)
		b.kill()
		start := time.Now()
		b = startBrokerAt(t, dir, listen)
		t.Logf("kill %d: %d acknowledged; ready again in %v", i+1, p.count(), time.Since(start).Round(time.Millisecond))
	}
	p.awaitProgress(t)
	p.finish(t)
	p.check(t, listen)
	b.stop()
}

// pause waits for an instant that is random on purpose: the kill is to meet
// the broker anywhere.
func pause(d time.Duration) { <-time.After(d) }

// killPlan is how often to kill, in the short and the full form or as
// INTEROP_KILLS says, and the chance by which, from a seed that is logged.
func killPlan(t *testing.T, short, long int) (kills int, rnd *rand.Rand) {
	t.Helper()
	kills = short
	if full() {
		kills = long
	}
	if s := os.Getenv("INTEROP_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("INTEROP_KILLS: %v", err)
		}
		kills = n
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return kills, rand.New(rand.NewPCG(seed, 1))
}

// pumpLines are the lines of the data set that fit well into the pump's batches.
func pumpLines(t *testing.T) [][]byte {
	data, err := os.ReadFile(makeLoad(t).input)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(bytes.Split(data, []byte("\n")), func(l []byte) bool { return len(l) == 0 || len(l) > 16<<10 })
	t.Logf("%d lines", len(lines))
	return lines
}

// pump produces numbered lines to all partitions until told to stop.
type pump struct {
	cl     *kgo.Client
	topic  string
	lines  [][]byte
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	acked  [partitions]map[uint64]int64 // number to offset; under mu
	sent   [partitions]uint64           // under mu
	failed error                        // first failure; under mu
	n      int                          // acknowledged; under mu
	more   chan struct{}                // closed and replaced at each acknowledgement
}

func startPump(t *testing.T, addr, topic string, lines [][]byte) *pump {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(addr),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		kgo.ProducerBatchMaxBytes(64<<10),
		kgo.MaxBufferedRecords(20_000),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(50*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &pump{cl: cl, topic: topic, lines: lines, cancel: cancel, done: make(chan struct{}), more: make(chan struct{})}
	for i := range p.acked {
		p.acked[i] = map[uint64]int64{}
	}
	t.Cleanup(func() {
		cancel()
		cl.Close()
	})
	go p.run(ctx)
	return p
}

func (p *pump) run(ctx context.Context) {
	defer close(p.done)
	for i := uint64(0); ctx.Err() == nil; i++ {
		part := int32(i % partitions)
		number := i / partitions
		value := append(binary.BigEndian.AppendUint64(nil, number), p.line(part, number)...)
		p.mu.Lock()
		p.sent[part] = number + 1
		p.mu.Unlock()
		// A record that was sent is waited for: its context is not ctx.
		p.cl.Produce(context.Background(), &kgo.Record{Partition: part, Value: value}, func(r *kgo.Record, err error) {
			p.acknowledge(part, number, r.Offset, err)
		})
	}
}

// line is what a partition's record of that number holds.
func (p *pump) line(part int32, number uint64) []byte {
	return p.lines[(number*partitions+uint64(part))%uint64(len(p.lines))]
}

func (p *pump) acknowledge(part int32, number uint64, offset int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if p.failed == nil {
			p.failed = err
		}
		return
	}
	p.acked[part][number] = offset
	p.n++
	close(p.more)
	p.more = make(chan struct{})
}

func (p *pump) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// awaitProgress waits until a few hundred more records are acknowledged: the
// broker serves again.
func (p *pump) awaitProgress(t *testing.T) {
	t.Helper()
	timeout := time.After(time.Minute)
	for start := p.count(); p.count() < start+500; {
		p.mu.Lock()
		more, failed := p.more, p.failed
		p.mu.Unlock()
		if failed != nil {
			t.Fatalf("the producer failed: %v", failed)
		}
		select {
		case <-more:
		case <-timeout:
			t.Fatal("nothing is acknowledged for a minute")
		}
	}
}

// finish stops producing and waits for every outstanding answer.
func (p *pump) finish(t *testing.T) {
	t.Helper()
	p.cancel()
	<-p.done
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.cl.Flush(ctx); err != nil {
		t.Fatalf("flush: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		t.Fatalf("the producer failed: %v", p.failed)
	}
}

// check reads everything back.
func (p *pump) check(t *testing.T, addr string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	ends, err := admin(t, addr).ListEndOffsets(t.Context(), p.topic)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for part := range int32(partitions) {
		end, ok := ends.Lookup(p.topic, part)
		if !ok {
			t.Fatalf("partition %d has no end", part)
		}
		total += p.checkPartition(t, addr, part, end.Offset)
	}
	t.Logf("%d acknowledged, %d read, none missing, none twice", p.n, total)
	if total < p.n {
		t.Errorf("%d records read, %d acknowledged", total, p.n)
	}
}

func (p *pump) checkPartition(t *testing.T, addr string, part int32, end int64) int {
	t.Helper()
	topic, acked, sent := p.topic, p.acked[part], p.sent[part]
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {part: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := map[uint64]int64{}
	next := uint64(0)
	for at := int64(0); at < end; {
		f := cl.PollFetches(ctx)
		if err := f.Err(); errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("partition %d: stuck at %d of %d", part, at, end)
		} else if err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			number := binary.BigEndian.Uint64(r.Value)
			if old, ok := seen[number]; ok {
				t.Errorf("partition %d: record %d is at offsets %d and %d", part, number, old, r.Offset)
			}
			if !bytes.Equal(r.Value[8:], p.line(part, number)) {
				t.Errorf("partition %d: record %d at offset %d was changed", part, number, r.Offset)
			}
			if number != next {
				t.Errorf("partition %d offset %d: record %d, want %d", part, r.Offset, number, next)
			}
			next = number + 1
			seen[number] = r.Offset
		})
		if t.Failed() {
			return len(seen)
		}
	}
	for number, offset := range acked {
		if at, ok := seen[number]; !ok || at != offset {
			t.Errorf("partition %d: record %d was acknowledged at %d, found %t at %d", part, number, offset, ok, at)
		}
	}
	if next > sent {
		t.Errorf("partition %d: record %d was never sent", part, next-1)
	}
	return len(seen)
}
