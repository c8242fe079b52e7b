package storage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A producer may have five batches on their way, and sends all of them again
// when no answer came. They are all known as duplicates however often the
// broker was killed, or stopped in order, before the producer got through: a
// snapshot names the last one alone.
func TestRetriesAfterRestarts(t *testing.T) {
	for _, how := range []string{"kill", "kill kill", "kill kill kill", "checkpoint kill", "stop", "kill stop", "stop kill kill", "roll kill kill", "roll checkpoint kill"} {
		t.Run(how, func(t *testing.T) {
			fsys := vfs.NewMem()
			b := openBox(t, fsys, managerConfig("/d"), false)
			cfg := testConfig()
			l := b.log(cfg)
			var sent [][]byte
			send := func(raw []byte) (AppendResult, error) {
				return l.Append(testAt, append([]byte(nil), raw...), 0, FromClient)
			}
			for i := range 12 {
				b.append(l, values(3, "of another")...)
				raw := makeBatch(t, batch.Options{Producer: &batch.Producer{ID: 7, Epoch: 1, Sequence: int32(2 * i)}}, values(2, fmt.Sprint("batch ", i))...)
				sent = append(sent, raw)
				if res, err := send(raw); err != nil || res.Base != int64(5*i+3) {
					t.Fatalf("%+v %v", res, err)
				}
			}
			if err := l.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
			for _, what := range strings.Fields(how) {
				switch what {
				case "roll":
					l.mu.Lock()
					if err := l.roll(testAt, l.End()); err != nil {
						t.Fatal(err)
					}
					l.mu.Unlock()
					l.housekeep()
					continue
				case "checkpoint":
					if err := b.m.Checkpoint(context.Background()); err != nil {
						t.Fatal(err)
					}
					continue
				case "stop":
					b.close()
				case "kill":
					fsys = fsys.CrashClone(nil, vfs.ProcessKill)
					b.crash()
				}
				b = openBox(t, fsys, managerConfig("/d"), false)
				l = b.log(cfg)
			}
			for i := len(sent) - 5; i < len(sent); i++ {
				res, err := send(sent[i])
				if err != nil || !res.Duplicate || res.Base != int64(5*i+3) || res.Last != res.Base+1 {
					t.Errorf("batch %d, sent again: %+v %v", i, res, err)
				}
			}
			b.close()
		})
	}
}

// However many segments and index entries lie between, the look back before a
// snapshot ends where it should.
func TestRetriesOverManySegments(t *testing.T) {
	for size := int32(150); size < 40_000; size = size*5/4 + 7 {
		fsys := vfs.NewMem()
		conf := managerConfig("/d")
		cfg := testConfig()
		cfg.SegmentBytes, cfg.IndexIntervalBytes = size, 0
		conf.Defaults = cfg
		b := openBox(t, fsys, conf, false)
		l := b.log(cfg)
		var sent [][]byte
		for i := range 300 {
			raw := makeBatch(t, batch.Options{Producer: &batch.Producer{ID: 7, Sequence: int32(i)}}, values(1, "v")...)
			sent = append(sent, raw)
			if _, err := l.Append(testAt, append([]byte(nil), raw...), 0, FromClient); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			fsys = fsys.CrashClone(nil, vfs.ProcessKill)
			b.crash()
			b = openBox(t, fsys, conf, false)
		}
		l = b.log(cfg)
		for i := len(sent) - 5; i < len(sent); i++ {
			if res, err := l.Append(testAt, sent[i], 0, FromClient); err != nil || !res.Duplicate || res.Base != int64(i) {
				t.Errorf("segments of %d bytes: batch %d, sent again: %+v %v", size, i, res, err)
			}
		}
		b.close()
	}
}
