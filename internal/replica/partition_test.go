package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
)

// awaitAsync waits in a goroutine; the channel gets the verdict.
func awaitAsync(t *testing.T, p *Partition, res AppendResult) <-chan error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	verdict := make(chan error, 1)
	go func() {
		defer cancel()
		verdict <- p.AwaitCommitted(ctx, res.Epoch, res.Last+1)
	}()
	return verdict
}

// A term's end fails who waits in it, and a later term's progress does not
// make that good (safety 5).
func TestTermEndFailsTheWaiting(t *testing.T) {
	for what, next := range map[string]func(*Partition){
		"leads again":  func(p *Partition) { lead(t, p, 1, alone) },
		"follows":      func(p *Partition) { follow(t, p, 1) },
		"is given up":  func(p *Partition) { p.close() },
		"both in turn": func(p *Partition) { follow(t, p, 1); lead(t, p, 2, alone) },
	} {
		t.Run(what, func(t *testing.T) {
			d := newDisk()
			p := partitionOn(t, d, true)
			release := d.hold()
			defer release()
			res := put(t, p, records("a"), -1)
			verdict := awaitAsync(t, p, res)
			next(p)
			wantErr(t, "who waited", <-verdict, kerr.NotLeaderForPartition)
			release()
			if err := p.Log().Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.advance()
			wantErr(t, "who comes late", p.AwaitCommitted(t.Context(), res.Epoch, res.Last+1), kerr.NotLeaderForPartition)
		})
	}
}

// What was acknowledged stays, through terms that cut off what was not: a
// waiter is never satisfied by the records that took the place of its own.
func TestNoOtherTermAcknowledges(t *testing.T) {
	d := newDisk()
	p := partitionOn(t, d, true)
	var mu sync.Mutex
	acked := map[int64]string{}
	var failed atomic.Int64
	var writers sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				v := fmt.Sprintf("%d.%d", w, n)
				res, err := p.Append(testAt, records(v), AppendOpts{Acks: -1})
				if err != nil {
					failed.Add(1)
					continue
				}
				if err := p.AwaitCommitted(t.Context(), res.Epoch, res.Last+1); err != nil {
					failed.Add(1)
					continue
				}
				mu.Lock()
				if old, twice := acked[res.Base]; twice {
					t.Errorf("offset %d was acknowledged for %q and for %q", res.Base, old, v)
				}
				acked[res.Base] = v
				mu.Unlock()
			}
		})
	}
	cut := 0
	for epoch := kafka.LeaderEpoch(1); epoch < 100; epoch += 2 {
		reach(p, p.HighWatermark, p.HighWatermark()+1) // some is acknowledged
		release := d.hold()                            // and some cannot become durable
		reach(p, func() int64 { return p.Log().End() - p.HighWatermark() }, 1)
		follow(t, p, epoch)
		release()
		at := p.HighWatermark()
		if p.Log().End() > at {
			cut++
		}
		if err := p.Log().Truncate(at); err != nil {
			t.Fatal(err)
		}
		lead(t, p, epoch+1, alone)
	}
	close(done)
	writers.Wait()
	if cut == 0 || len(acked) == 0 {
		t.Fatalf("nothing was put to the test: %d cuts, %d acknowledged", cut, len(acked))
	}
	for offset, v := range acked {
		if got := valuesAt(t, p, offset, ReadLogEnd); len(got) == 0 || got[0] != v {
			t.Errorf("offset %d was acknowledged as %q and holds %q", offset, v, got)
		}
	}
	t.Logf("%d acknowledged, %d refused, %d cuts", len(acked), failed.Load(), cut)
}

// reach waits until a mark of the partition is there.
func reach(p *Partition, mark func() int64, at int64) {
	w := NewWaiter()
	p.AddWaiter(w)
	defer p.RemoveWaiter(w)
	for mark() < at {
		<-w.C
	}
}

