package server

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// inBubble serves f over a pipe in fake time and hands body a way to connect.
func inBubble(t *testing.T, f *fake, change func(*Config), body func(t *testing.T, s *Server, dial func() net.Conn, stop func() error)) {
	synctest.Test(t, func(t *testing.T) {
		pipe := NewPipe()
		cfg := Config{Listeners: []Listener{{Name: "PLAINTEXT", Net: pipe}}}
		if change != nil {
			change(&cfg)
		}
		s := New(cfg, f.Table())
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		stop := sync.OnceValue(func() error { cancel(); return <-done })
		defer func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}()
		body(t, s, func() net.Conn {
			nc, err := pipe.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { nc.Close() })
			return nc
		}, stop)
	})
}

func produceOf(acks int16) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = acks
	return req
}

// With Next five produce requests of one connection overlap, start in order, and are
// answered in order although they end in reverse.
func TestPipeliningOverlapsAndKeepsOrder(t *testing.T) {
	var started []int32
	var inFlight, most atomic.Int32
	f := &fake{}
	f.produce = func(_ context.Context, r *Request, _ *kmsg.ProduceRequest, _ *kmsg.ProduceResponse) error {
		started = append(started, r.Correlation) // the turn is the only lock
		most.Store(max(most.Load(), inFlight.Add(1)))
		r.Next()
		r.Next() // harmless
		time.Sleep(time.Duration(10-r.Correlation) * time.Second)
		inFlight.Add(-1)
		return nil
	}
	inBubble(t, f, nil, func(t *testing.T, _ *Server, dial func() net.Conn, _ func() error) {
		c := wire.NewClient(dial(), wire.ClientOptions{})
		defer c.Close()
		began := time.Now()
		var calls []*wire.Call
		for range 5 {
			req := produceOf(-1)
			req.SetVersion(9)
			call, err := c.Send(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, call)
		}
		for _, call := range calls {
			if _, err := call.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("took %v, want the longest request's 10s", d)
		}
		if most.Load() != 5 || !slices.Equal(started, []int32{0, 1, 2, 3, 4}) {
			t.Errorf("%d in flight, started %v", most.Load(), started)
		}
	})
}

