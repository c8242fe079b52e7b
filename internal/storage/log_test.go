package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func eachFS(t *testing.T, f func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("mem", func(t *testing.T) { f(t, vfs.NewMem(), "/data") })
	t.Run("real", func(t *testing.T) { f(t, vfs.Real, t.TempDir()) })
}

func TestAppendReadReopen(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		cfg := testConfig()
		cfg.SegmentBytes, cfg.IndexIntervalBytes = 4000, 200
		var want []string
		for round := range 5 {
			b := openBox(t, fsys, managerConfig(dir), round%2 == 0)
			l := b.log(cfg)
			if got := readAll(t, l, 0, l.End()); !slices.Equal(got, want) {
				t.Fatalf("round %d: read %d records, want %d\n%v", round, len(got), len(want), got)
			}
			for i := range 30 {
				recs := values(1+i%4, fmt.Sprintf("r%d-%d", round, i))
				res := b.append(l, recs...)
				if res.Base != int64(len(want)) || res.Last != res.Base+int64(len(recs))-1 {
					t.Fatalf("base %d last %d, want base %d", res.Base, res.Last, len(want))
				}
				for j, r := range recs {
					want = append(want, fmt.Sprintf("%d:%s", res.Base+int64(j), r.value))
				}
			}
			if err := l.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
			if l.FlushedEnd() != l.End() {
				t.Fatalf("flushed %d, end %d", l.FlushedEnd(), l.End())
			}
			for from := range int64(len(want)) {
				if got := readAll(t, l, from, l.End()); !slices.Equal(got, want[from:]) {
					t.Fatalf("from %d: %v", from, got)
				}
			}
			if round == 2 {
				b.crash()
			} else {
				b.close()
			}
		}
	})
}

func TestReadBounds(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/d"), true)
	l := b.log(testConfig())
	for range 10 {
		b.append(l, values(3, "v")...)
	}
	for _, off := range []int64{-1, 31, 100} {
		if _, err := l.Read(off, l.End(), 100, true); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("offset %d: %v", off, err)
		}
	}
	for max := int64(0); max <= 30; max++ {
		for _, room := range []int{0, 1, 100, 200, 500, 1 << 20} {
			r, err := l.Read(4, max, room, true)
			if err != nil {
				t.Fatal(err)
			}
			one := 3
			got := readSlices(t, r)
			switch {
			case max < 6 && len(got) > 0: // the batch that holds 4 ends at 6
				t.Errorf("max %d room %d: %v", max, room, got)
			case max >= 6 && len(got) < one:
				t.Errorf("max %d room %d: %v", max, room, got)
			case len(got) > one && r.SizeBytes > room:
				t.Errorf("max %d room %d: %d bytes", max, room, r.SizeBytes)
			case len(got) > 0 && got[len(got)-1] >= max:
				t.Errorf("max %d: read %v", max, got)
			}
			r.Release()
		}
	}
	b.close()
}
