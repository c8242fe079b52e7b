//go:build interop

package interop

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A producer's answer is lost in a connection that hangs; meanwhile its newer
// batches are written at the next leader, more of them than a broker remembers.
// Then it sends the old one again: it hears that this is there, and goes on.
// By Apache Kafka it is told for two minutes that the batch is out of order.
func TestForgottenBatch(t *testing.T) {
	need(t, "java")
	addr := target(t)
	topic := createTopic(t, addr, "forgotten", 2, nil)
	n := newTwoNodes(t, addr)
	got := javaRun(t, "Forgotten", n.addrs[0]+","+n.addrs[1], topic)
	var want strings.Builder
	for offset := 1; offset <= 12; offset++ {
		fmt.Fprintf(&want, "later %d\n", offset)
	}
	want.WriteString("first somewhere\n")
	if !strings.HasSuffix(got, want.String()) {
		t.Errorf("the producer was told:\n%s", got)
	}
	if n.told.Load() == 0 {
		t.Errorf("nobody was told %v", kerr.DuplicateSequenceNumber)
	}

	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var values []string
	for len(values) < 13 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	end, err := admin(t, addr).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := end.Lookup(topic, 0); o.Offset != 13 || len(values) != 13 || values[0] != "first" || values[12] != "later 12" {
		t.Errorf("end %d, and there is %q", o.Offset, values)
	}
}

// twoNodes stands before one broker as two. Node 1 leads partition 0 until its
// first batch came: the broker writes it, and node 1 does not answer. Then node 2
// leads it, as it does partition 1, and when it has answered for a dozen batches
// and one of that, the connection to node 1 ends.
type twoNodes struct {
	t      *testing.T
	broker string
	addrs  [2]string
	leader atomic.Int32
	told   atomic.Int32 // duplicates without an offset
	later  atomic.Int32 // batches at node 2
	late   chan struct{}
	wg     sync.WaitGroup
	mu     sync.Mutex
	open   []io.Closer
}

func newTwoNodes(t *testing.T, broker string) *twoNodes {
	n := &twoNodes{t: t, broker: broker, late: make(chan struct{})}
	n.leader.Store(1)
	t.Cleanup(func() {
		n.mu.Lock()
		for _, c := range n.open {
			_ = c.Close()
		}
		n.mu.Unlock()
		n.wg.Wait()
	})
	for i := range n.addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		n.addrs[i] = l.Addr().String()
		n.closeLater(l)
		n.wg.Go(func() {
			for {
				client, err := l.Accept()
				if err != nil {
					return
				}
				n.closeLater(client)
				n.wg.Go(func() { n.serve(int32(i+1), client) })
			}
		})
	}
	return n
}

func (n *twoNodes) closeLater(c io.Closer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = append(n.open, c)
}

func (n *twoNodes) serve(node int32, client net.Conn) {
	defer client.Close()
	broker, err := net.Dial("tcp", n.broker)
	if err != nil {
		return
	}
	defer broker.Close()
	for {
		request, err := readFrame(client)
		if err != nil {
			return
		}
		key, version := int16(binary.BigEndian.Uint16(request)), int16(binary.BigEndian.Uint16(request[2:]))
		if at := len(request) - 5; key == int16(kmsg.ApiVersions) && version >= 5 && int32(binary.BigEndian.Uint32(request[at:])) == 2 {
			binary.BigEndian.PutUint32(request[at:], 1) // the client says whom it means
		}
		if writeFrame(broker, request) != nil {
			return
		}
		answer, err := readFrame(broker)
		if err != nil {
			return
		}
		switch {
		case key == int16(kmsg.Produce) && node == 1:
			n.leader.Store(2)
			select {
			case <-n.late:
			case <-n.t.Context().Done():
			}
			return
		case key == int16(kmsg.Produce):
			n.listen(version, answer)
			if n.later.Add(1) == 13 {
				close(n.late)
			}
		case key == int16(kmsg.Metadata):
			answer = n.pretend(version, answer)
		}
		if writeFrame(client, answer) != nil {
			return
		}
	}
}

// pretend makes a Metadata answer that of two nodes.
func (n *twoNodes) pretend(version int16, answer []byte) []byte {
	m := kmsg.NewPtrMetadataResponse()
	m.Version = version
	header := 4
	if m.IsFlexible() {
		header++
	}
	if err := m.ReadFrom(answer[header:]); err != nil {
		n.t.Error(err)
		return answer
	}
	m.Brokers = nil
	for i, a := range n.addrs {
		b, addr := kmsg.NewMetadataResponseBroker(), netip.MustParseAddrPort(a)
		b.NodeID, b.Host, b.Port = int32(i+1), addr.Addr().String(), int32(addr.Port())
		m.Brokers = append(m.Brokers, b)
	}
	leader := n.leader.Load()
	for i := range m.Topics {
		for j := range m.Topics[i].Partitions {
			p := &m.Topics[i].Partitions[j]
			p.Leader, p.Replicas, p.ISR = 2, []int32{1, 2}, []int32{1, 2}
			if p.Partition == 0 {
				p.Leader = leader
				p.LeaderEpoch += leader - 1
			}
		}
	}
	return m.AppendTo(append([]byte(nil), answer[:header]...))
}

// listen counts what the broker says of forgotten batches.
func (n *twoNodes) listen(version int16, answer []byte) {
	r := kmsg.NewPtrProduceResponse()
	r.Version = version
	header := 4
	if r.IsFlexible() {
		header++
	}
	if err := r.ReadFrom(answer[header:]); err != nil {
		n.t.Error(err)
		return
	}
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode == kerr.DuplicateSequenceNumber.Code {
				n.told.Add(1)
			}
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

func writeFrame(w io.Writer, b []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}
