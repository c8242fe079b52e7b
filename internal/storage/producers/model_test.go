package producers_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// model keeps nothing but the log and answers every question by walking it.
type model struct {
	log []producers.Batch
	// restored is where the state was loaded: of what lies below, only each
	// producer's last batch is remembered.
	restored int64
}

func (m *model) end() int64 {
	if len(m.log) == 0 {
		return 0
	}
	return m.log[len(m.log)-1].LastOffset + 1
}

// of returns the producer's epoch, its coordinator's epoch, its open
// transaction, and its batches of that epoch.
func (m *model) of(pid int64) (epoch int16, coordinator int32, txn int64, data []producers.Batch) {
	epoch, coordinator, txn = -1, -1, -1
	for _, b := range m.log {
		if b.ProducerID != pid {
			continue
		}
		if b.Epoch != epoch {
			epoch, data = b.Epoch, nil
		}
		if b.Control {
			coordinator, txn = b.Marker.CoordinatorEpoch, -1
			continue
		}
		data = append(data, b)
		if b.Transactional && txn < 0 {
			txn = b.FirstOffset
		}
	}
	return epoch, coordinator, txn, data
}

// remembered is the part of data among which duplicates are found.
func (m *model) remembered(data []producers.Batch) []producers.Batch {
	first := len(data)
	for first > 0 && len(data)-first < producers.KeptBatches && (first == len(data) || data[first].LastOffset >= m.restored) {
		first--
	}
	return data[first:]
}

// judge says what becomes of a client's batch or a coordinator's marker.
func (m *model) judge(b producers.Batch) (dup *producers.Batch, code *kerr.Error) {
	epoch, coordinator, txn, data := m.of(b.ProducerID)
	if b.Control {
		switch {
		case b.Epoch < epoch:
			return nil, kerr.InvalidProducerEpoch
		case b.Marker.CoordinatorEpoch < coordinator:
			return nil, kerr.TransactionCoordinatorFenced
		}
		return nil, nil
	}
	if b.Epoch == epoch {
		for _, d := range m.remembered(data) {
			if d.FirstSeq == b.FirstSeq && d.LastSeq == b.LastSeq {
				return &d, nil
			}
		}
	}
	next := int32(0)
	if b.Epoch == epoch && len(data) > 0 {
		next = int32((int64(data[len(data)-1].LastSeq) + 1) % (math.MaxInt32 + 1))
	}
	switch {
	case b.Epoch < epoch:
		return nil, kerr.InvalidProducerEpoch
	case epoch >= 0 && b.FirstSeq != next:
		return nil, kerr.OutOfOrderSequenceNumber
	case txn >= 0 && !b.Transactional:
		return nil, kerr.InvalidTxnState
	}
	return nil, nil
}

// firstUnstable walks all transactions.
func (m *model) firstUnstable(hw int64) int64 {
	open, first := map[int64]int64{}, int64(math.MaxInt64)
	for _, b := range m.log {
		at, ongoing := open[b.ProducerID]
		switch {
		case b.Control && ongoing:
			delete(open, b.ProducerID)
			if b.LastOffset >= hw {
				first = min(first, at)
			}
		case !b.Control && b.Transactional && !ongoing:
			open[b.ProducerID] = b.FirstOffset
		}
	}
	for _, at := range open {
		first = min(first, at)
	}
	if first == math.MaxInt64 {
		return -1
	}
	return first
}

// machine drives State and model side by side.
type machine struct {
	m   model
	s   *producers.State
	fs  *vfs.Mem
	now time.Time
	hw  int64
}

