package main

import (
	"context"
	"log"

	"github.com/twmb/franz-go/pkg/kgo"
)

var loaded = map[string]string{}

func load(ctx context.Context, addr string) string {
	if t := loaded[addr]; t != "" {
		return t
	}
	t := makeTopic(ctx, addr, *nparts)
	rawProduce(byLeader(leaders(addr, t, *nparts)), t, *preload, 0, min(256<<10, *fetchMax*4/5))
	loaded[addr] = t
	return t
}

func runFetch(ctx context.Context, addr string, pid pids) result {
	t := load(ctx, addr)
	return measure(pid, func() (int64, int64) {
		var bytes, recs int64
		for p := 0; p < *repeatRd; p++ {
			m := map[string]map[int32]kgo.Offset{t: {}}
			for i := 0; i < *nparts; i++ {
				m[t][int32(i)] = kgo.NewOffset().AtStart()
			}
			cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(m), kgo.FetchMaxPartitionBytes(int32(*fetchMax)), kgo.FetchMaxBytes(50<<20))
			if err != nil {
				log.Fatal(err)
			}
			var got int64
			for got < *preload*9/10 { // values are a little less than the log bytes
				fs := cl.PollFetches(ctx)
				if e := fs.Err(); e != nil {
					log.Fatal(e)
				}
				fs.EachRecord(func(r *kgo.Record) { got += int64(len(r.Value)); recs++ })
			}
			bytes += got
			cl.Close()
		}
		return bytes, recs
	})
}
