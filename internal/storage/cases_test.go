package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// LIST-01, LIST-02: the first record at or after a time, in every codec.
func TestOffsetForTime(t *testing.T) {
	for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd} {
		b := openBox(t, vfs.NewMem(), managerConfig("/d"), false)
		l := b.log(testConfig())
		at := func(ts int64) rec { return rec{ts: ts, value: "v"} }
		check := func(ts, off, recTs int64) {
			t.Helper()
			o, r, e, err := l.OffsetForTime(ts, l.End())
			if err != nil || o != off || r != recTs || (off >= 0) != (e == 0) {
				t.Errorf("codec %d, time %d: offset %d time %d epoch %d %v, want %d %d", codec, ts, o, r, e, err, off, recTs)
			}
		}
		check(0, -1, -1) // empty log
		for _, recs := range [][]rec{{at(2), at(4), at(6), at(8)}, {at(3), at(9)}} {
			raw := makeBatch(t, batch.Options{Encoding: batch.Encoding{Codec: codec}}, recs...)
			if _, err := l.Append(testAt, raw, 0, FromClient); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range [][3]int64{{2, 0, 2}, {3, 1, 4}, {4, 1, 4}, {5, 2, 6}, {7, 3, 8}, {9, 5, 9}, {10, -1, -1}} {
			check(c[0], c[1], c[2])
		}
		if o, ts, _, err := l.MaxTimestamp(l.End()); err != nil || o != 5 || ts != 9 {
			t.Errorf("max timestamp: %d at %d %v", ts, o, err)
		}
		if o, ts, _, err := l.MaxTimestamp(4); err != nil || o != 3 || ts != 8 {
			t.Errorf("max timestamp below 4: %d at %d %v", ts, o, err)
		}
		if o, _, _, _ := l.OffsetForTime(9, 5); o != -1 {
			t.Errorf("bounded at 5: %d", o)
		}
		l.SetHighWatermark(l.End())
		if err := l.DeleteBefore(2); err != nil {
			t.Fatal(err)
		}
		check(0, 2, 6)
		cfg := testConfig()
		cfg.RetentionBytes = 0
		l.SetConfig(cfg)
		_ = l.Sync(context.Background())
		b.m.Retain(testAt)
		if l.Start() != 6 || l.End() != 6 {
			t.Errorf("log [%d, %d) after retention of all, want [6, 6)", l.Start(), l.End())
		}
		check(0, -1, -1)
		b.close()
	}
}

func TestOffsetForTimeLogAppendTime(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/d"), false)
	cfg := testConfig()
	cfg.LogAppendTime = true
	l := b.log(cfg)
	for i := range 3 {
		res, err := l.Append(time.UnixMilli(100+int64(i)*10), makeBatch(t, plainOptions(), values(4, "v")...), 0, FromClient)
		if err != nil || res.AppendTimeMs != 100+int64(i)*10 {
			t.Fatalf("%+v %v", res, err)
		}
	}
	for _, c := range [][3]int64{{0, 0, 100}, {100, 0, 100}, {101, 4, 110}, {115, 8, 120}, {121, -1, -1}} {
		if o, ts, _, err := l.OffsetForTime(c[0], l.End()); o != c[1] || ts != c[2] || err != nil {
			t.Errorf("time %d: %d at %d %v", c[0], ts, o, err)
		}
	}
	b.close()
}

// Times are found across many segments, index entries and restarts.
func TestOffsetForTimeRandom(t *testing.T) {
	fsys := vfs.NewMem()
	rng := rand.New(rand.NewPCG(3, 4))
	cfg := testConfig()
	cfg.SegmentBytes, cfg.IndexIntervalBytes = 3000, 300
	b := openBox(t, fsys, managerConfig("/d"), false)
	l := b.log(cfg)
	var times []int64
	for i := range 150 {
		var recs []rec
		for range 1 + rng.IntN(4) {
			ts := int64(i*10 + rng.IntN(60))
			times = append(times, ts)
			recs = append(recs, rec{ts: ts, value: strings.Repeat("v", rng.IntN(80))})
		}
		b.append(l, recs...)
	}
	for round := range 2 {
		for ts := int64(-1); ts < 1600; ts++ {
			maxOffset := int64(rng.IntN(len(times) + 1))
			want := int64(slices.IndexFunc(times[:maxOffset], func(v int64) bool { return v >= ts }))
			got, gotTs, _, err := l.OffsetForTime(ts, maxOffset)
			if err != nil || got != want || got >= 0 && gotTs != times[got] {
				t.Fatalf("round %d time %d below %d: offset %d, want %d (%v)", round, ts, maxOffset, got, want, err)
			}
			if maxOffset > 0 && lastOf(l, maxOffset-1) == maxOffset-1 { // marks lie between batches
				best := slices.Max(times[:maxOffset])
				want := int64(slices.Index(times, best))
				if got, gotTs, _, err := l.MaxTimestamp(maxOffset); err != nil || gotTs != best || got != want {
					t.Fatalf("max below %d: %d at %d, want %d at %d (%v)", maxOffset, gotTs, got, best, want, err)
				}
			}
		}
		b.close()
		b = openBox(t, fsys, managerConfig("/d"), false)
		l = b.log(cfg)
	}
	b.close()
}

