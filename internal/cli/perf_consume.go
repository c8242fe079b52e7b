package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

func perfConsumeCommand(cl *client) *cobra.Command {
	var pf perfFlags
	var follow bool
	c := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Measure how fast records are read",
		Long: `Read what a topic holds from its beginning, its partitions spread over the clients, and
measure how many records come a second, and how long each fetch takes. It ends at the
end that the topic had at the start, after --records or after --time; --follow goes on at the end.`,
		Example: "  barnabas perf consume orders\n  barnabas perf consume orders --follow --time 2s --clients 2 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := pf.check(); err != nil {
				return err
			}
			if follow && pf.records == 0 && pf.time == 0 {
				pf.time = 10 * time.Second
			}
			return perfConsume(c, cl, args[0], pf, follow)
		},
		ValidArgsFunction: cl.completeOneTopic,
	}
	pf.flags(c)
	c.Flags().BoolVar(&follow, "follow", false, "go on at the end: for ten seconds where neither --records nor --time says when to end")
	return c
}

// fetchTimer is a hook that times fetches.
type fetchTimer struct{ m *meter }

func (f fetchTimer) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if key == kmsg.NewPtrFetchRequest().Key() && e.Err() == nil {
		f.m.took(e.DurationE2E())
	}
}

func perfConsume(c *cobra.Command, cl *client, topic string, pf perfFlags, follow bool) error {
	m := newMeter()
	opts := []kgo.Opt{kgo.KeepControlRecords(), kgo.BrokerMaxReadBytes(1 << 30), kgo.WithHooks(fetchTimer{m})}
	clients := make([]*kgo.Client, pf.clients)
	for i := range clients {
		var err error
		if clients[i], err = cl.open(c.Context(), opts...); err != nil {
			return err
		}
		defer clients[i].Close()
	}
	what := reading{topics: []string{topic}, bounds: bounds{until: -1}}
	todo, err := what.spans(c.Context(), clients[0], nil)
	if err != nil {
		return err
	}
	ctx, cancel := pf.within(c.Context())
	defer cancel()
	watched := make(chan struct{})
	watching, unwatch := context.WithCancel(context.Background())
	m.start = time.Now()
	go func() { defer close(watched); m.watch(watching, c.ErrOrStderr()) }()
	all := tally{m: m, most: pf.records, enough: cancel}
	if !follow {
		all.todo = todo
	}
	shares := make([]map[int32]kgo.Offset, pf.clients)
	for tp, s := range todo {
		if !follow && s.start >= s.end {
			delete(todo, tp)
			continue
		}
		i := int(tp.Partition) % pf.clients
		if shares[i] == nil {
			shares[i] = map[int32]kgo.Offset{}
		}
		shares[i][tp.Partition] = kgo.NewOffset().At(s.start)
	}
	g, gctx := errgroup.WithContext(ctx)
	for i, k := range clients {
		if shares[i] != nil {
			k.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: shares[i]})
			g.Go(func() error { return all.read(gctx, k) })
		}
	}
	err = g.Wait()
	r := m.result("consume", topic, "of a fetch", pf.clients)
	unwatch()
	<-watched
	if err != nil {
		return fmt.Errorf("after %d records: %w", r.Records, err)
	}
	return r.print(c.OutOrStdout(), pf.output)
}

// tally counts what several clients read.
type tally struct {
	m      *meter
	most   int64
	enough context.CancelFunc

	mu   sync.Mutex
	n    int64
	todo map[kafka.TopicPartition]span // nil: no end
}

func (t *tally) read(ctx context.Context, k *kgo.Client) error {
	for ctx.Err() == nil {
		fetches := k.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if !idle(e) {
				return fmt.Errorf("partition %d of %s: %w", e.Partition, e.Topic, e.Err)
			}
		}
		fetches.EachPartition(t.count)
	}
	return nil
}

func (t *tally) count(p kgo.FetchTopicPartition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tp := kafka.TopicPartition{Topic: p.Topic, Partition: p.Partition}
	bytes, records := 0, 0
	for _, r := range p.Records {
		end, open := t.todo[tp]
		if t.todo != nil && (!open || r.Offset >= end.end) {
			delete(t.todo, tp)
			break
		}
		if !r.Attrs.IsControl() && (t.most == 0 || t.n < t.most) {
			records++
			t.n++
			bytes += len(r.Key) + len(r.Value)
		}
		if open && r.Offset == end.end-1 {
			delete(t.todo, tp)
		}
	}
	t.m.add(records, bytes)
	if t.todo != nil && len(t.todo) == 0 || t.most > 0 && t.n >= t.most {
		t.enough()
	}
}

