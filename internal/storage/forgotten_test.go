package storage

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// older sends again what a producer sent before its last five batches: it is
// known to be there, below what is remembered, or it is in doubt and refused.
// It reports whether it went on.
func (h *history) older(sent []mbatch) bool {
	for _, b := range sent {
		res, err := h.log.Append(h.clock, []byte(b.bytes), kafka.LeaderEpoch(h.m.epoch), FromClient)
		switch {
		case errors.Is(err, kerr.OutOfOrderSequenceNumber):
		case err != nil && h.faulted:
			h.failed("send an old one again", err)
			return false
		case err != nil || !res.Duplicate || res.Base != -1 || res.Last < b.last || res.Last >= h.log.End():
			h.fatal("producer %d sent %d..%d again: %+v %v", b.pid, b.base, b.last, res, err)
		}
	}
	return true
}

// oneOf is a batch of one record of producer 7.
func oneOf(t *testing.T, seq int32) []byte {
	return makeBatch(t, batch.Options{Producer: &batch.Producer{ID: 7, Sequence: seq}}, values(1, "v")...)
}

// What is older than the remembered batches of a producer is known to be there
// as far as its log was read or written without a gap, and not beyond: sequence
// n stands at offset n, and 12 are written.
func TestForgottenDuplicates(t *testing.T) {
	for what, c := range map[string]struct {
		then func(t *testing.T, b *box, l *Log)
		// known are the sequences from first on, up to those that are remembered.
		first, remembered, end int32
	}{
		"as leader": {func(*testing.T, *box, *Log) {}, 0, 7, 12},
		"as follower": {func(t *testing.T, _ *box, l *Log) {
			raw := batch.Batch(oneOf(t, 12))
			raw.SetBaseOffset(12)
			if _, err := l.AppendAsFollower(raw); err != nil {
				t.Fatal(err)
			}
		}, 0, 8, 13},
		"cut": {func(t *testing.T, _ *box, l *Log) {
			if err := l.Truncate(9); err != nil {
				t.Fatal(err)
			}
		}, 0, 4, 9},
		"the beginning deleted": {func(t *testing.T, _ *box, l *Log) {
			l.SetHighWatermark(12)
			if err := l.DeleteBefore(11); err != nil {
				t.Fatal(err)
			}
		}, 0, 7, 12},
		"begun anew": {func(t *testing.T, _ *box, l *Log) {
			if err := l.Reset(12); err != nil {
				t.Fatal(err)
			}
			for seq := int32(12); seq < 18; seq++ {
				if res, err := l.Append(testAt, oneOf(t, seq), 0, FromClient); err != nil || res.Base != int64(seq) {
					t.Fatalf("%+v %v", res, err)
				}
			}
		}, 12, 13, 18},
	} {
		t.Run(what, func(t *testing.T) {
			b := openBox(t, vfs.NewMem(), managerConfig("/d"), false)
			defer b.close()
			l := b.log(testConfig())
			for seq := range int32(12) {
				if res, err := l.Append(testAt, oneOf(t, seq), 0, FromClient); err != nil || res.Base != int64(seq) {
					t.Fatalf("%+v %v", res, err)
				}
			}
			c.then(t, b, l)
			wantKnown(t, l, c.first, c.remembered, c.end)
		})
	}
}

func wantKnown(t *testing.T, l *Log, first, remembered, end int32) {
	t.Helper()
	for seq := range end + 1 {
		if seq == end {
			seq++ // one that is left out
		}
		res, err := l.Append(testAt, oneOf(t, seq), 0, FromClient)
		switch {
		case seq < first || seq > end:
			if !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
				t.Errorf("sequence %d: %+v %v", seq, res, err)
			}
		case seq < remembered:
			if err != nil || !res.Duplicate || res.Base != -1 || res.Last != int64(remembered)-1 || res.AppendTimeMs != -1 {
				t.Errorf("sequence %d: %+v %v", seq, res, err)
			}
		default:
			if err != nil || !res.Duplicate || res.Base != int64(seq) || res.Last != int64(seq) {
				t.Errorf("sequence %d: %+v %v", seq, res, err)
			}
		}
	}
	if l.End() != int64(end) {
		t.Errorf("end %d, want %d", l.End(), end)
	}
}

// A snapshot, which is Apache Kafka's to the byte, names the last batch alone.
// After a restart what was recalled of the log below it is known, and nothing of
// a producer of which its last batch is not among that.
func TestForgottenAfterSnapshot(t *testing.T) {
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/d"), false)
	cfg := testConfig()
	cfg.IndexIntervalBytes = 0 // an entry for each batch
	l := b.log(cfg)
	const n, later = 400, 100
	for seq := range int32(n) {
		if _, err := l.Append(testAt, oneOf(t, seq), 0, FromClient); err != nil {
			t.Fatal(err)
		}
	}
	for range later {
		b.append(l, values(1, "of another")...)
	}
	b.close() // writes a snapshot at the end
	b = openBox(t, fsys, managerConfig("/d"), false)
	defer b.close()
	l = b.log(cfg)
	known := func(seq int32) bool {
		res, err := l.Append(testAt, oneOf(t, seq), 0, FromClient)
		if err != nil && !errors.Is(err, kerr.OutOfOrderSequenceNumber) || err == nil && (!res.Duplicate || res.Base != -1 || res.Last != n-5-1) {
			t.Errorf("sequence %d: %+v %v", seq, res, err)
		}
		return err == nil
	}
	first := int32(0)
	for !known(first) {
		first++
	}
	if want := int32(n + later - recallEntries); first < want-2 || first > want+2 {
		t.Errorf("known from sequence %d on, want about %d", first, want)
	}
	for seq := first; seq < n-5; seq++ {
		if !known(seq) {
			t.Errorf("sequence %d is not known, and %d was", seq, first)
		}
	}
}
