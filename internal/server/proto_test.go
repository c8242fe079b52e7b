package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// PROTO-01: an ApiVersions version that nobody knows gets the version 0 answer, and
// the connection lives on.
func TestProto01UnknownApiVersions(t *testing.T) {
	s := start(t, &fake{}, nil)
	nc := dial(t, s)
	for i, v := range []uint16{5, 99, 0x7fff, 0xffff} {
		odd := []byte{0, 0, 0, 0, 0, 18, byte(v >> 8), byte(v), 0, 0, 0, byte(i), 0xff, 0xfe, 0x80, 0x80, 0x80, 0x80, 0x80, 7, 7}
		wire.PutLength(odd)
		write(t, nc, odd)
		b, err := wire.ReadFrame(nc, 1<<10, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []byte{0, 0, 0, byte(i), 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4}
		if !bytes.Equal(b, want) {
			t.Fatalf("version %d: got % x, want % x", v, b, want)
		}
	}
	write(t, nc, frame(kmsg.NewPtrApiVersionsRequest(), 3, 77))
	if resp := expect(t, nc, 3, 77, kmsg.NewPtrApiVersionsResponse()); len(resp.ApiKeys) != 4 {
		t.Fatalf("%+v", resp)
	}
}

// PROTO-03: any other version or key that is not served ends the connection without a
// byte, and its neighbours do not notice.
func TestProto03UnsupportedCloses(t *testing.T) {
	s := start(t, &fake{}, nil)
	neighbour := dial(t, s)
	for name, b := range map[string][]byte{
		"Metadata v99":  {0, 0, 0, 10, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff},
		"JoinGroup v99": {0, 0, 0, 10, 0, 11, 0, 99, 0, 0, 0, 1, 0xff, 0xff},
		"Fetch v0":      {0, 0, 0, 10, 0, 1, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
		"Produce v2":    {0, 0, 0, 10, 0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff},
		"key -1":        {0, 0, 0, 10, 0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
		"key 32767":     {0, 0, 0, 10, 0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			nc := dial(t, s)
			write(t, nc, b)
			expectEnd(t, nc)
		})
	}
	write(t, neighbour, frame(kmsg.NewPtrMetadataRequest(), 9, 5))
	expect(t, neighbour, 9, 5, kmsg.NewPtrMetadataResponse())
}

// What was asked before the bad request is still answered.
func TestUnsupportedAnswersWhatCameBefore(t *testing.T) {
	s := start(t, &fake{}, nil)
	nc := dial(t, s)
	write(t, nc, frame(kmsg.NewPtrMetadataRequest(), 9, 1), []byte{0, 0, 0, 10, 0, 3, 0, 99, 0, 0, 0, 2, 0xff, 0xff})
	expect(t, nc, 9, 1, kmsg.NewPtrMetadataResponse())
	expectEnd(t, nc)
}

// PROTO-06: a length out of bounds closes at once and nothing of that size is allocated.
func TestProto06FrameLengths(t *testing.T) {
	s := start(t, &fake{}, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range 999 {
		nc := dial(t, s)
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], []uint32{0x7fffffff, 0xffffffff, 100<<20 + 1, 0x80000000, 7, 0}[i%6])
		write(t, nc, b[:])
		expectEnd(t, nc)
		nc.Close()
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Fatalf("999 bad lengths allocated %d MiB", took>>20)
	}
}

// A length costs nothing to send, so it takes no memory by itself: only what
// comes after it does.
func TestHalfFramesTakeNoMemory(t *testing.T) {
	s := start(t, &fake{}, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 200 {
		nc := dial(t, s)
		b := binary.BigEndian.AppendUint32(nil, 90<<20)
		b = append(b, 0, byte(wire.KeyProduce), 0, 9, 0, 0, 0, 1)
		write(t, nc, append(b, make([]byte, 64<<10)...))
		if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		expectEnd(t, nc)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 512<<20 {
		t.Fatalf("200 half frames allocated %d MiB", took>>20)
	}
}

// A large frame arrives as it was sent, however its memory grows.
func TestLargeFrames(t *testing.T) {
	got := make(chan []byte, 1)
	s := start(t, &fake{produce: func(_ context.Context, _ *Request, req *kmsg.ProduceRequest, _ *kmsg.ProduceResponse) error {
		got <- bytes.Clone(req.Topics[0].Partitions[0].Records)
		return nil
	}}, nil)
	nc := dial(t, s)
	random := rand.NewChaCha8([32]byte{7})
	for i, size := range []int{trustedFrame - 100, trustedFrame, trustedFrame + 1, 4 * trustedFrame, 4*trustedFrame + 1, 17 << 20} {
		want := make([]byte, size)
		_, _ = random.Read(want)
		req := kmsg.NewPtrProduceRequest()
		topic := kmsg.NewProduceRequestTopic()
		part := kmsg.NewProduceRequestTopicPartition()
		part.Records = want
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		write(t, nc, frame(req, 9, int32(i)))
		expect(t, nc, 9, int32(i), kmsg.NewPtrProduceResponse())
		if !bytes.Equal(<-got, want) {
			t.Fatalf("%d bytes came changed", size)
		}
	}
}

// A frame at the limit is taken, one byte more is not.
func TestFrameLimitIsExact(t *testing.T) {
	s := start(t, &fake{}, func(c *Config) { c.MaxFrameBytes = 1000 })
	full := frame(metadataOf(t, 1004), 9, 1)
	if len(full) != 1004 {
		t.Fatal(len(full))
	}
	nc := dial(t, s)
	write(t, nc, full)
	expect(t, nc, 9, 1, kmsg.NewPtrMetadataResponse())
	over := frame(metadataOf(t, 1005), 9, 2)
	write(t, nc, over)
	expectEnd(t, nc)
}

// metadataOf is a Metadata v9 request whose frame, length included, has a size.
func metadataOf(t *testing.T, size int) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	req.Topics = append(req.Topics, topic)
	for n := range size {
		name := strings.Repeat("x", n)
		req.Topics[0].Topic = &name
		if len(frame(req, 9, 1)) == size {
			return req
		}
	}
	t.Fatal("no such size")
	return nil
}

// lines counts log lines.
type lines struct {
	mu sync.Mutex
	n  int
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += bytes.Count(b, []byte("\n"))
	return len(b), nil
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// PROTO-07: other protocols, noise, and peers that say nothing.
func TestProto07Garbage(t *testing.T) {
	var log lines
	s := start(t, &fake{}, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	noise := make([]byte, 64<<10)
	rnd := rand.New(rand.NewPCG(7, 7))
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	noise[0] = 0x6b // a length above the limit
	hello := append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, noise[1:500]...)
	for range 20 {
		for _, b := range [][]byte{[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), hello, noise} {
			nc := dial(t, s)
			_, _ = nc.Write(b) // it may be closed before all is written
			_, err := io.Copy(io.Discard, nc)
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Fatal("the connection stayed open")
			}
			nc.Close()
		}
	}
	if n := log.count(); n != 1 {
		t.Errorf("%d log lines for 60 bad connections, want 1", n)
	}
	for range 1000 { // connect and leave
		nc := dial(t, s)
		nc.Close()
	}
	silent := make([]net.Conn, 300)
	for i := range silent {
		silent[i] = dial(t, s)
	}
	nc := dial(t, s)
	began := time.Now()
	write(t, nc, frame(kmsg.NewPtrMetadataRequest(), 9, 5))
	expect(t, nc, 9, 5, kmsg.NewPtrMetadataResponse())
	if d := time.Since(began); d > 2*time.Second {
		t.Fatalf("answered after %v", d)
	}
}

// PROTO-08: nothing is ever written for acks=0, and the others stay in step.
func TestProto08AcksZero(t *testing.T) {
	f := &fake{}
	f.produce = func(_ context.Context, r *Request, req *kmsg.ProduceRequest, _ *kmsg.ProduceResponse) error {
		if req.Acks == 0 {
			r.NoAnswer()
		}
		return nil
	}
	s := start(t, f, nil)
	nc := dial(t, s)
	silent := kmsg.NewPtrProduceRequest()
	write(t, nc,
		frame(silent, 9, 1), frame(kmsg.NewPtrApiVersionsRequest(), 3, 2),
		frame(silent, 9, 3), frame(kmsg.NewPtrMetadataRequest(), 9, 4), frame(silent, 9, 5))
	expect(t, nc, 3, 2, kmsg.NewPtrApiVersionsResponse())
	expect(t, nc, 9, 4, kmsg.NewPtrMetadataResponse())
	_ = nc.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := nc.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatal("a byte for acks=0")
	}
}

// An error at acks=0 closes the connection (safety 39), behind earlier answers; what
// was pipelined after it is not started.
func TestDisconnect(t *testing.T) {
	f := &fake{}
	f.produce = func(_ context.Context, r *Request, _ *kmsg.ProduceRequest, _ *kmsg.ProduceResponse) error {
		r.Disconnect()
		return nil
	}
	ran := make(chan struct{}, 10)
	f.fetch = func(context.Context, *Request, *kmsg.FetchRequest, *kmsg.FetchResponse) error {
		ran <- struct{}{}
		return nil
	}
	s := start(t, f, nil)
	nc := dial(t, s)
	write(t, nc, frame(kmsg.NewPtrMetadataRequest(), 9, 1), frame(kmsg.NewPtrProduceRequest(), 9, 2), frame(kmsg.NewPtrFetchRequest(), 12, 3))
	expect(t, nc, 9, 1, kmsg.NewPtrMetadataResponse())
	expectEnd(t, nc)
	if len(ran) != 0 {
		t.Fatal("a request after the disconnect ran")
	}
}

// A body that cannot be read closes its connection and is counted.
func TestMalformedBody(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := start(t, &fake{}, func(c *Config) { c.Metrics = reg })
	nc := dial(t, s)
	b := frame(metadataOf(t, 100), 9, 1)
	cut := b[:40]
	wire.PutLength(cut)
	write(t, nc, cut)
	expectEnd(t, nc)
	if n := value(t, s.met.faults.WithLabelValues(faultMalformed)); n != 1 {
		t.Fatalf("%v malformed requests counted", n)
	}
}

// Other keys than Produce have a smaller limit: their frames decode to a multiple.
func TestControlFrameLimit(t *testing.T) {
	s := start(t, &fake{}, func(c *Config) { c.ControlFrameBytes = 1000 })
	nc := dial(t, s)
	req := produceOf(1)
	id := strings.Repeat("x", 2000)
	req.TransactionID = &id
	write(t, nc, frame(req, 9, 1))
	expect(t, nc, 9, 1, kmsg.NewPtrProduceResponse())
	write(t, nc, frame(metadataOf(t, 1005), 9, 2))
	expectEnd(t, nc)
}
