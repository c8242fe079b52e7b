package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// soon is how long something is given that must not happen.
const soon = 200 * time.Millisecond

// line is a bare connection.
type line struct {
	t *testing.T
	net.Conn
}

func (p *process) line() line { return lineTo(p.t, p.b.Addr("PLAINTEXT")) }

func lineTo(t *testing.T, addr string) line {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return line{t, nc}
}

func versions() []byte { return wire.AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1, nil) }

func (l line) send(b []byte) line {
	l.t.Helper()
	if _, err := l.Write(b); err != nil {
		l.t.Fatal(err)
	}
	return l
}

// answered within d; an end of the connection is an error other than a time-out.
func (l line) answered(d time.Duration) error {
	l.t.Helper()
	if err := l.SetReadDeadline(time.Now().Add(d)); err != nil {
		l.t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(l, size[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, l, int64(binary.BigEndian.Uint32(size[:])))
	return err
}

func (l line) mustAnswer() {
	l.t.Helper()
	if err := l.answered(patience); err != nil {
		l.t.Errorf("no answer: %v", err)
	}
}

func (l line) mustEnd() {
	l.t.Helper()
	if err := l.answered(patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		l.t.Errorf("the connection stays: %v", err)
	}
}

func (l line) mustWait() {
	l.t.Helper()
	if err := l.answered(soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		l.t.Errorf("answered, or at its end: %v", err)
	}
}

func networkBeds() []bed {
	one := func(key, value string, prove func(*process)) bed {
		return bed{name: key, set: []string{key + "=" + value}, broker: map[string]func(*process){key: prove}}
	}
	return []bed{
		one("socket.request.max.bytes", "2000", func(p *process) {
			p.line().send(versions()).mustAnswer()
			l := p.line()
			_, _ = l.Write(binary.BigEndian.AppendUint32(nil, 2001))
			l.mustEnd()
		}),
		one("connections.max.idle.ms", "300", func(p *process) { p.line().send(versions()).mustEndIdle() }),
		one("queued.max.request.bytes", "100000", boundsBytes),
		one("max.connection.creation.rate", "5", func(p *process) {
			began := time.Now()
			for range 15 {
				p.line().send(versions()).mustAnswer()
			}
			if d := time.Since(began); d < time.Second {
				p.t.Errorf("15 connections at 5 a second took %v", d)
			}
		}),
	}
}

func (l line) mustEndIdle() {
	l.t.Helper()
	l.mustAnswer()
	l.mustEnd()
}

// boundsBytes: of two requests that have no room together, the second waits
// until the first is there and answered.
func boundsBytes(p *process) {
	l := p.logUnderTest()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 13, -1, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = l.name, l.id
	in := kmsg.NewProduceRequestTopicPartition()
	in.Records = oneRecord(time.Now(), nil, noise(80_000), batch.Options{})
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	frame := wire.AppendRequest(nil, req, 1, nil)
	first := p.line().send(frame[:60_000])
	first.mustWait()
	second := p.line().send(frame)
	second.mustWait()
	first.send(frame[60_000:]).mustAnswer()
	second.mustAnswer()
}

// networkProofs are of keys that a client of startBroker would be in the way of.
func networkProofs() map[string]func(*testing.T) {
	listeners := func(t *testing.T) { provesListeners(t) }
	return map[string]func(*testing.T){
		"listeners":                      listeners,
		"advertised.listeners":           listeners,
		"listener.security.protocol.map": listeners,
		"inter.broker.listener.name":     listeners,
		"security.inter.broker.protocol": func(t *testing.T) {
			if _, err := New(Options{Set: []string{"security.inter.broker.protocol=SSL"}}); err == nil || !strings.Contains(err.Error(), "none speaks SSL") {
				t.Errorf("%v", err)
			}
		},
		"socket.send.buffer.bytes":    func(t *testing.T) { tunesSockets(t, "socket.send.buffer.bytes") },
		"socket.receive.buffer.bytes": func(t *testing.T) { tunesSockets(t, "socket.receive.buffer.bytes") },
		"socket.listen.backlog.size":  func(t *testing.T) { tunesSockets(t, "socket.listen.backlog.size") },
		"max.connections": func(t *testing.T) {
			addr := running(t, "max.connections=2").Addr("PLAINTEXT")
			a, b := lineTo(t, addr).send(versions()), lineTo(t, addr).send(versions())
			a.mustAnswer()
			b.mustAnswer()
			c := lineTo(t, addr).send(versions())
			c.mustWait()
			_ = a.Close()
			c.mustAnswer()
		},
		"max.connections.per.ip": func(t *testing.T) { oneConnection(t, "max.connections.per.ip=1") },
		"max.connections.per.ip.overrides": func(t *testing.T) {
			oneConnection(t, "max.connections.per.ip.overrides=127.0.0.1:1")
		},
	}
}

func oneConnection(t *testing.T, set string) {
	addr := running(t, set).Addr("PLAINTEXT")
	lineTo(t, addr).send(versions()).mustAnswer()
	l := lineTo(t, addr)
	_, _ = l.Write(versions())
	l.mustEnd()
}

// running is a broker without a client.
func running(t *testing.T, set ...string) *Broker {
	t.Helper()
	b, err := New(Options{Set: append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "barnabas.admin.listener=", "log.dirs=" + t.TempDir()}, set...)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-b.Ready():
	case err := <-done:
		done <- err
		t.Fatalf("broker ended at its start: %v", err)
	}
	return b
}

// provesListeners: two names of one protocol, told as they are advertised, one
// of them the brokers' own, which max.connections does not count against.
func provesListeners(t *testing.T) {
	b := running(t, "listeners=LEFT://127.0.0.1:0,RIGHT://127.0.0.1:0", "listener.security.protocol.map=LEFT:PLAINTEXT,RIGHT:PLAINTEXT",
		"advertised.listeners=LEFT://left.example:11,RIGHT://right.example:12", "inter.broker.listener.name=RIGHT", "max.connections=1")
	for name, want := range map[string]string{"LEFT": "left.example", "RIGHT": "right.example"} {
		c, err := wire.Dial(t.Context(), b.Addr(name), wire.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		resp, err := c.Do(ctx, req)
		cancel()
		_ = c.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.(*kmsg.MetadataResponse).Brokers[0].Host; got != want {
			t.Errorf("%s tells %s, want %s", name, got, want)
		}
	}
	for range 3 {
		lineTo(t, b.Addr("RIGHT")).send(versions()).mustAnswer()
	}
}

// tunesSockets: TestSocketOptions and TestBacklog of package server show what
// the server makes of these fields.
func tunesSockets(t *testing.T, key string) {
	for value, want := range map[string]int{"70000": 70000, "": 0} {
		set := []string{key + "=" + value}
		if value == "" {
			set = nil
		}
		b, err := New(Options{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		c := b.serverConfig()
		got := map[string]int{"socket.send.buffer.bytes": c.SendBufferBytes, "socket.receive.buffer.bytes": c.ReceiveBufferBytes, "socket.listen.backlog.size": c.Backlog}[key]
		if max(got, 0) != want {
			t.Errorf("%s=%s gives the server %d, want %d", key, value, got, want)
		}
	}
}

func fetchOf(l *logUnderTest, session int32, partitions int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MinBytes, req.MaxBytes, req.SessionEpoch = 1, 50<<20, session
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = l.name, l.id
	for i := range partitions {
		in := kmsg.NewFetchRequestTopicPartition()
		in.Partition, in.PartitionMaxBytes = i, 1<<20
		t.Partitions = append(t.Partitions, in)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func keepsNoSession(p *process) {
	if id := ask[*kmsg.FetchResponse](groupClient{p}, fetchOf(p.logUnderTest(), 0, 1)).SessionID; id != 0 {
		p.t.Errorf("a session, %d", id)
	}
}

func fetchesLittle(p *process) {
	l := p.logUnderTest()
	p.fill(l, 0, 1, 3000, time.Now())
	p.fill(l, 1, 1, 3000, time.Now())
	p.until("both batches", func() bool { return p.log(l, 0).HighWatermark() == 1 && p.log(l, 1).HighWatermark() == 1 })
	filled := 0
	for _, t := range ask[*kmsg.FetchResponse](groupClient{p}, fetchOf(l, -1, 2)).Topics {
		for _, part := range t.Partitions {
			if len(part.RecordBatches) > 0 {
				filled++
			}
		}
	}
	if filled != 1 {
		p.t.Errorf("records of %d partitions, want the first one's alone", filled)
	}
}

// setCRC gives a batch that was changed by hand its right checksum.
func setCRC(b []byte) {
	const at, from = 17, 21
	binary.BigEndian.PutUint32(b[at:], crc32.Checksum(b[from:], crc32.MakeTable(crc32.Castagnoli)))
}