// Without Next one request runs at a time.
func TestOneAtATimeWithoutNext(t *testing.T) {
	var inFlight atomic.Int32
	f := &fake{}
	f.fetch = func(context.Context, *Request, *kmsg.FetchRequest, *kmsg.FetchResponse) error {
		if n := inFlight.Add(1); n != 1 {
			t.Errorf("%d in flight", n)
		}
		time.Sleep(time.Second)
		inFlight.Add(-1)
		return nil
	}
	inBubble(t, f, nil, func(t *testing.T, _ *Server, dial func() net.Conn, _ func() error) {
		nc := dial()
		began := time.Now()
		go func() {
			for i := range int32(4) {
				_, _ = nc.Write(frame(kmsg.NewPtrFetchRequest(), 12, i))
			}
		}()
		for i := range int32(4) {
			expect(t, nc, 12, i, kmsg.NewPtrFetchResponse())
		}
		if d := time.Since(began); d != 4*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

// Slots bound what one connection has in flight, Next or not.
func TestSlotsAreBounded(t *testing.T) {
	var inFlight, most atomic.Int32
	f := &fake{}
	f.produce = func(_ context.Context, r *Request, _ *kmsg.ProduceRequest, _ *kmsg.ProduceResponse) error {
		most.Store(max(most.Load(), inFlight.Add(1)))
		r.Next()
		time.Sleep(time.Second)
		inFlight.Add(-1)
		return nil
	}
	inBubble(t, f, func(c *Config) { c.SlotsPerConnection = 3 }, func(t *testing.T, _ *Server, dial func() net.Conn, _ func() error) {
		nc := dial()
		go func() {
			for i := range int32(9) {
				_, _ = nc.Write(frame(produceOf(-1), 9, i))
			}
		}()
		for i := range int32(9) {
			expect(t, nc, 9, i, kmsg.NewPtrProduceResponse())
		}
		if most.Load() != 3 {
			t.Errorf("%d in flight, want 3", most.Load())
		}
	})
}

// A peer that leaves ends the context of its long poll at once; frames that it sent
// before are still handled.
func TestHangUp(t *testing.T) {
	ended := make(chan error, 1)
	produced := make(chan struct{}, 1)
	f := &fake{}
	f.fetch = func(ctx context.Context, _ *Request, _ *kmsg.FetchRequest, _ *kmsg.FetchResponse) error {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil
	}
	f.produce = func(_ context.Context, r *Request, _ *kmsg.ProduceRequest, _ *kmsg.ProduceResponse) error {
		r.NoAnswer()
		produced <- struct{}{}
		return nil
	}
	s := start(t, f, nil)
	nc := dial(t, s)
	write(t, nc, frame(kmsg.NewPtrFetchRequest(), 12, 1))
	nc.Close()
	if err := <-ended; !errors.Is(err, ErrHungUp) {
		t.Fatal(err)
	}
	nc = dial(t, s)
	write(t, nc, frame(produceOf(0), 9, 1), frame(produceOf(0), 9, 2), frame(produceOf(0), 9, 3))
	nc.Close()
	for range 3 {
		<-produced
	}
}

// A peer that shuts down its sending side still gets its answers.
func TestHalfClose(t *testing.T) {
	s := start(t, &fake{}, nil)
	nc := dial(t, s)
	write(t, nc, frame(kmsg.NewPtrMetadataRequest(), 9, 1), frame(kmsg.NewPtrMetadataRequest(), 9, 2))
	if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	expect(t, nc, 9, 1, kmsg.NewPtrMetadataResponse())
	expect(t, nc, 9, 2, kmsg.NewPtrMetadataResponse())
	expectEnd(t, nc)
}

// A peer that takes no bytes is closed after the slow-reader time (safety 20).
func TestSlowReader(t *testing.T) {
	inBubble(t, &fake{}, nil, func(t *testing.T, s *Server, dial func() net.Conn, _ func() error) {
		nc := dial()
		began := time.Now()
		if _, err := nc.Write(frame(kmsg.NewPtrMetadataRequest(), 9, 1)); err != nil {
			t.Fatal(err)
		}
		for open(s) > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(began); d < 30*time.Second || d > 40*time.Second {
			t.Errorf("closed after %v", d)
		}
		if n := value(t, s.met.faults.WithLabelValues(faultSlow)); n != 1 {
			t.Errorf("%v slow readers counted", n)
		}
	})
}

func open(s *Server) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// connections.max.idle.ms closes the idle, not those that wait for an answer.
func TestIdle(t *testing.T) {
	f := &fake{}
	f.fetch = func(context.Context, *Request, *kmsg.FetchRequest, *kmsg.FetchResponse) error {
		time.Sleep(25 * time.Minute)
		return nil
	}
	inBubble(t, f, nil, func(t *testing.T, s *Server, dial func() net.Conn, _ func() error) {
		idle, waiting := dial(), dial()
		began := time.Now()
		if _, err := waiting.Write(frame(kmsg.NewPtrFetchRequest(), 12, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		if d := time.Since(began); d < 10*time.Minute || d > 11*time.Minute {
			t.Errorf("idle connection closed after %v", d)
		}
		expect(t, waiting, 12, 1, kmsg.NewPtrFetchResponse())
		answered := time.Now()
		if _, err := waiting.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		if d := time.Since(answered); d < 10*time.Minute || d > 11*time.Minute {
			t.Errorf("closed %v after its answer", d)
		}
	})
}

// A frame that stays half sent holds memory and budget for half a minute, not ten.
func TestStallWithinFrame(t *testing.T) {
	inBubble(t, &fake{}, nil, func(t *testing.T, s *Server, dial func() net.Conn, _ func() error) {
		for _, part := range [][]byte{{0, 0}, {0, 0, 1, 0}, {0, 1, 0, 0, 0, 3, 0, 9, 0, 0, 0, 0, 0xff}} {
			nc := dial()
			began := time.Now()
			if _, err := nc.Write(part); err != nil {
				t.Fatal(err)
			}
			if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
				t.Fatal(err)
			}
			if d := time.Since(began); d < 30*time.Second || d > 45*time.Second {
				t.Errorf("% x: closed after %v", part, d)
			}
		}
		if n := s.budget.held(); n != 0 {
			t.Errorf("%d bytes of budget lost", n)
		}
	})
}

// A throttled connection's next request waits; others do not (KIP-219).
func TestThrottle(t *testing.T) {
	f := &fake{}
	f.produce = func(_ context.Context, r *Request, _ *kmsg.ProduceRequest, _ *kmsg.ProduceResponse) error {
		r.Throttle(3 * time.Second)
		return nil
	}
	inBubble(t, f, nil, func(t *testing.T, _ *Server, dial func() net.Conn, _ func() error) {
		nc, other := dial(), dial()
		began := time.Now()
		go func() {
			_, _ = nc.Write(frame(produceOf(1), 9, 1))
			_, _ = nc.Write(frame(kmsg.NewPtrMetadataRequest(), 9, 2))
			_, _ = nc.Write(frame(kmsg.NewPtrMetadataRequest(), 9, 3))
		}()
		expect(t, nc, 9, 1, kmsg.NewPtrProduceResponse())
		if d := time.Since(began); d != 0 {
			t.Errorf("the answer itself was held back %v", d)
		}
		go func() { _, _ = other.Write(frame(kmsg.NewPtrMetadataRequest(), 9, 1)) }()
		expect(t, other, 9, 1, kmsg.NewPtrMetadataResponse())
		if d := time.Since(began); d != 0 {
			t.Errorf("the neighbour waited %v", d)
		}
		expect(t, nc, 9, 2, kmsg.NewPtrMetadataResponse())
		expect(t, nc, 9, 3, kmsg.NewPtrMetadataResponse())
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("next request after %v, want 3s", d)
		}
	})
}

// A panic costs its connection only.
func TestPanic(t *testing.T) {
	f := &fake{}
	f.produce = func(context.Context, *Request, *kmsg.ProduceRequest, *kmsg.ProduceResponse) error {
		panic("boom")
	}
	inBubble(t, f, nil, func(t *testing.T, s *Server, dial func() net.Conn, _ func() error) {
		nc, other := dial(), dial()
		if _, err := nc.Write(frame(produceOf(1), 9, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		if n := value(t, s.met.faults.WithLabelValues(faultPanic)); n != 1 {
			t.Errorf("%v panics counted", n)
		}
		go func() { _, _ = other.Write(frame(kmsg.NewPtrMetadataRequest(), 9, 1)) }()
		expect(t, other, 9, 1, kmsg.NewPtrMetadataResponse())
	})
}

// On stop requests in flight are answered; those that dawdle are hurried by their
// context; those that ignore it are cut.
func TestGracefulStop(t *testing.T) {
	var hurried atomic.Bool
	f := &fake{}
	f.produce = func(context.Context, *Request, *kmsg.ProduceRequest, *kmsg.ProduceResponse) error {
		time.Sleep(100 * time.Millisecond)
		return nil
	}
	f.fetch = func(ctx context.Context, _ *Request, _ *kmsg.FetchRequest, _ *kmsg.FetchResponse) error {
		<-ctx.Done()
		hurried.Store(errors.Is(context.Cause(ctx), ErrStopping))
		return nil
	}
	f.metadata = func(context.Context, *Request, *kmsg.MetadataRequest, *kmsg.MetadataResponse) error {
		time.Sleep(8 * time.Second) // heeds nothing
		return nil
	}
	inBubble(t, f, nil, func(t *testing.T, s *Server, dial func() net.Conn, stop func() error) {
		idle, quick, poll, deaf := dial(), dial(), dial(), dial()
		_, _ = quick.Write(frame(produceOf(1), 9, 1))
		_, _ = poll.Write(frame(kmsg.NewPtrFetchRequest(), 12, 1))
		_, _ = deaf.Write(frame(kmsg.NewPtrMetadataRequest(), 9, 1))
		synctest.Wait()
		began := time.Now()
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()

		if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
			t.Error("idle:", err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("idle connection closed after %v", d)
		}
		expect(t, quick, 9, 1, kmsg.NewPtrProduceResponse())
		if d := time.Since(began); d != 100*time.Millisecond {
			t.Errorf("request in flight answered after %v", d)
		}
		expect(t, poll, 12, 1, kmsg.NewPtrFetchResponse())
		if d := time.Since(began); d != 200*time.Millisecond || !hurried.Load() {
			t.Errorf("long poll answered after %v, hurried %v", d, hurried.Load())
		}
		if _, err := deaf.Read(make([]byte, 1)); err != io.EOF {
			t.Error("deaf:", err)
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("cut after %v", d)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != 8*time.Second {
			t.Errorf("Run left a goroutine: it returned after %v", d)
		}
	})
}

// Handler errors become the top-level error code where there is one.
func TestHandlerErrors(t *testing.T) {
	f := &fake{}
	f.fetch = func(context.Context, *Request, *kmsg.FetchRequest, *kmsg.FetchResponse) error {
		return errors.New("what no protocol knows")
	}
	f.produce = func(context.Context, *Request, *kmsg.ProduceRequest, *kmsg.ProduceResponse) error {
		return errors.New("and there is no field for it")
	}
	s := start(t, f, nil)
	nc := dial(t, s)
	write(t, nc, frame(kmsg.NewPtrFetchRequest(), 12, 1))
	if resp := expect(t, nc, 12, 1, kmsg.NewPtrFetchResponse()); resp.ErrorCode != -1 {
		t.Fatalf("code %d", resp.ErrorCode)
	}
	write(t, nc, frame(produceOf(1), 9, 2))
	expectEnd(t, nc)
}

// What a handler is told about its request.
func TestRequestFields(t *testing.T) {
	f := &fake{}
	f.metadata = func(_ context.Context, r *Request, _ *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) error {
		s := r.Conn.Listener + "|" + r.ClientID + "|" + r.Principal + "|" + r.Conn.SoftwareName
		resp.ClusterID = &s
		if r.Key != 3 || r.Version != 9 || r.At.IsZero() || r.Conn.Remote == nil || r.Conn.Local == nil || r.Conn.ID == 0 {
			t.Errorf("%+v %+v", r, r.Conn)
		}
		return nil
	}
	s := start(t, f, nil)
	c, err := wire.Dial(t.Context(), s.Addr("PLAINTEXT").String(), wire.ClientOptions{ClientID: "me"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hello := kmsg.NewPtrApiVersionsRequest()
	hello.SetVersion(3)
	hello.ClientSoftwareName = "soft"
	if _, err := c.Do(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	resp, err := c.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := *resp.(*kmsg.MetadataResponse).ClusterID; got != "PLAINTEXT|me|User:ANONYMOUS|soft" {
		t.Fatal(got)
	}
	if s.Addr("OTHER") != nil {
		t.Fatal("an address of an unknown listener")
	}
}