// A duplicate is no proof that the original is safe (safety 6).
func TestDuplicateWaitsLikeTheOriginal(t *testing.T) {
	d := newDisk()
	p := partitionOn(t, d, true)
	release := d.hold()
	defer release()
	producer := &batch.Producer{ID: 9}
	first := put(t, p, from(producer, "a", "b"), -1)
	put(t, p, records("later"), -1)
	again := put(t, p, from(producer, "a", "b"), -1)
	if !again.Duplicate || again.Base != first.Base || again.Last != first.Last || again.Epoch != first.Epoch {
		t.Fatalf("the duplicate: %+v, the first: %+v", again, first)
	}
	if again.Committed {
		t.Error("the duplicate counts as committed before its original is")
	}
	verdict := awaitAsync(t, p, again)
	short, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "before the sync", p.AwaitCommitted(short, again.Epoch, again.Last+1), context.Canceled)
	release()
	if err := <-verdict; err != nil {
		t.Errorf("after the sync: %v", err)
	}
	if hw := p.HighWatermark(); hw < again.Last+1 {
		t.Errorf("acknowledged at high watermark %d", hw)
	}
}

// Register, look, wait: whoever does it in this order misses nothing.
func TestWatchersLoseNoWakeUp(t *testing.T) {
	for _, durable := range []bool{true, false} {
		p := partitionOn(t, newDisk(), durable)
		const records1 = 2000
		var readers sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for range 3 {
			readers.Go(func() {
				for offset := int64(0); offset < records1; {
					w := NewWaiter()
					p.AddWaiter(w)
					if hw := p.HighWatermark(); hw > offset {
						offset = hw
					} else {
						select {
						case <-w.C:
						case <-ctx.Done():
							t.Errorf("durable=%t: asleep at %d with the high watermark at %d", durable, offset, p.HighWatermark())
							offset = records1
						}
					}
					p.RemoveWaiter(w)
				}
			})
		}
		for n := range records1 {
			res := put(t, p, records("x"), -1)
			if n%16 == 0 { // let the readers come to rest
				if err := p.AwaitCommitted(ctx, res.Epoch, res.Last+1); err != nil {
					t.Fatal(err)
				}
			}
		}
		readers.Wait()
		if len(p.watchers.few) > 0 || p.watchers.many != nil {
			t.Errorf("durable=%t: watchers are left", durable)
		}
	}
}