func (c *machine) draw(t *rapid.T) producers.Batch {
	pid := rapid.Int64Range(1, 3).Draw(t, "pid")
	epoch, coordinator, txn, data := c.m.of(pid)
	b := producers.Batch{
		ProducerID:    pid,
		Epoch:         max(epoch, 0) + rapid.SampledFrom([]int16{0, 0, 0, 0, 0, 0, 1, -1}).Draw(t, "epoch"),
		FirstOffset:   c.m.end(),
		Transactional: (txn >= 0) != (rapid.IntRange(0, 5).Draw(t, "switch") == 0),
		TimestampMs:   c.now.UnixMilli(),
	}
	b.Epoch = max(b.Epoch, 0)
	if rapid.IntRange(0, 3).Draw(t, "marker") == 0 {
		b.Control, b.Transactional, b.FirstSeq, b.LastSeq, b.LastOffset = true, true, -1, -1, b.FirstOffset
		b.Marker.Commit = rapid.Bool().Draw(t, "commit")
		b.Marker.CoordinatorEpoch = max(coordinator, 0) + rapid.SampledFrom([]int32{0, 0, 1, -1}).Draw(t, "coordinator")
		return b
	}
	n := rapid.Int32Range(1, 4).Draw(t, "records")
	b.LastOffset = b.FirstOffset + int64(n) - 1
	switch {
	case len(data) > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0:
		d := data[max(len(data)-rapid.IntRange(1, 7).Draw(t, "back"), 0)]
		b.Epoch, b.FirstSeq, b.LastSeq = d.Epoch, d.FirstSeq, d.LastSeq
		b.LastOffset = b.FirstOffset + d.LastOffset - d.FirstOffset
		return b
	case len(data) > 0 && b.Epoch == epoch:
		b.FirstSeq = data[len(data)-1].LastSeq
		b.FirstSeq = plus(b.FirstSeq, 1+rapid.SampledFrom([]int32{0, 0, 0, 0, 0, 1}).Draw(t, "gap"))
	case epoch < 0:
		b.FirstSeq = rapid.SampledFrom([]int32{0, 7, math.MaxInt32 - 1, math.MaxInt32}).Draw(t, "first")
	}
	b.LastSeq = plus(b.FirstSeq, n-1)
	return b
}

func plus(seq, n int32) int32 { return int32((int64(seq) + int64(n)) % (math.MaxInt32 + 1)) }

func (c *machine) append(t *rapid.T) {
	b := c.draw(t)
	opts := producers.Options{Now: c.now}
	if b.Control {
		opts.Origin = producers.FromCoordinator
	}
	dup, code := c.m.judge(b)
	u, err := c.s.Analyze([]producers.Batch{b}, opts)
	switch {
	case code != nil:
		if !errors.Is(err, code) {
			t.Fatalf("%+v: %v, want %v", b, err, code)
		}
		return
	case err != nil:
		t.Fatalf("%+v: %v", b, err)
	case dup != nil:
		if !u.Duplicate || u.First != dup.FirstOffset || u.Last != dup.LastOffset {
			t.Fatalf("%+v: %+v, want a duplicate of %+v", b, u, dup)
		}
		return
	case u.Duplicate:
		t.Fatalf("%+v: a duplicate of %d", b, u.First)
	}
	_, _, txn, _ := c.m.of(b.ProducerID)
	if b.Control != (len(u.Completed) > 0) && (txn >= 0 || !b.Control) {
		t.Fatalf("%+v: completed %+v with a transaction at %d", b, u.Completed, txn)
	}
	if rapid.IntRange(0, 9).Draw(t, "write fails") == 0 {
		return
	}
	c.s.Apply(u)
	c.m.log = append(c.m.log, b)
	for _, done := range u.Completed {
		stable := c.m.firstUnstable(math.MaxInt64)
		if stable < 0 {
			stable = c.m.end()
		}
		if done.FirstOffset != txn || done.LastOffset != b.LastOffset || done.Aborted == b.Marker.Commit || done.LastStableOffset != stable {
			t.Fatalf("completed %+v, want from %d, stable %d", done, txn, stable)
		}
	}
}

