package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestBudgetIsFairAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 10)
		take := func(n int64, control bool) (*claim, chan bool) {
			c, ok := &claim{}, make(chan bool, 1)
			go func() { ok <- b.take(c, n, control, nil) }()
			synctest.Wait()
			return c, ok
		}
		waits := func(name string, ok chan bool, want bool) {
			t.Helper()
			synctest.Wait()
			if got := len(ok) == 0; got != want {
				t.Fatalf("%s: waits %v, want %v", name, got, want)
			}
		}
		first, ok := take(60, false)
		waits("first", ok, false)
		big, bigOK := take(90, false)
		waits("big", bigOK, true)
		small, smallOK := take(5, false)
		waits("small behind big", smallOK, true) // it would fit, but big came first
		control, controlOK := take(10, true)
		waits("control", controlOK, false)
		control2, control2OK := take(1, true)
		waits("control with the reserve used up", control2OK, true)
		if b.held() != 70 {
			t.Fatalf("%d held", b.held())
		}
		b.give(first)
		b.give(first) // twice is once
		waits("big", bigOK, false)
		waits("small", smallOK, false)
		waits("control2", control2OK, false)
		for _, c := range []*claim{big, small, control, control2} {
			b.give(c)
		}
		huge, hugeOK := take(1000, false)
		waits("above the whole budget, alone", hugeOK, false)
		b.give(huge)
		if b.held() != 0 {
			t.Fatalf("%d held", b.held())
		}
	})
}

func TestBudgetWaitIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10, 0)
		var a, c, d claim
		b.take(&a, 10, false, nil)
		quit := make(chan struct{})
		gaveUp, got := make(chan bool, 1), make(chan bool, 1)
		go func() { gaveUp <- b.take(&c, 10, false, quit) }()
		synctest.Wait()
		go func() { got <- b.take(&d, 1, false, nil) }()
		synctest.Wait()
		close(quit)
		if <-gaveUp {
			t.Fatal("taken")
		}
		b.give(&a)
		if !<-got {
			t.Fatal("the next in line was forgotten")
		}
		b.give(&d)
		if b.held() != 0 {
			t.Fatalf("%d held", b.held())
		}
	})
}

// Produce requests that fill the budget hold others back, but not the small fetch that
// would free them (safety 37); Next gives the bytes back.
func TestFullBudgetLetsControlIn(t *testing.T) {
	var release chan struct{} // made in the bubble
	var entered atomic.Int32
	f := &fake{}
	f.produce = func(_ context.Context, _ *Request, _ *kmsg.ProduceRequest, _ *kmsg.ProduceResponse) error {
		entered.Add(1)
		<-release
		return nil
	}
	f.fetch = func(context.Context, *Request, *kmsg.FetchRequest, *kmsg.FetchResponse) error {
		close(release)
		return nil
	}
	inBubble(t, f, func(c *Config) { c.QueuedBytes, c.ReservedBytes = 3000, 1000 }, func(t *testing.T, s *Server, dial func() net.Conn, _ func() error) {
		release = make(chan struct{})
		req := produceOf(1)
		topic := kmsg.NewProduceRequestTopic()
		part := kmsg.NewProduceRequestTopicPartition()
		part.Records = make([]byte, 1900)
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		conns, send := []net.Conn{dial(), dial()}, frame(req, 9, 1)
		for _, nc := range conns {
			go func() { _, _ = nc.Write(send) }()
		}
		synctest.Wait()
		if n := entered.Load(); n != 1 {
			t.Fatalf("%d produce requests within a budget for one", n)
		}
		ctl := dial()
		go func() { _, _ = ctl.Write(frame(kmsg.NewPtrFetchRequest(), 12, 1)) }()
		expect(t, ctl, 12, 1, kmsg.NewPtrFetchResponse())
		for _, nc := range conns {
			expect(t, nc, 9, 1, kmsg.NewPtrProduceResponse())
		}
		synctest.Wait()
		if n := s.budget.held(); n != 0 {
			t.Fatalf("%d bytes held", n)
		}
	})
}

func TestNextReleasesTheBudget(t *testing.T) {
	var entered atomic.Int32
	f := &fake{}
	f.produce = func(_ context.Context, r *Request, _ *kmsg.ProduceRequest, _ *kmsg.ProduceResponse) error {
		entered.Add(1)
		r.Next()
		time.Sleep(time.Second)
		return nil
	}
	inBubble(t, f, func(c *Config) { c.QueuedBytes = 1 }, func(t *testing.T, _ *Server, dial func() net.Conn, _ func() error) {
		for range 5 {
			nc := dial()
			_, _ = nc.Write(frame(produceOf(1), 9, 1))
			go func() { _, _ = io.Copy(io.Discard, nc) }()
		}
		synctest.Wait()
		if n := entered.Load(); n != 5 {
			t.Fatalf("%d entered, want 5", n)
		}
		time.Sleep(2 * time.Second)
	})
}

