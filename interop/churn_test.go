//go:build interop

package interop

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKillChurn is TestKill with everything else going on: segments of a few
// kilobytes, retention of some milliseconds on a second topic, checkpoints and
// deletions all the time, topics that are deleted and made again under the
// same name, and kills that meet the start that the one before caused.
func TestKillChurn(t *testing.T) {
	needProcess(t)
	kills, rnd := killPlan(t, 6, 40)
	dir := workDir(t)
	settings := []string{
		"log.retention.check.interval.ms=20", "log.flush.offset.checkpoint.interval.ms=40", "log.segment.delete.delay.ms=30",
	}
	b := startBroker(t, dir, settings...)
	listen := b.Addr
	stable := createTopic(t, listen, "stable", partitions, map[string]*string{
		"internal.segment.bytes": kadm.StringPtr("200000"), "retention.ms": kadm.StringPtr("-1"), "index.interval.bytes": kadm.StringPtr("500"),
	})
	short := createTopic(t, listen, "short", partitions, map[string]*string{
		"internal.segment.bytes": kadm.StringPtr("100000"), "retention.ms": kadm.StringPtr("5"),
	})
	filler := [][]byte{make([]byte, 300)}
	p, q := startPump(t, listen, stable, filler), startPump(t, listen, short, filler)
	churning := startChurn(t, listen)
	done := 0
	kill := func() {
		b.kill()
		for _, bad := range []string{"panic:", "offline until", "ends below its recovery point", "damaged"} {
			if out := b.log.last(400); strings.Contains(out, bad) {
				t.Fatalf("the broker said %q:\n%s", bad, out)
			}
		}
		done++
		start := time.Now()
		b = startBrokerAt(t, dir, listen, settings...)
		t.Logf("kill %d: %d and %d acknowledged; ready again in %v", done, p.count(), q.count(), time.Since(start).Round(time.Millisecond))
	}
	for done < kills {
		p.awaitProgress(t)
		q.awaitProgress(t)
		pause(time.Duration(rnd.IntN(300)) * time.Millisecond)
		kill()
		for done < kills && rnd.IntN(2) == 0 {
			pause(time.Duration(rnd.IntN(30)) * time.Millisecond)
			kill()
		}
	}
	p.awaitProgress(t)
	q.awaitProgress(t)
	t.Logf("topics made and deleted meanwhile: %d", churning())
	p.finish(t)
	q.finish(t)
	p.check(t, listen)
	q.checkLeft(t, listen)
	b.stop()
}

// startChurn makes topics, writes to them, deletes them, and makes them again
// under the same name, until told to stop; it returns how many there were.
// What fails because the broker was killed is tried again.
func startChurn(t *testing.T, addr string) (stop func() int) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordDeliveryTimeout(2*time.Second), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for w := range 3 {
		wg.Go(func() {
			name := fmt.Sprintf("churn-%d", w)
			for ctx.Err() == nil {
				ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
				_, err := adm.CreateTopic(ctx, 2, 1, nil, name)
				if err == nil {
					mu.Lock()
					made++
					mu.Unlock()
				}
				if err == nil {
					soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
					_ = cl.ProduceSync(soon, &kgo.Record{Topic: name, Value: []byte("v")}, &kgo.Record{Topic: name, Value: []byte("w")})
					cancel()
				}
				_, _ = adm.DeleteTopic(ctx, name)
				cancel()
			}
		})
	}
	return func() int {
		cancel()
		wg.Wait()
		cl.Close()
		return made
	}
}

// checkLeft reads what retention left: of that, everything is where its
// acknowledgement said. That nothing is twice cannot be asked here: batches
// that were deleted before their producer heard of them are not recognized
// after a restart.
func (p *pump) checkLeft(t *testing.T, addr string) {
	t.Helper()
	cl := admin(t, addr)
	starts, err := cl.ListStartOffsets(t.Context(), p.topic)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := cl.ListEndOffsets(t.Context(), p.topic)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for part := range int32(partitions) {
		start, _ := starts.Lookup(p.topic, part)
		end, _ := ends.Lookup(p.topic, part)
		if start.Offset == 0 {
			t.Errorf("partition %d of %s: nothing was deleted of %d records", part, p.topic, end.Offset)
		}
		left := map[int64]uint64{}
		if start.Offset < end.Offset {
			left = readLeft(t, addr, p.topic, part, end.Offset)
		}
		for number, offset := range p.acked[part] {
			got, ok := left[offset]
			if ok && got != number || offset >= end.Offset {
				t.Errorf("partition %d of %s: record %d was acknowledged at %d, where %d is; the end is %d", part, p.topic, number, offset, got, end.Offset)
				break
			}
		}
		t.Logf("partition %d of %s: [%d, %d), %d read", part, p.topic, start.Offset, end.Offset, len(left))
	}
}

// readLeft reads a partition from its start, which moves on, to end.
func readLeft(t *testing.T, addr, topic string, part int32, end int64) map[int64]uint64 {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {part: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	out := map[int64]uint64{}
	for at := int64(0); at < end; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		f := cl.PollFetches(ctx)
		cancel()
		if f.NumRecords() == 0 {
			break // the rest was deleted meanwhile
		}
		f.EachRecord(func(r *kgo.Record) {
			if r.Offset < at {
				t.Errorf("partition %d: offset %d after %d", part, r.Offset, at-1)
			}
			at = r.Offset + 1
			out[r.Offset] = binary.BigEndian.Uint64(r.Value)
		})
	}
	return out
}
