package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func newFiles(tb testing.TB) (*Files, *Dir, *vfs.Mem) {
	tb.Helper()
	m := vfs.NewMem()
	if err := m.MkdirAll("/p"); err != nil {
		tb.Fatal(err)
	}
	return NewFiles(m, 2, 1<<10), NewDir("/p"), m
}

// build makes one batch of n records at base.
func build(tb testing.TB, base int64, n int, ts int64, epoch int32) []byte {
	tb.Helper()
	var b batch.Builder
	b.Reset(batch.Options{BaseOffset: base, LeaderEpoch: epoch})
	for i := range n {
		b.Append(ts, nil, []byte(strings.Repeat("v", 10+i)))
	}
	out, _, err := b.Build(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// The bytes of the indexes are Apache Kafka's.
func TestIndexBytes(t *testing.T) {
	files, dir, m := newFiles(t)
	s, err := Create(files, dir, 1000, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	var want, wantTime []byte
	var pos, since int64
	next := int64(1000)
	times := []int64{50, 40, 60, 60, 90, 70, 80, 95}
	best, bestAt, noted := int64(-1), int64(0), int64(-1)
	for i, ts := range times {
		raw := build(t, next, 2+i%3, ts, 0)
		if err := s.Append(raw, 100); err != nil {
			t.Fatal(err)
		}
		last := next + int64(2+i%3) - 1
		if ts > best {
			best, bestAt = ts, last
		}
		if since > 100 {
			want = binary.BigEndian.AppendUint32(want, uint32(last-1000))
			want = binary.BigEndian.AppendUint32(want, uint32(pos))
			if best > noted {
				wantTime = binary.BigEndian.AppendUint64(wantTime, uint64(best))
				wantTime = binary.BigEndian.AppendUint32(wantTime, uint32(bestAt-1000))
				noted = best
			}
			since = 0
		}
		since += int64(len(raw))
		pos += int64(len(raw))
		next = last + 1
	}
	if err := s.AddAborted(Aborted{ProducerID: 7, First: 1003, Last: 1009, LastStable: 1010}); err != nil {
		t.Fatal(err)
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	if best > noted {
		wantTime = binary.BigEndian.AppendUint64(wantTime, uint64(best))
		wantTime = binary.BigEndian.AppendUint32(wantTime, uint32(bestAt-1000))
	}
	if created, err := s.FlushIndexes(true); err != nil || !created {
		t.Fatal(created, err)
	}
	wantTxn := append(make([]byte, 2), 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0x03, 0xeb, 0, 0, 0, 0, 0, 0, 0x03, 0xf1, 0, 0, 0, 0, 0, 0, 0x03, 0xf2)
	for suffix, want := range map[string][]byte{IndexSuffix: want, TimeIndexSuffix: wantTime, TxnIndexSuffix: wantTxn} {
		got, err := vfs.ReadFile(m, "/p/00000000000000001000"+suffix, 1<<20)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x %v, want %x", suffix, got, err, want)
		}
	}
	if len(want) == 0 || len(wantTime) == 0 {
		t.Error("nothing was indexed")
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"00000000000000004711.log":           "4711 .log",
		"00000000000000004711.log.deleted":   "4711 .log.deleted",
		"0000000000000000471.log":            "",
		"-0000000000000004711.log":           "",
		"0000000000000000471x.log":           "",
		"99999999999999999999.log":           "",
		"00000000000000004711":               "",
		"leader-epoch-checkpoint":            "",
		"00000000000000004711.timeindex":     "4711 .timeindex",
		"00000000000000004711.log.1.deleted": "4711 .log.1.deleted",
	} {
		got := ""
		if base, suffix, ok := ParseName(name); ok {
			got = fmt.Sprint(base, " ", suffix)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if Name(4711, LogSuffix) != "00000000000000004711.log" {
		t.Error(Name(4711, LogSuffix))
	}
}

// Batches of the formats of Apache Kafka before 0.11 are refused, not cut.
func TestOldFormat(t *testing.T) {
	files, dir, m := newFiles(t)
	f, _ := m.Create("/p/" + Name(0, LogSuffix))
	old := make([]byte, 100)
	binary.BigEndian.PutUint32(old[8:], 88)
	old[16] = 1
	if _, err := f.WriteAt(old, 0); err != nil {
		t.Fatal(err)
	}
	s := Open(files, dir, 0, 100, 0)
	_, err := s.Recover(recoverAll(nil))
	if !errors.Is(err, kerr.UnsupportedForMessageFormat) {
		t.Errorf("error %v", err)
	}
	if n, _ := f.Size(); n != 100 {
		t.Errorf("file cut to %d", n)
	}
}

// Above the recovery point a batch of an earlier leader epoch, or at an offset that
// is there already, is none of this log's, however good its checksum is (safety 13).
func TestOrderEndsTheLog(t *testing.T) {
	good := build(t, 0, 2, 0, 3)
	for what, other := range map[string][]byte{"epoch": build(t, 2, 2, 10, 2), "offset": build(t, 1, 2, 10, 3)} {
		files, dir, m := newFiles(t)
		f, _ := m.Create("/p/" + Name(0, LogSuffix))
		if _, err := f.WriteAt(append(slices.Clone(good), other...), 0); err != nil {
			t.Fatal(err)
		}
		size, _ := f.Size()
		r, err := Open(files, dir, 0, size, 0).Recover(recoverAll(func(batch.Batch) {}))
		if err != nil || r.Next != 2 || r.Size != int64(len(good)) || r.Why == "" {
			t.Errorf("%s goes back: recovered %+v %v", what, r, err)
		}
	}
}

func recoverAll(each func(batch.Batch)) RecoverOpts {
	return RecoverOpts{Limit: math.MaxInt64, Interval: 64, EpochBefore: func(int64) int32 { return -1 },
		Each: func(b batch.Batch) error {
			if each != nil {
				each(b)
			}
			return nil
		}}
}

// Damage in the middle of a file is named with its place.
func TestDamageIsNamed(t *testing.T) {
	files, dir, m := newFiles(t)
	s, _ := Create(files, dir, 0, nil, "")
	var at int64
	for i := range int64(10) {
		if i == 6 {
			at = s.Size()
		}
		if err := s.Append(build(t, i, 1, i, 0), 64); err != nil {
			t.Fatal(err)
		}
	}
	f, _ := m.OpenReadWrite("/p/" + Name(0, LogSuffix))
	if _, err := f.WriteAt([]byte{9}, at+16); err != nil {
		t.Fatal(err)
	}
	_, err := s.Find(7)
	var d *Damage
	if !errors.As(err, &d) || d.Pos != at || !strings.HasSuffix(d.File, Name(0, LogSuffix)) || !errors.Is(err, kerr.CorruptMessage) {
		// an index entry behind the damage is a way past it
		if pos, _, _ := s.lookup(7, s.Size()); err != nil || pos <= at {
			t.Errorf("error %v, want damage at %d", err, at)
		}
	}
	r, err := Open(files, dir, 0, s.Size(), 0).Recover(recoverAll(nil))
	if err != nil || r.Next != 6 || r.Size != at || r.Why == "" {
		t.Errorf("recovered %+v %v", r, err)
	}
}

// The bounds on open files and index memory hold, and nothing in use is closed.
func TestFilesBounds(t *testing.T) {
	files, dir, _ := newFiles(t)
	rng := rand.New(rand.NewPCG(1, 1))
	var segs []*Segment
	next := int64(0)
	for range 12 {
		s, err := Create(files, dir, next, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			if err := s.Append(build(t, next, 1, next, 0), 0); err != nil {
				t.Fatal(err)
			}
			next++
		}
		if err := s.Seal(); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.FlushIndexes(true); err != nil {
			t.Fatal(err)
		}
		segs = append(segs, s)
	}
	var held []Slice
	for range 2000 {
		off := rng.Int64N(next)
		s := segs[off/30]
		pos, err := s.Find(off)
		if err != nil {
			t.Fatal(err)
		}
		if base, err := s.BaseAt(pos); err != nil || base != off {
			t.Fatalf("offset %d: found %d %v", off, base, err)
		}
		sl, err := s.Acquire(pos, 8)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, sl)
		if len(held) > 3 {
			i := rng.IntN(len(held))
			var p [8]byte
			if err := held[i].ReadAt(p[:], 0); err != nil {
				t.Fatal(err)
			}
			held[i].Release()
			held = append(held[:i], held[i+1:]...)
		}
		if n := files.Open(); n > 2+len(held)+1 {
			t.Fatalf("%d files open", n)
		}
		if files.bytes > 1<<10+30*timeEntry*2 {
			t.Fatalf("%d bytes of indexes", files.bytes)
		}
	}
}

// FuzzIndexes opens a segment whose indexes are arbitrary bytes: lookups are
// right, or an error, and never a panic.
func FuzzIndexes(f *testing.F) {
	f.Add([]byte{}, []byte{}, []byte{})
	f.Add([]byte{0, 0, 0, 3, 0, 0, 1, 0}, []byte{0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3}, make([]byte, 34))
	f.Add(bytes.Repeat([]byte{0}, 64), bytes.Repeat([]byte{0xff}, 24), bytes.Repeat([]byte{1}, 35))
	var log []byte
	for i := range int64(20) {
		log = append(log, build(f, i, 1, i*10, 0)...)
	}
	f.Fuzz(func(t *testing.T, off, tim, txn []byte) {
		files, dir, m := newFiles(t)
		for suffix, b := range map[string][]byte{LogSuffix: log, IndexSuffix: off, TimeIndexSuffix: tim, TxnIndexSuffix: txn} {
			g, err := m.Create("/p/" + Name(0, suffix))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.WriteAt(b, 0); err != nil {
				t.Fatal(err)
			}
			_ = g.Close()
		}
		s := Open(files, dir, 0, int64(len(log)), 20)
		for o := range int64(20) {
			pos, err := s.Find(o)
			if err != nil {
				t.Fatalf("find %d: %v", o, err)
			}
			if base, err := s.BaseAt(pos); err != nil || base != o {
				t.Fatalf("offset %d: found %d %v", o, base, err)
			}
		}
		if ts, at, err := s.MaxTimestamp(); err != nil || ts != 190 || at != 19 {
			t.Fatalf("largest timestamp %d at %d: %v", ts, at, err)
		}
		_, _, _ = s.AbortedIn(0, 20, nil)
		if err := s.LoadTail(); err != nil || s.Next() != 20 {
			t.Fatalf("tail: %d %v", s.Next(), err)
		}
		r, err := Open(files, dir, 0, int64(len(log)), 0).Recover(RecoverOpts{From: 10, Limit: math.MaxInt64, Interval: 64,
			EpochBefore: func(int64) int32 { return -1 }, Each: func(batch.Batch) error { return nil }})
		if err != nil || r.Next != 20 || r.Cut != 0 {
			t.Fatalf("recovered %+v %v", r, err)
		}
	})
}

// FuzzRecover recovers a file that was changed: what it keeps is a prefix of
// good batches, in order.
func FuzzRecover(f *testing.F) {
	var log []byte
	for i := range int64(12) {
		log = append(log, build(f, 2*i, 2, i*10, int32(i/4))...)
	}
	f.Add(uint32(0), []byte{}, uint32(len(log)))
	f.Add(uint32(100), []byte{0xff}, uint32(len(log)))
	f.Add(uint32(8), []byte{0x7f, 0xff, 0xff, 0xff}, uint32(700))
	f.Add(uint32(300), bytes.Repeat([]byte{0}, 200), uint32(2000))
	f.Fuzz(func(t *testing.T, at uint32, change []byte, size uint32) {
		files, dir, m := newFiles(t)
		b := make([]byte, min(size, 4096))
		copy(b, log)
		if int(at) < len(b) {
			copy(b[at:], change)
		}
		g, err := m.Create("/p/" + Name(0, LogSuffix))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		var next, size2 int64
		epoch := int32(-1)
		r, err := Open(files, dir, 0, int64(len(b)), 0).Recover(recoverAll(func(x batch.Batch) {
			if !x.CRCValid() || x.BaseOffset() < next || x.LeaderEpoch() < epoch {
				t.Fatalf("took a batch at %d", x.BaseOffset())
			}
			next, epoch = x.NextOffset(), x.LeaderEpoch()
			size2 += int64(len(x))
		}))
		if errors.Is(err, kerr.UnsupportedForMessageFormat) {
			return
		}
		if err != nil || r.Next != next || r.Size != size2 || r.Size+r.Cut != int64(len(b)) {
			t.Fatalf("recovered %+v %v, saw %d bytes to %d", r, err, size2, next)
		}
		if n, _ := g.Size(); n != r.Size {
			t.Fatalf("file has %d bytes, want %d", n, r.Size)
		}
		s := Open(files, dir, 0, r.Size, 0)
		if err := s.LoadTail(); err != nil || s.Next() != next {
			t.Fatalf("opened again: next %d %v", s.Next(), err)
		}
	})
}

// A reader beside a cut gets nothing above the offset that it asked to end at,
// though the end of the batches and the size of the file change one by one.
func TestWholeBesideCut(t *testing.T) {
	first, more := build(t, 0, 10, 1, 0), build(t, 10, 3, 1, 0)
	var now atomic.Pointer[Segment]
	round := func() {
		files, dir, _ := newFiles(t)
		s, err := Create(files, dir, 0, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(first, 100); err != nil {
			t.Fatal(err)
		}
		now.Store(s)
		if err := s.Append(more, 100); err != nil {
			t.Fatal(err)
		}
		if end, err := s.Cut(10); err != nil || end != 10 {
			t.Fatal(end, err)
		}
	}
	round()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if end, err := now.Load().Whole(0, 1<<20, 10, false); err != nil || end != int64(len(first)) {
					t.Errorf("whole batches below offset 10 end at %d, want %d: %v", end, len(first), err)
					return
				}
			}
		})
	}
	for range 5000 {
		round()
	}
	close(done)
	wg.Wait()
}

// Zeroes, which a power loss leaves in place of entries that were not synced,
// are no aborted transaction, also not in the segment that starts at 0.
func TestZeroTxnEntries(t *testing.T) {
	files, dir, m := newFiles(t)
	s, err := Create(files, dir, 0, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddAborted(Aborted{ProducerID: 1, First: 0, Last: 3, LastStable: 4}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.FlushIndexes(true); err != nil {
		t.Fatal(err)
	}
	for _, zero := range []bool{false, true} {
		if zero {
			name := dir.Join(Name(0, TxnIndexSuffix))
			if err := vfs.ReplaceFile(m, name, make([]byte, 2*txnEntry)); err != nil {
				t.Fatal(err)
			}
		}
		x := newSegment(files, dir, 0)
		if err := x.txn.salvage(); err != nil {
			t.Fatal(err)
		}
		if found, _, err := x.AbortedIn(0, 10, nil); err != nil || len(found) > 0 == zero {
			t.Errorf("zeroes %t: aborted %v %v", zero, found, err)
		}
	}
}