func TestConnectionsPerIP(t *testing.T) {
	s := start(t, &fake{}, func(c *Config) { c.Limits.PerIP = 2 })
	a, b := dial(t, s), dial(t, s)
	for i, nc := range []net.Conn{a, b} {
		write(t, nc, frame(kmsg.NewPtrMetadataRequest(), 9, int32(i)))
		expect(t, nc, 9, int32(i), kmsg.NewPtrMetadataResponse())
	}
	expectEnd(t, dial(t, s))
	a.Close()
	for { // the server notices in its own time
		nc := dial(t, s)
		_, err := nc.Write(frame(kmsg.NewPtrMetadataRequest(), 9, 1))
		if err == nil {
			if _, err = nc.Read(make([]byte, 1)); err == nil {
				return
			}
		}
	}
}

func TestPerIPOverride(t *testing.T) {
	l := newLimiter(Limits{PerIP: 5, Overrides: map[netip.Addr]int{
		netip.MustParseAddr("10.0.0.1"): 1, netip.MustParseAddr("10.0.0.2"): 0,
	}})
	addr := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	if !l.add(addr("10.0.0.1:1")) || l.add(addr("10.0.0.1:2")) || l.add(addr("[::ffff:10.0.0.1]:3")) {
		t.Error("override of 1")
	}
	if l.add(addr("10.0.0.2:1")) {
		t.Error("override of 0")
	}
	for i := range 6 {
		if got := l.add(addr("10.0.0.3:1")); got != (i < 5) {
			t.Errorf("connection %d: %v", i, got)
		}
	}
	l.remove(addr("10.0.0.1:1"))
	if !l.add(addr("10.0.0.1:2")) {
		t.Error("a closed connection still counts")
	}
}

// At max.connections newcomers wait; the listener between brokers is exempt.
func TestMaxConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, in := NewPipe(), NewPipe()
		f := &fake{}
		s := New(Config{
			Limits:    Limits{Connections: 2},
			Listeners: []Listener{{Name: "OUT", Net: out}, {Name: "IN", Net: in, InterBroker: true}},
		}, f.Table())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		first, _ := out.Dial(t.Context())
		_, _ = out.Dial(t.Context())
		third := make(chan net.Conn, 1)
		go func() { nc, _ := out.Dial(context.Background()); third <- nc }()
		synctest.Wait()
		if len(third) != 0 {
			t.Error("a third connection was accepted")
		}
		if _, err := in.Dial(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		first.Close()
		synctest.Wait()
		if len(third) != 0 { // three are open: one out, one in, and the limit is two
			t.Error("accepted beyond the limit")
		}
		for c := range s.snapshot() {
			if c.info.Listener == "IN" {
				c.kill(nil)
			}
		}
		<-third
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (s *Server) snapshot() map[*conn]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[*conn]struct{}{}
	for c := range s.conns {
		m[c] = struct{}{}
	}
	return m
}

func TestConnectionRate(t *testing.T) {
	inBubble(t, &fake{}, func(c *Config) { c.Limits.Rate = 10 }, func(t *testing.T, _ *Server, dial func() net.Conn, _ func() error) {
		began := time.Now()
		for range 51 {
			dial()
		}
		if d := time.Since(began); d < 3900*time.Millisecond || d > 4200*time.Millisecond {
			t.Errorf("51 connections at 10 a second took %v, want 4s beyond a burst of 10", d)
		}
	})
}

// New limits count from the next connection on: a listener that waits goes on.
func TestSetLimits(t *testing.T) {
	inBubble(t, &fake{}, func(c *Config) { c.Limits.Connections = 1 }, func(t *testing.T, s *Server, dial func() net.Conn, _ func() error) {
		dial()
		second := make(chan net.Conn, 1)
		go func() { second <- dial() }()
		synctest.Wait()
		if len(second) != 0 {
			t.Fatal("a second connection was accepted")
		}
		s.SetLimits(Limits{Rate: 1})
		<-second
		began := time.Now()
		for range 5 {
			dial()
		}
		if d := time.Since(began); d < 3*time.Second || d > 6*time.Second {
			t.Errorf("5 connections at one a second took %v", d)
		}
	})
	l := newLimiter(Limits{PerIP: -1, Overrides: map[netip.Addr]int{netip.MustParseAddr("10.0.0.1"): 1}})
	addr := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	if l.add(addr("10.0.0.2:1")) || !l.add(addr("10.0.0.1:1")) {
		t.Error("with none allowed, only those with a limit of their own come in")
	}
	l.set(Limits{PerIP: 1})
	if !l.add(addr("10.0.0.2:1")) || l.add(addr("10.0.0.2:2")) {
		t.Error("a new limit of 1")
	}
}

