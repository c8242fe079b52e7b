//go:build interop

package interop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumerTimes make the broker notice silent members of the consumer protocol
// as soon as the classic members of these tests want to be noticed.
var consumerTimes = []string{
	"group.initial.rebalance.delay.ms=100",
	"group.consumer.min.session.timeout.ms=6000", "group.consumer.session.timeout.ms=6000",
	"group.consumer.min.heartbeat.interval.ms=500", "group.consumer.heartbeat.interval.ms=500",
}

// feed writes numbered records to all partitions of a topic, at an even pace,
// the number being the offset.
type feed struct {
	cl     *kgo.Client
	topic  string
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	next   [partitions]int64 // under mu
	failed error             // first failure; under mu
}

func startFeed(t *testing.T, addr, topic string, perSecond int) *feed {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &feed{cl: cl, topic: topic, cancel: cancel, done: make(chan struct{})}
	t.Cleanup(func() {
		cancel()
		cl.Close()
	})
	go f.run(ctx, perSecond)
	return f
}

func (f *feed) run(ctx context.Context, perSecond int) {
	defer close(f.done)
	const beats = 20
	tick := time.NewTicker(time.Second / beats)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for range perSecond / beats {
			f.send(rand.Int32N(partitions))
		}
	}
}

func (f *feed) send(part int32) {
	f.mu.Lock()
	number := f.next[part]
	f.next[part]++
	f.mu.Unlock()
	value := append(binary.BigEndian.AppendUint64(nil, uint64(number)), strconv.FormatInt(number, 10)...)
	f.cl.Produce(context.Background(), &kgo.Record{Partition: part, Value: value}, func(r *kgo.Record, err error) {
		if err == nil && r.Offset == number {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.failed == nil {
			f.failed = fmt.Errorf("record %d of partition %d at offset %d: %w", number, part, r.Offset, err)
		}
	})
}

// stop ends the writing and gives back where each partition ends.
func (f *feed) stop(t *testing.T) [partitions]int64 {
	t.Helper()
	f.cancel()
	<-f.done
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.cl.Flush(ctx); err != nil {
		t.Fatalf("flush: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		t.Fatalf("the feed: %v", f.failed)
	}
	return f.next
}

// diary is what members say that they have processed.
type diary struct {
	mu      sync.Mutex
	seen    map[string]*[partitions][]uint8 // how often, by group; under mu
	counts  map[string]int                  // records by "group name"; under mu
	acked   map[string]map[int32]int64      // greatest acknowledged commit, by group; under mu
	commits map[string]int                  // acknowledged, by group; under mu
	gone    map[string]int                  // ends by "group name"; under mu
	errs    []string                        // under mu
	change  chan struct{}                   // closed and replaced at each line
}

func newDiary() *diary {
	return &diary{
		seen: map[string]*[partitions][]uint8{}, counts: map[string]int{}, acked: map[string]map[int32]int64{}, commits: map[string]int{}, gone: map[string]int{},
		change: make(chan struct{}),
	}
}

// take reads one line of a members program.
func (d *diary) take(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := strings.Fields(line)
	switch {
	case len(w) == 6 && w[0] == "r":
		part, e1 := strconv.Atoi(w[3])
		first, e2 := strconv.Atoi(w[4])
		last, e3 := strconv.Atoi(w[5])
		if err := errors.Join(e1, e2, e3); err != nil || part >= partitions {
			d.errs = append(d.errs, line)
			break
		}
		d.mark(w[1], part, first, last)
		d.counts[w[1]+" "+w[2]] += last - first + 1
	case len(w) == 5 && w[0] == "c":
		part, e1 := strconv.ParseInt(w[3], 10, 32)
		offset, e2 := strconv.ParseInt(w[4], 10, 64)
		if errors.Join(e1, e2) != nil {
			d.errs = append(d.errs, line)
			break
		}
		d.acknowledge(w[1], int32(part), offset)
		d.commits[w[1]]++
	case len(w) == 3 && w[0] == "gone":
		d.gone[w[1]+" "+w[2]]++
	case len(w) > 0 && w[0] == "e":
		d.errs = append(d.errs, line)
	}
	close(d.change)
	d.change = make(chan struct{})
}

func (d *diary) acknowledge(group string, part int32, offset int64) {
	if d.acked[group] == nil {
		d.acked[group] = map[int32]int64{}
	}
	d.acked[group][part] = max(d.acked[group][part], offset)
}

// acknowledged is a copy of what a group was acknowledged.
func (d *diary) acknowledged(group string) map[int32]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.acked[group])
}