func perfE2ECommand(cl *client) *cobra.Command {
	var pf perfFlags
	var lf loadFlags
	c := &cobra.Command{
		Use:   "e2e TOPIC",
		Short: "Measure how long records take from a producer to a consumer",
		Long: `Write records and read them back, and measure how long each takes from the call of
the producer until the consumer has it. It ends after ten seconds where neither
--records nor --time says when to end, and fails when a record does not come back.`,
		Example: "  barnabas perf e2e orders -n 100 --rate 200\n  barnabas perf e2e orders --time 2s -s 100 --acks 1 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if pf.records == 0 && pf.time == 0 {
				pf.time = 10 * time.Second
			}
			if err := pf.check(); err != nil {
				return err
			}
			if lf.payload != "" {
				return usagef("the values carry the time they were sent: leave out --payload")
			}
			return perfE2E(c, cl, args[0], pf, lf)
		},
		ValidArgsFunction: cl.completeOneTopic,
	}
	pf.flags(c)
	_ = c.Flags().MarkHidden("clients")
	lf.flags(c, 100, 0)
	return c
}

// stamp is how a value of this run begins: the run, and when it was sent.
const stampSize = 16

func perfE2E(c *cobra.Command, cl *client, topic string, pf perfFlags, lf loadFlags) error {
	opts, err := lf.options(stampSize)
	if err != nil {
		return err
	}
	values, err := lf.values()
	if err != nil {
		return err
	}
	out, err := cl.open(c.Context(), opts...)
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := cl.open(c.Context(), kgo.BrokerMaxReadBytes(1<<30), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer in.Close()
	if err := fromTheEnd(c.Context(), in, topic); err != nil {
		return err
	}
	m := newMeter()
	echo := &echoes{m: m, run: rand.Uint64(), done: make(chan struct{}), sent: -1}
	ctx, cancel := pf.within(c.Context())
	defer cancel()
	watched := make(chan struct{})
	watching, unwatch := context.WithCancel(context.Background())
	go func() { defer close(watched); m.watch(watching, c.ErrOrStderr()) }()
	listening, stop := context.WithCancel(context.Background())
	g := errgroup.Group{}
	g.Go(func() error { return echo.listen(listening, in) })
	err = echo.send(ctx, out, topic, pf.records, lf, values)
	if err == nil {
		patience := time.NewTimer(lastPatience)
		defer patience.Stop()
		select {
		case <-echo.done:
		case <-patience.C:
			err = errors.New("records that were acknowledged did not come back")
		}
	}
	stop()
	err = errors.Join(err, g.Wait())
	r := m.result("e2e", topic, "from the producer's call to the consumer", 1)
	unwatch()
	<-watched
	if err != nil {
		return fmt.Errorf("after %d records: %w", r.Records, err)
	}
	return r.print(c.OutOrStdout(), pf.output)
}

// fromTheEnd has a client read a topic from where it ends now.
func fromTheEnd(ctx context.Context, k *kgo.Client, topic string) error {
	what := reading{topics: []string{topic}, bounds: bounds{from: position{kind: atEnd}, until: -1}}
	todo, err := what.spans(ctx, k, nil)
	if err != nil {
		return err
	}
	offsets := map[int32]kgo.Offset{}
	for tp, s := range todo {
		offsets[tp.Partition] = kgo.NewOffset().At(s.start)
	}
	k.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets})
	return nil
}

// echoes are the records of one run, on their way and back.
type echoes struct {
	m    *meter
	run  uint64
	done chan struct{}

	mu       sync.Mutex
	sent     int64 // -1: not all are sent yet
	returned int64
	over     bool
}

// finish closes done when all that was sent came back.
func (e *echoes) finish() {
	if e.sent >= 0 && e.returned >= e.sent && !e.over {
		e.over = true
		close(e.done)
	}
}

func (e *echoes) send(ctx context.Context, k *kgo.Client, topic string, most int64, lf loadFlags, values [][]byte) error {
	failed := make(chan error, 1)
	p := pace{start: time.Now(), rate: lf.rate}
	n := int64(0)
	for ; (most == 0 || n < most) && p.wait(ctx); n++ {
		select {
		case err := <-failed:
			return produceHint(err)
		default:
		}
		v := append([]byte(nil), values[n%int64(len(values))]...)
		binary.BigEndian.PutUint64(v, e.run)
		binary.BigEndian.PutUint64(v[8:], uint64(time.Since(e.m.start)))
		k.Produce(context.WithoutCancel(ctx), lf.record(topic, n, v), func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPatience)
	defer cancel()
	err := k.Flush(last)
	select {
	case first := <-failed:
		return produceHint(first)
	default:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent = n
	e.finish()
	return err
}

func (e *echoes) listen(ctx context.Context, k *kgo.Client) error {
	for ctx.Err() == nil {
		fetches := k.PollFetches(ctx)
		at := time.Since(e.m.start)
		for _, f := range fetches.Errors() {
			if !idle(f) {
				return fmt.Errorf("partition %d of %s: %w", f.Partition, f.Topic, f.Err)
			}
		}
		e.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if len(r.Value) < stampSize || binary.BigEndian.Uint64(r.Value) != e.run {
				return
			}
			e.m.add(1, len(r.Key)+len(r.Value))
			e.m.took(at - time.Duration(binary.BigEndian.Uint64(r.Value[8:])))
			e.returned++
		})
		e.finish()
		e.mu.Unlock()
	}
	return nil
}
