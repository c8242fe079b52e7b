package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eachVersion calls f for every key at every version that kmsg knows.
func eachVersion(f func(req kmsg.Request)) {
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for v := int16(0); v <= req.MaxVersion(); v++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(v)
			f(req)
		}
	}
}

func TestRequestRoundTripAtEveryVersion(t *testing.T) {
	client := "client"
	eachVersion(func(req kmsg.Request) {
		name := fmt.Sprintf("%s v%d", kmsg.NameForKey(req.Key()), req.GetVersion())
		b := AppendRequest(nil, req, 7, &client)
		want := kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, req, 7)
		odd := req.Key() == KeyControlledShutdown && req.GetVersion() == 0 // kmsg leaves out its length and body
		if !odd && !bytes.Equal(b, want) {
			t.Errorf("%s: got % x, kmsg writes % x", name, b, want)
		}
		h, got, err := ParseRequest(b[LengthBytes:])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if h.Key != req.Key() || h.Version != req.GetVersion() || h.Correlation != 7 {
			t.Errorf("%s: %+v", name, h)
		}
		if string(h.ClientID) != client && h.Key != KeyControlledShutdown {
			t.Errorf("%s: client id %q", name, h.ClientID)
		}
		if again := AppendRequest(nil, got, 7, &client); !bytes.Equal(again, b) {
			t.Errorf("%s: % x became % x", name, b, again)
		}
	})
}

func TestResponseRoundTripAtEveryVersion(t *testing.T) {
	eachVersion(func(req kmsg.Request) {
		resp := req.ResponseKind()
		resp.SetVersion(req.GetVersion())
		b := AppendResponse(nil, resp, 9)
		if int(binary.BigEndian.Uint32(b)) != len(b)-4 {
			t.Errorf("%s: length", kmsg.NameForKey(req.Key()))
		}
		header := 8
		if resp.IsFlexible() && req.Key() != KeyApiVersions {
			header = 9
		}
		if !bytes.Equal(b[header:], resp.AppendTo(nil)) {
			t.Errorf("%s v%d: body not behind a header of %d bytes", kmsg.NameForKey(req.Key()), req.GetVersion(), header)
		}
		back := req.ResponseKind()
		back.SetVersion(req.GetVersion())
		if n, err := ParseResponse(b[4:], back); err != nil || n != 9 {
			t.Errorf("%s v%d: %d %v", kmsg.NameForKey(req.Key()), req.GetVersion(), n, err)
		}
	})
}

func TestHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		frame    string
		flexible bool
		client   []byte
		body     string
		bad      bool
	}{
		"v1":              {"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x02meX", false, []byte("me"), "X", false},
		"v1 null client":  {"\x00\x03\x00\x01\x00\x00\x00\x07\xff\xffX", false, nil, "X", false},
		"v1 empty client": {"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x00X", false, []byte{}, "X", false},
		"v2":              {"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02me\x00X", true, []byte("me"), "X", false},
		"v2 with tags":    {"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02me\x02\x00\x01a\x80\x01\x02bcX", true, []byte("me"), "X", false},
		"v0":              {"\x00\x07\x00\x00\x00\x00\x00\x07X", false, nil, "X", false},
		"short":           {"\x00\x03\x00\x01\x00\x00\x00", false, nil, "", true},
		"no client":       {"\x00\x03\x00\x01\x00\x00\x00\x07\x00", false, nil, "", true},
		"client too long": {"\x00\x03\x00\x01\x00\x00\x00\x07\x7f\xffme", false, nil, "", true},
		"client of -2":    {"\x00\x03\x00\x01\x00\x00\x00\x07\xff\xfeme", false, nil, "", true},
		"no tags":         {"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02me", true, nil, "", true},
		"many tags":       {"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02me\xff\xff\xff\xff\x0f", true, nil, "", true},
		"long tag":        {"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02me\x01\x00\x7fabc", true, nil, "", true},
		"endless varint":  {"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02me\x80\x80\x80\x80\x80\x80\x00", true, nil, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			h, body, err := ParseHeader([]byte(c.frame), c.flexible)
			if c.bad {
				if !errors.Is(err, ErrMalformed) {
					t.Fatal(err)
				}
				return
			}
			if err != nil || !bytes.Equal(h.ClientID, c.client) || (h.ClientID == nil) != (c.client == nil) || string(body) != c.body || h.Correlation != 7 {
				t.Fatalf("%+v %q %v", h, body, err)
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	for _, b := range []string{"\xff\xff\x00\x00\x00\x00\x00\x00\xff\xff", "\x00\x03\x00\x63\x00\x00\x00\x00\xff\xff", "\x00\x03\xff\xff\x00\x00\x00\x00\xff\xff"} {
		if _, _, err := ParseRequest([]byte(b)); !errors.Is(err, ErrUnsupported) {
			t.Errorf("% x: %v", b, err)
		}
	}
}

func TestCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int16
	}{
		{nil, 0},
		{kerr.NotLeaderForPartition, 6},
		{fmt.Errorf("topic a: %w", fmt.Errorf("append: %w", kerr.KafkaStorageError)), 56},
		{errors.Join(io.EOF, kerr.InvalidRequest), 42},
		{io.EOF, -1},
		{(*kerr.Error)(nil), -1},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
	if !Known(nil) || Known(io.EOF) || !Known(kerr.InvalidRequest) {
		t.Error("Known")
	}
}

func TestReadFrame(t *testing.T) {
	read := func(s string) ([]byte, error) { return ReadFrame(strings.NewReader(s), 10, nil) }
	if b, err := read("\x00\x00\x00\x03abcd"); string(b) != "abc" || err != nil {
		t.Error(b, err)
	}
	for in, want := range map[string]error{
		"": io.EOF, "\x00\x00": io.ErrUnexpectedEOF, "\x00\x00\x00\x03": io.ErrUnexpectedEOF, "\x00\x00\x00\x03ab": io.ErrUnexpectedEOF,
		"\x00\x00\x00\x0babcdefghijk": ErrMalformed, "\xff\xff\xff\xff": ErrMalformed,
	} {
		if _, err := read(in); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", in, err, want)
		}
	}
}

