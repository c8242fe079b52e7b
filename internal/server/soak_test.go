package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// Random and mutated frames from several peers at once leave memory flat, leak no
// budget, and another connection is answered all the while. BARNABAS_SOAK_MIB sets
// how much is sent.
func TestHostileBytes(t *testing.T) {
	total := 96 << 20
	if raceEnabled {
		total = 8 << 20
	}
	if v, err := strconv.Atoi(os.Getenv("BARNABAS_SOAK_MIB")); err == nil {
		total = v << 20
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := start(t, &fake{}, func(c *Config) { c.QueuedBytes = 16 << 20 })
	addr := s.Addr("PLAINTEXT").String()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var good sync.WaitGroup
	good.Go(func() {
		c, err := wire.Dial(ctx, addr, wire.ClientOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for n := 0; ; n++ {
			req := kmsg.NewPtrMetadataRequest()
			req.SetVersion(9)
			began := time.Now()
			if _, err := c.Do(ctx, req); err != nil {
				if ctx.Err() == nil {
					t.Errorf("the good connection, request %d: %v", n, err)
				}
				return
			}
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("the good connection waited %v", d)
			}
			time.Sleep(time.Millisecond) // the pace of the load
		}
	})
	var bad sync.WaitGroup
	for w := range uint64(4) {
		bad.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, w))
			for sent := 0; sent < total/4; {
				n, err := attack(addr, rnd)
				if err != nil {
					t.Error(err)
					return
				}
				sent += n
			}
		})
	}
	bad.Wait()
	cancel()
	good.Wait()
	for deadline := time.Now().Add(10 * time.Second); open(s) > 0 || s.budget.held() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections and %d bytes of budget left", open(s), s.budget.held())
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 64<<20 {
		t.Errorf("%d MiB of heap left", m.HeapAlloc>>20)
	}
}

// attack opens a connection and sends a few frames, valid, damaged or random.
func attack(addr string, rnd *rand.Rand) (int, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	var drained sync.WaitGroup
	drained.Go(func() { _, _ = io.Copy(io.Discard, nc) })
	sent := 0
	for range 1 + rnd.IntN(20) {
		b := hostile(rnd)
		n, err := nc.Write(b)
		sent += n
		if err != nil {
			break
		}
	}
	if rnd.IntN(2) == 0 {
		_ = nc.(*net.TCPConn).CloseWrite()
	} else {
		nc.Close()
	}
	nc.Close()
	drained.Wait()
	return max(sent, 1), nil
}

func hostile(rnd *rand.Rand) []byte {
	keys := []int16{0, 1, 3, 18, int16(rnd.IntN(100))}
	req := kmsg.RequestForKey(keys[rnd.IntN(len(keys))])
	if req == nil || rnd.IntN(10) == 0 {
		b := make([]byte, rnd.IntN(64<<10))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		if len(b) >= 8 && rnd.IntN(2) == 0 {
			wire.PutLength(b)
			b[4], b[5], b[6] = 0, byte(keys[rnd.IntN(4)]), 0
			b[7] %= 14
		}
		return b
	}
	req.SetVersion(int16(rnd.IntN(int(req.MaxVersion()) + 1)))
	b := wire.AppendRequest(nil, req, int32(rnd.Uint32()), nil)
	b = append(b, bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(8<<10))...)
	wire.PutLength(b)
	for range rnd.IntN(6) {
		b[4+rnd.IntN(len(b)-4)] = byte(rnd.Uint32())
	}
	return b
}

// An idle connection costs one small goroutine and no buffer.
func TestIdleConnectionMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("opens many sockets")
	}
	s := start(t, &fake{}, nil)
	const n = 2000
	measure := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	conns := make([]net.Conn, n)
	before := measure()
	for i := range conns {
		conns[i] = dial(t, s)
		write(t, conns[i], frame(kmsg.NewPtrApiVersionsRequest(), 3, 1))
		expect(t, conns[i], 3, 1, kmsg.NewPtrApiVersionsResponse())
	}
	each := int64(measure()-before) / n
	t.Logf("%d bytes a connection, both ends, test deadlines included", each)
	if each > 12<<10 {
		t.Errorf("%d bytes a connection", each)
	}
	runtime.KeepAlive(conns)
}

// BenchmarkProduce counts what the door allocates for a produce request (goal M4: 20
// allocations and 2 KiB for the whole of it, whatever its size).
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{1100, 16 << 10, 256 << 10} {
		for _, next := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/next=%v", size, next), func(b *testing.B) { benchmarkProduce(b, size, next) })
		}
	}
}

func benchmarkProduce(b *testing.B, size int, next bool) {
	f := &fake{}
	f.produce = func(_ context.Context, r *Request, req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) error {
		resp.Topics = make([]kmsg.ProduceResponseTopic, 1)
		t := &resp.Topics[0]
		t.Topic = req.Topics[0].Topic
		t.Partitions = make([]kmsg.ProduceResponseTopicPartition, 1)
		t.Partitions[0].Default()
		if len(req.Topics[0].Partitions[0].Records) != size {
			return io.ErrUnexpectedEOF
		}
		if next {
			r.Next()
		}
		return nil
	}
	s := start(b, f, nil)
	req := produceOf(1)
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "topic"
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = make([]byte, size)
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	send := frame(req, 9, 1)
	nc := dial(b, s)
	_ = nc.SetDeadline(time.Time{})
	answer := make([]byte, 1<<10)
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := nc.Write(send); err != nil {
			b.Fatal(err)
		}
		if _, err := wire.ReadFrame(nc, len(answer), answer); err != nil {
			b.Fatal(err)
		}
	}
}

// M4 as a gate: the door's share of a produce request.
func TestProduceAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := testing.Benchmark(func(b *testing.B) { benchmarkProduce(b, 256<<10, true) })
	t.Logf("%d allocations, %d bytes a request", r.AllocsPerOp(), r.AllocedBytesPerOp())
	if r.AllocsPerOp() > 14 || r.AllocedBytesPerOp() > 1600 {
		t.Errorf("%d allocations, %d bytes a request", r.AllocsPerOp(), r.AllocedBytesPerOp())
	}
}
