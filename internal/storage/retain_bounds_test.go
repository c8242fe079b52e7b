package storage

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Retention takes what it may of a log that has all expired, and nothing that is
// not committed, not decided, or not on the disk yet (safety 16).
func TestRetentionKeepsWhatIsNotSafe(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(b *box, l *Log)
		want int64
	}{
		{"above the mark", func(_ *box, l *Log) {
			_ = l.Sync(t.Context())
			l.SetHighWatermark(7)
		}, 6},
		{"undecided", func(b *box, l *Log) {
			raw := makeBatch(t, batch.Options{Transactional: true, Producer: &batch.Producer{ID: 1}}, values(2, "open")...)
			if _, err := l.Append(testAt, raw, 0, FromClient); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				b.append(l, rec{ts: testAt.UnixMilli(), value: strings.Repeat("v", 800)})
			}
			_ = l.Sync(t.Context())
			l.SetHighWatermark(l.End())
		}, 8},
		{"not synced", func(b *box, l *Log) {
			_ = l.Sync(t.Context())
			for range 5 {
				b.append(l, rec{ts: testAt.UnixMilli(), value: strings.Repeat("v", 800)})
			}
			l.SetHighWatermark(l.End())
		}, 10},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := openBox(t, vfs.NewMem(), managerConfig("/d"), false)
			cfg := testConfig()
			cfg.SegmentBytes, cfg.FileDeleteDelay, cfg.RetentionMs = 2000, 0, time.Second
			l := b.log(cfg)
			for range 10 {
				b.append(l, rec{ts: testAt.UnixMilli(), value: strings.Repeat("v", 800)})
			}
			c.do(b, l)
			b.m.Retain(testAt.Add(time.Hour))
			if got := l.Start(); got != c.want {
				t.Errorf("the log starts at %d, want %d", got, c.want)
			}
			b.crash()
		})
	}
}

// What is written between the look at the last segment, which has expired, and
// its roll is not deleted with it, though it is committed and synced by then.
func TestRetentionBesideAppend(t *testing.T) {
	var between func()
	fsys := vfs.Wrap(vfs.NewMem(), vfs.Hooks{Before: func(op vfs.Op) error {
		if f := between; f != nil && op.Kind == vfs.OpStat {
			between = nil
			f()
		}
		return nil
	}})
	b := openBox(t, fsys, managerConfig("/d"), false)
	cfg := testConfig()
	cfg.RetentionMs = time.Second
	l := b.log(cfg)
	commit := func() {
		_ = l.Sync(t.Context())
		l.SetHighWatermark(l.End())
	}
	b.append(l, rec{ts: -1, value: "expired by the file's time, which is looked up"})
	commit()
	looked := false
	between = func() {
		looked = true
		b.append(l, rec{ts: time.Now().UnixMilli(), value: "new"})
		commit()
	}
	b.m.Retain(time.Now().Add(time.Hour))
	if got := readAll(t, l, l.Start(), l.End()); !looked || len(got) != 2 {
		t.Errorf("log [%d, %d) with %q; looked %t", l.Start(), l.End(), got, looked)
	}
	if err := l.DeleteBefore(3); !isErr(err, kerr.OffsetOutOfRange) {
		t.Errorf("records above the mark deleted: %v", err)
	}
	b.crash()
}