func TestBufferClasses(t *testing.T) {
	for c := range classes {
		n := classBytes(c)
		if classOf(n) != c || (c+1 < classes && classOf(n+1) != c+1) {
			t.Errorf("class %d of %d bytes: %d, %d", c, n, classOf(n), classOf(n+1))
		}
	}
	for _, n := range []int{0, 1, 512, 513, 768, 769, 4096, 100_000, 262_244, 1 << 20, 1<<20 + 1, 100 << 20} {
		b := GetBuffer(n)
		if len(b.B) != n {
			t.Errorf("%d: %d", n, len(b.B))
		}
		if n >= 512 && n <= 1<<20 && cap(b.B) > n+n/2 {
			t.Errorf("%d: capacity %d", n, cap(b.B))
		}
		b.Release()
	}
	b := GetBuffer(600)
	b.B = append(b.B, make([]byte, 5000)...) // grown to a size between classes
	b.Release()
	for range 100 {
		if b := GetBuffer(8000); cap(b.B) < 8000 {
			t.Fatal("a buffer smaller than its class")
		}
	}
}

// The declared cost covers what decoding really takes, for the arrays with the worst
// ratio of each key and version.
func TestCostCoversDecoding(t *testing.T) {
	eachVersion(func(req kmsg.Request) {
		if req.Key() == KeyProduce {
			return
		}
		cost := Cost(req.Key())
		if cost < 2 || cost > 400 {
			t.Errorf("%s costs %d", kmsg.NameForKey(req.Key()), cost)
		}
	})
	// 1 MiB of empty topic names (Metadata v4).
	body := make([]byte, 1<<20)
	binary.BigEndian.PutUint32(body, uint32(len(body)-5)/2)
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(4)
	limit := Cost(3) * int64(len(body))
	if raceEnabled {
		limit *= 2 // append(a, make(...)...) allocates twice there
	}
	if took := allocated(t, req, body); took > limit || took < 20<<20 {
		t.Errorf("decoding took %d bytes, the cost says %d", took, limit)
	}
}

// allocated measures the memory that decoding takes.
func allocated(t *testing.T, req kmsg.Request, body []byte) int64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := ParseBody(req, body); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(req)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// A Produce frame made of arrays and tags is refused before it is decoded; an honest
// one with many partitions is not.
func TestProduceTraps(t *testing.T) {
	honest := kmsg.NewPtrProduceRequest()
	honest.SetVersion(9)
	for range 10 {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "topic"
		for p := range int32(5000) {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition, part.Records = p, make([]byte, 70)
			topic.Partitions = append(topic.Partitions, part)
		}
		honest.Topics = append(honest.Topics, topic)
	}
	again := kmsg.NewPtrProduceRequest()
	again.SetVersion(9)
	if err := ParseBody(again, honest.AppendTo(nil)); err != nil || len(again.Topics[9].Partitions) != 5000 {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"partitions": arrayBomb(1<<20, 6, 0, 0, 0, 0, 0, 0),
		"tags":       arrayBomb(1<<20, 8, 0, 0, 0, 0, 0, 1, 5, 0),
	} {
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(9)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := ParseBody(req, b)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrMalformed) || after.TotalAlloc-before.TotalAlloc > 64<<10 {
			t.Errorf("%s: %v, %d bytes allocated", name, err, after.TotalAlloc-before.TotalAlloc)
		}
	}
}