// starved is a listener without descriptors for a while.
type starved struct {
	*Pipe
	mu    sync.Mutex
	until time.Time
	tries int
}

func (s *starved) Accept() (net.Conn, error) {
	s.mu.Lock()
	if time.Now().Before(s.until) {
		s.tries++
		s.mu.Unlock()
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	s.mu.Unlock()
	return s.Pipe.Accept()
}

// DISK-02: without descriptors accept backs off instead of spinning, and comes back.
func TestDisk02AcceptBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := &starved{Pipe: NewPipe(), until: time.Now().Add(time.Minute)}
		f := &fake{}
		s := New(Config{Listeners: []Listener{{Name: "PLAINTEXT", Net: ln}}}, f.Table())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		nc, err := ln.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = nc.Write(frame(kmsg.NewPtrMetadataRequest(), 9, 1)) }()
		expect(t, nc, 9, 1, kmsg.NewPtrMetadataResponse())
		if ln.tries < 10 || ln.tries > 80 {
			t.Errorf("%d tries in a minute", ln.tries)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A listener that fails for good stops the server with an error that names it.
func TestListenerClosedUnderUs(t *testing.T) {
	pipe := NewPipe()
	f := &fake{}
	s := New(Config{Listeners: []Listener{{Name: "ODD", Net: pipe}}}, f.Table())
	pipe.Close()
	if err := s.Run(t.Context()); !errors.Is(err, net.ErrClosed) || err.Error()[:12] != "listener ODD" {
		t.Fatal(err)
	}
}

func TestListenFailsWhole(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f := &fake{}
	s := New(Config{Listeners: []Listener{
		{Name: "A", Address: "127.0.0.1:0"}, {Name: "B", Address: taken.Addr().String()},
	}}, f.Table())
	if err := s.Run(t.Context()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatal(err)
	}
	if s.Addr("A") != nil {
		t.Fatal("A stayed open")
	}
}

// Before authentication only the keys that log in are taken, and only small frames.
func TestAuthenticate(t *testing.T) {
	f := &fake{}
	f.metadata = func(_ context.Context, r *Request, _ *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) error {
		resp.ClusterID = &r.Principal
		return nil
	}
	listener := func(p func(context.Context, net.Conn) (string, error)) func(*Config) {
		return func(c *Config) {
			c.PreAuthFrameBytes = 300
			c.Listeners[0].Authenticate, c.Listeners[0].Principal = true, p
		}
	}
	t.Run("nobody", func(t *testing.T) {
		s := start(t, f, listener(nil))
		nc := dial(t, s)
		write(t, nc, frame(kmsg.NewPtrApiVersionsRequest(), 3, 1))
		expect(t, nc, 3, 1, kmsg.NewPtrApiVersionsResponse())
		write(t, nc, frame(kmsg.NewPtrMetadataRequest(), 9, 2))
		expectEnd(t, nc)
		nc = dial(t, s)
		write(t, nc, []byte{0, 0, 1, 45, 0, 18}) // 301 bytes
		expectEnd(t, nc)
	})
	t.Run("by the connection", func(t *testing.T) {
		s := start(t, f, listener(func(context.Context, net.Conn) (string, error) { return "User:CN=me", nil }))
		nc := dial(t, s)
		write(t, nc, frame(metadataOf(t, 500), 9, 1))
		if r := expect(t, nc, 9, 1, kmsg.NewPtrMetadataResponse()); *r.ClusterID != "User:CN=me" {
			t.Fatal(*r.ClusterID)
		}
	})
	t.Run("refused", func(t *testing.T) {
		s := start(t, f, listener(func(context.Context, net.Conn) (string, error) { return "", errors.New("no") }))
		expectEnd(t, dial(t, s))
	})
}

func TestTablePanics(t *testing.T) {
	f := &fake{}
	for name, entries := range map[string][]Entry{
		"double":        {On(0, 1, f.onMetadata), On(2, 3, f.onMetadata)},
		"above kmsg":    {On(0, 99, f.onMetadata)},
		"empty range":   {On(3, 2, f.onMetadata)},
		"not from On":   {{}},
		"negative":      {On(-1, 2, f.onMetadata)},
		"wrong partner": nil,
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			if entries == nil {
				On(0, 1, func(context.Context, *Request, *kmsg.MetadataRequest, *kmsg.FetchResponse) error { return nil })
			}
			NewTable(entries...)
		})
	}
}

// Produce is advertised from version 0 (KAFKA-18659) and served from 3.
func TestAdvertised(t *testing.T) {
	table := (&fake{}).Table()
	if got := table.Advertised()[0]; got != (Range{0, 0, 13}) {
		t.Errorf("%+v", got)
	}
	if got := table.Served()[0]; got != (Range{0, 3, 13}) {
		t.Errorf("%+v", got)
	}
}