// lastOf is the last offset of the batch that holds offset.
func lastOf(l *Log, offset int64) int64 {
	r, err := l.Read(offset, l.End(), 0, true)
	if err != nil {
		return -1
	}
	defer r.Release()
	p := make([]byte, r.Slices[0].Len())
	if r.Slices[0].ReadAt(p, 0) != nil {
		return -1
	}
	return batch.Batch(p).LastOffset()
}

// REC-01: the last segment cut at every byte of its last batch.
func TestTornTail(t *testing.T) {
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/d"), false)
	l := b.log(testConfig())
	for i := range 4 {
		b.append(l, values(2, fmt.Sprint("v", i))...)
	}
	whole := l.Size()
	b.append(l, values(2, "last")...)
	size := l.Size()
	want := readAll(t, l, 0, l.End())
	b.crash()
	name := "/d/t-0/" + segment.Name(0, segment.LogSuffix)
	rng := rand.New(rand.NewPCG(1, 1))
	for cut := whole; cut <= size; cut++ {
		for _, garbage := range []bool{false, true} {
			c := fsys.CrashClone(rng, vfs.ProcessKill)
			f, err := c.OpenReadWrite(name)
			if err != nil {
				t.Fatal(err)
			}
			if garbage && cut < size {
				_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, int(size-cut)), cut)
			} else {
				err = f.Truncate(cut)
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
			b := openBox(t, c, managerConfig("/d"), false)
			l, ok := b.m.Get(testTP)
			end := int64(8)
			if cut == size {
				end = 10
			}
			if !ok || l.End() != end || !slices.Equal(readAll(t, l, 0, l.End()), want[:end]) {
				t.Fatalf("cut at %d: end %d, want %d", cut, l.End(), end)
			}
			if res := b.append(l, values(1, "next")...); res.Base != end {
				t.Fatalf("next offset %d, want %d", res.Base, end)
			}
			b.close()
		}
	}
}

// REC-02: indexes gone, cut, zeroed, filled with nonsense, after a clean stop
// and after a crash.
func TestIndexDamage(t *testing.T) {
	fsys := vfs.NewMem()
	cfg := testConfig()
	cfg.SegmentBytes, cfg.IndexIntervalBytes = 4000, 200
	b := openBox(t, fsys, managerConfig("/d"), false)
	l := b.log(cfg)
	var want []string
	for i := range 120 {
		b.append(l, rec{ts: int64(i), value: fmt.Sprintf("v%d-%s", i, strings.Repeat("x", i%90))})
	}
	want = readAll(t, l, 0, l.End())
	names, _ := fsys.List("/d/t-0")
	if l.Segments() < 3 {
		t.Fatal("too few segments")
	}
	crashed := fsys.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.ProcessKill)
	b.close()
	damages := map[string]func(vfs.File) error{
		"empty": func(f vfs.File) error { return f.Truncate(0) },
		"odd":   func(f vfs.File) error { n, _ := f.Size(); return f.Truncate(max(n-5, 0)) },
		"half":  func(f vfs.File) error { n, _ := f.Size(); return f.Truncate(n / 24 / 2 * 24) },
		"zero":  func(f vfs.File) error { n, _ := f.Size(); _, err := f.WriteAt(make([]byte, n), 0); return err },
		"grown": func(f vfs.File) error { n, _ := f.Size(); _, err := f.WriteAt(make([]byte, 1<<16), n); return err },
		"random": func(f vfs.File) error {
			n, _ := f.Size()
			p := make([]byte, n)
			r := rand.New(rand.NewPCG(9, uint64(n)))
			for i := range p {
				p[i] = byte(r.Uint32())
			}
			_, err := f.WriteAt(p, 0)
			return err
		},
		"shifted": func(f vfs.File) error { // rises as it should, and points between batches
			n, _ := f.Size()
			p := make([]byte, n)
			if _, err := f.ReadAt(p, 0); err != nil && n > 0 {
				return err
			}
			for i := 7; i < len(p); i += 8 {
				p[i]++
			}
			_, err := f.WriteAt(p, 0)
			return err
		},
		"gone": nil,
	}
	for _, from := range []*vfs.Mem{fsys, crashed} {
		for what, damage := range damages {
			for _, name := range names {
				if !strings.HasSuffix(name, "index") {
					continue
				}
				c := from.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.ProcessKill)
				if damage == nil {
					_ = c.Remove("/d/t-0/" + name)
				} else if f, err := c.OpenReadWrite("/d/t-0/" + name); err == nil {
					if err := damage(f); err != nil {
						t.Fatal(err)
					}
					_ = f.Close()
				}
				checkAll(t, c, cfg, want, what+" "+name)
			}
		}
	}
}

