package producers_test

import (
	"errors"
	"maps"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// machine drives State and model side by side.
type machine struct {
	m   model
	s   *producers.State
	fs  *vfs.Mem
	now time.Time
	hw  int64

	restored int64           // where the state was loaded
	saved    map[int64]model // as of each snapshot, but for the log
}

// draw is a batch of anyone's. Of whom nothing is known the epoch does not fall:
// the model takes all batches of one for its last.
func (c *machine) draw(t *rapid.T) producers.Batch {
	b := c.drawAny(t)
	if epoch, _, _, _ := c.m.of(b.ProducerID); epoch < 0 {
		for _, o := range c.m.log {
			if o.ProducerID == b.ProducerID {
				b.Epoch = max(b.Epoch, o.Epoch)
			}
		}
	}
	return b
}

func (c *machine) drawAny(t *rapid.T) producers.Batch {
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
	sent, n := c.m.sent(pid), rapid.Int32Range(1, 4).Draw(t, "records")
	b.LastOffset = b.FirstOffset + int64(n) - 1
	switch {
	case len(sent) > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0:
		d := sent[max(len(sent)-rapid.IntRange(1, 12).Draw(t, "back"), 0)]
		b.Epoch, b.FirstSeq, b.LastSeq = d.Epoch, d.FirstSeq, d.LastSeq
		if rapid.IntRange(0, 2).Draw(t, "cut otherwise") > 0 {
			b.LastOffset = b.FirstOffset + d.LastOffset - d.FirstOffset
			return b
		}
		b.FirstSeq = plus(b.FirstSeq, rapid.Int32Range(0, 2).Draw(t, "later"))
	case len(data) > 0 && b.Epoch == epoch:
		b.FirstSeq = data[len(data)-1].LastSeq
		b.FirstSeq = plus(b.FirstSeq, 1+rapid.SampledFrom([]int32{0, 0, 0, 0, 0, 1}).Draw(t, "gap"))
	case epoch < 0:
		b.FirstSeq = rapid.SampledFrom([]int32{0, 7, math.MaxInt32 - 1, math.MaxInt32}).Draw(t, "first")
	}
	b.LastSeq = plus(b.FirstSeq, n-1)
	return b
}

func (c *machine) append(t *rapid.T) {
	b := c.draw(t)
	opts := producers.Options{Now: c.now}
	if b.Control {
		opts.Origin = producers.FromCoordinator
	}
	dup, below, code := c.m.judge(b)
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
	case below >= 0:
		if !u.Duplicate || u.First != producers.None || u.Last != below-1 {
			t.Fatalf("%+v: %+v, want a duplicate of what is below %d", b, u, below)
		}
		return
	case u.Duplicate:
		t.Fatalf("%+v: a duplicate of %d..%d", b, u.First, u.Last)
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

// replicate appends what a leader has: any sequences.
func (c *machine) replicate(t *rapid.T) {
	b := c.draw(t)
	if b.Control {
		return
	}
	if epoch, _, _, _ := c.m.of(b.ProducerID); b.Epoch < epoch {
		return
	}
	u, err := c.s.Analyze([]producers.Batch{b}, producers.Options{Origin: producers.FromReplication, Now: c.now})
	if err != nil || u.Duplicate {
		t.Fatal(u, err)
	}
	c.s.Apply(u)
	c.m.log = append(c.m.log, b)
}

// expire forgets everyone without an open transaction.
func (c *machine) expire(t *rapid.T) {
	c.now = c.now.Add(2 * time.Hour)
	for _, e := range c.s.Entries() {
		if !e.InTransaction() {
			c.m.gone[e.ProducerID], c.m.from[e.ProducerID] = len(c.m.log), c.m.end()
		}
	}
	for range 2 { // to the end of this round, and one more
		c.s.Expire(c.now, 100)
	}
}

func (c *machine) snapshot(t *rapid.T) {
	if !c.s.SnapshotDue() {
		return
	}
	if err := producers.Save(c.fs, "", c.s.End(), c.s.Snapshot()); err != nil {
		t.Fatal(err)
	}
	c.saved[c.s.End()] = model{from: maps.Clone(c.m.from), gone: maps.Clone(c.m.gone)}
}

// recall tells the restored state of the batches below the snapshot, from
// somewhere on, and the model what they are worth.
func (c *machine) recall(t *rapid.T, end int64) {
	from := rapid.Int64Range(0, end).Draw(t, "recall from")
	r := c.s.Recall()
	for _, b := range c.m.log {
		if b.FirstOffset >= from && b.LastOffset < end {
			r.Add(&b)
		}
	}
	r.Finish()
	for pid := int64(1); pid <= 3; pid++ {
		epoch, _, _, data := c.m.below(pid, end)
		if len(data) == 0 {
			c.m.from[pid] = end
			continue
		}
		first := data[len(data)-1]
		sent := c.m.sent(pid)
		for i := len(sent) - 1; i >= 0; i-- {
			if b := sent[i]; b.FirstOffset >= from && b.Epoch == epoch && b.LastOffset < first.FirstOffset {
				if next(b) != first.FirstSeq {
					break
				}
				first = b
			}
		}
		c.m.from[pid] = first.FirstOffset
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
	c.m.gone, c.m.from = map[int64]int{}, map[int64]int64{}
	if l.Found {
		maps.Copy(c.m.gone, c.saved[l.Offset].gone)
		maps.Copy(c.m.from, c.saved[l.Offset].from)
		c.recall(t, l.Offset)
	}
	c.restored = l.Offset
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
	if hw := max(c.hw, c.restored); c.s.FirstUnstable(hw) != c.m.firstUnstable(hw) {
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
		c := &machine{s: producers.New(time.Hour), fs: vfs.NewMem(), now: start, saved: map[int64]model{}}
		c.m.from, c.m.gone = map[int64]int64{}, map[int64]int{}
		t.Repeat(map[string]func(*rapid.T){
			"append":    c.append,
			"append2":   c.append,
			"append3":   c.append,
			"truncate":  c.truncate,
			"replicate": c.replicate,
			"expire":    c.expire,
			"snapshot":  c.snapshot,
			"restart":   func(t *rapid.T) { c.reload(t, c.m.end()) },
			"high watermark": func(t *rapid.T) {
				c.hw = rapid.Int64Range(c.hw, max(c.hw, c.m.end())).Draw(t, "hw")
				c.s.AdvanceHighWatermark(c.hw)
			},
			"": c.check,
		})
	})
}