// reload restores the newest snapshot at or below end and replays the rest.
func (c *machine) reload(t *rapid.T, end int64) {
	l, err := producers.LoadNewest(c.fs, "", 0, end)
	if err != nil || len(l.Damaged) > 0 {
		t.Fatal(err, l.Damaged)
	}
	c.s = producers.New(time.Hour)
	c.s.Restore(l.Entries, l.Offset, c.now)
	c.m.restored = l.Offset
	var replay []producers.Batch
	for _, b := range c.m.log {
		if b.FirstOffset >= l.Offset {
			replay = append(replay, b)
		}
	}
	n := rapid.IntRange(0, len(replay)).Draw(t, "in one append")
	for _, part := range [][]producers.Batch{replay[:n], replay[n:]} {
		u, err := c.s.Analyze(part, producers.Options{Origin: producers.FromReplication, Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		c.s.Apply(u)
	}
}

func (c *machine) truncate(t *rapid.T) {
	keep := rapid.IntRange(0, len(c.m.log)).Draw(t, "keep")
	c.m.log = c.m.log[:keep]
	if _, err := producers.DeleteAbove(c.fs, "", c.m.end()); err != nil {
		t.Fatal(err)
	}
	c.hw = min(c.hw, c.m.end())
	c.reload(t, c.m.end())
}

func (c *machine) check(t *rapid.T) {
	if c.s.End() != c.m.end() {
		t.Fatalf("end %d, want %d", c.s.End(), c.m.end())
	}
	// Transactions that ended below the snapshot are not in it: by then the
	// high watermark has passed them, or what is not known is below it.
	if hw := max(c.hw, c.m.restored); c.s.FirstUnstable(hw) != c.m.firstUnstable(hw) {
		t.Fatalf("first unstable below %d is %d, want %d", hw, c.s.FirstUnstable(hw), c.m.firstUnstable(hw))
	}
	for _, e := range c.s.Entries() {
		epoch, coordinator, txn, data := c.m.of(e.ProducerID)
		last := int32(-1)
		if len(data) > 0 {
			last = data[len(data)-1].LastSeq
		}
		if e.Epoch != epoch || e.CoordinatorEpoch != coordinator || e.TxnFirstOffset != txn || e.LastSeq() != last {
			t.Fatalf("%+v, want epoch %d, coordinator %d, transaction %d, last sequence %d", e, epoch, coordinator, txn, last)
		}
	}
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &machine{s: producers.New(time.Hour), fs: vfs.NewMem(), now: start}
		t.Repeat(map[string]func(*rapid.T){
			"append":   c.append,
			"append2":  c.append,
			"append3":  c.append,
			"truncate": c.truncate,
			"snapshot": func(t *rapid.T) {
				if c.s.SnapshotDue() {
					if err := producers.Save(c.fs, "", c.s.End(), c.s.Snapshot()); err != nil {
						t.Fatal(err)
					}
				}
			},
			"restart": func(t *rapid.T) { c.reload(t, c.m.end()) },
			"high watermark": func(t *rapid.T) {
				c.hw = rapid.Int64Range(c.hw, max(c.hw, c.m.end())).Draw(t, "hw")
				c.s.AdvanceHighWatermark(c.hw)
			},
			"": c.check,
		})
	})
}

// Expire in small steps forgets exactly who was not heard of.
func TestExpireSweeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := producers.New(time.Hour), start
		heard := map[int64]time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "appends") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "minutes")) * time.Minute)
			pid, end := rapid.Int64Range(0, 20).Draw(t, "pid"), s.End()
			u, err := s.Analyze([]producers.Batch{{ProducerID: pid, FirstOffset: end, LastOffset: end}}, producers.Options{Origin: producers.FromReplication, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			s.Apply(u)
			heard[pid] = now
			if rapid.Bool().Draw(t, "step") {
				s.Expire(now, rapid.IntRange(1, 5).Draw(t, "limit"))
			}
		}
		for range 2 { // to the end of this round, and one more
			for {
				if _, done := s.Expire(now, 3); done {
					break
				}
			}
		}
		for pid, at := range heard {
			if _, known := s.Entry(pid); known != (now.Sub(at) < time.Hour) {
				t.Fatalf("producer %d, heard of %v ago: known %t", pid, now.Sub(at), known)
			}
		}
		if n := len(s.Entries()); n != s.Len() {
			t.Fatalf("%d producers, and %d in the sweep", n, s.Len())
		}
	})
}

func TestApplyRefusesStaleUpdates(t *testing.T) {
	s := producers.New(0)
	b := []producers.Batch{{ProducerID: 1}}
	mustPanic := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Fatalf("no panic: %s", what)
			}
		}()
		f()
	}
	u, err := s.Analyze(b, producers.Options{Now: start})
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(u)
	mustPanic("applied twice", func() { s.Apply(u) })
	u, err = s.Analyze(b, producers.Options{Now: start})
	if err != nil || !u.Duplicate {
		t.Fatal(u, err)
	}
	mustPanic("a duplicate", func() { s.Apply(u) })
}

// A produce request's share: no allocation once the producer is known.
func TestAppendDoesNotAllocate(t *testing.T) {
	s := producers.New(0)
	var batches [1]producers.Batch
	next := func() {
		b := &batches[0]
		b.ProducerID, b.FirstOffset, b.LastOffset = 1, s.End(), s.End()
		b.FirstSeq, b.LastSeq = int32(s.End()), int32(s.End())
		u, err := s.Analyze(batches[:], producers.Options{Now: start})
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(u)
	}
	next()
	if n := testing.AllocsPerRun(100, next); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	s := producers.New(0)
	batches := make([]producers.Batch, 1)
	b.ReportAllocs()
	for b.Loop() {
		t := &batches[0]
		t.ProducerID, t.FirstOffset, t.LastOffset = 1, s.End(), s.End()
		t.FirstSeq, t.LastSeq = int32(s.End()), int32(s.End())
		u, err := s.Analyze(batches, producers.Options{Now: start})
		if err != nil {
			b.Fatal(err)
		}
		s.Apply(u)
	}
}
