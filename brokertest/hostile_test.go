package brokertest_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// TestHostileFrames sends valid frames of every served key and version, the
// same ones damaged, and random bytes, over several connections: memory stays
// flat, and another client is served all the while (R10).
//
// BARNABAS_HOSTILE_MIB sets how much is sent. BARNABAS_HOSTILE_TARGET and _PID
// name a broker in another process (host:port, pid); it should delete topics at
// once and make none on demand.
func TestHostileFrames(t *testing.T) {
	total := int64(16 << 20)
	if testing.Short() {
		total = 8 << 20
	}
	if n, err := strconv.ParseInt(os.Getenv("BARNABAS_HOSTILE_MIB"), 10, 64); err == nil {
		total = n << 20
	}
	addr, pid := os.Getenv("BARNABAS_HOSTILE_TARGET"), os.Getenv("BARNABAS_HOSTILE_PID")
	log := &alarms{}
	if addr == "" {
		addr, pid = brokertest.Start(t, brokertest.Log(slog.New(log)),
			brokertest.Set("auto.create.topics.enable", "false"), brokertest.Set("log.segment.delete.delay.ms", "0"),
			brokertest.Set("log.retention.bytes", "1048576"), brokertest.Set("log.segment.bytes", "1048576"),
			brokertest.Set("socket.request.max.bytes", "16777216"), brokertest.Set("queued.max.request.bytes", "33554432"),
			brokertest.Set("log.retention.check.interval.ms", "500")).Addr(), "self"
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	peer := newBystander(t, addr)
	peer.call(t.Context()) // makes the topic

	var sent, frames atomic.Int64
	var attackers sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const workers = 4
	for w := range uint64(workers) {
		attackers.Go(func() {
			g := newGenerator(rand.New(rand.NewPCG(seed, w)), peer.served)
			for sent.Load() < total && ctx.Err() == nil {
				if err := g.attack(addr, &sent, &frames); err != nil {
					t.Errorf("the broker took no connection: %v", err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		attackers.Wait()
		close(done)
	}()
	var calls int
	var slowest time.Duration
	var marks []int64
	for next := total / 8; ; {
		began := time.Now()
		if err := peer.call(t.Context()); err != nil {
			t.Fatalf("the other client, after %d frames: %v", frames.Load(), err)
		}
		slowest = max(slowest, time.Since(began))
		calls++
		if sent.Load() >= next {
			marks = append(marks, resident(t, pid)>>20)
			next += total / 8
		}
		select {
		case <-done:
			t.Logf("%d frames, %d MiB; %d calls of another client, the slowest %v; resident MiB at each eighth: %v",
				frames.Load(), sent.Load()>>20, calls, slowest.Round(time.Millisecond), marks)
			flat(t, total, marks)
			log.none(t)
			return
		default:
		}
	}
}

// flat compares the second half with the first, once there is enough to compare;
// in any case there is a bound, many times the budget of the broker.
func flat(t *testing.T, total int64, marks []int64) {
	t.Helper()
	if len(marks) > 0 && slices.Max(marks) > 1024 {
		t.Errorf("%d MiB resident", slices.Max(marks))
	}
	if total < 512<<20 {
		return
	}
	if len(marks) < 8 || marks[0] == 0 {
		return // no /proc, or too short to tell
	}
	half := len(marks) / 2
	early, late := int64(0), int64(math.MaxInt64)
	for _, m := range marks[:half] {
		early = max(early, m)
	}
	for _, m := range marks[half:] {
		late = min(late, m)
	}
	if late > early+early/2+64 {
		t.Errorf("resident memory grew: at most %d MiB in the first half, at least %d in the second", early, late)
	}
}

// resident is a process's resident memory in bytes; 0 where it cannot be told.
func resident(t *testing.T, pid string) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// bystander is the client that must not notice.
type bystander struct {
	t      *testing.T
	cl     *kgo.Client
	adm    *kadm.Client
	served []kmsg.ApiVersionsResponseApiKey
	n      int
}

func newBystander(t *testing.T, addr string) *bystander {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "peer", "1"
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	return &bystander{t: t, cl: cl, adm: kadm.NewClient(cl), served: resp.ApiKeys}
}

// call asks for the metadata, as often as not makes the topic that attackers
// know, and now and then deletes what they made.
func (p *bystander) call(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	topics, err := p.topics(ctx)
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	if !slices.Contains(topics, known) {
		if _, err := p.adm.CreateTopic(ctx, 2, 1, nil, known); err != nil && ctx.Err() != nil {
			return fmt.Errorf("create topic: %w", err)
		}
	}
	p.n++
	if p.n%8 != 0 {
		return nil
	}
	var extra []string
	for _, name := range topics {
		if name != known {
			extra = append(extra, name)
		}
	}
	if len(extra) > 0 {
		if _, err := p.adm.DeleteTopics(ctx, extra...); err != nil {
			return fmt.Errorf("delete topics: %w", err)
		}
	}
	return nil
}

// topics asks the broker itself: the client's own Metadata answers from a cache.
func (p *bystander) topics(ctx context.Context) ([]string, error) {
	resp, err := p.cl.SeedBrokers()[0].Request(ctx, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		out = append(out, *t.Topic)
	}
	return out, nil
}

const known = "hostile"

// generator makes frames.
type generator struct {
	rnd    *rand.Rand
	served []kmsg.ApiVersionsResponseApiKey
	fmt    *kmsg.RequestFormatter
	random *rand.ChaCha8

	batches [][]byte
}

func newGenerator(rnd *rand.Rand, served []kmsg.ApiVersionsResponseApiKey) *generator {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], rnd.Uint64())
	return &generator{rnd: rnd, served: served, fmt: kmsg.NewRequestFormatter(kmsg.FormatterClientID("x")), random: rand.NewChaCha8(key)}
}

// attack sends some frames over a connection of their own. Some peers read
// nothing, some leave in the middle of a frame, some wait for answers.
func (g *generator) attack(addr string, sent, frames *atomic.Int64) error {
	nc, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	var reader sync.WaitGroup
	if g.rnd.IntN(8) != 0 {
		reader.Go(func() { _, _ = io.Copy(io.Discard, nc) })
	}
	for range 1 + g.rnd.IntN(24) {
		n, err := nc.Write(g.frame())
		sent.Add(int64(n))
		frames.Add(1)
		if err != nil { // the broker closed it: its right
			break
		}
	}
	if g.rnd.IntN(4) == 0 {
		if err := nc.(*net.TCPConn).CloseWrite(); err == nil { // answers, then the end
			reader.Wait()
		}
	}
	nc.Close()
	reader.Wait()
	return nil
}

func (g *generator) frame() []byte {
	for {
		if b := g.any(); !manyPartitions(b) {
			return b
		}
	}
}

// manyPartitions finds a request, valid by accident, that makes thousands of
// partitions: that is work, not an attack on the door.
func manyPartitions(b []byte) bool {
	const createTopics = 19
	if len(b) < wire.LengthBytes+wire.FixedHeaderBytes {
		return false
	}
	h, err := wire.ParseFixed(b[wire.LengthBytes:])
	if err != nil || h.Key != createTopics {
		return false
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(h.Version)
	_, body, err := wire.ParseHeader(b[wire.LengthBytes:], req.IsFlexible())
	if err != nil || req.ReadFrom(body) != nil {
		return false
	}
	return slices.ContainsFunc(req.Topics, func(t kmsg.CreateTopicsRequestTopic) bool { return t.NumPartitions > 64 })
}

func (g *generator) any() []byte {
	if g.rnd.IntN(10) == 0 {
		return g.noise(g.rnd.IntN(64 << 10))
	}
	b := g.valid()
	switch g.rnd.IntN(4) {
	case 0:
		return b
	case 1:
		body := g.mutate(b[4:])
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	case 2: // the header stays
		keep := min(len(b), 14)
		body := append(b[4:keep:keep], g.mutate(b[keep:])...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	default: // the length too
		return g.mutate(b)
	}
}

func (g *generator) noise(n int) []byte {
	b := make([]byte, n)
	_, _ = g.random.Read(b)
	return b
}

// valid is a frame that decodes, of a served key and version.
func (g *generator) valid() []byte {
	k := g.served[g.rnd.IntN(len(g.served))]
	req := kmsg.RequestForKey(k.ApiKey)
	if req == nil {
		return g.noise(64)
	}
	req.SetVersion(k.MinVersion + int16(g.rnd.IntN(int(k.MaxVersion-k.MinVersion)+1)))
	g.fill(reflect.ValueOf(req).Elem(), "", 0)
	if c, ok := req.(*kmsg.CreateTopicsRequest); ok {
		for i := range c.Topics {
			c.Topics[i].NumPartitions = int32(g.rnd.IntN(4)) - 1
		}
	}
	return g.fmt.AppendRequest(nil, req, int32(g.rnd.Uint32()))
}

var edges = []int64{-1, 0, 1, 2, 3, 7, 40, 1 << 20, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}

var names = []string{known, known, known, "", ".", "a b", "other", strings.Repeat("n", 249), strings.Repeat("n", 300), "__consumer_offsets", "\x00\xff"}

func (g *generator) fill(v reflect.Value, name string, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Version" && f.Name != "UnknownTags" {
				g.fill(v.Field(i), f.Name, depth+1)
			}
		}
	case reflect.Pointer:
		if g.rnd.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem(), name, depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(g.bytes(name))
			return
		}
		n := g.rnd.IntN(4)
		if g.rnd.IntN(50) == 0 && name != "Partitions" { // a batch each is too much of them
			n = g.rnd.IntN(2000 >> min(2*depth, 10))
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			g.fill(v.Index(i), name, depth+1)
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(g.rnd.Uint32() & 0xff))
		}
	case reflect.String:
		v.SetString(names[g.rnd.IntN(len(names))])
	case reflect.Bool:
		v.SetBool(g.rnd.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(edges[g.rnd.IntN(len(edges))])
		if g.rnd.IntN(2) == 0 {
			v.SetInt(int64(g.rnd.IntN(3)))
		}
	case reflect.Float64:
		v.SetFloat(g.rnd.Float64())
	}
}

// bytes of a field: batches where they belong.
func (g *generator) bytes(field string) []byte {
	if field != "Records" {
		return g.noise(g.rnd.IntN(64))
	}
	if len(g.batches) < 40 {
		g.batches = append(g.batches, g.batch())
	}
	b := g.batches[g.rnd.IntN(len(g.batches))]
	if g.rnd.IntN(3) == 0 {
		return g.mutate(b)
	}
	return b
}

func (g *generator) batch() []byte {
	var b batch.Builder
	b.Reset(batch.Options{Encoding: batch.Encoding{Codec: batch.Codec(g.rnd.IntN(5))}})
	value := make([]byte, g.rnd.IntN(256)*g.rnd.IntN(512)) // compresses well: a small bomb
	for range 1 + g.rnd.IntN(4) {
		b.Append(time.Now().UnixMilli(), []byte("k"), value)
	}
	out, _, err := b.Build(nil)
	if err != nil {
		panic(err) // it was given nothing that could be refused
	}
	return out
}

// mutate damages a copy.
func (g *generator) mutate(in []byte) []byte {
	b := append([]byte(nil), in...)
	for range 1 + g.rnd.IntN(4) {
		if len(b) == 0 {
			return b
		}
		at := g.rnd.IntN(len(b))
		switch g.rnd.IntN(7) {
		case 0:
			b[at] ^= 1 << g.rnd.IntN(8)
		case 1:
			b[at] = byte(g.rnd.Uint32())
		case 2:
			b = b[:at]
		case 3:
			b = append(b[:at:at], append(g.noise(g.rnd.IntN(32)), b[at:]...)...)
		case 4:
			to := min(len(b), at+g.rnd.IntN(32))
			b = append(b[:at:at], b[to:]...)
		case 5: // a count or a length
			if at+4 <= len(b) {
				binary.BigEndian.PutUint32(b[at:], uint32(edges[g.rnd.IntN(len(edges))]))
			}
		default:
			for i := at; i < min(len(b), at+1+g.rnd.IntN(5)); i++ {
				b[i] = 0xff // a varint without an end
			}
		}
	}
	return b
}
