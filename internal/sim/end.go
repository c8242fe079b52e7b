package sim

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// recovery is how long a cluster may take to get well, and what comes after.
const recovery = 3 * time.Minute

// work starts the clients.
func (w *World) work() {
	more, stop := context.WithCancel(w.ctx)
	w.noMore = stop
	patient, end := context.WithCancel(context.Background())
	w.noPatience = end
	use := uint64(1)
	client := func(format string, args ...any) *client {
		use++
		return w.newClient(fmt.Sprintf(format, args...), use)
	}
	for part := range int32(partitions) {
		p := &producer{client: client("idempotent-%d", part), part: part, acks: -1, window: windows[int(part)%len(windows)]}
		w.clients.Go(func() { p.idempotent(patient, more) })
		r := &reader{client: client("reader-%d", part), part: part, committed: part == 1}
		w.readers.Go(func() { r.run(w.ctx) })
	}
	all := &producer{client: client("plain"), part: 0, acks: -1}
	w.clients.Go(func() { all.plain(more) })
	one := &producer{client: client("careless"), part: 1, acks: 1}
	w.clients.Go(func() { one.plain(more) })
	for n := range 2 {
		c := &committer{client: client("committer-%d", n), group: fmt.Sprintf("group-%d", n)}
		w.groups = append(w.groups, c)
		w.clients.Go(func() { c.run(more) })
	}
}

// misfortune carries out the plan.
func (w *World) misfortune() {
	for _, s := range w.plan.steps {
		if sleep(w.ctx, time.Until(w.began.Add(warmUp+s.at))) != nil {
			return
		}
		w.trace.add("* %s", s.what)
		s.do(w)
	}
	_ = sleep(w.ctx, time.Until(w.began.Add(warmUp+w.plan.length)))
}

// warmUp is before the first fault.
const warmUp = 4 * time.Second

// calm mends everything, waits until all replicas are in sync, and reads all.
func (w *World) calm() {
	w.trace.add("* all is mended")
	w.mended.Store(true)
	w.net.heal()
	w.store.Stall(false)
	for _, m := range w.nodes {
		m.tricks.Store(0)
		m.blow(0, nil)
		m.freeze(false)
		m.lag(false)
		m.cutOff(false)
		m.start()
	}
	w.mu.Lock()
	clear(w.slow)
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.ctx, recovery)
	defer cancel()
	for sick := w.sick(); sick != ""; sick = w.sick() {
		if sleep(ctx, 200*time.Millisecond) != nil {
			w.fault("the cluster does not get well: %s", sick)
			break
		}
	}
	w.trace.add("* the cluster is well")
	// Whatever is sent from here on is taken.
	acked, until := w.history.acknowledged(), time.Now().Add(patience+max(2*time.Second, 10*w.plan.pace))
	for w.history.acknowledged() == acked {
		// A client may wait for one that lost its power, for as long as it has patience.
		if sleep(ctx, 100*time.Millisecond) != nil || time.Now().After(until) {
			w.fault("nothing is acknowledged although the cluster is well")
			break
		}
	}
	w.noMore()
	if !within(ctx, w.clients.Wait) {
		w.fault("a record sent is never answered for")
	}
	w.noPatience()
	w.stop() // the readers
	w.readers.Wait()
	w.clients.Wait()
	w.finalReading()
}

// within waits for something; false: it did not come in time.
func within(ctx context.Context, wait func()) bool {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// sick says what is missing in the cluster; "": nothing.
func (w *World) sick() string {
	img := w.image()
	if n := len(img.Brokers()); n < brokers {
		return fmt.Sprintf("%d brokers", n)
	}
	for _, b := range img.Brokers() {
		if b.Leaving || !w.nodes[b.ID-1].ready() {
			return fmt.Sprintf("broker %d is leaving, or not ready", b.ID)
		}
	}
	for t := range img.Topics() {
		for _, p := range t.Partitions {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) || len(p.Adding)+len(p.Removing) > 0 {
				return fmt.Sprintf("%s-%d: %+v", t.Name, p.Partition, *p)
			}
		}
	}
	return ""
}

func (w *World) finalReading() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for part := range int32(partitions) {
		for _, committed := range []bool{false, true} {
			r := &reader{client: w.newClient(fmt.Sprintf("final-%d-%t", part, committed), 900), part: part, committed: committed}
			if err := r.finally(ctx); err != nil {
				w.fault("final reading of partition %d: %v", part, err)
			}
		}
	}
	for _, g := range w.groups {
		if err := g.finally(ctx); err != nil {
			w.fault("final reading of %s: %v", g.group, err)
		}
	}
}

// end stops everything, compares the replicas and gives the verdict.
func (w *World) end() *Result {
	w.stop()
	if w.noMore != nil {
		w.noMore()
		w.noPatience()
	}
	w.clients.Wait()
	w.readers.Wait()
	img := w.image()
	for _, m := range w.nodes {
		w.all.Go(m.end)
	}
	w.all.Wait()
	w.compare(img)
	r := &Result{Faults: w.counts, Wrong: w.faults, Verdict: w.history.judge.Finish()}
	if w.history.bad != nil {
		r.Wrong = append(r.Wrong, "the history is none: "+w.history.bad.Error())
	}
	if !r.OK() || w.o.Traced {
		r.Trace = w.trace.String()
	}
	return r
}

// compare demands that all replicas of a partition have the same bytes, as far
// as they go.
func (w *World) compare(img *meta.Image) {
	for t := range img.Topics() {
		for _, p := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Name, Partition: p.Partition}
			var first map[int64]batch.Batch
			var of kafka.NodeID
			for _, r := range p.Replicas {
				got, err := batches(w.nodes[r.Node-1].disk, "/data/"+tp.String())
				if err != nil {
					w.fault("log of %v on broker %d: %v", tp, r.Node, err)
					continue
				}
				if first == nil {
					first, of = got, r.Node
					continue
				}
				if d := differ(first, got); d != "" {
					w.fault("logs of %v on brokers %d and %d differ: %s", tp, of, r.Node, d)
				}
			}
		}
	}
}

// batches are those of a log, by their first offsets.
func batches(disk vfs.FS, dir string) (map[int64]batch.Batch, error) {
	names, err := disk.List(dir)
	if err != nil {
		return nil, err
	}
	out := map[int64]batch.Batch{}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		raw, err := read(disk, dir+"/"+name)
		if err != nil {
			return nil, err
		}
		for len(raw) > 0 {
			b, rest, err := batch.Next(raw)
			if err != nil {
				return nil, fmt.Errorf("%s, %d bytes before its end: %w", name, len(raw), err)
			}
			if _, twice := out[b.BaseOffset()]; twice {
				return nil, fmt.Errorf("%s: the batch at %d is there twice", name, b.BaseOffset())
			}
			out[b.BaseOffset()], raw = b, rest
		}
	}
	return out, nil
}

func read(disk vfs.FS, name string) ([]byte, error) {
	f, err := disk.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil || n == 0 {
		return nil, err
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

// differ says where two logs do, in what both of them cover.
func differ(a, b map[int64]batch.Batch) string {
	if len(a) == 0 || len(b) == 0 {
		return ""
	}
	as, bs := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))
	from, to := max(as[0], bs[0]), min(as[len(as)-1], bs[len(bs)-1])
	for _, o := range slices.Compact(slices.Sorted(slices.Values(append(as, bs...)))) {
		if o >= from && o <= to && !bytes.Equal(a[o], b[o]) {
			return fmt.Sprintf("at offset %d: %d bytes and %d", o, len(a[o]), len(b[o]))
		}
	}
	return ""
}
