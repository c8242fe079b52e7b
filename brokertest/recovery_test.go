//go:build unix

package brokertest_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/batch"
)

// from is an idempotent producer's batch.
func from(pid int64, seq int32, values ...string) []byte {
	return batchOf(batch.Options{Producer: &batch.Producer{ID: pid, Sequence: seq}}, values...)
}

// Whatever became of the producer snapshots, the log says what a producer
// wrote: the duplicate of its last batch is known, and its next one follows on.
func TestREC03ProducerSnapshots(t *testing.T) {
	for what, damage := range map[string]func(t *testing.T, snapshot string){
		"missing": func(t *testing.T, s string) { must(t, os.Remove(s)) },
		"empty":   func(t *testing.T, s string) { must(t, os.Truncate(s, 0)) },
		"corrupt": func(t *testing.T, s string) {
			b, err := os.ReadFile(s)
			must(t, err)
			b[len(b)-1] ^= 0xff
			must(t, os.WriteFile(s, b, 0o600))
		},
		"newer than the log": func(t *testing.T, s string) {
			must(t, os.Rename(s, filepath.Join(filepath.Dir(s), "00000000000000000900.snapshot")))
		},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s killed=%t", what, killed), func(t *testing.T) {
				dir := t.TempDir()
				b := spawn(t, dir, 0)
				p := b.dial()
				p.create("idem", 1)
				p.write("idem", from(7, 0, "a", "b"))
				b.stop() // writes a snapshot at 2
				if killed {
					b = spawn(t, dir, 0)
					b.dial().write("idem", from(7, 2, "c"))
					b.kill()
				}
				snapshots, err := filepath.Glob(filepath.Join(dir, "idem-0", "*.snapshot"))
				must(t, err)
				if len(snapshots) == 0 {
					t.Fatal("there is no snapshot to damage")
				}
				for _, s := range snapshots {
					damage(t, s)
				}

				p = spawn(t, dir, 0).dial()
				last, base, next := from(7, 0, "a", "b"), int64(0), int32(2)
				if killed {
					last, base, next = from(7, 2, "c"), 2, 3
				}
				if got := p.write("idem", last)[0].BaseOffset; got != base {
					t.Errorf("the duplicate was answered with offset %d, the original had %d", got, base)
				}
				if got := p.write("idem", from(7, next, "d"))[0].BaseOffset; got != int64(next) {
					t.Errorf("the next batch is at %d, want %d", got, next)
				}
				out := p.produce(produceTo(9, -1, "idem", from(7, next+5, "e")))[0]
				wantCode(t, "a gap", out.ErrorCode, kerr.OutOfOrderSequenceNumber)
			})
		}
	}
}

// What moves the log start here is retention: a start that was told never goes
// back, neither over a kill nor over a clean restart.
func TestREC04LogStart(t *testing.T) {
	dir := t.TempDir()
	settings := []string{"log.retention.check.interval.ms=50", "log.segment.bytes=1048576"}
	b := spawn(t, dir, 0, settings...)
	p := b.dial()
	p.create("start", 1, "retention.bytes=1048576")
	for range 50 {
		p.write("start", records(strings.Repeat("x", 100_000)))
	}
	start := int64(0)
	for end := time.Now().Add(patience); start == 0; start = p.list("start", 0, -2).Offset {
		if time.Now().After(end) {
			t.Fatal("retention deleted nothing")
		}
	}
	for _, end := range []func(){func() { b.kill() }, func() { b.stop() }} {
		end()
		b = spawn(t, dir, 0, settings...)
		p = b.dial()
		if now := p.list("start", 0, -2).Offset; now < start {
			t.Errorf("log start %d, was %d", now, start)
		}
		if end := p.end("start", 0); end != 50 {
			t.Errorf("log end %d, want 50", end)
		}
		start = p.list("start", 0, -2).Offset
		got := p.fetch(fetchOf(12, "start", [16]byte{}, at{0, start - 1, 0}))[0]
		wantCode(t, "below the start", got.ErrorCode, kerr.OffsetOutOfRange)
	}
}

func (p *peer) producerID() int64 {
	p.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.ProducerID, req.ProducerEpoch = 4, -1, -1
	resp := ask[*kmsg.InitProducerIDResponse](p, req)
	if resp.ErrorCode != 0 {
		p.t.Fatalf("producer id: %s", name(resp.ErrorCode))
	}
	return resp.ProducerID
}

func TestREC07NothingIsGivenTwice(t *testing.T) {
	dir := t.TempDir()
	ids := map[int64]bool{}
	var want []string
	for round := range 4 {
		b := spawn(t, dir, 0)
		p := b.dial()
		if round == 0 {
			p.create("seen", 1)
		}
		for range 5 {
			id := p.producerID()
			if ids[id] {
				t.Errorf("producer id %d was handed out twice", id)
			}
			ids[id] = true
		}
		if got := values(t, p.read("seen", 0, 0)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("round %d: consumers saw %q before, and now %q", round, want, got)
		}
		for n := range 10 {
			v := fmt.Sprintf("%d.%d", round, n)
			if got := p.write("seen", records(v))[0].BaseOffset; got != int64(len(want)) {
				t.Fatalf("offset %d, want %d", got, len(want))
			}
			want = append(want, v)
		}
		b.kill()
	}
}

// The duplicate of an acknowledged batch is known after a kill.
func TestRestartKeepsProducers(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("idem", 1)
	sent := from(3, 0, "a", "b")
	p.write("idem", bytes.Clone(sent))
	b.Restart()
	p = dial(t, b)
	if got := p.write("idem", sent)[0].BaseOffset; got != 0 {
		t.Errorf("the duplicate is at %d", got)
	}
	if end := p.end("idem", 0); end != 2 {
		t.Errorf("log end %d, want 2", end)
	}
}
