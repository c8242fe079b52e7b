package brokertest_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/invariant"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// producer is a connection that sends one frame again and again, and allocates
// nothing to do so: what is counted is the broker's.
type producer struct {
	nc     net.Conn
	frame  []byte
	answer [4096]byte
}

func newProducer(tb testing.TB, b *brokertest.Broker, topic string, acks int16, size int) *producer {
	tb.Helper()
	nc, err := net.Dial("tcp", b.Addr())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		tb.Fatal(err)
	}
	p := &producer{nc: nc}
	id := "case"
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 20_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, 1
	create.Topics = append(create.Topics, t)
	p.frame = wire.AppendRequest(nil, create, 1, &id)
	p.send(tb)
	p.frame = wire.AppendRequest(nil, produceTo(9, acks, topic, records(strings.Repeat("x", size))), 1, &id)
	p.send(tb)
	if code := binary.BigEndian.Uint16(p.answer[5+1+1+len(topic)+1+4:]); code != 0 {
		tb.Fatalf("produce: error %d", code)
	}
	return p
}

// send sends the frame and reads the answer.
func (p *producer) send(tb testing.TB) {
	if _, err := p.nc.Write(p.frame); err != nil {
		tb.Fatal(err)
	}
	if _, err := io.ReadFull(p.nc, p.answer[:4]); err != nil {
		tb.Fatal(err)
	}
	n := binary.BigEndian.Uint32(p.answer[:4])
	if _, err := io.ReadFull(p.nc, p.answer[:n]); err != nil {
		tb.Fatal(err)
	}
}

// Goal M4: whatever the size of its batch, a produce request costs at most 20
// allocations and 2 KiB. It is a count, so it holds on any machine.
func TestM4AllocationsOfAProduce(t *testing.T) {
	if invariant.On {
		t.Skip("assertions and the race detector allocate")
	}
	const mostAllocs, mostBytes = 20, 2048
	for _, durable := range []string{"false", "true"} {
		b := brokertest.Start(t, brokertest.Set("barnabas.durable.acks", durable))
		for size, runs := range map[int]int{1000: 3000, 16_000: 1500, 250_000: 300} {
			for _, acks := range []int16{1, -1} {
				what := fmt.Sprintf("durable=%s, batch of %d, acks %d", durable, size, acks)
				p := newProducer(t, b, fmt.Sprintf("m4-%d-%d", size, acks), acks, size)
				for range runs / 10 { // buffers find their size
					p.send(t)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range runs {
					p.send(t)
				}
				runtime.ReadMemStats(&after)
				allocs := float64(after.Mallocs-before.Mallocs) / float64(runs)
				bytes := float64(after.TotalAlloc-before.TotalAlloc) / float64(runs)
				t.Logf("%s: %.1f allocations, %.0f bytes", what, allocs, bytes)
				if allocs > mostAllocs || bytes > mostBytes {
					t.Errorf("%s: %.1f allocations and %.0f bytes a request, at most %d and %d", what, allocs, bytes, mostAllocs, mostBytes)
				}
			}
		}
	}
}

func BenchmarkProduce(b *testing.B) {
	for _, durable := range []string{"false", "true"} {
		for _, size := range []int{1000, 16_000, 250_000} {
			b.Run(fmt.Sprintf("durable=%s/batch=%d", durable, size), func(b *testing.B) {
				p := newProducer(b, brokertest.Start(b, brokertest.Set("barnabas.durable.acks", durable)), "m4", -1, size)
				b.SetBytes(int64(len(p.frame)))
				b.ReportAllocs()
				for b.Loop() {
					p.send(b)
				}
			})
		}
	}
}