func (d *diary) mark(group string, part, first, last int) {
	if d.seen[group] == nil {
		d.seen[group] = new([partitions][]uint8)
	}
	s := &d.seen[group][part]
	if len(*s) <= last {
		*s = append(*s, make([]uint8, last+1-len(*s))...)
	}
	for i := first; i <= last; i++ {
		(*s)[i] = min((*s)[i], 254) + 1
	}
}

// await waits until done holds, which is asked under the lock.
func (d *diary) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		d.mu.Lock()
		ok, change, errs := done(), d.change, d.errs
		d.mu.Unlock()
		switch {
		case len(errs) > 0:
			t.Fatalf("members say:\n%s", strings.Join(errs, "\n"))
		case ok:
			return
		}
		select {
		case <-change:
		case <-timeout:
			d.mu.Lock()
			defer d.mu.Unlock()
			t.Fatalf("not within a minute: %s; processed so far: %v", what, d.counts)
		}
	}
}

// awaitAll waits until a group has processed more of every partition.
func (d *diary) awaitAll(t *testing.T, group string) {
	t.Helper()
	lens := func() (n [partitions]int) {
		if seen := d.seen[group]; seen != nil {
			for part := range seen {
				n[part] = len(seen[part])
			}
		}
		return n
	}
	d.mu.Lock()
	before := lens()
	d.mu.Unlock()
	d.await(t, group+" works on all partitions", func() bool {
		now := lens()
		for part := range now {
			if now[part] <= before[part] {
				return false
			}
		}
		return true
	})
}

// check demands that a group has processed every record at least once.
func (d *diary) check(t *testing.T, group string, ends [partitions]int64) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.seen[group]
	if seen == nil {
		t.Fatalf("%s has processed nothing", group)
	}
	total, again := 0, 0
	for part, end := range ends {
		if int64(len(seen[part])) > end {
			t.Errorf("%s: partition %d: offset %d was processed, the end is %d", group, part, len(seen[part])-1, end)
		}
		for i := range end {
			switch {
			case i >= int64(len(seen[part])) || seen[part][i] == 0:
				t.Errorf("%s: partition %d: offset %d of %d was never processed", group, part, i, end)
				return
			case seen[part][i] > 1:
				again++
			}
			total++
		}
	}
	t.Logf("%s: %d records, all processed, %d of them more than once", group, total, again)
}

// watch asks for the committed offsets of groups over and over, and fails the
// test when one goes back, or is less than was acknowledged before it asked.
type watch struct {
	t      *testing.T
	adm    *kadm.Client
	diary  *diary
	cancel context.CancelFunc
	done   chan struct{}
	absent bool // the broker may be away

	mu    sync.Mutex
	last  map[string]map[int32]int64 // under mu
	asked int                        // under mu
}

func startWatch(t *testing.T, addr, topic string, d *diary, groups []string, absent bool) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{t: t, adm: admin(t, addr), diary: d, cancel: cancel, done: make(chan struct{}), absent: absent, last: map[string]map[int32]int64{}}
	for _, g := range groups {
		w.last[g] = map[int32]int64{}
	}
	t.Cleanup(w.stop)
	go func() {
		defer close(w.done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for _, g := range groups {
				w.look(ctx, topic, g)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return w
}

func (w *watch) stop() {
	w.cancel()
	<-w.done
}

func (w *watch) look(ctx context.Context, topic, group string) {
	acked := w.diary.acknowledged(group)
	ask, cancel := context.WithTimeout(ctx, 10*time.Second)
	got, err := w.adm.FetchOffsets(ask, group)
	cancel()
	if err != nil {
		if ctx.Err() == nil && !w.absent {
			w.t.Errorf("offsets of %s: %v", group, err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	seen := w.last[group]
	for part := range int32(partitions) {
		o, ok := got.Lookup(topic, part)
		if ok && o.Err != nil {
			w.t.Errorf("%s: partition %d: %v", group, part, o.Err)
			continue
		}
		if !ok {
			o.At = 0
		}
		if o.At < seen[part] || o.At < acked[part] {
			w.t.Errorf("%s: partition %d: the committed offset is %d (there: %t), was %d, acknowledged was %d", group, part, o.At, ok, seen[part], acked[part])
		}
		seen[part] = o.At
	}
}

// awaitEnds waits until groups have committed the end of each partition.
func (w *watch) awaitEnds(t *testing.T, ends [partitions]int64, groups []string) {
	t.Helper()
	timeout := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		behind := w.behind(ends, groups)
		if len(behind) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not committed to the end after a minute:\n%s", strings.Join(behind, "\n"))
		}
	}
}

func (w *watch) behind(ends [partitions]int64, groups []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, g := range groups {
		for part, end := range ends {
			if at := w.last[g][int32(part)]; at != end {
				out = append(out, fmt.Sprintf("%s: partition %d: %d of %d", g, part, at, end))
			}
		}
	}
	return out
}
