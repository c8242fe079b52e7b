package replica

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func TestADM12DeleteRecords(t *testing.T) {
	p := partitionOn(t, newDisk(), false)
	for range 10 {
		put(t, p, records("x"), 1)
	}
	lead(t, p, 0, pair) // the high watermark waits for the other replica
	put(t, p, records("x"), 1)
	for _, c := range []struct {
		offset, low int64
		want        error
	}{
		{-2, -1, kerr.OffsetOutOfRange}, {11, -1, kerr.OffsetOutOfRange}, {3, 3, nil}, {1, 3, nil}, {DeleteToHighWatermark, 10, nil},
	} {
		low, err := p.DeleteRecords(c.offset)
		wantErr(t, "delete", err, c.want)
		if low != c.low {
			t.Errorf("up to %d: low watermark %d, want %d", c.offset, low, c.low)
		}
	}
	cfg := p.Log().Config()
	cfg.Delete, cfg.Compact = false, true
	p.Log().SetConfig(cfg)
	_, err := p.DeleteRecords(1)
	wantErr(t, "compacted", err, kerr.PolicyViolation)
	cfg.Compact = false // cleanup.policy is empty: nothing is deleted by itself
	p.Log().SetConfig(cfg)
	_, err = p.DeleteRecords(1)
	wantErr(t, "no policy", err, nil)
	follow(t, p, 1)
	_, err = p.DeleteRecords(1)
	wantErr(t, "follower", err, kerr.NotLeaderForPartition)
}

// Who stops leading while the log start is written down does not answer for it.
func TestDeleteRecordsLosesItsTerm(t *testing.T) {
	for _, next := range []kafka.LeaderEpoch{1, 2} {
		d := newDisk()
		p := partitionOn(t, d, false)
		put(t, p, records("x"), 1)
		release := d.hold()
		done := make(chan error, 1)
		go func() {
			_, err := p.DeleteRecords(1)
			done <- err
		}()
		<-d.stuck
		if p.Log().Start() != 1 {
			t.Error("the log start is not raised")
		}
		if next == 1 {
			follow(t, p, 1)
		} else {
			p.close()
		}
		release()
		wantErr(t, "delete", <-done, kerr.NotLeaderForPartition)
	}
}

func TestDeleteRecordsOnABadDisk(t *testing.T) {
	d := newDisk()
	p := partitionOn(t, d, false)
	put(t, p, records("x"), 1)
	d.fail(vfs.ErrNoSpace)
	_, err := p.DeleteRecords(1)
	wantErr(t, "full disk", err, kerr.KafkaStorageError)
	d.fail(nil)
	low, err := p.DeleteRecords(1)
	wantErr(t, "room again", err, nil)
	if low != 1 {
		t.Errorf("low watermark %d", low)
	}
}
