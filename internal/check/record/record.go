// Package record is clients that write down what they do and see, as package
// check wants it: an idempotent producer with acks=all, a consumer in a group
// that commits, a reader without a group, and one who asks for the offsets of
// groups; and the final reading. None of them gives up: an error is a maybe, or
// nothing at all, and they go on.
//
// A Recorder may be used concurrently. It has no clock of its own: its caller
// says what positions are (Config.Now).
package record

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-mq/barnabas/internal/check"
)

// Config says what a Recorder works on.
type Config struct {
	Options    []kgo.Opt // of every client: at least kgo.SeedBrokers
	Topic      string
	Partitions int32
	Client     string // begins every name: clients, producer, group, ids of records
	Observer   string
	Now        func() int64  // the observer's position
	Pace       time.Duration // between two records
	Watch      []string      // further groups whose offsets are asked for
}

// A Recorder runs clients and writes a history.
type Recorder struct {
	c   Config
	mu  sync.Mutex
	w   io.Writer // under mu
	buf []byte    // under mu
	err error     // first error of w; under mu
	n   int       // events; under mu
}

// New records into w, a line in each call of Write.
func New(c Config, w io.Writer) *Recorder { return &Recorder{c: c, w: w} }

// Group is the group of the recorder's consumer.
func (r *Recorder) Group() string { return r.c.Client + "-group" }

// Events is how many were written.
func (r *Recorder) Events() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// write writes an event down. Its end is now, so that ends come in order.
func (r *Recorder) write(e check.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Observer, e.Topic, e.End = r.c.Observer, r.c.Topic, r.c.Now()
	r.buf = check.Append(r.buf[:0], &e)
	r.n++
	if _, err := r.w.Write(r.buf); err != nil && r.err == nil {
		r.err = err
	}
}

func (r *Recorder) event(op check.Op, role string, part int32) check.Event {
	e := check.New(op)
	e.Client, e.Partition, e.Begin = r.c.Client+role, part, r.c.Now()
	return e
}

func (r *Recorder) client(opts ...kgo.Opt) (*kgo.Client, error) {
	base := []kgo.Opt{kgo.MetadataMinAge(50 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond })}
	return kgo.NewClient(append(append(base, r.c.Options...), opts...)...)
}

// Run works until ctx is done and everything under way has returned. Its error
// is of the clients' settings or of the writer, never of the cluster.
func (r *Recorder) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i, run := range []func(context.Context) error{r.produce, r.consume, r.read, r.watch} {
		wg.Go(func() { errs[i] = run(ctx) })
	}
	wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(append(errs, r.err)...)
}

// settleTime is how long the records under way have after the end.
const settleTime = time.Minute

func (r *Recorder) produce(ctx context.Context) error {
	cl, err := r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(r.c.Topic))
	if err != nil {
		return err
	}
	tick := time.NewTicker(max(r.c.Pace, time.Microsecond))
	defer tick.Stop()
	for seq := int64(1); ctx.Err() == nil; seq++ {
		e := r.event(check.Produce, "", int32(seq)%r.c.Partitions)
		e.Producer, e.Idempotent, e.Acks, e.Seq = r.c.Client, true, check.AcksAll, seq
		e.ID = fmt.Sprintf("%s-%d", r.c.Client, seq)
		value := fmt.Appendf(nil, "%s|%0*d", e.ID, seq%100, 0)
		e.Sum = crc32.ChecksumIEEE(value)
		// What was sent is waited for: its context is not ctx.
		cl.Produce(context.WithoutCancel(ctx), &kgo.Record{Partition: e.Partition, Value: value}, func(rec *kgo.Record, err error) {
			e.Out, e.Offset = check.OK, rec.Offset
			if err != nil {
				e.Out, e.Offset = check.Maybe, -1
			}
			r.write(e)
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	_ = cl.Flush(settle) // what is left is answered by Close, as a maybe
	cl.Close()
	return nil
}

// id is the record's id, which is before the bar.
func id(value []byte) string {
	for i, b := range value {
		if b == '|' {
			return string(value[:i])
		}
	}
	return string(value)
}

// seen is the event of an answer for a partition, from a position on (-1: the
// first record's).
func (r *Recorder) seen(role string, p kgo.FetchTopicPartition, begin, from int64) check.Event {
	e := check.New(check.Read)
	e.Client, e.Partition, e.Begin = r.c.Client+role, p.Partition, begin
	e.From, e.High, e.Stable, e.Start = from, p.HighWatermark, p.LastStableOffset, p.LogStartOffset
	for _, rec := range p.Records {
		e.Next = rec.Offset + 1
		if e.From < 0 {
			e.From = rec.Offset
		}
		if !rec.Attrs.IsControl() {
			e.Records = append(e.Records, record(rec))
		}
	}
	return e
}

// polls are when answers can have been asked for: a client asks for more of a
// partition once what it had was taken, in the poll before.
type polls struct {
	start int64
	last  map[int32]int64
}

func (p *polls) begin(part int32, now int64) int64 {
	before, ok := p.last[part]
	if !ok {
		before = p.start
	}
	p.last[part] = now
	return before
}

func (r *Recorder) consume(ctx context.Context) error {
	cl, err := r.client(kgo.ConsumerGroup(r.Group()), kgo.ConsumeTopics(r.c.Topic), kgo.DisableAutoCommit(), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	asked := polls{r.c.Now(), map[int32]int64{}}
	for ctx.Err() == nil {
		now := r.c.Now()
		fetches := cl.PollFetches(ctx)
		next := map[int32]kgo.EpochOffset{}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if n := len(p.Records); n > 0 {
				r.write(r.seen("-member", p, asked.begin(p.Partition, now), -1))
				next[p.Partition] = kgo.EpochOffset{Epoch: -1, Offset: p.Records[n-1].Offset + 1}
			}
		})
		if len(next) > 0 {
			r.commit(ctx, cl, next)
		}
		cl.AllowRebalance()
	}
	return nil
}

func (r *Recorder) read(ctx context.Context) error {
	at := map[int32]kgo.Offset{}
	for part := range r.c.Partitions {
		at[part] = kgo.NewOffset().AtStart()
	}
	cl, err := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.c.Topic: at}), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer cl.Close()
	asked := polls{r.c.Now(), map[int32]int64{}}
	next := map[int32]int64{}
	for ctx.Err() == nil {
		now := r.c.Now()
		cl.PollFetches(ctx).EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) == 0 {
				return
			}
			from, ok := next[p.Partition]
			if !ok {
				from = -1
			}
			e := r.seen("-reader", p, asked.begin(p.Partition, now), from)
			next[p.Partition] = e.Next
			r.write(e)
		})
	}
	return nil
}

// watchPace is how often offsets of groups are asked for.
const watchPace = 50 * time.Millisecond

func (r *Recorder) watch(ctx context.Context) error {
	cl, err := r.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	tick := time.NewTicker(watchPace)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, g := range append([]string{r.Group()}, r.c.Watch...) {
			_ = r.offsets(ctx, kadm.NewClient(cl), g, false) // the next look comes soon
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}