func TestHighWatermarkNeverGoesBack(t *testing.T) {
	p := partitionOn(t, newDisk(), true)
	done := make(chan struct{})
	var watchers sync.WaitGroup
	for _, mark := range []func() int64{p.HighWatermark, p.Log().HighWatermark, func() int64 { return p.marks().HW }} {
		watchers.Go(func() {
			for last := int64(0); ; {
				now := mark()
				if now < last {
					t.Errorf("high watermark %d after %d", now, last)
				}
				last = now
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for epoch := kafka.LeaderEpoch(1); epoch < 200; epoch++ {
		put(t, p, records("x"), 1)
		switch epoch % 4 {
		case 0:
			follow(t, p, epoch)
			if err := p.Log().Truncate(p.HighWatermark()); err != nil {
				t.Fatal(err)
			}
			epoch++
			lead(t, p, epoch, alone)
		case 1:
			lead(t, p, epoch, alone)
		case 2:
			lead(t, p, p.role.Load().epoch, pair) // nothing is known of 2: the mark stands
		case 3:
			lead(t, p, p.role.Load().epoch, alone)
		}
	}
	close(done)
	watchers.Wait()
}

// What was decided in a term that is over is not written in a later one, though
// this broker leads again (safety 25).
func TestAppendWithinItsTerm(t *testing.T) {
	p := partitionOn(t, newDisk(), false)
	was := kafka.LeaderEpoch(0)
	if _, err := p.Append(testAt, records("a"), AppendOpts{Acks: 1, Term: &was}); err != nil {
		t.Fatal(err)
	}
	lead(t, p, 1, alone)
	_, err := p.Append(testAt, records("b"), AppendOpts{Acks: 1, Term: &was})
	wantErr(t, "of an earlier term", err, kerr.NotLeaderForPartition)
	if end := p.Log().End(); end != 1 {
		t.Errorf("the log ends at %d", end)
	}
}

func TestMinInSync(t *testing.T) {
	p := partitionOn(t, newDisk(), false)
	small := isr.View{Committed: []kafka.NodeID{self}, Replicas: 3, MinInSync: 2}
	lead(t, p, 1, small)
	_, err := p.Append(testAt, records("x"), AppendOpts{Acks: -1})
	wantErr(t, "acks=all with one of two", err, kerr.NotEnoughReplicas)
	if end := p.Log().End(); end != 0 {
		t.Errorf("%d records were appended", end)
	}
	put(t, p, records("x"), 1)
	if hw := p.HighWatermark(); hw != 0 {
		t.Errorf("high watermark %d while too few hold the record", hw)
	}
	// The ISR is large enough when the record comes, and is not when it is committed.
	lead(t, p, 1, alone)
	res := put(t, p, records("y"), -1)
	lead(t, p, 1, small)
	wantErr(t, "shrunk after the append", p.AwaitCommitted(t.Context(), res.Epoch, res.Last+1), kerr.NotEnoughReplicasAfterAppend)
	// A topic with fewer replicas than the setting can be written.
	lead(t, p, 1, isr.View{Committed: []kafka.NodeID{self}, Replicas: 1, MinInSync: 2})
	res = put(t, p, records("z"), -1)
	if err := p.AwaitCommitted(t.Context(), res.Epoch, res.Last+1); err != nil {
		t.Error(err)
	}
}

// Nothing on a directory whose sync failed is acknowledged, or served (R7).
func TestFailedDirectory(t *testing.T) {
	d := newDisk()
	p := partitionOn(t, d, true)
	first := put(t, p, records("a"), -1)
	if err := p.AwaitCommitted(t.Context(), first.Epoch, 1); err != nil {
		t.Fatal(err)
	}
	release := d.hold()
	res := put(t, p, records("b"), -1)
	verdict := awaitAsync(t, p, res)
	w := NewWaiter()
	p.AddWaiter(w)
	defer p.RemoveWaiter(w)
	d.fail(syscall.EIO)
	release()
	wantErr(t, "who waited", <-verdict, kerr.KafkaStorageError)
	<-w.C
	_, err := p.Append(testAt, records("c"), AppendOpts{Acks: 1})
	wantErr(t, "append", err, kerr.KafkaStorageError)
	_, err = p.Read(testAt, ReadReq{Epoch: -1, LastEpoch: -1, Max: 1000})
	wantErr(t, "read", err, kerr.KafkaStorageError)
	_, err = p.ListOffset(Latest, ReadUncommitted, -1)
	wantErr(t, "list offsets", err, kerr.KafkaStorageError)
	_, err = p.Producers()
	wantErr(t, "producers", err, kerr.KafkaStorageError)
	_, err = p.DeleteRecords(0)
	wantErr(t, "delete records", err, kerr.KafkaStorageError)
	d.fail(nil)
	lead(t, p, 5, alone)
	_, err = p.Append(testAt, records("c"), AppendOpts{Acks: 1})
	wantErr(t, "append in another term", err, kerr.KafkaStorageError)
	if _, leads := p.Leading(); leads {
		t.Error("it leads")
	}
}

// Log start 10, high watermark 20, log end 25, and a term whose start is not
// committed yet.
func TestFETCH03BoundsBeforeCommit(t *testing.T) {
	p := partitionOn(t, newDisk(), false)
	for range 20 {
		put(t, p, records("x"), 1)
	}
	if err := p.Log().DeleteBefore(10); err != nil {
		t.Fatal(err)
	}
	lead(t, p, 0, pair)
	for range 5 {
		put(t, p, records("x"), 1)
	}
	for offset, want := range map[int64]error{9: kerr.OffsetOutOfRange, 10: nil, 19: nil, 20: nil, 22: nil, 25: nil, 26: kerr.OffsetOutOfRange} {
		res, err := p.Read(testAt, ReadReq{Offset: offset, Epoch: -1, LastEpoch: -1, Max: 1000, MinOne: true})
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("at %d: %v, want %v", offset, err, want)
		}
		if res.HW != 20 || res.LogStart != 10 || res.LSO != 20 {
			t.Errorf("at %d: high watermark %d, lso %d, log start %d", offset, res.HW, res.LSO, res.LogStart)
		}
		if res.Behind {
			t.Errorf("at %d: the mark is behind the start of the term", offset)
		}
		if data := res.SizeBytes > 0; data != (want == nil && offset < 20) {
			t.Errorf("at %d: %d bytes", offset, res.SizeBytes)
		}
		res.Release()
	}

	lead(t, p, 1, pair)
	if res, err := p.Read(testAt, ReadReq{Offset: 20, Epoch: -1, LastEpoch: -1, Max: 1000}); err != nil || !res.Behind {
		t.Errorf("in a term whose start is not committed: %+v, %v", res, err)
	}
	_, err := p.ListOffset(Latest, ReadUncommitted, -1)
	wantErr(t, "latest before the term's start is committed (KIP-207)", err, kerr.OffsetNotAvailable)
	_, err = p.ListOffset(testAt.UnixMilli()+1, ReadUncommitted, -1)
	wantErr(t, "a time above all before that", err, kerr.OffsetNotAvailable)
	if got, err := p.ListOffset(Earliest, ReadUncommitted, -1); err != nil || got.Offset != 10 {
		t.Errorf("earliest: %+v, %v", got, err)
	}
	if got, err := p.ListOffset(testAt.UnixMilli(), ReadUncommitted, -1); err != nil || got.Offset != 10 {
		t.Errorf("a time below: %+v, %v", got, err)
	}
	lead(t, p, 1, alone)
	if got, err := p.ListOffset(Latest, ReadUncommitted, -1); err != nil || got.Offset != 25 || got.Epoch != 1 {
		t.Errorf("latest: %+v, %v", got, err)
	}
}

func TestLeaderEpochs(t *testing.T) {
	p := partitionOn(t, newDisk(), false)
	put(t, p, records("a", "b"), 1)
	lead(t, p, 3, alone)
	put(t, p, records("c"), 1)
	for current, want := range map[kafka.LeaderEpoch]error{-1: nil, 3: nil, 2: kerr.FencedLeaderEpoch, 4: kerr.UnknownLeaderEpoch} {
		_, err := p.Read(testAt, ReadReq{Epoch: current, LastEpoch: -1, Max: 1000})
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("epoch %d: %v, want %v", current, err, want)
		}
	}
	for _, c := range []struct {
		last   kafka.LeaderEpoch
		offset int64
		want   *Diverging
	}{
		{0, 2, nil}, {0, 1, nil}, {0, 3, &Diverging{0, 2}}, {2, 2, &Diverging{0, 2}}, {3, 3, nil}, {3, 4, &Diverging{3, 3}},
	} {
		res, err := p.Read(testAt, ReadReq{Offset: c.offset, Epoch: -1, LastEpoch: c.last, Max: 1000})
		res.Release()
		if err != nil || (res.Diverging == nil) != (c.want == nil) || c.want != nil && *res.Diverging != *c.want {
			t.Errorf("last epoch %d at %d: %+v, %v, want %+v", c.last, c.offset, res.Diverging, err, c.want)
		}
	}
	_, err := p.Read(testAt, ReadReq{Offset: 3, Epoch: -1, LastEpoch: 4, Max: 1000})
	wantErr(t, "a last epoch from the future", err, kerr.OffsetOutOfRange)
	for asked, want := range map[kafka.LeaderEpoch][2]int64{0: {0, 2}, 2: {0, 2}, 3: {3, 3}, 4: {-1, -1}, -1: {-1, -1}} {
		epoch, end, err := p.EpochEnd(-1, asked)
		if err != nil || int64(epoch) != want[0] || end != want[1] {
			t.Errorf("end of epoch %d: %d at %d, %v, want %v", asked, epoch, end, err, want)
		}
	}
	// An old term's news changes nothing.
	lead(t, p, 2, pair)
	if epoch, leads := p.Leading(); epoch != 3 || !leads {
		t.Errorf("after news of epoch 2: epoch %d, leads=%t", epoch, leads)
	}
}

func TestInternalTopicsAreTheBrokersOwn(t *testing.T) {
	p := partitionOn(t, newDisk(), false)
	r := testRules()
	r.Internal = true
	p.configure(p.Log().Config(), r)
	_, err := p.Append(testAt, records("x"), AppendOpts{Acks: 1})
	wantErr(t, "from a client", err, kerr.InvalidTopicException)
}
