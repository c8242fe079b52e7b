//go:build unix

package brokertest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A log start that was answered holds, whenever the broker is killed.
func TestADM12REC04Killed(t *testing.T) {
	dir := t.TempDir()
	acked := int64(0)
	for round := range 4 {
		b := spawn(t, dir, 0, "log.segment.bytes=1048576")
		p := b.dial()
		if round == 0 {
			p.create("kill", 1)
		} else {
			if start := p.list("kill", 0, -2).Offset; start < acked {
				t.Fatalf("round %d: log start %d, and %d was answered", round, start, acked)
			}
			if got := p.fetch(fetchOf(12, "kill", [16]byte{}, at{0, acked - 1, 0}))[0]; got.ErrorCode != kerr.OffsetOutOfRange.Code {
				t.Errorf("round %d: a deleted record is fetched: %s", round, name(got.ErrorCode))
			}
		}
		from := p.end("kill", 0)
		if want := int64(round * 100); from != want {
			t.Fatalf("round %d: log end %d, want %d", round, from, want)
		}
		for range 100 {
			p.write("kill", records(strings.Repeat("x", 50_000)))
		}
		killed := make(chan struct{})
		enough := from + 30 // of them, before the kill
		go func() {
			defer close(killed)
			for req := int64(0); ; req++ {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				resp, err := p.c.Do(ctx, upTo(2, "kill", min(from+req+1, from+100)))
				cancel()
				if err != nil {
					return // killed while it worked
				}
				low := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].LowWatermark
				acked = max(acked, low)
				if low == enough {
					_ = b.cmd.Process.Kill()
				}
			}
		}()
		select {
		case <-killed:
		case <-time.After(patience):
			t.Fatal("the broker lives")
		}
		b.kill()
		if acked < enough {
			t.Fatalf("round %d: only %d were answered", round, acked)
		}
	}
}

func TestDescribeProducers(t *testing.T) {
	dir := t.TempDir()
	b := spawn(t, dir, 0)
	p := b.dial()
	p.create("idem", 2)
	p.write("idem", records("nobody's"))
	wantList(t, "nobody", p.producers("idem", 0))
	p.write("idem", from(9, 0, "a", "b"), from(9, 0, "c"))
	p.write("idem", from(7, 0, "d"))
	p.write("idem", from(9, 2, "e"))
	want := []string{"7/0 0 at 0 -1 -1", "9/0 2 at 0 -1 -1"}
	wantList(t, "two", p.producers("idem", 0), want...)
	wantList(t, "another partition", p.producers("idem", 1), "9/0 0 at 0 -1 -1")
	wantList(t, "unknown partition", p.producers("idem", 2), "UNKNOWN_TOPIC_OR_PARTITION")
	wantList(t, "unknown topic", p.producers("ghost", 0), "UNKNOWN_TOPIC_OR_PARTITION")
	wantList(t, "bad name", p.producers("a b", 0), "INVALID_TOPIC_EXCEPTION")
	b.kill()
	b = spawn(t, dir, 0)
	p = b.dial()
	wantList(t, "after a kill", p.producers("idem", 0), want...)
	b.stop()
	p = spawn(t, dir, 0).dial()
	wantList(t, "after a stop", p.producers("idem", 0), want...)
	p.deleteRecords(upTo(2, "idem", -1))
	wantList(t, "records are gone", p.producers("idem", 0), want...)
}