func checkAll(t *testing.T, c *vfs.Mem, cfg Config, want []string, what string) {
	t.Helper()
	b := openBox(t, c, managerConfig("/d"), false)
	l := b.log(cfg)
	for from := int64(0); from < int64(len(want)); from += 7 {
		if got := readAll(t, l, from, l.End()); !slices.Equal(got, want[from:]) {
			t.Fatalf("%s: from %d: %d records, want %d", what, from, len(got), len(want)-int(from))
		}
		if o, ts, _, err := l.OffsetForTime(from, l.End()); o != from || ts != from || err != nil {
			t.Fatalf("%s: time %d: offset %d %v", what, from, o, err)
		}
	}
	b.close()
}

// REC-03: producer snapshots gone, damaged, or newer than the log.
func TestSnapshotDamage(t *testing.T) {
	fsys := vfs.NewMem()
	cfg := testConfig()
	cfg.SegmentBytes = 2000
	b := openBox(t, fsys, managerConfig("/d"), false)
	l := b.log(cfg)
	idem := func(seq int32) []byte {
		return makeBatch(t, batch.Options{Producer: &batch.Producer{ID: 5, Epoch: 0, Sequence: seq}}, values(2, "v")...)
	}
	for i := range int32(50) {
		if _, err := l.Append(testAt, idem(2*i), 0, FromClient); err != nil {
			t.Fatal(err)
		}
	}
	crashed := fsys.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.ProcessKill)
	b.close()
	for _, from := range []*vfs.Mem{fsys, crashed} {
		names, _ := from.List("/d/t-0")
		for _, what := range []string{"as it is", "gone", "cut", "flipped", "newer"} {
			c := from.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.ProcessKill)
			for _, name := range names {
				path := "/d/t-0/" + name
				if !strings.HasSuffix(name, segment.SnapshotSuffix) {
					continue
				}
				f, err := c.OpenReadWrite(path)
				if err != nil {
					t.Fatal(err)
				}
				switch what {
				case "gone":
					_ = c.Remove(path)
				case "cut":
					_ = f.Truncate(20)
				case "flipped":
					_, _ = f.WriteAt([]byte{0xff}, 17)
				case "newer":
					_ = c.Rename(path, "/d/t-0/"+segment.Name(100_000, segment.SnapshotSuffix))
				}
				_ = f.Close()
			}
			b := openBox(t, c, managerConfig("/d"), false)
			l := b.log(cfg)
			res, err := l.Append(testAt, idem(98), 0, FromClient)
			if err != nil || !res.Duplicate || res.Base != 98 {
				t.Errorf("%s: sent again: %+v %v", what, res, err)
			}
			if res, err = l.Append(testAt, idem(100), 0, FromClient); err != nil || res.Base != 100 {
				t.Errorf("%s: next: %+v %v", what, res, err)
			}
			if _, err = l.Append(testAt, idem(110), 0, FromClient); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
				t.Errorf("%s: gap: %v", what, err)
			}
			b.close()
		}
	}
}

// REC-04: a log start survives the strictest crash.
func TestDeleteBeforeDurable(t *testing.T) {
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/d"), false)
	l := b.log(testConfig())
	for range 10 {
		b.append(l, values(5, "v")...)
	}
	_ = l.Sync(context.Background())
	if err := l.DeleteBefore(1); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("above the high watermark: %v", err)
	}
	l.SetHighWatermark(50)
	if err := l.DeleteBefore(23); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*vfs.Mem{fsys.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{}), fsys} {
		if c == fsys {
			b.close()
		}
		b := openBox(t, c, managerConfig("/d"), false)
		l, _ := b.m.Get(testTP)
		if l.Start() != 23 || l.End() != 50 {
			t.Errorf("log [%d, %d)", l.Start(), l.End())
		}
		if _, err := l.Read(22, 50, 100, true); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("read below the start: %v", err)
		}
		b.close()
	}
}

// Safety 12: bytes that a reader holds do not change when the log is truncated
// and written again.
func TestTruncateKeepsSlices(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		b := openBox(t, fsys, managerConfig(dir), false)
		cfg := testConfig()
		cfg.SegmentBytes = 1000
		l := b.log(cfg)
		rng := rand.New(rand.NewPCG(5, 6))
		type held struct {
			s Slice
			p []byte
		}
		var all []held
		for i := range 60 {
			for range 5 {
				b.append(l, values(1+rng.IntN(3), fmt.Sprint("v", i))...)
			}
			from := rng.Int64N(l.End())
			r, err := l.Read(from, l.End(), 1+rng.IntN(2000), true)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range r.Slices {
				p := make([]byte, s.Len())
				if err := s.ReadAt(p, 0); err != nil {
					t.Fatal(err)
				}
				all = append(all, held{s, p})
			}
			if err := l.Truncate(rng.Int64N(l.End())); err != nil {
				t.Fatal(err)
			}
			_ = l.Sync(context.Background())
			if i%10 == 0 {
				b.m.dirs[0].deleteDue(time.Now().Add(time.Hour))
			}
		}
		for i, h := range all {
			var w bytes.Buffer
			if n, err := h.s.WriteTo(&w); err != nil || n != int64(len(h.p)) || !bytes.Equal(w.Bytes(), h.p) {
				t.Fatalf("slice %d changed: %v", i, err)
			}
			h.s.Release()
		}
		b.close()
	})
}
