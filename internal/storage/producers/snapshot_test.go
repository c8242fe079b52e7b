package producers_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Snapshots that a broker of Apache Kafka 4.4.0 wrote: of an empty log, of two
// idempotent producers, and of one whose transaction has ended.
const (
	goldenEmpty = "0001 48674bc7 00000000"
	goldenTwo   = "0001 841b0dfe 00000002" +
		"0000000000000001 0000 00000001 0000000000000001 00000001 000001a2288ebedd ffffffff ffffffffffffffff" +
		"0000000000000002 0000 00000005 0000000000000007 00000001 000001a2288ebf43 ffffffff ffffffffffffffff"
	goldenEnded = "0001 53ac70a3 00000001" +
		"0000000000000003 0003 ffffffff ffffffffffffffff 00000000 000001a2288ec294 00000000 ffffffffffffffff"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func describe(entries []producers.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		l, ok := e.Last()
		fmt.Fprintf(&b, "p%d e%d c%d txn %d ts %d %t", e.ProducerID, e.Epoch, e.CoordinatorEpoch, e.TxnFirstOffset, e.LastTimestampMs, ok)
		if ok {
			fmt.Fprintf(&b, " %d..%d@%d..%d", l.FirstSeq(), l.LastSeq, l.FirstOffset(), l.LastOffset)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestApacheKafkaSnapshots(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{goldenEmpty, ""},
		{goldenTwo, "p1 e0 c-1 txn -1 ts 1795976773341 true 0..1@0..1\np2 e0 c-1 txn -1 ts 1795976773443 true 4..5@6..7\n"},
		{goldenEnded, "p3 e3 c0 txn -1 ts 1795976774292 false\n"},
	} {
		file := unhex(t, c.hex)
		entries, err := producers.Decode("f", file)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(entries); got != c.want {
			t.Errorf("%s", got)
		}
		if got := producers.Encode(entries); !bytes.Equal(got, file) {
			t.Errorf("encoded again:\n%x, want\n%x", got, file)
		}
		s := producers.New(0)
		s.Restore(entries, 8, start)
		if got := s.Snapshot(); !bytes.Equal(got, file) {
			t.Errorf("restored and taken again:\n%x, want\n%x", got, file)
		}
	}
}

// The same bytes come from the same history.
func TestSnapshotOfHistory(t *testing.T) {
	s := producers.New(0)
	add := func(b producers.Batch, origin producers.Origin) {
		t.Helper()
		u, err := s.Analyze([]producers.Batch{b}, producers.Options{Origin: origin, Now: start})
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(u)
	}
	add(producers.Batch{ProducerID: 1, LastSeq: 1, LastOffset: 1, TimestampMs: 0x01a2288ebedd}, producers.FromClient)
	for i := range int32(3) {
		off := int64(2 + 2*i)
		add(producers.Batch{ProducerID: 2, FirstSeq: 2 * i, LastSeq: 2*i + 1, FirstOffset: off, LastOffset: off + 1, TimestampMs: 0x01a2288ebf41 + int64(i)}, producers.FromClient)
	}
	if got, want := s.Snapshot(), unhex(t, goldenTwo); !bytes.Equal(got, want) {
		t.Fatalf("%x, want\n%x", got, want)
	}
	s = producers.New(0)
	add(producers.Batch{ProducerID: 3, Epoch: 2, TimestampMs: 5, Transactional: true}, producers.FromClient)
	add(producers.Batch{ProducerID: 3, Epoch: 3, FirstOffset: 1, LastOffset: 1, TimestampMs: 0x01a2288ec294, Transactional: true, Control: true}, producers.FromCoordinator)
	if got, want := s.Snapshot(), unhex(t, goldenEnded); !bytes.Equal(got, want) {
		t.Fatalf("%x, want\n%x", got, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := unhex(t, goldenTwo)
	// Every cut and every flipped bit is noticed.
	for n := range good {
		if _, err := producers.Decode("f", good[:n]); !errors.Is(err, vfs.ErrCorrupt) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	for bit := range len(good) * 8 {
		bad := slices.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := producers.Decode("f", bad); !errors.Is(err, vfs.ErrCorrupt) {
			t.Errorf("bit %d flipped: %v", bit, err)
		}
	}
	twice, err := producers.Decode("f", good)
	if err != nil {
		t.Fatal(err)
	}
	twice[1] = twice[0]
	negative := []producers.Entry{{ProducerID: -5}}
	for _, c := range []struct {
		file []byte
		want string
	}{
		{nil, "f: corrupt at byte 0: the file ends within its header of 10 bytes"},
		{append([]byte{0, 2}, good[2:]...), "f: corrupt at byte 0: unknown version 2, expected 1"},
		{append(slices.Clone(good[:2]), append([]byte{0, 0, 0, 0}, good[6:]...)...), "f: corrupt at byte 2: checksum is 00000000, of the content 841b0dfe"},
		{producers.Encode(twice), "f: corrupt at byte 56: producer 1 is listed twice"},
		{producers.Encode(negative), "f: corrupt at byte 10: producer -5: its id is negative"},
	} {
		_, err := producers.Decode("f", c.file)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestFileNames(t *testing.T) {
	if got := producers.FileName(4711); got != "00000000000000004711.snapshot" {
		t.Fatal(got)
	}
	for name, want := range map[string]int64{
		"00000000000000004711.snapshot":         4711,
		"09223372036854775807.snapshot":         1<<63 - 1,
		"4711.snapshot":                         -1,
		"00000000000000004711.snapshot.deleted": -1,
		"-0000000000000004711.snapshot":         -1,
		"99999999999999999999.snapshot":         -1,
		"00000000000000004711.log":              -1,
	} {
		got, ok := producers.ParseFileName(name)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d, %t", name, got, ok)
		}
	}
}

func saved(t testing.TB, offsets ...int64) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	for _, o := range offsets {
		if err := producers.Save(m, "", o, unhex(t, goldenTwo)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func listed(t testing.TB, fsys vfs.FS) []int64 {
	t.Helper()
	offsets, err := producers.List(fsys, "")
	if err != nil {
		t.Fatal(err)
	}
	return offsets
}

// REC-03: a damaged snapshot is named and removed, and an older one taken.
func TestLoadNewest(t *testing.T) {
	m := saved(t, 10, 20, 30, 40)
	f, err := m.OpenReadWrite(producers.FileName(30))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xee}, 50); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := producers.LoadNewest(m, "", 15, 35)
	if err != nil || !l.Found || l.Offset != 20 || len(l.Entries) != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
	if len(l.Damaged) != 1 || !strings.HasPrefix(l.Damaged[0].Error(), "00000000000000000030.snapshot: corrupt at byte 2: checksum is") {
		t.Fatalf("%v", l.Damaged)
	}
	if got := listed(t, m); !slices.Equal(got, []int64{10, 20, 40}) {
		t.Fatalf("%v", got)
	}
	l, err = producers.LoadNewest(m, "", 11, 19)
	if err != nil || l.Found || l.Offset != 11 || l.Entries != nil {
		t.Fatalf("%+v, %v", l, err)
	}
}

func TestLoadNewestReportsTheDisk(t *testing.T) {
	eio := errors.New("input/output error")
	fsys := vfs.Faulty(saved(t, 10, 20), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead {
			return eio
		}
		return nil
	})
	if _, err := producers.LoadNewest(fsys, "", 0, 100); !errors.Is(err, eio) {
		t.Fatalf("%v: a disk that cannot be read is not damage to be cut", err)
	}
	if got := listed(t, fsys); !slices.Equal(got, []int64{10, 20}) {
		t.Fatalf("%v", got)
	}
}

func TestDelete(t *testing.T) {
	for _, c := range []struct {
		do   func(fsys vfs.FS) (int, error)
		want []int64
	}{
		{func(m vfs.FS) (int, error) { return producers.DeleteAbove(m, "", 20) }, []int64{10, 20}},
		{func(m vfs.FS) (int, error) { return producers.DeleteBelow(m, "", 20) }, []int64{20, 30, 40}},
		{func(m vfs.FS) (int, error) { return 1, producers.Delete(m, "", 30) }, []int64{10, 20, 40}},
		{func(m vfs.FS) (int, error) { return 0, producers.Delete(m, "", 33) }, []int64{10, 20, 30, 40}},
		{func(m vfs.FS) (int, error) { return producers.DeleteStray(m, "", []int64{0, 10, 30}) }, []int64{10, 30, 40}},
		{func(m vfs.FS) (int, error) { return producers.DeleteStray(m, "", []int64{0, 10, 50}) }, []int64{10}},
		{func(m vfs.FS) (int, error) { return producers.DeleteStray(m, "", nil) }, []int64{40}},
	} {
		m := saved(t, 10, 20, 30, 40)
		n, err := c.do(m)
		got := listed(t, m)
		if err != nil || n != 4-len(got) || !slices.Equal(got, c.want) {
			t.Errorf("removed %d, %v, left %v, want %v", n, err, got, c.want)
		}
	}
}

func TestTruncationDeletesTheHighestFirst(t *testing.T) {
	var trace vfs.Trace
	if _, err := producers.DeleteAbove(trace.Wrap(saved(t, 10, 20, 30)), "", 10); err != nil {
		t.Fatal(err)
	}
	want := "remove 00000000000000000030.snapshot\nremove 00000000000000000020.snapshot\n"
	if got := trace.Take(); got != want {
		t.Fatal(got)
	}
}

// At any crash point a snapshot is whole or refused.
func TestSaveThenCrash(t *testing.T) {
	m := saved(t, 10)
	if err := m.SyncDir(""); err != nil {
		t.Fatal(err)
	}
	content := unhex(t, goldenTwo)
	long := producers.Encode(manyEntries(500))
	check := func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		for seed := range uint64(20) {
			clone := m.CrashClone(rand.New(rand.NewPCG(seed, 2)), vfs.PowerLoss)
			l, err := producers.LoadNewest(clone, "", 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			got := producers.Encode(l.Entries)
			if len(l.Damaged) > 0 {
				t.Fatalf("before %v, seed %d: a part of a snapshot is there: %v", op, seed, l.Damaged)
			}
			if l.Found && !bytes.Equal(got, content) && !bytes.Equal(got, long) {
				t.Fatalf("before %v, seed %d: another snapshot than was written", op, seed)
			}
		}
		return nil
	}
	fsys := vfs.Faulty(m, check)
	for _, o := range []int64{20, 20, 10} {
		if err := producers.Save(fsys, "", o, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.SyncDir(""); err != nil {
		t.Fatal(err)
	}
	l, err := producers.LoadNewest(m.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{}), "", 0, 100)
	if err != nil || l.Offset != 20 || len(l.Entries) != 500 {
		t.Fatalf("%d, %v", l.Offset, err)
	}
}

func TestSaveOnAFullDisk(t *testing.T) {
	m := vfs.NewMem()
	m.SetCapacity(30)
	if err := producers.Save(m, "", 5, unhex(t, goldenTwo)); !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatal(err)
	}
	if got := listed(t, m); len(got) != 0 {
		t.Fatalf("left: %v", got)
	}
}

func manyEntries(n int) []producers.Entry {
	s := producers.New(time.Hour)
	for i := range int64(n) {
		u, err := s.Analyze([]producers.Batch{{ProducerID: i, FirstOffset: i, LastOffset: i}}, producers.Options{Now: start})
		if err != nil {
			panic(err)
		}
		s.Apply(u)
	}
	return s.Entries()
}

func FuzzDecode(f *testing.F) {
	for _, h := range []string{goldenEmpty, goldenTwo, goldenEnded} {
		f.Add(unhex(f, h), true)
	}
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, true)
	f.Fuzz(func(t *testing.T, file []byte, resum bool) {
		if resum && len(file) >= 10 {
			// Get past the checksum, or nothing behind it is ever reached.
			if _, err := producers.Decode("f", file); err != nil {
				if _, sum, ok := strings.Cut(err.Error(), "of the content "); ok {
					copy(file[2:6], unhex(t, sum))
				}
			}
		}
		entries, err := producers.Decode("f", file)
		if err != nil {
			if !errors.Is(err, vfs.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		s := producers.New(0)
		s.Restore(entries, 1<<40, start)
		again, err := producers.Decode("f", s.Snapshot())
		if err != nil || describe(again) != describe(entries) {
			t.Fatalf("%v\n%s, want\n%s", err, describe(again), describe(entries))
		}
	})
}
