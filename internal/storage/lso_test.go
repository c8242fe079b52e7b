package storage

import (
	"context"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A transaction whose marker is not below the high watermark stays undecided
// through a restart, although the snapshot of producers was taken after it.
func TestUndecidedAfterRestart(t *testing.T) {
	for _, how := range []string{"clean", "killed"} {
		t.Run(how, func(t *testing.T) {
			fsys := vfs.NewMem()
			b := openBox(t, fsys, managerConfig("/d"), false)
			l := b.log(testConfig())
			b.append(l, values(2, "v")...)
			raw := makeBatch(t, batch.Options{Producer: &batch.Producer{ID: 7}, Transactional: true}, values(3, "txn")...)
			if _, err := l.Append(testAt, raw, 0, FromClient); err != nil {
				t.Fatal(err)
			}
			marker := batch.AppendMarker(nil, batch.Marker{ProducerID: 7}, testAt.UnixMilli())
			if _, err := l.Append(testAt, marker, 0, FromCoordinator); err != nil {
				t.Fatal(err)
			}
			b.append(l, values(2, "w")...)
			l.SetHighWatermark(5) // the marker's offset
			b.append(l, values(2, "x")...)
			if err := l.Truncate(8); err != nil {
				t.Fatal(err)
			}
			if first := l.FirstUnstable(5); first != 2 {
				t.Errorf("first unstable %d after a truncation, want 2", first)
			}
			if err := b.m.Checkpoint(context.Background()); err != nil {
				t.Fatal(err)
			}
			if how == "clean" {
				b.close()
			} else {
				fsys = fsys.CrashClone(nil, vfs.ProcessKill)
				b.crash()
			}
			b = openBox(t, fsys, managerConfig("/d"), false)
			l = b.log(testConfig())
			if hw := l.HighWatermark(); hw != 5 || l.FirstUnstable(hw) != 2 {
				t.Errorf("first unstable %d at high watermark %d, want 2 at 5", l.FirstUnstable(hw), hw)
			}
			if a := l.Aborted(0, 8); len(a) != 1 || a[0].FirstOffset != 2 {
				t.Errorf("aborted %v", a)
			}
			l.SetHighWatermark(6)
			if first := l.FirstUnstable(6); first >= 0 {
				t.Errorf("first unstable %d once the marker is committed", first)
			}
			b.close()
		})
	}
}
