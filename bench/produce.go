package main

import (
	"context"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func runProduce(ctx context.Context, addr string, pid pids) result {
	topic := makeTopic(ctx, addr, *nparts)
	defer dropTopic(ctx, addr, topic)
	cls := make([]*kgo.Client, *nclients)
	vs := pool()
	v := vs[0]
	for i := range cls {
		cls[i] = producer(addr, topic, *nparts > 1 && *linger > 0)
		if err := cls[i].ProduceSync(ctx, &kgo.Record{Value: v}).FirstErr(); err != nil {
			log.Fatalf("produce: %v", err)
		}
	}
	var h hist
	var acked, fails atomic.Int64
	r := measure(pid, func() (int64, int64) {
		stop := time.Now().Add(*dur)
		var wg sync.WaitGroup
		for _, cl := range cls {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := 0; ; i++ {
					if i&63 == 0 && time.Now().After(stop) {
						break
					}
					var t time.Time
					if i&255 == 0 {
						t = time.Now()
					}
					cl.Produce(ctx, &kgo.Record{Value: vs[i&2047]}, func(_ *kgo.Record, err error) {
						if err != nil {
							fails.Add(1)
							return
						}
						acked.Add(1)
						if !t.IsZero() {
							h.add(time.Since(t))
						}
					})
				}
				cl.Flush(ctx)
			}()
		}
		wg.Wait()
		return acked.Load() * int64(*size), acked.Load()
	})
	for _, cl := range cls {
		cl.Close()
	}
	h.into(r, "")
	r.copied(addr)
	if f := fails.Load(); f > 0 {
		r["fails"] = f
	}
	return r
}

// runLatency offers -rate records a second on a fixed timetable; latency counts
// from the time the record was due, so a stalled broker is charged in full.
func runLatency(ctx context.Context, addr string, pid pids, e2e bool) result {
	topic := makeTopic(ctx, addr, *nparts)
	defer dropTopic(ctx, addr, topic)
	cl := producer(addr, topic, false)
	defer cl.Close()
	v := value(max(*size, 8))
	if err := cl.ProduceSync(ctx, &kgo.Record{Value: v}).FirstErr(); err != nil {
		log.Fatalf("produce: %v", err)
	}
	var h, he hist
	var got atomic.Int64
	cctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t0 := time.Now()
	if e2e {
		c2, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.FetchMaxWait(500*time.Millisecond), kgo.FetchMinBytes(1))
		if err != nil {
			log.Fatal(err)
		}
		defer c2.Close()
		go func() {
			for cctx.Err() == nil {
				fs := c2.PollFetches(cctx)
				now := time.Now()
				fs.EachRecord(func(r *kgo.Record) {
					got.Add(1)
					var ns int64
					for i := 0; i < 8; i++ {
						ns = ns<<8 | int64(r.Value[i])
					}
					if d := now.Sub(t0) - time.Duration(ns); d > 0 && d < time.Minute {
						he.add(d)
					}
				})
			}
		}()
		time.Sleep(700 * time.Millisecond)
	}
	var sent, acked atomic.Int64
	warm := time.Second / 2
	r := measure(pid, func() (int64, int64) {
		start := time.Now()
		total := int64(float64(*rate) * dur.Seconds())
		for i := int64(0); i < total; {
			due := int64(time.Since(start).Seconds() * float64(*rate))
			for ; i < due && i < total; i++ {
				at := start.Add(time.Duration(float64(i) / float64(*rate) * 1e9))
				b := append([]byte(nil), v...)
				ns := int64(at.Sub(t0))
				for k := 7; k >= 0; k-- {
					b[k] = byte(ns)
					ns >>= 8
				}
				rec := at.Sub(start) > warm
				sent.Add(1)
				cl.Produce(ctx, &kgo.Record{Value: b}, func(_ *kgo.Record, err error) {
					if err == nil {
						acked.Add(1)
						if rec {
							h.add(time.Since(at))
						}
					}
				})
			}
			time.Sleep(200 * time.Microsecond)
		}
		cl.Flush(ctx)
		return acked.Load() * int64(len(v)), acked.Load()
	})
	h.into(r, "ack_")
	if e2e {
		time.Sleep(600 * time.Millisecond)
		cancel()
		he.into(r, "e2e_")
		r["consumed"] = got.Load()
	}
	return r
}
