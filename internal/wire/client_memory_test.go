package wire

import (
	"bytes"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetching returns a client, and what fetches n bytes with it, all of them b.
func fetching(t *testing.T) (*Client, func(n int, b byte) (*Call, []byte)) {
	near, far := net.Pipe()
	asked := make(chan []byte, 1)
	go server(far, func(h Header, req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.SetVersion(h.Version)
		topic, part := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		part.RecordBatches = <-asked
		topic.Partitions = append(topic.Partitions, part)
		resp.Topics = append(resp.Topics, topic)
		return resp
	})
	c := NewClient(near, ClientOptions{})
	t.Cleanup(func() { _ = c.Close() })
	return c, func(n int, b byte) (*Call, []byte) {
		t.Helper()
		req := kmsg.NewPtrFetchRequest()
		req.SetVersion(17)
		asked <- bytes.Repeat([]byte{b}, n)
		call, err := c.Send(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := call.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
		if len(got) != n || bytes.Count(got, []byte{b}) != n {
			t.Fatalf("%d bytes, %d of them %d, want %d", len(got), bytes.Count(got, []byte{b}), b, n)
		}
		return call, got
	}
}

const largeAnswer = 3 << 20

func TestClientKeepsUnreleasedAnswers(t *testing.T) {
	_, fetch := fetching(t)
	for _, n := range []int{100, 100 << 10, largeAnswer} {
		_, got := fetch(n, 1)
		for b := range byte(5) {
			call, _ := fetch(n, 2+b)
			call.Release()
		}
		if bytes.Count(got, []byte{1}) != n {
			t.Errorf("an answer of %d bytes was overwritten before its release", n)
		}
	}
}

func TestClientUsesReleasedMemoryAgain(t *testing.T) {
	c, fetch := fetching(t)
	call, was := fetch(largeAnswer, 1)
	call.Release()
	call.Release() // for nothing
	for n := largeAnswer; n > 2<<20; n -= 300_000 {
		call, got := fetch(n, 2)
		if &got[0] != &was[0] {
			t.Errorf("%d bytes lie in new memory", n)
		}
		call.Release()
	}
	call, got := fetch(largeAnswer+1<<20, 3)
	if &got[0] == &was[0] {
		t.Error("a larger answer lies in the same memory")
	}
	call.Release()
	for range patience - 1 {
		call, _ := fetch(10, 4)
		call.Release()
	}
	if c.spare.frame == nil {
		t.Error("the memory is given up although it was used a moment ago")
	}
	call, _ = fetch(10, 4)
	call.Release()
	if c.spare.frame != nil {
		t.Errorf("%d bytes are kept, though %d answers had no need of them", cap(c.spare.frame.B), patience)
	}
}
