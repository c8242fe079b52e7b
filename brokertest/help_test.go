package brokertest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// The tests named after a case (PROTO-01, PROD-02 ...) are behaviours that some
// broker of the Kafka protocol got wrong. They speak the protocol itself, one
// request at a time, so that no client can paper over an answer. What is
// expected is what Apache Kafka 4.4.0 answers, but where a comment says why not.

// peer is a connection of a test.
type peer struct {
	t *testing.T
	c *wire.Client
}

const patience = 30 * time.Second

func dial(t *testing.T, b *brokertest.Broker) *peer {
	t.Helper()
	c, err := wire.Dial(t.Context(), b.Addr(), wire.ClientOptions{ClientID: "case"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &peer{t, c}
}

// ask sends a request and returns its answer, which must come.
func ask[Resp kmsg.Response](p *peer, req kmsg.Request) Resp {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	resp, err := p.c.Do(ctx, req)
	if err != nil {
		p.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp.(Resp)
}

// name of an error code, for messages and comparisons.
func name(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return "NONE"
}

func wantCode(t *testing.T, what string, got int16, want *kerr.Error) {
	t.Helper()
	code := int16(0)
	if want != nil {
		code = want.Code
	}
	if got != code {
		t.Errorf("%s: %s, want %s", what, name(got), name(code))
	}
}

// create makes a topic and returns its id.
func (p *peer) create(topic string, partitions int32, settings ...string) [16]byte {
	p.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 20_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	for _, s := range settings {
		k, v, _ := strings.Cut(s, "=")
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	out := ask[*kmsg.CreateTopicsResponse](p, req).Topics[0]
	if out.ErrorCode != 0 {
		p.t.Fatalf("create %s: %s: %v", topic, name(out.ErrorCode), out.ErrorMessage)
	}
	return out.TopicID
}

func (p *peer) remove(topic string) {
	p.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 20_000
	req.TopicNames = []string{topic}
	if out := ask[*kmsg.DeleteTopicsResponse](p, req).Topics[0]; out.ErrorCode != 0 {
		p.t.Fatalf("delete %s: %s", topic, name(out.ErrorCode))
	}
}

// recordTime is the timestamp of the records that tests write.
const recordTime = 1_700_000_000_000

// records is one batch of keyless records.
func records(values ...string) []byte { return batchOf(batch.Options{}, values...) }

func batchOf(o batch.Options, values ...string) []byte {
	var b batch.Builder
	b.Reset(o)
	for _, v := range values {
		b.Append(recordTime, nil, []byte(v))
	}
	return build(&b)
}

func build(b *batch.Builder) []byte {
	out, _, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	return out
}

// produceTo is a Produce request of one topic: the batches are those of
// partitions 0, 1 ...
func produceTo(version, acks int16, topic string, batches ...[]byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 20_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for i, b := range batches {
		in := kmsg.NewProduceRequestTopicPartition()
		in.Partition, in.Records = int32(i), b
		t.Partitions = append(t.Partitions, in)
	}
	req.Topics = append(req.Topics, t)
	return req
}

type produced = kmsg.ProduceResponseTopicPartition

// produce asks and returns the partitions' answers.
func (p *peer) produce(req *kmsg.ProduceRequest) []produced {
	p.t.Helper()
	resp := ask[*kmsg.ProduceResponse](p, req)
	if len(resp.Topics) != 1 {
		p.t.Fatalf("produce was answered with %d topics", len(resp.Topics))
	}
	return resp.Topics[0].Partitions
}

// write stores batches in partitions 0, 1 ..., each of which must be taken.
func (p *peer) write(topic string, batches ...[]byte) []produced {
	p.t.Helper()
	out := p.produce(produceTo(9, -1, topic, batches...))
	for _, o := range out {
		if o.ErrorCode != 0 {
			p.t.Fatalf("produce to %s-%d: %s", topic, o.Partition, name(o.ErrorCode))
		}
	}
	return out
}

// end is the log end as ListOffsets tells it.
func (p *peer) end(topic string, partition int32) int64 {
	p.t.Helper()
	return p.list(topic, partition, -1).Offset
}

func (p *peer) list(topic string, partition int32, ts int64) kmsg.ListOffsetsResponseTopicPartition {
	p.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 7
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	in := kmsg.NewListOffsetsRequestTopicPartition()
	in.Partition, in.Timestamp = partition, ts
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	out := ask[*kmsg.ListOffsetsResponse](p, req).Topics[0].Partitions[0]
	if out.ErrorCode != 0 {
		p.t.Fatalf("list offsets of %s-%d: %s", topic, partition, name(out.ErrorCode))
	}
	return out
}

// at is one partition of a Fetch.
type at struct {
	partition int32
	offset    int64
	max       int32 // 0: 1 MiB
}

// fetchOf is a Fetch without session that does not wait.
func fetchOf(version int16, topic string, id [16]byte, parts ...at) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.MaxBytes, req.SessionEpoch = version, 1, 50<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, id
	for _, a := range parts {
		in := kmsg.NewFetchRequestTopicPartition()
		in.Partition, in.FetchOffset, in.PartitionMaxBytes = a.partition, a.offset, a.max
		if a.max == 0 {
			in.PartitionMaxBytes = 1 << 20
		}
		t.Partitions = append(t.Partitions, in)
	}
	if len(parts) > 0 {
		req.Topics = append(req.Topics, t)
	}
	return req
}

type fetched = kmsg.FetchResponseTopicPartition

// fetch asks and returns the partitions of the answer, which carries no error.
func (p *peer) fetch(req *kmsg.FetchRequest) []fetched {
	p.t.Helper()
	resp := ask[*kmsg.FetchResponse](p, req)
	wantCode(p.t, "fetch", resp.ErrorCode, nil)
	return partitionsOf(resp)
}

func partitionsOf(resp *kmsg.FetchResponse) []fetched {
	var out []fetched
	for _, t := range resp.Topics {
		out = append(out, t.Partitions...)
	}
	return out
}

// read is a partition's records from an offset on, to its end.
func (p *peer) read(topic string, partition int32, offset int64) []batch.Batch {
	p.t.Helper()
	var out []batch.Batch
	for end := p.end(topic, partition); offset < end; {
		got := p.fetch(fetchOf(12, topic, [16]byte{}, at{partition, offset, 0}))[0]
		wantCode(p.t, "fetch", got.ErrorCode, nil)
		bs := batches(p.t, got.RecordBatches)
		if len(bs) == 0 {
			p.t.Fatalf("%s-%d: nothing at %d, and the end is %d", topic, partition, offset, end)
		}
		out = append(out, bs...)
		offset = bs[len(bs)-1].NextOffset()
	}
	return out
}

// batches splits what a Fetch returned, which must be whole and sound.
func batches(t *testing.T, b []byte) []batch.Batch {
	t.Helper()
	var out []batch.Batch
	for len(b) > 0 {
		one, rest, err := batch.Next(b)
		if err != nil {
			t.Fatalf("fetched records: %v", err)
		}
		if !one.CRCValid() {
			t.Fatalf("the batch at %d has a wrong checksum", one.BaseOffset())
		}
		out, b = append(out, one), rest
	}
	return out
}

// values of the records in batches.
func values(t *testing.T, bs []batch.Batch) []string {
	t.Helper()
	var out []string
	for _, b := range bs {
		it := batch.Records(b, 64<<20)
		for it.Next() {
			out = append(out, string(it.Record().Value))
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
		it.Close()
	}
	return out
}

// raw is a bare TCP connection, for what no client would send.
type raw struct {
	t *testing.T
	net.Conn
}

func dialRaw(t *testing.T, b *brokertest.Broker) *raw {
	t.Helper()
	nc, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &raw{t, nc}
}

func (r *raw) send(b []byte) {
	r.t.Helper()
	if _, err := r.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

// frame is a request with a header that says any key and version.
func frame(key, version int16, correlation int32, flexible bool, body []byte) []byte {
	var b []byte
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = append(b, 0xff, 0xff) // null client id
	if flexible {
		b = append(b, 0)
	}
	b = append(b, body...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func request(req kmsg.Request, correlation int32) []byte {
	return wire.AppendRequest(nil, req, correlation, nil)
}

// answer reads one frame and returns its correlation id and what follows.
func (r *raw) answer() (int32, []byte) {
	r.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		r.t.Fatalf("no answer: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		r.t.Fatalf("half an answer: %v", err)
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:]
}

// closed expects the connection to end without another byte.
func (r *raw) closed(what string) {
	r.t.Helper()
	rest, err := io.ReadAll(r)
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		r.t.Errorf("%s: the connection stays open", what)
	case len(rest) > 0:
		r.t.Errorf("%s: answered with %x", what, rest[:min(len(rest), 64)])
	}
}

// alive checks that a connection still answers.
func (p *peer) alive() {
	p.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{}
	if n := len(ask[*kmsg.MetadataResponse](p, req).Brokers); n != 1 {
		p.t.Errorf("%d brokers, want 1", n)
	}
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %x, want %x", what, got, want)
	}
}

// fixCRC gives a batch that was changed by hand its right checksum.
func fixCRC(b []byte) {
	const at, from = 17, 21
	binary.BigEndian.PutUint32(b[at:], crc32.Checksum(b[from:], crc32.MakeTable(crc32.Castagnoli)))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