// arrayBomb is a Produce v9 body with one topic of n/size equal partitions.
func arrayBomb(n, size int, part ...byte) []byte {
	b := []byte{0, 0, 1, 0, 0, 0, 0, 2, 2, 'a'}
	b = binary.AppendUvarint(b, uint64(n/size+1))
	for range n / size {
		b = append(b, part...)
	}
	return append(b, 0, 0)
}

// server answers on the far end of a pipe with f, until the pipe closes.
func server(nc net.Conn, f func(h Header, req kmsg.Request) kmsg.Response) {
	for {
		b, err := ReadFrame(nc, 1<<20, nil)
		if err != nil {
			return
		}
		h, req, err := ParseRequest(b)
		if err != nil {
			return
		}
		if resp := f(h, req); resp != nil {
			if _, err := nc.Write(AppendResponse(nil, resp, h.Correlation)); err != nil {
				return
			}
		}
	}
}

func TestClientPipelinesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go server(far, func(h Header, req kmsg.Request) kmsg.Response {
			if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
				return nil
			}
			resp := req.ResponseKind()
			resp.SetVersion(h.Version)
			id := fmt.Sprint(h.Correlation, string(h.ClientID))
			resp.(*kmsg.MetadataResponse).ClusterID = &id
			return resp
		})
		c := NewClient(near, ClientOptions{ClientID: "me"})
		defer c.Close()
		silent := kmsg.NewPtrProduceRequest()
		silent.SetVersion(9)
		silent.Acks = 0
		if resp, err := c.Do(t.Context(), silent); resp != nil || err != nil {
			t.Fatal(resp, err)
		}
		var calls []*Call
		for range 5 {
			req := kmsg.NewPtrMetadataRequest()
			req.SetVersion(12)
			call, err := c.Send(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, call)
		}
		for i, call := range calls {
			resp, err := call.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := *resp.(*kmsg.MetadataResponse).ClusterID; got != fmt.Sprint(i+1, "me") {
				t.Fatal(got)
			}
		}
	})
}

func TestClientContextAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }() // never answers
		c := NewClient(near, ClientOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req := kmsg.NewPtrMetadataRequest()
		if _, err := c.Do(ctx, req); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		call, err := c.Send(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if _, err := call.Wait(t.Context()); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if _, err := c.Do(t.Context(), req); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		far.Close()
	})
}

func TestClientDistrustsAnswers(t *testing.T) {
	for name, answer := range map[string][]byte{
		"unasked":           {0, 0, 0, 4, 0, 0, 0, 0},
		"other correlation": {0, 0, 0, 10, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0},
		"too large":         {0x7f, 0xff, 0xff, 0xff},
		"cut":               {0, 0, 0, 6, 0, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			c := NewClient(near, ClientOptions{MaxFrame: 1000})
			defer c.Close()
			if name != "unasked" {
				go func() { _, _ = ReadFrame(far, 1000, nil); _, _ = far.Write(answer) }()
				if _, err := c.Do(t.Context(), kmsg.NewPtrMetadataRequest()); !errors.Is(err, ErrMalformed) {
					t.Fatal(err)
				}
			} else if _, err := far.Write(answer); err != nil {
				t.Fatal(err)
			}
			<-c.gone
			far.Close()
		})
	}
}

// A broker that does not know the version of ApiVersions answers as of version 0.
func TestClientReadsVersionZeroFallback(t *testing.T) {
	near, far := net.Pipe()
	c := NewClient(near, ClientOptions{})
	defer c.Close()
	go func() {
		_, _ = ReadFrame(far, 1000, nil)
		_, _ = far.Write([]byte{0, 0, 0, 16, 0, 0, 0, 0, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4})
	}()
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(5)
	resp, err := c.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if r := resp.(*kmsg.ApiVersionsResponse); r.ErrorCode != 35 || r.ApiKeys[0].MaxVersion != 4 {
		t.Fatalf("%+v", r)
	}
}
