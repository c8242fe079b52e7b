package cli

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// loadFlags say what is written in a measurement.
type loadFlags struct {
	size        int
	payload     string
	keys        int
	rate        float64
	partition   int32
	acks, codec string
	linger      time.Duration
}

func (lf *loadFlags) flags(c *cobra.Command, rate float64, linger time.Duration) {
	f := c.Flags()
	f.IntVarP(&lf.size, "size", "s", 1024, "bytes of a record's value")
	f.StringVar(&lf.payload, "payload", "", "file whose lines are the values, one after the other, in place of --size")
	f.IntVar(&lf.keys, "keys", 0, "how many different keys the records have; 0: none")
	f.Float64VarP(&lf.rate, "rate", "r", rate, "records a second; 0: as many as it takes")
	f.Int32VarP(&lf.partition, "partition", "p", -1, "write to this partition only")
	f.StringVarP(&lf.acks, "acks", "a", "all", "acknowledgement to wait for: all, 1 or 0")
	f.StringVarP(&lf.codec, "compression", "z", "none", "codec: none, gzip, snappy, lz4 or zstd")
	f.DurationVar(&lf.linger, "linger", linger, "how long a batch waits for more records")
	_ = c.RegisterFlagCompletionFunc("compression", cobra.FixedCompletions([]string{"none", "gzip", "snappy", "lz4", "zstd"}, cobra.ShellCompDirectiveNoFileComp))
}

// options are those of the clients that write.
func (lf *loadFlags) options(least int) ([]kgo.Opt, error) {
	if lf.size < least || lf.size > 1<<30 {
		return nil, usagef("--size must be from %d to %d", least, 1<<30)
	}
	if lf.keys < 0 || lf.rate < 0 || lf.linger < 0 {
		return nil, usagef("--keys, --rate and --linger must not be negative")
	}
	pf := produceFlags{acks: lf.acks, codec: lf.codec, partition: lf.partition, partitioner: "sticky", maxBytes: int32(max(1000000, lf.size+4096))}
	opts, err := pf.options()
	return append(opts, kgo.ProducerLinger(lf.linger)), err
}

// values are what is written in turn.
func (lf *loadFlags) values() ([][]byte, error) {
	if lf.payload != "" {
		text, err := os.ReadFile(lf.payload)
		if err != nil {
			return nil, usagef("--payload: %w", err)
		}
		lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		return lines, nil
	}
	// Letters and digits: something to compress, as most data is.
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	rnd := rand.New(rand.NewPCG(1, 2))
	out := make([][]byte, max(1, min(64, 16<<20/(lf.size+1))))
	for i := range out {
		out[i] = make([]byte, lf.size)
		for j := range out[i] {
			out[i][j] = letters[rnd.IntN(len(letters))]
		}
	}
	return out, nil
}

func (lf *loadFlags) record(topic string, n int64, value []byte) *kgo.Record {
	r := &kgo.Record{Topic: topic, Value: value, Partition: max(lf.partition, 0)}
	if lf.keys > 0 {
		r.Key = fmt.Appendf(nil, "key-%d", n%int64(lf.keys))
	}
	return r
}

func perfProduceCommand(cl *client) *cobra.Command {
	var pf perfFlags
	var lf loadFlags
	c := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Measure how fast records are stored",
		Long: `Write records, for ten seconds where neither --records nor --time says when to end,
and measure how many are stored a second, and how long each takes from the call of the
client until it is acknowledged: with the linger, and with the time that it waits for room
when the broker is the slower one; --rate shows the latency without.`,
		Example: "  barnabas perf produce orders -n 10000 -s 100 -z lz4\n  barnabas perf produce orders --rate 1000 --time 2s --acks 1 --clients 2 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if pf.records == 0 && pf.time == 0 {
				pf.time = 10 * time.Second
			}
			if err := pf.check(); err != nil {
				return err
			}
			return perfProduce(c, cl, args[0], pf, lf)
		},
		ValidArgsFunction: cl.completeOneTopic,
	}
	pf.flags(c)
	lf.flags(c, 0, 5*time.Millisecond)
	return c
}

func perfProduce(c *cobra.Command, cl *client, topic string, pf perfFlags, lf loadFlags) error {
	opts, err := lf.options(0)
	if err != nil {
		return err
	}
	values, err := lf.values()
	if err != nil {
		return err
	}
	clients := make([]*kgo.Client, pf.clients)
	for i := range clients {
		if clients[i], err = cl.open(c.Context(), opts...); err != nil {
			return err
		}
		defer clients[i].Close()
	}
	ctx, cancel := pf.within(c.Context())
	defer cancel()
	m := newMeter()
	watched := make(chan struct{})
	watching, unwatch := context.WithCancel(context.Background())
	go func() { defer close(watched); m.watch(watching, c.ErrOrStderr()) }()
	var sent atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	for _, k := range clients {
		g.Go(func() error {
			w := writer{k: k, m: m, topic: topic, flags: lf, values: values, most: pf.records, sent: &sent, pace: pace{start: m.start, rate: lf.rate / float64(pf.clients)}}
			return w.run(gctx)
		})
	}
	err = g.Wait()
	r := m.result("produce", topic, "from the call to the acknowledgement", pf.clients)
	unwatch()
	<-watched
	if err != nil {
		return fmt.Errorf("after %d records: %w", r.Records, produceHint(err))
	}
	return r.print(c.OutOrStdout(), pf.output)
}

// writer writes what one client writes.
type writer struct {
	k      *kgo.Client
	m      *meter
	topic  string
	flags  loadFlags
	values [][]byte
	most   int64
	sent   *atomic.Int64 // by all writers
	pace   pace
}

// lastPatience bounds the wait for what is under way at the end.
const lastPatience = 30 * time.Second

func (w *writer) run(ctx context.Context) error {
	failed := make(chan error, 1)
	for w.pace.wait(ctx) {
		n := w.sent.Add(1)
		if w.most > 0 && n > w.most {
			break
		}
		select {
		case err := <-failed:
			return err
		default:
		}
		at := time.Now()
		// What was begun is finished, whatever ends the loop.
		w.k.Produce(context.WithoutCancel(ctx), w.flags.record(w.topic, n, w.values[n%int64(len(w.values))]), func(r *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
				return
			}
			w.m.add(1, len(r.Key)+len(r.Value))
			w.m.took(time.Since(at))
		})
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPatience)
	defer cancel()
	err := w.k.Flush(last)
	select {
	case err := <-failed:
		return err
	default:
		return err
	}
}
